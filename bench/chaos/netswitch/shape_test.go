//go:build linux

package netswitch

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestShapeValidate(t *testing.T) {
	for says, s := range map[string]Shape{
		"loss is 101":                  {Loss: 101},
		"duplicate is -1":              {Duplicate: -1},
		"reorder is 200":               {Reorder: 200},
		"delay is 2s to 1s":            {DelayLow: 2 * time.Second, DelayHigh: time.Second},
		"delay is -1s to":              {DelayLow: -time.Second},
		"to 10s at most":               {DelayHigh: 11 * time.Second},
		"rate is -1 kbit/s, want more": {Kbit: -1},
	} {
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, which does not say %q", s, err, says)
		}
	}
	all := Shape{DelayLow: time.Millisecond, DelayHigh: 300 * time.Millisecond, Loss: 100, Duplicate: 100, Reorder: 100, Kbit: 1, Seed: 1}
	if err := all.Validate(); err != nil {
		t.Error(err)
	}
}

// The same seed, edge and shape decide the same about every packet; another edge, and another seed, something else.
func TestShapeIsDrawnFromTheSeed(t *testing.T) {
	s := Shape{DelayLow: time.Millisecond, DelayHigh: 40 * time.Millisecond, Loss: 20, Duplicate: 20, Reorder: 20, Seed: seed(t)}
	draw := func(s Shape, edge uint64) (all []fate) {
		dice := s.dice(edge)
		for range 1000 {
			all = append(all, s.draw(dice))
		}
		return all
	}
	first, other := draw(s, 3), s
	other.Seed++
	if !slices.Equal(first, draw(s, 3)) {
		t.Error("the same seed and edge draw differently")
	}
	if slices.Equal(first, draw(s, 4)) || slices.Equal(first, draw(other, 3)) {
		t.Error("another edge, or another seed, draws the same")
	}
	var lost, doubled, held int
	for _, f := range first {
		switch f.copies {
		case 0:
			lost++
			continue
		case 2:
			doubled++
		}
		held += f.held
		for _, d := range f.delay {
			if d < s.DelayLow || d > 2*s.DelayHigh {
				t.Fatalf("delay of %s", d)
			}
		}
	}
	// 20 % of a thousand, of 800, and of 960 copies, with six standard deviations of room.
	for what, c := range map[string][2]int{"lost": {lost, 200}, "doubled": {doubled, 160}, "held": {held, 192}} {
		if d := c[0] - c[1]; d < -76 || d > 76 {
			t.Errorf("%d of 1000 are %s, want about %d", c[0], what, c[1])
		}
	}
}

func TestShapeExtremes(t *testing.T) {
	for name, tc := range map[string]struct {
		shape Shape
		want  fate
	}{
		"good":      {Shape{}, fate{copies: 1}},
		"all lost":  {Shape{Loss: 100, Duplicate: 100}, fate{}},
		"all twice": {Shape{Duplicate: 100}, fate{copies: 2}},
		"all late":  {Shape{DelayLow: time.Second, DelayHigh: time.Second}, fate{copies: 1, delay: [2]time.Duration{time.Second, time.Second}}},
		"all held":  {Shape{Reorder: 100}, fate{copies: 1, held: 1, delay: [2]time.Duration{holdLeast, holdLeast}}},
	} {
		dice := tc.shape.dice(1)
		for range 100 {
			if got := tc.shape.draw(dice); got != tc.want {
				t.Errorf("%s: %+v, want %+v", name, got, tc.want)
				break
			}
		}
	}
	for kbit, want := range map[int]time.Duration{0: 0, 1000: 12 * time.Millisecond, 8: 1500 * time.Millisecond} {
		if got := (&Shape{Kbit: kbit}).takes(1500); got != want {
			t.Errorf("1500 bytes at %d kbit/s take %s, want %s", kbit, got, want)
		}
	}
}
