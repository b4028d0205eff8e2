package table

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"
)

const (
	pageShift = 10
	pageSize  = 1 << pageShift
	pageMask  = pageSize - 1

	// A page of records is what a write copies under a view: where records change in no order, nearly each of the first writes
	// finds a page that nobody has copied yet.
	recordShift = 7
	recordSize  = 1 << recordShift
	recordMask  = recordSize - 1
)

// Pages is a table of records of type T, which must hold no pointers, found by slot number. The zero value is ready to
// use; do not copy it. All methods are for the owner's goroutine.
type Pages[T any] struct {
	pages []*[recordSize]T // nil where a page was given back
	gens  []uint64         // generation of each page: equal to gen where no view can hold it
	meta  []pageMeta
	gen   uint64       // raised by every View
	open  atomic.Int32 // views not released
	free  int32        // first page with a free slot, as number + 1; 0: none
	top   int32
	live  int
	held  int // pages present
	empty int // pages present without a live record
}

type pageMeta struct {
	used  [recordSize / 64]uint64 // bitmap of live slots
	nfree int32
	next  int32 // next page with a free slot, as number + 1; 0: last
}

// Get is the record in slot i, to read. It is good until the next Mut, Free or View.
func (p *Pages[T]) Get(i int32) *T { return &p.pages[uint32(i)>>recordShift][i&recordMask] }

// Mut is the record in slot i, to write. Where a view holds the page the record moves to a copy of it, so no pointer
// from before is good, and this one is good until the next View or Free.
func (p *Pages[T]) Mut(i int32) *T {
	k := uint32(i) >> recordShift
	if p.gens[k] != p.gen {
		p.own(k)
	}
	return &p.pages[k][i&recordMask]
}

// own makes page k writable. While any view is open the page is taken to be in it: at worst a page is copied in vain
// that only a released view held.
func (p *Pages[T]) own(k uint32) {
	if p.open.Load() != 0 {
		c := new([recordSize]T)
		*c = *p.pages[k]
		p.pages[k] = c
	}
	p.gens[k] = p.gen
}

// Alloc takes a free slot; its record is zero. Slots count from 0.
func (p *Pages[T]) Alloc() int32 {
	if p.free == 0 {
		p.pages = append(p.pages, nil)
		p.gens = append(p.gens, 0)
		p.meta = append(p.meta, pageMeta{nfree: recordSize})
		p.free = int32(len(p.pages))
		if len(p.pages) > 1<<(31-recordShift) {
			panic("table: more than 2^31 slots")
		}
	}
	k := p.free - 1
	m := &p.meta[k]
	if p.pages[k] == nil {
		p.pages[k] = new([recordSize]T)
		p.gens[k] = p.gen
		p.held++
		p.empty++
	}
	if m.nfree == recordSize {
		p.empty--
	}
	if m.nfree--; m.nfree == 0 {
		p.free, m.next = m.next, 0
	}
	p.live++
	for w := range m.used {
		if u := m.used[w]; u != ^uint64(0) {
			b := bits.TrailingZeros64(^u)
			m.used[w] = u | 1<<b
			i := k<<recordShift | int32(w<<6|b)
			p.top = max(p.top, i+1)
			return i
		}
	}
	panic("table: page with free slots has none")
}

// Free gives slot i back and zeroes its record. It panics where the slot is not live.
func (p *Pages[T]) Free(i int32) {
	k := i >> recordShift
	m := &p.meta[k]
	w, b := i&recordMask>>6, uint64(1)<<(i&63)
	if m.used[w]&b == 0 {
		panic(fmt.Sprintf("table: slot %d freed twice", i))
	}
	m.used[w] &^= b
	p.live--
	if m.nfree++; m.nfree == 1 {
		m.next, p.free = p.free, k+1
	}
	if m.nfree == recordSize {
		if p.empty > 0 { // one in hand is enough
			p.pages[k] = nil
			p.held--
			return
		}
		p.empty++
	}
	var zero T
	*p.Mut(i) = zero
}

// Live reports whether slot i is taken.
func (p *Pages[T]) Live(i int32) bool {
	k := i >> recordShift
	return i >= 0 && int(k) < len(p.meta) && p.meta[k].used[i&recordMask>>6]&(1<<(i&63)) != 0
}

// Len is the number of live records.
func (p *Pages[T]) Len() int { return p.live }

// Top is one past the highest slot that was ever taken.
func (p *Pages[T]) Top() int32 { return p.top }

// Bytes is the memory held, without copies that only views hold.
func (p *Pages[T]) Bytes() int64 {
	var t T
	return int64(p.held)*recordSize*int64(unsafe.Sizeof(t)) +
		int64(len(p.meta))*int64(unsafe.Sizeof(pageMeta{})+16)
}

// Each calls f for the live records in the order of their slots until it returns false. f must not change the table.
func (p *Pages[T]) Each(f func(i int32, r *T) bool) {
	for k := range p.meta {
		for w, u := range p.meta[k].used {
			for ; u != 0; u &= u - 1 {
				i := w<<6 | bits.TrailingZeros64(u)
				if !f(int32(k<<recordShift|i), &p.pages[k][i]) {
					return
				}
			}
		}
	}
}

// View is the table as it was when View was called, for any goroutine to read until it is released.
type View[T any] struct {
	pages    []*[recordSize]T
	top      int32
	open     *atomic.Int32
	released atomic.Bool
}

// View takes a picture of the table: it copies one pointer for each page. Until it is released, pages are copied before
// they are written to.
func (p *Pages[T]) View() *View[T] {
	v := &View[T]{pages: append([]*[recordSize]T(nil), p.pages...), top: p.top, open: &p.open}
	p.open.Add(1)
	p.gen++
	return v
}

// Get is the record that slot i held; slot i must have been live.
func (v *View[T]) Get(i int32) *T { return &v.pages[uint32(i)>>recordShift][i&recordMask] }

// Top is one past the highest slot that the view may hold.
func (v *View[T]) Top() int32 { return v.top }

// Next is the first slot from i on whose page was there, Top if there is none.
func (v *View[T]) Next(i int32) int32 {
	for i < v.top && v.pages[uint32(i)>>recordShift] == nil {
		i = (i>>recordShift + 1) << recordShift
	}
	return min(i, v.top)
}

// Each calls f for every slot in order until it returns false, but for pages that were not there. A slot that was free
// holds the zero record: what tells a live one is the caller's to know.
func (v *View[T]) Each(f func(i int32, r *T) bool) {
	for k, pg := range v.pages {
		if pg == nil {
			continue
		}
		for i := range pg {
			if n := int32(k<<recordShift | i); n >= v.top || !f(n, &pg[i]) {
				return
			}
		}
	}
}

// Release ends the view; again does nothing. Records read through it are not good afterwards.
func (v *View[T]) Release() {
	if v.released.CompareAndSwap(false, true) {
		v.pages = nil
		v.open.Add(-1)
	}
}
