package fsm

import (
	"github.com/quorate/quorate/fsm/arena"
	"github.com/quorate/quorate/fsm/mutant"
	"github.com/quorate/quorate/fsm/table"
)

// result is a task's recorded result: 104 bytes, texts and output in the blob.
type result struct {
	id       ID       // message; zero for a pushed result of a task never seen
	lease    ID       // position of the lease whose ack recorded it; zero: pushed
	task     [16]byte // hash of (queue, task id); zero where the message id is the task id and nobody needs to find it by that
	seq      uint64   // place in the order of recording
	end      int64    // T from which on it is forgotten
	at       int64    // T
	duration int64    // ms
	blob     arena.Ref
	queue    int32
	attempts uint16
	flags    uint8
	_        uint8
}

// Flags of a result.
const (
	resultDuplicate uint8 = 1 << iota // the task's own ack came after a pushed result and was told so
	resultOrigin                      // of a redriven task that is named by its first message's id
	resultHasTask                     // the task id is in the blob
)

// cost is what a result counts against max_results_bytes.
func (s *State) resultCost(r *result) int64 { return int64(s.arena.Size(r.blob)) + resultCost }

// checkResult judges a result's own fields.
func checkResult(r *Result) Outcome {
	if len(r.Output) > MaxBodyBytes {
		return refuse(TooLarge, FieldResult, MaxBodyBytes)
	}
	if !ValidText(r.ContentType, MaxContentType) {
		return refuse(InvalidArgument, FieldContentType, MaxContentType)
	}
	return Outcome{}
}

// A result's blob: task id, kind, content type and worker, each behind its length, and then the output.
type resultFields struct{ task, kind, contentType, worker, output []byte }

func (f *resultFields) parse(b []byte) {
	f.task, b = chunk(b)
	f.kind, b = chunk(b)
	f.contentType, b = chunk(b)
	f.worker, f.output = chunk(b)
}

func (f *resultFields) appendMeta(b []byte) []byte {
	for _, p := range [...][]byte{f.task, f.kind, f.contentType, f.worker} {
		b = appendChunk(b, p)
	}
	return b
}

func (s *State) output(r *result) []byte {
	var f resultFields
	f.parse(s.arena.Get(r.blob))
	return f.output
}

// record keeps the result of a message. kind, where given, stands in for the message's.
func (s *State) record(q *queue, m *message, sd *side, kind []byte, in *Result, took int64, lease ID) int32 {
	var f fields
	f.parse(m.bits, s.arena.Get(m.body))
	rf := resultFields{task: f.task, kind: f.kind, contentType: in.ContentType, output: in.Output}
	if len(kind) > 0 {
		rf.kind = kind
	}
	r := result{id: m.id, lease: lease, task: s.taskHash(q, m), duration: took}
	if _, ok := f.firstID(m.bits); ok {
		r.flags |= resultOrigin
	}
	if m.flags&flagMoved != 0 && m.state != StateDead { // those of the life that its task had
		r.attempts = s.moveOf(m).attempts
	} else if sd != nil {
		r.attempts = sd.attempts
	}
	if sd != nil {
		if !lease.IsZero() {
			rf.worker = s.workerText(sd.worker)
		}
	}
	return s.addResult(q, r, &rf)
}

// addResult enters a result: its time, place and blob are made here.
func (s *State) addResult(q *queue, r result, f *resultFields) int32 {
	sl := s.results.Alloc()
	if len(f.task) > 0 {
		r.flags |= resultHasTask
	}
	s.meta = f.appendMeta(s.meta[:0])
	r.blob = s.arena.PutParts(owner(ownResult, sl), s.meta, f.output)
	s.resultSeq++
	r.seq, r.at, r.queue = s.resultSeq, s.now, q.slot
	if mutant.TimeNowInApply {
		r.at = mutant.WallMillis()
	}
	r.end = s.now + q.meta.options.ResultTTLMillis
	*s.results.Mut(sl) = r
	s.linkResult(q, sl)
	if q.toldResult != s.index {
		q.toldResult = s.index
		s.fx.Results = append(s.fx.Results, q.meta.number)
	}
	return sl
}

func (s *State) linkResult(q *queue, sl int32) {
	r := s.results.Get(sl)
	s.eachResultKey(r, func(x *table.Index, h uint64) { x.Insert(h, sl) })
	t := s.tallies.Mut(q.slot)
	t.results++
	t.resultBytes += s.resultCost(r)
	q.results.Push(r.end, sl)
	q.order.add(r.seq, sl)
	s.clockFix(clockResult, q)
}

// eachResultKey calls f for every index that a result is in.
func (s *State) eachResultKey(r *result, f func(x *table.Index, h uint64)) {
	if !r.id.IsZero() {
		f(&s.resultID, hashID(r.id))
	}
	if r.task != [16]byte{} {
		f(&s.resultTk, table.Hash16(&r.task))
	}
	if r.flags&resultOrigin != 0 {
		if id, ok := ParseIDBytes(blobTask(s.arena.Get(r.blob))); ok {
			f(&s.resultOr, hashID(id))
		}
	}
}

// nameResult lets a result that is known by its message id alone be found by its task's hash too: the task goes on under another
// message id, and of that a tombstone is left which knows the task by its hash.
func (s *State) nameResult(sl int32, task [16]byte) {
	if s.results.Get(sl).task == [16]byte{} {
		s.results.Mut(sl).task = task
		s.resultTk.Insert(table.Hash16(&task), sl)
	}
}

// dropResult removes a result that is in no heap any more.
func (s *State) dropResult(sl int32) {
	r := s.results.Get(sl)
	s.eachResultKey(r, func(x *table.Index, h uint64) { x.Delete(h, sl) })
	s.arena.Free(r.blob)
	s.results.Free(sl)
}

// keeps says whether a result is there at T.
func (s *State) keeps(r *result) bool { return r.end > s.now && !s.tallies.Get(r.queue).gone }

// findResult is the result recorded for a message.
func (s *State) findResult(id ID) (int32, bool) {
	return s.resultID.Find(hashID(id), func(v int32) bool {
		r := s.results.Get(v)
		return r.id == id && s.keeps(r)
	})
}

// findResultTask is the result of an explicit task id.
func (s *State) findResultTask(h *[16]byte) (int32, bool) {
	return s.resultTk.Find(table.Hash16(h), func(v int32) bool {
		r := s.results.Get(v)
		return r.task == *h && s.keeps(r)
	})
}

// findResultOrigin is the result of a redriven task that is named by its first message's id.
func (s *State) findResultOrigin(id ID) (int32, bool) {
	return s.resultOr.Find(hashID(id), func(v int32) bool {
		r := s.results.Get(v)
		t, ok := ParseIDBytes(blobTask(s.arena.Get(r.blob)))
		return ok && t == id && s.keeps(r)
	})
}

// resultTask says under which message id the result of a message's task is found, were it redriven or not.
func (s *State) resultTask(id ID) (task ID, ok bool) {
	sl, ok := s.findResult(id)
	if !ok {
		sl, ok = s.findResultOrigin(id)
	}
	if !ok { // pushed for a dead letter that was moved: it has that one's new id
		if slot, moved := s.findMoved(id); moved {
			sl = s.resultOf(s.messages.Get(slot))
			ok = sl != none
		}
	}
	if !ok {
		return ID{}, false
	}
	return s.results.Get(sl).id, true
}

// resultOf is the result that a message's task has already, none if it has not.
func (s *State) resultOf(m *message) int32 {
	if sl, ok := s.findResult(m.id); ok {
		return sl
	}
	if m.bits&hasTask != 0 {
		h := s.taskHash(s.queues[m.queue], m)
		if sl, ok := s.findResultTask(&h); ok {
			return sl
		}
		if id, ok := s.firstID(m); ok {
			if sl, ok := s.findResult(id); ok {
				return sl
			}
		}
	}
	return none
}

// pushResult records a result without a lease. The first one stays; the task's message, unless it is out, is done.
func (s *State) pushResult(op *PushResult) (o Outcome) {
	if o = checkResult(&op.Result); o.Code != OK {
		return o
	}
	switch {
	case len(op.TaskID) == 0 || !ValidText(op.TaskID, MaxTaskID):
		return refuse(InvalidArgument, FieldTaskID, MaxTaskID)
	case !ValidText(op.Kind, MaxKind):
		return refuse(InvalidArgument, FieldKind, MaxKind)
	case len(op.Queue) > 0 && !ValidQueueName(op.Queue):
		return refuse(InvalidArgument, FieldQueue, MaxQueueName)
	}
	q := s.findQueue(op.Queue)
	if len(op.Queue) == 0 {
		if _, ok := ParseIDBytes(op.TaskID); !ok {
			return refuse(InvalidArgument, FieldQueue, MaxQueueName)
		}
	} else if q == nil {
		return refuse(NotFound, FieldQueue, 0)
	}
	f := s.resolve(q, op.TaskID, false)
	switch {
	case f.result != none:
		r := s.results.Get(f.result)
		return Outcome{Duplicate: true, HasResult: true, ID: r.id, Task: r.id}
	case f.tomb != none:
		if s.tombs.Get(f.tomb).outcome() == tombCancelled {
			return refuse(Cancelled, FieldTaskID, 0)
		}
		return Outcome{Duplicate: true, ID: s.tombs.Get(f.tomb).id}
	case f.message != none:
		return s.pushOn(f.message, op)
	case q == nil:
		return refuse(NotFound, FieldTaskID, 0)
	}
	if opt := &q.meta.options; s.tallies.Get(q.slot).resultBytes >= opt.MaxResultsBytes {
		return refuse(QueueFull, FieldResults, opt.MaxResultsBytes)
	}
	r := result{task: HashTaskBytes(op.Queue, op.TaskID)}
	s.addResult(q, r, &resultFields{task: op.TaskID, kind: op.Kind, contentType: op.Result.ContentType, output: op.Result.Output})
	if s.telling {
		s.fx.Tasks = append(s.fx.Tasks, TaskEnd{Queue: q.meta.number, TaskHash: r.task})
	}
	return Outcome{}
}

// pushOn records a pushed result of a task that has a message.
func (s *State) pushOn(slot int32, op *PushResult) Outcome {
	m := s.messages.Get(slot)
	q := s.home(m)
	if q == nil {
		return refuse(NotFound, FieldTaskID, 0)
	}
	var sd *side
	if m.hasSide() {
		sd = s.sides.Get(m.side)
	}
	sl := s.record(q, m, sd, op.Kind, &op.Result, 0, ID{})
	if m.state != StateLeased && m.flags&flagMoved == 0 && sd != nil && (sd.end == endExpiry || sd.end == endRelease || sd.end == endReleaseDead) {
		// The work may be done all the same: its late ack gets this result.
		r := s.results.Mut(sl)
		r.lease = sd.lease
		r.flags |= resultDuplicate
	}
	s.tellTask(q, m)
	o := Outcome{ID: m.id}
	if m.state == StateLeased || m.state == StateDead || m.flags&flagMoved != 0 {
		s.messages.Mut(slot).flags |= flagPushed
		return o
	}
	s.detach(q, slot, endNone)
	s.finish(q, slot)
	return o
}
