package fsm

import (
	"github.com/quorate/quorate/fsm/mutant"
	"github.com/quorate/quorate/fsm/table"
)

// moveKind orders due moves that fall on the same millisecond.
type moveKind uint8

const (
	moveDelay moveKind = iota // a delayed message becomes ready
	moveRetry                 // a retrying message becomes ready
	moveLease                 // a lease reaches its deadline
	moveTTL                   // a message that is not out expires
)

// nextMove is what time does next to a message that is not out.
func (s *State) nextMove(sl int32) (at int64, kind moveKind) {
	sd := s.sides.Get(sl)
	switch m := s.messages.Get(sd.message); m.state {
	case StateScheduled:
		at, kind = sd.due, moveDelay
	case StateRetrying:
		at, kind = sd.due, moveRetry
	default:
		return sd.expires, moveTTL
	}
	if sd.expires != 0 && sd.expires < at {
		return sd.expires, moveTTL
	}
	return at, kind
}

// dueLess orders two sides of a queue's calendar with equal times.
func (s *State) dueLess(a, b int32) bool {
	_, ka := s.nextMove(a)
	_, kb := s.nextMove(b)
	if ka != kb {
		return ka < kb
	}
	return s.leaseLess(a, b)
}

// leaseLess orders two sides by their messages' ids.
func (s *State) leaseLess(a, b int32) bool {
	return s.messages.Get(s.sides.Get(a).message).id.Compare(s.messages.Get(s.sides.Get(b).message).id) < 0
}

// dueRank and leaseRank are what dueLess and leaseLess compare, as far as 30 bits of an id and two of a kind go: most
// comparisons need not look at records that are in nobody's cache.
func (s *State) dueRank(sl int32) uint32 {
	_, kind := s.nextMove(sl)
	return uint32(kind)<<30 | s.leaseRank(sl)
}

func (s *State) leaseRank(sl int32) uint32 { return idRank(s.messages.Get(s.sides.Get(sl).message).id) }

// idRank never falls as ids rise: six bits of the epoch and 24 of the log index, 128 entries being of one rank.
func idRank(id ID) uint32 {
	const entries, indexes, epochs = 7, 1<<24 - 1, 1<<6 - 1
	epoch := min(uint32(id.Epoch()), epochs)
	if epoch == epochs { // or a later one: the index alone says nothing
		return 1<<30 - 1
	}
	return epoch<<24 | uint32(min(id.Index()>>entries, indexes))
}

// newDue is the empty calendar of a queue.
func (s *State) newDue() *table.Calendar {
	return &table.Calendar{Less: s.cmpLess[clockDue], Rank: s.ranks.due, Moved: s.moved.side}
}

// duePush puts a message that is not out under the clock. Its state and its side's times are set.
func (s *State) duePush(q *queue, sl int32) {
	at, _ := s.nextMove(sl)
	q.due.Push(at, sl)
	s.clockFix(clockDue, q)
}

// dueRemove takes a message that is not out from under the clock, if it is there. sl is negative where it has no side.
func (s *State) dueRemove(q *queue, sl int32) {
	if sl < 0 {
		return
	}
	if pos := s.sides.Get(sl).heapPos; pos != none {
		q.due.Remove(pos)
		s.sides.Mut(sl).heapPos = none
		s.clockFix(clockDue, q)
	}
}

// earliest is the next due move of the group: of two queues' heads the lesser by (due, kind, id).
func (s *State) earliest() (at int64, q *queue, slot int32, kind moveKind, ok bool) {
	if t, qs, is := s.clocks[clockDue].Min(); is {
		h := &s.queues[qs].clockHead[clockDue]
		at, q, slot, kind, ok = t, s.queues[qs], h.slot, h.kind, true
	}
	if t, qs, is := s.clocks[clockLease].Min(); is {
		t += s.shift
		l := s.queues[qs].clockHead[clockLease].slot
		// A lease's kind is met in no other heap, so (due, kind) decides.
		if !ok || t < at || t == at && moveLease < kind {
			at, q, slot, kind, ok = t, s.queues[qs], l, moveLease, true
		}
	}
	return at, q, slot, kind, ok
}

// dueMoves makes the moves that are due, at most the format's number of them.
func (s *State) dueMoves() {
	for i := range s.lim.dueMoves {
		at, q, sl, kind, ok := s.earliest()
		if !ok || at > s.now {
			return
		}
		if i%aheadDue == 0 && kind != moveLease {
			s.lookAtDue(q)
		}
		slot := s.sides.Get(sl).message
		switch kind {
		case moveDelay, moveRetry:
			s.dueRemove(q, sl)
			s.leaveWaiting(q, slot)
			if _, ordered := s.laneKey(q, s.messages.Get(slot)); ordered && kind == moveRetry && !mutant.GroupOrderBrokenOnNack {
				s.returnReady(q, slot) // it has held its lane
			} else {
				s.becomeReady(q, slot)
			}
		case moveLease:
			s.expire(q, slot)
		case moveTTL:
			s.detach(q, slot, endNone)
			s.die(q, slot, ReasonExpired)
		}
		s.fireBatches()
	}
}

// leaveWaiting takes a scheduled or retrying message out of its count, and out of reach of an overflow.
func (s *State) leaveWaiting(q *queue, slot int32) {
	s.shelter(q, slot)
	t := s.tallies.Mut(q.slot)
	if s.messages.Get(slot).state == StateScheduled {
		t.scheduled--
	} else {
		t.retrying--
	}
}

// dueNow says whether a due move is left for the next entry.
func (s *State) dueNow() bool {
	at, _, _, _, ok := s.earliest()
	return ok && at <= s.now
}

// DueBy is how many messages of a queue the clock moves by T = at, as far as they stand next: at least one where there is any,
// most at most.
func (s *State) DueBy(r QueueRef, at int64, most int) int {
	q := s.of(r)
	if q == nil {
		return 0
	}
	a := &s.ahead
	a.sides = q.due.Ahead(at, min(most, aheadMost), a.sides[:0])
	return len(a.sides)
}

// NextDue is the earliest T at which a tick has something to move; lease deadlines are converted to T by adding ΣShift.
// What only ends by comparison with T (dedup keys, results, tombstones, sessions, dead letters) asks for no tick.
func (s *State) NextDue() (at int64, ok bool) {
	if s.hooks.sweep.at != none {
		return s.now, true
	}
	at, _, _, _, ok = s.earliest()
	return at, ok
}
