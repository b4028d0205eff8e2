package transport

import (
	"context"
	"time"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// entryOf copies a key out of the state.
func entryOf(e *fsm.KVEntry, value bool) wire.KVEntry {
	w := wire.KVEntry{
		Key: fsm.KVKeyParts(e.Key), ValueBytes: int64(len(e.Value)), Position: e.Rev, ChangedAt: e.At, EndsAt: e.EndsAt,
		Deleted: e.Deleted, Expired: e.Expired,
	}
	if !e.Message.IsZero() {
		w.MessageID = e.Message.String()
	}
	if value && len(e.Value) > 0 {
		w.Value = append(wire.Bytes{}, e.Value...)
	}
	return w
}

// kvPage collects keys over several short holds of the state, within bounds of count, bytes and time.
type kvPage struct {
	limit   int
	values  bool
	entries []wire.KVEntry
	bytes   int
	held    int // in the present hold
}

func newKVPage(limit int32, values bool) *kvPage {
	p := &kvPage{limit: int(limit), values: values, entries: []wire.KVEntry{}}
	if p.limit == 0 {
		p.limit = pageDefault
	}
	return p
}

// full reports whether the page is at an end.
func (p *kvPage) full() bool { return len(p.entries) == p.limit || p.bytes >= wire.MaxLeaseBytes }

// take adds a key and reports whether this hold may add another.
func (p *kvPage) take(e *fsm.KVEntry) bool {
	p.entries = append(p.entries, entryOf(e, p.values))
	p.bytes += len(e.Key) + frameOverhead
	if p.values {
		p.bytes += len(e.Value)
	}
	p.held++
	return p.held < pageTasksHold && !p.full()
}

func (c *conn) kvGet(raw wire.Raw) bool {
	req := new(wire.KVGet)
	if ok, alive := taken(c, raw, req, (*wire.KVGet).Validate); !ok {
		return alive
	}
	return c.slowly(raw.Tag, 0, 1, func(ctx context.Context, e *errand) (wire.Type, any, *wire.Fault) {
		if f := e.takeTurn(ctx, req.Stale); f != nil {
			return 0, nil, f
		}
		key := fsm.AppendKVKey(nil, req.Key...)
		rep := new(wire.KVIs)
		found := false
		at, f := c.readState(ctx, req.Stale, func(st *fsm.State) {
			var entry fsm.KVEntry
			if found = st.KVGet(key, &entry); found {
				rep.Entry = entryOf(&entry, true)
			}
		})
		if f == nil && !found {
			f = wire.NewFault(wire.CodeNotFound, "no key %q", req.Key)
		}
		rep.At = at
		return wire.TypeKVIs, rep, f
	})
}

// kvList lists keys under a prefix.
func (c *conn) kvList(raw wire.Raw) bool {
	req := new(wire.KVList)
	if ok, alive := taken(c, raw, req, (*wire.KVList).Validate); !ok {
		return alive
	}
	return c.slowly(raw.Tag, 0, 1, func(ctx context.Context, e *errand) (wire.Type, any, *wire.Fault) {
		if f := e.takeTurn(ctx, req.Stale); f != nil {
			return 0, nil, f
		}
		prefix := fsm.AppendKVKey(nil, req.Prefix...)
		var after []byte
		if len(req.After) > 0 {
			after = fsm.AppendKVKey(nil, req.After...)
		}
		p := newKVPage(req.Limit, req.Values)
		rep := new(wire.KVEntries)
		stale, more := req.Stale, true
		for examined := 0; more && !p.full() && examined < pageExamine; {
			p.held, more = 0, false
			at, f := c.readState(ctx, stale, func(st *fsm.State) {
				if rep.At.Index == 0 {
					rep.Position = st.KVPosition()
				}
				partial := st.KVList(prefix, after, func(entry *fsm.KVEntry) bool {
					after = append(after[:0], entry.Key...)
					examined++
					more = !p.take(entry)
					return !more
				})
				if partial != nil { // it has looked at as much as a call may
					after, more = append(after[:0], partial...), true
					examined += pageHold
				}
			})
			if f != nil {
				return 0, nil, f
			}
			if rep.At.Index == 0 {
				rep.At = at
			}
			stale = true // the first hold was as fresh as was asked for, and the state only goes on
		}
		rep.Entries = p.entries
		if more {
			rep.Next = fsm.KVKeyParts(after)
		}
		return wire.TypeKVEntries, rep, nil
	})
}

func (c *conn) kvDelete(raw wire.Raw) bool {
	var req wire.KVDelete
	if ok, alive := taken(c, raw, &req, (*wire.KVDelete).Validate); !ok {
		return alive
	}
	request, f := c.request(req.Request)
	if f != nil {
		return c.fault(raw.Tag, f)
	}
	c.prepare(raw.Tag, raw.Type, &fsm.KVDelete{Request: request, Key: fsm.AppendKVKey(nil, req.Key...)})
	return true
}

// kvWatch answers what has changed behind a position, and waits for it if asked to.
func (c *conn) kvWatch(raw wire.Raw) bool {
	req := new(wire.KVWatch)
	if ok, alive := taken(c, raw, req, (*wire.KVWatch).Validate); !ok {
		return alive
	}
	wait := time.Duration(req.WaitMillis) * time.Millisecond
	return c.slowly(raw.Tag, wait, 1, func(ctx context.Context, e *errand) (wire.Type, any, *wire.Fault) {
		waiting, cancel := e.waiting(ctx, wait)
		defer cancel()
		prefix := fsm.AppendKVKey(nil, req.Prefix...)
		rep := &wire.KVChanges{Position: req.From}
		p := newKVPage(req.Limit, true)
		for now := req.Now; ; {
			if f := e.takeTurn(ctx, false); f != nil {
				return 0, nil, f
			}
			more := false
			for holds := 0; holds == 0 || more && !p.full() && holds < pageExamine/pageHold; holds++ {
				if f := c.kvChanges(ctx, holds > 0, now, prefix, rep, p, &more); f != nil {
					return 0, nil, f
				}
				now = false
			}
			if rep.Entries = p.entries; len(p.entries) > 0 || wait == 0 || waiting.Err() != nil {
				return wire.TypeKVChanges, rep, nil
			}
			e.leaveTurn()
			if err := c.srv.group("").WaitKV(waiting, rep.Position); err != nil && waiting.Err() == nil {
				f := faultOf(err)
				f.Unknown = false
				return 0, nil, f
			}
		}
	})
}

// kvChanges takes what has changed behind rep.Position in one hold of the state; more says that there may be more.
func (c *conn) kvChanges(ctx context.Context, stale, now bool, prefix []byte, rep *wire.KVChanges, p *kvPage, more *bool) *wire.Fault {
	ok := true
	p.held, *more = 0, false
	at, f := c.readState(ctx, stale, func(st *fsm.State) {
		if now {
			rep.Position = st.KVPosition()
		}
		from := rep.Position
		rep.Position, ok = st.KVChanges(prefix, from, func(entry *fsm.KVEntry) bool {
			if p.held > 0 && (p.held >= pageTasksHold || p.full()) {
				return false
			}
			p.take(entry)
			return true
		})
		*more = ok && rep.Position < st.KVPosition()
	})
	if f != nil {
		return f
	}
	rep.At = at
	if !ok {
		f = wire.NewFault(wire.CodeFailedPrecondition, "from: position %d is gone: deletions behind it are not kept any more, or it lies ahead of the last change; list again and watch from the position of the list", rep.Position)
		f.Field = "from"
	}
	return f
}
