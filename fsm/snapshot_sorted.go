package fsm

import (
	"slices"

	"github.com/quorate/quorate/fsm/table"
)

const (
	// sortedTogether is how many records are sorted at once, about: 24 MB of keys. More are taken in parts, each of which goes over
	// the table once: ten million are sorted in ten parts, which takes a tenth longer and 230 MB less.
	sortedTogether = 1 << 20
	sortedSamples  = 64 // of the keys for each part, by which the parts are cut
)

// keyedSlot is where the record of a key is.
type keyedSlot struct {
	id   ID
	slot int32
}

// eachSorted calls f for the records that keep accepts in the order of their keys, which are different, until it returns false. Slots
// mostly are in that order already; only where they are not, the keys are gathered and sorted.
func eachSorted[T any](v *table.View[T], keep func(*T) bool, key func(*T) ID, f func(*T) bool) {
	var last ID
	n, sorted := 0, true
	v.Each(func(_ int32, r *T) bool {
		if keep(r) {
			k := key(r)
			sorted = sorted && last.Compare(k) < 0
			last = k
			n++
		}
		return true
	})
	if sorted {
		v.Each(func(_ int32, r *T) bool { return !keep(r) || f(r) })
		return
	}
	eachInParts(v, keep, key, f, n, sortedTogether)
}

// eachInParts is eachSorted for n records that are not in order, about so many of them at a time.
func eachInParts[T any](v *table.View[T], keep func(*T) bool, key func(*T) ID, f func(*T) bool, n, together int) {
	parts := (n + together - 1) / together
	cuts := cutsOf(v, keep, key, n, parts)
	var part []keyedSlot
	for i := range parts {
		part = part[:0]
		v.Each(func(slot int32, r *T) bool {
			if keep(r) {
				if k := key(r); (i == 0 || cuts[i-1].Compare(k) <= 0) && (i == parts-1 || k.Compare(cuts[i]) < 0) {
					part = append(part, keyedSlot{k, slot})
				}
			}
			return true
		})
		slices.SortFunc(part, func(a, b keyedSlot) int { return a.id.Compare(b.id) })
		for _, at := range part {
			if !f(v.Get(at.slot)) {
				return
			}
		}
	}
}

// cutsOf are the keys at which the parts after the first begin, so that each has about as many records.
func cutsOf[T any](v *table.View[T], keep func(*T) bool, key func(*T) ID, n, parts int) []ID {
	if parts < 2 {
		return nil
	}
	every := max(1, n/(parts*sortedSamples))
	var samples []ID
	seen := 0
	v.Each(func(_ int32, r *T) bool {
		if keep(r) {
			if seen%every == 0 {
				samples = append(samples, key(r))
			}
			seen++
		}
		return true
	})
	slices.SortFunc(samples, ID.Compare)
	cuts := make([]ID, parts-1)
	for i := range cuts {
		cuts[i] = samples[(i+1)*len(samples)/parts]
	}
	return cuts
}
