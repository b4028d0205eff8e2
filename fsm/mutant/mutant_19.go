//go:build mutant_19

package mutant

const on = 19
