//go:build mutant_02

package mutant

const on = 2
