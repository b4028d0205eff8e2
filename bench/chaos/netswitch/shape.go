//go:build linux

package netswitch

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Shape is how bad an edge is. The zero value is a good one: what comes goes on at once.
type Shape struct {
	DelayLow, DelayHigh time.Duration // of each packet, drawn between the two, up to 10 s: what differs comes out of order
	Loss                int           // percent of packets, 0 to 100
	Duplicate           int           // percent, each with a delay of its own
	Reorder             int           // percent that are held back for another delay, 5 ms at least
	Kbit                int           // kbit/s, 64 KiB of which may wait; 0: no limit
	Seed                uint64
}

const (
	delayMost = 10 * time.Second
	holdLeast = 5 * time.Millisecond
	lineBytes = 64 << 10 // wait for a narrow edge
)

// Validate names the first field that cannot be right, and what can.
func (s *Shape) Validate() error {
	for _, p := range []struct {
		name    string
		percent int
	}{{"loss", s.Loss}, {"duplicate", s.Duplicate}, {"reorder", s.Reorder}} {
		if p.percent < 0 || p.percent > 100 {
			return fmt.Errorf("%s is %d, want 0 to 100 percent", p.name, p.percent)
		}
	}
	switch {
	case s.DelayLow < 0 || s.DelayHigh < s.DelayLow || s.DelayHigh > delayMost:
		return fmt.Errorf("delay is %s to %s, want it to rise, from 0s to %s at most", s.DelayLow, s.DelayHigh, delayMost)
	case s.Kbit < 0:
		return fmt.Errorf("rate is %d kbit/s, want more, or 0 for no limit", s.Kbit)
	}
	return nil
}

// good says that the edge does nothing to packets.
func (s *Shape) good() bool {
	return s.DelayHigh == 0 && s.Loss == 0 && s.Duplicate == 0 && s.Reorder == 0 && s.Kbit == 0
}

// takes is how long the edge sends so many bytes.
func (s *Shape) takes(bytes int) time.Duration {
	if s.Kbit == 0 {
		return 0
	}
	return time.Duration(bytes) * 8 * time.Millisecond / time.Duration(s.Kbit)
}

// fate is what becomes of a packet.
type fate struct {
	copies int
	delay  [2]time.Duration // of each copy
	held   int              // copies that are held back
}

// dice is where an edge's chances come from.
func (s *Shape) dice(edge uint64) *rand.Rand { return rand.New(rand.NewPCG(s.Seed, edge)) }

// draw decides about the next packet. It draws the same for each, whatever becomes of it.
func (s *Shape) draw(dice *rand.Rand) (f fate) {
	f.copies = 1
	lost := dice.IntN(100) < s.Loss
	if dice.IntN(100) < s.Duplicate {
		f.copies = 2
	}
	for i := range f.delay {
		f.delay[i] = s.delay(dice)
		more, held := s.delay(dice), dice.IntN(100) < s.Reorder
		if held {
			f.delay[i] += max(more, holdLeast)
			if i < f.copies {
				f.held++
			}
		}
	}
	if lost {
		return fate{}
	}
	return f
}

func (s *Shape) delay(dice *rand.Rand) time.Duration {
	return s.DelayLow + time.Duration(dice.Int64N(int64(s.DelayHigh-s.DelayLow)+1))
}
