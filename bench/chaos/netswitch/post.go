//go:build linux

package netswitch

import (
	"container/heap"
	"sync"
	"time"
)

// What may be under way to one place. A sender that is faster than the delays allow loses the rest, as in a router.
const (
	postBytes   = 16 << 20
	postParcels = 1 << 16
)

// parcel is a packet that is due at some time.
type parcel struct {
	due    time.Time
	number uint64 // those that are due at once keep their order
	edge   *edge
	packet []byte
}

// post is what is under way to a place.
type post struct {
	wake chan struct{} // holds one token when there is something that is due sooner than all before

	mu     sync.Mutex
	queue  parcels // guarded by mu
	bytes  int     // guarded by mu
	number uint64  // guarded by mu
}

func newPost() *post { return &post{wake: make(chan struct{}, 1)} }

// put takes a parcel, unless there is no room for it.
func (p *post) put(x *parcel) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) >= postParcels || p.bytes+len(x.packet) > postBytes {
		return false
	}
	p.number++
	x.number = p.number
	p.bytes += len(x.packet)
	heap.Push(&p.queue, x)
	if p.queue[0] == x {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// due takes what is due, and says how long it is until the next will be; forever where there is none.
func (p *post) due(now time.Time) (x *parcel, wait time.Duration) {
	const forever = time.Hour
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		return nil, forever
	}
	if wait := p.queue[0].due.Sub(now); wait > 0 {
		return nil, wait
	}
	x = heap.Pop(&p.queue).(*parcel)
	p.bytes -= len(x.packet)
	return x, 0
}

// deliver hands over parcels when they are due, until over is closed.
func (p *post) deliver(over <-chan struct{}) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		x, wait := p.due(time.Now())
		if x != nil {
			x.edge.arrive(x.packet)
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-p.wake:
		case <-over:
			return
		}
	}
}

// parcels is a heap by due, for container/heap.
type parcels []*parcel

func (h parcels) Len() int { return len(h) }

func (h parcels) Less(i, j int) bool {
	if h[i].due.Equal(h[j].due) {
		return h[i].number < h[j].number
	}
	return h[i].due.Before(h[j].due)
}

func (h parcels) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *parcels) Push(x any) { *h = append(*h, x.(*parcel)) }

func (h *parcels) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return x
}
