package client

import (
	"context"
	"time"

	"github.com/quorate/quorate/wire"
)

// callState is where a call is. Under c.mu.
type callState uint8

const (
	callQueued   callState = iota // in plain, fresh or again, or kept back by a hold
	callSent                      // in byTag
	callWaiting                   // in later
	callAnswered                  // the reader has its answer in hands
	callDone                      // ended: its result is set, or nobody waits for it any more
)

// call is one request on its way. Fields are guarded by Client.mu, but for those that only the goroutine which has
// taken the call to callAnswered or callDone touches.
type call struct {
	typ      wire.Type
	body     any
	rebuild  func() any    // makes body at each sending, under c.mu; for bodies that must be up to date
	req      *wire.Request // in body; nil: the request carries no number
	count    uint64        // numbers it takes
	size     int           // upper estimate of the encoded bytes
	bound    *conn         // belongs to this connection and dies with it
	keepLate bool          // stays in byTag when abandoned, for late
	settles  string        // the token whose lease this ends, when it succeeds
	noWait   bool          // a timeout answer is an answer, not an unknown outcome to be tried again

	state      callState
	number     uint64 // first request number, 0: none yet
	tag        uint64 // of the last sending
	sentAt     int64  // c.now() of the last sending
	sends      int    // under the present number
	unresolved int    // of those, how many may have been or may yet be applied
	tries      int    // refusals and unknowns in a row, for the back-off
	cancelled  bool   // whoever waits wants it ended at the next decision
	deadline   int64  // c.now() at which it ends; 0: its caller ends it
	retryAt    int64  // while callWaiting
	last       error  // the last refusal or unknown answer

	// How it ends: exactly one of the three.
	answer func(wire.Raw) error // decodes the answer on the reader's goroutine, must copy what it keeps
	late   func(wire.Raw)       // gets an answer that came after the call was abandoned
	done   chan struct{}        // closed when err is set
	notify func(error)          // instead of done
	err    error

	batch *batch // TypeEnqueue: the messages of the request
	holds *hold  // what waits for this call to be sent again

	acks *ackBatch // TypeAckBatch: what is acked

	ack     wire.Ack  // TypeAck: the body
	lease   *lease    // TypeAck: what it ends; nil: none of a subscription, so far as was known when it began
	alone   bool      // it may not share a frame
	shared  *ackBatch // while callSent: the frame that it shares; nil: it has one of its own
	ackDone func(Acked, error)
}

// run is a call's ending, to be carried out without the lock.
type run func()

func runAll(rs []run) {
	for _, r := range rs {
		r()
	}
}

// do sends one call and waits for its answer, its context, or the default time-out (plus extra).
func (c *Client) do(ctx context.Context, cl *call, extra time.Duration) error {
	if err := ctx.Err(); err != nil {
		return ended(context.Cause(ctx), false, true, nil, nil)
	}
	cl.done = make(chan struct{})
	if _, ok := ctx.Deadline(); !ok {
		cl.deadline = c.now() + int64(c.o.Timeout+extra)
	}
	if err := c.submit(cl); err != nil {
		return err
	}
	select {
	case <-cl.done:
	case <-ctx.Done():
		c.abandon(cl, context.Cause(ctx))
		<-cl.done
	}
	return cl.err
}

// submit queues a call.
func (c *Client) submit(cl *call) error {
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return ErrClosed
	}
	if cl.ackDone != nil {
		if c.acks >= maxAcks && cl.done == nil {
			c.mu.Unlock()
			return &Error{Code: wire.CodeOverloaded, Message: "65536 acks without an answer: wait for some", Retry: true}
		}
		c.acks++
		cl.lease = c.settlingLocked(cl.ack.Token)
	} else if cl.settles != "" {
		c.settlingLocked(cl.settles)
	}
	c.queueLocked(cl)
	c.mu.Unlock()
	return nil
}

func (c *Client) queueLocked(cl *call) {
	cl.state = callQueued
	switch {
	case cl.req == nil:
		c.plain.pushBack(cl)
	case cl.number != 0:
		c.again.insertByNumber(cl)
	default:
		c.fresh.pushBack(cl)
	}
	c.watchDeadline(cl.deadline)
	c.wakeWriter()
}

// abandon ends a call early for its caller. If its answer is being handled right now, the call ends with that instead.
func (c *Client) abandon(cl *call, cause error) {
	c.mu.Lock()
	if cl.state == callDone {
		c.mu.Unlock()
		return
	}
	cl.cancelled = true
	if cl.state == callAnswered {
		c.mu.Unlock()
		return
	}
	r := c.endLocked(cl, ended(cause, cl.unresolved > 0, c.conn != nil, cl.last, c.lastErr))
	c.mu.Unlock()
	r()
}

// endLocked ends a call that is queued, waiting or sent, with an error. Its number counts as answered: the server never
// executes it once low has passed it, and may have executed it before.
func (c *Client) endLocked(cl *call, err error) run {
	switch cl.state {
	case callQueued:
		c.deadQueued++
	case callSent:
		switch {
		case cl.shared != nil:
			c.leaveLocked(cl)
		case !cl.keepLate:
			delete(c.byTag, cl.tag)
		}
	}
	cl.state = callDone
	c.retireLocked(cl)
	c.compactLocked()
	return c.finish(cl, err)
}

// finish makes the ending of a call that has been taken to callDone.
func (c *Client) finish(cl *call, err error) run {
	if cl.settles != "" {
		c.settledLocked(cl.settles, err)
	}
	switch {
	case cl.batch != nil:
		return c.finishBatchLocked(cl, err)
	case cl.ackDone != nil:
		f := cl.ackDone
		c.acks--
		c.ackSettledLocked(cl, err)
		c.idleLocked()
		return func() { f(Acked{}, err) }
	case cl.notify != nil:
		f := cl.notify
		return func() { f(err) }
	default:
		cl.err = err
		done := cl.done
		return func() { close(done) }
	}
}

// answered takes an answer (or fault) to a tag.
func (c *Client) answered(cn *conn, raw wire.Raw) error {
	c.mu.Lock()
	cl := c.byTag[raw.Tag]
	if cl == nil {
		c.mu.Unlock()
		return nil // abandoned: nobody waits for it
	}
	delete(c.byTag, raw.Tag)
	if cl.state == callDone { // abandoned, but its late answer matters
		c.mu.Unlock()
		if cl.late != nil && raw.Type != wire.TypeFault {
			cl.late(raw)
		}
		return nil
	}
	cl.state = callAnswered
	if b := cl.acks; b != nil {
		for i, one := range b.calls {
			if one.state == callSent && one.shared == b {
				one.state = callAnswered
			} else {
				b.calls[i] = nil
			}
		}
		c.mu.Unlock()
		return c.ackBatchAnswered(cn, b, raw)
	}
	c.mu.Unlock()

	if raw.Type == wire.TypeFault {
		var f wire.Fault
		if err := raw.Decode(&f); err != nil {
			c.fail(cl, err)
			return err
		}
		c.refused(cn, cl, &f)
		return nil
	}
	if want := answerType(cl.typ); raw.Type != want {
		err := protocolError("frame type %d answers type %d, want %d", raw.Type, cl.typ, want)
		c.fail(cl, err)
		return err
	}
	switch {
	case cl.batch != nil:
		return c.enqueued(cn, cl, raw)
	case cl.ackDone != nil:
		return c.acked(cn, cl, raw)
	}
	if f := expired(raw); f != nil {
		c.refused(cn, cl, f)
		return nil
	}
	var err error
	if cl.answer != nil {
		err = cl.answer(raw)
	}
	c.mu.Lock()
	cl.state = callDone
	c.retireLocked(cl)
	r := c.finish(cl, err)
	c.mu.Unlock()
	r()
	return err
}

// fail ends an answered call whose answer could not be understood: it may have been applied.
func (c *Client) fail(cl *call, err error) {
	c.mu.Lock()
	cl.state = callDone
	c.retireLocked(cl)
	r := c.finish(cl, &Error{Code: wire.CodeInternal, Message: "the answer could not be understood", Unknown: true, cause: err})
	c.mu.Unlock()
	r()
}

// retireLocked takes a call's numbers off the unanswered ones.
func (c *Client) retireLocked(cl *call) {
	if cl.number == 0 {
		return
	}
	cl.number = 0
	c.trimRingLocked()
}

// trimRingLocked moves low over everything that is answered.
func (c *Client) trimRingLocked() {
	h := c.ringHead
	for h < len(c.ring) && (c.ring[h] == nil || c.ring[h].number == 0) {
		c.ring[h] = nil
		h++
	}
	if h == c.ringHead {
		return
	}
	c.ringHead = h
	if h == len(c.ring) {
		c.ring, c.ringHead = c.ring[:0], 0
	} else if h > 1024 && h > len(c.ring)/2 {
		n := copy(c.ring, c.ring[h:])
		clear(c.ring[n:])
		c.ring, c.ringHead = c.ring[:n], 0
	}
	c.lowRoseLocked()
}

// lowRoseLocked has the writer go on with what waited for a number.
func (c *Client) lowRoseLocked() {
	if c.stalled {
		c.stalled = false
		c.wakeWriter()
	}
}

// lowLocked is the lowest number without an answer.
func (c *Client) lowLocked() uint64 {
	if c.ringHead < len(c.ring) {
		return c.ring[c.ringHead].number
	}
	return c.next
}

// numberLocked gives a call its numbers, or reports that the window is full.
func (c *Client) numberLocked(cl *call) bool {
	if c.next+cl.count > c.lowLocked()+wire.MaxRequestSpan {
		return false
	}
	cl.number = c.next
	c.next += cl.count
	c.ring = append(c.ring, cl)
	return true
}

// compactLocked drops ended calls from the queues when they are many, so that callers who give up early cannot make
// them grow.
func (c *Client) compactLocked() {
	if c.deadQueued < 64 || c.deadQueued < (c.plain.len()+c.fresh.len()+c.again.len()+c.heldLocked())/2 {
		return
	}
	c.plain.compact()
	c.fresh.compact()
	c.compactHeldLocked()
	c.again.compact()
	c.deadQueued = 0
}

// answerType is what type of frame answers a request.
func answerType(t wire.Type) wire.Type {
	switch t {
	case wire.TypeSubscribe, wire.TypeCredit, wire.TypeUnsubscribe, wire.TypeRelease, wire.TypeQueueCreate,
		wire.TypeQueueSet, wire.TypeQueueDelete, wire.TypeClusterTransfer, wire.TypeClusterRemove, wire.TypeKVDelete, wire.TypeBatchSeal,
		wire.TypeScheduleCreate, wire.TypeScheduleSet, wire.TypeScheduleDelete:
		return wire.TypeOK
	case wire.TypeQueuePurge, wire.TypeDeadPurge:
		return wire.TypeCounted
	case wire.TypeDeadList:
		return wire.TypeTasks
	case wire.TypeDeadGet:
		return wire.TypeTaskIs
	case wire.TypeDeadRequeue, wire.TypeDeadDelete, wire.TypeDeadEdit:
		return wire.TypeEnqueued
	case wire.TypeResultPush:
		return wire.TypeAcked
	}
	return t + 1
}
