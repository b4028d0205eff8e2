//go:build mutant_11

package mutant

const on = 11
