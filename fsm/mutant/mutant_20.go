//go:build mutant_20

package mutant

const on = 20
