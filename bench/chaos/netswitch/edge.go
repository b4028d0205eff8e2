//go:build linux

package netswitch

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Counts is what has become of the packets of an edge. Seen is the sum of Cut, Lost and the packets of which copies went on.
type Counts struct {
	Seen      int64 // came from the sender
	Cut       int64 // dropped, since the edge was cut, when they came or when they were due
	Lost      int64 // drawn
	Doubled   int64 // drawn
	Held      int64 // copies that were held back, drawn
	Full      int64 // copies for which there was no room
	Delivered int64 // copies that the receiver has
	Failed    int64 // copies that its device did not take
}

// plus adds so many times what another edge counted.
func (c Counts) plus(o Counts, times int64) Counts {
	return Counts{
		Seen: c.Seen + times*o.Seen, Cut: c.Cut + times*o.Cut, Lost: c.Lost + times*o.Lost, Doubled: c.Doubled + times*o.Doubled,
		Held: c.Held + times*o.Held, Full: c.Full + times*o.Full, Delivered: c.Delivered + times*o.Delivered, Failed: c.Failed + times*o.Failed,
	}
}

// Less is what has been counted since an earlier count.
func (c Counts) Less(earlier Counts) Counts { return c.plus(earlier, -1) }

// edge is the way from one place to another.
type edge struct {
	from, to *place
	number   uint64 // for the seed: the same of the same two places in every run

	// mu guards what follows. It is held while a packet is handed to the receiver's device: who has changed the edge knows that nothing
	// goes by the old rules any more.
	mu     sync.Mutex
	cut    bool // until Heal
	moving bool // cut by a fault that cuts and heals by itself
	shape  Shape
	dice   *rand.Rand
	free   time.Time // when all that was given to a narrow edge will have been sent
	counts Counts
}

// carry takes a packet of the sender's. The bytes are its caller's again when it returns.
func (e *edge) carry(packet []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counts.Seen++
	if e.cut || e.moving {
		e.counts.Cut++
		return
	}
	if e.shape.good() {
		e.hand(packet)
		return
	}
	f := e.shape.draw(e.dice)
	if f.copies == 0 {
		e.counts.Lost++
		return
	}
	e.counts.Doubled += int64(f.copies - 1)
	e.counts.Held += int64(f.held)
	now := time.Now()
	for i := range f.copies {
		due := now.Add(f.delay[i])
		if e.shape.Kbit > 0 {
			if e.free.Before(now) {
				e.free = now
			}
			takes := e.shape.takes(len(packet))
			if e.free.Sub(now)+takes > e.shape.takes(lineBytes) {
				e.counts.Full++
				continue
			}
			e.free = e.free.Add(takes)
			due = e.free.Add(f.delay[i])
		}
		if !due.After(now) {
			e.hand(packet)
		} else if !e.to.post.put(&parcel{due: due, edge: e, packet: append([]byte(nil), packet...)}) {
			e.counts.Full++
		}
	}
}

// arrive hands over what was under way.
func (e *edge) arrive(packet []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cut || e.moving {
		e.counts.Cut++
		return
	}
	e.hand(packet)
}

// hand gives a packet to the receiver; mu is held.
func (e *edge) hand(packet []byte) {
	if _, err := e.to.tun.Write(packet); err != nil {
		e.counts.Failed++
		return
	}
	e.counts.Delivered++
}

func (e *edge) setCut(cut bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cut = cut
}

func (e *edge) setMoving(cut bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.moving = cut
}

// setShape starts the edge's chances, and its line, anew.
func (e *edge) setShape(s Shape) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shape, e.dice, e.free = s, s.dice(e.number), time.Time{}
}

func (e *edge) read() Counts {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.counts
}
