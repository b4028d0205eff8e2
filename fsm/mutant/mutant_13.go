//go:build mutant_13

package mutant

const on = 13
