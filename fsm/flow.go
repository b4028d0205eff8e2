package fsm

import "math/bits"

// flow is what is ready, and not behind another in its lane, of one key in one priority: 52 bytes.
type flow struct {
	key          int32
	sibling      int32 // the next flow of the key
	head, tail   int32 // messages, by place
	tree         int32 // those that came back to an older place (flow_tree.go)
	next, prev   int32 // fair_by = key: the ring of the priority, itself if alone; none: not in it
	pos          int32 // without fair_by: in the queue's heads; none: not there
	older, newer int32 // flows of the queue
	deficit      uint8 // messages left of the turn; only the ring's head has any
	priority     uint8
}

// joinFlow puts a ready message that is not blocked into its flow.
func (s *State) joinFlow(q *queue, slot int32) {
	m := s.messages.Get(slot)
	ki := s.key(q, s.keyText(m))
	fi, fresh := s.flowOf(q, ki, m.priority), false
	if fi == none {
		fi, fresh = s.addFlow(q, ki, m.priority), true
	}
	if last := s.flows.Get(fi).tail; last == none || s.messages.Get(last).place < m.place {
		s.appendFlow(fi, slot)
	} else {
		s.growTree(fi, slot)
	}
	s.fixHead(q, fi)
	k := s.keys.Mut(ki)
	k.ready++
	if k.state.parked() {
		q.parked++
	}
	switch {
	case s.restoring: // once all are there
		return
	case k.state == keyIdle:
		s.judge(q, ki)
	case k.state == keyOpen && fresh:
		s.enterFlow(q, fi)
	}
	s.offerKey(q, ki)
}

// flowOf is the flow of a key in a priority, none where nothing of it is ready.
func (s *State) flowOf(q *queue, ki int32, priority uint8) int32 {
	fi := s.keys.Get(ki).flows
	for fi != none && s.flows.Get(fi).priority != priority {
		fi = s.flows.Get(fi).sibling
	}
	return fi
}

func (s *State) addFlow(q *queue, ki int32, priority uint8) int32 {
	fi := s.flows.Alloc()
	k := s.keys.Mut(ki)
	*s.flows.Mut(fi) = flow{
		key: ki, sibling: k.flows, head: none, tail: none, tree: none, next: none, prev: none, pos: none,
		older: q.flows.tail, newer: none, priority: priority,
	}
	k.flows = fi
	k.records++
	if q.flows.tail != none {
		s.flows.Mut(q.flows.tail).newer = fi
	} else {
		q.flows.head = fi
	}
	q.flows.tail = fi
	return fi
}

// dropFlow removes a flow in which nothing is left, and which is in no ring and not among the heads.
func (s *State) dropFlow(q *queue, fi int32) {
	f := *s.flows.Get(fi)
	if f.older != none {
		s.flows.Mut(f.older).newer = f.newer
	} else {
		q.flows.head = f.newer
	}
	if f.newer != none {
		s.flows.Mut(f.newer).older = f.older
	} else {
		q.flows.tail = f.older
	}
	k := s.keys.Mut(f.key)
	if k.flows == fi {
		k.flows = f.sibling
	} else {
		at := k.flows
		for s.flows.Get(at).sibling != fi {
			at = s.flows.Get(at).sibling
		}
		s.flows.Mut(at).sibling = f.sibling
	}
	k.records--
	s.flows.Free(fi)
}

// appendFlow puts a message behind all others of its flow.
func (s *State) appendFlow(fi, slot int32) {
	f, m := s.flows.Mut(fi), s.messages.Mut(slot)
	m.prev, m.next = f.tail, none
	m.flags &^= flagReleased
	if f.tail != none {
		s.messages.Mut(f.tail).next = slot
	} else {
		f.head = slot
	}
	f.tail = slot
}

// first is the message of a flow that is served first.
func (s *State) first(fi int32) int32 {
	f := s.flows.Get(fi)
	switch {
	case f.tree == none:
		return f.head
	case f.head == none || s.messages.Get(f.tree).place < s.messages.Get(f.head).place:
		return f.tree
	}
	return f.head
}

// fixHead puts a flow among the heads where its first message belongs.
func (s *State) fixHead(q *queue, fi int32) {
	if pos := s.flows.Get(fi).pos; pos != none {
		q.heads.Fix(pos, servingKey(s.messages.Get(s.first(fi))))
	}
}

// enterFlow opens a flow: at the tail of its priority's ring with fair_by, else among the heads.
func (s *State) enterFlow(q *queue, fi int32) {
	if !q.meta.fair() {
		q.heads.Push(servingKey(s.messages.Get(s.first(fi))), fi)
		return
	}
	f := s.flows.Mut(fi)
	ring := &s.tallies.Mut(q.slot).rings[f.priority]
	if q.rings&(1<<f.priority) == 0 {
		q.rings |= 1 << f.priority
		*ring, f.next, f.prev = fi, fi, fi
		return
	}
	head := s.flows.Mut(*ring)
	last := head.prev
	f.next, f.prev = *ring, last
	head.prev = fi
	s.flows.Mut(last).next = fi
}

// exitFlow closes a flow; of its turn nothing is left.
func (s *State) exitFlow(q *queue, fi int32) {
	f := s.flows.Mut(fi)
	if f.pos != none {
		q.heads.Remove(f.pos)
		return
	}
	if f.next == none {
		return
	}
	next, prev := f.next, f.prev
	f.next, f.prev, f.deficit = none, none, 0
	ring := &s.tallies.Mut(q.slot).rings[f.priority]
	if next == fi {
		q.rings &^= 1 << f.priority
		*ring = none
		return
	}
	if *ring == fi {
		*ring = next
	}
	s.flows.Mut(next).prev = prev
	s.flows.Mut(prev).next = next
}

// bestFlow is the message that is served next where keys matter: of the highest priority with an open flow, the first of the
// ring's head or else the one of the lowest place.
func (s *State) bestFlow(q *queue) int32 {
	if q.meta.fair() {
		if q.rings == 0 {
			return none
		}
		return s.first(s.tallies.Get(q.slot).rings[bits.Len16(q.rings)-1])
	}
	_, fi, ok := q.heads.Min()
	if !ok {
		return none
	}
	return s.first(fi)
}

// leaveFlow takes a message out of its flow, which goes with its last one. It returns the key, whose record may be one that
// nothing holds any more: the caller settles that by restKey. left says that the flow is still there.
func (s *State) leaveFlow(q *queue, slot int32) (ki, fi int32, left bool) {
	m := s.messages.Get(slot)
	ki = s.key(q, s.keyText(m))
	fi = s.flowOf(q, ki, m.priority)
	if m.flags&flagReleased != 0 {
		s.cutTree(fi, slot)
	} else {
		f := s.flows.Mut(fi)
		at := list{f.head, f.tail}
		s.unlink(&at, s.messages.Mut(slot))
		f.head, f.tail = at.head, at.tail
	}
	k := s.keys.Mut(ki)
	k.ready--
	if k.state.parked() {
		q.parked--
	}
	if s.first(fi) != none {
		s.fixHead(q, fi)
		return ki, fi, true
	}
	s.exitFlow(q, fi)
	s.dropFlow(q, fi)
	return ki, none, false
}

// restKey settles a key after a message has left it.
func (s *State) restKey(q *queue, ki int32) {
	if s.keys.Get(ki).ready == 0 {
		s.judge(q, ki)
	}
	s.offerKey(q, ki)
	s.dropKey(q, ki)
}

// serveFlow takes the message that best chose out of its flow as a delivery: it counts for its key's rate and for the turn of its
// flow. out says whether it is out from now on.
func (s *State) serveFlow(q *queue, slot int32, out bool) {
	ki, fi, left := s.leaveFlow(q, slot)
	if left && q.meta.fair() {
		s.spendTurn(q, fi)
	}
	k := s.keys.Mut(ki)
	if out {
		k.out++
	}
	if k.text != 0 {
		if tat := q.meta.keyRate.take(k.tat, s.now); tat != k.tat {
			s.setDebt(q, ki, tat)
		}
	}
	s.judge(q, ki)
	s.offerKey(q, ki)
	s.dropKey(q, ki)
}

// spendTurn takes one message off the turn of the ring's head, which begins with the first; at its end it goes to the tail.
func (s *State) spendTurn(q *queue, fi int32) {
	f := s.flows.Mut(fi)
	if f.deficit == 0 {
		f.deficit = q.meta.weight(s.blob(s.keys.Get(f.key).text))
	}
	if f.deficit--; f.deficit == 0 {
		s.tallies.Mut(q.slot).rings[f.priority] = f.next
	}
}

// collectFlow gives back some of a flow that a purge has taken, and the flow itself when it is empty.
func (s *State) collectFlow(j *garbageJob, left int) int {
	fi := j.head
	for ; left > 0 && s.first(fi) != none; left-- {
		f := s.flows.Mut(fi)
		slot := f.head
		switch {
		case slot != none:
			f.head = s.messages.Get(slot).next
		case s.child(f.tree) != none: // one link a step: the child goes into the row before its parent
			c := s.child(f.tree)
			s.setChild(f.tree, s.messages.Get(c).next)
			s.messages.Mut(c).next = f.tree
			f.tree = c
			continue
		default:
			slot = f.tree
			f.tree = s.messages.Get(slot).next
		}
		s.dropMessage(slot)
	}
	if left == 0 {
		return 0
	}
	f := *s.flows.Get(fi)
	j.head = f.newer
	s.flows.Free(fi)
	k := s.keys.Mut(f.key)
	if q := s.queues[k.queue]; !s.tallies.Get(k.queue).gone { // else the key goes with all of the queue's
		k.records--
		s.freshKey(q, f.key)
		s.dropKey(q, f.key)
	}
	return left - 1
}
