package fsmtest

import (
	"bytes"

	"github.com/quorate/quorate/fsm"
)

// size is what a result counts towards its queue's max_results_bytes.
func (r *record) size() int64 {
	return int64(len(r.output))
}

func (q *queue) resultBytes() (n int64) {
	for _, r := range q.records {
		if r.hasResult {
			n += r.size()
		}
	}
	return n
}

// resultOf is the recorded result of a message.
func (m *Model) resultOf(q *queue, id fsm.ID) *record {
	for _, r := range q.records {
		if r.hasResult && r.message == id && !id.IsZero() && !m.ended(r.end) {
			return r
		}
	}
	return nil
}

// resultOfTask is the recorded result of a task.
func (m *Model) resultOfTask(q *queue, task string) *record {
	for _, r := range q.records {
		if r.hasResult && r.task == task && !m.ended(r.end) {
			return r
		}
	}
	return nil
}

func validResult(r fsm.Result) bool {
	return len(r.Output) <= maxBodyBytes && validText(r.ContentType, 128)
}

func (m *Model) ack(op *fsm.Ack) fsm.Outcome {
	if op.HasResult && !validResult(op.Result) {
		return refuse(fsm.InvalidArgument, fsm.FieldResult)
	}
	if len(op.Then) > maxBatch {
		return refuse(fsm.InvalidArgument, fsm.FieldThen)
	}
	h, o := m.lookUp(op.Token)
	if o.Code != fsm.OK {
		return o
	}
	if h.record != nil {
		return ackAgain(h.record, op)
	}
	if h.dead {
		return refuse(fsm.LeaseLost, fsm.FieldNone)
	}
	x := h.message
	if x.end == leaseNacked {
		return refuse(fsm.LeaseLost, fsm.FieldNone)
	}
	if o := m.then(op); o.Code != fsm.OK {
		return o
	}
	if x.end == leaseLive {
		m.leaseEnded(x, false)
	}
	h.queue.stats.Acked++
	h.queue.stats.LeaseMillisSum += m.t - x.leasedAt
	h.queue.messages = remove(h.queue.messages, x)
	if r := m.resultOfTask(h.queue, x.task); r != nil {
		r.lease = x.lease
		r.message = x.id
		return fsm.Outcome{Duplicate: true, ID: x.id, HasResult: true, Task: r.message}
	}
	r := &record{
		message: x.id, lease: x.lease, task: x.task, kind: x.kind, worker: x.worker,
		attempts: x.attempts, duration: m.t - x.leasedAt,
	}
	if op.HasResult {
		r.hasResult, r.output, r.contentType = true, bytes.Clone(op.Result.Output), string(op.Result.ContentType)
	}
	m.remember(h.queue, r)
	return fsm.Outcome{ID: x.id}
}

// ackAgain answers an ack for a task that is done.
func ackAgain(r *record, op *fsm.Ack) fsm.Outcome {
	if !r.hasResult {
		if op.HasResult {
			return fsm.Outcome{Code: fsm.AlreadyExists, Field: fsm.FieldResult, ID: r.message}
		}
		return fsm.Outcome{Duplicate: true, ID: r.message}
	}
	o := fsm.Outcome{Duplicate: true, ID: r.message, HasResult: true, Task: r.message}
	if op.HasResult && !r.pushed && !bytes.Equal(op.Result.Output, r.output) {
		o = fsm.Outcome{Code: fsm.AlreadyExists, Field: fsm.FieldResult, ID: r.message, HasResult: true, Task: r.message}
	}
	return o
}

// then enqueues what an ack chains, all of it or nothing.
func (m *Model) then(op *fsm.Ack) fsm.Outcome {
	if len(op.Then) == 0 {
		return fsm.Outcome{}
	}
	try := m.clone()
	for i := range op.Then {
		t := &op.Then[i]
		if o := try.enqueue(string(t.Queue), op.ThenAutoCreate, &t.Message); o.Code != fsm.OK {
			return o
		}
	}
	for i := range op.Then {
		t := &op.Then[i]
		m.enqueue(string(t.Queue), op.ThenAutoCreate, &t.Message)
	}
	return fsm.Outcome{}
}

// remember records how a task ended.
func (m *Model) remember(q *queue, r *record) {
	r.seq, r.at = m.newSeq(), m.t
	r.end = m.t + tombstoneTTL
	if r.hasResult {
		r.end = m.t + q.options.ResultTTLMillis
		if r.contentType == "" {
			r.contentType = "application/octet-stream"
		}
	}
	q.records = append(q.records, r)
	if r.hasResult {
		return
	}
	var oldest *record
	n := 0
	for _, r := range q.records {
		if !r.hasResult {
			if n++; oldest == nil {
				oldest = r
			}
		}
	}
	if n > maxTombstones {
		q.records = remove(q.records, oldest)
		q.stats.TombstonesDropped++
	}
}

func (m *Model) pushResult(op *fsm.PushResult) fsm.Outcome {
	switch {
	case !validQueueName(string(op.Queue)):
		return refuse(fsm.InvalidArgument, fsm.FieldQueue)
	case len(op.TaskID) < 1 || !validText(op.TaskID, 128):
		return refuse(fsm.InvalidArgument, fsm.FieldTaskID)
	case !validText(op.Kind, 128):
		return refuse(fsm.InvalidArgument, fsm.FieldKind)
	case !validResult(op.Result):
		return refuse(fsm.InvalidArgument, fsm.FieldResult)
	}
	q := m.queue(string(op.Queue))
	if q == nil {
		return refuse(fsm.NotFound, fsm.FieldQueue)
	}
	task := string(op.TaskID)
	if r := m.resultOfTask(q, task); r != nil {
		return fsm.Outcome{Duplicate: true, ID: r.message, HasResult: true, Task: r.message}
	}
	if q.resultBytes() >= q.options.MaxResultsBytes {
		return fsm.Outcome{Code: fsm.QueueFull, Field: fsm.FieldResults, Limit: q.options.MaxResultsBytes}
	}
	r := &record{
		task: task, kind: string(op.Kind), pushed: true,
		hasResult: true, output: bytes.Clone(op.Result.Output), contentType: string(op.Result.ContentType),
	}
	for _, x := range q.messages {
		if x.task == task {
			r.message, r.lease, r.attempts = x.id, x.lease, x.attempts
			if x.state != fsm.StateLeased {
				q.messages = remove(q.messages, x)
			}
		}
	}
	m.remember(q, r)
	return fsm.Outcome{ID: r.message}
}
