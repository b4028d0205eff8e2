package chaos

import "math"

// trend is the straight line through points by least squares, with how far its slope can be trusted.
type trend struct {
	slope float64 // of y for each of x
	err   float64 // the slope's standard error
	free  int     // degrees of freedom: points beyond the two that any line goes through
}

// fit draws it. Fewer than three points, or all at one x, have no trend: NaN.
//
// Source: ordinary least squares; err² = Σ(y−ŷ)² / (n−2) / Σ(x−x̄)².
func fit(x, y []float64) trend {
	n := float64(len(x))
	if len(x) < 3 {
		return trend{math.NaN(), math.NaN(), 0}
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
		return trend{math.NaN(), math.NaN(), 0}
	}
	t := trend{slope: xy / xx, free: len(x) - 2}
	var rest float64
	for i := range x {
		d := y[i] - my - t.slope*(x[i]-mx)
		rest += d * d
	}
	t.err = math.Sqrt(rest / (n - 2) / xx)
	return t
}

// student is how many standard errors a slope that is flat is above 0 in one case of a thousand, by degrees of freedom; between two of
// them the smaller one's counts.
//
// Source: Student's t distribution, one-sided 0.001.
var student = []struct {
	free   int
	errors float64
}{{60, 3.24}, {30, 3.39}, {20, 3.56}, {15, 3.74}, {10, 4.15}, {8, 4.51}, {6, 5.21}, {5, 5.90}, {4, 7.18}, {3, 10.22}, {2, 22.33}, {1, 318.31}}

// above says that the slope is above a bound beyond what chance explains in all but one case of a thousand.
func (t trend) above(bound float64) bool {
	for _, s := range student {
		if t.free >= s.free {
			return t.slope-s.errors*t.err > bound
		}
	}
	return false
}

// troughs are the lowest values between one rise of count and the next, and when they were seen: of a saw-tooth each whole tooth's. What
// is before the first rise and after the last is left out.
func troughs(at, v, count []float64) (x, y []float64) {
	from := -1 // where the tooth began
	for i := 1; i < len(v); i++ {
		if count[i] == count[i-1] {
			continue
		}
		if from >= 0 {
			low := from
			for j := from; j < i; j++ {
				if v[j] < v[low] {
					low = j
				}
			}
			x, y = append(x, at[low]), append(y, v[low])
		}
		from = i
	}
	return x, y
}

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
