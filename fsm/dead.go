package fsm

import "github.com/quorate/quorate/fsm/mutant"

// die moves a detached live message to the queue's dead-letter queue, or else to its dead letters, where its last token and its
// history stay with it. Where it is moved the slot is free afterwards.
func (s *State) die(q *queue, slot int32, reason DeadReason) {
	s.unhook(slot, endedDead)
	to, why := s.deadTarget(q, s.messages.Get(slot))
	if to != nil {
		s.moveDead(q, to, slot, reason)
		return
	}
	s.leaveMoved(q, slot)
	s.leaveLane(q, slot)
	sl := s.newSide(slot)
	m, sd, t := s.messages.Mut(slot), s.sides.Mut(sl), s.tallies.Mut(q.slot)
	m.state, m.gen = StateDead, t.deadGen
	sd.due, sd.reason, sd.stay = s.now, reason, why
	if why == stayMissing || why == stayFull {
		t.stayed++
	}
	t.bytes -= int64(s.arena.Size(m.body))
	t.dead++
	s.countDied(q, m, reason)
	s.linkDead(q, slot)
	s.indexDead(q, slot, false)
	s.tellTask(q, m)
	if o := &q.meta.options; o.DeadOverflow == DeadDropOldest {
		// At most so many at once, where the maximum was lowered: the next death goes on. What is over it until then is
		// there, counted and answered for.
		for range MaxReclaim {
			if s.tallies.Get(q.slot).dead <= o.MaxDead {
				break
			}
			oldest := q.dead.head
			if oldest == slot {
				oldest = s.messages.Get(slot).next
			}
			if oldest == none {
				break
			}
			s.tellTask(q, s.messages.Get(oldest))
			s.dropDead(q, oldest)
			s.tallies.Mut(q.slot).deadDropped++
		}
	}
	s.clockFix(clockDead, q)
}

// linkDead enters a dead letter by (failed_at, id). Deaths come in the order of T, so it looks past equals only.
func (s *State) linkDead(q *queue, slot int32) {
	at := q.dead.tail
	for at != none && s.deadLess(slot, at) {
		at = s.messages.Get(at).prev
	}
	m := s.messages.Mut(slot)
	m.prev = at
	if at == none {
		m.next = q.dead.head
		q.dead.head = slot
	} else {
		p := s.messages.Mut(at)
		m.next = p.next
		p.next = slot
	}
	if m.next == none {
		q.dead.tail = slot
	} else {
		s.messages.Mut(m.next).prev = slot
	}
}

// dropDead removes a dead letter for good.
func (s *State) dropDead(q *queue, slot int32) {
	s.unindexDead(q, slot, false)
	s.unlink(&q.dead, s.messages.Mut(slot))
	s.tallies.Mut(q.slot).dead--
	s.groupCount--
	s.dropMessage(slot)
}

// findDead is a dead letter of a queue by its id, or by the id it had before it was moved there.
func (s *State) findDead(q *queue, id ID) (int32, bool) {
	slot, ok := s.find(id)
	if !ok {
		if slot, ok = s.findMoved(id); !ok {
			return none, false
		}
	}
	m := s.messages.Get(slot)
	return slot, m.queue == q.slot && (m.state == StateDead || m.flags&flagMoved != 0)
}

// forgetDead removes a dead letter for good, wherever it is kept.
func (s *State) forgetDead(q *queue, slot int32) {
	if s.messages.Get(slot).state == StateDead {
		s.dropDead(q, slot)
		return
	}
	s.detach(q, slot, endNone)
	s.finish(q, slot)
}

// deadBatch runs an operation over dead letters: one outcome for each id.
func (s *State) deadBatch(r Request, name []byte, ids []ID, run func(q *queue, slot int32) Outcome) {
	ses := s.openRequest(r)
	q := s.findQueue(name)
	for i, id := range ids {
		var o Outcome
		if s.admit(ses, r, uint64(i), &o) {
			switch {
			case len(ids) > MaxDeadIDs:
				o = refuse(InvalidArgument, FieldBatch, MaxDeadIDs)
			case q == nil:
				o = refuse(NotFound, FieldQueue, 0)
			default:
				if slot, ok := s.findDead(q, id); ok {
					o = run(q, slot)
				} else {
					o = refuse(NotFound, FieldNone, 0)
				}
			}
			s.remember(ses, r.Number+uint64(i), &o)
		}
		s.emit(o)
	}
	if q != nil {
		s.clockFix(clockDead, q)
	}
}

// deadRequeue makes dead letters live again, each afresh under a new id at the end of its queue.
func (s *State) deadRequeue(op *DeadRequeue) {
	s.deadBatch(op.Request, op.Queue, op.IDs, func(q *queue, slot int32) Outcome { return s.requeue(q, slot, nil) })
}

// requeueTo is the queue that a dead letter goes back to, nil where it is gone, and why it cannot, whatever its size is.
func (s *State) requeueTo(q *queue, m *message) (to *queue, o Outcome) {
	if m.flags&flagMoved == 0 {
		t, opt := s.tallies.Get(q.slot), &q.meta.options
		switch { // no more dead letters and no more messages than before: other maxima cannot be passed
		case t.live() >= s.lim.queueMessages:
			o = refuse(QueueFull, FieldTasks, s.lim.queueMessages)
		case opt.MaxDepth != 0 && t.live() >= opt.MaxDepth:
			o = refuse(QueueFull, FieldDepth, opt.MaxDepth)
		case t.resultBytes >= opt.MaxResultsBytes:
			o = refuse(QueueFull, FieldResults, opt.MaxResultsBytes)
		}
		return q, o
	}
	if to = s.home(m); to == nil {
		return nil, refuse(NotFound, FieldOrigin, 0)
	}
	return to, s.takes(to)
}

// requeue makes a dead letter live again where it came from, with what edit sets anew.
func (s *State) requeue(q *queue, slot int32, edit *DeadEdit) (o Outcome) {
	m := *s.messages.Get(slot)
	if m.state == StateLeased {
		return refuse(FailedPrecondition, FieldOut, 0)
	}
	to, full := s.requeueTo(q, &m)
	if to == nil {
		return full
	}
	if edit != nil && edit.Fields&EditPriority != 0 {
		if o = checkOrder(&to.meta.options, &edit.Message); o.Code != OK {
			return o
		}
	}
	var ttl int64
	if m.flags&flagMoved != 0 {
		mv := s.moveOf(&m)
		ttl, m.priority = mv.ttl, mv.priority
	} else if sd := s.sides.Get(m.side); sd.expires != 0 {
		ttl = sd.expires - m.enqueued
	}
	var f fields
	f.parse(m.bits, s.arena.Get(m.body))
	var text [32]byte
	if f.origin.IsZero() {
		f.origin, f.originAt = m.id, m.enqueued
	}
	if f.task == nil { // the task keeps its name, which was the message's id
		f.task = AppendID(text[:0], m.id)
	}
	if f.redrives < 1<<32-1 {
		f.redrives++
	}
	scratch, due := s.meta[:0], s.now
	if edit != nil {
		scratch = s.edit(edit, &f, &m.priority, &ttl, &due, scratch)
	}
	n := len(scratch)
	scratch, has := f.appendMeta(scratch)
	s.meta = scratch
	size := int64(len(scratch) - n + len(f.body))
	if o = to.neverFits(size); o.Code != OK { // no waiting helps it, as it does where the queue is full
		return o
	}
	if full.Code != OK {
		return full
	}
	if most := to.meta.options.MaxBytes; most != 0 && s.tallies.Get(to.slot).bytes+size > most {
		return refuse(QueueFull, FieldBytes, most)
	}
	var expires int64
	if ttl != 0 {
		expires = s.now + ttl
	}
	id := s.nextID()
	if to.meta.options.Ordering != OrderUnordered { // it may be from before the queue was ordered
		m.priority = DefaultPriority
	}
	at := s.insert(to, id, m.priority, has, scratch[n:], f.body, due, expires)
	if !mutant.DoubleDeadLetter {
		s.forgetDead(q, slot)
	}
	s.messages.Mut(at).flags |= m.flags & flagPushed
	s.tallies.Mut(to.slot).redriven++
	o.ID = id
	return o
}

func (s *State) deadDelete(op *DeadDelete) {
	s.deadBatch(op.Request, op.Queue, op.IDs, s.deleteDead)
}

func (s *State) deleteDead(q *queue, slot int32) Outcome {
	m := s.messages.Get(slot)
	if m.state == StateLeased {
		return refuse(FailedPrecondition, FieldOut, 0)
	}
	s.tellTask(q, m)
	s.forgetDead(q, slot)
	return Outcome{}
}

func (s *State) deadPurge(op *DeadPurge, o *Outcome) {
	q := s.findQueue(op.Queue)
	if q == nil {
		*o = refuse(NotFound, FieldQueue, 0)
		return
	}
	o.Count = s.purgeDead(q)
	s.fx.Purged = append(s.fx.Purged, q.meta.number)
}

// tellTask tells the leader that a task of the queue has reached an end.
func (s *State) tellTask(q *queue, m *message) {
	if !s.telling {
		return
	}
	s.fx.Tasks = append(s.fx.Tasks, TaskEnd{Message: m.id, Queue: s.homeNumber(m), TaskHash: s.taskHash(q, m)})
}
