//go:build mutant_23

package mutant

const on = 23
