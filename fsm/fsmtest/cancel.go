package fsmtest

import "github.com/quorate/quorate/fsm"

// byTask finds what an operation on a task names: what is live or dead, or the record of its end. A refusal says that it
// names nothing.
func (m *Model) byTask(name, task []byte) (*queue, *message, *record, fsm.Outcome) {
	switch {
	case len(task) < 1 || !validText(task, 128):
		return nil, nil, nil, refuse(fsm.InvalidArgument, fsm.FieldTaskID)
	case len(name) == 0: // a message id names its task without a queue
		if _, isID := idOf(string(task)); !isID {
			return nil, nil, nil, refuse(fsm.InvalidArgument, fsm.FieldQueue)
		}
	case !validQueueName(string(name)):
		return nil, nil, nil, refuse(fsm.InvalidArgument, fsm.FieldQueue)
	}
	q, x, done := m.named(string(name), string(task))
	switch {
	case q != nil || x != nil: // x without q: moved from a queue that is gone
		return q, x, done, fsm.Outcome{}
	case len(name) > 0 && m.queue(string(name)) == nil:
		return nil, nil, nil, refuse(fsm.NotFound, fsm.FieldQueue)
	}
	return nil, nil, nil, refuse(fsm.NotFound, fsm.FieldTaskID)
}

// cancel ends a task that has not ended otherwise. A message that is out stays for its lease alone: for everybody but the
// holder of the token there is its record.
func (m *Model) cancel(op *fsm.Cancel) fsm.Outcome {
	q, x, done, o := m.byTask(op.Queue, op.TaskID)
	switch {
	case o.Code != fsm.OK:
		return o
	case done != nil && done.cancelled:
		m.sometimes("cancel: again")
		o := fsm.Outcome{Duplicate: true, ID: done.message}
		for _, x := range q.messages {
			if x.id == done.message {
				o.Count = 1
			}
		}
		return o
	case done != nil:
		m.sometimes("cancel: of a done task")
		return refuse(fsm.FailedPrecondition, fsm.FieldTaskID)
	case x.state == fsm.StateDead || x.moved != nil:
		m.sometimes("cancel: of a dead task")
		return refuse(fsm.FailedPrecondition, fsm.FieldTaskID)
	case m.resultOfTask(q, x.task) != nil:
		m.sometimes("cancel: of one with a pushed result that goes on")
		return refuse(fsm.FailedPrecondition, fsm.FieldTaskID)
	}
	o = fsm.Outcome{ID: x.id}
	switch x.state {
	case fsm.StateLeased:
		m.sometimes("cancel: of one that is out")
		o.Count = 1
		x.cancelled = true
		m.fx.Cancelled = append(m.fx.Cancelled, fsm.LeaseEnd{Token: x.token(), Consumer: x.consumer})
	case fsm.StateScheduled:
		m.sometimes("cancel: of a scheduled one")
	case fsm.StateRetrying:
		m.sometimes("cancel: of a retrying one")
	case fsm.StateReady:
		m.sometimes("cancel: of a ready one")
	}
	if !x.cancelled {
		q.messages = remove(q.messages, x)
	}
	q.stats.Cancelled++
	m.remember(q, &record{message: x.id, original: x.original, lease: x.lease, task: x.task, cancelled: true})
	m.settle(x.id, settledCancelled, nil)
	return o
}

// leaseOfCancelled is the end of the lease of a task that was cancelled: nothing is left of its message.
func (m *Model) leaseOfCancelled(q *queue, x *message, expired bool) fsm.Outcome {
	m.leaseEnded(x, expired)
	q.messages = remove(q.messages, x)
	return refuse(fsm.Cancelled, fsm.FieldToken)
}

// afterEnd answers a nack, extend or release for a task that has ended.
func afterEnd(r *record) fsm.Outcome {
	if r.cancelled {
		return refuse(fsm.Cancelled, fsm.FieldToken)
	}
	return refuse(fsm.LeaseLost, fsm.FieldToken)
}
