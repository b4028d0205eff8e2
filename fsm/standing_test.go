package fsm

import "testing"

// TestStanding is what keeps a queue's messages from being leased, each reason by itself.
func TestStanding(t *testing.T) {
	key := func(k string) Message {
		m := text("x")
		m.Key = []byte(k)
		return m
	}
	later := func(ms int64) Message {
		m := text("x")
		m.DelayMillis = ms
		return m
	}
	for _, c := range []struct {
		name    string
		options QueueOptions
		do      func(r *rig)
		at      int64    // after the last entry
		want    Standing // times after t0
	}{
		{"empty", QueueOptions{}, func(*rig) {}, 0, Standing{}},
		{"leasable", QueueOptions{}, func(r *rig) { r.put(text("x")); r.put(text("y")) }, 0, Standing{Ready: 2, Leasable: 2}},
		{"all out", QueueOptions{}, func(r *rig) { r.put(text("x")); r.lease1() }, 0, Standing{}},
		{"later", QueueOptions{}, func(r *rig) { r.put(later(700)); r.put(later(300)) }, 0, Standing{Due: 300}},
		{"a retry", QueueOptions{}, func(r *rig) { r.put(text("x")); r.ok(&Nack{Token: r.lease1(), DelayMillis: 400}) }, 0, Standing{Due: 400}},
		{"expires before it is due", QueueOptions{}, func(r *rig) {
			m := later(700)
			m.TTLMillis = 200
			r.put(m)
		}, 0, Standing{Due: 200}},
		{"paused", QueueOptions{Paused: true}, func(r *rig) { r.put(text("x")) }, 0, Standing{Ready: 1, Paused: true}},
		{"in flight", QueueOptions{MaxInFlight: 1}, func(r *rig) { r.put(text("x")); r.put(text("y")); r.lease1() }, 0, Standing{Ready: 1, Full: true}},
		{"rate", QueueOptions{RateMilli: 1000, Burst: 1}, func(r *rig) { r.put(text("x")); r.put(text("y")); r.lease1() }, 0, Standing{Ready: 1, RateUntil: 1000}},
		{"rate, just before", QueueOptions{RateMilli: 1000, Burst: 1}, func(r *rig) { r.put(text("x")); r.put(text("y")); r.lease1() }, 999, Standing{Ready: 1, RateUntil: 1000}},
		{"rate, when it is time", QueueOptions{RateMilli: 1000, Burst: 1}, func(r *rig) { r.put(text("x")); r.put(text("y")); r.lease1() }, 1000, Standing{Ready: 1, Leasable: 1}},
		{"fifo behind one that is out", QueueOptions{Ordering: OrderFIFO}, func(r *rig) { r.put(text("x")); r.put(text("y")); r.lease1() }, 0, Standing{Ready: 1, Behind: true}},
		{"behind one that retries", QueueOptions{Ordering: OrderPerKey}, func(r *rig) {
			r.put(key("k"))
			r.put(key("k"))
			r.ok(&Nack{Token: r.lease1(), DelayMillis: 400})
		}, 0, Standing{Ready: 1, Behind: true}},
		{"another key is free", QueueOptions{Ordering: OrderPerKey}, func(r *rig) {
			r.put(key("k"))
			r.put(key("k"))
			r.lease1()
			r.put(key("l"))
		}, 0, Standing{Ready: 2, Leasable: 1}},
		{"a key that is full", QueueOptions{MaxInFlightPerKey: 1}, func(r *rig) { r.put(key("k")); r.put(key("k")); r.lease1() }, 0, Standing{Ready: 1, Keys: true}},
		{"a key's rate", QueueOptions{RatePerKeyMilli: 1000, BurstPerKey: 1}, func(r *rig) { r.put(key("k")); r.put(key("k")); r.lease1() }, 0,
			Standing{Ready: 1, Keys: true, KeysUntil: 1000}},
		{"a key's rate, when it is time", QueueOptions{RatePerKeyMilli: 1000, BurstPerKey: 1}, func(r *rig) { r.put(key("k")); r.put(key("k")); r.lease1() }, 1000,
			Standing{Ready: 1, Leasable: 1}},
		{"one key full, one held", QueueOptions{MaxInFlightPerKey: 1, RatePerKeyMilli: 1000, BurstPerKey: 1}, func(r *rig) {
			r.put(key("k"))
			r.put(key("k"))
			r.put(key("l"))
			r.put(key("l"))
			first := r.lease(2)
			r.ok(&Ack{Token: first[0]})
		}, 0, Standing{Ready: 2, Keys: true, KeysUntil: 1000}},
		{"several at once", QueueOptions{Paused: true, MaxInFlight: 1, RateMilli: 1000, Burst: 1, Ordering: OrderFIFO}, func(r *rig) {
			r.put(text("x"))
			r.put(text("y"))
			r.ok(&ChangeQueue{Name: []byte("q"), Only: optionSet(t, "paused")})
			r.lease1()
			r.ok(&ChangeQueue{Name: []byte("q"), Only: optionSet(t, "paused"), Options: QueueOptions{Paused: true}})
		}, 0, Standing{Ready: 1, Paused: true, Full: true, RateUntil: 1000, Behind: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.ok(&CreateQueue{Name: []byte("q"), Options: c.options})
			c.do(r)
			n, _ := r.s.QueueNumber([]byte("q"))
			got := r.s.Standing(n, r.s.Time()+c.at)
			for _, at := range []*int64{&got.RateUntil, &got.KeysUntil, &got.Due} {
				if *at != 0 {
					*at -= t0
				}
			}
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
	r := newRig(t)
	if got := r.s.Standing(7, 0); got != (Standing{}) {
		t.Errorf("a queue that is not there: %+v", got)
	}
}

func optionSet(t *testing.T, name string) OptionSet {
	t.Helper()
	set, ok := OptionNamed(name)
	if !ok {
		t.Fatalf("no option %s", name)
	}
	return set
}
