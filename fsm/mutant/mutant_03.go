//go:build mutant_03

package mutant

const on = 3
