//go:build mutant_24

package mutant

const on = 24
