package transport

import (
	"fmt"
	"strings"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// reader is what the reading goroutine decodes into, used again for every frame.
type reader struct {
	strings   wire.Strings
	enqueued  wire.Enqueue
	opEnqueue fsm.Enqueue
	acked     wire.Ack
	opAck     fsm.Ack
	acks      wire.AckBatch
	started   wire.Started
	tokens    []fsm.Token
}

// enqueue proposes a batch. A message with a bad field is refused here; the others go on, under the request numbers
// they came with.
func (c *conn) enqueue(raw wire.Raw) bool {
	req := &c.enqueued
	if err := raw.DecodeWith(req, &c.strings); err != nil {
		return c.badFrame(err)
	}
	if ok, alive := c.begin(raw); !ok {
		return alive
	}
	if f := req.Validate(c.srv.cfg.MaxMessageBytes); f != nil && !c.onlyLarge(req, f) {
		return c.fault(raw.Tag, f)
	}
	request, f := c.request(req.Request)
	if f != nil {
		return c.fault(raw.Tag, f)
	}
	op := &c.opEnqueue
	op.Queue, op.AutoCreate = wire.View(req.Queue), !c.srv.cfg.NoAutoCreate
	if cap(op.Messages) < len(req.Messages) {
		op.Messages = make([]fsm.Message, len(req.Messages))
	}
	op.Messages = op.Messages[:len(req.Messages)]
	var refused []*wire.Fault
	named := false
	typed, f := c.srv.schemas.of(req.Queue)
	if f != nil {
		return c.fault(raw.Tag, f)
	}
	for i := range req.Messages {
		m := &req.Messages[i]
		f := m.Validate(c.srv.cfg.MaxMessageBytes)
		if f == nil && typed != nil {
			f = misfit(c.judging, typed, req.Queue, "body", m.Body)
		}
		if f != nil {
			if refused == nil {
				refused = make([]*wire.Fault, len(req.Messages))
			}
			refused[i] = f
			continue
		}
		named = named || m.TaskID != ""
		setMessage(&op.Messages[i], m)
	}
	if refused != nil && c.key != nil {
		// Under a key all goes in or nothing: which messages are refused may be otherwise when it comes again, and its parts with them.
		kept, f := c.answered()
		if f != nil {
			return c.fault(raw.Tag, f)
		}
		if !kept {
			return c.fault(raw.Tag, firstOf(refused))
		}
		for i := range refused {
			if refused[i] != nil {
				setMessage(&op.Messages[i], &req.Messages[i])
			}
		}
		refused = nil
	}
	if refused != nil {
		c.enqueueParts(raw.Tag, op, req, request, refused)
		return true
	}
	op.Request = request
	k := c.prepare(raw.Tag, wire.TypeEnqueue, op)
	k.count, k.queue = len(op.Messages), req.Queue
	if c.srv.cfg.Spans != nil {
		k.trace(req.Messages)
	}
	if named {
		for i := range req.Messages {
			k.tasks = append(k.tasks, req.Messages[i].TaskID)
		}
	}
	return true
}

// firstOf is the first refusal of a batch, with its place.
func firstOf(refused []*wire.Fault) *wire.Fault {
	for i, f := range refused {
		if f != nil && len(refused) > 1 {
			g := *f
			g.Message = fmt.Sprintf("messages[%d]: %s; under an Idempotency-Key a batch goes in as a whole, and nothing was enqueued", i, f.Message)
			return &g
		}
		if f != nil {
			return f
		}
	}
	return nil
}

// onlyLarge reports whether a batch that f refuses is fine but for messages that are too large each by itself: those are
// refused alone.
func (c *conn) onlyLarge(req *wire.Enqueue, f *wire.Fault) bool {
	if f.Code != wire.CodeTooLarge {
		return false
	}
	total := int64(0)
	for i := range req.Messages {
		if n := int64(len(req.Messages[i].Body)); n <= c.srv.cfg.MaxMessageBytes {
			total += n
		}
	}
	return total <= wire.MaxBatchBytes(c.srv.cfg.MaxMessageBytes) && req.Request.Validate(len(req.Messages)) == nil
}

// batch gathers the outcomes of a request that travels as several operations because some of its messages were refused
// at the door: an operation's request numbers have no gaps. Guarded by the connection's mu.
type batch struct {
	rep  wire.Enqueued
	left int // parts not yet completed
}

func (c *conn) enqueueParts(tag uint64, op *fsm.Enqueue, req *wire.Enqueue, request fsm.Request, refused []*wire.Fault) {
	b := &batch{rep: wire.Enqueued{Outcomes: make([]wire.Outcome, len(refused))}}
	all := op.Messages
	var parts []*call
	for i := 0; i < len(refused); {
		if refused[i] != nil {
			c.srv.metrics.fault(refused[i])
			b.rep.Outcomes[i].Fault = refused[i]
			i++
			continue
		}
		end := i + 1
		for end < len(refused) && refused[end] == nil {
			end++
		}
		op.Messages, op.Request = all[i:end], request
		if request.Number != 0 {
			op.Request.Number += uint64(i)
		}
		k := c.newCall(tag, wire.TypeEnqueue, op)
		k.first, k.count, k.batch, k.queue = i, end-i, b, req.Queue
		for j := i; j < end; j++ {
			k.tasks = append(k.tasks, req.Messages[j].TaskID)
		}
		if c.srv.cfg.Spans != nil {
			k.trace(req.Messages[i:end])
		}
		parts = append(parts, k)
		i = end
	}
	op.Messages = all
	b.left = len(parts)
	if len(parts) == 0 {
		c.push(wire.TypeEnqueued, tag, &b.rep)
		return
	}
	for _, k := range parts {
		c.props = append(c.props, &k.Proposal)
	}
}

// completePart: mu is held.
func (c *conn) completePart(k *call, st *fsm.State, at group.Stamp, out []fsm.Outcome, err *group.Error) {
	b := k.batch
	outcomes := b.rep.Outcomes[k.first : k.first+k.count]
	if err != nil || len(out) != k.count {
		f := wire.NewFault(wire.CodeInternal, "the operation ended in %d outcomes instead of %d", len(out), k.count)
		switch {
		case err != nil:
			f = faultOf(err)
		case len(out) == 1 && out[0].Field == fsm.FieldIdempotency:
			f = judged(k, st, wire.At(at), &out[0])
		}
		c.srv.metrics.fault(f)
		for i := range outcomes {
			outcomes[i].Fault = f
		}
	} else {
		b.rep.At = wire.At(at)
		for i := range out {
			c.setOutcome(&outcomes[i], k, st, b.rep.At, &out[i], i)
			outcomes[i].ID = strings.Clone(outcomes[i].ID) // setOutcome's text is good for one frame only
		}
		b.rep.Ordered = st != nil && st.Ordered(wire.View(k.queue))
		c.srv.metrics.committed(k.start)
	}
	if b.left--; b.left == 0 {
		c.appendFrame(wire.TypeEnqueued, k.tag, &b.rep)
	}
}

// answerEnqueued: mu is held.
func (c *conn) answerEnqueued(k *call, st *fsm.State, at wire.At, out []fsm.Outcome) {
	rep := &c.enqueuedRep
	rep.At = at
	if repeat := len(out) > 0 && out[0].Replayed; len(out) != k.count && !repeat {
		c.log.Error("outcomes do not match the batch", "op", k.kind, "count", len(out))
		c.appendFrame(wire.TypeFault, k.tag, wire.NewFault(wire.CodeInternal, "the operation ended in %d outcomes instead of %d", len(out), k.count))
		return
	}
	if cap(rep.Outcomes) < len(out) {
		rep.Outcomes = make([]wire.Outcome, len(out))
	}
	rep.Outcomes = rep.Outcomes[:len(out)]
	c.text = c.text[:0]
	for i := range out {
		rep.Outcomes[i] = wire.Outcome{}
		c.setOutcome(&rep.Outcomes[i], k, st, at, &out[i], i)
	}
	rep.Ordered = k.kind == wire.TypeEnqueue && st != nil && st.Ordered(wire.View(k.queue))
	c.appendFrame(wire.TypeEnqueued, k.tag, rep)
	clear(rep.Outcomes)
	if k.kind == wire.TypeEnqueue {
		c.srv.metrics.committed(k.start)
	}
}

// setOutcome fills in one message's outcome, which the log gave at at; i is its place in the call. The id's text is good until the next
// frame. mu is held.
func (c *conn) setOutcome(w *wire.Outcome, k *call, st *fsm.State, at wire.At, o *fsm.Outcome, i int) {
	if o.Code != fsm.OK {
		w.Fault = judged(k, st, at, o)
		c.srv.metrics.fault(w.Fault)
		return
	}
	if k.kind == wire.TypeDeadDelete {
		w.Duplicate = o.Duplicate
		return
	}
	n := len(c.text)
	c.text = fsm.AppendID(c.text, o.ID)
	w.ID = viewText(c.text[n:])
	w.Duplicate = o.Duplicate
	if i < len(k.tasks) {
		w.TaskID = k.tasks[i]
	}
	if o.Duplicate || k.kind == wire.TypeDeadRequeue || k.kind == wire.TypeDeadEdit {
		// The first one's task id, not the repeat's; and a redriven message keeps its own.
		var in fsm.Info
		if st.Task("", c.text[n:], &in) {
			if w.TaskID = string(in.TaskID); w.TaskID == w.ID {
				w.TaskID = ""
			}
		}
	}
	if o.HasResult {
		w.Result = recorded(k, st, o)
	}
}

// request binds a request id to the connection's session.
func (c *conn) request(r wire.Request) (fsm.Request, *wire.Fault) {
	if r.Number == 0 {
		return fsm.Request{}, nil
	}
	a := c.attached.Load()
	if a == nil {
		return fsm.Request{}, noSession()
	}
	return fsm.Request{Session: a.id, Number: r.Number, Low: r.Low}, nil
}

func noSession() *wire.Fault {
	return wire.NewFault(wire.CodeFailedPrecondition, "this connection has no session: send open_session and wait for its answer first")
}
