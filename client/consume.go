package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/wire"
)

// Bounds of Consume.
const (
	DefaultDrainTimeout = 20 * time.Second

	drainGrace = time.Second            // for handlers to return after their context was cancelled, and for last answers
	emptyLeast = 50 * time.Millisecond  // StopWhenEmpty asks this often at first
	emptyMost  = 500 * time.Millisecond // and this often in the end
)

// Why a handler's context was cancelled (context.Cause).
var (
	// ErrTaskTimeout says that the message's timeout for one attempt is over.
	ErrTaskTimeout = errors.New("client: the attempt's timeout is over")
	// ErrDraining says that Consume stops and DrainTimeout is over.
	ErrDraining = errors.New("client: draining")

	errExpired = &Error{Code: wire.CodeLeaseLost, Message: "not extended before its end"}
	errLost    = &Error{Code: wire.CodeLeaseLost, Message: "the cluster ended the lease"}
	errSettled = errors.New("client: acked, nacked or released by hand")
)

// ErrRelease is what a handler returns to give the message back at no cost of an attempt.
var ErrRelease = errors.New("client: release")

type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Permanent makes a handler's error one that no retry cures: the message goes to the dead letters at once.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanentError{err}
}

type retryAfterError struct {
	error
	after time.Duration
}

func (e retryAfterError) Unwrap() error { return e.error }

// RetryAfter makes a handler's error choose the wait before the next attempt, instead of the retry policy.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return retryAfterError{err, d}
}

// Handler does the work of one message. Nil acks, with the result if there is one; an error nacks, as Permanent,
// RetryAfter and ErrRelease say; a panic nacks with its text. The context ends before the lease does, at the message's
// timeout, when the task is cancelled (ErrCancelled is its cause), and when a drain runs out of time; whatever the handler returns after the lease was lost is ignored, since the
// message may be with someone else by then.
type Handler func(ctx context.Context, d *Delivery) (*Result, error)

// ConsumeOptions are those of Consume.
type ConsumeOptions struct {
	Concurrency  int           // handlers at once, 1–10,000; default 1
	Prefetch     int           // window: messages here at once, running ones included; default 2 × Concurrency
	Lease        time.Duration // 0: the queue's. It is extended while the handler runs
	Worker       string        // default Options.Worker
	DrainTimeout time.Duration // for running handlers after ctx is done; default 20 s; negative: none
	// StopWhenEmpty ends Consume, as ctx would, once the queue is empty: nothing is here, and the leader says that no
	// message is ready, scheduled, retrying or leased by anyone. So it waits for retries, for messages scheduled for
	// later, and for other workers, whose messages may come back. A queue that does not exist is empty.
	StopWhenEmpty bool
}

func (o ConsumeOptions) withDefaults() (ConsumeOptions, error) {
	if o.Concurrency == 0 {
		o.Concurrency = 1
	}
	if o.Concurrency < 1 || o.Concurrency > wire.MaxCredit {
		return o, invalid("concurrency", "%d is outside 1 to %d", o.Concurrency, wire.MaxCredit)
	}
	if o.Prefetch == 0 {
		o.Prefetch = min(2*o.Concurrency, wire.MaxCredit)
	}
	if o.Prefetch < o.Concurrency || o.Prefetch > wire.MaxCredit {
		return o, invalid("prefetch", "%d is outside %d (Concurrency) to %d", o.Prefetch, o.Concurrency, wire.MaxCredit)
	}
	if o.DrainTimeout == 0 {
		o.DrainTimeout = DefaultDrainTimeout
	}
	return o, nil
}

// consumer is a Consume under way.
type consumer struct {
	c    *Client
	s    *subscription
	o    ConsumeOptions
	h    Handler
	log  *slog.Logger
	base context.Context // of handlers: the caller's values, not its end
	run  chan *lease     // cap Concurrency: to the workers
	wg   sync.WaitGroup  // of the workers

	// Guarded by c.mu.
	held     []*lease // from heldHead on: ready to be taken, in order of delivery
	heldHead int
	idle     int // workers without a message
	busy     int // handlers running
	draining bool
	quiet    bool // draining: the server will deliver nothing more, as far as can be known
	over     bool // cancelled handlers' failures are releases; set at DrainTimeout
	changed  chan struct{}
}

// Consume runs handlers for a queue's messages until ctx is done, StopWhenEmpty holds, the client is closed or the
// subscription is refused. Then it drains: it takes no more, gives back what no handler has taken (free of cost), lets
// handlers run for DrainTimeout, cancels those that are left, and gives their messages back. It returns nil after a drain
// in which every handler came back; a handler that ignores its context is left behind, said in the error.
func (c *Client) Consume(ctx context.Context, queue string, o ConsumeOptions, h Handler) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	if h == nil {
		return invalid("handler", "is nil: a function is needed")
	}
	k := &consumer{
		c: c, o: o, h: h, log: c.log.With("queue", queue), base: context.WithoutCancel(ctx),
		run: make(chan *lease, o.Concurrency), changed: make(chan struct{}, 1), idle: o.Concurrency,
	}
	_, err = c.subscribe(queue, o.Prefetch, o.Lease, o.Worker, func(s *subscription) { s.cons, k.s = k, s })
	if err != nil {
		return err
	}
	for range o.Concurrency {
		k.wg.Add(1)
		go k.work()
	}
	err = k.wait(ctx, queue)
	left := k.drain()
	if err == nil && left > 0 {
		err = fmt.Errorf("client: %d handlers did not return within the drain timeout of %v; their messages were given back", left, o.DrainTimeout)
	}
	return err
}

// wait blocks until it is time to drain; an error is why without ctx.
func (k *consumer) wait(ctx context.Context, queue string) error {
	if !k.o.StopWhenEmpty {
		select {
		case <-ctx.Done():
			return nil
		case <-k.s.failed:
			return k.s.err
		}
	}
	pause := emptyLeast
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.s.failed:
			return k.s.err
		case <-t.C:
		}
		if k.nothingHere() {
			empty, err := k.c.queueEmpty(ctx, queue)
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrTimeout):
				return fmt.Errorf("client: is queue %s empty: %w", queue, err)
			case empty && k.nothingHere():
				return nil
			}
			pause = min(2*pause, emptyMost)
		} else {
			pause = emptyLeast
		}
		t.Reset(pause)
	}
}

func (k *consumer) nothingHere() bool {
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	return len(k.s.out) == 0
}

// queueEmpty asks the leader whether a queue holds no live message at all.
func (c *Client) queueEmpty(ctx context.Context, queue string) (bool, error) {
	q, err := c.Queue(ctx, queue)
	if errors.Is(err, ErrNotFound) {
		return true, nil
	}
	return err == nil && q.Pending == 0 && q.Processing == 0 && q.Scheduled == 0 && q.Retrying == 0, err
}

// pumpLocked gives waiting messages to idle workers: their started frame first.
func (k *consumer) pumpLocked() {
	n := 0
	for k.idle > 0 && k.heldHead < len(k.held) {
		l := k.held[k.heldHead]
		if !l.once && (k.draining || !k.s.live) {
			break
		}
		k.held[k.heldHead] = nil
		k.heldHead++
		n++
		if l.state != leaseHeld || l.lost != nil {
			continue
		}
		if l.once { // it costs no attempt, and needs no connection
			l.state = leaseRunning
			k.idle--
			k.busy++
			k.run <- l // has room: one for each worker
			continue
		}
		l.state = leaseTelling
		k.idle--
		k.s.telling = append(k.s.telling, l)
	}
	switch {
	case n == 0:
		return
	case k.heldHead == len(k.held):
		k.held, k.heldHead = k.held[:0], 0
	case k.heldHead > 256 && k.heldHead > len(k.held)/2:
		k.held, k.heldHead = slices.Delete(k.held, 0, k.heldHead), 0
	}
	k.c.wakeWriter()
}

// untellLocked takes messages back from workers that have not got them yet.
func (k *consumer) untellLocked(ls []*lease) {
	n := 0
	for _, l := range ls {
		if l.state != leaseTelling {
			continue
		}
		k.idle++
		if l.lost != nil {
			k.dropLostLocked(l)
			continue
		}
		l.state = leaseHeld
		k.held = slices.Insert(k.held, k.heldHead+n, l)
		n++
	}
	k.changedLocked()
}

// startLocked hands a message to a worker: its started frame has been written.
func (k *consumer) startLocked(l *lease) {
	if l.state != leaseTelling {
		return
	}
	if l.lost != nil || k.draining {
		k.idle++
		if l.lost == nil {
			k.releaseLocked(l)
		} else {
			k.dropLostLocked(l)
		}
		k.pumpLocked()
		return
	}
	l.state = leaseRunning
	k.busy++
	k.run <- l // has room: one for each worker
}

// dropLostLocked is done with a lost lease that no handler has any more. One whose task was cancelled is given back, so that
// its place in the window does not wait for its deadline.
func (k *consumer) dropLostLocked(l *lease) {
	if errors.Is(l.lost, ErrCancelled) && l.state != leaseOver && l.state != leaseSettling && !k.c.closed {
		k.releaseLocked(l)
		return
	}
	k.c.dropLeaseLocked(l)
}

// loseLocked: a lease of the consumer is lost.
func (k *consumer) loseLocked(l *lease, why error, rs *[]run) {
	switch l.state {
	case leaseHeld:
		if i := slices.Index(k.held[k.heldHead:], l); i >= 0 {
			k.held = slices.Delete(k.held, k.heldHead+i, k.heldHead+i+1)
		}
		k.dropLostLocked(l)
	case leaseTelling: // untellLocked or startLocked
	case leaseRunning:
		if f := l.cancel; f != nil {
			*rs = append(*rs, func() { f(why) })
		}
	case leaseSettling:
		if cl := l.settle; cl != nil && cl.state != callDone && cl.state != callAnswered {
			cl.cancelled = true
			*rs = append(*rs, k.c.endLocked(cl, why))
		} else if cl != nil {
			cl.cancelled = true
		}
	}
	k.changedLocked()
}

func (k *consumer) changedLocked() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// work is one worker.
func (k *consumer) work() {
	defer k.wg.Done()
	for l := range k.run {
		ctx, cancel := context.WithCancelCause(k.base)
		c := k.c
		c.mu.Lock()
		l.cancel = cancel
		lost := l.lost
		if lost == nil && k.over {
			lost = ErrDraining
		}
		c.mu.Unlock()
		if lost != nil {
			cancel(lost)
		}
		var r *Result
		var err error
		if c.tracer != nil {
			r, err = k.traced(ctx, l.d)
		} else {
			r, err = k.call(ctx, l.d)
		}
		cancel(nil)
		k.settle(l, r, err)
	}
}

// call runs the handler and turns a panic into an error.
func (k *consumer) call(ctx context.Context, d *Delivery) (r *Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			k.log.Error("handler panicked", "message", d.ID, "attempt", d.Attempt, "err", p, "stack", string(debug.Stack()))
			r, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	return k.h(ctx, d)
}

// settle sends what the handler's return means, and frees the worker.
func (k *consumer) settle(l *lease, r *Result, err error) {
	c := k.c
	c.mu.Lock()
	l.cancel = nil
	k.busy--
	k.idle++
	switch {
	case l.lost != nil || l.state != leaseRunning:
		switch {
		case errors.Is(l.lost, ErrCancelled):
			k.log.Info("result dropped: the task was cancelled", "message", l.d.ID, "attempt", l.d.Attempt)
		case !errors.Is(l.lost, errSettled):
			k.log.Warn("result dropped: the lease was lost", "message", l.d.ID, "attempt", l.d.Attempt, "err", l.lost)
		}
		k.dropLostLocked(l)
	case l.once:
		switch {
		case err != nil:
			k.log.Warn("handler failed; the message was delivered at most once and does not come again", "message", l.d.ID, "err", err)
		case r != nil:
			k.log.Warn("result dropped: the message was done when it was delivered", "message", l.d.ID)
		}
		c.dropLeaseLocked(l)
	case err == nil:
		k.ackLocked(l, r)
	case errors.Is(err, ErrRelease) || k.over:
		k.releaseLocked(l)
	default:
		k.nackLocked(l, err)
	}
	k.pumpLocked()
	k.changedLocked()
	c.mu.Unlock()
}

// settlingLocked marks a lease whose fate is on its way to the server. It is extended while that takes, for Timeout at
// most.
func (k *consumer) settlingLocked(l *lease, cl *call) {
	l.state, l.settle = leaseSettling, cl
	l.settleBy = k.c.now() + int64(k.c.o.Timeout)
	if k.c.closed {
		k.c.dropLeaseLocked(l)
		return
	}
	if cl.ackDone != nil {
		k.c.acks++
	}
	k.c.queueLocked(cl)
}

func (k *consumer) ackLocked(l *lease, r *Result) {
	cl := ackCalls.Get().(*call)
	if err := k.c.prepareAck(cl, l.d.Token, AckOptions{Result: r}); err != nil {
		k.nackLocked(l, fmt.Errorf("the result cannot be recorded: %w", err))
		return
	}
	cl.ackDone = func(_ Acked, err error) {
		var e *Error
		k.c.mu.Lock()
		l.settle = nil
		if err != nil && l.lost == nil && !k.c.closed && errors.As(err, &e) && !e.Unknown &&
			(e.Code == wire.CodeInvalidArgument || e.Code == wire.CodeTooLarge || e.Code == wire.CodeQueueFull) {
			k.nackLocked(l, fmt.Errorf("the result cannot be recorded: %w", err))
			k.c.mu.Unlock()
			return
		}
		k.settledLocked(l, "ack", err)
		k.c.mu.Unlock()
	}
	cl.lease = l
	k.settlingLocked(l, cl)
}

func (k *consumer) nackLocked(l *lease, err error) {
	o := NackOptions{Error: err.Error()}
	var after retryAfterError
	if errors.As(err, &after) {
		o.Delay = &after.after
	}
	var permanent permanentError
	o.Permanent = errors.As(err, &permanent)
	cl, _, nerr := k.c.nackCall(l.d.Token, o)
	if nerr != nil { // a delay out of range: let the policy choose
		o.Delay = nil
		if cl, _, nerr = k.c.nackCall(l.d.Token, o); nerr != nil {
			k.settledLocked(l, "nack", nerr)
			return
		}
	}
	cl.settles = ""
	cl.notify = func(err error) { k.settled(l, "nack", err) }
	k.settlingLocked(l, cl)
}

func (k *consumer) releaseLocked(l *lease) {
	cl := &call{typ: wire.TypeRelease, body: &wire.Release{Token: l.d.Token}, size: 128}
	cl.notify = func(err error) { k.settled(l, "release", err) }
	k.settlingLocked(l, cl)
}

func (k *consumer) settled(l *lease, how string, err error) {
	k.c.mu.Lock()
	k.settledLocked(l, how, err)
	k.c.mu.Unlock()
}

func (k *consumer) settledLocked(l *lease, how string, err error) {
	l.settle = nil
	if err != nil && !errors.Is(err, ErrCancelled) {
		k.log.Warn("not settled", "op", how, "message", l.d.ID, "attempt", l.d.Attempt, "err", err)
	}
	k.c.dropLeaseLocked(l)
	k.changedLocked()
}

// drain ends the consumer. It returns how many handlers did not come back.
func (k *consumer) drain() (left int) {
	c := k.c
	c.mu.Lock()
	k.draining = true
	k.untellLocked(k.s.telling)
	k.s.telling = k.s.telling[:0]
	kept := k.held[:0:0]
	for _, l := range k.held[k.heldHead:] {
		switch {
		case l.state != leaseHeld || l.lost != nil:
			c.dropLeaseLocked(l)
		case l.once:
			kept = append(kept, l) // nobody else will get it
		default:
			k.releaseLocked(l)
		}
	}
	k.held, k.heldHead = kept, 0
	k.s.credit = 0
	k.quiet = true
	if k.s.live && c.conn != nil && !c.closing {
		c.queueLocked(&call{
			typ: wire.TypeCredit, body: &wire.Credit{Sub: k.s.num}, size: 32, bound: c.conn,
			deadline: c.now() + int64(c.o.Timeout),
			notify: func(error) {
				c.mu.Lock()
				k.quiet = true
				k.changedLocked()
				c.mu.Unlock()
			},
		})
		k.quiet = false
	}
	c.mu.Unlock()

	none := func() bool { return len(k.s.out) == 0 && k.busy == 0 && k.quiet }
	if k.o.DrainTimeout < 0 || !k.await(k.o.DrainTimeout, none) {
		c.mu.Lock()
		k.over = true
		k.dropHeldLocked()
		var rs []run
		for _, l := range k.s.out {
			if f := l.cancel; f != nil && l.state == leaseRunning {
				rs = append(rs, func() { f(ErrDraining) })
			}
		}
		c.mu.Unlock()
		runAll(rs)
		k.await(drainGrace, func() bool { return k.busy == 0 })
		c.mu.Lock()
		for _, l := range slices.Clone(k.s.out) {
			if l.state == leaseRunning && l.lost == nil && !l.once {
				k.releaseLocked(l)
			}
		}
		c.mu.Unlock()
		k.await(drainGrace, func() bool { return k.settlingLeft() == 0 })
	}
	c.mu.Lock()
	left = k.busy
	var rs []run
	for _, l := range slices.Clone(k.s.out) {
		if cl := l.settle; cl != nil && cl.state != callDone {
			cl.cancelled = true
			if cl.state != callAnswered {
				rs = append(rs, c.endLocked(cl, ErrDraining))
			}
		}
		c.dropLeaseLocked(l)
	}
	c.unsubscribeLocked(k.s, ErrDraining)
	close(k.run)
	c.mu.Unlock()
	runAll(rs)
	if left == 0 {
		k.wg.Wait()
	}
	return left
}

// dropHeldLocked gives up at-most-once deliveries that no handler has taken by the end of a drain.
func (k *consumer) dropHeldLocked() {
	lost := 0
	for _, l := range k.held[k.heldHead:] {
		if l.state == leaseHeld {
			lost++
			k.c.dropLeaseLocked(l)
		}
	}
	k.held, k.heldHead = nil, 0
	if lost > 0 {
		k.log.Warn("at-most-once deliveries are lost: no handler had taken them by the end of the drain", "count", lost)
	}
}

func (k *consumer) settlingLeft() int {
	n := 0
	for _, l := range k.s.out {
		if l.state == leaseSettling {
			n++
		}
	}
	return n
}

// await waits until cond holds, looking after each change; false: it did not within d.
func (k *consumer) await(d time.Duration, cond func() bool) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		k.c.mu.Lock()
		ok := cond()
		k.c.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-k.changed:
		case <-t.C:
			return false
		}
	}
}
