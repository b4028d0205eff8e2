package fsm

import (
	"github.com/quorate/quorate/fsm/table"
)

// deadIndex holds dead letters by (failed_at, id): all of them, those of each reason, and those of each (reason, kind), so that
// a page of any of these costs what is on it and a logarithm. It is local: restore makes it anew, no answer shows it.
//
// A queue has two: one of its own dead set, which a dlq purge swaps, and one of what was moved here, which a queue purge swaps.
type deadIndex struct {
	all    table.Order
	reason [ReasonMapping + 1]table.Order
	groups []int32 // slots in State.deadGroups
	// loose counts the letters that are in no group, because there were too many kinds when they came: while there are any, no
	// group is made, and a kind without a group is looked for among all of its reason.
	loose int
}

// deadGroup is the letters of one reason and kind in one index. It is not empty; its kind is that of any of them.
type deadGroup struct {
	order  table.Order
	hash   uint64
	queue  int32
	place  int32 // in deadIndex.groups
	reason DeadReason
	moved  bool // of which of the queue's two
}

// deadFacts are when, why and with what kind a dead letter died: of the death that counts, which for one that was moved is the
// death in its origin, until it dies where it is.
func (s *State) deadFacts(slot int32) (at int64, reason DeadReason) {
	m := s.messages.Get(slot)
	if m.state == StateDead {
		sd := s.sides.Get(m.side)
		return sd.due, sd.reason
	}
	mv := s.moveOf(m)
	return mv.failedAt, mv.reason
}

func (s *State) deadLess(a, b int32) bool {
	ta, _ := s.deadFacts(a)
	tb, _ := s.deadFacts(b)
	if ta != tb {
		return ta < tb
	}
	return s.messages.Get(a).id.Compare(s.messages.Get(b).id) < 0
}

// kindText is a message's kind.
func (s *State) kindText(m *message) []byte {
	if m.bits&hasKind == 0 {
		return nil
	}
	return blobKind(m.bits, s.arena.Get(m.body))
}

func (s *State) newDeadIndex() *deadIndex {
	x := &deadIndex{}
	x.all.Less = s.deadBefore
	for r := range x.reason {
		x.reason[r].Less = s.deadBefore
	}
	return x
}

// indexOf is one of a queue's two, made if need be.
func (s *State) indexOf(q *queue, moved bool) **deadIndex {
	x := &q.deadIx
	if moved {
		x = &q.movedIx
	}
	if *x == nil {
		*x = s.newDeadIndex()
	}
	return x
}

func (s *State) hashGroup(q *queue, moved bool, reason DeadReason, kind []byte) uint64 {
	h := uint64(q.meta.number)<<8 | uint64(reason)<<1
	if moved {
		h |= 1
	}
	return table.HashID(s.hashText(kind), h)
}

// findGroup is the group of a reason and kind.
func (s *State) findGroup(q *queue, moved bool, reason DeadReason, kind []byte) (int32, bool) {
	return s.deadGroupIx.Find(s.hashGroup(q, moved, reason, kind), func(v int32) bool {
		g := s.deadGroups[v]
		if g.queue != q.slot || g.reason != reason || g.moved != moved {
			return false
		}
		var p table.Place
		first, _ := g.order.Next(&p)
		return string(s.kindText(s.messages.Get(first))) == string(kind)
	})
}

// indexDead enters a dead letter; what it is ordered by is set.
func (s *State) indexDead(q *queue, slot int32, moved bool) {
	x := *s.indexOf(q, moved)
	_, reason := s.deadFacts(slot)
	x.all.Insert(slot)
	x.reason[reason].Insert(slot)
	kind := s.kindText(s.messages.Get(slot))
	g, ok := s.findGroup(q, moved, reason, kind)
	switch {
	case ok:
	case x.loose > 0 || len(x.groups) >= s.lim.deadGroups:
		x.loose++
		return
	default:
		if n := len(s.freeGroups); n > 0 {
			g = s.freeGroups[n-1]
			s.freeGroups = s.freeGroups[:n-1]
		} else {
			g = int32(len(s.deadGroups))
			s.deadGroups = append(s.deadGroups, nil)
		}
		h := s.hashGroup(q, moved, reason, kind)
		s.deadGroups[g] = &deadGroup{hash: h, queue: q.slot, place: int32(len(x.groups)), reason: reason, moved: moved,
			order: table.Order{Less: s.deadBefore}}
		x.groups = append(x.groups, g)
		s.deadGroupIx.Insert(h, g)
	}
	s.deadGroups[g].order.Insert(slot)
}

// unindexDead takes a dead letter out, before anything that it is ordered by changes.
func (s *State) unindexDead(q *queue, slot int32, moved bool) {
	x := *s.indexOf(q, moved)
	_, reason := s.deadFacts(slot)
	x.all.Remove(slot)
	x.reason[reason].Remove(slot)
	g, ok := s.findGroup(q, moved, reason, s.kindText(s.messages.Get(slot)))
	if !ok {
		x.loose--
	} else if gr := s.deadGroups[g]; gr.order.Remove(slot) && gr.order.Len() == 0 {
		last := x.groups[len(x.groups)-1]
		x.groups[gr.place] = last
		s.deadGroups[last].place = gr.place
		x.groups = x.groups[:len(x.groups)-1]
		s.freeGroup(g)
	}
	if x.all.Len() == 0 {
		*s.indexOf(q, moved) = nil
	}
}

func (s *State) freeGroup(g int32) {
	s.deadGroupIx.Delete(s.deadGroups[g].hash, g)
	s.deadGroups[g] = nil
	s.freeGroups = append(s.freeGroups, g)
	if len(s.freeGroups) == len(s.deadGroups) {
		s.freeGroups, s.deadGroups = nil, nil
	}
}

// swapIndex drops one of a queue's indexes whole.
func (s *State) swapIndex(q *queue, moved bool) {
	x := s.indexOf(q, moved)
	for _, g := range (*x).groups {
		s.freeGroup(g)
	}
	*x = nil
}

func (s *State) deadBytes(x *deadIndex) (n int64) {
	if x == nil {
		return 0
	}
	n = x.all.Bytes() + int64(cap(x.groups))*4
	for r := range x.reason {
		n += x.reason[r].Bytes()
	}
	for _, g := range x.groups {
		n += s.deadGroups[g].order.Bytes()
	}
	return n
}

// DeadFilter selects dead letters. Its zero value selects all of a queue.
type DeadFilter struct {
	Reason DeadReason // ReasonNone: any
	Kind   []byte     // empty: any
	Since  int64      // failed_at is this or later, T; 0: any
	Until  int64      // failed_at is this or earlier, T; 0: any
}

// Dead lists all dead letters of a queue: see DeadWhere.
func (s *State) Dead(n uint32, afterAt int64, after ID, f func(*Info) bool) (partialAt int64, partial ID) {
	return s.DeadWhere(n, &DeadFilter{}, afterAt, after, f)
}

// DeadWhere lists the dead letters of a queue that pass a filter, its own and those that were moved to it, by (failed_at, id),
// behind the cursor (zero: from the start; a letter of that place need not exist), until f returns false. It costs what it looks
// at and a logarithm. A call looks at no more than ListLimit records: where that ends it, the cursor to go on behind comes
// back, else zero.
func (s *State) DeadWhere(n uint32, w *DeadFilter, afterAt int64, after ID, f func(*Info) bool) (partialAt int64, partial ID) {
	q := s.byNumber(n)
	if q == nil || w.Reason > ReasonMapping {
		return 0, ID{}
	}
	walk := deadWalk{s: s, at: afterAt, id: after}
	if w.Since > walk.at { // before the first of that time
		walk.at, walk.id = w.Since, ID{}
	}
	for _, moved := range [...]bool{false, true} {
		walk.add(q, moved, w)
	}
	var in Info
	for left := ListLimit; ; left-- {
		slot, ok := walk.next()
		if !ok {
			return 0, ID{}
		}
		at, reason := s.deadFacts(slot)
		if w.Until > 0 && at > w.Until {
			return 0, ID{}
		}
		if left == 0 {
			return partialAt, partial
		}
		m := s.messages.Get(slot)
		partialAt, partial = at, m.id
		if !s.alive(m) || w.Reason != ReasonNone && reason != w.Reason || len(w.Kind) > 0 && string(s.kindText(m)) != string(w.Kind) {
			continue
		}
		s.info(slot, &in)
		if !f(&in) {
			return 0, ID{}
		}
	}
}

// deadWalk goes through several orders as if they were one.
type deadWalk struct {
	s    *State
	at   int64 // what comes behind this place
	id   ID
	from []deadSource
}

type deadSource struct {
	order *table.Order
	place table.Place
	head  int32
}

// add picks the narrowest orders of an index that hold all that the filter selects.
func (d *deadWalk) add(q *queue, moved bool, w *DeadFilter) {
	x, since := q.movedIx, int64(0)
	if !moved { // past what has ended and is not yet reclaimed
		x, since = q.deadIx, max(d.s.tallies.Get(q.slot).deadCut, d.s.now-q.meta.options.DeadRetentionMillis+1)
	}
	switch {
	case x == nil:
	case len(w.Kind) == 0 && w.Reason == ReasonNone:
		d.source(&x.all, since)
	case len(w.Kind) == 0:
		d.source(&x.reason[w.Reason], since)
	default:
		for r := ReasonMaxAttempts; r <= ReasonMapping; r++ {
			if w.Reason != ReasonNone && r != w.Reason {
				continue
			}
			if g, ok := d.s.findGroup(q, moved, r, w.Kind); ok {
				d.source(&d.s.deadGroups[g].order, since)
			} else if x.loose > 0 {
				d.source(&x.reason[r], since)
			}
		}
	}
}

func (d *deadWalk) source(o *table.Order, since int64) {
	src := deadSource{order: o}
	src.place = o.Seek(func(slot int32) bool {
		at, _ := d.s.deadFacts(slot)
		return at < since || at < d.at || at == d.at && d.s.messages.Get(slot).id.Compare(d.id) <= 0
	})
	var ok bool
	if src.head, ok = o.Next(&src.place); ok {
		d.from = append(d.from, src)
	}
}

// next is the lowest of the heads.
func (d *deadWalk) next() (slot int32, ok bool) {
	if len(d.from) == 0 {
		return none, false
	}
	low := 0
	for i := range d.from[1:] {
		if d.s.deadLess(d.from[i+1].head, d.from[low].head) {
			low = i + 1
		}
	}
	src := &d.from[low]
	slot = src.head
	if src.head, ok = src.order.Next(&src.place); !ok {
		d.from = append(d.from[:low], d.from[low+1:]...)
	}
	return slot, true
}

// DeadLetter finds a dead letter of a queue by its id, or by the id it had before it was moved there.
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
