package transport

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/wire"
)

// houses are the shared sessions of a node: the first for pulls, and as many as its streams need, since a session has so many subscriptions
// and no more.
type houses struct {
	srv *Server

	mu   sync.Mutex
	all  []*house // guarded by mu; one at least
	shut bool     // guarded by mu; no stream is taken in any more
}

func newHouses(s *Server) *houses {
	return &houses{srv: s, all: []*house{newHouse(s)}}
}

// first is the house of those who pull.
func (hs *houses) first() *house { return hs.list()[0] }

func (hs *houses) list() []*house {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return hs.all[:len(hs.all):len(hs.all)]
}

// enter takes a stream into a house that has room, under a number of its own.
func (hs *houses) enter(c *conn) (*house, uint32, *wire.Fault) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.shut {
		return nil, 0, wire.NewFault(wire.CodeNoLeader, "this node is stopping: ask another")
	}
	for _, h := range hs.all {
		if n := h.enter(c); n != 0 {
			return h, n, nil
		}
	}
	h := newHouse(hs.srv)
	hs.all = append(hs.all, h)
	return h, h.enter(c), nil
}

// keepEvery is how often the sessions that streams live in are looked at: one that rests is touched in the log.
const keepEvery = time.Minute

// keep keeps the sessions of streams from ending for want of a word, until ctx ends.
func (hs *houses) keep(ctx context.Context) {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for _, h := range hs.list() {
			if h.streams() > 0 {
				_, _ = h.session(ctx) // where it fails, this node does not lead, and the streams have been told
			}
		}
	}
}

// drain gives back what streams have out, and waits until the log has it: this node is about to hand over, and the next leader knows nothing of
// them. The streams themselves end as fast as they are read.
func (hs *houses) drain(ctx context.Context) {
	hs.mu.Lock()
	hs.shut = true
	hs.mu.Unlock()
	for _, h := range hs.list() {
		h.empty(ctx)
	}
}

// close detaches all of them.
func (hs *houses) close() {
	for _, h := range hs.list() {
		h.close()
	}
}
