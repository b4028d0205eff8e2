package fsm

// writeOrder writes what is set of a queue's order, nothing where all is as by default.
func (v *View) writeOrder(f *frameWriter, slot int32) {
	m := v.metas[slot]
	o := m.options
	limits := o.limits()
	set := o.Ordering != OrderUnordered || o.Paused
	for _, n := range limits {
		set = set || *n != 0
	}
	if !set {
		return
	}
	f.record()
	f.uvarint(uint64(m.number))
	f.u8(uint8(o.Ordering))
	f.bool(o.Paused)
	for _, n := range limits {
		f.varint(*n)
	}
}

// limits are the numbers among a queue's limits, in the order of the format.
func (o *QueueOptions) limits() [4]*int64 {
	return [...]*int64{&o.MaxDepth, &o.MaxBytes, &o.MaxInFlight, &o.MaxAgeMillis}
}

func (rs *restorer) order() {
	s, f := rs.s, rs.f
	var last uint32
	for f.more() {
		q := rs.queue()
		var o QueueOptions
		if q != nil {
			o = q.meta.options
		}
		o.Ordering, o.Paused = Ordering(f.u8()), f.bool()
		set := o.Ordering != OrderUnordered || o.Paused
		for _, n := range o.limits() {
			*n = f.varint()
			set = set || *n != 0
		}
		if f.err() != nil {
			return
		}
		switch {
		case q.meta.number <= last:
			f.fail("order of queue %d after %d", q.meta.number, last)
		case !set:
			f.fail("queue %q has a record of its order and limits, and none of them", q.meta.name)
		}
		if _, err := o.Validate(); f.err() == nil && err != nil {
			f.fail("queue %q: %v", q.meta.name, err)
		}
		if f.err() != nil {
			return
		}
		last = q.meta.number
		q.meta.options = o
		s.countOrdered(q.meta, 1)
	}
}

// hold makes the lanes of messages that are out or retrying: they hold them. Ready ones come after, by place, and wait.
func (rs *restorer) hold() {
	s, f := rs.s, rs.f
	for _, slot := range rs.held {
		m := s.messages.Get(slot)
		q := s.queues[m.queue]
		last, hash, ordered := s.lastOf(q, m)
		switch {
		case !ordered:
		case last != none:
			f.fail("messages %s and %s of one ordered key are both out or retrying", s.messages.Get(last).id, m.id)
			return
		case m.place == 0:
			f.fail("message %s has no place", m.id)
			return
		default:
			s.hold(hash, slot)
		}
	}
	rs.held = nil
}
