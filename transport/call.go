package transport

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// call is a proposal on its way and what its answer needs. Calls are pooled; one belongs to the reader until it is
// proposed, to the group until Complete, and then to the pool.
type call struct {
	group.Proposal
	kind   wire.Type // of the request
	tag    uint64
	start  time.Time
	mono   time.Duration   // start on the broker's clock
	count  int             // messages of an enqueue, ids of a bulk operation
	first  int             // part of a batch: place of its first message in it
	batch  *batch          // nil: the call answers its request alone
	queue  string          // that the request named, for the words of a refusal
	tasks  []string        // task ids of an enqueue's messages; empty: none was given
	traced []traced        // of an enqueue's messages; empty where nothing is traced
	keyed  *fsm.Idempotent // with its key and without the operation; nil: it has none
}

// keptOp is the largest encoded operation whose buffer goes back to the pool.
const keptOp = 64 << 10

var calls = sync.Pool{New: func() any { return new(call) }}

// prepare encodes op into a call and adds it to those that submit will propose.
func (c *conn) prepare(tag uint64, kind wire.Type, op fsm.Op) *call {
	k := c.newCall(tag, kind, op)
	c.props = append(c.props, &k.Proposal)
	return k
}

// newCall is a call with op encoded; without one (nil) the caller appends what it proposes.
func (c *conn) newCall(tag uint64, kind wire.Type, op fsm.Op) *call {
	k := calls.Get().(*call)
	if c.key != nil {
		k.keyed = c.keyFor(op)
		op = k.keyed
	}
	k.Op = k.Op[:0]
	if op != nil {
		k.Op = fsm.AppendOp(k.Op, op)
	}
	if k.keyed != nil {
		k.keyed.Op = nil // the reader uses it again
	}
	k.Deadline, k.Tag, k.Ctx, k.Done = c.deadline, tag, k, c
	k.kind, k.tag, k.start, k.mono = kind, tag, c.now, c.deadline-c.srv.cfg.CallTimeout
	return k
}

func (k *call) free() {
	op, tasks := k.Op, k.tasks
	clear(tasks)
	if cap(op) > keptOp {
		op = nil
	}
	*k = call{tasks: tasks[:0]}
	k.Op = op
	calls.Put(k)
}

// Complete answers a request whose operation has been applied, or was refused. The group calls it once for each
// proposal, with the state at hand; Flush follows.
func (c *conn) Complete(p *group.Proposal, st *fsm.State, at group.Stamp, out []fsm.Outcome, leases []fsm.Leased, err *group.Error) {
	k := p.Ctx.(*call)
	repeat := len(out) > 0 && out[0].Replayed
	c.mu.Lock()
	if k.keyed != nil && err == nil {
		c.seeKey(k, st, repeat)
	}
	switch {
	case k.batch != nil:
		c.completePart(k, st, at, out, err)
	case err != nil:
		f := faultOf(err)
		c.srv.metrics.fault(f)
		c.appendFrame(wire.TypeFault, k.tag, f)
	default:
		c.answer(k, st, wire.At(at), out, leases)
	}
	c.mu.Unlock()
	if len(k.traced) > 0 && !repeat {
		c.tellEnqueued(k, st, out, err)
	}
	if c.srv.slow != nil {
		c.srv.slow.look(c, k, st, out, err)
	}
	if err != nil {
		c.signal() // a refusal may come outside the pass that flushes
	}
	k.free()
}

// answer turns outcomes into the frame that the request asked for. mu is held.
func (c *conn) answer(k *call, st *fsm.State, at wire.At, out []fsm.Outcome, leases []fsm.Leased) {
	if len(out) == 1 && out[0].Field == fsm.FieldIdempotency { // of the whole operation, whatever it is
		c.answerRefused(k, st, at, &out[0])
		return
	}
	switch k.kind {
	case wire.TypeEnqueue, wire.TypeDeadRequeue, wire.TypeDeadDelete, wire.TypeDeadEdit:
		c.answerEnqueued(k, st, at, out)
		return
	}
	if k.Count > 0 && len(out) == k.Count {
		c.answerAckBatch(k, st, at, out)
		return
	}
	if len(out) != 1 { // an operation that is no batch has one outcome
		c.log.Error("outcomes do not match the operation", "op", k.kind, "count", len(out))
		c.appendFrame(wire.TypeFault, k.tag, wire.NewFault(wire.CodeInternal, "the operation ended in %d outcomes instead of 1", len(out)))
		return
	}
	o := &out[0]
	if o.Code != fsm.OK {
		c.answerRefused(k, st, at, o)
		return
	}
	switch k.kind {
	case wire.TypeLease:
		c.answerLeased(k, st, at, leases, o.Replayed)
	case wire.TypeAck:
		c.srv.metrics.acked(o)
		c.ackedRep = wire.Acked{Duplicate: o.Duplicate, At: at}
		if o.Duplicate && o.HasResult {
			c.ackedRep.Result = recorded(k, st, o)
		}
		c.appendFrame(wire.TypeAcked, k.tag, &c.ackedRep)
	case wire.TypeResultPush:
		r := wire.Acked{Duplicate: o.Duplicate, At: at}
		if o.Duplicate && o.HasResult {
			r.Result = recorded(k, st, o)
		}
		c.appendFrame(wire.TypeAcked, k.tag, &r)
	case wire.TypeNack:
		r := wire.Nacked{Dead: o.Dead, At: at}
		if !o.Dead {
			r.DueAt = o.Millis
		}
		c.appendFrame(wire.TypeNacked, k.tag, &r)
	case wire.TypeRelease:
		c.appendFrame(wire.TypeOK, k.tag, &wire.OK{At: at})
	case wire.TypeExtend:
		c.appendFrame(wire.TypeExtended, k.tag, &wire.Extended{LeaseLeftMillis: o.Millis, At: at})
	case wire.TypeTaskCancel:
		c.appendFrame(wire.TypeTaskCancelled, k.tag, &wire.TaskCancelled{ID: o.ID.String(), Out: o.Count > 0, Duplicate: o.Duplicate, At: at})
	case wire.TypeTaskReschedule:
		c.appendFrame(wire.TypeTaskScheduled, k.tag, &wire.TaskScheduled{ID: o.ID.String(), DueAt: o.Count, At: at})
	case wire.TypeQueuePurge, wire.TypeDeadPurge:
		c.appendFrame(wire.TypeCounted, k.tag, &wire.Counted{Count: o.Count, At: at})
	case wire.TypeBatchCreate:
		c.appendFrame(wire.TypeBatchCreated, k.tag, &wire.BatchCreated{Batch: o.ID.String(), At: at})
	default:
		c.appendFrame(wire.TypeOK, k.tag, &wire.OK{At: at, Duplicate: o.Duplicate})
	}
}

// answerRefused: mu is held.
func (c *conn) answerRefused(k *call, st *fsm.State, at wire.At, o *fsm.Outcome) {
	f := judged(k, st, at, o)
	c.srv.metrics.fault(f)
	c.appendFrame(wire.TypeFault, k.tag, f)
}

// waiter is a Completer for a goroutine that waits for one operation.
type waiter chan waited

type waited struct {
	out fsm.Outcome
	at  group.Stamp
	err *group.Error
}

func (w waiter) Complete(_ *group.Proposal, _ *fsm.State, at group.Stamp, out []fsm.Outcome, _ []fsm.Leased, err *group.Error) {
	r := waited{at: at, err: err}
	if err == nil {
		r.out = out[0]
	}
	w <- r // has room: Complete comes once
}

// ask proposes one operation and waits for its outcome. ctx has a deadline.
func (s *Server) ask(ctx context.Context, op fsm.Op) (fsm.Outcome, group.Stamp, *wire.Fault) {
	w := make(waiter, 1)
	deadline, _ := ctx.Deadline()
	s.group("").Propose(&group.Proposal{
		Op: fsm.AppendOp(nil, op), Deadline: s.cfg.Broker.Clock().Mono() + time.Until(deadline), Done: w,
	})
	select {
	case r := <-w:
		if r.err != nil {
			return fsm.Outcome{}, r.at, faultOf(r.err)
		}
		return r.out, r.at, nil
	case <-ctx.Done():
		return fsm.Outcome{}, group.Stamp{}, wire.NewFault(wire.CodeTimeout, "no answer from the log within the call's time")
	}
}
