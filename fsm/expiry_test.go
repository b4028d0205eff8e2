package fsm

import (
	"flag"
	"fmt"
	"reflect"
	"testing"
	"unsafe"

	"github.com/quorate/quorate/fsm/table"
)

var kept = flag.Int("kept", 1_000_000, "records that TestExpiryCostsWhatEnds keeps beside those that end")

// blind takes away every page of a table but those that hold the given slots, so that whoever reads or writes another record
// does not get away with it. The state is good for nothing else afterwards.
func blind[T any](p *table.Pages[T], see ...int32) {
	const pageShift = 7 // of table.Pages
	f := reflect.ValueOf(p).Elem().FieldByName("pages")
	pages := *(*[]unsafe.Pointer)(unsafe.Pointer(f.UnsafeAddr()))
	seen := map[int32]bool{}
	for _, sl := range see {
		seen[sl>>pageShift] = true
	}
	for k := range pages {
		if !seen[int32(k)] {
			pages[k] = nil
		}
	}
}

// TestExpiryCostsWhatEnds ends ten records of a million: everything beside them and their neighbours by position is out of
// reach, so that neither the entry that reclaims them nor a look-up can have gone over what is kept. Where order is kept by
// comparing records, the comparisons are counted.
func TestExpiryCostsWhatEnds(t *testing.T) {
	const ends = 10
	n := *kept
	end := func(i int) int64 { // the ten end at 1 s, the rest later and each at a time of its own
		if i < ends {
			return 1000
		}
		return 2000 + int64(i)
	}
	for _, c := range []struct {
		name string
		most int // records that there may be
		// fill makes n records, of which the first ten end at t0 + 1 s, and blinds their table but for the page of slot 0 and that
		// of a record which is kept. It gives back how many there are and a look at that record, and at one that is not there.
		fill func(r *rig, n int) (left func() int, look func() (there, not bool))
	}{
		{"dedup keys", n, func(r *rig, n int) (func() int, func() (bool, bool)) {
			q := r.s.queues[0]
			m := deduped(0)
			key := func(i int) [16]byte { return [16]byte{byte(i), byte(i >> 8), byte(i >> 16), 1} }
			for i := range n {
				q.meta.options.DedupWindowMillis = end(i)
				m.DedupKey = key(i)
				r.s.addDedup(q, ID{1, uint64(i)}, &m)
			}
			blind(&r.s.dedups, 0, int32(n/2))
			return func() int { return r.s.dedups.Len() }, func() (bool, bool) {
				k, no := key(n/2), [16]byte{15: 9}
				_, there := r.s.findDedup(q, &k)
				_, not := r.s.findDedup(q, &no)
				return there, not
			}
		}},
		{"results", n, func(r *rig, n int) (func() int, func() (bool, bool)) {
			q := r.s.queues[0]
			for i := range n {
				q.meta.options.ResultTTLMillis = end(i)
				r.s.addResult(q, result{id: ID{1, uint64(i)}}, &resultFields{output: []byte("o")})
			}
			blind(&r.s.results, 0, int32(n/2))
			return func() int { return r.s.results.Len() }, func() (bool, bool) {
				_, there := r.s.findResult(ID{1, uint64(n / 2)})
				_, not := r.s.findResult(ID{2, 2})
				return there, not
			}
		}},
		{"tombstones", n, func(r *rig, n int) (func() int, func() (bool, bool)) {
			q := r.s.queues[0]
			r.s.lim.tombstones = int64(n)
			now := r.s.now
			for i := range n {
				r.s.now = now + end(i) - TombstoneMillis
				r.s.addTomb(q, &message{id: ID{1, uint64(i)}}, ID{}, tombDone)
			}
			r.s.now = now
			blind(&r.s.tombs, 0, int32(n/2))
			return func() int { return r.s.tombs.Len() }, func() (bool, bool) {
				_, there := r.s.findTomb(ID{1, uint64(n / 2)})
				_, not := r.s.findTomb(ID{2, 2})
				return there, not
			}
		}},
		{"sessions", MaxSessions, func(r *rig, n int) (func() int, func() (bool, bool)) {
			for i := range n {
				r.s.addSession(session{id: ID{1, uint64(i)}, used: r.s.now + end(i) - SessionIdleMillis, oldest: none, newest: none, hint: none})
			}
			blind(&r.s.sessions, 0, int32(n/2))
			return func() int { return r.s.sessions.Len() }, func() (bool, bool) {
				return r.s.SessionKnown(ID{1, uint64(n / 2)}), r.s.SessionKnown(ID{2, 2})
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.quiet = true
			r.queue(QueueOptions{})
			n := min(n, c.most)
			r.s.fx = &r.fx // records are made without an entry
			left, look := c.fill(r, n)
			defer func() {
				if p := recover(); p != nil {
					t.Fatalf("a record that is kept was touched: %v", p)
				}
			}()
			there, not := look()
			must(t, "what is kept is found", there, true)
			must(t, "what is not is not", not, false)
			r.tick(999)
			must(t, "nothing has ended", left(), n)
			r.tick(2) // a dedup key holds at its last millisecond
			must(t, "what has ended is gone", left(), n-ends)
			there, not = look()
			must(t, "what is kept is found", there, true)
			must(t, "what is not is not", not, false)
		})
	}
}

// Dead letters stand in orders that are searched by comparing: ending ten of many costs ten searches. So does a page of a
// listing, wherever it begins, with any number that have ended and are not yet reclaimed before it.
func TestDeadLettersCostWhatEnds(t *testing.T) {
	const ends = 10
	n := min(*kept, 200_000)
	r := newRig(t)
	r.quiet = true
	compared := 0
	less := r.s.deadBefore
	r.s.deadBefore = func(a, b int32) bool { compared++; return less(a, b) }
	r.queue(QueueOptions{DeadRetentionMillis: 1_000_000})
	q := r.s.queues[0]
	die := func(many int) {
		r.s.fx = &r.fx
		for range many {
			r.s.offset++
			slot := r.s.insert(q, MakeID(7, 3, r.s.index, r.s.offset), 4, 0, nil, []byte("b"), 0, 0)
			r.s.detach(q, slot, endNone)
			r.s.die(q, slot, ReasonPermanent)
		}
	}
	die(ends)
	r.tick(1000)
	die(n - ends)
	r.tick(1_000_000 - 1000 - 1)
	must(t, "dead", r.stats().Dead, int64(n))
	compared = 0
	r.tick(1)
	must(t, "left", r.stats().Dead, int64(n-ends))
	const search = 3 * 24 // in the orders of all, of the reason, and of reason and kind
	if compared > ends*search {
		t.Errorf("ending %d of %d dead letters compared %d times, want at most %d", ends, n, compared, ends*search)
	}
	// A lower retention ends all but the last ten, in one step; the first of what is left is found without going over the rest.
	r.tick(500)
	die(ends)
	r.s.lim.reclaim = 0
	compared = 0
	r.ok(&SetQueue{Name: q0, Options: QueueOptions{DeadRetentionMillis: 1000}})
	if compared > search {
		t.Errorf("changing the retention of %d dead letters compared %d times", n, compared)
	}
	seen := 0
	at, _ := r.s.Dead(1, 0, ID{}, func(*Info) bool { seen++; return true })
	must(t, "seen", fmt.Sprint(seen, at), fmt.Sprint(ends, 0))
}

// A heap that tells records their places touches those on the way of what it takes out.
func TestBatchesCostWhatEnds(t *testing.T) {
	const ends = 10
	n := min(*kept, MaxBatches)
	r := newRig(t)
	r.quiet = true
	touched := 0
	moved := r.s.batches.ends.Moved
	r.s.batches.ends.Moved = func(slot, pos int32) { touched++; moved(slot, pos) }
	for i := range n {
		end := int64(1000)
		if i >= ends {
			end = 2000 + int64(i)
		}
		r.s.addBatch(batch{id: ID{1, uint64(i)}, end: r.s.now + end}, nil)
	}
	touched = 0
	r.tick(1001)
	must(t, "left", r.s.batches.recs.Len(), n-ends)
	if touched > ends*32 {
		t.Errorf("ending %d of %d batches touched %d", ends, n, touched)
	}
}
