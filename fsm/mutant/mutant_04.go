//go:build mutant_04

package mutant

const on = 4
