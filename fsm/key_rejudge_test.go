package fsm

import "testing"

// TestKeysJudgedAgain sets options while two keys are held whose time has come and that nobody has noticed. They are judged at once
// where an option about keys is another as it is written, also where the rate that follows is the same, and then wait in the order of
// their messages; else an operation that leases opens them, in the order of their times and names.
func TestKeysJudgedAgain(t *testing.T) {
	rate := func(milli, burst int64) QueueOptions {
		return QueueOptions{RatePerKeyMilli: milli, BurstPerKey: burst, FairBy: FairByKey}
	}
	more := func(o QueueOptions, f func(o *QueueOptions)) QueueOptions { f(&o); return o }
	for _, c := range []struct {
		name   string
		by, to QueueOptions
		judged bool
	}{
		{"nothing changed", rate(1000, 0), rate(1000, 0), false},
		{"another option of the queue", rate(1000, 0), more(rate(1000, 0), func(o *QueueOptions) { o.MaxDepth = 50 }), false},
		{"weights", rate(1000, 0), more(rate(1000, 0), func(o *QueueOptions) { o.FairWeights = []FairWeight{{"c", 3}} }), false},
		{"the rate", rate(1000, 1), rate(999, 1), true},
		{"the rate, for one of the same interval", rate(LimitRateMilli, 1), rate(LimitRateMilli-1, 1), true},
		{"the burst", rate(1000, 1), rate(1000, 2), true},
		{"the burst, named as it was by default", rate(1000, 0), rate(1000, 1), true},
		{"the burst, no longer named", rate(1000, 1), rate(1000, 0), true},
		{"how many may be out", rate(1000, 1), more(rate(1000, 1), func(o *QueueOptions) { o.MaxInFlightPerKey = 5 }), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := limited(t, c.by)
			r.putKeyed("b", 4, "b1", "b2")
			r.putKeyed("a", 4, "a1", "a2")
			must(t, "at first", r.served(9), "b1 a1")
			must(t, "held", r.stats().Parked, 2)
			r.tick(1000)
			must(t, "held, and nobody has noticed", r.stats().Parked, 2)
			r.set(c.to)
			if c.judged {
				must(t, "parked", r.stats().Parked, 0)
				r.everywhere()
				must(t, "by message", r.served(9), "b2 a2")
			} else {
				must(t, "parked", r.stats().Parked, 2)
				r.everywhere()
				must(t, "by time and name", r.served(9), "a2 b2")
			}
			r.everywhere()
		})
	}
}
