package push

import "time"

// A breaker's numbers.
const (
	breakAfter = 5 // failures in a row
	restLeast  = time.Second
	restMost   = time.Minute
	retryMost  = 10 * time.Minute // of a Retry-After
)

// breaker decides when a queue rests. It has no clock and no lock: whoever asks has both.
type breaker struct {
	failures int           // in a row
	rest     time.Duration // the last one; 0: none since the last success
}

// trial says whether one message at a time is tried.
func (b *breaker) trial() bool { return b.rest > 0 }

// good is a request that the endpoint has answered as it should.
func (b *breaker) good() { *b = breaker{} }

// bad is one more failure. It says for how long to rest, 0 for not at all.
func (b *breaker) bad() time.Duration {
	if b.failures++; b.failures < breakAfter && !b.trial() {
		return 0
	}
	return b.longer()
}

// longer is a rest, twice as long as the one before.
func (b *breaker) longer() time.Duration {
	b.rest = min(max(2*b.rest, restLeast), restMost)
	return b.rest
}

// asked is an endpoint's wish for a rest, 0 if it does not say for how long.
func (b *breaker) asked(d time.Duration) time.Duration {
	own := b.longer()
	if d <= 0 {
		return own
	}
	return min(max(d, restLeast), retryMost)
}
