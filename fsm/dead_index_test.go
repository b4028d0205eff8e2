package fsm

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestDeadFilters compares every filter, cursor and limit with a scan, in a queue that has dead letters of its own and some that
// were moved there, with more kinds than are kept apart and with fewer.
func TestDeadFilters(t *testing.T) {
	for _, groups := range []int{1, 3, deadGroups} {
		t.Run(fmt.Sprint(groups, " groups"), func(t *testing.T) {
			r := deadRig(t)
			r.quiet = true
			r.s.lim.deadGroups = groups
			rng := rand.New(rand.NewPCG(5, uint64(groups)))
			kinds := []string{"", "a", "b", "c"}
			for range 150 {
				queue := []string{"q", "d"}[rng.IntN(2)]
				m := Message{Kind: []byte(kinds[rng.IntN(len(kinds))])}
				if rng.IntN(3) == 0 {
					m.TTLMillis = 1
				}
				r.ok(&Enqueue{Queue: []byte(queue), Messages: []Message{m}})
				if m.TTLMillis == 0 && queue == "q" {
					r.ok(&Nack{Token: r.lease1(), Permanent: rng.IntN(2) == 0, DelayMillis: 0})
				}
				r.now += rng.Int64N(3)
			}
			r.tick(5)
			for len(r.fx.Leases) > 0 || rng.IntN(40) > 0 { // some of d die there
				r.ok(&Lease{Queue: []byte("d"), Consumer: someone, Worker: []byte("w"), Max: 1, LeaseMillis: 1000})
				if len(r.fx.Leases) == 0 {
					break
				}
				r.ok(&Nack{Token: r.fx.Leases[0].Token, Permanent: rng.IntN(2) == 0, DelayMillis: -1})
				r.now += rng.Int64N(2)
			}
			for range 3 {
				var all []Info
				r.s.Dead(numD, 0, ID{}, func(in *Info) bool {
					c := *in
					c.Kind = append([]byte(nil), in.Kind...)
					all = append(all, c)
					return true
				})
				if len(all) < 20 {
					t.Fatalf("only %d dead letters", len(all))
				}
				if !slices.IsSortedFunc(all, func(a, b Info) int {
					if a.EndedAt != b.EndedAt {
						return int(a.EndedAt - b.EndedAt)
					}
					return a.ID.Compare(b.ID)
				}) {
					t.Fatal("not by (failed_at, id)")
				}
				for range 400 {
					w := DeadFilter{Reason: DeadReason(rng.IntN(5)), Kind: []byte(kinds[rng.IntN(len(kinds))])}
					if rng.IntN(2) == 0 {
						w.Since = all[rng.IntN(len(all))].EndedAt
					}
					if rng.IntN(2) == 0 {
						w.Until = all[rng.IntN(len(all))].EndedAt
					}
					at, id := int64(0), ID{}
					if rng.IntN(2) == 0 {
						c := all[rng.IntN(len(all))]
						if at, id = c.EndedAt, c.ID; rng.IntN(2) == 0 {
							id.Lo += 1 << 40 // a place where nothing is
						}
					}
					limit := 1 + rng.IntN(len(all))
					var want, got []ID
					for _, in := range all {
						behind := in.EndedAt > at || in.EndedAt == at && in.ID.Compare(id) > 0
						if behind && len(want) < limit && (w.Reason == 0 || in.Reason == w.Reason) && (len(w.Kind) == 0 || string(in.Kind) == string(w.Kind)) &&
							in.EndedAt >= w.Since && (w.Until == 0 || in.EndedAt <= w.Until) {
							want = append(want, in.ID)
						}
					}
					r.s.DeadWhere(numD, &w, at, id, func(in *Info) bool {
						got = append(got, in.ID)
						return len(got) < limit
					})
					if !slices.Equal(got, want) {
						t.Fatalf("filter %+v behind %d %s: %d letters, want %d", w, at, id, len(got), len(want))
					}
				}
				if err := r.s.Check(); err != nil {
					t.Fatal(err)
				}
				var ops []Op // a part of them goes, so that cursors are gone and groups end
				for _, in := range all {
					if rng.IntN(3) == 0 {
						ops = append(ops, &DeadDelete{Queue: []byte("d"), IDs: []ID{in.ID}})
					}
				}
				r.apply(ops...)
			}
			r.ok(&DeadPurge{Queue: []byte("d")})
			r.ok(&PurgeQueue{Name: []byte("d")})
			r.tick(1)
			if err := r.s.Check(); err != nil {
				t.Fatal(err)
			}
			must(t, "groups", r.s.deadGroupIx.Len(), 0)
		})
	}
}

var deadMany = flag.Int("dead", 20_000, "dead letters that TestDeadListingCost lists")

// TestDeadListingCost: a page of many dead letters costs what is on it, from wherever it starts and through every filter, also
// behind a cursor that is gone. -dead 1000000 measures it at the full size.
func TestDeadListingCost(t *testing.T) {
	n := *deadMany
	s := New(3)
	defer s.Close()
	var fx Effects
	index, now := uint64(0), int64(t0)
	apply := func(ops ...Op) {
		b := AppendEntryHeader(nil, now, 0)
		for _, op := range ops {
			b = AppendOp(b, op)
		}
		index++
		if err := s.Apply(index, b, &fx); err != nil {
			t.Fatal(err)
		}
	}
	apply(&Bootstrap{Cluster: [16]byte{9}, Epoch: 2}, &CreateQueue{Name: []byte("q"), Options: QueueOptions{MaxDead: LimitMaxDead}})
	kinds := []string{"mail", "pdf", "index", "rare"}
	for done := 0; done < n; {
		var ms []Message
		for range min(1000, n-done) {
			kind := kinds[done%3]
			if done%10_000 == 17 {
				kind = kinds[3]
			}
			ms = append(ms, Message{Kind: []byte(kind), Body: []byte("body")})
			done++
		}
		apply(&Enqueue{Queue: []byte("q"), Messages: ms})
		apply(&Lease{Queue: []byte("q"), Max: 1000, LeaseMillis: 1000})
		var ops []Op
		for _, l := range fx.Leases {
			ops = append(ops, &Nack{Token: l.Token, Permanent: true})
		}
		now += 50
		apply(ops...)
	}
	must(t, "dead", s.Stats(1).Dead, int64(n))
	var some []ID
	var ats []int64
	s.Dead(1, 0, ID{}, func(in *Info) bool {
		if len(some) == 0 || in.EndedAt > ats[len(ats)-1] {
			some, ats = append(some, in.ID), append(ats, in.EndedAt)
		}
		return len(some) < 50
	})
	apply(&DeadDelete{Queue: []byte("q"), IDs: some[:10]})
	for _, c := range []struct {
		name string
		w    DeadFilter
		at   int64
		id   ID
	}{
		{"from the start", DeadFilter{}, 0, ID{}},
		{"behind a cursor", DeadFilter{}, ats[len(ats)-1], some[len(some)-1]},
		{"behind one that is gone", DeadFilter{}, ats[5], some[5]},
		{"since a time", DeadFilter{Since: t0 + int64(n)/40}, 0, ID{}},
		{"a reason", DeadFilter{Reason: ReasonPermanent}, ats[3], some[3]},
		{"a reason that has none", DeadFilter{Reason: ReasonExpired}, 0, ID{}},
		{"a rare kind", DeadFilter{Kind: []byte("rare")}, 0, ID{}},
		{"reason and kind", DeadFilter{Reason: ReasonPermanent, Kind: []byte("pdf")}, ats[9], some[9]},
		{"no such kind", DeadFilter{Kind: []byte("none")}, 0, ID{}},
	} {
		const rounds = 50
		start, shown := time.Now(), 0
		for range rounds {
			got := 0
			if _, partial := s.DeadWhere(1, &c.w, c.at, c.id, func(*Info) bool { got++; return got < 100 }); !partial.IsZero() {
				t.Fatalf("%s: looks at more records than it may", c.name)
			}
			shown += got
		}
		t.Logf("%d dead, %s: %d letters, %v", n, c.name, shown/rounds, time.Since(start)/rounds)
	}
	start := time.Now()
	steps := 0
	for left := n - 10; left > 0; left -= 1000 {
		var ids []ID
		s.Dead(1, 0, ID{}, func(in *Info) bool { ids = append(ids, in.ID); return len(ids) < 1000 })
		apply(&DeadRequeue{Queue: []byte("q"), IDs: ids})
		steps++
	}
	t.Logf("%d dead requeued by 1,000: %v an entry", n, time.Since(start)/time.Duration(steps))
	must(t, "none left", s.Stats(1).Dead, int64(0))
	must(t, "index", s.queues[0].deadIx == nil, true)
}
