//go:build mutant_10

package mutant

const on = 10
