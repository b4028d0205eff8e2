package fsmtest

import (
	"math/bits"

	"github.com/quorate/quorate/fsm"
)

// retryWithDefaults fills in what a policy leaves unset, and clears what its kind does not use.
func retryWithDefaults(p fsm.RetryPolicy) fsm.RetryPolicy {
	switch p.Kind {
	case fsm.RetryFixed, fsm.RetryLinear, fsm.RetryExponential:
		if p.InitialMillis == 0 {
			p.InitialMillis = 1000
		}
		if p.MaxAttempts == 0 {
			p.MaxAttempts = 5
		}
		if p.Kind != fsm.RetryFixed && p.MaxMillis == 0 {
			p.MaxMillis = 60_000
		}
		if p.Kind == fsm.RetryExponential && p.MultiplierMilli == 0 {
			p.MultiplierMilli = 2000
		}
	}
	return p
}

// validRetry judges a policy that has its defaults.
func validRetry(p fsm.RetryPolicy) bool {
	if !within(p.JitterMillis, 0, maxDelay) {
		return false
	}
	switch p.Kind {
	case fsm.RetryDefault:
		return true
	case fsm.RetrySchedule:
		if len(p.Steps) < 1 || len(p.Steps) > 100 {
			return false
		}
		for _, s := range p.Steps {
			if !within(s, 0, maxDelay) {
				return false
			}
		}
		return true
	case fsm.RetryFixed, fsm.RetryLinear, fsm.RetryExponential:
		return within(p.InitialMillis, 0, maxDelay) && within(int64(p.MaxAttempts), 1, 1000) &&
			(p.Kind == fsm.RetryFixed || within(p.MaxMillis, 0, maxDelay)) &&
			(p.Kind != fsm.RetryExponential || within(p.MultiplierMilli, 1000, 100_000))
	}
	return false
}

// policy is the retry policy that decides about a message now.
func policy(q *queue, x *message) fsm.RetryPolicy {
	if x.retry.Kind != fsm.RetryDefault {
		return x.retry
	}
	return q.options.Retry
}

// maxAttempts is how many deliveries that cost one a policy allows.
func maxAttempts(p fsm.RetryPolicy) int32 {
	if p.Kind == fsm.RetrySchedule {
		return int32(len(p.Steps)) + 1
	}
	return p.MaxAttempts
}

// retryDelay is how long, in ms, a message waits after its attempt n, from 1, failed.
func retryDelay(p fsm.RetryPolicy, id fsm.ID, n int32) int64 {
	var d int64
	switch p.Kind {
	case fsm.RetrySchedule:
		d = p.Steps[n-1]
	case fsm.RetryFixed:
		d = p.InitialMillis
	case fsm.RetryLinear:
		d = p.MaxMillis
		if hi, lo := bits.Mul64(uint64(p.InitialMillis), uint64(n)); hi == 0 && lo < uint64(d) {
			d = int64(lo)
		}
	case fsm.RetryExponential:
		most := p.MaxMillis * 1000
		micros := min(p.InitialMillis*1000, most)
		for i := int32(1); i < n && micros < most; i++ {
			micros = min(micros*p.MultiplierMilli/1000, most)
		}
		d = micros / 1000
	}
	return d + retryJitter(id, n, p.JitterMillis)
}

// retryJitter is a value in [0, most] drawn from the message id and the attempt.
func retryJitter(id fsm.ID, n int32, most int64) int64 {
	if most == 0 {
		return 0
	}
	return int64(mix(id.Hi^mix(id.Lo+uint64(n)*0x9E3779B97F4A7C15)) % uint64(most+1))
}

// mix is the SplitMix64 finaliser.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}
