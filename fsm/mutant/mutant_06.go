//go:build mutant_06

package mutant

const on = 6
