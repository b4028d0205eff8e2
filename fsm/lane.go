package fsm

import "github.com/quorate/quorate/fsm/table"

// A lane is an ordered group of messages: all of a fifo queue, or those of one key of a per_key queue. One message of it, the
// holder, is before all others: only it can be leased, and it holds the lane while it is ready, out or retrying, until it is
// done or dead. The others wait behind it by place, in no list of the queue, so that a lane that is stuck costs nobody else
// anything.
//
// The index leads from (queue, key) to the last message of a lane, which is its holder where it is alone. Who waits is in a
// record, the lane's row, that exists while anybody does. Messages know it (rowOf), so that what leases and ends a message
// looks up no key but where a lane ends with it.

// row is what waits in a lane.
type row struct {
	queue        int32  // slot
	holder       int32  // message
	head         int32  // the first message that waits; the last is in the index
	older, newer int32  // rows of the queue
	gen          uint32 // the queue's liveGen: not equal means purged
}

// laneKey is the key of the lane that a message of a queue belongs to; false where it belongs to none.
func (s *State) laneKey(q *queue, m *message) ([]byte, bool) {
	switch q.meta.options.Ordering {
	case OrderFIFO:
		return nil, true
	case OrderPerKey:
		if m.bits&hasKey != 0 {
			return blobKey(m.bits, s.arena.Get(m.body)), true
		}
	}
	return nil, false
}

func (s *State) hashLane(q *queue, key []byte) uint64 {
	return table.HashID(s.hashText(key), uint64(q.meta.number))
}

// lastOf is the last message of the lane that a message of a queue belongs to, none where there is no such lane yet. ordered
// says whether it belongs to one at all; hash is then that of the lane.
func (s *State) lastOf(q *queue, m *message) (last int32, hash uint64, ordered bool) {
	key, ordered := s.laneKey(q, m)
	if !ordered {
		return none, 0, false
	}
	hash = s.hashLane(q, key)
	gen := s.tallies.Get(q.slot).liveGen
	last, ok := s.laneIx.Find(hash, func(v int32) bool {
		l := s.messages.Get(v)
		if l.queue != q.slot || l.gen != gen && l.state != StateLeased {
			return false
		}
		text, _ := s.laneKey(q, l)
		return string(text) == string(key)
	})
	if !ok {
		last = none
	}
	return last, hash, true
}

// Where a message keeps its row: while it is ready, in its side (newer) or, without one, in the place of that, as −2 − row; else
// in next. Ready ones need next for where they stand, and the others have no use for it.

// readyRow is the row of a ready message, none where it holds a lane in which nobody waits.
func (s *State) readyRow(m *message) int32 {
	if m.side < none {
		return -2 - m.side
	}
	if m.side == none {
		return none
	}
	return s.sides.Get(m.side).newer
}

// setReadyRow notes the row of a ready message.
func (s *State) setReadyRow(m *message, r int32) {
	if m.hasSide() {
		s.sides.Mut(m.side).newer = r
		return
	}
	m.side = none
	if r != none {
		m.side = -2 - r
	}
}

// rowOf is the row of a message that is in a lane.
func (s *State) rowOf(m *message) int32 {
	if m.state == StateReady {
		return s.readyRow(m)
	}
	return m.next
}

// standUp is called for every message that is about to stand where it is served, standDown for one that has left that place:
// one that holds a lane keeps its row elsewhere then.
func (s *State) standUp(m *message) {
	if m.flags&flagHolds != 0 {
		s.setReadyRow(m, m.next)
	}
}

func (s *State) standDown(m *message) {
	if m.flags&flagHolds != 0 {
		m.next = s.readyRow(m)
		s.setReadyRow(m, none)
	}
}

// openRow makes the row of a lane in which the first message is about to wait.
func (s *State) openRow(q *queue, holder, first int32) int32 {
	r := s.rows.Alloc()
	*s.rows.Mut(r) = row{
		queue: q.slot, holder: holder, head: first, older: q.rows.tail, newer: none, gen: s.tallies.Get(q.slot).liveGen,
	}
	if q.rows.tail != none {
		s.rows.Mut(q.rows.tail).newer = r
	} else {
		q.rows.head = r
	}
	q.rows.tail = r
	if m := s.messages.Mut(holder); m.state == StateReady {
		s.setReadyRow(m, r)
	} else {
		m.next = r
	}
	return r
}

// closeRow removes a row in which nobody waits any more. That its holder knows none is the caller's to see to.
func (s *State) closeRow(q *queue, r int32) {
	w := s.rows.Get(r)
	if w.older != none {
		s.rows.Mut(w.older).newer = w.newer
	} else {
		q.rows.head = w.newer
	}
	if w.newer != none {
		s.rows.Mut(w.newer).older = w.older
	} else {
		q.rows.tail = w.older
	}
	s.rows.Free(r)
}

// queueUp puts a message that has just got its place behind the last one of its lane. false: it may be served, having no lane
// or a lane of its own now.
func (s *State) queueUp(q *queue, slot int32) bool {
	if q.meta.options.Ordering == OrderUnordered {
		return false
	}
	last, hash, ordered := s.lastOf(q, s.messages.Get(slot))
	switch {
	case !ordered:
		return false
	case last == none:
		s.hold(hash, slot)
		return false
	}
	s.laneIx.Replace(hash, last, slot)
	m, l := s.messages.Mut(slot), s.messages.Mut(last)
	m.flags |= flagBlocked
	m.next = none
	q.blocked++
	if l.flags&flagBlocked == 0 {
		m.prev = none
		s.setReadyRow(m, s.openRow(q, last, slot))
		return true
	}
	m.prev, l.next = last, slot
	s.setReadyRow(m, s.readyRow(l))
	return true
}

// hold gives a message a lane of its own.
func (s *State) hold(hash uint64, slot int32) {
	m := s.messages.Mut(slot)
	m.flags |= flagHolds
	m.next = none
	s.laneIx.Insert(hash, slot)
}

// unblock takes a waiting message out of its lane.
func (s *State) unblock(q *queue, slot int32) {
	m := s.messages.Mut(slot)
	r := s.readyRow(m)
	s.setReadyRow(m, none)
	m.flags &^= flagBlocked
	q.blocked--
	w := s.rows.Mut(r)
	before := m.prev
	if before != none {
		s.messages.Mut(before).next = m.next
	} else {
		before, w.head = w.holder, m.next
	}
	if m.next != none {
		s.messages.Mut(m.next).prev = m.prev
	} else {
		key, _ := s.laneKey(q, m)
		s.laneIx.Replace(s.hashLane(q, key), slot, before)
	}
	m.prev, m.next = none, none
	if w.head == none {
		if h := s.messages.Mut(w.holder); h.state == StateReady {
			s.setReadyRow(h, none)
		} else {
			h.next = none
		}
		s.closeRow(q, r)
	}
}

// leaveLane is called for every live message that ends, done or dead, once it is detached: where it held a lane, the next one
// does.
func (s *State) leaveLane(q *queue, slot int32) {
	m := s.messages.Get(slot)
	if m.flags&flagHolds == 0 {
		return
	}
	m = s.messages.Mut(slot)
	r := m.next
	if r == none {
		s.unlane(m, slot)
		m.flags &^= flagHolds
		return
	}
	m.flags &^= flagHolds
	m.next = none
	next := s.rows.Get(r).head
	n := s.messages.Mut(next)
	s.setReadyRow(n, none)
	n.flags = n.flags&^flagBlocked | flagHolds
	q.blocked--
	w := s.rows.Mut(r)
	if w.holder, w.head = next, n.next; w.head != none {
		s.messages.Mut(w.head).prev = none
	} else {
		s.closeRow(q, r)
		r = none
	}
	n.next = r
	s.pushOld(q, next)
	s.tellReady(q)
}

// unlane takes a message out of the index of lanes, if it is the last of one.
func (s *State) unlane(m *message, slot int32) {
	if m.flags&flagBlocked != 0 && m.next != none {
		return
	}
	q := s.queues[m.queue]
	key, _ := s.laneKey(q, m)
	if s.laneIx.Delete(s.hashLane(q, key), slot) {
		return
	}
	// Purged, and others waited behind it, or the queue's order has been changed since.
	if !s.laneIx.Delete(s.hashLane(q, nil), slot) {
		s.laneIx.Delete(s.hashLane(q, s.keyText(m)), slot)
	}
}

// swapLanes has what waits in lanes given back. What is out goes on holding them.
func (s *State) swapLanes(q *queue) {
	if q.rows.head == none {
		return
	}
	s.garbage = append(s.garbage, garbageJob{kind: garbageRows, head: q.rows.head})
	q.rows, q.blocked = emptyList, 0
	for i := range int32(q.leases.Len()) {
		_, sl := q.leases.At(i)
		slot := s.sides.Get(sl).message
		m := s.messages.Mut(slot)
		if m.flags&flagHolds == 0 || m.next == none {
			continue
		}
		r := m.next
		m.next = none
		key, _ := s.laneKey(q, m)
		hash := s.hashLane(q, key)
		last, _ := s.laneIx.Find(hash, func(v int32) bool {
			l := s.messages.Get(v)
			return l.flags&flagBlocked != 0 && s.readyRow(l) == r
		})
		s.laneIx.Replace(hash, last, slot)
	}
}

// checkOrder judges what an ordered queue asks of a message.
func checkOrder(o *QueueOptions, m *Message) Outcome {
	if o.Ordering != OrderUnordered && m.Priority != DefaultPriority {
		return refuse(InvalidArgument, FieldPriority, DefaultPriority)
	}
	return Outcome{}
}

func (s *State) countKeyed(m *queueMeta, n int) {
	if m.keyed {
		s.keyedQueues += n
	}
}

func (s *State) countOrdered(m *queueMeta, n int) {
	if m.options.Ordering != OrderUnordered {
		s.orderedQueues += n
	}
}
