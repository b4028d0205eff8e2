package group

import (
	"time"

	"github.com/quorate/quorate/fsm"
)

// dispatcher knows, in the leader's memory only, who waits for messages of which queue and how many each may still be
// given. It adds lease operations to entries, so that a message that arrives while somebody waits is enqueued and leased
// by one commit. It decides nothing: a lease exists when its entry is applied.
//
// The books of a queue are an estimate while entries are in flight: messages that are ready in the applied state, plus
// those that entries in flight are expected to add, less those that leases in flight have reserved. An estimate that was
// too high costs an empty lease operation; when a flight ends its part is taken out and the queue is looked at again, so
// that none too low loses a wake-up.
//
// The state lock guards it.
type dispatcher struct {
	sessions map[fsm.ID]*Session
	subs     map[fsm.Consumer]*subscription
	queues   map[string]*queue
	numbers  map[uint32]*queue // of them, by the number of what they refer to in the state
	marked   []*queue          // to be looked at when the next entry is packed, in turn
	waiting  int               // waiters in all queues
	pulls    int               // pulls among them

	lent      lent
	refills   refills
	blocked   []*subscription        // whose connections had no room
	releases  []fsm.Release          // leases to give back in the next entry
	releasing map[fsm.Token]struct{} // those and the ones on their way
	packing   time.Duration          // when the entry at hand is packed, on Clock.Mono
	gone      []fsm.Token            // scratch
	delivery  fsm.Delivery           // scratch
	op        struct {               // scratch
		lease   fsm.Lease
		release fsm.Release
	}
}

// queue is a queue that somebody waits for.
type queue struct {
	name      string
	ref       fsm.QueueRef // in the state, as it was found last
	refs      int          // subscriptions, pulls and operations in flight that point here
	waiters   waiter       // ring, this element is its anchor
	count     int          // of waiters
	subs      int          // subscriptions, whether they wait or not
	adding    int64        // messages that entries in flight should make ready
	guessed   int64        // those of them that may well not come
	coming    int64        // those of them that are due
	reserved  int64        // messages that lease operations in flight may take
	marked    bool
	lendable  int64  // what there is for the windows that the entry outlooked opens
	outlooked uint64 // a flight's number
	refillAt  int64  // T at which a rate lets out more, while somebody waits for that; 0: nobody
	refillIx  int    // position in refills
}

// waiter is a place in a queue's ring of those who can be given something: a subscription with free credit or a pull.
type waiter struct {
	prev, next *waiter
	sub        *subscription
	pull       *pull
}

// Bounds of what the dispatcher does for one entry.
const (
	dealMessages = 1024 // messages that an entry's lease operations hand out together
	dealOps      = 128  // lease operations
	dealReleases = 256  // releases
	dealBytes    = fsm.MaxLeaseBytes
)

var (
	opEnqueue, opAck        = opNumber(&fsm.Enqueue{}), opNumber(&fsm.Ack{})
	opNack, opReleaseNumber = opNumber(&fsm.Nack{}), opNumber(&fsm.Release{})
)

func opNumber(op fsm.Op) uint8 { return fsm.AppendOp(nil, op)[0] }

func (d *dispatcher) reset() {
	*d = dispatcher{
		sessions:  map[fsm.ID]*Session{},
		subs:      map[fsm.Consumer]*subscription{},
		queues:    map[string]*queue{},
		numbers:   map[uint32]*queue{},
		releasing: map[fsm.Token]struct{}{},
	}
}

// queue finds or makes the entry for a queue and takes a reference.
func (d *dispatcher) hold(name string) *queue {
	q := d.queues[name]
	if q == nil {
		q = &queue{name: name}
		q.waiters.prev, q.waiters.next = &q.waiters, &q.waiters
		d.queues[name] = q
	}
	q.refs++
	return q
}

// drop gives a reference back.
func (d *dispatcher) drop(q *queue) {
	if q.refs--; q.refs == 0 && d.queues[q.name] == q {
		delete(d.queues, q.name) // if it is still marked, deal finds nobody waiting
		delete(d.numbers, q.ref.Number())
		d.refills.forget(q)
	}
}

// wanted says whether somebody waits, or has a window that may open.
func (q *queue) wanted() bool { return q.count > 0 || q.subs > 0 }

// mark has the queue looked at when the next entry is packed.
func (d *dispatcher) mark(q *queue) {
	if !q.marked && q.count > 0 {
		q.marked = true
		d.marked = append(d.marked, q)
	}
}

func (d *dispatcher) enlist(q *queue, w *waiter) {
	if w.next != nil {
		return
	}
	w.prev, w.next = q.waiters.prev, &q.waiters
	w.prev.next, w.next.prev = w, w
	q.count++
	d.waiting++
	if w.pull != nil {
		d.pulls++
	}
}

func (d *dispatcher) delist(q *queue, w *waiter) {
	if w.next == nil {
		return
	}
	w.prev.next, w.next.prev = w.next, w.prev
	w.prev, w.next = nil, nil
	q.count--
	d.waiting--
	if w.pull != nil {
		d.pulls--
	}
}

// appetite puts a subscription into its queue's ring or takes it out, after its window or its leases have changed.
func (d *dispatcher) appetite(s *subscription) {
	if s.free() > 0 {
		d.enlist(s.queue, &s.waiter)
		d.mark(s.queue)
	} else {
		d.delist(s.queue, &s.waiter)
	}
}

// blockedFor is how long a subscription is given nothing after its connection had no room for a delivery: without a
// pause the message would be leased and given back, in the log, as fast as entries commit.
const blockedFor = 100 * time.Millisecond

// block takes a subscription out for a while.
func (d *dispatcher) block(s *subscription, now time.Duration) {
	if !s.blocked {
		s.blocked, s.blockedUntil = true, now+blockedFor
		d.blocked = append(d.blocked, s)
		d.delist(s.queue, &s.waiter)
	}
}

// roomy is a Conn that says whether it has room again for a subscription. It is asked before it is offered more, since an offer that is declined
// is a free return of every message in it, and only so many of those are free.
type roomy interface{ Room(sub uint32) bool }

// unblock lets those back in that have waited long enough.
func (d *dispatcher) unblock(now time.Duration) {
	n := 0
	for n < len(d.blocked) && d.blocked[n].blockedUntil <= now { // in order of time, since all wait equally long
		s := d.blocked[n]
		d.blocked[n] = nil
		n++
		if c, ok := s.session.conn.(roomy); ok && !c.Room(s.consumer.Sub) {
			s.blockedUntil = now + blockedFor
			d.blocked = append(d.blocked, s)
			continue
		}
		s.blocked = false
		d.appetite(s)
	}
	d.blocked = d.blocked[:copy(d.blocked, d.blocked[n:])]
}

// look is how many messages of the queue a lease operation packed at T = now could get, by the books, how many of them are
// sure to be there, and when a rate lets out more, 0 if none holds anything back.
func (d *dispatcher) look(q *queue, st *fsm.State, now int64) (avail, sure, next int64) {
	if !d.find(q, st) {
		return q.adding - q.reserved, q.adding - q.reserved - q.guessed, 0
	}
	o := st.Outlook(q.ref, now)
	avail = min(o.Ready+q.adding, o.Most) - q.reserved
	return avail, avail - q.guessed, o.Next
}

// find looks the queue up in the state; false while it does not exist.
func (d *dispatcher) find(q *queue, st *fsm.State) bool {
	if st.Holds(q.ref) {
		return true
	}
	delete(d.numbers, q.ref.Number())
	if q.ref = st.Lookup([]byte(q.name)); q.ref.Number() == 0 {
		return false
	}
	d.numbers[q.ref.Number()] = q
	return true
}

// ready is the queue of which an entry says that something became ready, nil if nobody waits for it.
func (d *dispatcher) ready(st *fsm.State, number uint32) *queue {
	if q := d.numbers[number]; q != nil {
		return q
	}
	q := d.queues[st.QueueName(number)] // not yet found, or of this name since
	if q != nil {
		d.find(q, st)
	}
	return q
}

// giveBack appends releases of leases that reached nobody.
func (d *dispatcher) giveBack(st *fsm.State, buf []byte, f *flight) []byte {
	n := min(len(d.releases), dealReleases)
	for _, r := range d.releases[:n] {
		d.op.release = r
		buf = fsm.AppendOp(buf, &d.op.release)
		f.ops = append(f.ops, flightOp{kind: opRelease, token: r.Token, spent: r.Spent})
		if d.waiting > 0 && !r.Spent && st.Lease(r.Token, &d.delivery) { // one that costs an attempt may be the last
			d.returned(st, &f.ops[len(f.ops)-1], false)
		}
	}
	d.releases = d.releases[:copy(d.releases, d.releases[n:])]
	return buf
}

// release has leases given back in the next entry, at no cost of an attempt.
func (d *dispatcher) release(tokens ...fsm.Token) {
	for _, t := range tokens {
		d.sendBack(fsm.Release{Token: t})
	}
}

func (d *dispatcher) sendBack(r fsm.Release) {
	if _, ok := d.releasing[r.Token]; !ok {
		d.releasing[r.Token] = struct{}{}
		d.releases = append(d.releases, r)
	}
}

// deal appends lease operations for those who wait on marked queues. Within a queue everybody is served in turn, an even
// share each round, so that one with much credit starves nobody; queues take turns from entry to entry. Pulls are given
// only what is sure to be there.
// now is T: what is dealt will be stamped with it or later.
func (d *dispatcher) deal(st *fsm.State, now int64, buf []byte, f *flight, limit int) []byte {
	left, ops := int64(dealMessages), dealOps
	limit = max(limit, len(buf)+limit/4)
	full := func() bool { return left <= 0 || ops <= 0 || len(buf) >= limit }
	todo := len(d.marked)
	for ; todo > 0 && !full(); todo-- {
		q := d.marked[0]
		d.marked = append(d.marked[:0], d.marked[1:]...)
		q.marked = false
		if q.count == 0 { // nobody waits any more, and it may have been dropped: another may stand for its name
			continue
		}
		avail, sure, next := d.look(q, st, now)
		once := st.AtMostOnce(q.ref)
		if avail <= 0 && next != 0 && q.count > 0 {
			d.refills.at(q, next)
		}
	serve:
		for avail > 0 && q.count > 0 && !full() {
			share := max(1, avail/int64(q.count))
			for turns := q.count; turns > 0 && avail > 0 && !full(); turns-- {
				w := q.waiters.next
				if w.pull != nil && sure <= 0 {
					break serve // its turn, when the guesses have come true: then the queue is marked again
				}
				d.delist(q, w)
				if w.sub != nil && once && !d.offers(w.sub) {
					continue // its flight, or the end of its block, puts it back
				}
				var n int64
				if w.pull != nil {
					n = d.dealPull(w.pull, sure, f)
					buf = append(buf, w.pull.p.Op...)
				} else {
					n = min(share, avail, left, int64(w.sub.free()), fsm.MaxLeaseCount)
					buf = d.dealSub(w.sub, int32(n), buf, f)
				}
				avail -= n
				sure -= n
				left -= n
				ops--
			}
		}
		if avail > 0 && q.count > 0 && full() {
			d.mark(q) // again in the next
		}
	}
	return buf
}

func (d *dispatcher) dealSub(s *subscription, n int32, buf []byte, f *flight) []byte {
	op := &d.op.lease
	op.Queue = append(op.Queue[:0], s.queue.name...)
	op.Consumer, op.Worker, op.Max, op.MaxBytes, op.LeaseMillis = s.consumer, s.worker, n, dealBytes, s.leaseMillis
	buf = fsm.AppendOp(buf, op)
	s.reserved += n
	s.queue.reserved += int64(n)
	s.queue.refs++
	f.ops = append(f.ops, flightOp{kind: opDeal, sub: s, queue: s.queue, max: n})
	if s.free() > 0 {
		d.enlist(s.queue, &s.waiter)
	}
	return buf
}

// waitOn has a pull wait again that was given nothing, because what there was expired or was purged in its own entry. False: that
// is its answer, since its connection has gone, or it was a repeat of a request that has been answered.
func (g *Group) waitOn(w *pull) bool {
	d, s := &g.dispatch, w.session
	if s.conn == nil || g.st.Remembered(w.req) {
		return false
	}
	w.queue = d.hold(w.queue.name)
	s.pulls[w] = struct{}{}
	d.enlist(w.queue, &w.waiter)
	d.mark(w.queue)
	g.pullUntil(w.until)
	return true
}

// offers says whether a subscription of an at-most-once queue may be given something. What is given cannot be declined, so it is
// asked for room before, and has one operation in flight at a time: its connection is then owed what it has room for and that.
func (d *dispatcher) offers(s *subscription) bool {
	if s.reserved > 0 {
		return false
	}
	if c, ok := s.session.conn.(roomy); ok && !c.Room(s.consumer.Sub) {
		d.block(s, d.packing)
		return false
	}
	return true
}

// dealPull reserves what the pull will find, not all it asks for: later arrivals are for others.
func (d *dispatcher) dealPull(p *pull, avail int64, f *flight) int64 {
	q := p.queue // its reference passes to the operation
	n := min(int64(p.max), avail)
	q.reserved += n
	f.ops = append(f.ops, flightOp{kind: opPull, p: p.p, pull: p, queue: q, max: int32(n)})
	if dl := p.p.Deadline; dl > 0 && (f.deadline == 0 || dl < f.deadline) {
		f.deadline = dl
	}
	delete(p.session.pulls, p)
	return n
}
