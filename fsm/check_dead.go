package fsm

import "github.com/quorate/quorate/fsm/table"

// dead checks moves, and the indexes that list dead letters.
func (c *checker) dead() {
	s := c.s
	moved := 0
	s.messages.Each(func(slot int32, m *message) bool {
		if m.flags&flagMoved == 0 {
			return true
		}
		moved++
		sl, ok := s.moveID.Find(hashID(m.id), func(v int32) bool { return s.moves.Get(v).message == slot })
		if !ok {
			c.bad("message %s was moved and has no move", m.id)
			return true
		}
		mv := s.moves.Get(sl)
		c.blob("history of the move", m.id, mv.history, owner(ownMove, sl))
		if _, ok := s.moveOld.Find(hashID(mv.old), func(v int32) bool { return v == sl }); !ok {
			c.bad("message %s is not found by the id %s that it had", m.id, mv.old)
		}
		if (mv.worker == none) != mv.lease.IsZero() || mv.origin == 0 || mv.reason == ReasonNone || m.bits&hasTask == 0 || m.bits&hasRedrive == 0 {
			c.bad("message %s has a move that lacks something", m.id)
		}
		if q := s.byNumber(mv.origin); q != nil && q.meta.name != string(s.workerText(mv.name)) {
			c.bad("message %s is from queue %q, its move says %q", m.id, q.meta.name, s.workerText(mv.name))
		}
		return true
	})
	if s.moves.Len() != moved || s.moveID.Len() != moved || s.moveOld.Len() != moved {
		c.bad("%d moves, %d by id, %d by the id before, a scan finds %d", s.moves.Len(), s.moveID.Len(), s.moveOld.Len(), moved)
	}
	groups, namers := 0, map[string]int32{}
	for _, slot := range s.names {
		if name := s.queues[slot].meta.options.DeadLetterQueue; name != "" {
			namers[name]++
			namers[""]++
		}
	}
	for _, slot := range s.names {
		q := s.queues[slot]
		groups += c.deadIndex(q, false) + c.deadIndex(q, true)
		if q.namers != namers[q.meta.name] {
			c.bad("queue %q counts %d queues whose dead-letter queue it is, a scan finds %d", q.meta.name, q.namers, namers[q.meta.name])
		}
	}
	if s.deadNamers != int64(namers[""]) {
		c.bad("%d queues with a dead-letter queue, a scan finds %d", s.deadNamers, namers[""])
	}
	if s.deadGroupIx.Len() != groups || len(s.deadGroups)-len(s.freeGroups) != groups {
		c.bad("%d groups of dead letters indexed, %d in use, queues have %d", s.deadGroupIx.Len(), len(s.deadGroups)-len(s.freeGroups), groups)
	}
}

// deadIndex checks one of a queue's two indexes against the records, and counts its groups.
func (c *checker) deadIndex(q *queue, moved bool) int {
	s, t := c.s, c.s.tallies.Get(q.slot)
	x, want := q.deadIx, t.dead
	if moved {
		x, want = q.movedIx, t.moved
	}
	if x == nil {
		if want != 0 {
			c.bad("queue %q lists none of %d dead letters", q.meta.name, want)
		}
		return 0
	}
	var scanned int64
	s.messages.Each(func(slot int32, m *message) bool {
		if m.queue != q.slot {
			return true
		}
		if moved && m.flags&flagMoved != 0 && m.state != StateDead && (m.state == StateLeased || m.gen == t.liveGen) ||
			!moved && m.state == StateDead && m.gen == t.deadGen {
			scanned++
		}
		return true
	})
	seen := map[int32]DeadReason{}
	prev := none
	each := func(o *table.Order, f func(slot int32)) (n int64) {
		var p table.Place
		for slot, ok := o.Next(&p); ok; slot, ok = o.Next(&p) {
			f(slot)
			n++
		}
		return n
	}
	all := each(&x.all, func(slot int32) {
		m := s.messages.Get(slot)
		if !s.messages.Live(slot) || m.queue != q.slot || prev != none && !s.deadLess(prev, slot) {
			c.bad("queue %q: dead letter %s is out of place in its index", q.meta.name, m.id)
		}
		_, seen[slot] = s.deadFacts(slot)
		prev = slot
	})
	if all != want || scanned != want || int(all) != x.all.Len() || len(seen) != int(all) {
		c.bad("queue %q (moved %t): %d dead letters listed, %d counted, a scan finds %d", q.meta.name, moved, all, want, scanned)
	}
	var byReason, byGroup int64
	for r := range x.reason {
		byReason += each(&x.reason[r], func(slot int32) {
			if why, ok := seen[slot]; !ok || why != DeadReason(r) {
				c.bad("queue %q: dead letter %s is listed for reason %d", q.meta.name, s.messages.Get(slot).id, r)
			}
		})
	}
	for i, at := range x.groups {
		g := s.deadGroups[at]
		if g == nil || g.queue != q.slot || g.moved != moved || int(g.place) != i || g.order.Len() == 0 {
			c.bad("queue %q: group %d does not belong", q.meta.name, at)
			continue
		}
		var p table.Place
		first, _ := g.order.Next(&p)
		kind := string(s.kindText(s.messages.Get(first)))
		if found, ok := s.findGroup(q, moved, g.reason, []byte(kind)); !ok || found != at {
			c.bad("queue %q: group of reason %d and kind %q is not found", q.meta.name, g.reason, kind)
		}
		byGroup += each(&g.order, func(slot int32) {
			if why, ok := seen[slot]; !ok || why != g.reason || string(s.kindText(s.messages.Get(slot))) != kind {
				c.bad("queue %q: dead letter %s is listed for reason %d, kind %q", q.meta.name, s.messages.Get(slot).id, g.reason, kind)
			}
		})
	}
	if byReason != all || byGroup+int64(x.loose) != all || len(x.groups) > deadGroups {
		c.bad("queue %q: of %d dead letters %d are listed by reason, %d by kind and %d loose", q.meta.name, all, byReason, byGroup, x.loose)
	}
	return len(x.groups)
}
