package transport

import (
	"context"
	"time"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// house is the session that all who come by HTTP share on the node that leads: leases belong to a session, and one for each request would
// be an entry in the log and a record in the state each time. It is opened when it is needed, and kept over changes of leadership.
type house struct {
	srv     *Server
	turn    chan struct{} // held by whoever opens or refreshes it; guards what follows
	at      *attached     // nil: not yet
	touched time.Time     // when the log last heard of it
}

// houseTouch is how long a session may rest before it is touched in the log; it ends after an hour of log time without a word.
const houseTouch = 20 * time.Minute

func newHouse(s *Server) *house { return &house{srv: s, turn: make(chan struct{}, 1)} }

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
	s, err := h.srv.group("").Attach(id, &houseConn{a: a})
	if err != nil {
		return nil, faultOf(err)
	}
	a.Session = s
	if h.at != nil {
		h.at.leave()
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

// houseConn is what the group knows of the shared session. Pulls answer those who asked; of leases that end by themselves the workers
// hear when they come with their tokens.
type houseConn struct{ a *attached }

// Deliver declines: the session has no subscriptions.
func (*houseConn) Deliver(uint32, *fsm.State, []fsm.Leased) bool { return false }

// LeaseGone is nothing to be told to anybody.
func (*houseConn) LeaseGone(uint32, []fsm.Token) {}

// LeaseCancelled is nothing to be told to anybody.
func (*houseConn) LeaseCancelled(uint32, []fsm.Token) {}

// Redirect has the session attached anew by the next who needs it.
func (h *houseConn) Redirect(string, string) { h.a.lost.Store(true) }

// Flush has nothing to write.
func (*houseConn) Flush() {}
