package fsm

import (
	"slices"

	"github.com/quorate/quorate/fsm/table"
)

const (
	// sortedTogether is how many runs of records are merged, or else how many records are sorted, at once, about: 24 MB of keys. More are
	// taken in parts, each of which goes over the table once: ten million are sorted in ten parts, which takes a tenth longer and 230 MB less.
	sortedTogether = 1 << 20
	sortedSamples  = 64 // of the keys for each part, by which the parts are cut
)

// keyedSlot is where the record of a key is.
type keyedSlot struct {
	id   ID
	slot int32
}

// eachSorted calls f for the records that keep accepts in the order of their keys, which are different, until it returns false. Slots
// are mostly in that order already, but for those that have been used again: where they are not, the runs that are in order are merged.
func eachSorted[T any](v *table.View[T], keep func(*T) bool, key func(*T) ID, f func(*T) bool) {
	var last ID
	var starts []int32 // of the runs
	n := 0
	v.Each(func(slot int32, r *T) bool {
		if keep(r) {
			k := key(r)
			if (n == 0 || k.Compare(last) < 0) && len(starts) <= sortedTogether {
				starts = append(starts, slot)
			}
			last = k
			n++
		}
		return true
	})
	switch {
	case len(starts) <= 1:
		v.Each(func(_ int32, r *T) bool { return !keep(r) || f(r) })
	case len(starts) <= sortedTogether:
		eachMerged(v, keep, key, f, starts)
	default:
		eachInParts(v, keep, key, f, n, sortedTogether)
	}
}

// run is what is left of one: slots from at, whose key is id, up to end.
type run struct {
	id      ID
	at, end int32
}

// eachMerged is eachSorted for records in runs that begin at starts. A heap of the runs has the one with the lowest key on top; as long as that
// stays so, which in a long run it does, its next record costs two comparisons.
func eachMerged[T any](v *table.View[T], keep func(*T) bool, key func(*T) ID, f func(*T) bool, starts []int32) {
	h := make([]run, len(starts))
	for i, at := range starts {
		h[i] = run{id: key(v.Get(at)), at: at, end: v.Top()}
		if i+1 < len(starts) {
			h[i].end = starts[i+1]
		}
	}
	down := func(i int) {
		r := h[i]
		for {
			c := 2*i + 1
			if c+1 < len(h) && h[c+1].id.Compare(h[c].id) < 0 {
				c++
			}
			if c >= len(h) || r.id.Compare(h[c].id) < 0 {
				h[i] = r
				return
			}
			h[i] = h[c]
			i = c
		}
	}
	for i := len(h)/2 - 1; i >= 0; i-- {
		down(i)
	}
	for len(h) > 0 {
		r := &h[0]
		if !f(v.Get(r.at)) {
			return
		}
		for r.at = v.Next(r.at + 1); r.at < r.end && !keep(v.Get(r.at)); {
			r.at = v.Next(r.at + 1)
		}
		if r.at < r.end {
			r.id = key(v.Get(r.at))
		} else {
			*r = h[len(h)-1]
			h = h[:len(h)-1]
		}
		if len(h) > 0 {
			down(0)
		}
	}
}

// eachInParts is eachSorted for n records that are not in order, about so many of them at a time.
func eachInParts[T any](v *table.View[T], keep func(*T) bool, key func(*T) ID, f func(*T) bool, n, together int) {
	parts := max(1, (n+together-1)/together)
	cuts := cutsOf(v, keep, key, n, parts)
	part := make([]keyedSlot, 0, n/parts+n/(8*parts)+1) // parts differ by the luck of the samples
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
