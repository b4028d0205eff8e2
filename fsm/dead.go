package fsm

// die moves a detached live message to the queue's dead letters, where its last token and its history stay with it.
func (s *State) die(q *queue, slot int32, reason DeadReason) {
	s.unhook(slot, endedDead)
	sl := s.newSide(slot)
	m, sd, t := s.messages.Mut(slot), s.sides.Mut(sl), s.tallies.Mut(q.slot)
	m.state, m.gen = StateDead, t.deadGen
	sd.due, sd.reason = s.now, reason
	t.bytes -= int64(s.arena.Size(m.body))
	t.dead++
	t.died++
	t.diedBy[reason]++
	s.linkDead(q, slot)
	s.tellTask(q, m)
	s.leaveLane(q, slot)
	if o := &q.meta.options; o.DeadOverflow == DeadDropOldest {
		// At most so many at once, where the maximum was lowered: the next death goes on.
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

func (s *State) deadLess(a, b int32) bool {
	ma, mb := s.messages.Get(a), s.messages.Get(b)
	if ta, tb := s.sides.Get(ma.side).due, s.sides.Get(mb.side).due; ta != tb {
		return ta < tb
	}
	return ma.id.Compare(mb.id) < 0
}

// dropDead removes a dead letter for good.
func (s *State) dropDead(q *queue, slot int32) {
	s.unlink(&q.dead, s.messages.Mut(slot))
	s.tallies.Mut(q.slot).dead--
	s.groupCount--
	s.dropMessage(slot)
}

// findDead is a dead letter of a queue by its id.
func (s *State) findDead(q *queue, id ID) (int32, bool) {
	slot, ok := s.find(id)
	if !ok {
		return none, false
	}
	m := s.messages.Get(slot)
	return slot, m.queue == q.slot && m.state == StateDead
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
	s.deadBatch(op.Request, op.Queue, op.IDs, s.requeue)
}

func (s *State) requeue(q *queue, slot int32) (o Outcome) {
	t, opt := s.tallies.Get(q.slot), &q.meta.options
	switch { // no more dead letters and no more messages than before: other maxima cannot be passed
	case t.live() >= s.lim.queueMessages:
		return refuse(QueueFull, FieldTasks, s.lim.queueMessages)
	case opt.MaxDepth != 0 && t.live() >= opt.MaxDepth:
		return refuse(QueueFull, FieldDepth, opt.MaxDepth)
	case t.resultBytes >= opt.MaxResultsBytes:
		return refuse(QueueFull, FieldResults, opt.MaxResultsBytes)
	}
	m := *s.messages.Get(slot)
	sd := s.sides.Get(m.side)
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
	meta, has := f.appendMeta(s.meta[:0])
	s.meta = meta
	if opt.MaxBytes != 0 && t.bytes+int64(len(meta)+len(f.body)) > opt.MaxBytes {
		return refuse(QueueFull, FieldBytes, opt.MaxBytes)
	}
	var expires int64
	if sd.expires != 0 {
		expires = s.now + (sd.expires - m.enqueued)
	}
	id := s.nextID()
	if opt.Ordering != OrderUnordered { // it may be from before the queue was ordered
		m.priority = DefaultPriority
	}
	at := s.insert(q, id, m.priority, has, meta, f.body, s.now, expires)
	s.dropDead(q, slot)
	s.messages.Mut(at).flags |= m.flags & flagPushed
	s.tallies.Mut(q.slot).redriven++
	o.ID = id
	return o
}

func (s *State) deadDelete(op *DeadDelete) {
	s.deadBatch(op.Request, op.Queue, op.IDs, s.deleteDead)
}

func (s *State) deleteDead(q *queue, slot int32) Outcome {
	s.tellTask(q, s.messages.Get(slot))
	s.dropDead(q, slot)
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
	s.fx.Tasks = append(s.fx.Tasks, TaskEnd{Message: m.id, Queue: q.meta.number, TaskHash: s.taskHash(q, m)})
}
