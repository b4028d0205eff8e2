//go:build mutant_12

package mutant

const on = 12
