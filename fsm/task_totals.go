package fsm

// writeTaskTotals writes what a queue has counted of operations on tasks, if anything.
func (v *View) writeTaskTotals(f *frameWriter, slot int32) {
	t := v.tallies.Get(slot)
	if t.cancelled == 0 && t.rescheduled == 0 {
		return
	}
	f.record()
	f.uvarint(uint64(v.metas[slot].number))
	f.varint(t.cancelled)
	f.varint(t.rescheduled)
}

func (rs *restorer) taskTotals() {
	s, f := rs.s, rs.f
	var last uint32
	for f.more() {
		q := rs.queue()
		cancelled, rescheduled := f.varint(), f.varint()
		if f.err() != nil {
			return
		}
		if q.meta.number <= last || cancelled < 0 || rescheduled < 0 || cancelled == 0 && rescheduled == 0 {
			f.fail("totals of queue %q are out of order or range: %d, %d", q.meta.name, cancelled, rescheduled)
			return
		}
		last = q.meta.number
		t := s.tallies.Mut(q.slot)
		t.cancelled, t.rescheduled = cancelled, rescheduled
	}
}
