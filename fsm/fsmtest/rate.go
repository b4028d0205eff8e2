package fsmtest

import (
	"fmt"

	"github.com/quorate/quorate/fsm"
)

// bucket is a rate with its burst: one delivery each interval, so many at once.
type bucket struct {
	interval int64 // ns; 0: no limit
	slack    int64 // ns by which a delivery may be early
}

func newBucket(rateMilli, burst int64) (b bucket) {
	if rateMilli == 0 {
		return b
	}
	if burst == 0 {
		burst = max(1, rateMilli/1000)
	}
	b.interval = 1_000_000_000_000 / rateMilli
	b.slack = (burst - 1) * b.interval
	return b
}

// rateHorizon is the T from which on rates hold nothing back, and move nothing.
const rateHorizon = 8_000_000_000_000

// holds says whether the rate can hold anything back at T.
func (b bucket) holds(t int64) bool { return b.interval > 0 && t < rateHorizon }

// tokens is how many deliveries there may be at T, when the next one is due in theory at tat, ns.
func (b bucket) tokens(tat, t int64) int64 {
	if !b.holds(t) {
		return 1 << 40
	}
	now := t * 1_000_000
	if tat = max(tat, now); tat > now+b.slack {
		return 0
	}
	return (now+b.slack-tat)/b.interval + 1
}

// next is the first T at which there may be a delivery, where the rate holds one back.
func (b bucket) next(tat int64) int64 { return min((tat-b.slack+999_999)/1_000_000, rateHorizon) }

// take is when the next delivery is due in theory, after one at T.
func (b bucket) take(tat, t int64) int64 {
	if !b.holds(t) {
		return tat
	}
	return max(tat, t*1_000_000) + b.interval
}

// cut is an instant as it stands under another rate: no later than that could have made it.
func (b bucket) cut(tat, t int64) int64 {
	if !b.holds(t) {
		return 0
	}
	return min(tat, t*1_000_000+b.slack+b.interval)
}

// rate is a queue's bucket.
func (q *queue) rate() bucket { return newBucket(q.options.RateMilli, q.options.Burst) }

// rateFaults judges a rate and a burst.
func rateFaults(rateMilli, burst int64, rateField, burstField fsm.Field) []fault {
	return []fault{
		{rateField, !within(rateMilli, 0, 1_000_000_000)},
		{burstField, !within(burst, 0, 1_000_000) || burst > 0 && rateMilli == 0},
	}
}

// compareOutlook compares what a queue can give at T and later, if nothing but time comes between.
func (p *Pair) compareOutlook(name string, ref fsm.QueueRef) error {
	q, t := p.Model.queue(name), p.Model.t
	if q.keyed() {
		return p.compareKeyedOutlook(q, ref)
	}
	b := q.rate()
	for _, at := range []int64{t, t + 1, t + 7, t + 1000, t + 60_000} {
		got := p.State.Outlook(ref, at)
		tokens, waiting := b.tokens(q.tat, at), q.servable()
		if want := min(q.slots(), waiting, tokens); got.Ready != want {
			return fmt.Errorf("queue %s: ready at T+%d: want %d, got %+v", name, at-t, want, got)
		}
		if got.Most < min(q.slots(), tokens) || b.holds(at) && !q.options.Paused && got.Most > tokens {
			return fmt.Errorf("queue %s: most at T+%d: want %d, got %+v", name, at-t, min(q.slots(), tokens), got)
		}
		held := tokens < min(q.slots(), waiting)
		switch {
		case held && got.Next == 0:
			return fmt.Errorf("queue %s: at T+%d the rate holds %d of %d back, and there is no time: %+v", name, at-t, waiting-tokens, waiting, got)
		case got.Next != 0:
			tat := q.tat
			for range min(tokens, 1<<20) {
				tat = b.take(tat, at)
			}
			if b.tokens(tat, got.Next) == 0 || b.tokens(tat, got.Next-1) > 0 {
				return fmt.Errorf("queue %s: the %d of T+%d taken, the next is at T+%d, when there are %d, and %d before it", name, tokens, at-t,
					got.Next-t, b.tokens(tat, got.Next), b.tokens(tat, got.Next-1))
			}
		}
	}
	return nil
}
