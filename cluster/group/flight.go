package group

import (
	"errors"
	"time"

	"github.com/hashicorp/raft"
	"github.com/quorate/quorate/fsm"
)

// What an operation of an entry is to its leader.
type opKind uint8

const (
	opClient  opKind = iota // a proposal
	opPull                  // a proposal that waited for messages of its queue
	opDeal                  // a lease for a subscription, added by the dispatcher
	opRelease               // a lease given back by the leader
)

// flightOp is what the leader remembers of one operation of an entry in flight.
type flightOp struct {
	kind    opKind
	p       *Proposal     // opClient, opPull: until completed
	tail    bool          // opClient: of the proposal of the operation before
	queue   *queue        // whose estimate this operation is part of
	adds    int32         // messages it is expected to make ready
	guesses int32         // those of them that may well not come
	max     int32         // messages reserved for it
	pull    *pull         // opPull: to go on waiting, if it is given nothing
	sub     *subscription // opDeal: whose window max is taken from
	found   bool          // opDeal: it was given something
	frees   bool          // once applied, it leaves no lease of token
	token   fsm.Token     // opRelease, or if frees
	spent   bool          // opRelease: it costs the attempt
	lent    *subscription // that the end of token's lease has been lent to
}

// flight is an entry between its proposal and its end. The state lock guards it.
type flight struct {
	number   uint64
	data     []byte // as raft has it: the entry is known again by these bytes' address
	ops      []flightOp
	due      []coming      // by its due moves
	deadline time.Duration // the earliest of its proposals; 0: none
	packed   time.Duration // when it was proposed, on Clock.Mono
}

// flights are the entries in flight, oldest first. They are few (Limits.InFlight), so they are looked through.
type flights struct {
	list   []*flight
	spare  []*flight
	number uint64
}

func (fs *flights) begin() *flight {
	fs.number++
	var f *flight
	if n := len(fs.spare); n > 0 {
		f = fs.spare[n-1]
		fs.spare = fs.spare[:n-1]
	} else {
		f = &flight{}
	}
	f.number = fs.number
	return f
}

// recycle takes a flight back that is in the list no longer.
func (fs *flights) recycle(f *flight) {
	clear(f.ops)
	clear(f.due)
	f.ops, f.due, f.data, f.deadline = f.ops[:0], f.due[:0], nil, 0
	if len(fs.spare) < maxInFlight {
		fs.spare = append(fs.spare, f)
	}
}

// match finds the flight whose entry data is, by identity: raft applies an entry that its leader proposed from the very
// bytes that were proposed, and they are not given to anything else while the flight lasts. An entry that commits after
// its flight has ended (leadership lost and found) is nobody's.
func (fs *flights) match(data []byte) *flight {
	if len(data) == 0 {
		return nil
	}
	for i, f := range fs.list {
		if &f.data[0] == &data[0] && len(f.data) == len(data) {
			return fs.remove(i)
		}
	}
	return nil
}

func (fs *flights) find(number uint64) *flight {
	for i, f := range fs.list {
		if f.number == number {
			return fs.remove(i)
		}
	}
	return nil
}

func (fs *flights) remove(i int) *flight {
	f := fs.list[i]
	copy(fs.list[i:], fs.list[i+1:])
	fs.list[len(fs.list)-1] = nil
	fs.list = fs.list[:len(fs.list)-1]
	return f
}

// landed takes a flight's weight off the bounds and off the queues' estimates. The state lock is held.
func (g *Group) landed(f *flight) {
	g.inFlight.Add(-1)
	g.inFlightBytes.Add(-int64(len(f.data)))
	g.unbook(f)
}

// unbook takes a flight off the queues' estimates. Subscriptions that were given something go behind those that were
// offered the same and found nothing, or the first of them would be the first for ever. The state lock is held.
func (g *Group) unbook(f *flight) {
	for i := range f.ops {
		if op := &f.ops[i]; op.sub != nil && !op.found {
			op.sub.unreserve(op.max)
			g.dispatch.appetite(op.sub)
		}
	}
	for i := range f.ops {
		op := &f.ops[i]
		if op.sub != nil && op.found {
			op.sub.unreserve(op.max)
			g.dispatch.delist(op.sub.queue, &op.sub.waiter)
			g.dispatch.appetite(op.sub)
		}
		if q := op.queue; q != nil {
			q.adding -= int64(op.adds)
			q.guessed -= int64(op.guesses)
			q.reserved -= int64(op.max)
			g.dispatch.mark(q)
			g.dispatch.drop(q)
		}
	}
	for _, due := range f.due {
		q := due.queue
		q.coming -= due.n
		q.adding -= due.n
		q.guessed -= due.n
		g.dispatch.mark(q)
		g.dispatch.drop(q)
	}
}

// watched is an entry that raft has been given and its future.
type watched struct {
	number uint64
	future raft.ApplyFuture
}

// watch waits for the futures of the proposed entries, in order. What was applied is over by then (the apply pass
// completes it); this is how a flight ends otherwise. One goroutine.
func (g *Group) watch() {
	defer g.wg.Done()
	for w := range g.watching {
		if err := w.future.Error(); err != nil {
			g.failed(w.number, err)
		}
	}
}

// failed ends a flight that raft has answered with an error.
func (g *Group) failed(number uint64, err error) {
	answer, refused := classify(err)
	var b batch
	g.mu.Lock()
	f := g.flights.find(number)
	if f != nil {
		g.abandon(f, answer, &b)
		if refused {
			// Its releases must not be forgotten, and proposing at once would be refused at once.
			g.holdUntil = g.clock.Mono() + holdAfterRefusal
			if errors.Is(err, raft.ErrLeadershipTransferInProgress) {
				g.refusal(g.clock.Mono())
			}
		}
		g.flights.recycle(f)
	}
	g.mu.Unlock()
	g.finish(&b)
	g.kick()
}

// holdAfterRefusal is how long the proposer waits after raft has refused an entry.
const holdAfterRefusal = 20 * time.Millisecond

// abandon ends a flight without outcomes. The state lock is held.
func (g *Group) abandon(f *flight, answer *Error, b *batch) {
	for i := range f.ops {
		op := &f.ops[i]
		if op.p != nil {
			op.p.Packed = f.packed
			b.fail(op.p, answer)
			op.p = nil
		}
		if op.kind == opRelease {
			g.dispatch.releases = append(g.dispatch.releases, fsm.Release{Token: op.token, Spent: op.spent})
		}
	}
	g.dispatch.repay(f)
	g.landed(f)
}

// classify says what an error of raft means for those who wait: refused is certain not to be in the log, now or later.
// Shutdown counts as unknown, since raft says it for committed entries too.
func classify(err error) (answer *Error, refused bool) {
	switch {
	case errors.Is(err, raft.ErrNotLeader):
		return errElection, true
	case errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return errTransfer, true
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return errQueueFull, true
	case errors.Is(err, raft.ErrLeadershipLost), errors.Is(err, raft.ErrRaftShutdown),
		errors.Is(err, raft.ErrAbortedByRestore):
		return errLost, false
	}
	return errStore, false
}
