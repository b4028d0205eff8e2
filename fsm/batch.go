package fsm

import (
	"strconv"

	"github.com/quorate/quorate/fsm/arena"
	"github.com/quorate/quorate/fsm/table"
)

// batch counts the ends of its members, messages that were enqueued with its id, and enqueues its callback when it is sealed
// and the last one has ended.
type batch struct {
	id         ID
	created    int64 // T
	end        int64 // T from which on it is forgotten; 0: sealed, with open members
	finished   int64 // T of the last end; 0: not yet
	callback   arena.Ref
	callbackID ID // once it has been enqueued
	added      int64
	open       int64
	ends       [3]int64 // by memberEnd
	heapPos    int32    // in the heap of ends; none: in none
	sealed     bool
}

// batches is the table of them.
type batches struct {
	recs  table.Pages[batch]
	index table.Index
	ends  table.Heap
	bytes int64   // of callbacks
	ripe  []int32 // those whose last member has ended in the step at hand
}

// Headers of a callback, beside its own.
const (
	HeaderBatchID        = "batch_id"
	HeaderBatchMembers   = "batch_members"
	HeaderBatchSucceeded = "batch_succeeded"
	HeaderBatchDead      = "batch_dead"
	HeaderBatchCancelled = "batch_cancelled"

	batchHeaders     = 5
	batchHeaderBytes = 256 // more than names and values of those have
)

func (s *State) initBatches() {
	b := &s.batches
	b.ends.Less = func(x, y int32) bool { return b.recs.Get(x).id.Compare(b.recs.Get(y).id) < 0 }
	b.ends.Moved = func(sl, pos int32) { b.recs.Mut(sl).heapPos = pos }
}

func (b *batches) tableBytes() int64 { return b.recs.Bytes() + b.index.Bytes() + b.ends.Bytes() }

func (r *batch) there(now int64) bool { return r.end == 0 || r.end > now }

// findBatch is a batch that has not ended.
func (s *State) findBatch(id ID) (int32, bool) {
	return s.batches.index.Find(hashID(id), func(v int32) bool {
		r := s.batches.recs.Get(v)
		return r.id == id && r.there(s.now)
	})
}

// checkCallback judges what only a callback may not have.
func checkCallback(m *Message) Outcome {
	bytes := batchHeaderBytes
	for i := range m.Headers {
		switch string(m.Headers[i].Name) {
		case HeaderBatchID, HeaderBatchMembers, HeaderBatchSucceeded, HeaderBatchDead, HeaderBatchCancelled:
			return refuse(InvalidArgument, FieldCallback, 0)
		}
		bytes += len(m.Headers[i].Name) + len(m.Headers[i].Value)
	}
	switch {
	case len(m.Body) > MaxCallbackBytes:
		return refuse(TooLarge, FieldCallback, MaxCallbackBytes)
	case len(m.TaskID) > 0 || m.HasDedup || m.hooked():
		return refuse(InvalidArgument, FieldCallback, 0)
	case len(m.Headers) > MaxHeaders-batchHeaders:
		return refuse(InvalidArgument, FieldCallback, MaxHeaders-batchHeaders)
	case bytes > MaxHeaderBytes:
		return refuse(InvalidArgument, FieldCallback, MaxHeaderBytes-batchHeaderBytes)
	}
	return Outcome{}
}

// batchCreate makes a batch. Its callback's queue must be there, or is made now.
func (s *State) batchCreate(op *BatchCreate) (o Outcome) {
	b := &s.batches
	if !ValidQueueName(op.Queue) {
		return refuse(InvalidArgument, FieldQueue, MaxQueueName)
	}
	if o = s.checkMessage(&op.Callback); o.Code != OK {
		return o
	}
	if o = checkCallback(&op.Callback); o.Code != OK {
		return o
	}
	blob := appendMessage(appendChunk(s.meta[:0], op.Queue), &op.Callback)
	s.meta = blob
	switch {
	case int64(b.recs.Len()) >= s.lim.batches:
		return refuse(Overloaded, FieldBatches, s.lim.batches)
	case b.bytes+int64(len(blob)) > s.lim.callbackBytes:
		return refuse(Overloaded, FieldBatches, s.lim.callbackBytes)
	}
	switch q := s.findQueue(op.Queue); {
	case q != nil:
		if o = checkOrder(&q.meta.options, &op.Callback); o.Code != OK {
			return o
		}
	case !op.AutoCreate:
		return refuse(NotFound, FieldQueue, 0)
	case s.autoCreate(op.Queue) == nil:
		return refuse(Overloaded, FieldQueues, s.lim.queues)
	}
	o.ID = s.nextID()
	s.addBatch(batch{id: o.ID, created: s.now, end: s.now + BatchOpenMillis}, blob)
	return o
}

// addBatch enters a batch; without a blob its callback has been enqueued.
func (s *State) addBatch(r batch, blob []byte) int32 {
	b := &s.batches
	sl := b.recs.Alloc()
	if len(blob) > 0 {
		r.callback = s.arena.PutBytes(owner(ownBatch, sl), blob)
		b.bytes += int64(len(blob))
	}
	r.heapPos = none
	*b.recs.Mut(sl) = r
	b.index.Insert(hashID(r.id), sl)
	if r.end != 0 {
		b.ends.Push(r.end, sl)
	}
	return sl
}

func (s *State) dropCallback(sl int32) {
	b := &s.batches
	r := b.recs.Mut(sl)
	if r.callback != 0 {
		b.bytes -= int64(s.arena.Size(r.callback))
		s.arena.Free(r.callback)
		r.callback = 0
	}
}

// batchSeal closes a batch: no more members. Its callback comes when the last one has ended, which may be now.
func (s *State) batchSeal(op *BatchSeal) Outcome {
	sl, ok := s.findBatch(op.Batch)
	if !ok {
		return refuse(NotFound, FieldBatchID, 0)
	}
	b := &s.batches
	r := b.recs.Mut(sl)
	o := Outcome{ID: r.id, Duplicate: r.sealed}
	if r.sealed {
		return o
	}
	b.ends.Remove(r.heapPos)
	r = b.recs.Mut(sl)
	r.sealed, r.end = true, 0
	if r.open == 0 {
		b.ripe = append(b.ripe, sl)
	}
	return o
}

// checkMember says whether a batch takes one more member; before are messages of the same ack.
func (s *State) checkMember(id ID, before []ThenMessage) Outcome {
	sl, ok := s.findBatch(id)
	if !ok {
		return refuse(NotFound, FieldBatchID, 0)
	}
	r := s.batches.recs.Get(sl)
	if r.sealed {
		return refuse(FailedPrecondition, FieldBatchID, 0)
	}
	open := r.open
	for i := range before {
		if before[i].Message.Batch == id {
			open++
		}
	}
	if open >= s.lim.members {
		return refuse(QueueFull, FieldMembers, s.lim.members)
	}
	return Outcome{}
}

func (s *State) addMember(id ID) {
	if sl, ok := s.findBatch(id); ok {
		r := s.batches.recs.Mut(sl)
		r.added++
		r.open++
	}
}

// endMember counts the end of a member. A batch that was never sealed may be gone.
func (s *State) endMember(id ID, how memberEnd) {
	sl, ok := s.findBatch(id)
	if !ok {
		return
	}
	r := s.batches.recs.Mut(sl)
	r.open--
	r.ends[how]++
	if r.sealed && r.open == 0 {
		s.batches.ripe = append(s.batches.ripe, sl)
	}
}

// fireBatches enqueues the callbacks of the batches that have become ripe in the step that has just been made.
func (s *State) fireBatches() {
	for _, sl := range s.batches.ripe {
		s.fire(sl)
	}
	s.batches.ripe = s.batches.ripe[:0]
}

// fire enqueues a callback. No limit keeps it out: its room was given when the batch was made, and a queue that has gone since
// is made anew.
func (s *State) fire(sl int32) {
	b := &s.batches
	r := *b.recs.Get(sl)
	queue, rest := chunk(s.arena.Get(r.callback))
	m := &s.callback
	d := Decoder{data: rest, op: opBatchCreate}
	d.message(m)
	var buf [batchHeaderBytes]byte
	text := buf[:0]
	add := func(name string, value []byte) {
		m.Headers = append(m.Headers, Header{Name: []byte(name), Value: value})
	}
	text = AppendID(text, r.id)
	add(HeaderBatchID, text)
	for _, c := range [...]struct {
		name string
		n    int64
	}{
		{HeaderBatchMembers, r.added},
		{HeaderBatchSucceeded, r.ends[endedDone]},
		{HeaderBatchDead, r.ends[endedDead]},
		{HeaderBatchCancelled, r.ends[endedCancelled]},
	} {
		from := len(text)
		text = strconv.AppendInt(text, c.n, 10)
		add(c.name, text[from:])
	}
	q := s.findQueue(queue)
	if q == nil {
		var options QueueOptions
		options.Normalize()
		s.queueNumbers++
		q = s.addQueue(&queueMeta{name: string(queue), number: s.queueNumbers, options: options})
	}
	if q.meta.options.Ordering != OrderUnordered { // it may have been unordered when the batch was made
		m.Priority = DefaultPriority
	}
	o := s.enqueue(q, m, true)
	m.letGo()
	s.dropCallback(sl)
	rec := b.recs.Mut(sl)
	rec.finished, rec.end, rec.callbackID = s.now, s.now+BatchKeepMillis, o.ID
	b.ends.Push(rec.end, sl)
}

// reclaimBatches takes out batches whose time is over: those never sealed, and those done long enough ago.
func (s *State) reclaimBatches(left int) int {
	b := &s.batches
	for ; left > 0; left-- {
		end, sl, ok := b.ends.Min()
		if !ok || end > s.now {
			break
		}
		b.ends.Pop()
		s.dropCallback(sl)
		b.index.Delete(hashID(b.recs.Get(sl).id), sl)
		b.recs.Free(sl)
	}
	return left
}

// BatchInfo is what is known of a batch.
type BatchInfo struct {
	ID                                      ID
	Queue                                   string // of the callback; empty once it has been enqueued
	Callback                                ID     // the callback's message id, once it has been enqueued
	CreatedAt, FinishedAt, EndsAt           int64  // T; 0 unset
	Added, Open, Succeeded, Dead, Cancelled int64
	Sealed                                  bool
}

// Batch reads a batch.
func (s *State) Batch(id ID, in *BatchInfo) bool {
	sl, ok := s.findBatch(id)
	if !ok {
		return false
	}
	r := s.batches.recs.Get(sl)
	*in = BatchInfo{
		ID: r.id, Callback: r.callbackID, CreatedAt: r.created, FinishedAt: r.finished, EndsAt: r.end,
		Added: r.added, Open: r.open, Succeeded: r.ends[endedDone], Dead: r.ends[endedDead], Cancelled: r.ends[endedCancelled],
		Sealed: r.sealed,
	}
	if r.callback != 0 {
		queue, _ := chunk(s.arena.Get(r.callback))
		in.Queue = string(queue)
	}
	return true
}
