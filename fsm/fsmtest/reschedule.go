package fsmtest

import (
	"bytes"

	"github.com/quorate/quorate/fsm"
)

// checkReschedule judges the fields of a Reschedule; FieldNone is fine.
func (m *Model) checkReschedule(op *fsm.Reschedule) fsm.Field {
	switch {
	case op.When == fsm.KeepTime && !op.HasBody,
		op.When == fsm.AfterDelay && !within(op.Time, 0, maxDelay),
		op.When == fsm.AtTime && !within(op.Time, 0, m.t+maxDelay):
		return fsm.FieldDelay
	case !within(op.MaxWaitMillis, 0, maxDelay), op.MaxWaitMillis > 0 && op.When != fsm.AfterDelay:
		return fsm.FieldMaxWait
	case len(op.Body) > maxBodyBytes:
		return fsm.FieldBody
	case !validText(op.ContentType, 128):
		return fsm.FieldContentType
	}
	return fsm.FieldNone
}

func (x *message) replaceBody(op *fsm.Reschedule) {
	x.body = bytes.Clone(op.Body)
	if len(op.ContentType) > 0 {
		x.contentType, x.givenType = string(op.ContentType), string(op.ContentType)
	}
}

// reschedule gives a task that waits another time, another body, or both.
func (m *Model) reschedule(op *fsm.Reschedule) fsm.Outcome {
	if f := m.checkReschedule(op); f != fsm.FieldNone {
		return refuse(fsm.InvalidArgument, f)
	}
	q, x, done, o := m.byTask(op.Queue, op.TaskID)
	switch {
	case o.Code != fsm.OK:
		return o
	case done != nil:
		m.sometimes("reschedule: of a task that has ended")
		return refuse(fsm.FailedPrecondition, fsm.FieldTaskID)
	case x.state == fsm.StateDead || x.moved != nil:
		m.sometimes("reschedule: of a dead task")
		return refuse(fsm.FailedPrecondition, fsm.FieldTaskID)
	case x.state == fsm.StateLeased:
		m.sometimes("reschedule: of one that is out")
		return refuse(fsm.FailedPrecondition, fsm.FieldTaskID)
	case m.resultOfTask(q, x.task) != nil:
		m.sometimes("reschedule: of one with a pushed result that goes on")
		return refuse(fsm.FailedPrecondition, fsm.FieldTaskID)
	}
	if y := *x; op.HasBody {
		y.replaceBody(op)
		if y.size() > x.size() {
			if o := q.never(y.size()); o.Code != fsm.OK {
				return o
			}
			if o := q.large(y.size() - x.size()); o.Code != fsm.OK {
				return o
			}
		}
	}
	switch x.state {
	case fsm.StateScheduled:
		m.sometimes("reschedule: of a scheduled one")
	case fsm.StateRetrying:
		m.sometimes("reschedule: of a retrying one")
	case fsm.StateReady:
		m.sometimes("reschedule: of a ready one")
	}
	due := x.due
	switch op.When {
	case fsm.AfterDelay:
		due = m.t + op.Time
		if longest := x.enqueuedAt + op.MaxWaitMillis; op.MaxWaitMillis > 0 && due > longest {
			m.sometimes("reschedule: a debounce that has waited long enough")
			due = longest
		}
	case fsm.AtTime:
		due = op.Time
	}
	if op.HasBody {
		if x.end != neverLeased && x.end != leaseVoid {
			m.sometimes("reschedule: a body that voids a token")
		}
		x.replaceBody(op)
		// A late ack would end work that nobody has done.
		if x.end != neverLeased {
			x.end = leaseVoid
		}
	}
	q.stats.Rescheduled++
	if due > m.t {
		x.state, x.due = fsm.StateScheduled, due
		return fsm.Outcome{ID: x.id, Count: due}
	}
	x.state = fsm.StateScheduled // it goes, and comes again
	m.settleKeys(q)
	m.makeReady(q, x)
	return fsm.Outcome{ID: x.id}
}
