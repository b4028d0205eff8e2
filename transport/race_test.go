//go:build race

package transport

// The race detector's own memory counts as the program's.
func init() { racing = true }
