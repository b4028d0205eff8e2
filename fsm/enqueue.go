package fsm

import "github.com/quorate/quorate/fsm/mutant"

// enqueueBatch applies an Enqueue: one outcome for each message, in order.
func (s *State) enqueueBatch(op *Enqueue) {
	ses := s.openRequest(op.Request)
	q := s.findQueue(op.Queue)
	if q != nil {
		s.lookAtKeys(q, op.Messages)
	}
	for i := range op.Messages {
		var o Outcome
		if s.admit(ses, op.Request, uint64(i), &o) {
			switch {
			case len(op.Messages) > MaxBatch:
				o = refuse(InvalidArgument, FieldBatch, MaxBatch)
			case q == nil && !ValidQueueName(op.Queue):
				o = refuse(InvalidArgument, FieldQueue, MaxQueueName)
			case q == nil && !op.AutoCreate:
				o = refuse(NotFound, FieldQueue, 0)
			default:
				o = s.checkMessage(&op.Messages[i])
				if o.Code == OK && q != nil {
					o = checkOrder(&q.meta.options, &op.Messages[i])
				}
				if o.Code == OK && q == nil {
					q, o = s.queueFor(op.Queue, &op.Messages[i])
				}
				if o.Code == OK {
					o = s.enqueue(q, &op.Messages[i], false)
				} else if q != nil {
					s.countRefused(q, &o)
				}
			}
			s.remember(ses, op.Request.Number+uint64(i), &o)
		}
		s.emit(o)
	}
}

// autoCreate makes a queue with the default options, nil if the group has too many.
func (s *State) autoCreate(name []byte) *queue {
	var options QueueOptions
	options.Normalize()
	q, _ := s.makeQueue(name, options)
	return q
}

// queueFor makes the missing queue of a message that nothing keeps out: one that is refused leaves no queue behind.
func (s *State) queueFor(name []byte, m *Message) (q *queue, o Outcome) {
	if s.groupCount >= s.lim.groupMessages {
		return nil, refuse(Overloaded, FieldTasks, s.lim.groupMessages)
	}
	if o = s.checkHook(m, nil); o.Code != OK {
		return nil, o
	}
	if q = s.autoCreate(name); q == nil {
		o = refuse(Overloaded, FieldQueues, s.lim.queues)
	}
	return q, o
}

// checkMessage judges what does not depend on the queue.
func (s *State) checkMessage(m *Message) Outcome {
	if f, limit, ok := ValidateMessage(m, 0); !ok {
		if f == FieldBody {
			return refuse(TooLarge, f, limit)
		}
		return refuse(InvalidArgument, f, limit)
	}
	if m.DueAt > s.now+MaxDelayMillis {
		return refuse(InvalidArgument, FieldDelay, MaxDelayMillis)
	}
	return Outcome{}
}

// neverFits refuses what a queue can never take, however much of it ends: a message of so many bytes, beside what the ack being
// checked brings before it and what that acks, if any. No waiting helps it, so it is not for a client to try again.
func (q *queue) neverFits(size int64) Outcome {
	o, p := &q.meta.options, &q.pending
	switch {
	case o.MaxDepth != 0 && p.stays+p.messages+1 > o.MaxDepth:
		return refuse(TooLarge, FieldDepth, o.MaxDepth)
	case o.MaxBytes != 0 && p.staysBytes+p.bytes+size > o.MaxBytes:
		return refuse(TooLarge, FieldBytes, o.MaxBytes)
	}
	return Outcome{}
}

// room says whether a queue takes a new message, with a dedup key or without. drops: it may be made to, by dropping others, which
// are planned then.
func (s *State) room(q *queue, m *Message, drops bool) Outcome {
	dedup := m.HasDedup
	t, o := s.tallies.Get(q.slot), &q.meta.options
	drops = drops && o.Overflow == OverflowDropOldest
	size := int64(0)
	if o.MaxBytes != 0 {
		size = s.blobSize(m)
	}
	if r := q.neverFits(size); r.Code != OK {
		return r
	}
	switch {
	case s.groupCount+s.pending >= s.lim.groupMessages:
		return refuse(Overloaded, FieldTasks, s.lim.groupMessages)
	case t.live()+q.pending.messages >= s.lim.queueMessages:
		return refuse(QueueFull, FieldTasks, s.lim.queueMessages)
	}
	if (o.MaxDepth != 0 || o.MaxBytes != 0) && !mutant.QuotaBypass {
		switch depth, bytes := s.excess(q, size); {
		case depth == 0 && bytes == 0:
		case drops:
			if r := s.makeRoom(q, size); r.Code != OK {
				return r
			}
		case depth > 0:
			return refuse(QueueFull, FieldDepth, o.MaxDepth)
		default:
			return refuse(QueueFull, FieldBytes, o.MaxBytes)
		}
	}
	switch {
	case o.DeadOverflow == DeadRefuse && t.dead >= o.MaxDead:
		return refuse(QueueFull, FieldDead, o.MaxDead)
	case t.resultBytes >= o.MaxResultsBytes:
		return refuse(QueueFull, FieldResults, o.MaxResultsBytes)
	case dedup && t.dedups+q.pending.dedups >= o.DedupMaxKeys:
		return refuse(QueueFull, FieldDedup, o.DedupMaxKeys)
	case o.RatePerKeyMilli != 0 && len(m.Key) > 0 && int64(q.debts.Len()) >= s.lim.keyDebts:
		return refuse(QueueFull, FieldRatePerKey, s.lim.keyDebts)
	}
	return Outcome{}
}

// enqueue adds a message that checkMessage passed. With admitted, room has been judged already, for a whole ack.
func (s *State) enqueue(q *queue, m *Message, admitted bool) (o Outcome) {
	if m.HasDedup {
		if sl, ok := s.findDedup(q, &m.DedupKey); ok {
			return s.dedupAnswer(q, sl, m)
		}
	}
	if len(m.TaskID) > 0 {
		if f := s.resolve(q, m.TaskID, true); f.any() {
			o = refuse(AlreadyExists, FieldTaskID, 0)
			s.countRefused(q, &o)
			o.ID, o.Task, o.HasResult = s.answerOf(f)
			return o
		}
	}
	if !admitted {
		o = s.room(q, m, true)
		if o.Code == OK {
			o = s.checkHook(m, nil)
		}
		if o.Code != OK {
			s.unplan()
			s.countRefused(q, &o)
			return o
		}
	}

	meta, has := s.encodeMeta(m)
	var expires int64
	if ttl := orDefault(m.TTLMillis, q.meta.options.MaxAgeMillis); ttl > 0 {
		expires = s.now + ttl
	}
	due := m.DueAt
	if due == 0 {
		due = s.now + m.DelayMillis
	}
	id := s.nextID()
	slot := s.insert(q, id, m.Priority, has, meta, m.Body, due, expires)
	if m.hooked() {
		s.hook(slot, m)
	}
	s.tallies.Mut(q.slot).enqueued++
	if m.HasDedup {
		s.addDedup(q, id, m)
	}
	if !admitted { // else the ack does, when all of its messages are in
		s.dropPlanned()
	}
	o.ID = id
	return o
}

// encodeMeta encodes the optional fields of a message. They are good until the next call of anything.
func (s *State) encodeMeta(m *Message) (meta []byte, has uint8) {
	f := fields{task: m.TaskID, kind: m.Kind, contentType: m.ContentType, key: m.Key, timeout: m.TimeoutMillis}
	scratch := s.meta[:0]
	if len(m.Headers) > 0 {
		scratch = appendHeaders(scratch, m.Headers)
		f.headers = scratch
	}
	if m.Retry.Kind != RetryDefault {
		n := len(scratch)
		m.Retry.Normalize()
		scratch = appendPolicy(scratch, &m.Retry)
		f.retry = scratch[n:]
	}
	n := len(scratch)
	scratch, has = f.appendMeta(scratch)
	s.meta = scratch
	return scratch[n:], has
}

// blobSize is what a message will count against max_bytes.
func (s *State) blobSize(m *Message) int64 {
	meta, _ := s.encodeMeta(m)
	return int64(len(meta) + len(m.Body))
}

// insert makes a live message and puts it where it belongs: ready, or scheduled until due.
func (s *State) insert(q *queue, id ID, priority, has uint8, meta, body []byte, due, expires int64) int32 {
	return s.insertWith(q, id, priority, has, meta, body, due, expires, none)
}

// insertWith is insert for a message that has a move, which is filled in but for the message.
func (s *State) insertWith(q *queue, id ID, priority, has uint8, meta, body []byte, due, expires int64, mv int32) int32 {
	slot := s.messages.Alloc()
	m := s.messages.Mut(slot)
	*m = message{id: id, enqueued: s.now, queue: q.slot, next: none, prev: none, side: none, priority: priority, bits: has}
	if mv != none {
		m.flags = flagMoved
		s.linkMove(mv, slot)
	}
	if has == 0 {
		m.body = s.arena.PutBytes(owner(ownMessage, slot), body)
	} else {
		m.body = s.arena.PutParts(owner(ownMessage, slot), meta, body)
	}
	t := s.tallies.Mut(q.slot)
	t.bytes += int64(len(body))
	if has != 0 {
		t.bytes += int64(len(meta))
	}
	s.groupCount++
	s.indexMessage(slot)
	if expires != 0 || due > s.now {
		sl := s.newSide(slot)
		sd := s.sides.Mut(sl)
		sd.expires = expires
		if due > s.now {
			sd.due = due
			m.state, m.gen = StateScheduled, t.liveGen
			t.scheduled++
			s.duePush(q, sl)
			s.expose(q, slot)
			return slot
		}
	}
	s.becomeReady(q, slot)
	return slot
}
