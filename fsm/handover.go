package fsm

// In a queue that delivers at most once, leasing acknowledges: the message is done in the operation that hands it over, nothing is
// out afterwards, and its token is good for an ack that changes nothing. The leader sends the body after the entry, from a record
// that is parked until the next one: nobody can find it, count it or see it in a view, and no snapshot holds it.

// handOver takes a ready message out for good and parks it.
func (s *State) handOver(q *queue, slot int32) (lease ID) {
	s.dueRemove(q, s.messages.Get(slot).side)
	s.shelter(q, slot)
	s.serveReady(q, slot, false)
	s.charge(q)
	lease = s.nextID()
	m := s.messages.Get(slot)
	s.countReady(q, m, -1)
	s.countAcked(q, m)
	s.tellTask(q, m)
	if m.flags&flagMoved != 0 {
		s.addTomb(q, m, lease, tombClosed)
	} else {
		s.addTomb(q, m, lease, tombTaken)
	}
	s.leave(q, slot)
	s.unindexMessage(slot)
	p := s.messages.Mut(slot)
	p.state, p.gen, p.flags = StateDone, s.tallies.Get(q.slot).liveGen-1, 0
	s.parked = append(s.parked, slot)
	return lease
}

// clearParked gives back what the entry before has handed over.
func (s *State) clearParked() {
	for _, slot := range s.parked {
		s.freeMessage(slot)
	}
	s.parked = s.parked[:0]
}

// deliverParked fills d for a message that was handed over in the last entry.
func (s *State) deliverParked(m *message, t Token, d *Delivery) bool {
	q := s.queues[m.queue]
	if m.id != t.Message || q == nil || q.gone { // the same entry has deleted the queue, whose slot may be free already
		return false
	}
	s.describe(m, d)
	d.Token, d.Attempt, d.Once = t, 1, true
	d.Queue = q.meta.name
	return true
}
