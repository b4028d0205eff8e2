package fsm

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// Limits and defaults of retry policies.
const (
	MaxDelayMillis = 366 * 24 * 3600 * 1000 // the longest delay, jitter or window: 366 days

	MaxRetrySteps         = 100
	MaxRetryAttempts      = 1000
	MinMultiplierMilli    = 1000
	MaxMultiplierMilli    = 100_000
	DefaultInitialMillis  = 1000
	DefaultMultiplier     = 2000 // thousandths
	DefaultMaxMillis      = 60_000
	DefaultMaxAttempts    = 5
	defaultScheduleLength = 3
)

// defaultSchedule is the schedule of a queue that names no policy.
var defaultSchedule = [defaultScheduleLength]int64{1000, 5000, 10_000}

// Errors of RetryPolicy.Validate; the text that wraps them names value and range.
var errRetry = errors.New("retry policy")

// Normalize fills in what is unset: the default schedule where there is no policy, the default of each number that the
// kind uses. What the kind does not use is set to zero, so that equal policies are equal values.
func (p *RetryPolicy) Normalize() {
	n := RetryPolicy{Kind: p.Kind, JitterMillis: p.JitterMillis}
	switch p.Kind {
	case RetryDefault:
		n.Kind = RetrySchedule
		n.Steps = slices.Clone(defaultSchedule[:])
	case RetrySchedule:
		n.Steps = p.Steps
	case RetryExponential:
		n.MultiplierMilli = orDefault(p.MultiplierMilli, DefaultMultiplier)
		fallthrough
	case RetryLinear:
		n.MaxMillis = orDefault(p.MaxMillis, DefaultMaxMillis)
		fallthrough
	case RetryFixed:
		n.InitialMillis = orDefault(p.InitialMillis, DefaultInitialMillis)
		n.MaxAttempts = int32(orDefault(int64(p.MaxAttempts), DefaultMaxAttempts))
	default:
		return // not a policy: Validate says so
	}
	*p = n
}

func orDefault(v, d int64) int64 {
	if v == 0 {
		return d
	}
	return v
}

// Validate reports the first value out of its range. Unset values are good: they mean the default.
func (p *RetryPolicy) Validate() error {
	bad := func(what string, v, lo, hi int64) error {
		return fmt.Errorf("%w: %s %d, want %d to %d", errRetry, what, v, lo, hi)
	}
	if p.Kind > RetryExponential {
		return fmt.Errorf("%w: kind %d is unknown", errRetry, p.Kind)
	}
	if p.JitterMillis < 0 || p.JitterMillis > MaxDelayMillis {
		return bad("jitter_ms", p.JitterMillis, 0, MaxDelayMillis)
	}
	if p.Kind == RetrySchedule {
		if n := len(p.Steps); n < 1 || n > MaxRetrySteps {
			return bad("schedule steps", int64(n), 1, MaxRetrySteps)
		}
	} else if len(p.Steps) != 0 {
		return fmt.Errorf("%w: steps are given, want none but for kind schedule", errRetry)
	}
	for i, s := range p.Steps {
		if s < 0 || s > MaxDelayMillis {
			return bad(fmt.Sprintf("schedule step %d", i+1), s, 0, MaxDelayMillis)
		}
	}
	if p.InitialMillis < 0 || p.InitialMillis > MaxDelayMillis {
		return bad("initial_ms", p.InitialMillis, 0, MaxDelayMillis)
	}
	if p.MaxMillis < 0 || p.MaxMillis > MaxDelayMillis {
		return bad("max_ms", p.MaxMillis, 0, MaxDelayMillis)
	}
	if m := p.MultiplierMilli; m != 0 && (m < MinMultiplierMilli || m > MaxMultiplierMilli) {
		return bad("multiplier in thousandths", m, MinMultiplierMilli, MaxMultiplierMilli)
	}
	if p.MaxAttempts < 0 || p.MaxAttempts > MaxRetryAttempts {
		return bad("max_attempts", int64(p.MaxAttempts), 1, MaxRetryAttempts)
	}
	return nil
}

// Equal compares two policies value by value; normalize both first to compare their meaning.
func (p *RetryPolicy) Equal(o *RetryPolicy) bool {
	return p.Kind == o.Kind && p.InitialMillis == o.InitialMillis && p.MultiplierMilli == o.MultiplierMilli &&
		p.MaxMillis == o.MaxMillis && p.MaxAttempts == o.MaxAttempts && p.JitterMillis == o.JitterMillis &&
		slices.Equal(p.Steps, o.Steps)
}

// Attempts is how many deliveries that cost an attempt a message gets before it dies, at least 1.
func (p *RetryPolicy) Attempts() int32 {
	switch p.Kind {
	case RetryDefault:
		return defaultScheduleLength + 1
	case RetrySchedule:
		return int32(min(len(p.Steps), MaxRetrySteps)) + 1
	}
	return int32(min(max(1, orDefault(int64(p.MaxAttempts), DefaultMaxAttempts)), MaxRetryAttempts))
}

// Delay is how long, in milliseconds, the message waits after its attempt number n (from 1) failed. It is the same on
// every node, never negative and never more than 2 × 366 days. A number past the policy's last waits as the last does.
func (p *RetryPolicy) Delay(id ID, attempt int32) int64 {
	n := int64(max(attempt, 1))
	steps := p.Steps
	var d int64
	switch p.Kind {
	case RetryDefault:
		steps = defaultSchedule[:]
		fallthrough
	case RetrySchedule:
		if len(steps) > 0 {
			d = steps[min(n, int64(len(steps)))-1]
		}
	case RetryLinear:
		d = min(mulCap(orDefault(p.InitialMillis, DefaultInitialMillis), n), orDefault(p.MaxMillis, DefaultMaxMillis))
	case RetryExponential:
		d = p.exponential(n)
	default: // RetryFixed
		d = orDefault(p.InitialMillis, DefaultInitialMillis)
	}
	d = min(max(d, 0), MaxDelayMillis)
	if j := min(p.JitterMillis, MaxDelayMillis); j > 0 {
		d += int64(jitter(id, n) % uint64(j+1))
	}
	return d
}

// exponential grows in whole microseconds and stops at the cap; a multiplier of 1 is a fixed delay.
func (p *RetryPolicy) exponential(n int64) int64 {
	limit := mulCap(orDefault(p.MaxMillis, DefaultMaxMillis), 1000)
	m := min(max(orDefault(p.MultiplierMilli, DefaultMultiplier), MinMultiplierMilli), MaxMultiplierMilli)
	d := min(mulCap(orDefault(p.InitialMillis, DefaultInitialMillis), 1000), limit)
	if m > MinMultiplierMilli {
		for i := int64(1); i < n && d < limit; i++ {
			next := min(mulCap(d, m)/1000, limit)
			if next == d { // too small to grow: ⌊d·m/1000⌋ = d for ever
				break
			}
			d = next
		}
	}
	return d / 1000
}

const maxInt64 = 1<<63 - 1

// mulCap is a × b for a, b ≥ 0, or the largest int64 where that does not fit. A negative a counts as 0.
func mulCap(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(max(a, 0)), uint64(max(b, 0)))
	if hi != 0 || lo > maxInt64 {
		return maxInt64
	}
	return int64(lo)
}

// jitter is the number from which the extra delay of attempt n is taken: two rounds of the SplitMix64 finaliser over the
// id and n, so that messages of one entry spread although their ids are neighbours.
func jitter(id ID, n int64) uint64 {
	return mix(id.Hi ^ mix(id.Lo+uint64(n)*0x9E3779B97F4A7C15))
}

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014).
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}
