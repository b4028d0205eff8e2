//go:build mutant_05

package mutant

const on = 5
