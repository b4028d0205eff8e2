package group

import (
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/fsm"
)

// Stamp says when in the log something was true: the index of the entry and log time T after it.
type Stamp struct {
	Index uint64
	Time  int64 // Unix ms
}

// Proposal is one operation on its way into the log, or several that go into one entry, in order, and are completed together. The caller
// encodes them in its own goroutine; Op must be exactly that many operations as fsm.AppendOp writes them. Op and the Proposal belong to
// the group from Propose until Done is called, and may be used again from then on (also within Complete).
type Proposal struct {
	Op       []byte
	Count    int           // operations in Op; 0: one. More than Limits.EntryOps get an entry of their own; of several none may be a pull
	Deadline time.Duration // on Clock.Mono; 0: none. Later the caller gets overloaded (not yet proposed) or timeout (unknown)
	Tag      uint64        // the caller's
	Ctx      any           // the caller's
	Done     Completer

	// Packed and Applying are the group's: when the entry with the operation was proposed, and when its application began, on Clock.Mono;
	// 0 where it did not come to that. They may be read in Complete.
	Packed, Applying time.Duration

	next    *Proposal
	session *Session // whose connection leases in the outcome go to; nil: not a pull
}

// ops is how many operations a proposal has.
func (p *Proposal) ops() int { return max(p.Count, 1) }

// Completer is told how a proposal ended, exactly once for each. It must not block, must copy what it keeps, and must not
// call back into the group but for Propose.
//
// With err == nil the operation was applied (or, for a pull that found nothing, leadership confirmed): out are its outcomes (of several
// operations, those of one after the other), leases what it handed out if it is one, and st may be read, since the state lock is held. With err != nil the operation was refused, or its
// fate is unknown (Error.Unknown); st, out and leases are nil then, and the call may come from any goroutine, also from
// within Propose, and at the same time as another.
type Completer interface {
	Complete(p *Proposal, st *fsm.State, at Stamp, out []fsm.Outcome, leases []fsm.Leased, err *Error)
}

// Flusher is a Completer (or a Conn) that gathers: it is flushed once after a batch of completions or deliveries, so that
// a connection's writer wakes once and not for every operation.
type Flusher interface{ Flush() }

// Propose hands operations over, in order. It does not block. What cannot be taken is completed at once: overloaded
// beyond the bounds, not_leader or no_leader where another node must be asked. Operations of one caller keep their order.
func (g *Group) Propose(ps ...*Proposal) {
	q := &g.intake
	for i, p := range ps {
		if err := g.turnAway(p); err != nil {
			g.Propose(ps[:i]...)
			g.refuse(p, err)
			g.Propose(ps[i+1:]...)
			return
		}
		if int64(len(p.Op)) > g.maxOp {
			g.Propose(ps[:i]...)
			g.refuse(p, &Error{Code: CodeTooLarge,
				Message: fmt.Sprintf("the operation has %d bytes in the log, want at most %d", len(p.Op), g.maxOp)})
			g.Propose(ps[i+1:]...)
			return
		}
	}
	refused := ps[len(ps):]
	err := errQueueFull
	q.mu.Lock()
	switch {
	case !q.open:
		refused, err = ps, nil
	default:
		for i, p := range ps {
			if q.count > 0 && (q.count+p.ops() > g.limits.Queued || q.bytes+int64(len(p.Op)) > g.limits.QueuedBytes) {
				refused = ps[i:] // all from here on, so that order is kept
				break
			}
			q.push(p)
		}
	}
	q.mu.Unlock()
	if len(refused) < len(ps) {
		g.kick()
	}
	if len(refused) == 0 {
		return
	}
	if err == nil {
		err = g.notLeading()
	}
	var b batch
	for _, p := range refused {
		b.fail(p, err)
	}
	g.finish(&b)
}

// intake is the queue of proposals that wait to be packed.
type intake struct {
	mu       sync.Mutex
	open     bool      // guarded by mu: this node leads and serves
	head     *Proposal // guarded by mu, and so is the rest
	tail     *Proposal
	count    int // operations
	bytes    int64
	deadline time.Duration // no queued proposal has an earlier one; 0: none has any
}

func (q *intake) push(p *Proposal) {
	p.next = nil
	if q.tail == nil {
		q.head = p
	} else {
		q.tail.next = p
	}
	q.tail = p
	q.count += p.ops()
	q.bytes += int64(len(p.Op))
	if p.Deadline > 0 && (q.deadline == 0 || p.Deadline < q.deadline) {
		q.deadline = p.Deadline
	}
}

func (q *intake) pop() *Proposal {
	p := q.head
	q.head = p.next
	if q.head == nil {
		q.tail = nil
		q.deadline = 0
	}
	p.next = nil
	q.count -= p.ops()
	q.bytes -= int64(len(p.Op))
	return p
}

// take moves what fits into one entry to into: at most ops operations and bytes bytes, but at least one proposal.
func (q *intake) take(into []*Proposal, ops, bytes int) []*Proposal {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.head != nil {
		n := len(q.head.Op)
		if len(into) > 0 && (n > bytes || q.head.ops() > ops) {
			break
		}
		bytes -= n
		ops -= q.head.ops()
		into = append(into, q.pop())
	}
	return into
}

// close refuses further proposals and returns those that wait.
func (q *intake) close() (waiting *Proposal) {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting = q.head
	q.open, q.head, q.tail, q.count, q.bytes, q.deadline = false, nil, nil, 0, 0, 0
	return waiting
}

// expired takes out the proposals whose deadline has passed.
func (q *intake) expired(now time.Duration) (late *Proposal) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deadline == 0 || q.deadline > now {
		return nil
	}
	p := q.head
	q.head, q.tail, q.count, q.bytes, q.deadline = nil, nil, 0, 0, 0
	for p != nil {
		next := p.next
		if p.Deadline > 0 && p.Deadline <= now {
			p.next = late
			late = p
		} else {
			q.push(p)
		}
		p = next
	}
	return late
}

func (q *intake) size() (count int, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count, q.bytes
}

// batch gathers proposals that ended without an outcome, to be completed when no lock is held.
type batch struct {
	ps   []*Proposal
	errs []*Error
}

func (b *batch) fail(p *Proposal, err *Error) {
	b.ps = append(b.ps, p)
	b.errs = append(b.errs, err)
}

func (b *batch) failAll(list *Proposal, err *Error) {
	for p := list; p != nil; {
		next := p.next
		p.next = nil
		b.fail(p, err)
		p = next
	}
}

// finish completes a batch. No lock of the group may be held.
func (g *Group) finish(b *batch) {
	var f flushes
	for i, p := range b.ps {
		done := p.Done
		g.metrics.refused(b.errs[i])
		done.Complete(p, nil, Stamp{}, nil, nil, b.errs[i])
		f.add(done)
	}
	f.flush()
}

// flushes is the set of those to flush after a batch. A connection that comes up twice may be flushed twice: cheaper than
// a set that is exact.
type flushes struct {
	last any
	list []Flusher
}

// flushScan is how many entries of the list are looked through before one is added again.
const flushScan = 16

func (f *flushes) add(who any) {
	if who == f.last {
		return
	}
	f.last = who
	w, ok := who.(Flusher)
	if !ok {
		return
	}
	for _, have := range f.list[max(0, len(f.list)-flushScan):] {
		if have == w {
			return
		}
	}
	f.list = append(f.list, w)
}

func (f *flushes) flush() {
	for i, w := range f.list {
		w.Flush()
		f.list[i] = nil
	}
	f.list, f.last = f.list[:0], nil
}
