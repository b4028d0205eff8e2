package group

import (
	"time"

	"github.com/quorate/quorate/fsm"
)

// pull is one lease that waits for a message.
type pull struct {
	waiter
	p       *Proposal
	session *Session
	queue   *queue
	req     fsm.Request
	key     fsm.IdempotencyKey
	keyed   bool // it has a key
	max     int32
	until   time.Duration // on Clock.Mono
}

// Lease is a pull: p holds an encoded fsm.Lease of Consumer{session, 0}, one that Waits, whose request is req. It is proposed when the
// queue has ready messages for it (or at once, if the state remembers the request, keeps the answer of its idempotency key, or does not
// know the queue); after wait it is completed with one outcome, OK, that leases nothing. Where what there was ends in the same entry, it
// goes on waiting. Leases made for a connection that has gone meanwhile are given back. end ends the wait at once, as if it had been that
// long: for a caller that is one of many of a session and goes alone. It may be called at any time, also when the pull has been completed.
func (s *Session) Lease(p *Proposal, queueName string, req fsm.Request, wait time.Duration) (end func()) {
	g := s.g
	p.session = s
	var op fsm.Lease
	key, keyed, err := decodeLease(p.Op, &op)
	if err != nil {
		g.refuse(p, err)
		return func() {}
	}
	g.mu.Lock()
	d := &g.dispatch
	var w *pull
	direct := false
	switch _, known := g.st.QueueNumber([]byte(queueName)); {
	case s.conn == nil:
		err = s.why
	case !known || g.st.Remembered(req) || keyed && kept(g.st, &key):
		direct = true
	case d.pulls >= g.limits.Pulls:
		err = errPulls
	default:
		now := g.clock.Mono()
		w = &pull{p: p, session: s, queue: d.hold(queueName), req: req, key: key, keyed: keyed, max: op.Max, until: now + max(wait, 0)}
		if p.Deadline > 0 {
			w.until = min(w.until, p.Deadline)
		}
		w.waiter = waiter{pull: w}
		s.pulls[w] = struct{}{}
		d.enlist(w.queue, &w.waiter)
		d.mark(w.queue)
		g.pullUntil(w.until)
	}
	g.mu.Unlock()
	switch {
	case err != nil:
		g.refuse(p, err)
	case direct:
		g.Propose(p)
	default:
		g.kick()
		if wait <= 0 {
			g.wakeTimer()
		}
		return w.hurry
	}
	return func() {}
}

// hurry has a pull wait no longer.
func (p *pull) hurry() {
	g := p.session.g
	g.mu.Lock()
	if now := g.clock.Mono(); now < p.until {
		p.until = now // also of one that is in flight, and may be put back
		g.pullUntil(now)
	}
	g.mu.Unlock()
	g.wakeTimer()
}

func (g *Group) refuse(p *Proposal, err *Error) {
	var b batch
	b.fail(p, err)
	g.finish(&b)
}

// kept says whether a request with an idempotency key has been answered. The state lock is held.
func kept(st *fsm.State, key *fsm.IdempotencyKey) bool {
	_, is := st.Kept(key)
	return is
}

// answered says whether another pull of the same idempotency key has been given what this one waits for. The state lock is held.
func (p *pull) answered(st *fsm.State) bool { return p.keyed && kept(st, &p.key) }

func decodeLease(op []byte, into *fsm.Lease) (key fsm.IdempotencyKey, keyed bool, err *Error) {
	var dec fsm.Decoder
	data := append(fsm.AppendEntryHeader(make([]byte, 0, fsm.EntryHeaderSize+len(op)), 0, 0), op...)
	if dec.Reset(data) != nil || !dec.Next() || dec.Op() != opLease && dec.Op() != opPullNumber {
		return key, false, errEncoding
	}
	key, _, keyed = dec.Key()
	dec.Lease(into)
	if dec.Next() || dec.Err() != nil {
		return key, false, errEncoding
	}
	return key, keyed, nil
}

var opLease, opPullNumber = opNumber(&fsm.Lease{}), opNumber(&fsm.Lease{Waits: true})
