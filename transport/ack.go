package transport

import (
	"fmt"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// ack ends a lease with success. It is the other half of the hot path: decoded into reused memory.
func (c *conn) ack(raw wire.Raw) bool {
	req := &c.acked
	if err := raw.DecodeWith(req, &c.strings); err != nil {
		return c.badFrame(err)
	}
	if ok, alive := c.begin(raw); !ok {
		return alive
	}
	if f := req.Validate(c.srv.cfg.MaxMessageBytes); f != nil {
		return c.fault(raw.Tag, f)
	}
	token, f := tokenOf(req.Token)
	if f != nil {
		return c.fault(raw.Tag, f)
	}
	op := &c.opAck
	op.Token, op.HasResult, op.Result, op.ThenAutoCreate = token, false, fsm.Result{}, !c.srv.cfg.NoAutoCreate
	if req.Result != nil {
		op.HasResult = true
		op.Result = fsm.Result{Output: req.Result.Output, ContentType: wire.View(req.Result.ContentType)}
	}
	if cap(op.Then) < len(req.Then) {
		op.Then = make([]fsm.ThenMessage, len(req.Then))
	}
	op.Then = op.Then[:len(req.Then)]
	op.Mapping = req.Mapping
	for i := range req.Then {
		typed, f := c.srv.schemas.of(req.Then[i].Queue)
		if typed != nil {
			f = misfit(c.judging, typed, req.Then[i].Queue, fmt.Sprintf("then[%d].message.body", i), req.Then[i].Message.Body)
		}
		if f = c.unlessAnswered(f); f != nil {
			return c.fault(raw.Tag, f)
		}
		op.Then[i].Queue = wire.View(req.Then[i].Queue)
		setMessage(&op.Then[i].Message, &req.Then[i].Message)
	}
	c.prepare(raw.Tag, wire.TypeAck, op)
	return true
}

func (c *conn) nack(raw wire.Raw) bool {
	var req wire.Nack
	if ok, alive := taken(c, raw, &req, (*wire.Nack).Validate); !ok {
		return alive
	}
	token, f := tokenOf(req.Token)
	if f != nil {
		return c.fault(raw.Tag, f)
	}
	op := &fsm.Nack{
		Token: token, Error: wire.View(wire.CutText(req.Error, wire.MaxErrorBytes)), DelayMillis: -1, Permanent: req.Permanent,
		Mapping: req.Mapping,
	}
	if req.DelayMillis != nil {
		op.DelayMillis = *req.DelayMillis
	}
	c.prepare(raw.Tag, wire.TypeNack, op)
	return true
}

func (c *conn) extend(raw wire.Raw) bool {
	var req wire.Extend
	if ok, alive := taken(c, raw, &req, (*wire.Extend).Validate); !ok {
		return alive
	}
	token, f := tokenOf(req.Token)
	if f != nil {
		return c.fault(raw.Tag, f)
	}
	c.prepare(raw.Tag, wire.TypeExtend, &fsm.Extend{Token: token, LeaseMillis: req.LeaseMillis})
	return true
}

func (c *conn) release(raw wire.Raw) bool {
	var req wire.Release
	if ok, alive := taken(c, raw, &req, (*wire.Release).Validate); !ok {
		return alive
	}
	token, f := tokenOf(req.Token)
	if f != nil {
		return c.fault(raw.Tag, f)
	}
	c.prepare(raw.Tag, wire.TypeRelease, &fsm.Release{Token: token})
	return true
}

func tokenOf(s string) (fsm.Token, *wire.Fault) {
	t, err := fsm.ParseToken(s)
	if err != nil {
		return t, wire.Invalid("token", "%v", err)
	}
	return t, nil
}
