//go:build mutant_08

package mutant

const on = 8
