package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
