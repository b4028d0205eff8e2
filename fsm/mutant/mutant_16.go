//go:build mutant_16

package mutant

const on = 16
