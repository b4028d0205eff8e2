package transport

import (
	"context"
	"time"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// session finds the connection's session, or answers that there is none.
func (c *conn) session(tag uint64) *attached {
	a := c.attached.Load()
	if a == nil {
		c.fault(tag, noSession())
	}
	return a
}

// done answers a request that the session carried out at once, stamped with what this node has applied.
func (c *conn) done(tag uint64, err *group.Error) bool {
	if err != nil {
		return c.fault(tag, faultOf(err))
	}
	at, err := c.srv.group("").Read(c.ctx, true, func(*fsm.State) {})
	if err != nil {
		at = group.Stamp{Index: c.srv.group("").Status().Applied} // the request is done, whatever the stamp
	}
	c.push(wire.TypeOK, tag, &wire.OK{At: wire.At(at)})
	return true
}

// pull leases messages for the session itself. The group answers when messages or the end of the wait come.
func (c *conn) pull(raw wire.Raw) bool {
	var req wire.Lease
	if ok, alive := taken(c, raw, &req, (*wire.Lease).Validate); !ok {
		return alive
	}
	a := c.session(raw.Tag)
	if a == nil {
		return true
	}
	request, f := c.request(req.Request)
	if f != nil {
		return c.fault(raw.Tag, f)
	}
	wait := time.Duration(req.WaitMillis) * time.Millisecond
	k := c.newCall(raw.Tag, wire.TypeLease, &fsm.Lease{
		Request: request, Queue: wire.View(req.Queue), Consumer: fsm.Consumer{Session: a.id}, Worker: wire.View(req.Worker),
		Max: req.Max, MaxBytes: wire.MaxLeaseBytes, LeaseMillis: req.LeaseMillis, Waits: true,
	})
	k.queue = req.Queue
	k.Deadline += wait
	c.submit() // what came before it goes before it
	end := a.Lease(&k.Proposal, req.Queue, request, wait)
	if c.visit != nil {
		c.waits = append(c.waits, end)
	}
	return true
}

func (c *conn) subscribe(raw wire.Raw) bool {
	var req wire.Subscribe
	if ok, alive := taken(c, raw, &req, (*wire.Subscribe).Validate); !ok {
		return alive
	}
	a := c.session(raw.Tag)
	if a == nil {
		return true
	}
	unfinished, f := tokensOf(nil, "unfinished", req.Unfinished)
	if f != nil {
		return c.fault(raw.Tag, f)
	}
	c.submit()
	return c.done(raw.Tag, a.Subscribe(req.Sub, req.Queue, req.Credit, req.LeaseMillis, req.Worker, unfinished...))
}

func (c *conn) credit(raw wire.Raw) bool {
	var req wire.Credit
	if ok, alive := taken(c, raw, &req, (*wire.Credit).Validate); !ok {
		return alive
	}
	a := c.session(raw.Tag)
	if a == nil {
		return true
	}
	err := a.Credit(req.Sub, req.Credit)
	if req.Credit != 0 || err != nil {
		return c.done(raw.Tag, err)
	}
	// Nothing is delivered after the answer.
	return c.slowly(raw.Tag, 0, 1, func(ctx context.Context, _ *errand) (wire.Type, any, *wire.Fault) {
		if err := a.Settled(ctx, req.Sub); err != nil {
			return 0, nil, faultOf(err)
		}
		at, err := c.srv.group("").Read(ctx, true, func(*fsm.State) {})
		if err != nil {
			at = group.Stamp{Index: c.srv.group("").Status().Applied}
		}
		return wire.TypeOK, &wire.OK{At: wire.At(at)}, nil
	})
}

func (c *conn) unsubscribe(raw wire.Raw) bool {
	var req wire.Unsubscribe
	if ok, alive := taken(c, raw, &req, (*wire.Unsubscribe).Validate); !ok {
		return alive
	}
	a := c.session(raw.Tag)
	if a == nil {
		return true
	}
	return c.done(raw.Tag, a.Unsubscribe(req.Sub))
}

// start notes which deliveries handlers have taken. It has no answer, so a bad one ends the connection.
func (c *conn) start(raw wire.Raw) bool {
	req := &c.started
	if err := raw.DecodeWith(req, &c.strings); err != nil {
		return c.badFrame(err)
	}
	if f := req.Validate(); f != nil {
		return c.breach("started: %s", f.Message)
	}
	tokens, f := tokensOf(c.tokens[:0], "tokens", req.Tokens)
	if f != nil {
		return c.breach("started: %s", f.Message)
	}
	c.tokens = tokens
	if a := c.attached.Load(); a != nil {
		a.Started(req.Sub, tokens)
	}
	return true
}

// resume re-establishes a consumer. Leases that are not in the client's hands are given back, through the log, so it
// waits in its own goroutine.
func (c *conn) resume(raw wire.Raw) bool {
	req := new(wire.Resume)
	if ok, alive := taken(c, raw, req, (*wire.Resume).Validate); !ok {
		return alive
	}
	a := c.session(raw.Tag)
	if a == nil {
		return true
	}
	started, f := tokensOf(nil, "started", req.Started)
	if f != nil {
		return c.fault(raw.Tag, f)
	}
	held, f := tokensOf(nil, "held", req.Held)
	if f != nil {
		return c.fault(raw.Tag, f)
	}
	unfinished, f := tokensOf(nil, "unfinished", req.Subscribe.Unfinished)
	if f != nil {
		return c.fault(raw.Tag, f)
	}
	c.submit()
	return c.slowly(raw.Tag, 0, 1+(len(started)+len(held))/100, func(ctx context.Context, _ *errand) (wire.Type, any, *wire.Fault) {
		s := &req.Subscribe
		lost, at, err := a.Resume(ctx, s.Sub, s.Queue, s.Credit, s.LeaseMillis, s.Worker, started, held, unfinished...)
		if err != nil {
			return 0, nil, faultOf(err)
		}
		r := &wire.Resumed{Lost: make([]string, len(lost)), At: wire.At(at)}
		for i, t := range lost {
			r.Lost[i] = t.String()
		}
		return wire.TypeResumed, r, nil
	})
}

func tokensOf(dst []fsm.Token, field string, ss []string) ([]fsm.Token, *wire.Fault) {
	for i, s := range ss {
		t, err := fsm.ParseToken(s)
		if err != nil {
			return dst, wire.Invalid(field, "token %d: %v", i, err)
		}
		dst = append(dst, t)
	}
	return dst, nil
}
