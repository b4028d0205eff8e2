//go:build mutant_17

package mutant

const on = 17
