//go:build mutant_15

package mutant

const on = 15
