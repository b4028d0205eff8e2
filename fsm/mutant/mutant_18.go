//go:build mutant_18

package mutant

const on = 18
