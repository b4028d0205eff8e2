//go:build mutant_09

package mutant

const on = 9
