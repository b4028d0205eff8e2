package fsm

import (
	"slices"

	"github.com/quorate/quorate/fsm/table"
)

// changeKeys brings what is ready into line with a queue's options after they have changed: one pass over it where keys begin
// or cease to matter, one over its keys where their limits are others.
func (s *State) changeKeys(q *queue, old *queueMeta) {
	s.countKeyed(old, -1)
	s.countKeyed(q.meta, 1)
	switch {
	case old.keyed && q.meta.keyed:
		s.rejudge(q, old)
	case old.keyed:
		s.dissolve(q)
	case q.meta.keyed:
		s.form(q)
	}
}

// form puts all that can be leased into flows, in serving order, and counts what is out.
func (s *State) form(q *queue) {
	for i := range int32(q.leases.Len()) {
		_, sl := q.leases.At(i)
		s.keyOut(q, s.keyText(s.messages.Get(s.sides.Get(sl).message)), 1)
	}
	var waits []sortedSlot
	for p := range q.ready {
		for at := q.ready[p].head; at != none; at = s.messages.Get(at).next {
			waits = append(waits, sortedSlot{servingKey(s.messages.Get(at)), at})
		}
		q.ready[p] = emptyList
	}
	q.filled = 0
	for i := range int32(q.released.Len()) {
		key, at := q.released.At(i)
		waits = append(waits, sortedSlot{key, at})
	}
	q.released = table.Heap{Moved: s.moved.released}
	inOrder(waits)
	for _, w := range waits {
		s.joinFlow(q, w.slot)
	}
}

// dissolve takes all flows apart and puts what was in them into the lists. Nothing is known of keys any more.
func (s *State) dissolve(q *queue) {
	var waits []sortedSlot
	for fi := q.flows.head; fi != none; {
		f := *s.flows.Get(fi)
		for at := f.head; at != none; at = s.messages.Get(at).next {
			waits = append(waits, sortedSlot{int64(s.messages.Get(at).place), at})
		}
		for at := f.tree; at != none; at = s.nextInTree(at) {
			waits = append(waits, sortedSlot{int64(s.messages.Get(at).place), at})
		}
		s.keys.Mut(f.key).records--
		s.flows.Free(fi)
		fi = f.newer
	}
	q.flows = emptyList
	s.keyedHeaps(q)
	for ki := q.keys.head; ki != none; {
		k := s.keys.Mut(ki)
		next := k.newer
		k.flows, k.ready, k.offer, k.out, k.tat, k.until, k.state = none, 0, 0, 0, 0, 0, keyIdle
		k.debtPos, k.heldPos = none, none
		s.dropKey(q, ki) // one that a purged flow points to still goes with that
		ki = next
	}
	q.debts = table.Heap{Less: s.cmpLess[clockDebt], Moved: s.moved.debt}
	s.clockFix(clockDebt, q)
	inOrder(waits)
	for _, w := range waits {
		m := s.messages.Mut(w.slot)
		if m.flags&flagReleased != 0 {
			m.flags &^= flagReleased
			s.setChild(w.slot, none)
		}
		s.append(q, w.slot)
	}
}

// rejudge applies other limits of keys to all of them. Whether they are others is told by the options as they are written, not by
// what follows of them: a burst that is named and the same by default are two.
func (s *State) rejudge(q *queue, old *queueMeta) {
	was, is := &old.options, &q.meta.options
	rate := was.RatePerKeyMilli != is.RatePerKeyMilli || was.BurstPerKey != is.BurstPerKey
	fair := was.FairBy != is.FairBy
	if !rate && !fair && was.MaxInFlightPerKey == is.MaxInFlightPerKey {
		return
	}
	if fair {
		for fi := q.flows.head; fi != none; fi = s.flows.Get(fi).newer {
			s.exitFlow(q, fi)
		}
	}
	var opened []sortedSlot
	for ki := q.keys.head; ki != none; {
		next := s.keys.Get(ki).newer
		s.freshKey(q, ki)
		if tat := s.keys.Get(ki).tat; rate && tat != 0 {
			s.setDebt(q, ki, q.meta.keyRate.cut(tat, s.now))
		}
		want, until := s.verdict(q, s.keys.Get(ki))
		s.setKey(q, ki, want, until)
		for fi := s.keys.Get(ki).flows; fi != none; fi = s.flows.Get(fi).sibling {
			switch f := s.flows.Get(fi); {
			case want != keyOpen:
				s.exitFlow(q, fi)
			case f.pos == none && f.next == none:
				opened = append(opened, sortedSlot{servingKey(s.messages.Get(s.first(fi))), fi})
			}
		}
		s.offerKey(q, ki)
		s.dropKey(q, ki)
		ki = next
	}
	inOrder(opened)
	for _, o := range opened {
		s.enterFlow(q, o.slot)
	}
}

// sortedSlot is a slot with what it is sorted by.
type sortedSlot struct {
	key  int64
	slot int32
}

func inOrder(all []sortedSlot) {
	slices.SortFunc(all, func(a, b sortedSlot) int {
		switch {
		case a.key < b.key:
			return -1
		case a.key > b.key:
			return 1
		}
		return 0
	})
}
