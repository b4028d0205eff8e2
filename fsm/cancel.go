package fsm

// A task is cancelled by making its tombstone, outcome cancelled, at once. A message that is not out goes with that. One
// that is out stays, flagged: it is leased for its consumer, its queue and its token, and is nothing to everyone else, who
// finds the tombstone. However its lease ends, it vanishes then.

// target finds the task that an operation names: by its queue and id, or by a broker id alone. o says why there is none.
func (s *State) target(queue, task []byte) (f found, o Outcome) {
	f = found{none, none, none}
	switch {
	case len(task) == 0 || !ValidText(task, MaxTaskID):
		return f, refuse(InvalidArgument, FieldTaskID, MaxTaskID)
	case len(queue) > 0 && !ValidQueueName(queue):
		return f, refuse(InvalidArgument, FieldQueue, MaxQueueName)
	}
	q := s.findQueue(queue)
	if len(queue) == 0 {
		if _, ok := ParseIDBytes(task); !ok {
			return f, refuse(InvalidArgument, FieldQueue, MaxQueueName)
		}
	} else if q == nil {
		return f, refuse(NotFound, FieldQueue, 0)
	}
	if f = s.resolve(q, task, false); !f.any() {
		return f, refuse(NotFound, FieldTaskID, 0)
	}
	return f, o
}

// cancel ends a task. What has a result, is done or dead has ended already.
func (s *State) cancel(op *Cancel) (o Outcome) {
	f, o := s.target(op.Queue, op.TaskID)
	if o.Code != OK {
		return o
	}
	if f.result == none && f.tomb != none && s.tombs.Get(f.tomb).outcome() == tombCancelled {
		o = Outcome{ID: s.tombs.Get(f.tomb).id, Duplicate: true}
		if _, out := s.findCancelled(o.ID); out {
			o.Count = 1
		}
		return o
	}
	if f.result != none || f.message == none || s.isDead(f.message) {
		return refuse(FailedPrecondition, FieldTaskID, 0)
	}
	slot := f.message
	m := s.messages.Get(slot)
	q := s.queues[m.queue]
	var lease ID
	if m.hasSide() {
		lease = s.sides.Get(m.side).lease
	}
	o.ID = m.id
	s.unhook(slot, endedCancelled) // now, not when its lease ends
	s.addTomb(q, m, lease, tombCancelled)
	s.tellTask(q, m)
	s.tallies.Mut(q.slot).cancelled++
	if m.state == StateLeased {
		s.messages.Mut(slot).flags |= flagCancelled
		sd := s.sides.Get(m.side)
		s.fx.Cancelled = append(s.fx.Cancelled, LeaseEnd{
			Token: Token{Message: m.id, Lease: sd.lease}, Consumer: s.consumers.Get(sd.consumer).who,
		})
		o.Count = 1
		return o
	}
	s.detach(q, slot, endNone)
	s.finish(q, slot)
	return o
}

// answerCancelled is what a worker's word on a cancelled task gets. Its ack, nack or release frees the slot; slot none:
// that has happened.
func (s *State) answerCancelled(slot int32, ends bool) Outcome {
	if slot != none && ends {
		s.endCancelled(slot, endNone)
	}
	return refuse(Cancelled, FieldToken, 0)
}

// endCancelled ends the lease of a cancelled message, and with it the message.
func (s *State) endCancelled(slot int32, end leaseEnd) {
	q := s.queues[s.messages.Get(slot).queue]
	s.detach(q, slot, end)
	s.finish(q, slot)
}

// findCancelled is the message of a cancelled task that is still out.
func (s *State) findCancelled(id ID) (int32, bool) {
	slot, ok := s.find(id)
	if !ok || s.messages.Get(slot).flags&flagCancelled == 0 {
		return none, false
	}
	return slot, true
}

// LeaseCancelled says whether a lease is live while its task is cancelled.
func (s *State) LeaseCancelled(t Token) bool {
	slot, ok := s.findCancelled(t.Message)
	return ok && s.sides.Get(s.messages.Get(slot).side).lease == t.Lease
}
