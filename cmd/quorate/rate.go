package main

import (
	"fmt"
	"math"
	"strconv"
)

// thousandths is a flag value: a decimal number of at most three places, kept exactly.
type thousandths int64

func (n *thousandths) String() string { return rateText(n.number()) }

func (n *thousandths) Type() string { return "number" }

func (n *thousandths) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return fmt.Errorf("%q is no number, such as 2.5 or 100", s)
	}
	*n, err = thousandthsOf(v)
	return err
}

func (n thousandths) number() float64 { return float64(n) / 1000 }

// thousandthsOf keeps a number that has no more than three places. What range is good is for others to say.
func thousandthsOf(v float64) (thousandths, error) {
	milli := math.Round(v * 1000)
	if math.IsNaN(v) || math.Abs(milli) > 1e15 || math.Abs(milli-v*1000) > 1e-6*max(1, math.Abs(milli)) {
		return 0, fmt.Errorf("%v is no decimal number of at most three places, such as 2.5 or 100", v)
	}
	return thousandths(milli), nil
}

// rateText writes a rate as short as it is exact, "none" where there is none.
func rateText(v float64) string {
	if v == 0 {
		return "none"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// milliOf is a declared number in thousandths; what it cannot be has been refused.
func milliOf(v float64) int64 {
	n, _ := thousandthsOf(v)
	return int64(n)
}
