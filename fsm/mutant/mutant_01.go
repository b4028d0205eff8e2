//go:build mutant_01

package mutant

const on = 1
