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
		check("all at once", func(f func(*dedupKey) bool) { eachSorted(v, keep, key, f) })
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
