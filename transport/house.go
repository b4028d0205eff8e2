package transport

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// house is the session that all who come by HTTP share on the node that leads: leases belong to a session, and one for each request would
// be an entry in the log and a record in the state each time. It is opened when it is needed, and kept over changes of leadership. Pulls
// answer their own requests; streams are subscriptions of it, each under a number that is never used again.
type house struct {
	srv     *Server
	turn    chan struct{} // held by whoever opens or refreshes it; guards what follows
	at      *attached     // nil: not yet
	touched time.Time     // when the log last heard of it

	mu     sync.Mutex
	guests map[uint32]guest // guarded by mu; streams by the number of their subscription
	last   uint32           // guarded by mu; number given last
}

// guest is a stream in a house. at is nil until it has the session that it subscribes to.
type guest struct {
	c  *conn
	at *attached
}

// houseTouch is how long a session may rest before it is touched in the log; it ends after an hour of log time without a word.
const houseTouch = 20 * time.Minute

func newHouse(s *Server) *house {
	return &house{srv: s, turn: make(chan struct{}, 1), guests: map[uint32]guest{}}
}

// session is the shared session, attached to this node.
func (h *house) session(ctx context.Context) (*attached, *wire.Fault) {
	ctx, cancel := context.WithTimeout(ctx, h.srv.cfg.CallTimeout)
	defer cancel()
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		f := wire.NewFault(wire.CodeTimeout, "no session could be opened within the call's time")
		f.Unknown = false // nothing of the request has been proposed
		return nil, f
	}
	if h.at != nil && !h.at.lost.Load() && time.Since(h.touched) < houseTouch {
		return h.at, nil
	}
	var id fsm.ID
	if h.at != nil {
		id = h.at.id
	}
	id, f := h.open(ctx, id)
	if f != nil {
		return nil, f
	}
	h.touched = time.Now()
	if h.at != nil && !h.at.lost.Load() && h.at.id == id {
		return h.at, nil
	}
	a := &attached{id: id}
	s, err := h.srv.group("").Attach(id, &houseConn{h: h, a: a})
	if err != nil {
		return nil, faultOf(err)
	}
	a.Session = s
	if old := h.at; old != nil {
		old.leave()
		h.dismiss(old, "", group.RedirectReplaced) // its session has ended in the log, or its streams have been told already
	}
	h.at = a
	return a, nil
}

// open touches the session, or opens one where there is none or it has ended.
func (h *house) open(ctx context.Context, id fsm.ID) (fsm.ID, *wire.Fault) {
	if !id.IsZero() {
		_, _, f := h.srv.openSession(ctx, id)
		if f == nil || f.Code != wire.CodeSessionExpired {
			return id, sureFault(f)
		}
	}
	id, _, f := h.srv.openSession(ctx, fsm.ID{})
	return id, sureFault(f)
}

// sureFault is f for a request that has not been proposed: whatever became of the session, nothing became of it.
func sureFault(f *wire.Fault) *wire.Fault {
	if f != nil {
		f.Unknown = false
	}
	return f
}

// close detaches the session: nobody comes any more.
func (h *house) close() {
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	if h.at != nil {
		h.at.leave()
	}
}

// enter takes a stream in under a number of its own; 0: the house is full.
func (h *house) enter(c *conn) uint32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.guests) >= group.MaxSessionSubs {
		return 0
	}
	for h.last++; h.last == 0 || h.guests[h.last].c != nil; h.last++ { // they begin again after four billion
	}
	h.guests[h.last] = guest{c: c}
	return h.last
}

// seat notes which session a stream subscribes to.
func (h *house) seat(n uint32, a *attached) {
	h.mu.Lock()
	h.guests[n] = guest{c: h.guests[n].c, at: a}
	h.mu.Unlock()
}

// exit lets a stream go.
func (h *house) exit(n uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.guests, n)
}

// streams is how many are in it.
func (h *house) streams() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.guests)
}

func (h *house) guest(n uint32) *conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.guests[n].c
}

// dismiss tells the streams of a session that it is over here.
func (h *house) dismiss(a *attached, leader, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range h.guests {
		if g.at == a {
			g.c.redirect(leader, reason)
			g.c.signal()
		}
	}
}

// empty ends the subscriptions of its streams, and waits until the log has what they had out. That is given back in the next entry, so an entry of
// one's own tells when it is written.
func (h *house) empty(ctx context.Context) {
	var left []fsm.Consumer
	h.mu.Lock()
	guests := maps.Clone(h.guests)
	h.mu.Unlock()
	for n, g := range guests {
		if g.at == nil || g.at.Credit(n, 0) != nil { // it has not begun, or is over here
			delete(guests, n)
		}
	}
	for n, g := range guests {
		_ = g.at.Settled(ctx, n) // what is on its way goes back too; if that takes too long, when its lease ends
		_ = g.at.Abandon(n)
		left = append(left, fsm.Consumer{Session: g.at.id, Sub: n})
	}
	for len(left) > 0 {
		out := false
		_, err := h.srv.group("").Read(ctx, true, func(st *fsm.State) {
			for _, c := range left {
				st.ConsumerLeases(c, func(fsm.Token) bool { out = true; return false })
			}
		})
		if err != nil || !out {
			return
		}
		if _, _, f := h.srv.openSession(ctx, left[0].Session); f != nil {
			return // leadership is lost: they come back when their leases end
		}
	}
}

// houseConn is what the group knows of a shared session. Pulls answer those who asked, and of their leases that end by themselves the workers
// hear when they come with their tokens; what is of a stream goes to that.
type houseConn struct {
	h *house
	a *attached
}

// Deliver hands over to a stream. It declines for one that has gone.
func (hc *houseConn) Deliver(sub uint32, st *fsm.State, leases []fsm.Leased) bool {
	c := hc.h.guest(sub)
	if c == nil || !c.Deliver(sub, st, leases) {
		return false
	}
	c.signal()
	return true
}

// Room says whether a stream takes more.
func (hc *houseConn) Room(sub uint32) bool {
	c := hc.h.guest(sub)
	return c == nil || c.Room(sub)
}

// LeaseGone tells a stream.
func (hc *houseConn) LeaseGone(sub uint32, tokens []fsm.Token) {
	if c := hc.h.guest(sub); c != nil {
		c.LeaseGone(sub, tokens)
		c.signal()
	}
}

// LeaseCancelled tells a stream.
func (hc *houseConn) LeaseCancelled(sub uint32, tokens []fsm.Token) {
	if c := hc.h.guest(sub); c != nil {
		c.LeaseCancelled(sub, tokens)
		c.signal()
	}
}

// Redirect has the session attached anew by the next who needs it, and tells the streams.
func (hc *houseConn) Redirect(leader, reason string) {
	hc.a.lost.Store(true)
	hc.h.dismiss(hc.a, leader, reason)
}

// Flush has nothing to do: each stream is woken as it is given something.
func (*houseConn) Flush() {}
