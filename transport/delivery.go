package transport

import (
	"time"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// delivery is what frames with messages are built in, guarded by the outbox's mu. Strings in it are views of the state
// and of text: good until the frame is encoded, which is at once.
type delivery struct {
	text        []byte // ids and tokens of the frame at hand
	msgs        []wire.Delivered
	headers     []wire.Header
	lease       fsm.Delivery // the message being added
	enqueuedRep wire.Enqueued
	ackedRep    wire.Acked

	ackedBatchRep wire.AckedBatch

	deliveryRep wire.Delivery
	leasedRep   wire.Leased
	redirected  wire.Redirect // sent last
}

func (v *delivery) reset() {
	clear(v.msgs)
	v.text, v.msgs, v.headers = v.text[:0], v.msgs[:0], v.headers[:0]
}

// frameOverhead is about what a message's ids, numbers and map keys take in a frame.
const frameOverhead = 220

// add reads a leased message out of the state and says about how many bytes it takes in a frame; false: the lease is over
// already.
func (v *delivery) add(st *fsm.State, l fsm.Leased) (size int, ok bool) {
	d := &v.lease
	if !st.Deliver(l, d) {
		return 0, false
	}
	n := len(v.text)
	v.text = fsm.AppendToken(v.text, d.Token)
	token := viewText(v.text[n:])
	m := wire.Delivered{
		ID: token[:wire.IDBytes], Token: token,
		Attempt: d.Attempt, LeaseLeftMillis: d.LeaseLeft, Body: d.Body,
		Kind: viewText(d.Kind), ContentType: viewText(d.ContentType),
		AtMostOnce: d.Once,
		Priority:   d.Priority, Key: d.Key, EnqueuedAt: d.EnqueuedAt, TimeoutMillis: d.TimeoutMillis, Redrives: d.Redrives,
	}
	if id := viewText(d.TaskID); id != m.ID {
		m.TaskID = id
	}
	size = frameOverhead + len(d.Body) + len(d.Kind) + len(d.ContentType) + len(d.TaskID) + len(d.Key)
	if len(d.Headers) > 0 {
		h := len(v.headers)
		for _, p := range d.Headers {
			v.headers = append(v.headers, wire.Header{Name: viewText(p.Name), Value: viewText(p.Value)})
			size += len(p.Name) + len(p.Value) + 6
		}
		m.Headers = v.headers[h:len(v.headers):len(v.headers)]
	}
	v.msgs = append(v.msgs, m)
	return size, true
}

// hand measures a message that is handed out. mu is held.
func (c *conn) hand(st *fsm.State, now time.Time) {
	c.srv.metrics.leased(st.Time() - c.lease.EnqueuedAt)
	if c.srv.cfg.Spans != nil {
		c.traceDelivery(now)
	}
}

// Deliver sends leased messages of a subscription. False: the peer has too much unread, or the connection is closing;
// the group takes the leases back.
func (c *conn) Deliver(sub uint32, st *fsm.State, leases []fsm.Leased) bool {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	if (c.lent+c.lentOut > c.maxDeliver || c.pool.full(c.lent+c.lentOut)) && !leases[0].Once { // what is delivered at most once cannot be taken back
		c.srv.metrics.slowConsumers.WithLabelValues("declined").Inc()
		return false
	}
	c.reset()
	size := 0
	for i, l := range leases {
		n, ok := c.add(st, l)
		if ok {
			c.hand(st, now)
		}
		if size += n; len(c.msgs) > 0 && (i == len(leases)-1 || size > c.maxFrame/2) {
			c.deliveryRep = wire.Delivery{Sub: sub, Messages: c.msgs}
			if !c.appendFrame(wire.TypeDelivery, 0, &c.deliveryRep) {
				return false
			}
			c.reset()
			size = 0
		}
	}
	return true
}

// Room reports whether a connection that has declined a delivery would take one again: when half of what it may be lent has
// been written.
func (c *conn) Room(uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing || c.lent+c.lentOut <= c.maxDeliver/2 && !c.pool.full(c.lent+c.lentOut)
}

// LeaseGone tells the client which leases of a subscription ended without its doing.
func (c *conn) LeaseGone(sub uint32, tokens []fsm.Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(tokens) > 0 {
		n := min(len(tokens), wire.MaxTokens)
		g := wire.LeaseGone{Sub: sub, Tokens: make([]string, n)}
		for i, t := range tokens[:n] {
			g.Tokens[i] = t.String()
		}
		c.appendFrame(wire.TypeLeaseGone, 0, &g)
		tokens = tokens[n:]
	}
}

// LeaseCancelled tells the client which of its leases are of cancelled tasks.
func (c *conn) LeaseCancelled(sub uint32, tokens []fsm.Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(tokens) > 0 {
		n := min(len(tokens), wire.MaxTokens)
		g := wire.LeaseCancelled{Sub: sub, Tokens: make([]string, n)}
		for i, t := range tokens[:n] {
			g.Tokens[i] = t.String()
		}
		c.appendFrame(wire.TypeLeaseCancelled, 0, &g)
		tokens = tokens[n:]
	}
}

// Redirect is the group's word that the session is over here: leadership was lost, this node stops, or another connection
// has attached the session, and then this one is closed.
func (c *conn) Redirect(leader, reason string) {
	if a := c.attached.Load(); a != nil {
		a.lost.Store(true)
	}
	c.redirect(leader, reason)
}

// redirect tells the client to go elsewhere, once for the same reason and leader.
func (c *conn) redirect(leader, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := wire.Redirect{Leader: leader, Reason: reason}
	if c.redirected != r {
		c.redirected = r
		c.appendFrame(wire.TypeRedirect, 0, &r)
	}
	if reason == group.RedirectReplaced {
		c.closeWith(CloseReplaced, "the session was attached by another connection")
		c.signal()
	}
}

// answerLeased answers a pull. mu is held.
func (c *conn) answerLeased(k *call, st *fsm.State, at wire.At, leases []fsm.Leased, repeat bool) {
	now := time.Now()
	c.reset()
	size, n := 0, 0
	for _, l := range leases {
		if size > wire.MaxReadBytes/4 { // headers can be many times the bodies
			break
		}
		n++
		more, ok := c.add(st, l)
		if ok {
			size += more
			c.hand(st, now)
		}
	}
	c.leasedRep = wire.Leased{Messages: c.msgs, At: at}
	if !c.appendFrame(wire.TypeLeased, k.tag, &c.leasedRep) {
		n = 0
	}
	if repeat { // whom they were given first may have them: they are not this caller's to give back
		n = len(leases)
	}
	for _, l := range leases[n:] { // never sent: given back, they cost no attempt; delivered at most once, they are lost
		c.srv.metrics.unsent.Inc()
		if l.Once {
			continue
		}
		c.srv.group("").Propose(&group.Proposal{
			Op: fsm.AppendOp(nil, &fsm.Release{Token: l.Token}), Deadline: c.srv.cfg.Broker.Clock().Mono() + c.srv.cfg.CallTimeout, Done: forgotten{},
		})
	}
	c.reset()
}

// forgotten is a Completer for proposals whose outcome nobody waits for.
type forgotten struct{}

func (forgotten) Complete(*group.Proposal, *fsm.State, group.Stamp, []fsm.Outcome, []fsm.Leased, *group.Error) {
}
