package fsm

// The messages of a flow that came back to an older place are a pairing heap by place (Fredman et al. 1986): each stands before its
// children, of which it knows the first. The links are fields that a ready message does not need otherwise: next is the next
// sibling, prev the sibling before it or, of a first child, the parent; the first child is the side's older, since what came
// back has a side and has no consumer.

func (s *State) child(slot int32) int32 { return s.sides.Get(s.messages.Get(slot).side).older }

func (s *State) setChild(slot, child int32) { s.sides.Mut(s.messages.Get(slot).side).older = child }

// growTree puts a message into its flow at the place that it has.
func (s *State) growTree(fi, slot int32) {
	s.newSide(slot)
	m := s.messages.Mut(slot)
	m.flags |= flagReleased
	m.next, m.prev = none, none
	root := s.flows.Get(fi).tree
	s.flows.Mut(fi).tree = s.meld(root, slot)
}

// cutTree takes a message out of its flow.
func (s *State) cutTree(fi, slot int32) {
	m := s.messages.Mut(slot)
	next, prev := m.next, m.prev
	m.flags &^= flagReleased
	m.next, m.prev = none, none
	children := s.child(slot)
	s.setChild(slot, none)
	rest := s.meldAll(children)
	if prev == none {
		s.flows.Mut(fi).tree = rest
		return
	}
	if s.child(prev) == slot {
		s.setChild(prev, next)
	} else {
		s.messages.Mut(prev).next = next
	}
	if next != none {
		s.messages.Mut(next).prev = prev
	}
	s.flows.Mut(fi).tree = s.meld(s.flows.Get(fi).tree, rest)
}

// meld makes one heap of two.
func (s *State) meld(a, b int32) int32 {
	switch {
	case a == none:
		return b
	case b == none:
		return a
	case s.messages.Get(b).place < s.messages.Get(a).place:
		a, b = b, a
	}
	first := s.child(a)
	m := s.messages.Mut(b)
	m.prev, m.next = a, first
	if first != none {
		s.messages.Mut(first).prev = b
	}
	s.setChild(a, b)
	return a
}

// meldAll makes one heap of a row of siblings: of each two, and then of all from the last to the first.
func (s *State) meldAll(at int32) int32 {
	pairs := none // by next, the last first
	for at != none {
		a := at
		b := s.messages.Get(a).next
		at = none
		if b != none {
			at = s.messages.Get(b).next
		}
		s.loosen(a)
		if b != none {
			s.loosen(b)
			a = s.meld(a, b)
		}
		s.messages.Mut(a).next = pairs
		pairs = a
	}
	root := none
	for pairs != none {
		next := s.messages.Get(pairs).next
		s.loosen(pairs)
		root = s.meld(root, pairs)
		pairs = next
	}
	return root
}

func (s *State) loosen(slot int32) {
	m := s.messages.Mut(slot)
	m.next, m.prev = none, none
}

// nextInTree is what comes behind a message in a walk over a tree, parents before children; none at the end.
func (s *State) nextInTree(slot int32) int32 {
	if c := s.child(slot); c != none {
		return c
	}
	for slot != none {
		m := s.messages.Get(slot)
		if m.next != none {
			return m.next
		}
		for m.prev != none && s.child(m.prev) != slot { // back to the first sibling
			slot = m.prev
			m = s.messages.Get(slot)
		}
		slot = m.prev // the parent
	}
	return none
}
