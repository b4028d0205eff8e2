package fsm

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestBucket(t *testing.T) {
	for _, c := range []struct {
		name        string
		milli, size int64
		burst       int64 // deliveries that empty the bucket at T 1000
		at          int64 // T of the look
		room, next  int64 // at that time; the first at which there is room
	}{
		{"one a second, at once", 1000, 1, 1, 1000, 0, 2000},
		{"one a second, a millisecond early", 1000, 1, 1, 1999, 0, 2000},
		{"one a second, in time", 1000, 1, 1, 2000, 1, 2000},
		{"one a second, much later", 1000, 1, 1, 90_000, 1, 2000},
		{"no burst given: a second's worth", 5000, 0, 5, 2000, 5, 1200},
		{"no burst given, less than one a second", 500, 0, 1, 3000, 1, 3000},
		{"burst of three, one back", 1000, 3, 3, 2999, 1, 2000},
		{"burst of three, all back", 1000, 3, 3, 4000, 3, 2000},
		{"burst of three, never more", 1000, 3, 3, 40_000, 3, 2000},
		{"three in ten milliseconds", 300_000, 1, 1, 1003, 0, 1004},
		{"three in ten milliseconds, in time", 300_000, 1, 1, 1004, 1, 1004},
		{"the slowest", 1, 1, 1, 1_001_000, 1, 1_001_000},
		{"the fastest", LimitRateMilli, 1, 1, 1001, 1, 1001},
		{"the fastest, a burst", LimitRateMilli, LimitBurst, LimitBurst, 1001, 1000, 1001},
		{"the largest", 1, LimitBurst, LimitBurst, 1_000_999, 0, 1_001_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := bucketOf(c.milli, c.size)
			tat := int64(0)
			n := int64(0)
			for b.room(tat, 1000) > 0 {
				left := b.room(tat, 1000)
				tat = b.take(tat, 1000)
				n++
				must(t, "room", b.room(tat, 1000), left-1)
			}
			must(t, "burst", n, c.burst)
			must(t, "next", b.next(tat), c.next)
			must(t, "room", b.room(tat, c.at), c.room)
		})
	}
	b := bucketOf(1000, 1)
	must(t, "beyond the horizon nothing is held back", b.room(b.take(0, rateHorizon), rateHorizon), int64(1<<63-1))
	must(t, "nor what a rate has held until then", b.next(b.take(0, rateHorizon-1)), int64(rateHorizon))
}

// TestBucketIsExact compares with a count: in no stretch of time more than the burst and what the rate lets through in it.
func TestBucketIsExact(t *testing.T) {
	for _, seed := range seeds(t, 20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		milli := int64(1 + rng.IntN(20_000_000)>>rng.IntN(20))
		burst := int64(1 + rng.IntN(8))
		b := bucketOf(milli, burst)
		now, tat := int64(t0), int64(0)
		var at []int64 // of each delivery
		for range 400 {
			for now += int64(rng.IntN(3)); b.room(tat, now) > 0 && rng.IntN(4) > 0; {
				tat = b.take(tat, now)
				at = append(at, now)
			}
			if next := b.next(tat); next > now {
				must(t, "early", b.room(tat, next-1), 0)
				if rng.IntN(3) == 0 {
					now = next
				}
			}
		}
		for i := range at {
			for j := i; j < len(at); j++ {
				span := (at[j] - at[i]) * nanosPerMilli
				if n := int64(j - i + 1); n > burst+span/b.interval {
					t.Fatalf("seed %d: %d deliveries within %d ms at %d thousandths a second and bursts of %d", seed, n, at[j]-at[i], milli, burst)
				}
			}
		}
	}
}

// TestRate holds to the rate over batches, returns, time and changes of the options.
func TestRate(t *testing.T) {
	r := limited(t, QueueOptions{RateMilli: 10_000, Burst: 3})
	for range 30 {
		r.put(text("x"))
	}
	must(t, "the burst", len(r.lease(9)), 3)
	must(t, "and no more", len(r.lease(9)), 0)
	look := r.s.Outlook(r.ref("q"), r.now)
	must(t, "outlook", look, Outlook{Ready: 0, Most: 0, Next: r.now + 100})
	look = r.s.Outlook(r.ref("q"), r.now+250)
	must(t, "outlook ahead", look, Outlook{Ready: 2, Most: 2, Next: r.now + 300})
	r.tick(99)
	must(t, "too early", len(r.lease(9)), 0)
	r.now++
	ts := r.lease(9)
	must(t, "in time", len(ts), 1)
	r.ok(&Release{Token: ts[0]})
	must(t, "what comes back pays nothing back", len(r.lease(1)), 0)
	r.tick(1000)
	must(t, "no more than the burst gathers", len(r.lease(9)), 3)
	r.everywhere()

	// Changed options apply at once.
	name := []byte("q")
	r.ok(&SetQueue{Name: name, Options: QueueOptions{RateMilli: 1, Burst: 1}})
	must(t, "what was taken counts for the new one", len(r.lease(9)), 0)
	r.tick(500)
	must(t, "slow", len(r.lease(9)), 1)
	r.tick(60_000)
	must(t, "one in a thousand seconds", len(r.lease(9)), 0)
	r.ok(&SetQueue{Name: name, Options: QueueOptions{RateMilli: 10_000, Burst: 1}})
	must(t, "the debt of the slow rate is cut to one of the fast", r.s.Outlook(r.ref("q"), r.now).Next, r.now+100)
	r.tick(100)
	must(t, "fast again", len(r.lease(9)), 1)
	r.ok(&SetQueue{Name: name, Options: QueueOptions{}})
	must(t, "told", len(r.fx.Ready), 1)
	must(t, "none", len(r.lease(4)), 4)
	r.ok(&SetQueue{Name: name, Options: QueueOptions{RateMilli: 1, Burst: 2}})
	must(t, "begins full", len(r.lease(4)), 2)
	r.ok(&PurgeQueue{Name: name})
	r.put(text("y"))
	must(t, "a purge pays nothing back", len(r.lease(4)), 0)
	r.everywhere()
}

// TestRateAndInFlight: both hold, and the outlook promises no time where only an end of a lease helps.
func TestRateAndInFlight(t *testing.T) {
	r := limited(t, QueueOptions{RateMilli: 1000, Burst: 4, MaxInFlight: 2})
	for range 9 {
		r.put(text("x"))
	}
	ts := r.lease(9)
	must(t, "in flight", len(ts), 2)
	must(t, "only a lease's end helps", r.s.Outlook(r.ref("q"), r.now), Outlook{Ready: 0, Most: 2})
	r.ok(&Ack{Token: ts[0]})
	r.ok(&Ack{Token: ts[1]})
	must(t, "next two", len(r.lease(9)), 2)
	r.ok(&Ack{Token: r.fx.Leases[0].Token})
	must(t, "held by the rate", len(r.lease(9)), 0)
	must(t, "only time helps", r.s.Outlook(r.ref("q"), r.now), Outlook{Ready: 0, Most: 0, Next: r.now + 1000})
	r.ok(&SetQueue{Name: []byte("q"), Options: QueueOptions{RateMilli: 1000, Burst: 4, MaxInFlight: 2, Paused: true}})
	must(t, "paused", r.s.Outlook(r.ref("q"), r.now+5000).Ready, 0)
	must(t, "no queue", r.s.Outlook(r.ref("none"), r.now), Outlook{})
	r.everywhere()
}

func TestRateRefusals(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		name  string
		o     QueueOptions
		field Field
	}{
		{"rate below", QueueOptions{RateMilli: -1}, FieldRate},
		{"rate above", QueueOptions{RateMilli: LimitRateMilli + 1}, FieldRate},
		{"burst below", QueueOptions{RateMilli: 1, Burst: -1}, FieldBurst},
		{"burst above", QueueOptions{RateMilli: 1, Burst: LimitBurst + 1}, FieldBurst},
		{"burst alone", QueueOptions{Burst: 1}, FieldBurst},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.t = t
			r.refused(&CreateQueue{Name: []byte("q"), Options: c.o}, InvalidArgument, c.field)
			if _, err := c.o.Validate(); err == nil {
				t.Fatal("no error")
			}
		})
	}
	r.ok(&CreateQueue{Name: []byte("q"), Options: QueueOptions{RateMilli: 1}})
	must(t, "the same again", r.ok(&CreateQueue{Name: []byte("q"), Options: QueueOptions{RateMilli: 1}}).Duplicate, true)
	r.refused(&CreateQueue{Name: []byte("q"), Options: QueueOptions{RateMilli: 1, Burst: 1}}, AlreadyExists, FieldOptions)
}

// TestRateOfQueuesApart: a rate is one queue's, and others do not feel it.
func TestRateOfQueuesApart(t *testing.T) {
	r := newRig(t)
	for i := range 3 {
		name := fmt.Appendf(nil, "q%d", i)
		o := QueueOptions{RateMilli: int64(1000 * i)}
		r.ok(&CreateQueue{Name: name, Options: o})
		r.apply(&Enqueue{Queue: name, Messages: []Message{text("a"), text("b"), text("c"), text("d")}})
		o1 := r.ok(&Lease{Queue: name, Consumer: someone, Max: 4})
		must(t, "leased", int(o1.LeaseCount), [...]int{4, 1, 2}[i])
	}
	r.everywhere()
}

// TestRateTellsWhatItHolds is that the leader hears of messages that only the rate holds back: it looks when that lets them out,
// but only at queues it has heard of.
func TestRateTellsWhatItHolds(t *testing.T) {
	slow := QueueOptions{RateMilli: 100, Burst: 1} // one in ten seconds
	with := func(change func(o *QueueOptions)) Op {
		o := slow
		change(&o)
		return &SetQueue{Name: []byte("q"), Options: o}
	}
	for _, c := range []struct {
		name  string
		first func(o *QueueOptions)
		then  func(tok Token) Op
	}{
		{"a slot is free", func(o *QueueOptions) { o.MaxInFlight = 1 }, func(tok Token) Op { return &Ack{Token: tok} }},
		{"there are more slots", func(o *QueueOptions) { o.MaxInFlight = 1 }, func(Token) Op {
			return with(func(o *QueueOptions) { o.MaxInFlight = 2 })
		}},
		{"a key's slot is free, its rate is not", func(o *QueueOptions) {
			o.RateMilli, o.Burst, o.RatePerKeyMilli, o.BurstPerKey, o.MaxInFlightPerKey = 0, 0, 100, 1, 1
		}, func(tok Token) Op { return &Ack{Token: tok} }},
		{"no longer paused", func(*QueueOptions) {}, func(Token) Op { return with(func(*QueueOptions) {}) }},
		{"a faster rate, not at once", func(*QueueOptions) {}, func(Token) Op {
			return with(func(o *QueueOptions) { o.RateMilli = 500 })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			o := slow
			c.first(&o)
			r.ok(&CreateQueue{Name: []byte("q"), Options: o})
			for _, body := range []string{"a", "b"} {
				m := text(body)
				m.Key = []byte("k")
				r.put(m)
			}
			tok := r.lease1()
			if c.name == "no longer paused" {
				r.ok(with(func(o *QueueOptions) { o.Paused = true }))
			}
			r.ok(c.then(tok))
			must(t, "leasable now", r.s.Ready(1), 0)
			must(t, "queues told", len(r.fx.Ready), 1)
			must(t, "there is a time", r.s.Outlook(r.ref("q"), r.now).Next > r.now, true)
		})
	}
}
