package load

import (
	"sync/atomic"
	"time"
)

// Gap finds the longest time in which nothing was confirmed. Begin starts it, Mark notes a confirmation, End closes the
// last interval. Mark and Longest may be called from any goroutine. The zero value is ready for Begin.
type Gap struct {
	origin time.Time
	last   atomic.Int64 // ns since origin
	length atomic.Int64 // of the longest, ns
	from   atomic.Int64 // where it began, ns since origin
	on     atomic.Bool
}

// Begin starts (again) at t, which counts as a confirmation.
func (g *Gap) Begin(t time.Time) {
	g.origin = t
	g.last.Store(0)
	g.length.Store(0)
	g.from.Store(0)
	g.on.Store(true)
}

// Mark notes a confirmation at t. Before Begin and after End it does nothing.
func (g *Gap) Mark(t time.Time) {
	if !g.on.Load() {
		return
	}
	now := int64(t.Sub(g.origin))
	for {
		last := g.last.Load()
		if now <= last {
			return // another, later one was faster
		}
		if !g.last.CompareAndSwap(last, now) {
			continue
		}
		for {
			longest := g.length.Load()
			if now-last <= longest {
				return
			}
			if g.length.CompareAndSwap(longest, now-last) {
				g.from.Store(last)
				return
			}
		}
	}
}

// End closes the last interval at t: without confirmations up to t it may be the longest.
func (g *Gap) End(t time.Time) {
	g.Mark(t)
	g.on.Store(false)
}

// Longest is the longest gap so far and how long after Begin it started.
func (g *Gap) Longest() (length, after time.Duration) {
	return time.Duration(g.length.Load()), time.Duration(g.from.Load())
}
