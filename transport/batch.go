package transport

import (
	"context"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

func (c *conn) batchCreate(raw wire.Raw) bool {
	var req wire.BatchCreate
	most := c.srv.cfg.MaxMessageBytes
	if ok, alive := taken(c, raw, &req, func(r *wire.BatchCreate) *wire.Fault { return r.Validate(most) }); !ok {
		return alive
	}
	request, f := c.request(req.Request)
	if f != nil {
		return c.fault(raw.Tag, f)
	}
	if f := c.unlessAnswered(c.srv.schemas.judge(c.judging, req.Queue, "callback.body", req.Callback.Body)); f != nil {
		return c.fault(raw.Tag, f)
	}
	op := &fsm.BatchCreate{Request: request, Queue: wire.View(req.Queue), AutoCreate: !c.srv.cfg.NoAutoCreate}
	setMessage(&op.Callback, &req.Callback)
	c.prepare(raw.Tag, raw.Type, op).queue = req.Queue
	return true
}

func (c *conn) batchSeal(raw wire.Raw) bool {
	var req wire.BatchSeal
	if ok, alive := taken(c, raw, &req, (*wire.BatchSeal).Validate); !ok {
		return alive
	}
	request, f := c.request(req.Request)
	if f != nil {
		return c.fault(raw.Tag, f)
	}
	id, err := fsm.ParseID(req.Batch)
	if err != nil {
		return c.fault(raw.Tag, wire.Invalid("batch", "%v", err))
	}
	c.prepare(raw.Tag, raw.Type, &fsm.BatchSeal{Request: request, Batch: id})
	return true
}

func (c *conn) batchShow(raw wire.Raw) bool {
	req := new(wire.BatchShow)
	if ok, alive := taken(c, raw, req, (*wire.BatchShow).Validate); !ok {
		return alive
	}
	id, err := fsm.ParseID(req.Batch)
	if err != nil {
		return c.fault(raw.Tag, wire.Invalid("batch", "%v", err))
	}
	return c.slowly(raw.Tag, 0, 1, func(ctx context.Context, e *errand) (wire.Type, any, *wire.Fault) {
		if f := e.takeTurn(ctx, req.Stale); f != nil {
			return 0, nil, f
		}
		var in fsm.BatchInfo
		found := false
		at, f := c.readState(ctx, req.Stale, func(st *fsm.State) { found = st.Batch(id, &in) })
		switch {
		case f != nil:
			return 0, nil, f
		case !found:
			return 0, nil, wire.NewFault(wire.CodeNotFound, "%s", noBatch)
		}
		rep := &wire.BatchIs{
			Batch: in.ID.String(), Sealed: in.Sealed, Members: in.Added, Open: in.Open, Succeeded: in.Succeeded, Dead: in.Dead,
			Cancelled: in.Cancelled, CreatedAt: in.CreatedAt, FinishedAt: in.FinishedAt, EndsAt: in.EndsAt, Queue: in.Queue, At: at,
		}
		if !in.Callback.IsZero() {
			rep.CallbackID = in.Callback.String()
		}
		return wire.TypeBatchIs, rep, nil
	})
}

const noBatch = "batch: no such batch; one that is not sealed ends after a week, one that is done an hour later"
