//go:build mutant_14

package mutant

const on = 14
