package fsm

import "github.com/quorate/quorate/fsm/table"

func (s *State) peekHeap(h *table.Heap, st MessageState, start int32, in *Info, f func(*Info) bool) {
	pos := int32(0)
	if start != none {
		pos = s.sides.Get(s.messages.Get(start).side).heapPos + 1
	}
	for ; int(pos) < h.Len(); pos++ {
		_, sl := h.At(pos)
		slot := s.sides.Get(sl).message
		if s.messages.Get(slot).state != st {
			continue
		}
		s.info(slot, in)
		if !f(in) {
			return
		}
	}
}

// Dead lists the dead letters of a queue by (failed_at, id), behind the cursor (zero: from the start), until f returns
// false.
func (s *State) Dead(n uint32, afterAt int64, after ID, f func(*Info) bool) {
	q := s.byNumber(n)
	if q == nil {
		return
	}
	at := q.dead.head
	if afterAt != 0 || !after.IsZero() {
		at = s.deadAfter(q, afterAt, after)
	}
	var in Info
	for ; at != none; at = s.messages.Get(at).next {
		if !s.alive(s.messages.Get(at)) {
			continue
		}
		s.info(at, &in)
		if !f(&in) {
			return
		}
	}
}

// deadAfter is the first dead letter behind a place. Where the one at that place is gone, it is looked for from both ends.
func (s *State) deadAfter(q *queue, at int64, id ID) int32 {
	behind := func(slot int32) bool {
		m := s.messages.Get(slot)
		t := s.sides.Get(m.side).due
		return t > at || t == at && m.id.Compare(id) > 0
	}
	if slot, ok := s.findDead(q, id); ok && s.sides.Get(s.messages.Get(slot).side).due == at {
		return s.messages.Get(slot).next
	}
	front, back, last := q.dead.head, q.dead.tail, none
	for front != none {
		if behind(front) {
			return front
		}
		if !behind(back) {
			return last
		}
		last = back
		front, back = s.messages.Get(front).next, s.messages.Get(back).prev
	}
	return none
}

// DeadLetter finds a dead letter of a queue by its id.
func (s *State) DeadLetter(n uint32, id ID, in *Info) bool {
	q := s.byNumber(n)
	if q == nil {
		return false
	}
	slot, ok := s.findDead(q, id)
	if ok {
		s.info(slot, in)
	}
	return ok
}
