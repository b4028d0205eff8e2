package fsm

// writeModes writes how a queue overflows and delivers, nothing where both are as by default.
func (v *View) writeModes(f *frameWriter, slot int32) {
	m := v.metas[slot]
	if m.options.Overflow == 0 && m.options.Delivery == 0 {
		return
	}
	f.record()
	f.uvarint(uint64(m.number))
	f.u8(uint8(m.options.Overflow))
	f.u8(uint8(m.options.Delivery))
}

func (rs *restorer) modes() {
	f := rs.f
	var last uint32
	for f.more() {
		q := rs.queue()
		overflow, delivery := Overflow(f.u8()), DeliveryMode(f.u8())
		switch {
		case f.err() != nil:
			return
		case q.meta.number <= last:
			f.fail("modes of queue %d after %d", q.meta.number, last)
			return
		case overflow >= overflowEnd || delivery >= deliverEnd || overflow == 0 && delivery == 0:
			f.fail("queue %q has overflow %d and delivery %d, want less than %d and %d, not both 0",
				q.meta.name, overflow, delivery, overflowEnd, deliverEnd)
			return
		}
		last = q.meta.number
		q.meta.options.Overflow, q.meta.options.Delivery = overflow, delivery
	}
	// Ready messages are exposed when they are linked.
	rs.s.messages.Each(func(slot int32, m *message) bool {
		if m.state == StateScheduled || m.state == StateRetrying {
			rs.s.expose(rs.s.queues[m.queue], slot)
		}
		return true
	})
}
