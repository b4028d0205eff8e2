package fsm

// A rate is kept by GCRA, the generic cell rate algorithm: one instant (TAT, the theoretical arrival time) says all that is to
// be known of the deliveries so far. With an interval of I ns between deliveries and room for a burst of B, a delivery is
// allowed at now iff TAT ≤ now + (B − 1)·I, and moves TAT to max(TAT, now) + I. Log time is in ms, TAT in ns.

// Ranges of rates, in thousandths of a delivery a second, and of bursts, in deliveries.
const (
	LimitRateMilli = 1_000_000_000 // a million a second
	LimitBurst     = 1_000_000
)

const (
	nanosPerMilli = 1_000_000
	// rateHorizon is the T, in ms, from which on rates hold nothing back: beyond it an instant in ns would not fit its number.
	rateHorizon = 8_000_000_000_000 // the year 2223
)

// bucket is a rate as decisions need it. The zero bucket is no limit.
type bucket struct {
	interval int64 // I, ns: 1,000 to 1e12
	slack    int64 // (B − 1)·I, ns: at most 1e18
}

// bucketOf makes the bucket of a valid rate; burst 0 is one second's worth, and at least 1.
func bucketOf(rateMilli, burst int64) bucket {
	if rateMilli == 0 {
		return bucket{}
	}
	if burst == 0 {
		burst = max(1, rateMilli/1000)
	}
	i := 1_000_000_000_000 / rateMilli
	return bucket{interval: i, slack: (burst - 1) * i}
}

// limits says whether the bucket holds anything back at T = now.
func (b bucket) limits(now int64) bool { return b.interval != 0 && now < rateHorizon }

// room is how many deliveries it allows at T = now.
func (b bucket) room(tat, now int64) int64 {
	if !b.limits(now) {
		return 1<<63 - 1
	}
	left := now*nanosPerMilli + b.slack - max(tat, now*nanosPerMilli)
	if left < 0 {
		return 0
	}
	return left/b.interval + 1
}

// take is TAT after one more delivery at T = now, which was allowed.
func (b bucket) take(tat, now int64) int64 {
	if !b.limits(now) {
		return tat
	}
	return max(tat, now*nanosPerMilli) + b.interval
}

// next is the first T, in ms, at which a delivery is allowed; from the horizon on all are.
func (b bucket) next(tat int64) int64 {
	at := tat - b.slack
	if b.interval == 0 || at <= 0 {
		return 0
	}
	return min((at+nanosPerMilli-1)/nanosPerMilli, rateHorizon)
}

// cut is TAT when this bucket takes the place of another: what the old one has taken counts for no more than a full bucket,
// so that a higher rate is felt at once.
func (b bucket) cut(tat, now int64) int64 {
	if !b.limits(now) {
		return 0
	}
	return min(tat, now*nanosPerMilli+b.slack+b.interval)
}

// changeRate has what the queue's rate was until now count for its new one.
func (s *State) changeRate(q *queue) {
	if t := s.tallies.Get(q.slot); t.tat != 0 {
		s.tallies.Mut(q.slot).tat = q.meta.rate.cut(t.tat, s.now)
	}
}

// Outlook is what a queue can give at an instant that may be later than the last entry's.
type Outlook struct {
	Ready int64 // of the messages that are ready now, how many can be leased then; where time opens keys, those at least
	Most  int64 // no more than these can be leased then, whatever else becomes ready
	Next  int64 // the first T at which time alone lets out more than can be leased then; 0: none does
}

// heldLooks is how many of the keys that time has opened an outlook counts.
const heldLooks = 64

// offeredBy is how many messages the keys offer in addition that a rate will have let go when T is at.
func (s *State) offeredBy(q *queue, at int64) (n int64) {
	for pos := range int32(min(heldLooks, q.held.Len())) { // the earliest are at the front
		if until, ki := q.held.At(pos); until <= at {
			k := s.keys.Get(ki)
			n += min(int64(k.ready), s.keyRoom(q, k, at))
		}
	}
	return n
}

// Outlook looks at a queue as it will be at T = at, if nothing but time comes between.
func (s *State) Outlook(r QueueRef, at int64) (o Outlook) {
	q := s.of(r)
	if q == nil {
		return o
	}
	at = max(at, s.now)
	o.Ready, o.Most = s.leasableAt(q, at), 1<<63-1
	t, opt, rate := s.tallies.Get(q.slot), &q.meta.options, q.meta.rate
	if opt.Paused {
		return o
	}
	others := t.ready - q.blocked
	if opt.Delivery == DeliverAtMostOnce {
		others = t.ready
	} else if opt.MaxInFlight != 0 {
		others = min(others, opt.MaxInFlight-t.leased)
	}
	if others <= o.Ready {
		o.Most = rate.room(t.tat, at)
		return o
	}
	if rate.limits(at) {
		o.Most = rate.room(t.tat, at)
		if o.Most == o.Ready {
			// One more than there is room for: after as many deliveries at that time.
			tat := t.tat
			if o.Most > 0 {
				tat = max(tat, at*nanosPerMilli) + o.Most*rate.interval
			}
			o.Next = max(at+1, rate.next(tat))
			return o
		}
	}
	if until, _, ok := q.held.Min(); ok && until > at {
		o.Next = until
	}
	return o
}

// paid says whether an instant, ns, is over at T = now.
func paid(tat, now int64) bool { return now >= rateHorizon || tat <= now*nanosPerMilli }
