//go:build mutant_21

package mutant

const on = 21
