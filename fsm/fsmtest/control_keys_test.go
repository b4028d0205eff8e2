package fsmtest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/quorate/quorate/fsm"
)

// TestControlKeys plants a difference into what the model knows of keys and wants it to be seen.
func TestControlKeys(t *testing.T) {
	lease := &fsm.Lease{Queue: []byte("q"), Max: 9, MaxBytes: maxLeaseBytes}
	for _, c := range []struct {
		name  string
		plant func(q *queue)
		later int64 // ms until the lease that shows it; 0: the queries do
	}{
		{"another ring", func(q *queue) { r := q.rings[4]; r[0], r[1] = r[1], r[0] }, 1},
		{"another deficit", func(q *queue) { q.rings[4][0].deficit++ }, 1},
		{"a weight", func(q *queue) { q.options.FairWeights = []fsm.FairWeight{{Key: "b", Weight: 3}} }, 0},
		{"a flow that is in no ring", func(q *queue) { q.leaveRings("b"); q.keys["b"].hold = holdRate; q.keys["b"].until = 1 << 60 }, 1},
		{"a key's rate", func(q *queue) { q.keys["a"].tat += 200_000_000_000 }, 300_000},
		{"a debt forgotten", func(q *queue) { q.keys["a"].debt = false }, 0},
		{"a later time", func(q *queue) { q.keys["a"].until += 1_000_000 }, 200_000},
		{"a full key", func(q *queue) { q.keys["b"].hold = holdFull }, 0},
		{"a held key", func(q *queue) { q.keys["b"].hold, q.keys["b"].until = holdRate, 1_000_001 }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newPairScript(t)
			var list []fsm.Message
			for _, key := range []string{"a", "a", "a", "a", "a", "a", "a", "b", "b", "b", "b", "", "", "c", "c"} {
				list = append(list, fsm.Message{Priority: 4, Key: []byte(key)})
			}
			s.do(1_000_000, &fsm.CreateQueue{Name: []byte("q"), Options: fsm.QueueOptions{
				RatePerKeyMilli: 10, BurstPerKey: 3, FairBy: fsm.FairByKey, MaxInFlightPerKey: 20, LeaseMillis: maxLease,
				FairWeights: []fsm.FairWeight{{Key: "a", Weight: 3}, {Key: "b", Weight: 2}},
			}}, &fsm.Enqueue{Queue: []byte("q"), Messages: list})
			// a's turn, after which its rate holds it; and half of b's.
			if fx := s.do(1_000_000, &fsm.Lease{Queue: []byte("q"), Max: 4, MaxBytes: maxLeaseBytes}); len(fx.Leases) != 4 {
				t.Fatalf("leases: %+v", fx.Leases)
			}
			s.look()
			q := s.p.Model.queue("q")
			if len(q.rings[4]) != 3 || q.rings[4][0] != (turn{"b", 1}) || q.keys["a"].hold != holdRate || q.parked() != 4 || q.debts() != 2 {
				t.Fatalf("rings %+v, keys %+v", q.rings[4], q.keys)
			}
			c.plant(q)
			var err error
			if c.later > 0 {
				for _, at := range []int64{1_000_000 + c.later, 1_000_000 + 2*c.later} {
					s.index++
					if _, err = s.p.Apply(s.index, fsm.Entry{Now: at, Ops: []fsm.Op{lease}}); err != nil {
						return
					}
				}
			}
			if err = s.p.CompareQueries(); err == nil {
				t.Error("not seen")
			}
		})
	}
}

// TestKeysUnpark lets more keys out at once than one operation opens: the first by time and key, while those that stay would be served
// before them by their places.
func TestKeysUnpark(t *testing.T) {
	const keys = maxUnparks + 40
	s := newPairScript(t)
	s.do(1_000_000, &fsm.CreateQueue{Name: []byte("q"), Options: fsm.QueueOptions{RatePerKeyMilli: 1000, BurstPerKey: 1, LeaseMillis: maxLease}})
	for range 2 {
		var list []fsm.Message
		for i := range keys {
			list = append(list, fsm.Message{Priority: 4, Key: fmt.Appendf(nil, "%05d", keys-i)})
		}
		s.do(1_000_000, &fsm.Enqueue{Queue: []byte("q"), Messages: list[:maxBatch]}, &fsm.Enqueue{Queue: []byte("q"), Messages: list[maxBatch:]})
	}
	lease := func(n int32) *fsm.Lease { return &fsm.Lease{Queue: []byte("q"), Max: n, MaxBytes: maxLeaseBytes} }
	if fx := s.do(1_000_000, lease(1000), lease(1000)); len(fx.Leases) != keys {
		t.Fatalf("leases: %d", len(fx.Leases))
	}
	s.look()
	var got []string
	for _, l := range s.do(1_001_000, lease(1), lease(1)).Leases {
		d, _ := s.p.Model.Delivery(l.Token)
		got = append(got, string(d.Key))
	}
	want := []string{fmt.Sprintf("%05d", maxUnparks), fmt.Sprintf("%05d", keys)}
	if !slices.Equal(want, got) || s.p.Model.seen.Branches["keys: more are let out than an operation opens"] != 1 {
		t.Errorf("want %q, got %q", want, got)
	}
	s.look()
}

// TestKeysTurn is a queue's turns by hand: two of a to one of b, and of what has no key, one.
func TestKeysTurn(t *testing.T) {
	s := newPairScript(t)
	s.do(1_000_000, &fsm.CreateQueue{Name: []byte("q"), Options: fsm.QueueOptions{FairBy: fsm.FairByKey, FairWeights: []fsm.FairWeight{{Key: "a", Weight: 2}}}})
	var list []fsm.Message
	for _, key := range "aaaaabb- -"[:9] {
		x := fsm.Message{Priority: 4, Body: []byte(string(key))}
		if key == 'a' || key == 'b' {
			x.Key = x.Body
		}
		list = append(list, x)
	}
	s.do(1_000_000, &fsm.Enqueue{Queue: []byte("q"), Messages: list})
	got := ""
	for _, l := range s.do(1_000_000, &fsm.Lease{Queue: []byte("q"), Max: 9, MaxBytes: maxLeaseBytes}).Leases {
		d, _ := s.p.Model.Delivery(l.Token)
		got += string(d.Body)
	}
	if want := "aab-aab a"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
	s.look()
}
