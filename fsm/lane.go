package fsm

import "github.com/quorate/quorate/fsm/table"

// lane is an ordered group of messages: all of a fifo queue, or those of one key of a per_key queue. One message of it, the
// holder, is before all others: only it can be leased, and it holds the lane while it is ready, out or retrying, until it is
// done or dead. The others wait behind it by place, in no list of the queue, so that a lane that is stuck costs nobody else
// anything. A lane exists while it has a holder.
type lane struct {
	hash         uint64 // of (queue, key), in the index; the key itself is in its messages
	queue        int32  // slot
	holder       int32  // message
	head, tail   int32  // messages that wait, by place
	older, newer int32  // lanes of the queue: those in which messages wait are at the end
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

// laneText is the key of a lane that is not purged: that of its holder.
func (s *State) laneText(q *queue, l *lane) []byte {
	key, _ := s.laneKey(q, s.messages.Get(l.holder))
	return key
}

// laneOf is the lane of a message, none where it has none. ordered says whether it belongs to one, there or not; hash is then
// that of the lane.
func (s *State) laneOf(q *queue, m *message) (ln int32, hash uint64, ordered bool) {
	key, ordered := s.laneKey(q, m)
	if !ordered {
		return none, 0, false
	}
	hash = s.hashLane(q, key)
	ln, ok := s.findLane(q, hash, key)
	if !ok {
		ln = none
	}
	return ln, hash, true
}

func (s *State) findLane(q *queue, hash uint64, key []byte) (int32, bool) {
	gen := s.tallies.Get(q.slot).liveGen
	return s.laneIx.Find(hash, func(v int32) bool {
		l := s.lanes.Get(v)
		return l.queue == q.slot && l.gen == gen && string(s.laneText(q, l)) == string(key)
	})
}

// laneHeldBy is the lane that a message holds, none where it holds none. It compares no keys.
func (s *State) laneHeldBy(q *queue, slot int32) int32 {
	key, ordered := s.laneKey(q, s.messages.Get(slot))
	if !ordered {
		return none
	}
	gen := s.tallies.Get(q.slot).liveGen
	ln, ok := s.laneIx.Find(s.hashLane(q, key), func(v int32) bool {
		l := s.lanes.Get(v)
		return l.holder == slot && l.queue == q.slot && l.gen == gen
	})
	if !ok {
		return none
	}
	return ln
}

// openLane makes the lane of a key with its first holder.
func (s *State) openLane(q *queue, hash uint64, holder int32) {
	ln := s.lanes.Alloc()
	l := s.lanes.Mut(ln)
	*l = lane{
		hash: hash, queue: q.slot, holder: holder, head: none, tail: none, gen: s.tallies.Get(q.slot).liveGen,
	}
	s.linkLane(q, ln)
	s.laneIx.Insert(hash, ln)
}

// linkLane puts a lane among its queue's, at the end that says whether messages wait in it: a listing of those that wait
// need not pass the others.
func (s *State) linkLane(q *queue, ln int32) {
	l := s.lanes.Mut(ln)
	if l.head == none {
		l.older, l.newer = none, q.lanes.head
		if l.newer != none {
			s.lanes.Mut(l.newer).older = ln
		} else {
			q.lanes.tail = ln
		}
		q.lanes.head = ln
		return
	}
	l.older, l.newer = q.lanes.tail, none
	if l.older != none {
		s.lanes.Mut(l.older).newer = ln
	} else {
		q.lanes.head = ln
	}
	q.lanes.tail = ln
}

func (s *State) unlinkLane(q *queue, ln int32) {
	l := s.lanes.Get(ln)
	if l.older != none {
		s.lanes.Mut(l.older).newer = l.newer
	} else {
		q.lanes.head = l.newer
	}
	if l.newer != none {
		s.lanes.Mut(l.newer).older = l.older
	} else {
		q.lanes.tail = l.older
	}
}

// closeLane removes a lane that holds nothing any more.
func (s *State) closeLane(q *queue, ln int32) {
	s.unlinkLane(q, ln)
	s.freeLane(ln)
}

// freeLane gives back a lane that is linked nowhere.
func (s *State) freeLane(ln int32) {
	s.laneIx.Delete(s.lanes.Get(ln).hash, ln)
	s.lanes.Free(ln)
}

// queueUp puts a message that has just got its place behind the holder of its lane. false: it may be served, having no lane
// or a lane of its own now.
func (s *State) queueUp(q *queue, slot int32) bool {
	ln, hash, ordered := s.laneOf(q, s.messages.Get(slot))
	switch {
	case !ordered:
		return false
	case ln == none:
		s.openLane(q, hash, slot)
		return false
	}
	l, m := s.lanes.Mut(ln), s.messages.Mut(slot)
	m.flags |= flagBlocked
	m.prev, m.next = l.tail, none
	q.blocked++
	if l.tail != none {
		s.messages.Mut(l.tail).next = slot
		l.tail = slot
		return true
	}
	s.unlinkLane(q, ln)
	l.head, l.tail = slot, slot
	s.linkLane(q, ln)
	return true
}

// unblock takes a waiting message out of its lane.
func (s *State) unblock(q *queue, ln, slot int32) {
	m := s.messages.Mut(slot)
	m.flags &^= flagBlocked
	q.blocked--
	at := list{s.lanes.Get(ln).head, s.lanes.Get(ln).tail}
	s.unlink(&at, m)
	if at.head == none {
		s.unlinkLane(q, ln)
	}
	l := s.lanes.Mut(ln)
	l.head, l.tail = at.head, at.tail
	if at.head == none {
		s.linkLane(q, ln)
	}
}

// leaveLane is called for every live message that ends, done or dead, once it is detached: where it held a lane, the next one
// does.
func (s *State) leaveLane(q *queue, slot int32) {
	if q.meta.options.Ordering == OrderUnordered {
		return
	}
	ln := s.laneHeldBy(q, slot)
	if ln == none {
		return
	}
	next := s.lanes.Get(ln).head
	if next == none {
		s.closeLane(q, ln)
		return
	}
	s.unblock(q, ln, next)
	s.lanes.Mut(ln).holder = next
	s.serve(q, next)
	s.tellReady(q)
}

// serve makes a ready message one that can be leased, at its place, which may be an old one.
func (s *State) serve(q *queue, slot int32) {
	m := s.messages.Get(slot)
	if last := q.ready[m.priority].tail; last == none || s.messages.Get(last).place < m.place {
		s.pushReady(q, slot)
		return
	}
	s.pushOld(q, slot)
}

// swapLanes gives the queue an empty set of lanes, what is out holding new ones. It is called with the new liveGen.
func (s *State) swapLanes(q *queue) {
	if q.lanes.head != none {
		s.garbage = append(s.garbage, garbageJob{kind: garbageLanes, head: q.lanes.head})
	}
	q.lanes, q.blocked = emptyList, 0
	if q.meta.options.Ordering == OrderUnordered {
		return
	}
	for i := range int32(q.leases.Len()) {
		_, sl := q.leases.At(i)
		slot := s.sides.Get(sl).message
		if key, ordered := s.laneKey(q, s.messages.Get(slot)); ordered {
			s.openLane(q, s.hashLane(q, key), slot)
		}
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
