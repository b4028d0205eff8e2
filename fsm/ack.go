package fsm

import (
	"bytes"

	"github.com/quorate/quorate/fsm/mutant"
)

// ack ends a lease with success. It is good for a live lease, and late for one that ended by expiry or release while
// nobody else has had the message.
func (s *State) ack(op *Ack) Outcome {
	slot, code := s.held(op.Token)
	switch {
	case code == Cancelled:
		return s.answerCancelled(slot, true)
	case slot == none && code == LeaseLost:
		return s.ackAgain(op)
	case code == NotFound:
		_, _, c := s.heldMoved(op.Token)
		code = lostIfKnown(c)
	}
	if code != OK {
		return refuse(code, FieldToken, 0)
	}
	m := s.messages.Get(slot)
	sd := s.sides.Get(m.side)
	late := m.state != StateLeased
	if late && (m.state == StateDead || sd.end != endExpiry && sd.end != endRelease) {
		return refuse(LeaseLost, FieldToken, 0)
	}
	q := s.queues[m.queue]
	if staleMapping(q, op.Mapping) {
		return refuse(FailedPrecondition, FieldMapping, 0)
	}
	if op.HasResult {
		if o := checkResult(&op.Result); o.Code != OK {
			return o
		}
	}
	if late { // it waits, and must not make room for its own chain
		s.shelter(q, slot)
	}
	if o := s.checkThen(op, q, m); o.Code != OK {
		if late {
			s.expose(q, slot)
		}
		return o
	}

	s.countAcked(q, m)
	took := s.now - sd.leasedAt
	s.tallies.Mut(q.slot).leaseMillis += took
	o := Outcome{Millis: took}
	recorded := none
	closes := m.flags&flagMoved != 0 // a dead letter is closed: nothing is recorded, whatever was pushed stays
	if m.flags&flagPushed != 0 && !closes {
		recorded = s.resultOf(m)
	}
	s.tellTask(q, m)
	s.detach(q, slot, endNone)
	m = s.messages.Get(slot)
	sd = s.sides.Get(m.side)
	switch {
	case closes:
		s.addTomb(q, m, op.Token.Lease, tombClosed)
	case recorded != none && !(mutant.ResultOverwrittenByLateAck && op.HasResult):
		r := s.results.Mut(recorded)
		o = Outcome{Duplicate: true, HasResult: true, Task: r.id}
		if r.id == m.id {
			r.lease = op.Token.Lease
			r.flags |= resultDuplicate
		} else {
			s.nameResult(recorded, s.taskHash(q, m))
			s.addTomb(q, m, op.Token.Lease, tombDuplicate)
		}
	case op.HasResult:
		s.record(q, m, sd, nil, &op.Result, took, op.Token.Lease)
	default:
		s.addTomb(q, m, op.Token.Lease, tombDone)
	}
	s.finish(q, slot)
	for i := range op.Then {
		s.enqueueThen(&op.Then[i])
	}
	s.dropPlanned()
	return o
}

// ackAgain answers an ack of a task that is done: the same success to the same token with the same result.
func (s *State) ackAgain(op *Ack) Outcome {
	id := op.Token.Message
	if op.Token.Lease.IsZero() { // no lease has it, and "never leased" is written so
		return refuse(LeaseLost, FieldToken, 0)
	}
	ts, buried := s.findTomb(id)
	if buried && s.tombs.Get(ts).lease == op.Token.Lease {
		switch t := s.tombs.Get(ts); t.outcome() {
		case tombClosed: // no result of it counts, nor one that was pushed under its id
			return Outcome{Millis: -1}
		case tombDuplicate:
			o := Outcome{Duplicate: true}
			if rs, ok := s.findResultTask(&t.task); ok {
				o.HasResult, o.Task = true, s.results.Get(rs).id
			}
			return o
		}
	}
	if rs, ok := s.findResult(id); ok {
		r := s.results.Get(rs)
		if r.lease != op.Token.Lease {
			return refuse(LeaseLost, FieldToken, 0)
		}
		o := Outcome{ID: r.id, Task: r.id, HasResult: true}
		switch {
		case r.flags&resultDuplicate != 0:
			o.ID, o.Duplicate = ID{}, true
		case op.HasResult && bytes.Equal(op.Result.Output, s.output(r)):
			o = Outcome{Millis: -1}
		default:
			o.Code, o.Field = AlreadyExists, FieldResult
		}
		return o
	}
	switch t := s.tombs.Get(ts); {
	case t.lease != op.Token.Lease:
		return refuse(LeaseLost, FieldToken, 0)
	case op.HasResult:
		return Outcome{Code: AlreadyExists, Field: FieldResult, ID: t.id}
	case t.outcome() == tombTaken && len(op.Then) > 0: // it was done without them, and they would be lost
		return refuse(FailedPrecondition, FieldThen, 0)
	}
	return Outcome{Millis: -1}
}

// checkThen judges the messages that an ack is to enqueue. One that is malformed, meets a full or missing queue, or would
// not be stored because its task id or dedup key stands for something else, refuses the whole ack: nothing of a chain is
// lost in silence. One whose dedup key stands for the same is there already, and is passed over. from is the queue of what is acked.
func (s *State) checkThen(op *Ack, from *queue, acked *message) (o Outcome) {
	if len(op.Then) == 0 {
		return o
	}
	if len(op.Then) > MaxBatch {
		return refuse(InvalidArgument, FieldThen, MaxBatch)
	}
	fresh := 0
	from.pending.stays, from.pending.staysBytes = 1, int64(s.arena.Size(acked.body))
	for i := range op.Then {
		th := &op.Then[i]
		if !ValidQueueName(th.Queue) {
			o = refuse(InvalidArgument, FieldThen, MaxQueueName)
			break
		}
		if o = s.checkMessage(&th.Message); o.Code != OK {
			break
		}
		q := s.findQueue(th.Queue)
		if q == nil {
			if !op.ThenAutoCreate {
				o = refuse(NotFound, FieldThen, 0)
				break
			}
			if fresh++; int64(len(s.names)+fresh) > s.lim.queues && int64(len(s.names)+s.freshQueues(op.Then[:i+1])) > s.lim.queues {
				o = refuse(Overloaded, FieldQueues, s.lim.queues)
				break
			}
			if s.groupCount+s.pending >= s.lim.groupMessages {
				o = refuse(Overloaded, FieldTasks, s.lim.groupMessages)
				break
			}
			var there bool
			if there, o = s.sameThen(nil, op.Then, i); o.Code != OK {
				break
			}
			if !there {
				if o = s.checkHook(&th.Message, op.Then[:i]); o.Code != OK {
					break
				}
				s.pending++
				s.pendingKeys += int64(len(th.Message.Keys))
			}
			continue
		}
		if o = checkOrder(&q.meta.options, &th.Message); o.Code != OK {
			break
		}
		there := false
		if there, o = s.thenThere(q, op.Then, i); o.Code != OK {
			break
		}
		if there {
			continue
		}
		if o = s.room(q, &th.Message, true); o.Code != OK {
			break
		}
		if o = s.checkHook(&th.Message, op.Then[:i]); o.Code != OK {
			break
		}
		s.pending++
		s.pendingKeys += int64(len(th.Message.Keys))
		q.pending.messages++
		q.pending.bytes += s.blobSize(&th.Message)
		if th.Message.HasDedup {
			q.pending.dedups++
		}
	}
	s.pending, s.pendingKeys = 0, 0
	from.pending.stays, from.pending.staysBytes = 0, 0
	for i := range op.Then {
		if q := s.findQueue(op.Then[i].Queue); q != nil {
			q.pending.messages, q.pending.dedups, q.pending.bytes = 0, 0, 0
		}
	}
	if o.Code != OK {
		s.unplan()
	}
	return o
}

// thenThere says whether what then[i] would store is there already, under its dedup key, or why it cannot be stored.
func (s *State) thenThere(q *queue, then []ThenMessage, i int) (there bool, o Outcome) {
	m := &then[i].Message
	if m.HasDedup {
		if sl, ok := s.findDedup(q, &m.DedupKey); ok {
			d := s.dedups.Get(sl)
			if d.content != m.DedupContent {
				return false, Outcome{Code: AlreadyExists, Field: FieldThen, ID: d.id}
			}
			return true, o
		}
	}
	if len(m.TaskID) > 0 {
		if f := s.resolve(q, m.TaskID, true); f.any() {
			o = Outcome{Code: AlreadyExists, Field: FieldThen}
			o.ID, o.Task, o.HasResult = s.answerOf(f)
			return false, o
		}
	}
	return s.sameThen(q, then, i)
}

// sameThen looks for an earlier message of the list under the same dedup key or task id. q is their queue, nil where it is yet
// to be made.
func (s *State) sameThen(q *queue, then []ThenMessage, i int) (there bool, o Outcome) {
	m := &then[i].Message
	if !m.HasDedup && len(m.TaskID) == 0 {
		return false, o
	}
	for j := range i {
		e := &then[j].Message
		switch {
		case !bytes.Equal(then[i].Queue, then[j].Queue):
		case m.HasDedup && e.HasDedup && m.DedupKey == e.DedupKey:
			if m.DedupContent != e.DedupContent {
				return false, refuse(AlreadyExists, FieldThen, 0)
			}
			return true, o
		case len(m.TaskID) > 0 && bytes.Equal(m.TaskID, e.TaskID) && !s.passedOver(q, then, j):
			return false, refuse(AlreadyExists, FieldThen, 0)
		}
	}
	return false, o
}

// passedOver says that a message of the list before the one in hand is not stored, since its dedup key was there: its task id
// is not taken.
func (s *State) passedOver(q *queue, then []ThenMessage, j int) bool {
	e := &then[j].Message
	if !e.HasDedup {
		return false
	}
	if q != nil {
		if _, ok := s.findDedup(q, &e.DedupKey); ok {
			return true
		}
	}
	for k := range j {
		if x := &then[k].Message; x.HasDedup && x.DedupKey == e.DedupKey && bytes.Equal(then[k].Queue, then[j].Queue) {
			return true
		}
	}
	return false
}

// freshQueues counts the queues among these that are yet to be made.
func (s *State) freshQueues(then []ThenMessage) (n int) {
next:
	for i := range then {
		if s.findQueue(then[i].Queue) != nil {
			continue
		}
		for j := range i {
			if bytes.Equal(then[i].Queue, then[j].Queue) {
				continue next
			}
		}
		n++
	}
	return n
}

// enqueueThen enqueues one message that checkThen passed. A dedup key seen before stores nothing.
func (s *State) enqueueThen(th *ThenMessage) {
	q := s.findQueue(th.Queue)
	if q == nil {
		q = s.autoCreate(th.Queue)
	}
	if q != nil {
		s.enqueue(q, &th.Message, true)
	}
}
