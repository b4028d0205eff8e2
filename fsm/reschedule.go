package fsm

// reschedule gives a task that waits another time, body or both. It leaves where it stood, its order group too, and takes a
// new place when it is ready, which is at once where its time has come. Its id, attempts, ttl and history stay.
func (s *State) reschedule(op *Reschedule) Outcome {
	if o := s.checkReschedule(op); o.Code != OK {
		return o
	}
	f, o := s.target(op.Queue, op.TaskID)
	if o.Code != OK {
		return o
	}
	if f.result != none || f.message == none {
		return refuse(FailedPrecondition, FieldTaskID, 0)
	}
	slot := f.message
	m := s.messages.Get(slot)
	if s.isDead(slot) || m.state != StateScheduled && m.state != StateReady && m.state != StateRetrying {
		return refuse(FailedPrecondition, FieldTaskID, 0)
	}
	q := s.queues[m.queue]
	due := s.now
	switch {
	case op.When == AtTime:
		due = op.Time
	case op.When == AfterDelay:
		due += op.Time
		if op.MaxWaitMillis > 0 {
			due = min(due, m.enqueued+op.MaxWaitMillis)
		}
	case m.state != StateReady:
		due = s.sides.Get(m.side).due
	}
	if limit := q.meta.options.MaxBytes; op.HasBody && limit != 0 {
		size := s.replacedSize(m, op)
		more := size - int64(s.arena.Size(m.body))
		switch { // a shorter one is taken, also where the limit came to be lower
		case more <= 0:
		case size > limit:
			return refuse(TooLarge, FieldBytes, limit)
		case s.tallies.Get(q.slot).bytes+more > limit:
			return refuse(QueueFull, FieldBytes, limit)
		}
	}
	s.detach(q, slot, endNone)
	s.leaveLane(q, slot)
	if op.HasBody {
		s.replaceBody(q, slot, op)
	}
	t := s.tallies.Mut(q.slot)
	t.rescheduled++
	o.ID = s.messages.Get(slot).id
	if due <= s.now {
		s.becomeReady(q, slot)
		return o
	}
	sl := s.newSide(slot)
	s.sides.Mut(sl).due = due
	m = s.messages.Mut(slot)
	m.state, m.gen = StateScheduled, t.liveGen
	t.scheduled++
	s.duePush(q, sl)
	s.expose(q, slot)
	o.Count = due
	return o
}

// checkReschedule judges the operation's own fields.
func (s *State) checkReschedule(op *Reschedule) Outcome {
	switch {
	case op.When == KeepTime && !op.HasBody:
		return refuse(InvalidArgument, FieldDelay, 0)
	case op.When == AfterDelay && (op.Time < 0 || op.Time > MaxDelayMillis):
		return refuse(InvalidArgument, FieldDelay, MaxDelayMillis)
	case op.When == AtTime && op.Time < 0:
		return refuse(InvalidArgument, FieldDelay, 0)
	case op.When == AtTime && op.Time-s.now > MaxDelayMillis:
		return refuse(InvalidArgument, FieldDelay, MaxDelayMillis)
	case op.MaxWaitMillis < 0 || op.MaxWaitMillis > MaxDelayMillis:
		return refuse(InvalidArgument, FieldMaxWait, MaxDelayMillis)
	case op.MaxWaitMillis > 0 && op.When != AfterDelay:
		return refuse(InvalidArgument, FieldMaxWait, 0)
	case len(op.Body) > MaxBodyBytes:
		return refuse(TooLarge, FieldBody, MaxBodyBytes)
	case !ValidText(op.ContentType, MaxContentType):
		return refuse(InvalidArgument, FieldContentType, MaxContentType)
	}
	return Outcome{}
}

// replacedSize is what a message will count with another body.
func (s *State) replacedSize(m *message, op *Reschedule) int64 {
	var f fields
	f.parse(m.bits, s.arena.Get(m.body))
	if len(op.ContentType) > 0 {
		f.contentType = op.ContentType
	}
	meta, _ := f.appendMeta(s.meta[:0])
	s.meta = meta
	return int64(len(meta) + len(op.Body))
}

// replaceBody gives a detached message another body. A token of an earlier lease is good for nothing then: the work that it
// stands for was another.
func (s *State) replaceBody(q *queue, slot int32, op *Reschedule) {
	m := s.messages.Mut(slot)
	var f fields
	f.parse(m.bits, s.arena.Get(m.body))
	if len(op.ContentType) > 0 {
		f.contentType = op.ContentType
	}
	meta, has := f.appendMeta(s.meta[:0])
	s.meta = meta
	t := s.tallies.Mut(q.slot)
	t.bytes -= int64(s.arena.Size(m.body))
	s.arena.Free(m.body)
	m.bits = has
	m.body = s.arena.PutParts(owner(ownMessage, slot), meta, op.Body) // no meta: the body alone
	t.bytes += int64(s.arena.Size(m.body))
	if m.hasSide() {
		if sd := s.sides.Get(m.side); !sd.lease.IsZero() {
			s.sides.Mut(m.side).end = endReplaced
		}
	}
}
