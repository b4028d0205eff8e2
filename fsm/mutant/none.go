//go:build !(mutant_01 || mutant_02 || mutant_03 || mutant_04 || mutant_05 || mutant_06 || mutant_07 || mutant_08 || mutant_09 || mutant_10 || mutant_11 || mutant_12 || mutant_13 || mutant_14 || mutant_15 || mutant_16 || mutant_17 || mutant_18 || mutant_19 || mutant_20 || mutant_21 || mutant_22 || mutant_23 || mutant_24)

package mutant

const on = 0
