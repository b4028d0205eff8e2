package group

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/mutant"
)

// Conn is how the group reaches a session's connection. The methods are called with the state lock held, on any of the
// group's goroutines, one at a time; they must not block, must not call the group (Propose apart) and must copy what they
// keep.
type Conn interface {
	// Deliver hands over messages just leased for a subscription; st.Deliver reads them. False: there is no room, or the
	// connection is closing; the leases are then given back, which costs no attempt. At-most-once deliveries (all of l are, or none)
	// must not be declined for want of room: those are lost. A Conn that has a method Room(sub uint32) bool is asked it before it is
	// offered more for that subscription.
	Deliver(sub uint32, st *fsm.State, l []fsm.Leased) (sent bool)
	// LeaseGone names leases of a subscription (0: pulls) that ran out.
	LeaseGone(sub uint32, tokens []fsm.Token)
	// LeaseCancelled names leases of a subscription (0: pulls) whose tasks were cancelled. They are live until the worker's
	// answer or their deadline.
	LeaseCancelled(sub uint32, tokens []fsm.Token)
	// Redirect ends the session here: leadership was lost, this node stops, or the session was attached anew ("replaced").
	// leader is where to go, "" if not known yet. Nothing is delivered after it.
	Redirect(leader string, reason string)
	Flusher
}

// Reasons of a redirect.
const (
	RedirectNotLeader = "not_leader"
	RedirectStopping  = "stopping"
	RedirectReplaced  = "replaced"
)

// MaxCredit is the largest window of a subscription; MaxSessionSubs is how many subscriptions a session may have.
const (
	MaxCredit      = 10_000
	MaxSessionSubs = 1_000
)

// Session is a client session on this leader: its subscriptions and waiting pulls. Methods may be called from any
// goroutine, but not from within Conn or Completer.
type Session struct {
	g    *Group
	id   fsm.ID
	conn Conn                     // guarded by g.mu; nil: detached, replaced or leadership lost
	why  *Error                   // guarded by g.mu; why conn is nil
	subs map[uint32]*subscription // guarded by g.mu
	// pulls that wait; guarded by g.mu
	pulls map[*pull]struct{}
}

// subscription is a consumer with a window: at most credit leases of it are out at once.
type subscription struct {
	waiter
	consumer    fsm.Consumer
	session     *Session
	queue       *queue
	credit      int32 // the window; 0: paused
	out         int32 // leases that the applied state has for it, and what is in once
	reserved    int32 // leases that entries in flight may add
	lent        int32 // leases among out on whose ends entries in flight rely for some of those
	leaseMillis int64
	worker      []byte
	unstarted   map[fsm.Token]struct{} // delivered; no handler has taken them
	once        map[fsm.Token]struct{} // delivered at most once, and the worker is not done with them: they are in out; nil: none yet
	dormant     bool                   // its connection was replaced: nothing is delivered before it is resumed
	closed      bool
	idle        chan struct{} // closed when nothing is reserved any more; nil: nobody waits for that

	blocked      bool // its connection had no room
	blockedUntil time.Duration
}

// free is how many leases it can be given.
func (s *subscription) free() int32 {
	if !s.served() {
		return 0
	}
	return s.room()
}

func (s *subscription) served() bool {
	return !s.closed && !s.dormant && !s.blocked && s.session.conn != nil
}

// room is what is left of the window, below 0 if it was made smaller.
func (s *subscription) room() int32 { return s.credit - s.out - s.reserved + s.lent }

// Attach binds a session to a connection. Only the leader does so. A session that is attached elsewhere on this node
// moves: the earlier connection is redirected ("replaced") and its subscriptions wait to be resumed or subscribed again.
func (g *Group) Attach(id fsm.ID, c Conn) (*Session, *Error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.serving || g.stopping.Load() {
		return nil, g.notLeading()
	}
	if !g.st.SessionKnown(id) {
		return nil, errSession
	}
	s := &Session{g: g, id: id, conn: c, subs: map[uint32]*subscription{}, pulls: map[*pull]struct{}{}}
	d := &g.dispatch
	if old := d.sessions[id]; old != nil {
		oldConn := old.conn
		old.leave(errReplaced)
		for n, sub := range old.subs { // nothing is delivered to them before they are resumed
			sub.session, sub.dormant = s, true
			s.subs[n] = sub
		}
		old.subs = nil
		oldConn.Redirect("", RedirectReplaced)
		oldConn.Flush()
	} else if len(d.sessions) >= g.limits.Sessions {
		return nil, errSessions
	}
	d.sessions[id] = s
	return s, nil
}

// leave ends a session's tie to its connection: nobody is served through it from here on. Pulls that wait are failed by
// the goroutine that keeps time. The state lock is held.
func (s *Session) leave(why *Error) {
	d := &s.g.dispatch
	s.conn, s.why = nil, why
	for _, sub := range s.subs {
		d.delist(sub.queue, &sub.waiter)
	}
	for p := range s.pulls {
		d.delist(p.queue, &p.waiter)
		d.drop(p.queue)
		s.g.orphans = append(s.g.orphans, orphan{p.p, why})
	}
	clear(s.pulls)
	if len(s.g.orphans) > 0 {
		s.g.wakeTimer()
	}
}

// orphan is a proposal to be failed by the goroutine that keeps time.
type orphan struct {
	p   *Proposal
	why *Error
}

// Detach says that the connection is gone. Leases that no handler has taken are given back, at no cost of an attempt;
// those that were started stay as they are, and the worker may come back for them.
func (s *Session) Detach() {
	g := s.g
	g.mu.Lock()
	if s.conn != nil {
		s.leave(errDetached)
		for n, sub := range s.subs {
			s.end(n, sub)
		}
		if g.dispatch.sessions[s.id] == s {
			delete(g.dispatch.sessions, s.id)
		}
	}
	g.mu.Unlock()
	g.kick()
}

// end removes a subscription and gives back what it has not started. The state lock is held.
func (s *Session) end(n uint32, sub *subscription) {
	d := &s.g.dispatch
	for t := range sub.unstarted {
		d.release(t)
	}
	clear(sub.unstarted)
	sub.closed = true
	d.delist(sub.queue, &sub.waiter)
	sub.queue.subs--
	d.drop(sub.queue)
	delete(s.subs, n)
	if d.subs[sub.consumer] == sub {
		delete(d.subs, sub.consumer)
	}
}

// gone says why the session has no connection, nil if it has one. The state lock is held.
func (s *Session) gone() *Error {
	if s.conn != nil {
		return nil
	}
	return s.why
}

func checkSubscription(queue string, credit int32, leaseMillis int64, worker string) *Error {
	bad := func(field string, format string, args ...any) *Error {
		return &Error{Code: CodeInvalidArgument, Message: field + " " + fmt.Sprintf(format, args...)}
	}
	switch {
	case !fsm.ValidQueueName([]byte(queue)):
		return bad("queue", "is not a name (%d bytes), want a letter or digit and then up to %d of letters, digits and ._:-",
			len(queue), fsm.MaxQueueName-1)
	case credit < 0 || credit > MaxCredit:
		return bad("credit", "is %d, want 0 to %d", credit, MaxCredit)
	case leaseMillis != 0 && (leaseMillis < fsm.MinLeaseMillis || leaseMillis > fsm.MaxLeaseMillis):
		return bad("lease_ms", "is %d, want %d to %d, or 0 for the queue's", leaseMillis, fsm.MinLeaseMillis, fsm.MaxLeaseMillis)
	case !fsm.ValidText([]byte(worker), fsm.MaxWorker):
		return bad("worker", "has %d bytes, want at most %d of UTF-8", len(worker), fsm.MaxWorker)
	}
	return nil
}

// Subscribe begins deliveries of a queue, which need not exist yet, to subscription number sub (1 and up; 0 are the
// session's pulls). A second Subscribe of the number replaces the first. worker names the worker in attempt histories.
// unfinished are at-most-once deliveries that the worker has not yet said it is done with, at most MaxCredit: they are in no state, so
// its word is all there is.
func (s *Session) Subscribe(sub uint32, queue string, credit int32, leaseMillis int64, worker string, unfinished ...fsm.Token) *Error {
	if err := checkSubscription(queue, credit, leaseMillis, worker); err != nil {
		return err
	}
	s.g.mu.Lock()
	c, err := s.subscribe(sub, queue, credit, leaseMillis, worker, unfinished)
	if err == nil && c.dormant { // a worker that begins anew and resumes nothing
		for t := range c.unstarted {
			s.g.dispatch.release(t)
		}
		clear(c.unstarted)
		c.wake()
	}
	s.g.mu.Unlock()
	s.g.kick()
	return err
}

// subscribe makes or changes a subscription. Its leases out are counted from the state, so that the window is exact
// whatever happened before. The state lock is held.
func (s *Session) subscribe(n uint32, queue string, credit int32, leaseMillis int64, worker string, unfinished []fsm.Token) (*subscription, *Error) {
	g := s.g
	if err := s.gone(); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, &Error{Code: CodeInvalidArgument, Message: "subscription is 0, want 1 or more"}
	}
	d := &g.dispatch
	if old := s.subs[n]; old != nil {
		if old.queue.name == queue {
			old.credit, old.leaseMillis, old.worker = credit, leaseMillis, []byte(worker)
			old.out = g.countLeases(old.consumer)
			old.hold(unfinished)
			d.appetite(old)
			return old, nil
		}
		s.end(n, old)
	}
	if len(s.subs) >= MaxSessionSubs || len(d.subs) >= g.limits.Subscriptions {
		return nil, errSubs
	}
	sub := &subscription{
		consumer: fsm.Consumer{Session: s.id, Sub: n}, session: s, queue: d.hold(queue), credit: credit,
		leaseMillis: leaseMillis, worker: []byte(worker), unstarted: map[fsm.Token]struct{}{},
	}
	sub.waiter = waiter{sub: sub}
	sub.queue.subs++
	sub.out = g.countLeases(sub.consumer)
	sub.hold(unfinished)
	s.subs[n] = sub
	d.subs[sub.consumer] = sub
	d.appetite(sub)
	return sub, nil
}

// hold counts at-most-once deliveries against the window, in place of those that were counted before.
func (s *subscription) hold(once []fsm.Token) {
	s.once = nil
	s.add(once...)
}

func (s *subscription) add(once ...fsm.Token) {
	if s.once == nil && len(once) > 0 {
		s.once = make(map[fsm.Token]struct{}, len(once))
	}
	for _, t := range once {
		if _, twice := s.once[t]; !twice {
			s.once[t] = struct{}{}
			s.out++
		}
	}
}

// wake ends the dormancy of a subscription whose connection was replaced. The state lock is held.
func (s *subscription) wake() {
	s.dormant = false
	s.session.g.dispatch.appetite(s)
}

func (g *Group) countLeases(c fsm.Consumer) (n int32) {
	g.st.ConsumerLeases(c, func(fsm.Token) bool { n++; return true })
	return n
}

// Credit sets a subscription's window: 0 pauses it. A smaller window takes nothing back.
func (s *Session) Credit(sub uint32, credit int32) *Error {
	if credit < 0 || credit > MaxCredit {
		return &Error{Code: CodeInvalidArgument, Message: fmt.Sprintf("credit is %d, want 0 to %d", credit, MaxCredit)}
	}
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	if err := s.gone(); err != nil {
		return err
	}
	c := s.subs[sub]
	if c == nil {
		return noSubscription(sub)
	}
	c.credit = credit
	s.g.dispatch.appetite(c)
	s.g.kick()
	return nil
}

// Settled waits until no lease for a subscription is on its way: with a window of 0, all that it will be given has been delivered.
func (s *Session) Settled(ctx context.Context, sub uint32) *Error {
	s.g.mu.Lock()
	c := s.subs[sub]
	if c == nil || c.reserved == 0 {
		s.g.mu.Unlock()
		return nil
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	s.g.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return errReadLate
	case <-s.g.stopReads:
		return errStopping
	}
}

// unreserve takes off the books what an operation in flight might have leased.
func (s *subscription) unreserve(n int32) {
	if s.reserved -= n; s.reserved == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

func noSubscription(sub uint32) *Error {
	return &Error{Code: CodeNotFound, Message: fmt.Sprintf("this session has no subscription %d", sub)}
}

// Unsubscribe ends deliveries. What was delivered and not started is given back.
func (s *Session) Unsubscribe(sub uint32) *Error { return s.quit(sub, false) }

// Abandon is Unsubscribe for one who will not come back, nor say what became of what he has started, as a stream that is closed: that goes
// back at once too, and costs an attempt.
func (s *Session) Abandon(sub uint32) *Error { return s.quit(sub, true) }

func (s *Session) quit(sub uint32, started bool) *Error {
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	if err := s.gone(); err != nil {
		return err
	}
	c := s.subs[sub]
	if c == nil {
		return noSubscription(sub)
	}
	if started {
		s.g.st.ConsumerLeases(c.consumer, func(t fsm.Token) bool {
			if _, unstarted := c.unstarted[t]; !unstarted {
				s.g.dispatch.sendBack(fsm.Release{Token: t, Spent: true})
			}
			return true
		})
	}
	s.end(sub, c)
	s.g.kick()
	return nil
}

// Started says that handlers have taken these deliveries: they cost an attempt from here on if the worker vanishes. At-most-once
// ones it says that the worker is done with, and they leave its window.
func (s *Session) Started(sub uint32, tokens []fsm.Token) {
	s.g.mu.Lock()
	done := false
	if c := s.subs[sub]; c != nil && s.conn != nil {
		for _, t := range tokens {
			delete(c.unstarted, t)
			if _, once := c.once[t]; once {
				delete(c.once, t)
				c.out--
				done = true
			}
		}
		if done {
			s.g.dispatch.appetite(c)
		}
	}
	s.g.mu.Unlock()
	if done {
		s.g.kick()
	}
}

// Resume is Subscribe for a consumer that may hold leases from an earlier connection, to this leader or another: the
// client lists what its handlers have started and what it holds unstarted. Leases of the consumer that are in neither
// list were never sent and are given back. lost are the listed ones that are live no longer. unfinished is as in Subscribe.
func (s *Session) Resume(ctx context.Context, sub uint32, queue string, credit int32, leaseMillis int64, worker string,
	started, held []fsm.Token, unfinished ...fsm.Token,
) (lost []fsm.Token, at Stamp, err *Error) {
	if err := checkSubscription(queue, credit, leaseMillis, worker); err != nil {
		return nil, Stamp{}, err
	}
	if len(started)+len(held) > 2*MaxCredit {
		return nil, Stamp{}, &Error{Code: CodeInvalidArgument,
			Message: fmt.Sprintf("resume lists %d tokens, want at most %d", len(started)+len(held), 2*MaxCredit)}
	}
	var inner *Error
	at, err = s.g.Read(ctx, mutant.LeaseByDeposedLeader, func(st *fsm.State) {
		var c *subscription
		if c, inner = s.subscribe(sub, queue, credit, leaseMillis, worker, unfinished); inner == nil {
			lost = s.reconcile(st, c, started, held)
			c.wake()
		}
	})
	if err == nil {
		err = inner
	}
	s.g.kick()
	return lost, at, err
}

// reconcile settles what the leader and the worker each believe to be out. The state lock is held.
func (s *Session) reconcile(st *fsm.State, c *subscription, started, held []fsm.Token) (lost []fsm.Token) {
	d := &s.g.dispatch
	const isHeld, isStarted = 1, 2
	listed := make(map[fsm.Token]int, len(started)+len(held))
	for _, t := range held {
		listed[t] = isHeld
	}
	for _, t := range started {
		listed[t] = isStarted
	}
	clear(c.unstarted)
	live := make(map[fsm.Token]struct{}, len(listed))
	var cancelled []fsm.Token // while the worker was away
	st.ConsumerLeases(c.consumer, func(t fsm.Token) bool {
		_, leaving := d.releasing[t]
		switch {
		case leaving:
		case listed[t] == isStarted:
			live[t] = struct{}{}
		case listed[t] == isHeld:
			live[t] = struct{}{}
			c.unstarted[t] = struct{}{}
		default:
			d.release(t)
		}
		if _, there := live[t]; there && st.LeaseCancelled(t) {
			cancelled = append(cancelled, t)
		}
		return true
	})
	if len(cancelled) > 0 {
		s.conn.LeaseCancelled(c.consumer.Sub, cancelled)
		s.conn.Flush()
	}
	for _, list := range [][]fsm.Token{started, held} {
		for _, t := range list {
			if _, ok := live[t]; !ok {
				lost = append(lost, t)
			}
		}
	}
	return lost
}
