package fsm

import "github.com/quorate/quorate/fsm/arena"

// move is what a message that died elsewhere and was moved to its queue's dead-letter queue keeps of that: 88 bytes. It goes
// when the message does. Task id and first id are in the message's blob.
type move struct {
	old      ID    // its id where it died
	lease    ID    // position of its last lease there; zero: never leased
	failedAt int64 // T
	cutoff   int64 // what a repeated nack is answered: the due time of a retry, 0 where it died by it
	ttl      int64 // ms that its ttl was long, 0 none: it has it again when it is requeued
	history  arena.Ref
	origin   uint32 // number of the queue where it died, whose task it still is
	message  int32  // slot
	name     int32  // of that queue: shared texts are the workers'
	worker   int32  // of the last lease there; none: never leased
	attempts uint16
	end      leaseEnd // how that lease ended
	reason   DeadReason
	priority uint8 // that it had there: it has it again when it is requeued
}

// Why a dead letter stays in its own queue though that names a dead-letter queue. Numbers are part of the snapshot format.
type stayed uint8

const (
	stayNot     stayed = iota // no dead-letter queue is named
	stayMissing               // it does not exist
	stayFull                  // it takes no message
	stayHere                  // this queue is a dead-letter queue itself
	stayEnd
)

// StayReason says why a dead letter stays in its own dead set although its queue names a dead-letter queue.
type StayReason uint8

// Reasons.
const (
	StayNone    = StayReason(stayNot)     // no dead-letter queue was named
	StayMissing = StayReason(stayMissing) // the dead-letter queue did not exist
	StayFull    = StayReason(stayFull)    // the dead-letter queue was full
	StayHere    = StayReason(stayHere)    // what dies in a dead-letter queue stays in it
)

// moveSlot is the move of a message that has one.
func (s *State) moveSlot(m *message) int32 {
	sl, _ := s.moveID.Find(hashID(m.id), func(v int32) bool { return s.messages.Get(s.moves.Get(v).message).id == m.id })
	return sl
}

func (s *State) moveOf(m *message) *move { return s.moves.Get(s.moveSlot(m)) }

// findMoved is the message that had an id before it was moved.
func (s *State) findMoved(old ID) (int32, bool) {
	sl, ok := s.moveOld.Find(hashID(old), func(v int32) bool {
		mv := s.moves.Get(v)
		return mv.old == old && s.alive(s.messages.Get(mv.message))
	})
	if !ok {
		return none, false
	}
	return s.moves.Get(sl).message, true
}

// home is the queue whose task a message is, nil where that queue was deleted.
func (s *State) home(m *message) *queue {
	if m.flags&flagMoved == 0 {
		return s.queues[m.queue]
	}
	return s.byNumber(s.moveOf(m).origin)
}

// homeNumber is the number of the queue whose task a message is, or was.
func (s *State) homeNumber(m *message) uint32 {
	if m.flags&flagMoved == 0 {
		return s.queues[m.queue].meta.number
	}
	return s.moveOf(m).origin
}

// deadTarget is the queue that what dies in q is moved to, nil if it stays and why.
func (s *State) deadTarget(q *queue, m *message) (to *queue, why stayed) {
	name := q.meta.options.DeadLetterQueue
	switch {
	case name == "":
		return nil, stayNot
	case m.flags&flagMoved != 0 || s.isDeadQueue(q):
		return nil, stayHere
	}
	if to = s.findQueue([]byte(name)); to == nil {
		return nil, stayMissing
	}
	if o := s.takes(to); o.Code != OK {
		return nil, stayFull
	}
	if most := to.meta.options.MaxBytes; most != 0 {
		var text [32]byte
		f := s.movedFields(m, &text)
		s.meta, _ = f.appendMeta(s.meta[:0])
		if s.tallies.Get(to.slot).bytes+int64(len(s.meta)+len(f.body)) > most {
			return nil, stayFull
		}
	}
	return to, stayNot
}

// takes says whether a queue has room for a message that takes the place of another in the group. Its bytes are the caller's to
// judge.
func (s *State) takes(q *queue) Outcome {
	s.groupCount--
	o := s.room(q, &Message{}, false)
	s.groupCount++
	return o
}

// movedFields are the fields of a message that died as it has them where it is moved to: it keeps its task's name and its first
// id. text is room for the name.
func (s *State) movedFields(m *message, text *[32]byte) (f fields) {
	f.parse(m.bits, s.arena.Get(m.body))
	if f.origin.IsZero() {
		f.origin, f.originAt = m.id, m.enqueued
	}
	if f.task == nil {
		f.task = AppendID(text[:0], m.id)
	}
	return f
}

// moveDead makes a detached message that died in q an ordinary one of another queue, under a new id, with what is known of
// its death.
func (s *State) moveDead(q, to *queue, slot int32, reason DeadReason) {
	m := *s.messages.Get(slot)
	s.tellTask(q, &m)
	s.countDied(q, &m, reason)
	var text [32]byte
	f := s.movedFields(&m, &text)
	mv := move{old: m.id, failedAt: s.now, origin: q.meta.number, worker: none, reason: reason, priority: m.priority}
	if m.hasSide() {
		sd := s.sides.Mut(m.side)
		mv.lease, mv.cutoff, mv.end, mv.attempts = sd.lease, sd.cutoff, sd.end, sd.attempts
		if mv.end != endNack {
			mv.cutoff = 0
		}
		if sd.expires != 0 {
			mv.ttl = sd.expires - m.enqueued
		}
		mv.history, sd.history = sd.history, 0
		if sd.worker != none {
			mv.worker = sd.worker
			s.workers.Mut(mv.worker).count++
		}
	}
	mv.name = s.worker([]byte(q.meta.name))
	s.workers.Mut(mv.name).count++

	meta, has := f.appendMeta(s.meta[:0])
	s.meta = meta
	if to.meta.options.Ordering != OrderUnordered {
		m.priority = DefaultPriority
	}
	at := s.insertMoved(to, m.priority, has, meta, f.body, mv)
	s.messages.Mut(at).flags |= m.flags & flagPushed
	s.finish(q, slot)

	s.tallies.Mut(q.slot).movedOut++
	s.tallies.Mut(to.slot).movedIn++
}

// insertMoved makes the message that a move is about.
func (s *State) insertMoved(to *queue, priority, has uint8, meta, body []byte, mv move) int32 {
	sl := s.moves.Alloc()
	*s.moves.Mut(sl) = mv
	if mv.history != 0 {
		s.arena.SetOwner(mv.history, owner(ownMove, sl))
	}
	id := s.nextID()
	var expires int64
	if age := to.meta.options.MaxAgeMillis; age != 0 {
		expires = s.now + age
	}
	slot := s.insertWith(to, id, priority, has, meta, body, s.now, expires, sl)
	s.indexDead(to, slot, true)
	s.tallies.Mut(to.slot).moved++
	return slot
}

// linkMove enters a move whose message is there.
func (s *State) linkMove(sl, slot int32) {
	mv := s.moves.Mut(sl)
	mv.message = slot
	s.moveID.Insert(hashID(s.messages.Get(slot).id), sl)
	s.moveOld.Insert(hashID(mv.old), sl)
}

// dropMove gives back the move of a message that goes.
func (s *State) dropMove(m *message) {
	sl := s.moveSlot(m)
	mv := s.moves.Get(sl)
	s.moveID.Delete(hashID(m.id), sl)
	s.moveOld.Delete(hashID(mv.old), sl)
	if mv.history != 0 {
		s.arena.Free(mv.history)
	}
	s.dropWorker(mv.worker)
	s.dropWorker(mv.name)
	s.moves.Free(sl)
}

// leaveMoved takes a message that was moved here out of what the queue counts and lists as such. What it is ordered by still
// holds.
func (s *State) leaveMoved(q *queue, slot int32) {
	if s.messages.Get(slot).flags&flagMoved == 0 {
		return
	}
	s.unindexDead(q, slot, true)
	s.tallies.Mut(q.slot).moved--
}

// heldMoved answers for the token of a message that was moved: it is dead, and its last lease ended with it or before.
func (s *State) heldMoved(t Token) (end leaseEnd, millis int64, code Code) {
	slot, ok := s.findMoved(t.Message)
	if !ok {
		return 0, 0, NotFound
	}
	mv := s.moveOf(s.messages.Get(slot))
	if mv.lease.IsZero() || mv.lease != t.Lease || t.Lease.Epoch() < s.epoch {
		return 0, 0, LeaseLost
	}
	return mv.end, mv.cutoff, OK
}

// endedDead notes that the lease whose end was a message's death ended so, wherever the message is now.
func (s *State) endedDead(id ID, end leaseEnd) {
	if slot, ok := s.find(id); ok {
		sd := s.sides.Mut(s.messages.Get(slot).side)
		if sd.end = end; end == endNackDead {
			sd.cutoff = 0
		}
		return
	}
	if slot, ok := s.findMoved(id); ok {
		mv := s.moves.Mut(s.moveSlot(s.messages.Get(slot)))
		mv.end, mv.cutoff = end, 0
	}
}

// isDead says whether a message is a dead letter, in its own queue or moved to another.
func (s *State) isDead(slot int32) bool {
	m := s.messages.Get(slot)
	return m.state == StateDead || m.flags&flagMoved != 0
}

// isDeadQueue says whether a queue is the dead-letter queue of any.
func (s *State) isDeadQueue(q *queue) bool { return q.namers > 0 }

// nameDead counts a queue's dead-letter queue as named, by so many more.
func (s *State) nameDead(name string, by int32) {
	if name == "" {
		return
	}
	s.deadNamers += int64(by)
	if q := s.findQueueRead([]byte(name)); q != nil {
		q.namers += by
	}
}

// countNamers counts the queues that name a new one as their dead-letter queue.
func (s *State) countNamers(q *queue) {
	if s.deadNamers == 0 {
		return
	}
	for _, slot := range s.names {
		if s.queues[slot].meta.options.DeadLetterQueue == q.meta.name {
			q.namers++
		}
	}
}
