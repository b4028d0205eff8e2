package push

import (
	"slices"
	"testing"
	"time"
)

func TestBreaker(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for _, c := range []struct {
		name string
		does string // g: good, b: bad, k: a knock in vain, a: asked for nothing in particular, A: asked for 7 s, H: asked for an hour
		want []time.Duration
	}{
		{"few failures", "bbbb", []time.Duration{0, 0, 0, 0}},
		{"five in a row", "bbbbb", []time.Duration{0, 0, 0, 0, s}},
		{"a success between", "bbbbgbbbbb", []time.Duration{0, 0, 0, 0, 0, 0, 0, 0, 0, s}},
		{"trials that fail", "bbbbbbbbbbbbb", []time.Duration{0, 0, 0, 0, s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s, 60 * s}},
		{"a trial that does not", "bbbbbbgb", []time.Duration{0, 0, 0, 0, s, 2 * s, 0, 0}},
		{"knocks in vain", "bbbbbkkb", []time.Duration{0, 0, 0, 0, s, 2 * s, 4 * s, 8 * s}},
		{"asked", "aaag", []time.Duration{s, 2 * s, 4 * s, 0}},
		{"asked for so long", "AAg", []time.Duration{7 * s, 7 * s, 0}},
		{"asked for too long", "H", []time.Duration{600 * s}},
	} {
		var b breaker
		var got []time.Duration
		for _, do := range c.does {
			var d time.Duration
			switch do {
			case 'g':
				b.good()
			case 'b':
				d = b.bad()
			case 'k':
				d = b.longer()
			case 'a':
				d = b.asked(0)
			case 'A':
				d = b.asked(7 * s)
			case 'H':
				d = b.asked(time.Hour)
			}
			got = append(got, d)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: rests %v, want %v", c.name, got, c.want)
		}
		if b.trial() != (c.does[len(c.does)-1] != 'g' && got[len(got)-1] > 0) {
			t.Errorf("%s: trial is %t", c.name, b.trial())
		}
	}
}
