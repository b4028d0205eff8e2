package chaos

import "math"

// trend is the straight line through points by least squares, with how far its slope can be trusted.
type trend struct {
	slope float64 // of y for each of x
	err   float64 // the slope's standard error
}

// fit draws it. Fewer than three points, or all at one x, have no trend: NaN.
//
// Source: ordinary least squares; err² = Σ(y−ŷ)² / (n−2) / Σ(x−x̄)².
func fit(x, y []float64) trend {
	n := float64(len(x))
	if len(x) < 3 {
		return trend{math.NaN(), math.NaN()}
	}
	var mx, my float64
	for i := range x {
		mx += x[i] / n
		my += y[i] / n
	}
	var xx, xy float64
	for i := range x {
		xx += (x[i] - mx) * (x[i] - mx)
		xy += (x[i] - mx) * (y[i] - my)
	}
	if xx == 0 {
		return trend{math.NaN(), math.NaN()}
	}
	t := trend{slope: xy / xx}
	var rest float64
	for i := range x {
		d := y[i] - my - t.slope*(x[i]-mx)
		rest += d * d
	}
	t.err = math.Sqrt(rest / (n - 2) / xx)
	return t
}

// above says that the slope is above a bound beyond what chance explains: by more than three standard errors.
func (t trend) above(bound float64) bool { return t.slope-3*t.err > bound }

// share is the upper bound of the bucket of a histogram below which the given share of what was counted lies: le are the upper
// bounds, rising, the last +Inf; counts are cumulative, as Prometheus has them. 0 where nothing was counted.
func share(le, counts []float64, of float64) float64 {
	if len(counts) == 0 || counts[len(counts)-1] == 0 {
		return 0
	}
	for i, c := range counts {
		if c >= of*counts[len(counts)-1] {
			return le[i]
		}
	}
	return math.Inf(1)
}
