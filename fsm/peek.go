package fsm

import "math/bits"

// ListLimit is how many records a listing looks at in one call, which is under a millisecond of holding the state.
const ListLimit = 50_000

// Peek lists live messages of a queue in one state, behind the one with the id after (zero: from the start), until f returns
// false. Ready ones come in serving order, of a queue ordered by key in up to ten rows of that order; those that were released come first and among themselves in any order, and
// those that wait behind another of their key come last, key by key; where keys matter, all come key by key; the other states in any
// order. An after that is no longer where it was starts from the front.
//
// A call looks at no more than ListLimit records. Where that ends it, partial is the id to go on behind; else it is zero.
func (s *State) Peek(n uint32, st MessageState, after ID, f func(*Info) bool) (partial ID) {
	q := s.byNumber(n)
	if q == nil {
		return ID{}
	}
	start := none
	if slot, ok := s.find(after); ok && s.messages.Get(slot).queue == q.slot {
		start = slot
	}
	var in Info
	switch st {
	case StateReady:
		return s.peekReady(q, start, &in, f)
	case StateLeased:
		return s.peekLeased(q, start, &in, f)
	case StateScheduled, StateRetrying:
		return s.peekWaiting(q, st, start, &in, f)
	}
	return ID{}
}

func (s *State) peekReady(q *queue, start int32, in *Info, f func(*Info) bool) (partial ID) {
	pos, last, at := int32(0), none, none
	filled, ln, waits := q.filled, q.rows.tail, none
	fi := q.flows.head
	if start != none && s.messages.Get(start).state == StateReady {
		m := s.messages.Get(start)
		switch {
		case m.flags&flagReleased != 0 && !q.meta.keyed:
			pos = m.next + 1
		case m.flags&flagBlocked != 0:
			pos, filled, waits = int32(q.released.Len()), 0, m.next
			at := s.readyRow(m)
			ln = s.rows.Get(at).older
			fi = none
		case q.meta.keyed:
			ki, _ := s.findKey(q, s.keyText(m))
			if fi = s.flowOf(q, ki, m.priority); s.nextInFlow(fi, start) == none {
				fi = s.flows.Get(fi).newer
			} else {
				at = s.nextInFlow(fi, start)
			}
		default:
			pos, last, at = int32(q.released.Len()), start, m.next
		}
	}
	left := ListLimit
	show := func(slot int32) bool {
		if left == 0 {
			partial = in.ID
			return false
		}
		left--
		s.info(slot, in)
		return f(in)
	}
	for q.meta.keyed && fi != none {
		if at == none {
			at = s.firstInFlow(fi)
		}
		for ; at != none; at = s.nextInFlow(fi, at) {
			if !show(at) {
				return partial
			}
		}
		fi = s.flows.Get(fi).newer
	}
	for ; int(pos) < q.released.Len(); pos++ {
		if _, slot := q.released.At(pos); !show(slot) {
			return partial
		}
	}
	for {
		for ; at != none; at = s.messages.Get(at).next {
			if !show(at) {
				return partial
			}
			last = at
		}
		if last != none { // the end of a list: it and those before it are through
			filled &= 1<<s.listOf(q, s.messages.Get(last), last) - 1
			last = none
		}
		if filled == 0 {
			break
		}
		at = q.ready[bits.Len16(filled)-1].head
	}
	for { // what waits in lanes is last
		for ; waits != none; waits = s.messages.Get(waits).next {
			if !show(waits) {
				return partial
			}
		}
		if ln == none {
			return ID{}
		}
		waits, ln = s.rows.Get(ln).head, s.rows.Get(ln).older
	}
}

func (s *State) peekLeased(q *queue, start int32, in *Info, f func(*Info) bool) (partial ID) {
	pos := int32(0)
	if start != none && s.messages.Get(start).state == StateLeased {
		pos = s.sides.Get(s.messages.Get(start).side).heapPos + 1
	}
	for left := ListLimit; int(pos) < q.leases.Len(); pos++ {
		if left--; left < 0 {
			return partial
		}
		_, sl := q.leases.At(pos)
		slot := s.sides.Get(sl).message
		partial = s.messages.Get(slot).id
		if s.info(slot, in); !f(in) {
			return ID{}
		}
	}
	return ID{}
}

func (s *State) peekWaiting(q *queue, st MessageState, start int32, in *Info, f func(*Info) bool) (partial ID) {
	pos := q.due.First()
	if start != none {
		if m := s.messages.Get(start); m.hasSide() && m.state != StateLeased && s.sides.Get(m.side).heapPos != none {
			pos = q.due.After(s.sides.Get(m.side).heapPos)
		}
	}
	for left := ListLimit; pos != none; pos = q.due.After(pos) {
		if left--; left < 0 {
			return partial
		}
		_, sl := q.due.At(pos)
		slot := s.sides.Get(sl).message
		m := s.messages.Get(slot)
		partial = m.id
		if m.state != st {
			continue
		}
		if s.info(slot, in); !f(in) {
			return ID{}
		}
	}
	return ID{}
}

// firstInFlow and nextInFlow walk a flow: what is in its list, and then its tree in any order.
func (s *State) firstInFlow(fi int32) int32 {
	if f := s.flows.Get(fi); f.head != none {
		return f.head
	}
	return s.flows.Get(fi).tree
}

func (s *State) nextInFlow(fi, slot int32) int32 {
	m := s.messages.Get(slot)
	switch {
	case m.flags&flagReleased != 0:
		return s.nextInTree(slot)
	case m.next != none:
		return m.next
	}
	return s.flows.Get(fi).tree
}
