package fsm

// writeOrder writes what is set of a queue's order, nothing where all is as by default.
func (v *View) writeOrder(f *frameWriter, slot int32) {
	m := v.metas[slot]
	if m.options.Ordering == OrderUnordered {
		return
	}
	f.record()
	f.uvarint(uint64(m.number))
	f.u8(uint8(m.options.Ordering))
}

func (rs *restorer) order() {
	s, f := rs.s, rs.f
	var last uint32
	for f.more() {
		q := rs.queue()
		ordering := Ordering(f.u8())
		if f.err() != nil {
			return
		}
		switch {
		case q.meta.number <= last:
			f.fail("order of queue %d after %d", q.meta.number, last)
		case ordering == OrderUnordered || ordering >= orderEnd:
			f.fail("queue %q has ordering %d, which is unknown", q.meta.name, ordering)
		}
		if f.err() != nil {
			return
		}
		last = q.meta.number
		q.meta.options.Ordering = ordering
		s.countOrdered(q.meta, 1)
	}
}

// hold makes the lanes of messages that are out or retrying: they hold them. Ready ones come after, by place, and wait.
func (rs *restorer) hold() {
	s, f := rs.s, rs.f
	for _, slot := range rs.held {
		m := s.messages.Get(slot)
		q := s.queues[m.queue]
		ln, key, ordered := s.laneOf(q, m)
		switch {
		case !ordered:
		case ln != none:
			f.fail("messages %s and %s of one ordered key are both out or retrying", s.messages.Get(s.lanes.Get(ln).holder).id, m.id)
			return
		case m.place == 0:
			f.fail("message %s has no place", m.id)
			return
		default:
			s.openLane(q, key, slot)
		}
	}
	rs.held = nil
}
