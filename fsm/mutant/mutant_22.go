//go:build mutant_22

package mutant

const on = 22
