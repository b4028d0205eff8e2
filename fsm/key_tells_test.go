package fsm

import "testing"

// TestKeysCeaseTells switches off what parks a key: the leader is told of what can be leased then.
func TestKeysCeaseTells(t *testing.T) {
	for _, c := range []struct {
		name string
		by   QueueOptions
		to   QueueOptions
	}{
		{"full, then nothing", QueueOptions{MaxInFlightPerKey: 1}, QueueOptions{}},
		{"held, then nothing", QueueOptions{RatePerKeyMilli: 10, BurstPerKey: 1}, QueueOptions{}},
		{"both, then nothing", QueueOptions{MaxInFlightPerKey: 1, RatePerKeyMilli: 10, BurstPerKey: 1}, QueueOptions{}},
		{"full, then more", QueueOptions{MaxInFlightPerKey: 1}, QueueOptions{MaxInFlightPerKey: 2}},
		{"full, then turns", QueueOptions{MaxInFlightPerKey: 1}, QueueOptions{FairBy: FairByKey}},
		{"both, then turns", QueueOptions{MaxInFlightPerKey: 1, RatePerKeyMilli: 10, BurstPerKey: 1}, QueueOptions{FairBy: FairByKey}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.ok(&CreateQueue{Name: []byte("q"), Options: c.by})
			for range 2 {
				m := text("body")
				m.Key = []byte("k")
				r.put(m)
			}
			r.lease1()
			must(t, "parked", r.s.Ready(1), 0)
			r.now += 10_000 // not enough for the rate
			r.ok(&SetQueue{Name: []byte("q"), Options: c.to})
			must(t, "can be leased", r.s.Ready(1), 1)
			must(t, "queues told", len(r.fx.Ready), 1)
		})
	}
}
