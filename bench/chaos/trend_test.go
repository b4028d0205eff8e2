package chaos

import (
	"math"
	"math/rand/v2"
	"slices"
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

func TestTroughs(t *testing.T) {
	for _, tc := range []struct {
		name     string
		v, count []float64
		x, y     []float64
	}{
		{name: "nothing"},
		{name: "no tooth is whole", v: []float64{3, 1, 2, 3}, count: []float64{0, 1, 1, 1}},
		{name: "one whole tooth", v: []float64{9, 2, 1, 3, 0}, count: []float64{0, 1, 1, 1, 2}, x: []float64{2}, y: []float64{1}},
		{name: "one after the other", v: []float64{9, 5, 6, 4, 3, 0}, count: []float64{4, 5, 5, 6, 6, 7}, x: []float64{1, 4}, y: []float64{5, 3}},
		{name: "two rises at once", v: []float64{9, 5, 6, 4}, count: []float64{0, 1, 3, 4}, x: []float64{1, 2}, y: []float64{5, 6}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			at := make([]float64, len(tc.v))
			for i := range at {
				at[i] = float64(i)
			}
			x, y := troughs(at, tc.v, tc.count)
			if !slices.Equal(x, tc.x) || !slices.Equal(y, tc.y) {
				t.Errorf("troughs at %v of %v, want %v and %v", x, y, tc.x, tc.y)
			}
		})
	}
}

// Memory that is a saw-tooth of a minute and 150 MiB does not grow, however many teeth are seen; if it grows by 40 MiB an hour beside, some
// forty teeth show it.
func TestSawToothAndLeak(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, tc := range []struct {
		name  string
		teeth int
		leak  float64 // MiB an hour
		above bool
	}{
		{"three teeth", 3, 0, false},
		{"eight teeth", 8, 0, false},
		{"forty teeth", 40, 0, false},
		{"forty teeth and a leak", 40, 40, true},
		{"forty teeth and a great leak", 40, 1000, true},
		{"eight teeth and a great leak", 8, 1000, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for seed := range 200 {
				var at, v, count []float64
				teeth := 0.0
				for i := range 60*tc.teeth + 60 {
					x := float64(i) / 3600
					if i%60 == seed%60 {
						teeth++
					}
					tooth := float64((i+60-seed%60)%60) / 60
					at, count = append(at, x), append(count, teeth)
					v = append(v, 300+tc.leak*x+150*tooth+5*rng.Float64())
				}
				x, y := troughs(at, v, count)
				if got := fit(x, y).above(1); got != tc.above {
					t.Fatalf("seed %d: %d troughs, %+v, grows: %v, want %v", seed, len(x), fit(x, y), got, tc.above)
				}
			}
		})
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
