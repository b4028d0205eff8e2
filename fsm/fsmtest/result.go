package fsmtest

import (
	"bytes"

	"github.com/quorate/quorate/fsm"
)

// size is what a result counts towards its queue's max_results_bytes.
func (r *record) size() int64 {
	n := 128 + int64(len(r.output))
	task := r.task
	if !r.message.IsZero() && task == idText(r.message) {
		task = "" // not written down
	}
	for _, s := range []string{task, r.kind, r.contentType, r.worker} {
		n += int64(len(s)) + 1
		if len(s) > 127 {
			n++ // the length before a text is of one byte or two
		}
	}
	return n
}

func (q *queue) resultBytes() (n int64) {
	for _, r := range q.records {
		if r.hasResult {
			n += r.size()
		}
	}
	return n
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

// checkResult judges a result; FieldNone is fine.
func checkResult(r fsm.Result) fsm.Field {
	switch {
	case len(r.Output) > maxBodyBytes:
		return fsm.FieldResult
	case !validText(r.ContentType, 128):
		return fsm.FieldContentType
	}
	return fsm.FieldNone
}

func (m *Model) ack(op *fsm.Ack) fsm.Outcome {
	o := m.finish(op)
	m.arrive(op.Token.Message)
	m.dropDoomed()
	return o
}

// finish ends a task with success.
func (m *Model) finish(op *fsm.Ack) fsm.Outcome {
	h, o := m.lookUp(op.Token)
	if o.Code != fsm.OK {
		return o
	}
	if h.record != nil {
		return m.ackAgain(h.queue, h.record, op)
	}
	if h.dead {
		return refuse(fsm.LeaseLost, fsm.FieldToken)
	}
	x := h.message
	if x.cancelled {
		return m.leaseOfCancelled(h.queue, x, false)
	}
	if x.end == leaseNacked || x.end == leaseVoid {
		return refuse(fsm.LeaseLost, fsm.FieldToken)
	}
	if m.staleMapping(h.queue, op.Mapping) {
		return refuse(fsm.FailedPrecondition, fsm.FieldMapping)
	}
	if f := checkResult(op.Result); op.HasResult && f != fsm.FieldNone {
		return refuse(fsm.InvalidArgument, f)
	}
	if len(op.Then) > maxBatch {
		return refuse(fsm.InvalidArgument, fsm.FieldThen)
	}
	x.link = true // a late ack's message waits, and must not make room for its own chain
	if o := m.then(op); o.Code != fsm.OK {
		return o
	}
	if x.end == leaseLive {
		m.leaseEnded(x, false)
	}
	if op.Mapping != 0 {
		m.sometimes("mapping: an ack of the one that there is")
	}
	h.queue.stats.Acked++
	h.queue.stats.LeaseMillisSum += m.t - x.leasedAt
	h.queue.messages = remove(h.queue.messages, x)
	if x.moved != nil {
		return m.closeMoved(h.queue, x)
	}
	m.settle(x.id, settledDone, nil)
	if r := m.resultOfTask(h.queue, x.task); r != nil {
		if r.message == x.id {
			r.lease = x.lease
		} else { // pushed while an earlier message of the task was dead, or before there was any
			m.remember(h.queue, &record{message: x.id, original: x.original, lease: x.lease, task: x.task, duplicate: true})
		}
		return fsm.Outcome{Duplicate: true, HasResult: true, Task: r.message}
	}
	r := &record{
		message: x.id, original: x.original, lease: x.lease, task: x.task, kind: x.kind, worker: x.worker,
		attempts: x.attempts, duration: m.t - x.leasedAt,
	}
	if op.HasResult {
		r.hasResult, r.output, r.contentType = true, bytes.Clone(op.Result.Output), string(op.Result.ContentType)
	}
	m.remember(h.queue, r)
	return fsm.Outcome{Millis: r.duration}
}

// ackAgain answers an ack for a task that is done.
func (m *Model) ackAgain(q *queue, r *record, op *fsm.Ack) fsm.Outcome {
	if r.cancelled {
		return refuse(fsm.Cancelled, fsm.FieldToken)
	}
	if r.closed {
		m.sometimes("ack: again, of a closed message")
		return fsm.Outcome{Millis: -1}
	}
	if r.duplicate {
		m.sometimes("ack: again, with a result pushed under an earlier id")
		o := fsm.Outcome{Duplicate: true}
		if res := m.resultOfTask(q, r.task); res != nil {
			if res.task == idText(res.message) {
				m.sometimes("ack: again, with a result pushed under the id that is the task's name")
			}
			o.HasResult, o.Task = true, res.message
		}
		return o
	}
	if r.taken && !op.HasResult && len(op.Then) > 0 { // it was done without them
		m.sometimes("ack: with a chain, of what was delivered at most once")
		return refuse(fsm.FailedPrecondition, fsm.FieldThen)
	}
	if r.pushed {
		return fsm.Outcome{Duplicate: true, HasResult: true, Task: r.message}
	}
	if op.HasResult == r.hasResult && (!r.hasResult || bytes.Equal(op.Result.Output, r.output)) {
		return fsm.Outcome{Millis: -1}
	}
	o := fsm.Outcome{Code: fsm.AlreadyExists, Field: fsm.FieldResult, ID: r.message, HasResult: r.hasResult}
	if r.hasResult {
		o.Task = r.message
	}
	return o
}

// then enqueues what an ack chains, all of it or nothing. Only a message whose dedup key is there with the same content
// is passed over.
func (m *Model) then(op *fsm.Ack) fsm.Outcome {
	if len(op.Then) == 0 {
		return fsm.Outcome{}
	}
	try := m.clone()
	try.chaining = true
	for i := range op.Then {
		t := &op.Then[i]
		o := try.enqueue(string(t.Queue), op.ThenAutoCreate, &t.Message)
		if f := m.checkMessage(&t.Message); o.Code == fsm.NotFound && f != fsm.FieldNone {
			o = refuse(fsm.InvalidArgument, f) // here the message is judged before its queue
		}
		switch {
		case o.Code == fsm.OK:
			continue
		case o.Code == fsm.AlreadyExists:
			if o.ID.Index() == m.index && o.ID.Offset() >= m.offset {
				// Another message of the list, which will not come to be. One that is there comes first.
				o.ID = fsm.ID{}
				if there := m.clone().enqueue(string(t.Queue), op.ThenAutoCreate, &t.Message); there.Code == fsm.AlreadyExists {
					o = there
				}
			}
			o.Field = fsm.FieldThen
		case o.Field == fsm.FieldQueue:
			o.Field = fsm.FieldThen
		}
		return o
	}
	m.chaining = true
	for i := range op.Then {
		t := &op.Then[i]
		m.enqueue(string(t.Queue), op.ThenAutoCreate, &t.Message)
	}
	m.chaining = false
	return fsm.Outcome{}
}

// remember records how a task ended.
func (m *Model) remember(q *queue, r *record) {
	r.seq, r.at = m.newSeq(), m.t
	r.end = m.t + tombstoneTTL
	if r.hasResult {
		r.end = m.t + q.options.ResultTTLMillis
		m.results++
		r.nth = m.results
		m.recorded = append(m.recorded, q)
	}
	q.records = append(q.records, r)
	if !r.closed {
		m.taskEnded(q, r.message, r.task)
	}
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
	case checkResult(op.Result) != fsm.FieldNone:
		return refuse(fsm.InvalidArgument, checkResult(op.Result))
	case len(op.TaskID) < 1 || !validText(op.TaskID, 128):
		return refuse(fsm.InvalidArgument, fsm.FieldTaskID)
	case !validText(op.Kind, 128):
		return refuse(fsm.InvalidArgument, fsm.FieldKind)
	case len(op.Queue) == 0: // a message id names its task without a queue
		if _, isID := idOf(string(op.TaskID)); !isID {
			return refuse(fsm.InvalidArgument, fsm.FieldQueue)
		}
	case !validQueueName(string(op.Queue)):
		return refuse(fsm.InvalidArgument, fsm.FieldQueue)
	}
	task := string(op.TaskID)
	q, x, done := m.named(string(op.Queue), task)
	switch {
	case q != nil:
	case len(op.Queue) == 0, x != nil: // nothing, or what was moved from a queue that is gone
		return refuse(fsm.NotFound, fsm.FieldTaskID)
	default:
		if q = m.queue(string(op.Queue)); q == nil {
			return refuse(fsm.NotFound, fsm.FieldQueue)
		}
	}
	if x != nil {
		task = x.task
		if r := m.resultOfTask(q, task); r != nil {
			done = r
		}
	}
	switch {
	case done != nil && done.hasResult:
		return fsm.Outcome{Duplicate: true, ID: done.message, HasResult: true, Task: done.message}
	case done != nil && done.cancelled:
		return refuse(fsm.Cancelled, fsm.FieldTaskID)
	case done != nil:
		return fsm.Outcome{Duplicate: true, ID: done.message} // done without a result: too late for one
	case x == nil && q.resultBytes() >= q.options.MaxResultsBytes:
		return fsm.Outcome{Code: fsm.QueueFull, Field: fsm.FieldResults, Limit: q.options.MaxResultsBytes}
	}
	r := &record{
		task: task, kind: string(op.Kind), pushed: true,
		hasResult: true, output: bytes.Clone(op.Result.Output), contentType: string(op.Result.ContentType),
	}
	if x != nil {
		r.message, r.original, r.attempts = x.id, x.original, x.attempts
		if r.kind == "" {
			r.kind = x.kind
		}
		if x.moved != nil { // a dead letter, as it was when it died
			r.attempts = m.lived(x).attempts
		}
		// Who had it last is told of the result, where its late ack would have been taken.
		if x.moved == nil && (x.end == leaseExpired || x.end == leaseReleased) {
			r.lease = x.lease
		}
		if x.state != fsm.StateLeased && x.state != fsm.StateDead && x.moved == nil {
			q.messages = remove(q.messages, x)
			m.settle(x.id, settledDone, nil)
		}
	}
	m.remember(q, r)
	return fsm.Outcome{ID: r.message}
}
