package arena

import (
	"slices"
	"sync/atomic"
)

// Pin keeps every blob readable that was live when it was taken. Any goroutine may read through it; Release it soon,
// since what the owner frees meanwhile stays in memory.
type Pin struct {
	a        *Arena
	chunks   []*chunk
	number   uint64
	released atomic.Bool
}

// Pin takes a pin; it costs the same whatever the arena holds.
func (a *Arena) Pin() *Pin {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken++
	p := &Pin{a: a, chunks: a.chunks[:len(a.chunks):len(a.chunks)], number: a.taken}
	a.pins = append(a.pins, p)
	a.pinned.Add(1)
	return p
}

// Get is the bytes of a blob that was live when the pin was taken. They are good until Release.
func (p *Pin) Get(r Ref) []byte { return p.chunks[r>>chunkShift-1].get(int(r & (chunkSize - 1))) }

// Release ends the pin; again does nothing. The memory that only it held is recycled at the owner's next step.
func (p *Pin) Release() {
	if !p.released.CompareAndSwap(false, true) {
		return
	}
	a := p.a
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(a.pins, p); i >= 0 {
		a.pins = slices.Delete(a.pins, i, i+1)
	}
	p.chunks = nil
	a.pinned.Add(-1)
	if a.closed && len(a.pins) == 0 {
		a.releaseAll()
	}
}
