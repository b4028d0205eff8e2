package fsm

import (
	"math/rand/v2"
	"testing"

	"github.com/quorate/quorate/fsm/table"
)

// Records come in the order of their keys, each once, however many are sorted at once, and no part is much larger than it should be.
func TestEachSorted(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test's order
	for _, n := range []int{0, 1, 2, 1000, 5000} {
		var p table.Pages[dedupKey]
		slots := make([]int32, n)
		for i := range slots {
			slots[i] = p.Alloc()
		}
		rng.Shuffle(n, func(i, j int) { slots[i], slots[j] = slots[j], slots[i] })
		kept := 0
		for i, slot := range slots { // every third is not kept
			*p.Mut(slot) = dedupKey{id: ID{Hi: uint64(i / 700), Lo: uint64(i%700) + 1}, queue: int32(i % 3)}
			if i%3 != 0 {
				kept++
			}
		}
		v := p.View()
		keep := func(d *dedupKey) bool { return d.queue != 0 }
		key := func(d *dedupKey) ID { return d.id }
		check := func(name string, each func(f func(*dedupKey) bool)) {
			var last ID
			seen := 0
			each(func(d *dedupKey) bool {
				if last.Compare(d.id) >= 0 || !keep(d) {
					t.Fatalf("%d records, %s: %v after %v", n, name, d.id, last)
				}
				last = d.id
				seen++
				return true
			})
			if seen != kept {
				t.Errorf("%d records, %s: %d of %d seen", n, name, seen, kept)
			}
			seen = 0
			each(func(*dedupKey) bool { seen++; return seen < 2 })
			if seen != min(2, kept) {
				t.Errorf("%d records, %s: %d seen, though the second was to be the last", n, name, seen)
			}
		}
		var every []int32 // each record a run of its own
		v.Each(func(slot int32, d *dedupKey) bool {
			if keep(d) {
				every = append(every, slot)
			}
			return true
		})
		check("runs of one", func(f func(*dedupKey) bool) { eachMerged(v, keep, key, f, every) })
		check("runs as they are", func(f func(*dedupKey) bool) { eachSorted(v, keep, key, f) })
		for _, together := range []int{1, 7, 500, 100_000} {
			check("in parts", func(f func(*dedupKey) bool) { eachInParts(v, keep, key, f, kept, together) })
		}
		if parts := 5; kept > 1000 {
			cuts := cutsOf(v, keep, key, kept, parts)
			counts := make([]int, parts)
			eachSorted(v, keep, key, func(d *dedupKey) bool {
				i := 0
				for i < len(cuts) && cuts[i].Compare(d.id) <= 0 {
					i++
				}
				counts[i]++
				return true
			})
			for i, c := range counts {
				if c > 2*kept/parts {
					t.Errorf("part %d has %d of %d records", i, c, kept)
				}
			}
		}
		v.Release()
	}
}

// What a long queue's table is like: in order, with holes of whole pages, and slots here and there that have been used again.
func TestEachSortedReused(t *testing.T) {
	const n = 50_000
	rng := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // a test's order
	var p table.Pages[dedupKey]
	live, next := map[int32]uint64{}, uint64(0)
	put := func() int32 {
		slot := p.Alloc()
		next++
		*p.Mut(slot) = dedupKey{id: ID{Lo: next}}
		live[slot] = next
		return slot
	}
	var slots []int32
	for range n {
		slots = append(slots, put())
	}
	free := func(i int) {
		if live[slots[i]] == uint64(i+1) {
			p.Free(slots[i])
			delete(live, slots[i])
		}
	}
	for range 5 {
		for range 300 {
			free(rng.IntN(n))
		}
		for range 200 {
			put()
		}
	}
	for i := 10_000; i < 25_000; i++ {
		free(i)
	}
	v := p.View()
	defer v.Release()
	var last ID
	seen, turns := 0, 0
	eachSorted(v, func(d *dedupKey) bool { return !d.id.IsZero() }, func(d *dedupKey) ID { return d.id }, func(d *dedupKey) bool {
		if last.Compare(d.id) >= 0 {
			t.Fatalf("%v after %v", d.id, last)
		}
		if last.Lo <= n && d.id.Lo > n {
			turns++
		}
		last = d.id
		seen++
		return true
	})
	if seen != len(live) || turns != 1 || last.Lo != next {
		t.Errorf("%d of %d seen, up to %v of %d", seen, len(live), last, next)
	}
}
