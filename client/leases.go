package client

import (
	"context"
	"errors"
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

	ackedIn uint64 // conn.fills of the message that acks it, as long as it is telling
	untold  bool   // its started frame was left out for that ack

	// once: delivered at most once. It is in no table of leases, is not extended, and no answer of the server ends it.
	once bool

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
		if l.once {
			at(l.timeoutAt)
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
		left = time.Duration(e.LeaseLeftMillis) * time.Millisecond
		return nil
	}
	cl.notify = func(err error) {
		c.mu.Lock()
		var rs []run
		if l.state != leaseOver && l.lost == nil {
			switch {
			case errors.Is(err, ErrCancelled):
				c.cancelledLocked(l, &rs)
			case err == nil:
				l.expires = max(l.expires, leaseEnd(sent, left))
				// Near the attempt's timeout an extension brings less and less: ask no oftener than a tenth of a lease.
				l.extendAt = extendTime(max(sent+int64(left/3), c.now()+int64(l.length/10)), l.length)
				c.watchDeadline(l.extendAt)
				c.watchDeadline(l.expires)
			case endsLease(err):
				c.loseLocked(l, err, &rs)
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

// cancelledLocked: the task of a lease was cancelled. The lease is live still and takes its place in the window: the handler
// is told to stop, and the lease is given back when it has. Where its ack, nack or release is under way, that is the answer
// that frees the place, whatever it says.
func (c *Client) cancelledLocked(l *lease, rs *[]run) {
	switch {
	case l.state == leaseSettling:
		l.extendAt = 0
	case l.s.cons != nil:
		c.loseLocked(l, ErrCancelled, rs)
	case l.s.onCancelled != nil && l.lost == nil:
		f, d := l.s.onCancelled, l.d
		*rs = append(*rs, func() { f(d) })
	}
}

// cancelled handles leases whose tasks were cancelled.
func (c *Client) cancelled(g *wire.LeaseCancelled) {
	c.mu.Lock()
	var rs []run
	for _, t := range g.Tokens {
		if l := c.leases[t]; l != nil && l.s.num == g.Sub {
			c.cancelledLocked(l, &rs)
		}
	}
	c.mu.Unlock()
	runAll(rs)
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
	s := l.s
	if l.once {
		s.finished = append(s.finished, l.d.Token)
		c.wakeWriter()
	} else {
		delete(c.leases, l.d.Token)
	}
	last := len(s.out) - 1
	s.out[l.at] = s.out[last]
	s.out[l.at].at = l.at
	s.out[last] = nil
	s.out = s.out[:last]
}

// settlingLocked: an ack, nack or release of a token is on its way for the user of Subscribe. It returns the token's lease.
func (c *Client) settlingLocked(token string) *lease {
	l := c.leases[token]
	if l != nil && l.s.cons == nil {
		l.state = leaseSettling
	}
	return l
}

// ackSettledLocked: an ack has ended.
func (c *Client) ackSettledLocked(cl *call, err error) {
	if l := cl.lease; l != nil && l.state != leaseOver {
		c.leaseSettledLocked(l, err)
	} else { // there was none, or it came again
		c.settledLocked(cl.ack.Token, err)
	}
}

// settledLocked: the ack, nack or release of a token has ended.
func (c *Client) settledLocked(token string, err error) {
	if l := c.leases[token]; l != nil {
		c.leaseSettledLocked(l, err)
	}
}

func (c *Client) leaseSettledLocked(l *lease, err error) {
	if l.s.cons != nil && l.state == leaseSettling {
		return // the consumer's own settling ends it
	}
	over := err == nil || endsLease(err)
	switch {
	case l.s.cons == nil && over:
		c.dropLeaseLocked(l)
	case l.s.cons == nil:
		l.state = leaseRunning // the lease is still the user's
		c.tellLocked(l)
	case over:
		l.lost = errSettled // by hand, while the handler runs: nothing is left to do when it returns
	}
}

// tellLocked makes up for a started frame that was left out for an ack which has not ended the lease, or not yet: to the server it would be
// one that nobody works on, and go to somebody else when the connection ends.
func (c *Client) tellLocked(l *lease) {
	if l == nil || !l.untold {
		return
	}
	l.untold = false
	l.s.telling = append(l.s.telling, l)
	c.wakeWriter()
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
	if s != nil && len(cn.got) > 0 && cn.got[0].AtMostOnce && (s.cons == nil || !s.cons.over) {
		cn.deliverOnce(s, now)
		return nil
	}
	if s == nil || (s.cons != nil && s.cons.draining) {
		lost := 0
		for _, d := range cn.got {
			switch {
			case d.AtMostOnce:
				lost++
			case !c.closed:
				c.releaseLocked(d.Token, func(error) {})
			}
		}
		c.mu.Unlock()
		if lost > 0 {
			c.log.Warn("at-most-once deliveries are lost: their subscription has ended", "count", lost)
		}
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

// deliverOnce takes in messages that are done already. Client.mu is held, and given back.
func (cn *conn) deliverOnce(s *subscription, now int64) {
	c := cn.c
	ls := make([]lease, len(cn.got))
	for i, d := range cn.got {
		d.Queue = s.queue
		l := &ls[i]
		*l = lease{s: s, d: d, once: true, at: len(s.out)}
		s.out = append(s.out, l)
		if s.cons == nil {
			l.state = leaseRunning
			continue
		}
		if d.Timeout > 0 {
			l.timeoutAt = leaseEnd(now, d.Timeout)
			c.watchDeadline(l.timeoutAt)
		}
		s.cons.held = append(s.cons.held, l)
	}
	if s.cons != nil {
		s.cons.pumpLocked()
		c.mu.Unlock()
		clear(cn.got)
		return
	}
	deliver := s.deliver
	c.mu.Unlock()
	for _, d := range cn.got {
		deliver(d)
	}
	clear(cn.got)
	c.mu.Lock()
	for i := range ls {
		c.dropLeaseLocked(&ls[i])
	}
	c.mu.Unlock()
}

// appendFinished encodes the tokens of at-most-once deliveries that are done with.
func (cn *conn) appendFinished(s *subscription) {
	if !s.live || len(s.finished) == 0 {
		return
	}
	n := min(len(s.finished), 1000)
	cn.buf = wire.AppendFrame(cn.buf, wire.TypeStarted, 0, &wire.Started{Sub: s.num, Tokens: s.finished[:n]})
	s.finished = slices.Delete(s.finished, 0, n)
}

// startedRoom is what the started frames of a subscription take at most in one message, and what it says beside of at-most-once ones.
const startedRoom = 2 * 1000 * (wire.TokenBytes + 4)

// startedLocked encodes the started tokens of all subscriptions, as far as there is room.
func (cn *conn) startedLocked() {
	cn.owes = false
	for _, s := range cn.c.subs {
		if len(cn.buf) > 0 && int64(len(cn.buf)+startedRoom) > cn.c.maxFrame.Load() {
			cn.owes = len(s.telling) > 0 || len(s.finished) > 0 || cn.owes
			continue
		}
		cn.appendStarted(s)
	}
}

// appendStarted encodes the started tokens of a subscription that is live on this connection.
func (cn *conn) appendStarted(s *subscription) {
	cn.appendFinished(s)
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
		if s.cons == nil && l.ackedIn == cn.fills {
			l.untold = true
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
