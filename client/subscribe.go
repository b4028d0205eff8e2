package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/wire"
)

// leaseState is where a lease of a subscription is. Under Client.mu.
type leaseState uint8

const (
	leaseHeld     leaseState = iota // received, no handler has it
	leaseTelling                    // its started frame is queued
	leaseRunning                    // a handler, or the user of Subscribe, has it
	leaseSettling                   // its ack, nack or release is under way
	leaseOver                       // out of the table
)

// lease is one delivery of a subscription that has not ended. Guarded by Client.mu.
type lease struct {
	s     *subscription
	d     *Delivery
	at    int // in s.out
	state leaseState

	// Of consumers only.
	length    time.Duration // of the lease when it came: what an extension is expected to bring
	expires   int64         // safe local end; moves with extensions
	extendAt  int64         // 0: an extension is under way
	settleBy  int64         // while settling: extended no longer after this
	timeoutAt int64         // safe local end of the attempt; 0: none
	cancel    context.CancelCauseFunc
	lost      error // why it must be taken as lost: no ack, nack or release any more
	settle    *call
}

// subscription is what Consume and Subscribe share.
type subscription struct {
	c      *Client
	num    uint32
	queue  string
	credit int32
	lease  time.Duration
	worker string

	deliver func(*Delivery) // of Subscribe; on the reader's goroutine
	onLost  func(*Delivery)
	cons    *consumer // of Consume

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
}

func (c *Client) subscribe(queue string, credit int, length time.Duration, worker string, fill func(*subscription)) (*subscription, error) {
	if worker == "" {
		worker = c.o.Worker
	}
	check := wire.Subscribe{Sub: 1, Queue: queue, Credit: int32(min(credit, 1<<30)), LeaseMillis: millis(length), Worker: worker}
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
	c.subs[s.num] = s
	if c.conn != nil {
		s.attachLocked(c.conn)
	}
	return s, nil
}

func (s *subscription) body() wire.Subscribe {
	return wire.Subscribe{Sub: s.num, Queue: s.queue, Credit: s.credit, LeaseMillis: millis(s.lease), Worker: s.worker}
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
	if s.cons != nil {
		s.cons.untellLocked(s.telling)
	}
	s.telling = s.telling[:0]
}

// tendLocked extends leases, and gives up those that may have ended. It returns the next time it wants to be called.
func (s *subscription) tendLocked(now int64, rs *[]run) int64 {
	if s.cons == nil {
		return 0
	}
	c := s.c
	next := int64(0)
	at := func(t int64) {
		if t != 0 && (next == 0 || t < next) {
			next = t
		}
	}
	for i := len(s.out) - 1; i >= 0; i-- { // from the end: loseLocked may move the last one to i
		l := s.out[i]
		if l.lost != nil {
			continue
		}
		if l.timeoutAt != 0 && l.timeoutAt <= now && l.state != leaseSettling {
			c.loseLocked(l, ErrTaskTimeout, rs)
			continue
		}
		if l.expires <= now {
			c.loseLocked(l, errExpired, rs)
			continue
		}
		if l.extendAt != 0 && (l.settleBy == 0 || now < l.settleBy) {
			if l.extendAt <= now && c.conn != nil {
				c.extendLocked(l)
			} else if l.extendAt > now {
				at(l.extendAt)
			} // else: attaching looks again
		}
		at(l.expires)
		if l.state != leaseSettling {
			at(l.timeoutAt)
		}
	}
	return next
}

// extendTime rounds to a grid, so that many leases are extended by one tick and in one message.
func extendTime(t int64, length time.Duration) int64 {
	grid := max(int64(length/64), 1)
	return t / grid * grid
}

// extendLocked sends one extension; the answer sets the next.
func (c *Client) extendLocked(l *lease) {
	l.extendAt = 0
	var sent int64
	var left time.Duration
	cancelled := false
	cl := &call{typ: wire.TypeExtend, size: 128, deadline: l.expires}
	cl.rebuild = func() any {
		sent = c.now()
		return &wire.Extend{Token: l.d.Token, LeaseMillis: millis(l.s.lease)}
	}
	cl.answer = func(raw wire.Raw) error {
		var e wire.Extended
		if err := raw.Decode(&e); err != nil {
			return err
		}
		left, cancelled = time.Duration(e.LeaseLeftMillis)*time.Millisecond, e.Cancelled
		return nil
	}
	cl.notify = func(err error) {
		c.mu.Lock()
		var rs []run
		if l.state != leaseOver && l.lost == nil {
			switch {
			case cancelled:
				c.loseLocked(l, ErrCancelled, &rs)
			case err == nil:
				l.expires = max(l.expires, leaseEnd(sent, left))
				// Near the attempt's timeout an extension brings less and less: ask no oftener than a tenth of a lease.
				l.extendAt = extendTime(max(sent+int64(left/3), c.now()+int64(l.length/10)), l.length)
				c.watchDeadline(l.extendAt)
				c.watchDeadline(l.expires)
			case Unknown(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrClosed):
				// No answer by the end of the lease: tendLocked gives it up then.
			default:
				c.loseLocked(l, err, &rs)
			}
		}
		c.mu.Unlock()
		runAll(rs)
	}
	c.queueLocked(cl)
}

// toldLostLocked: the server says that a lease is not live. Where its ack, nack or release is under way, that is no
// news: it may have ended the lease, its answer being lost, and sending it again will tell.
func (c *Client) toldLostLocked(l *lease, rs *[]run) {
	if l.state == leaseSettling {
		l.extendAt = 0
		return
	}
	c.loseLocked(l, errLost, rs)
}

// loseLocked takes a lease as lost. A handler's context is cancelled; its lease stays in the table until it returns.
func (c *Client) loseLocked(l *lease, why error, rs *[]run) {
	if l.lost != nil || l.state == leaseOver {
		return
	}
	l.lost = why
	s := l.s
	if s.cons != nil {
		s.cons.loseLocked(l, why, rs)
		return
	}
	c.dropLeaseLocked(l)
	if f, d := s.onLost, l.d; f != nil {
		*rs = append(*rs, func() { f(d) })
	}
}

func (c *Client) addLeaseLocked(l *lease) {
	l.at = len(l.s.out)
	l.s.out = append(l.s.out, l)
	c.leases[l.d.Token] = l
}

func (c *Client) dropLeaseLocked(l *lease) {
	if l.state == leaseOver {
		return
	}
	l.state = leaseOver
	delete(c.leases, l.d.Token)
	s := l.s
	last := len(s.out) - 1
	s.out[l.at] = s.out[last]
	s.out[l.at].at = l.at
	s.out[last] = nil
	s.out = s.out[:last]
}

// settlingLocked: an ack, nack or release of a token is on its way for the user of Subscribe.
func (c *Client) settlingLocked(token string) {
	if l := c.leases[token]; l != nil && l.s.cons == nil {
		l.state = leaseSettling
	}
}

// settledLocked: the ack, nack or release of a token has ended.
func (c *Client) settledLocked(token string, err error) {
	l := c.leases[token]
	if l == nil || (l.s.cons != nil && l.state == leaseSettling) {
		return // the consumer's own settling ends it
	}
	var e *Error
	over := err == nil || (errors.As(err, &e) && !e.Unknown &&
		(e.Code == wire.CodeLeaseLost || e.Code == wire.CodeNotFound || e.Code == wire.CodeCancelled))
	switch {
	case l.s.cons == nil && over:
		c.dropLeaseLocked(l)
	case l.s.cons == nil:
		l.state = leaseRunning // the lease is still the user's
	case over:
		l.lost = errSettled // by hand, while the handler runs: nothing is left to do when it returns
	}
}

// gone handles leases that ended without the consumer's doing.
func (c *Client) gone(g *wire.LeaseGone) {
	c.mu.Lock()
	var rs []run
	for _, t := range g.Tokens {
		if l := c.leases[t]; l != nil && l.s.num == g.Sub {
			c.toldLostLocked(l, &rs)
		}
	}
	c.mu.Unlock()
	runAll(rs)
}

// deliver takes a delivery frame in.
func (cn *conn) deliver(f wire.Raw) error {
	c := cn.c
	w := &cn.delivery
	if err := f.DecodeWith(w, &cn.strings); err != nil {
		return err
	}
	now := c.now()
	cn.got = deliveries(cn.got[:0], "", w.Messages, now, time.Now())
	c.mu.Lock()
	s := c.subs[w.Sub]
	if s == nil || (s.cons != nil && s.cons.draining) {
		for _, d := range cn.got {
			if !c.closed {
				c.releaseLocked(d.Token, func(error) {})
			}
		}
		c.mu.Unlock()
		return nil
	}
	ls := make([]lease, len(cn.got))
	for i, d := range cn.got {
		d.Queue = s.queue
		l := &ls[i]
		*l = lease{s: s, d: d}
		if old := c.leases[d.Token]; old != nil { // told again after a reconnect: the first copy counts
			cn.got[i] = nil
			continue
		}
		c.addLeaseLocked(l)
		if s.cons == nil {
			l.state = leaseRunning
			s.telling = append(s.telling, l)
			continue
		}
		left := time.Duration(w.Messages[i].LeaseLeftMillis) * time.Millisecond
		l.length = left
		l.expires, l.extendAt = leaseEnd(now, left), extendTime(now+int64(left/3), left)
		if d.Timeout > 0 {
			l.timeoutAt = leaseEnd(now, d.Timeout)
		}
		s.cons.held = append(s.cons.held, l)
		c.watchDeadline(min(l.extendAt, l.expires))
		c.watchDeadline(l.timeoutAt)
	}
	if s.cons != nil {
		s.cons.pumpLocked()
	}
	if len(s.telling) > 0 {
		c.wakeWriter()
	}
	deliver := s.deliver
	c.mu.Unlock()
	if deliver != nil {
		for _, d := range cn.got {
			if d != nil {
				deliver(d)
			}
		}
	}
	clear(cn.got)
	return nil
}

// appendStarted encodes the started tokens of a subscription that is live on this connection.
func (cn *conn) appendStarted(s *subscription) {
	if !s.live || len(s.telling) == 0 {
		return
	}
	n := min(len(s.telling), 1000)
	s.tokens = s.tokens[:0]
	var lost []*lease
	for _, l := range s.telling[:n] {
		if l.state == leaseOver || l.lost != nil {
			if s.cons != nil && l.state != leaseOver {
				lost = append(lost, l)
			}
			continue
		}
		s.tokens = append(s.tokens, l.d.Token)
		if s.cons != nil {
			cn.told = append(cn.told, l)
		}
	}
	s.telling = slices.Delete(s.telling, 0, n)
	for _, l := range lost {
		s.cons.startLocked(l) // sees that it is lost, and frees the worker
	}
	if len(s.tokens) > 0 {
		cn.buf = wire.AppendFrame(cn.buf, wire.TypeStarted, 0, &wire.Started{Sub: s.num, Tokens: s.tokens})
	}
}

// flushed lets the handlers run whose started frames have been written.
func (cn *conn) flushed() {
	if len(cn.told) == 0 {
		return
	}
	c := cn.c
	c.mu.Lock()
	for _, l := range cn.told {
		l.s.cons.startLocked(l)
	}
	c.mu.Unlock()
	clear(cn.told)
	cn.told = cn.told[:0]
}

// unflushed takes back what could not be written.
func (cn *conn) unflushed() {
	c := cn.c
	c.mu.Lock()
	for _, l := range cn.told {
		l.s.cons.untellLocked([]*lease{l})
	}
	c.mu.Unlock()
	cn.told = nil
}

// SubscribeOptions are those of a low-level subscription.
type SubscribeOptions struct {
	Credit int             // window: at most this many leases are out, 1–10,000; default 100
	Lease  time.Duration   // 0: the queue's
	Worker string          // default Options.Worker
	OnLost func(*Delivery) // a lease ended without your doing; on the reader's goroutine
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
		s.deliver, s.onLost = deliver, o.OnLost
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
	s.s.endLocked(ErrClosed)
	for _, l := range slices.Clone(s.s.out) {
		c.dropLeaseLocked(l)
	}
	cn := c.conn
	c.mu.Unlock()
	if cn == nil {
		return nil // the server dropped it with the connection
	}
	err := c.do(ctx, &call{typ: wire.TypeUnsubscribe, body: &wire.Unsubscribe{Sub: s.s.num}, size: 32, bound: cn}, 0)
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
