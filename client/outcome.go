package client

import (
	"slices"

	"github.com/quorate/quorate/wire"
)

// run is a run of a numbered batch, from message i on and empty still: what it gets has the numbers that it had.
func (cl *call) run(i int) *call {
	r := newBatchCall(cl.batch.body.Queue)
	r.number, r.sends, r.unresolved, r.tries, r.last = cl.number+uint64(i), cl.sends, cl.unresolved, cl.tries, cl.last
	return r
}

// take puts message i of another batch into this one.
func (cl *call) take(b *batch, i int) {
	cl.batch.add(cl, &b.msgs[i], messageSize(&b.msgs[i]), b.meta[i])
	cl.count = uint64(len(cl.batch.msgs))
}

// replaceLocked has runs of a numbered batch, ascending, stand in its place: among the numbered calls and in its hold.
func (c *Client) replaceLocked(cl *call, runs []*call) {
	at := c.ringHead + slices.Index(c.ring[c.ringHead:], cl)
	c.ring = slices.Replace(c.ring, at, at+1, runs...)
	c.lowRoseLocked()
	if h := cl.holds; h != nil {
		for _, r := range runs {
			r.holds = h
			h.waiting++
		}
		c.unholdLocked(cl, cl.batch.body.Queue)
	}
	cl.state, cl.number = callDone, 0
}

// splitLocked cuts a numbered batch into runs of messages that somebody waits for: what was given up must not be sent
// again, since its body may have been changed and its caller was told what to think of it. The runs replace it and are returned in order.
func (c *Client) splitLocked(cl *call) []*call {
	b := cl.batch
	var runs []*call
	for i := 0; i < len(b.msgs); {
		if b.meta[i].dead {
			i++
			continue
		}
		r := cl.run(i)
		for ; i < len(b.msgs) && !b.meta[i].dead; i++ {
			r.take(b, i)
		}
		runs = append(runs, r)
	}
	c.replaceLocked(cl, runs)
	cl.batch = nil
	b.recycle()
	return runs
}

// retry is what is to be sent again of a batch, and why.
type retry struct {
	cl  *call
	why *Error
}

// fate says what a fault means for a message of a batch: left is how many of its sendings may have been applied or may yet be. Where it is to be
// sent again it keeps its number as long as there are any.
func (c *Client) fate(cl *call, f *wire.Fault) (left int, again bool) {
	switch {
	case f.Code == wire.CodeSessionExpired: // this sending is not carried out
		return cl.unresolved - 1, cl.unresolved == 1
	case f.Unknown:
		return cl.unresolved, f.Code == wire.CodeTimeout
	case judged(f):
		return 0, f.Retry && !c.o.FailWhenFull
	case f.Code == wire.CodeNotLeader || f.Code == wire.CodeNoLeader:
		return cl.unresolved - 1, true
	}
	return cl.unresolved - 1, f.Retry && !c.o.FailWhenFull
}

// enqueued hands out the outcomes of a batch; runs on the reader's goroutine. A batch may have gone into the log in parts, of which one was refused
// and another is unknown, so each message is judged by itself.
func (c *Client) enqueued(cn *conn, cl *call, raw wire.Raw) error {
	b := cl.batch
	e := &cn.enqueued
	err := raw.Decode(e)
	if err == nil && len(e.Outcomes) != len(b.msgs) {
		err = protocolError("%d outcomes answer %d messages", len(e.Outcomes), len(b.msgs))
	}
	if err != nil {
		c.fail(cl, err)
		return err
	}
	c.mu.Lock()
	if e.At.Index != 0 { // the log has judged some of them
		c.learnLocked(b.body.Queue, e.Ordered)
	}
	over := 0
	var again []*retry
	var fresh, last *retry // what gets a new number, and the last run that has the numbers that it had
	var runs []*call
	var rs []run
	for i := range e.Outcomes {
		p, f := &b.meta[i], e.Outcomes[i].Fault
		if p.dead {
			continue
		}
		if f == nil {
			over++
			continue
		}
		c.distrustLocked(cn, f)
		left, more := c.fate(cl, f)
		if !more || c.closed || (p.w != nil && p.w.cancelled) {
			f.Unknown = f.Unknown || left > 0
			over++
			continue
		}
		var into *retry
		switch {
		case left == 0 && fresh == nil:
			fresh = &retry{cl: newBatchCall(b.body.Queue)}
			fresh.cl.tries = cl.tries
			again = append(again, fresh)
			into = fresh
		case left == 0:
			into = fresh
		case last != nil && last.cl.unresolved == left && last.cl.number+last.cl.count == cl.number+uint64(i):
			into = last
		default:
			last = &retry{cl: cl.run(i)}
			last.cl.unresolved = left
			again, runs = append(again, last), append(runs, last.cl)
			into = last
		}
		into.cl.take(b, i)
		into.why = errorOf(f)
		*p = pend{dead: true}
	}
	if len(runs) > 0 {
		c.replaceLocked(cl, runs)
	}
	c.retireLocked(cl)
	cl.state = callDone
	cl.batch = nil
	for _, r := range again {
		c.laterLocked(r.cl, r.why, &rs)
	}
	c.unholdLocked(cl, b.body.Queue)
	c.freeLocked(over)
	c.mu.Unlock()
	runAll(rs)
	for i := range e.Outcomes {
		p, o := &b.meta[i], &e.Outcomes[i]
		if p.dead {
			continue
		}
		r, err := receiptOf(o, e.At)
		p.finish(r, err)
	}
	b.recycle()
	return nil
}

// distrustLocked ends a connection of which a message's fault says that it is of no use: to a node that leads no more, or with a session that has
// ended.
func (c *Client) distrustLocked(cn *conn, f *wire.Fault) {
	switch f.Code {
	case wire.CodeNotLeader, wire.CodeNoLeader:
		cn.failLocked(errorOf(f), f.Leader)
	case wire.CodeSessionExpired:
		c.sessionGone = true
		cn.failLocked(errorOf(f), cn.addr)
	}
}

// expired is the fault of an answer item by item that says of all of them that the session has ended; nil: it says something else.
func expired(raw wire.Raw) *wire.Fault {
	var e wire.Enqueued
	if raw.Type != wire.TypeEnqueued || raw.Decode(&e) != nil || len(e.Outcomes) == 0 {
		return nil
	}
	for i := range e.Outcomes {
		if f := e.Outcomes[i].Fault; f == nil || f.Code != wire.CodeSessionExpired {
			return nil
		}
	}
	return e.Outcomes[0].Fault
}

func receiptOf(o *wire.Outcome, at wire.At) (Receipt, error) {
	if o.Fault != nil {
		return Receipt{}, errorOf(o.Fault)
	}
	r := Receipt{ID: o.ID, TaskID: o.TaskID, Duplicate: o.Duplicate, Index: at.Index, Time: at.Time}
	if r.TaskID == "" {
		r.TaskID = o.ID
	}
	if o.Result != nil {
		r.Result = resultOf(o.Result)
	}
	return r, nil
}

// finishBatchLocked ends all of a batch with one error; the call is done already.
func (c *Client) finishBatchLocked(cl *call, err error) run {
	b := cl.batch
	cl.batch = nil
	c.unholdLocked(cl, b.body.Queue)
	if c.lanes[b.body.Queue] == cl {
		delete(c.lanes, b.body.Queue)
	}
	c.freeLocked(b.live)
	return func() {
		for i := range b.meta {
			if p := &b.meta[i]; !p.dead {
				p.finish(Receipt{}, err)
			}
		}
		b.recycle()
	}
}
