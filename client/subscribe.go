package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/wire"
)

// subscription is what Consume and Subscribe share.
type subscription struct {
	c      *Client
	num    uint32
	queue  string
	credit int32
	lease  time.Duration
	worker string

	deliver     func(*Delivery) // of Subscribe; on the reader's goroutine
	onLost      func(*Delivery)
	onCancelled func(*Delivery)
	cons        *consumer // of Consume

	// Guarded by c.mu.
	known   bool // in the session: reconnecting is Resume
	live    bool // confirmed on the present connection
	ended   bool
	err     error         // why it ended
	up      chan struct{} // closed when first live or ended
	upOnce  bool
	failed  chan struct{} // closed when ended
	out     []*lease
	telling []*lease // started frames to write; order of taking
	tokens  []string // scratch
	// finished are at-most-once deliveries that are done with, which the server has not been told: at most the window.
	finished []string
}

func (c *Client) subscribe(queue string, credit int, length time.Duration, worker string, fill func(*subscription)) (*subscription, error) {
	check := wire.Subscribe{Sub: 1, Queue: queue, Credit: int32of(credit), LeaseMillis: millis(length), Worker: worker}
	if f := check.Validate(); f != nil {
		return nil, errorOf(f)
	}
	s := &subscription{
		c: c, queue: queue, credit: int32(credit), lease: length, worker: worker,
		up: make(chan struct{}), failed: make(chan struct{}),
	}
	fill(s)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return nil, ErrClosed
	}
	c.nextSub++
	s.num = c.nextSub
	if s.worker == "" {
		s.worker = c.o.worker(s.num)
	}
	c.subs[s.num] = s
	if c.conn != nil {
		s.attachLocked(c.conn)
	}
	return s, nil
}

// body is the subscription as the server is to have it from now on: what is told anew need not be told again.
func (s *subscription) body() wire.Subscribe {
	b := wire.Subscribe{Sub: s.num, Queue: s.queue, Credit: s.credit, LeaseMillis: millis(s.lease), Worker: s.worker}
	s.finished = s.finished[:0]
	for _, l := range s.out {
		if l.once && len(b.Unfinished) < wire.MaxTokens {
			b.Unfinished = append(b.Unfinished, l.d.Token)
		}
	}
	return b
}

// attachLocked makes the subscription known on a new connection: Subscribe, or Resume with what it has in hands. The
// lists are made when the frame is written, so that they are what is true then.
func (s *subscription) attachLocked(cn *conn) {
	if s.ended {
		return
	}
	cl := &call{bound: cn, size: 256 + 64*len(s.out), deadline: s.c.now() + int64(attachLimit)}
	if s.known {
		cl.typ = wire.TypeResume
		cl.rebuild = func() any {
			r := &wire.Resume{Subscribe: s.body()}
			for _, l := range s.out[:min(len(s.out), wire.MaxTokens)] {
				if l.once {
					continue
				}
				if l.state == leaseHeld || l.state == leaseTelling {
					r.Held = append(r.Held, l.d.Token)
				} else {
					r.Started = append(r.Started, l.d.Token)
				}
			}
			return r
		}
	} else {
		cl.typ = wire.TypeSubscribe
		cl.rebuild = func() any {
			b := s.body()
			return &b
		}
	}
	var lost []string
	cl.answer = func(raw wire.Raw) error {
		if raw.Type != wire.TypeResumed {
			return nil
		}
		var r wire.Resumed
		if err := raw.Decode(&r); err != nil {
			return err
		}
		lost = r.Lost
		return nil
	}
	cl.notify = func(err error) { s.confirmed(cn, lost, err) }
	s.c.queueLocked(cl)
}

// confirmed goes on after the answer to attachLocked's frame.
func (s *subscription) confirmed(cn *conn, lost []string, err error) {
	c := s.c
	c.mu.Lock()
	var rs []run
	switch {
	case s.ended || c.conn != cn || cn.failed:
	case errors.Is(err, context.DeadlineExceeded): // no answer, or refused for so long: perhaps another node is better
		cn.failLocked(fmt.Errorf("subscription to %s: %w", s.queue, err), "")
	case err != nil:
		s.endLocked(err)
	default:
		s.known, s.live = true, true
		for _, t := range lost {
			if l := c.leases[t]; l != nil && l.s == s {
				c.toldLostLocked(l, &rs)
			}
		}
		s.upLocked()
		if s.cons != nil {
			s.cons.pumpLocked()
		}
		if len(s.finished) > 0 { // since the list was written
			c.wakeWriter()
		}
		c.watchDeadline(c.now())
	}
	c.mu.Unlock()
	runAll(rs)
}

func (s *subscription) upLocked() {
	if !s.upOnce {
		s.upOnce = true
		close(s.up)
	}
}

// endLocked takes the subscription out, with the reason its user will see.
func (s *subscription) endLocked(err error) {
	if s.ended {
		return
	}
	s.ended, s.live, s.err = true, false, err
	delete(s.c.subs, s.num)
	s.upLocked()
	close(s.failed)
}

func (s *subscription) detachLocked() {
	s.live = false
	s.finished = s.finished[:0]
	if s.cons != nil {
		s.cons.untellLocked(s.telling)
	}
	s.telling = s.telling[:0]
}

// untoldLocked lists what the user of Subscribe has and the server does not know to be started: at most the window.
func (s *subscription) untoldLocked() (tokens []string) {
	for _, l := range s.telling {
		if l.state != leaseOver {
			tokens = append(tokens, l.d.Token)
		}
	}
	for _, l := range s.out {
		if l.untold {
			tokens = append(tokens, l.d.Token)
		}
	}
	return tokens[:min(len(tokens), wire.MaxTokens)]
}

// SubscribeOptions are those of a low-level subscription.
type SubscribeOptions struct {
	Credit int             // window: at most this many leases are out, 1–10,000; default 100
	Lease  time.Duration   // 0: the queue's
	Worker string          // default Options.Worker
	OnLost func(*Delivery) // a lease ended without your doing; on the reader's goroutine
	// OnCancelled says that a delivery's task was cancelled, perhaps more than once; on the reader's goroutine. Stop the work and
	// end the lease: Ack, Nack and Release answer ErrCancelled, and free its place in the window, which else its deadline does.
	OnCancelled func(*Delivery)
}

// Subscription is a stream of deliveries whose leases are the caller's to end and to extend.
type Subscription struct{ s *subscription }

// Subscribe asks for deliveries on a callback, which runs on the goroutine that reads the connection: it must be short and
// must not block. Each delivery counts as started when the callback gets it. End leases with AckAsync, Ack, Nack or
// Release; the window opens as they end. It survives reconnects: what is in your hands stays yours where the cluster
// agrees, the rest comes through OnLost. For handlers, use Consume.
func (c *Client) Subscribe(ctx context.Context, queue string, o SubscribeOptions, deliver func(*Delivery)) (*Subscription, error) {
	if o.Credit == 0 {
		o.Credit = 100
	}
	s, err := c.subscribe(queue, o.Credit, o.Lease, o.Worker, func(s *subscription) {
		s.deliver, s.onLost, s.onCancelled = deliver, o.OnLost, o.OnCancelled
	})
	if err != nil {
		return nil, err
	}
	if err := c.waitUp(ctx, s); err != nil {
		return nil, err
	}
	return &Subscription{s}, nil
}

// waitUp waits until a subscription is confirmed for the first time, and takes it out if that fails.
func (c *Client) waitUp(ctx context.Context, s *subscription) error {
	t := time.NewTimer(c.o.Timeout)
	defer t.Stop()
	timeout := t.C
	if _, ok := ctx.Deadline(); ok {
		timeout = nil
	}
	var cause error
	select {
	case <-s.up:
	case <-ctx.Done():
		cause = context.Cause(ctx)
	case <-timeout:
		cause = errCallTimeout
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cause != nil && !s.live {
		err := ended(cause, false, c.conn != nil, nil, c.lastErr)
		c.unsubscribeLocked(s, err)
		return err
	}
	if s.ended {
		return s.err
	}
	return nil
}

// unsubscribeLocked ends a subscription and tells the server without waiting.
func (c *Client) unsubscribeLocked(s *subscription, why error) {
	if s.ended {
		return
	}
	s.endLocked(why)
	for _, l := range slices.Clone(s.out) {
		if s.cons == nil {
			c.dropLeaseLocked(l)
		}
	}
	if c.conn != nil && !c.closed {
		c.queueLocked(&call{
			typ: wire.TypeUnsubscribe, body: &wire.Unsubscribe{Sub: s.num}, size: 32, bound: c.conn,
			deadline: c.now() + int64(c.o.Timeout), notify: func(error) {},
		})
	}
}

// Close ends the subscription: no new deliveries. What is out stays out until it is answered or its lease ends. Twice is
// fine.
func (s *Subscription) Close(ctx context.Context) error {
	c := s.s.c
	c.mu.Lock()
	if s.s.ended {
		c.mu.Unlock()
		return nil
	}
	untold := s.s.untoldLocked()
	s.s.endLocked(ErrClosed)
	for _, l := range slices.Clone(s.s.out) {
		c.dropLeaseLocked(l)
	}
	cn := c.conn
	c.mu.Unlock()
	if cn == nil {
		return nil // the server dropped it with the connection
	}
	cl := &call{typ: wire.TypeUnsubscribe, size: 64 + (wire.TokenBytes+4)*len(untold), bound: cn}
	cl.rebuild = func() any { // before it: what the server takes for unstarted then goes to somebody else
		if len(untold) > 0 {
			cn.buf = wire.AppendFrame(cn.buf, wire.TypeStarted, 0, &wire.Started{Sub: s.s.num, Tokens: untold})
		}
		return &wire.Unsubscribe{Sub: s.s.num}
	}
	err := c.do(ctx, cl, 0)
	if errors.Is(err, errConnLost) || errors.Is(err, ErrClosed) || errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// Err is why the subscription ended: nil while it lives, ErrClosed after Close.
func (s *Subscription) Err() error {
	s.s.c.mu.Lock()
	defer s.s.c.mu.Unlock()
	return s.s.err
}

// Done is closed when the subscription has ended.
func (s *Subscription) Done() <-chan struct{} { return s.s.failed }
