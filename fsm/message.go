package fsm

import (
	"github.com/quorate/quorate/fsm/arena"
)

// message is a live message or a dead letter: 64 bytes without a pointer. What only some have is in its side or, with the
// body, in the blob.
type message struct {
	id       ID
	place    uint64    // by which it is served; taken when it becomes ready
	enqueued int64     // T
	body     arena.Ref // the blob: optional fields as bits say, then the body
	queue    int32     // slot
	next     int32     // ready list, lane or dead list; while released: its position in the queue's released heap; of a holder: see lane.go
	prev     int32     // ready list, lane or dead list
	side     int32     // negative until it is delayed, leased, given a ttl or dead: see hasSide
	gen      uint32    // of the queue's live or dead set at the time it came in: not equal means purged
	priority uint8
	state    MessageState // StateScheduled, StateReady, StateLeased, StateRetrying or StateDead; StateDone: parked, see handover.go
	bits     uint8        // which optional fields the blob has
	flags    uint8
}

// Flags of a message. flagReleased, flagBlocked and flagHolds are local: they say in which of its places a ready message is kept.
const (
	flagReleased uint8 = 1 << iota
	flagPushed         // a result was pushed while it could not end the message: its task may have one already
	flagBlocked        // waits in its lane behind another
	flagHolds          // holds its lane
	flagLocal          = flagReleased | flagHooked | flagBlocked | flagHolds
	// flagCancelled: its task was cancelled while it was out; the lease is all that is left of it.
	flagCancelled uint8 = 1 << 7
	// flagHooked: it has a hook. Local, since the hooks say so.
	flagHooked uint8 = 1 << 6
	flagMoved  uint8 = 1 << 5 // it died elsewhere: it has a move
)

// side is what a message has once it is delayed, leased, given a ttl or dead.
type side struct {
	lease    ID    // position of the last lease; zero: never leased
	due      int64 // scheduled, retrying: T; leased: deadline in lease time; dead: failed_at, T
	expires  int64 // T; 0: never
	leasedAt int64 // T of the last lease
	cutoff   int64 // leased: end of timeout_ms in lease time, 0 none; after a nack: the due time that it was answered
	history  arena.Ref
	message  int32 // slot
	heapPos  int32 // in the queue's calendar or lease heap
	worker   int32 // of the last lease
	consumer int32 // while leased
	older    int32 // lease of the same consumer
	newer    int32
	attempts uint16 // that cost one, the one that is out included
	free     uint8  // free returns in a row
	end      leaseEnd
	reason   DeadReason
	stay     stayed // dead: why it was not moved
}

// leaseEnd says how the last lease of a message ended. Numbers are part of the snapshot format.
type leaseEnd uint8

const (
	endNone        leaseEnd = iota // never leased, or out now
	endExpiry                      //
	endNack                        // then retrying, or dead of age
	endNackDead                    // then dead
	endRelease                     //
	endReleaseDead                 // the release cost the last attempt
	endReplaced                    // and then the message was given another body: no token is good
)

// hasSide says whether a message has a side. In the place of it a ready one in an ordered queue may keep something else.
func (m *message) hasSide() bool { return m.side >= 0 }

// newSide gives a message its side.
func (s *State) newSide(slot int32) int32 {
	m := s.messages.Get(slot)
	if m.hasSide() {
		return m.side
	}
	sl := s.sides.Alloc()
	sd := s.sides.Mut(sl)
	sd.message, sd.heapPos, sd.worker, sd.consumer, sd.older, sd.newer = slot, none, none, none, none, s.readyRow(m)
	s.messages.Mut(slot).side = sl
	return sl
}

// find is the slot of a message that is live or a dead letter.
func (s *State) find(id ID) (int32, bool) {
	return s.byID.Find(hashID(id), func(v int32) bool {
		m := s.messages.Get(v)
		return m.id == id && s.alive(m)
	})
}

// alive says whether a message is there for anyone to see: its queue is, no purge has passed over it, and as a dead letter
// it is within its retention.
func (s *State) alive(m *message) bool {
	t := s.tallies.Get(m.queue)
	switch {
	case t.gone:
		return false
	case m.state == StateLeased:
		return true
	case m.state == StateDead:
		at := s.sides.Get(m.side).due
		return m.gen == t.deadGen && at >= t.deadCut && at+s.queues[m.queue].meta.options.DeadRetentionMillis > s.now
	}
	return m.gen == t.liveGen
}

// findTask is the message that carries an explicit task id in a queue. One that is cancelled carries its task no more.
func (s *State) findTask(q *queue, task []byte) (int32, bool) {
	return s.byTask.Find(s.hashTask(q, task), func(v int32) bool {
		m := s.messages.Get(v)
		return m.flags&flagCancelled == 0 && s.homeNumber(m) == q.meta.number && string(s.taskText(m)) == string(task) && s.alive(m)
	})
}

// findOrigin is the redriven message whose task id is the text of the id under which it was first enqueued.
func (s *State) findOrigin(id ID) (int32, bool) {
	return s.byOrigin.Find(hashID(id), func(v int32) bool {
		m := s.messages.Get(v)
		first, ok := s.firstID(m)
		return ok && first == id && m.flags&flagCancelled == 0 && s.alive(m)
	})
}

// firstID is the id under which a redriven message was first enqueued, where that is its task id. The text of another message's
// id, which anybody may give as a task id, names nothing but the task in its queue.
func (s *State) firstID(m *message) (ID, bool) {
	if m.bits&hasTask == 0 || m.bits&hasRedrive == 0 {
		return ID{}, false // nearly all
	}
	var f fields
	f.parse(m.bits, s.arena.Get(m.body))
	return f.firstID(m.bits)
}

// taskText is the explicit task id of a message, nil where its id is its task id.
func (s *State) taskText(m *message) []byte {
	if m.bits&hasTask == 0 {
		return nil
	}
	return blobTask(s.arena.Get(m.body))
}

// taskHash is the hash of (queue, task id), zero where the message id is the task id, and where the task's queue is gone.
func (s *State) taskHash(q *queue, m *message) (h [16]byte) {
	if m.bits&hasTask == 0 {
		return h
	}
	if m.flags&flagMoved != 0 {
		if q = s.home(m); q == nil {
			return h
		}
	}
	return HashTask(q.meta.name, s.taskText(m))
}

// index enters a new message into the indexes.
func (s *State) indexMessage(slot int32) {
	m := s.messages.Get(slot)
	s.byID.Insert(hashID(m.id), slot)
	s.indexTask(slot)
}

// indexTask enters a message under the task id that it was given.
func (s *State) indexTask(slot int32) {
	m := s.messages.Get(slot)
	if m.bits&hasTask == 0 {
		return
	}
	task := s.taskText(m)
	s.byTask.Insert(s.hashTaskOf(m, task), slot)
	if id, ok := s.firstID(m); ok {
		s.byOrigin.Insert(hashID(id), slot)
	}
}

// dropMessage gives back a message that is linked nowhere any more. Its counts are the caller's.
func (s *State) dropMessage(slot int32) {
	s.unindexMessage(slot)
	s.freeMessage(slot)
}

// unindexMessage takes a message out of the indexes: nobody finds it any more.
func (s *State) unindexMessage(slot int32) {
	m := s.messages.Get(slot)
	s.byID.Delete(hashID(m.id), slot)
	if m.flags&(flagHolds|flagBlocked) != 0 { // purged: one that has ended holds nothing
		s.unlane(m, slot)
	}
	if m.bits&hasTask != 0 {
		task := s.taskText(m)
		s.byTask.Delete(s.hashTaskOf(m, task), slot)
		if id, ok := s.firstID(m); ok {
			s.byOrigin.Delete(hashID(id), slot)
		}
	}
	if m.flags&flagMoved != 0 {
		s.dropMove(m)
	}
}

// freeMessage gives back the record of a message that is in no index, and what hangs on it.
func (s *State) freeMessage(slot int32) {
	m := s.messages.Get(slot)
	if m.hasSide() {
		sd := s.sides.Get(m.side)
		s.arena.Free(sd.history)
		s.dropWorker(sd.worker)
		s.sides.Free(m.side)
	}
	s.victimAt.Set(slot, 0)
	s.arena.Free(m.body)
	s.messages.Free(slot)
}

// policy is the retry policy that holds for a message now. It is good until the next call.
func (s *State) policy(q *queue, m *message) *RetryPolicy {
	if m.bits&hasRetry == 0 {
		return &q.meta.options.Retry
	}
	var f fields
	f.parse(m.bits, s.arena.Get(m.body))
	decodePolicy(f.retry, &s.policyBuf)
	return &s.policyBuf
}

// bodyLen is the length of a message's body.
func (s *State) bodyLen(m *message) int64 {
	if m.bits == 0 {
		return int64(s.arena.Size(m.body))
	}
	var f fields
	f.parse(m.bits, s.arena.Get(m.body))
	return int64(len(f.body))
}

// blob is the blob of a ref, nil where there is none.
func (s *State) blob(r arena.Ref) []byte {
	if r == 0 {
		return nil
	}
	return s.arena.Get(r)
}
