package transport

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// attached is the session of a connection. A connection has at most one, for good.
type attached struct {
	Session
	id     fsm.ID
	detach sync.Once
	lost   atomic.Bool // this node lost its leadership since: the session must be attached again
}

// leave detaches the session once, whoever notices first that the connection is over.
func (a *attached) leave() { a.detach.Do(a.Detach) }

// openSession opens a session, or attaches the connection to one that is open. The session that the connection has
// already is refreshed.
func (c *conn) openSession(raw wire.Raw) bool {
	var req wire.OpenSession
	if ok, alive := taken(c, raw, &req, (*wire.OpenSession).Validate); !ok {
		return alive
	}
	var id fsm.ID
	if req.Session != "" {
		var err error
		if id, err = fsm.ParseID(req.Session); err != nil {
			return c.fault(raw.Tag, wire.Invalid("session", "%v", err))
		}
	}
	if a := c.attached.Load(); a != nil && a.id != id {
		return c.fault(raw.Tag, wire.NewFault(wire.CodeFailedPrecondition,
			"this connection has session %s: another session needs another connection", a.id))
	}
	if c.srv.draining.Load() {
		f := wire.NewFault(wire.CodeNoLeader, "this node is stopping: connect to another")
		if f.Leader = c.srv.otherLeader(); f.Leader != "" {
			f.Code = wire.CodeNotLeader
		}
		return c.fault(raw.Tag, f)
	}
	if !c.opening.CompareAndSwap(false, true) {
		return c.fault(raw.Tag, wire.NewFault(wire.CodeFailedPrecondition, "a session is being opened on this connection: wait for the answer"))
	}
	return c.slowly(raw.Tag, 0, 1, func(ctx context.Context, _ *errand) (wire.Type, any, *wire.Fault) {
		defer c.opening.Store(false)
		return c.attach(ctx, id)
	})
}

// attach makes the session in the log if id is zero, else touches it there, and ties it to the connection.
func (c *conn) attach(ctx context.Context, id fsm.ID) (wire.Type, any, *wire.Fault) {
	id, at, f := c.srv.openSession(ctx, id)
	if f != nil {
		return 0, nil, f
	}
	if a := c.attached.Load(); a == nil || a.lost.Load() {
		s, err := c.srv.group("").Attach(id, c)
		if err != nil {
			return 0, nil, faultOf(err)
		}
		a := &attached{Session: s, id: id}
		c.attached.Store(a)
		if c.ctx.Err() != nil {
			a.leave() // the connection ended meanwhile and may not have seen it
		}
	}
	return wire.TypeSessionOpened, &wire.SessionOpened{Session: id.String(), At: wire.At(at)}, nil
}

// openSession makes a session in the log if id is zero, else touches it there.
func (s *Server) openSession(ctx context.Context, id fsm.ID) (fsm.ID, group.Stamp, *wire.Fault) {
	var op fsm.Op = &fsm.OpenSession{}
	if !id.IsZero() {
		op = &fsm.TouchSession{Session: id}
	}
	o, at, f := s.ask(ctx, op)
	switch {
	case f != nil:
		return id, at, f
	case o.Code != fsm.OK:
		return id, at, judged(&call{kind: wire.TypeOpenSession}, nil, wire.At(at), &o)
	case id.IsZero():
		id = o.ID
	}
	return id, at, nil
}
