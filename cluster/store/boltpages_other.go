//go:build !linux

package store

func forgetPages(uintptr, int64) {}
