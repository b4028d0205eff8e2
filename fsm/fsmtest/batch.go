package fsmtest

import (
	"strconv"

	"github.com/quorate/quorate/fsm"
)

// Numbers of the contract for batches.
const (
	maxBatches       = 100_000
	maxCallbackBytes = 64 << 10
	maxMembers       = 1_000_000
	batchOpenTTL     = 7 * day
	batchKeepTTL     = int64(3600 * 1000)
)

// msgBatch is a batch of messages, whose callback comes when all have ended.
type msgBatch struct {
	id        fsm.ID
	queue     string
	callback  fsm.Message
	called    fsm.ID // the callback, once it has come
	createdAt int64
	doneAt    int64
	sealed    bool

	added, open, succeeded, dead, cancelled int64
}

// end is the T at which a batch is over; 0: not before it is done.
func (b *msgBatch) end() int64 {
	switch {
	case !b.called.IsZero():
		return b.doneAt + batchKeepTTL
	case b.sealed:
		return 0
	}
	return b.createdAt + batchOpenTTL
}

func (m *Model) batchOver(b *msgBatch) bool { return b.end() != 0 && m.ended(b.end()) }

func (m *Model) batchByID(id fsm.ID) *msgBatch {
	for _, b := range m.batches {
		if b.id == id && !m.batchOver(b) {
			return b
		}
	}
	return nil
}

func (m *Model) batchCreate(op *fsm.BatchCreate) fsm.Outcome {
	c := &op.Callback
	switch {
	case !validQueueName(string(op.Queue)):
		return refuse(fsm.InvalidArgument, fsm.FieldQueue)
	}
	if f := m.checkMessage(c); f != fsm.FieldNone {
		return refuse(fsm.InvalidArgument, f)
	}
	switch {
	case len(c.Body) > maxCallbackBytes:
		return fsm.Outcome{Code: fsm.TooLarge, Field: fsm.FieldCallback, Limit: maxCallbackBytes}
	case len(c.TaskID) > 0, c.HasDedup, len(c.Keys) > 0, !c.Batch.IsZero(), len(c.Headers) > 64-5:
		return refuse(fsm.InvalidArgument, fsm.FieldCallback)
	}
	q := m.queue(string(op.Queue))
	if q == nil && !op.AutoCreate {
		return refuse(fsm.NotFound, fsm.FieldQueue)
	}
	if q != nil && q.options.Ordering != fsm.OrderUnordered && c.Priority != defaultPriority {
		return refuse(fsm.InvalidArgument, fsm.FieldPriority)
	}
	if len(m.batches) >= maxBatches {
		return fsm.Outcome{Code: fsm.Overloaded, Field: fsm.FieldBatches, Limit: maxBatches}
	}
	if q == nil {
		if len(m.queues) >= maxQueues {
			return refuse(fsm.Overloaded, fsm.FieldQueues)
		}
		m.newQueue(string(op.Queue), withDefaults(fsm.QueueOptions{}))
	}
	b := &msgBatch{id: m.newID(), queue: string(op.Queue), callback: *c, createdAt: m.t}
	m.batches = append(m.batches, b)
	return fsm.Outcome{ID: b.id}
}

func (m *Model) batchSeal(op *fsm.BatchSeal) fsm.Outcome {
	b := m.batchByID(op.Batch)
	switch {
	case b == nil:
		return refuse(fsm.NotFound, fsm.FieldBatchID)
	case b.sealed:
		m.sometimes("batch: sealed again")
		return fsm.Outcome{Duplicate: true, ID: b.id}
	}
	b.sealed = true
	if b.open == 0 {
		m.sometimes("batch: sealed when all had ended")
		m.complete = append(m.complete, b)
	}
	return fsm.Outcome{ID: b.id}
}

// memberEnded counts the end of a member.
func (m *Model) memberEnded(b *msgBatch, how settled) {
	b.open--
	switch how {
	case settledDone:
		m.sometimes("batch: a member is done")
		b.succeeded++
	case settledDead:
		m.sometimes("batch: a member dies")
		b.dead++
	case settledCancelled:
		m.sometimes("batch: a member is cancelled or purged")
		b.cancelled++
	}
	if b.sealed && b.open == 0 {
		m.sometimes("batch: the last member ends")
		m.complete = append(m.complete, b)
	}
}

// callbacks enqueues the callbacks of the batches that the step before has completed.
func (m *Model) callbacks() {
	for len(m.complete) > 0 {
		b := m.complete[0]
		m.complete = m.complete[1:]
		q := m.queue(b.queue)
		if q == nil {
			m.sometimes("batch: a callback makes its queue anew")
			q = m.newQueue(b.queue, withDefaults(fsm.QueueOptions{}))
		}
		c := b.callback
		if q.options.Ordering != fsm.OrderUnordered && c.Priority != defaultPriority {
			m.sometimes("batch: a callback into a queue that is ordered by now")
			c.Priority = defaultPriority // the order knows no other
		}
		c.Headers = append([]fsm.Header(nil), c.Headers...)
		for _, h := range []struct {
			name  string
			value string
		}{
			{fsm.HeaderBatchID, idText(b.id)},
			{fsm.HeaderBatchMembers, strconv.FormatInt(b.added, 10)},
			{fsm.HeaderBatchSucceeded, strconv.FormatInt(b.succeeded, 10)},
			{fsm.HeaderBatchDead, strconv.FormatInt(b.dead, 10)},
			{fsm.HeaderBatchCancelled, strconv.FormatInt(b.cancelled, 10)},
		} {
			c.Headers = append(c.Headers, fsm.Header{Name: []byte(h.name), Value: []byte(h.value)})
		}
		if m.full(q).Code != fsm.OK {
			m.sometimes("batch: a callback into a full queue")
		}
		b.called, b.doneAt = m.accept(q, &c, newMessage(q, &c)), m.t
		b.callback = fsm.Message{}
	}
}

// Batch is what is known of a batch.
func (m *Model) Batch(id fsm.ID) (in fsm.BatchInfo, ok bool) {
	b := m.batchByID(id)
	if b == nil {
		return in, false
	}
	in = fsm.BatchInfo{
		ID: b.id, Queue: b.queue, Callback: b.called, CreatedAt: b.createdAt, FinishedAt: b.doneAt, EndsAt: b.end(), Sealed: b.sealed,
		Added: b.added, Open: b.open, Succeeded: b.succeeded, Dead: b.dead, Cancelled: b.cancelled,
	}
	if !b.called.IsZero() {
		in.Queue = ""
	}
	return in, true
}
