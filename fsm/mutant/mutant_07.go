//go:build mutant_07

package mutant

const on = 7
