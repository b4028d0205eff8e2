package fsm

import "math/bits"

// pushReady appends a message to the ready list of its priority: its place is the newest.
func (s *State) pushReady(q *queue, slot int32) {
	s.standUp(s.messages.Mut(slot))
	s.append(q, slot)
}

// append is pushReady for a message that stood elsewhere among what is ready.
func (s *State) append(q *queue, slot int32) {
	if q.meta.keyed {
		s.joinFlow(q, slot)
		return
	}
	m := s.messages.Mut(slot)
	s.enlist(q, s.listFor(q, m), m, slot)
}

// enlist appends a message to one of the ready lists.
func (s *State) enlist(q *queue, i int, m *message, slot int32) {
	l := &q.ready[i]
	m.prev, m.next = l.tail, none
	if l.tail != none {
		s.messages.Mut(l.tail).next = slot
	} else {
		l.head = slot
		q.filled |= 1 << i
	}
	l.tail = slot
}

// listFor is the ready list to whose end a message belongs, −1 where there is none: that of its priority. Ordered queues know one
// priority, and of their lists each is in order: the message goes to the one with the nearest place before its own. The holders of
// lanes change in the order of acks, which comes close to that of places, but for the ways of different
// consumers that cross: so there is nearly always a list.
func (s *State) listFor(q *queue, m *message) int {
	if q.meta.options.Ordering == OrderUnordered {
		return int(m.priority)
	}
	best, nearest := -1, uint64(0)
	for i := range q.ready {
		tail := q.ready[i].tail
		if tail == none {
			if best < 0 {
				best = i
			}
			continue
		}
		if p := s.messages.Get(tail).place; p < m.place && p > nearest {
			best, nearest = i, p
		}
	}
	return best
}

// listOf is the ready list in which a message stands at an end; any other will do for one in the middle.
func (s *State) listOf(q *queue, m *message, slot int32) int {
	if q.meta.options.Ordering != OrderUnordered && (m.prev == none || m.next == none) {
		for i := range q.ready {
			if q.ready[i].head == slot || q.ready[i].tail == slot {
				return i
			}
		}
	}
	return int(m.priority)
}

// servingKey orders released messages: 9 first, then by place.
func servingKey(m *message) int64 { return int64(MaxPriority-m.priority)<<56 | int64(m.place) }

// serveReady takes the message that best chose out of where it waits, as a delivery. out says whether it is out from now on.
func (s *State) serveReady(q *queue, slot int32, out bool) {
	if q.meta.keyed {
		s.serveFlow(q, slot, out)
		s.standDown(s.messages.Mut(slot))
		return
	}
	s.removeReady(q, slot)
}

// removeReady takes a ready message out of where it waits. It stays under the clock if it has a ttl.
func (s *State) removeReady(q *queue, slot int32) {
	m := s.messages.Mut(slot)
	if m.flags&flagBlocked != 0 {
		s.unblock(q, slot)
		return
	}
	s.takeReady(q, slot)
	s.standDown(s.messages.Mut(slot))
}

// takeReady takes a message out of the list, heap or flow in which it is served.
func (s *State) takeReady(q *queue, slot int32) {
	m := s.messages.Mut(slot)
	if q.meta.keyed {
		ki, _, _ := s.leaveFlow(q, slot)
		s.restKey(q, ki)
		return
	}
	if m.flags&flagReleased != 0 {
		q.released.Remove(m.next)
		m.flags &^= flagReleased
		m.next, m.prev = none, none
		return
	}
	i := s.listOf(q, m, slot)
	s.unlink(&q.ready[i], m)
	if q.ready[i].head == none {
		q.filled &^= 1 << i
	}
}

// unlink takes a message out of a list.
func (s *State) unlink(l *list, m *message) {
	if m.prev != none {
		s.messages.Mut(m.prev).next = m.next
	} else {
		l.head = m.next
	}
	if m.next != none {
		s.messages.Mut(m.next).prev = m.prev
	} else {
		l.tail = m.prev
	}
	m.prev, m.next = none, none
}

// best is the message that is served next: the highest priority, then the lowest place.
func (s *State) best(q *queue) int32 {
	if q.meta.keyed {
		return s.bestFlow(q)
	}
	listed := none
	switch {
	case q.filled == 0:
	case q.meta.options.Ordering == OrderUnordered:
		listed = q.ready[bits.Len16(q.filled)-1].head
	default:
		first := uint64(0)
		for left := q.filled; left != 0; left &= left - 1 {
			slot := q.ready[bits.TrailingZeros16(left)].head
			if p := s.messages.Get(slot).place; listed == none || p < first {
				listed, first = slot, p
			}
		}
	}
	key, slot, ok := q.released.Min()
	if !ok || listed != none && servingKey(s.messages.Get(listed)) < key {
		return listed
	}
	return slot
}

// becomeReady gives a message a new place and its due ttl a clock. Its state before is left and counted out.
func (s *State) becomeReady(q *queue, slot int32) {
	m := s.messages.Mut(slot)
	m.state = StateReady
	s.places++
	m.place = s.places
	if !s.queueUp(q, slot) {
		s.pushReady(q, slot)
		s.tellReady(q)
	}
	s.nowReady(q, slot)
}

// returnReady puts a message that was released, or that held its lane while it was retrying, back at its old place.
func (s *State) returnReady(q *queue, slot int32) {
	m := s.messages.Mut(slot)
	m.state = StateReady
	s.pushOld(q, slot)
	s.tellReady(q)
	s.nowReady(q, slot)
}

// pushOld puts a message that can be leased where it is served at the place that it has, which may be an old one.
func (s *State) pushOld(q *queue, slot int32) {
	s.standUp(s.messages.Mut(slot))
	if q.meta.keyed {
		s.joinFlow(q, slot)
		return
	}
	m := s.messages.Mut(slot)
	if q.meta.options.Ordering != OrderUnordered {
		if i := s.listFor(q, m); i >= 0 {
			s.enlist(q, i, m, slot)
			return
		}
	}
	m.flags |= flagReleased
	m.prev = none
	q.released.Push(servingKey(m), slot)
}

// tellReady tells the leader that there is something to be leased.
func (s *State) tellReady(q *queue) {
	if q.told != s.index {
		q.told = s.index
		s.fx.Ready = append(s.fx.Ready, q.meta.number)
	}
}

// nowReady counts a message that has become ready, leasable or not, and puts its ttl under the clock.
func (s *State) nowReady(q *queue, slot int32) {
	m := s.messages.Mut(slot)
	s.countReady(q, m, 1)
	m.gen = s.tallies.Get(q.slot).liveGen
	if m.hasSide() && s.sides.Get(m.side).expires != 0 {
		s.duePush(q, m.side)
	}
	s.expose(q, slot)
}

// detach takes a live message out of every list, heap and count of its state; end says how its lease ended if it is out.
// The message is then linked nowhere, and still holds its bytes and its id.
func (s *State) detach(q *queue, slot int32, end leaseEnd) {
	m := s.messages.Get(slot)
	switch m.state {
	case StateReady:
		s.dueRemove(q, m.side)
		s.shelter(q, slot)
		s.removeReady(q, slot)
		s.countReady(q, s.messages.Get(slot), -1)
	case StateScheduled, StateRetrying:
		s.dueRemove(q, m.side)
		s.leaveWaiting(q, slot)
	case StateLeased:
		s.unlease(q, slot, end)
	}
}

// finish removes a detached live message for good: it is done.
func (s *State) finish(q *queue, slot int32) {
	s.leave(q, slot)
	s.dropMessage(slot)
}

// leave takes a detached live message that is done out of all that counts it or waits for its end.
func (s *State) leave(q *queue, slot int32) {
	s.leaveMoved(q, slot)
	s.unhook(slot, endedDone)
	s.leaveLane(q, slot)
	t := s.tallies.Mut(q.slot)
	t.bytes -= int64(s.arena.Size(s.messages.Get(slot).body))
	s.groupCount--
}
