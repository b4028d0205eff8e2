package transport

import (
	"bytes"
	"context"
	"strconv"
	"strings"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// deadList lists dead letters by the time they died, filtered.
func (c *conn) deadList(raw wire.Raw) bool {
	req := new(wire.DeadList)
	if ok, alive := taken(c, raw, req, (*wire.DeadList).Validate); !ok {
		return alive
	}
	at, after := int64(0), fsm.ID{}
	if req.After != "" {
		var ok bool
		if at, after, ok = parseCursor(req.After); !ok {
			return c.fault(raw.Tag, wire.Invalid("after", "%.64q is no cursor: the one of an earlier page would be right", req.After))
		}
	}
	filter := fsm.DeadFilter{Kind: []byte(req.Kind), Since: req.Since, Until: req.Until}
	for reason, name := range reasons {
		if name == req.Reason {
			filter.Reason = reason
		}
	}
	limit := int(req.Limit)
	if limit == 0 {
		limit = pageDefault
	}
	return c.list(raw.Tag, req.Queue, req.Stale, limit, func(st *fsm.State, n uint32, p *page) string {
		partialAt, partial := st.DeadWhere(n, &filter, at, after, func(in *fsm.Info) bool {
			if p.full() {
				p.more = true
				return false
			}
			if !p.room() {
				return false
			}
			at, after = in.EndedAt, in.ID
			if req.Text != "" {
				p.scanned(len(in.Body))
			}
			if !deadMatches(in, req) {
				return true
			}
			if req.Brief {
				in.Headers, in.History = in.Headers[:0], in.History[:0]
				p.takeBrief(in)
			} else {
				p.take(in)
			}
			return true
		})
		if !partial.IsZero() {
			at, after = partialAt, partial
			p.exhausted()
		}
		return strconv.FormatInt(at, 10) + "." + after.String()
	})
}

// deadMatches looks at what no index has: text and headers.
func deadMatches(in *fsm.Info, req *wire.DeadList) bool {
	if req.Text != "" {
		text := wire.View(req.Text)
		if !bytes.Contains(in.Error, text) && !bytes.Contains(in.TaskID, text) && !bytes.Contains(in.Body, text) {
			return false
		}
	}
next:
	for _, want := range req.Headers {
		for _, h := range in.Headers {
			if string(h.Name) == want.Name && (want.Value == "" || string(h.Value) == want.Value) {
				continue next
			}
		}
		return false
	}
	return true
}

func parseCursor(s string) (at int64, id fsm.ID, ok bool) {
	a, b, ok := strings.Cut(s, ".")
	if !ok {
		return 0, id, false
	}
	at, err := strconv.ParseInt(a, 10, 64)
	if err != nil {
		return 0, id, false
	}
	id, err = fsm.ParseID(b)
	return at, id, err == nil
}

func (c *conn) deadGet(raw wire.Raw) bool {
	req := new(wire.DeadGet)
	if ok, alive := taken(c, raw, req, (*wire.DeadGet).Validate); !ok {
		return alive
	}
	id, err := fsm.ParseID(req.ID)
	if err != nil {
		return c.fault(raw.Tag, wire.Invalid("id", "%v", err))
	}
	return c.slowly(raw.Tag, 0, 1, func(ctx context.Context, e *errand) (wire.Type, any, *wire.Fault) {
		if f := e.takeTurn(ctx, req.Stale); f != nil {
			return 0, nil, f
		}
		rep := new(wire.TaskIs)
		known, found := false, false
		at, f := c.readState(ctx, req.Stale, func(st *fsm.State) {
			var n uint32
			if n, known = st.QueueNumber(wire.View(req.Queue)); !known {
				return
			}
			var in fsm.Info
			if found = st.DeadLetter(n, id, &in); found {
				rep.Task = taskOf(&in, true)
			}
		})
		switch {
		case f != nil:
			return 0, nil, f
		case !known:
			return 0, nil, noQueue(req.Queue)
		case !found:
			return 0, nil, wire.NewFault(wire.CodeNotFound, "queue %q has no dead letter %s", req.Queue, req.ID)
		}
		rep.At = at
		return wire.TypeTaskIs, rep, nil
	})
}

// deadIDs requeues or deletes dead letters, each with its own outcome.
func (c *conn) deadIDs(raw wire.Raw) bool {
	var req wire.DeadIDs
	if ok, alive := taken(c, raw, &req, (*wire.DeadIDs).Validate); !ok {
		return alive
	}
	request, f := c.request(req.Request)
	if f != nil {
		return c.fault(raw.Tag, f)
	}
	ids := make([]fsm.ID, len(req.IDs))
	for i, s := range req.IDs {
		id, err := fsm.ParseID(s)
		if err != nil {
			return c.fault(raw.Tag, wire.Invalid("ids", "id %d: %v", i, err))
		}
		ids[i] = id
	}
	var op fsm.Op = &fsm.DeadRequeue{Request: request, Queue: wire.View(req.Queue), IDs: ids}
	if raw.Type == wire.TypeDeadDelete {
		op = &fsm.DeadDelete{Request: request, Queue: wire.View(req.Queue), IDs: ids}
	}
	k := c.prepare(raw.Tag, raw.Type, op)
	k.queue, k.count = req.Queue, len(ids)
	return true
}

var editFields = map[string]fsm.EditFields{
	wire.EditBody: fsm.EditBody, wire.EditHeaders: fsm.EditHeaders, wire.EditPriority: fsm.EditPriority,
	wire.EditContentType: fsm.EditContentType, wire.EditKind: fsm.EditKind, wire.EditKey: fsm.EditKey, wire.EditTTL: fsm.EditTTL,
	wire.EditTimeout: fsm.EditTimeout, wire.EditRetry: fsm.EditRetry, wire.EditDelay: fsm.EditDelay,
}

// deadEdit requeues one dead letter with some fields set anew.
func (c *conn) deadEdit(raw wire.Raw) bool {
	var req wire.DeadEdit
	check := func(r *wire.DeadEdit) *wire.Fault { return r.Validate(c.srv.cfg.MaxMessageBytes) }
	if ok, alive := taken(c, raw, &req, check); !ok {
		return alive
	}
	request, f := c.request(req.Request)
	if f != nil {
		return c.fault(raw.Tag, f)
	}
	id, err := fsm.ParseID(req.ID)
	if err != nil {
		return c.fault(raw.Tag, wire.Invalid("id", "%v", err))
	}
	op := &fsm.DeadEdit{Request: request, Queue: wire.View(req.Queue), ID: id}
	for _, name := range req.Fields {
		op.Fields |= editFields[name]
	}
	if op.Fields&fsm.EditBody != 0 {
		if f := c.unlessAnswered(c.srv.schemas.judge(c.judging, c.srv.schemas.home(req.Queue, req.ID), "set.body", req.Set.Body)); f != nil {
			return c.fault(raw.Tag, f)
		}
	}
	setMessage(&op.Message, &req.Set)
	k := c.prepare(raw.Tag, raw.Type, op)
	k.queue, k.count = req.Queue, 1
	return true
}
