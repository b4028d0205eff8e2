package chaos

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestFit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, tc := range []struct {
		name         string
		slope, noise float64
		n            int
		bound        float64
		above        bool
	}{
		{"flat and exact", 0, 0, 10, 0.1, false},
		{"rising and exact", 2, 0, 10, 1, true},
		{"as steep as may be", 1, 0, 10, 1, false},
		{"flat in noise", 0, 10, 100, 0.1, false},
		{"rising in noise", 2, 10, 200, 1, true},
		{"falling", -2, 1, 50, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var x, y []float64
			for i := range tc.n {
				x = append(x, float64(i))
				y = append(y, 100+tc.slope*float64(i)+tc.noise*(rng.Float64()-0.5))
			}
			got := fit(x, y)
			if math.Abs(got.slope-tc.slope) > 4*got.err+1e-9 {
				t.Errorf("the slope is %g ± %g, want %g", got.slope, got.err, tc.slope)
			}
			if got.above(tc.bound) != tc.above {
				t.Errorf("%+v is above %g: %v, want %v", got, tc.bound, !tc.above, tc.above)
			}
		})
	}
	for name, x := range map[string][]float64{"two points": {1, 2}, "one place": {1, 1, 1, 1}} {
		if got := fit(x, x); !math.IsNaN(got.slope) || got.above(-1) {
			t.Errorf("%s: %+v, want no trend", name, got)
		}
	}
}

func TestShare(t *testing.T) {
	le := []float64{0.001, 0.01, math.Inf(1)}
	for _, tc := range []struct {
		name   string
		counts []float64
		of     float64
		want   float64
	}{
		{"nothing", []float64{0, 0, 0}, 0.99, 0},
		{"no buckets", nil, 0.99, 0},
		{"all short", []float64{100, 100, 100}, 0.99, 0.001},
		{"one in a hundred longer", []float64{99, 100, 100}, 0.99, 0.001},
		{"two in a hundred longer", []float64{98, 100, 100}, 0.99, 0.01},
		{"out of range", []float64{0, 0, 5}, 0.5, math.Inf(1)},
	} {
		if got := share(le, tc.counts, tc.of); got != tc.want {
			t.Errorf("%s: %g, want %g", tc.name, got, tc.want)
		}
	}
}
