package client

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/wire"
)

// A coalesced request is closed at about the size of one log entry, so that the server packs it without waste.
const (
	batchMessages = 256
	batchBytes    = 48 << 10
	messageRoom   = 128 // what a message's frame needs beyond its strings and bytes
)

// batch is one Enqueue request: messages of one queue in the order of their calls. Guarded by Client.mu; once its call
// is answered it belongs to the reader.
type batch struct {
	body wire.Enqueue // Messages is msgs at each sending
	msgs []wire.Message
	meta []pend // of msgs
	size int    // estimate of the encoded bytes
	live int    // messages somebody waits for
}

// pend is who waits for a message: done, or slot idx of w.
type pend struct {
	done     func(Receipt, error)
	w        *waiter
	idx      int32
	dead     bool  // given up; its slot is free, its body must not be touched
	deadline int64 // c.now() at which it ends; 0: its caller ends it
}

func (p *pend) finish(r Receipt, err error) {
	if p.done != nil {
		p.done(r, err)
		return
	}
	p.w.finish(int(p.idx), r, err)
}

// waiter collects what a blocking call waits for.
type waiter struct {
	recs []Receipt
	errs []error
	left atomic.Int32
	ch   chan struct{} // one signal, when left is 0

	calls     []*call // where its messages are; guarded by Client.mu
	cancelled bool    // guarded by Client.mu
}

func (w *waiter) finish(i int, r Receipt, err error) {
	w.recs[i], w.errs[i] = r, err
	if w.left.Add(-1) == 0 {
		w.ch <- struct{}{}
	}
}

var waiters = sync.Pool{New: func() any {
	return &waiter{recs: make([]Receipt, 1), errs: make([]error, 1), ch: make(chan struct{}, 1)}
}}

var batches = sync.Pool{New: func() any { return new(batch) }}

func (b *batch) recycle() {
	clear(b.msgs)
	clear(b.meta)
	*b = batch{msgs: b.msgs[:0], meta: b.meta[:0]}
	batches.Put(b)
}

// Enqueue adds one message to a queue and returns when it is on a majority's disks. Calls of several goroutines share
// requests. The outcome of an error is in it: see Unknown. The body must not be changed before the call returns.
func (c *Client) Enqueue(ctx context.Context, queue string, m Message) (Receipt, error) {
	if c.tracer == nil {
		return c.enqueue(ctx, queue, &m)
	}
	span := c.sending(ctx, queue, &m)
	r, err := c.enqueue(ctx, queue, &m)
	sent(span, r, err)
	return r, err
}

func (c *Client) enqueue(ctx context.Context, queue string, m *Message) (Receipt, error) {
	var wm wire.Message
	size, err := c.prepare(queue, m, &wm)
	if err != nil {
		return Receipt{}, err
	}
	w := waiters.Get().(*waiter)
	w.left.Store(1)
	deadline := int64(0)
	if _, ok := ctx.Deadline(); !ok {
		deadline = c.now() + int64(c.o.Timeout)
	}
	if err := c.add(ctx, queue, &wm, size, pend{w: w, deadline: deadline}); err != nil {
		waiters.Put(w)
		return Receipt{}, err
	}
	select {
	case <-w.ch:
	case <-ctx.Done():
		c.abandonWaiter(w, context.Cause(ctx))
		<-w.ch
	}
	r, err := w.recs[0], w.errs[0]
	w.recs[0], w.errs[0], w.cancelled = Receipt{}, nil, false
	clear(w.calls)
	w.calls = w.calls[:0]
	waiters.Put(w)
	return r, err
}

// EnqueueBatch adds messages to a queue, in order, and returns an outcome for each: errs[i] is nil where receipts[i] is
// good. One bad message does not stop the others. Any number is taken; more than a request may carry go as several.
func (c *Client) EnqueueBatch(ctx context.Context, queue string, ms []Message) (receipts []Receipt, errs []error) {
	w := &waiter{recs: make([]Receipt, len(ms)), errs: make([]error, len(ms)), ch: make(chan struct{}, 1)}
	if len(ms) == 0 {
		return w.recs, w.errs
	}
	if c.tracer != nil {
		ms = slices.Clone(ms)
		for i := range ms {
			span := c.sending(ctx, queue, &ms[i])
			defer func() { sent(span, w.recs[i], w.errs[i]) }()
		}
	}
	w.left.Store(int32(len(ms)))
	deadline := int64(0)
	if _, ok := ctx.Deadline(); !ok {
		deadline = c.now() + int64(c.o.Timeout)
	}
	for i := range ms {
		var wm wire.Message
		size, err := c.prepare(queue, &ms[i], &wm)
		if err == nil {
			err = c.add(ctx, queue, &wm, size, pend{w: w, idx: int32(i), deadline: deadline})
		}
		if err != nil {
			w.finish(i, Receipt{}, err)
		}
	}
	select {
	case <-w.ch:
	case <-ctx.Done():
		c.abandonWaiter(w, context.Cause(ctx))
		<-w.ch
	}
	return w.recs, w.errs
}

// EnqueueAsync queues one message and returns; done gets the outcome, exactly once, unless an error is returned. It
// blocks only while MaxPending messages are without an answer. done runs on a goroutine of the client, mostly the one that
// reads the connection: it must be short and must not block, or nothing else is read meanwhile. It may call EnqueueAsync
// where fewer than MaxPending messages can be out. The context's deadline (or Options.Timeout)
// bounds the whole; its cancellation only the blocking.
func (c *Client) EnqueueAsync(ctx context.Context, queue string, m Message, done func(Receipt, error)) error {
	if done == nil {
		done = func(Receipt, error) {}
	}
	if c.tracer == nil {
		return c.enqueueAsync(ctx, queue, &m, done)
	}
	span := c.sending(ctx, queue, &m)
	err := c.enqueueAsync(ctx, queue, &m, func(r Receipt, err error) {
		sent(span, r, err)
		done(r, err)
	})
	if err != nil {
		sent(span, Receipt{}, err)
	}
	return err
}

func (c *Client) enqueueAsync(ctx context.Context, queue string, m *Message, done func(Receipt, error)) error {
	var wm wire.Message
	size, err := c.prepare(queue, m, &wm)
	if err != nil {
		return err
	}
	deadline := c.now()
	if t, ok := ctx.Deadline(); ok {
		deadline += max(int64(time.Until(t)), 1)
	} else {
		deadline += int64(c.o.Timeout)
	}
	return c.add(ctx, queue, &wm, size, pend{done: done, deadline: deadline})
}

// prepare checks a message and estimates its encoded size.
func (c *Client) prepare(queue string, m *Message, wm *wire.Message) (int, error) {
	if f := wire.CheckQueue("queue", queue); f != nil {
		return 0, errorOf(f)
	}
	if err := m.wire(wm); err != nil {
		return 0, err
	}
	if f := wm.Validate(c.maxMessage.Load()); f != nil {
		return 0, errorOf(f)
	}
	return messageSize(wm), nil
}

func messageSize(m *wire.Message) int {
	n := messageRoom + len(m.Body) + len(m.TaskID) + len(m.Kind) + len(m.ContentType) + len(m.Key) + len(m.DedupKey)
	for i := range m.Headers {
		n += 8 + len(m.Headers[i].Name) + len(m.Headers[i].Value)
	}
	n += len(m.Batch)
	for _, k := range m.KeysIfUndelivered {
		for _, s := range k {
			n += 4 + len(s)
		}
	}
	if m.Retry != nil {
		n += 64 + 9*len(m.Retry.Steps)
	}
	return n
}

// add puts a message into the open batch of its queue, waiting for a free slot first.
func (c *Client) add(ctx context.Context, queue string, m *wire.Message, size int, p pend) error {
	if err := ctx.Err(); err != nil {
		return ended(context.Cause(ctx), false, true, nil, nil)
	}
	c.mu.Lock()
	for c.pending >= c.o.MaxPending && !c.closing {
		if err := c.waitSlotLocked(ctx, p.deadline); err != nil {
			c.mu.Unlock()
			return err
		}
	}
	if c.closing {
		c.mu.Unlock()
		return ErrClosed
	}
	c.pending++
	cl := c.lanes[queue]
	if cl == nil || len(cl.batch.msgs) >= batchMessages || cl.batch.size+size > batchBytes {
		cl = newBatchCall(queue)
		c.lanes[queue] = cl
		c.startLocked(cl)
	}
	cl.batch.add(cl, m, size, p)
	c.watchDeadline(p.deadline)
	c.wakeWriter()
	c.mu.Unlock()
	return nil
}

func newBatchCall(queue string) *call {
	b := batches.Get().(*batch)
	b.body.Queue = queue
	return &call{typ: wire.TypeEnqueue, batch: b, req: &b.body.Request, body: &b.body}
}

func (b *batch) add(cl *call, m *wire.Message, size int, p pend) {
	b.msgs = append(b.msgs, *m)
	b.meta = append(b.meta, p)
	b.size += size
	b.live++
	if w := p.w; w != nil && (len(w.calls) == 0 || w.calls[len(w.calls)-1] != cl) {
		w.calls = append(w.calls, cl)
	}
}

// abandonWaiter ends what a waiter still waits for, except answers that are being handled right now.
func (c *Client) abandonWaiter(w *waiter, cause error) {
	c.mu.Lock()
	w.cancelled = true
	var rs []run
	for _, cl := range w.calls {
		if cl.state == callDone || cl.state == callAnswered {
			continue
		}
		err := ended(cause, cl.unresolved > 0, c.conn != nil, cl.last, c.lastErr)
		for i := range cl.batch.meta {
			if p := &cl.batch.meta[i]; p.w == w && !p.dead {
				rs = append(rs, c.dropLocked(cl, p, err))
			}
		}
		c.reapLocked(cl)
	}
	c.mu.Unlock()
	runAll(rs)
}

// dropLocked gives up one message of a call that is not being answered.
func (c *Client) dropLocked(cl *call, p *pend, err error) run {
	q := *p
	*p = pend{dead: true}
	cl.batch.live--
	c.freeLocked(1)
	return func() { q.finish(Receipt{}, err) }
}

// reapLocked ends a batch nobody waits for any more.
func (c *Client) reapLocked(cl *call) {
	if cl.batch.live > 0 {
		if cl.state == callQueued && cl.number == 0 && len(cl.batch.msgs) >= 2*cl.batch.live {
			cl.batch.compact()
		}
		return
	}
	switch cl.state {
	case callQueued:
		c.deadQueued++
	case callSent:
		delete(c.byTag, cl.tag)
	}
	cl.state = callDone
	c.unholdLocked(cl, cl.batch.body.Queue)
	if c.lanes[cl.batch.body.Queue] == cl {
		delete(c.lanes, cl.batch.body.Queue)
	}
	c.retireLocked(cl)
	c.compactLocked()
}

// dropCancelledLocked ends the messages of a batch whose callers gave up while the answer was being handled, and
// reports whether any are left. Other calls are left alone.
func (c *Client) dropCancelledLocked(cl *call, err error, rs *[]run) bool {
	if cl.batch == nil {
		return true
	}
	for i := range cl.batch.meta {
		if p := &cl.batch.meta[i]; p.w != nil && p.w.cancelled {
			*rs = append(*rs, c.dropLocked(cl, p, err))
		}
	}
	c.reapLocked(cl)
	return cl.state != callDone
}

// compact leaves out the messages that were given up; only for batches without a number.
func (b *batch) compact() {
	n := 0
	b.size = 0
	for i := range b.msgs {
		if b.meta[i].dead {
			continue
		}
		b.size += messageSize(&b.msgs[i])
		b.msgs[n], b.meta[n] = b.msgs[i], b.meta[i]
		n++
	}
	clear(b.msgs[n:])
	clear(b.meta[n:])
	b.msgs, b.meta = b.msgs[:n], b.meta[:n]
}
