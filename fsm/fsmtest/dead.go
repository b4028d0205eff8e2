package fsmtest

import "github.com/quorate/quorate/fsm"

// die makes a live message a dead letter.
func (m *Model) die(q *queue, x *message, reason fsm.DeadReason) {
	q.messages = remove(q.messages, x)
	if q.options.DeadOverflow == fsm.DeadDropOldest {
		for int64(len(q.dead)) >= q.options.MaxDead {
			q.dead = remove(q.dead, q.oldestDead())
			q.stats.DeadDropped++
			m.sometimes("dead letters: the oldest is dropped")
		}
	}
	x.state, x.reason, x.failedAt, x.due = fsm.StateDead, reason, m.t, 0
	q.dead = append(q.dead, x)
	m.taskEnded(q, x.id, x.task)
	m.settle(x.id, settledDead, x.body)
	q.stats.Died++
	q.stats.DiedByReason[reason]++
}

// oldestDead is the dead letter that died first; of those that died at one T, the one with the lowest id.
func (q *queue) oldestDead() *message {
	var oldest *message
	for _, x := range q.dead {
		if oldest == nil || x.failedAt < oldest.failedAt || x.failedAt == oldest.failedAt && x.id.Compare(oldest.id) < 0 {
			oldest = x
		}
	}
	return oldest
}

func (m *Model) deadLetter(q *queue, id fsm.ID) *message {
	for _, x := range q.dead {
		if x.id == id && !m.deadEnded(q, x) {
			return x
		}
	}
	return nil
}

func (m *Model) deadRequeue(name string, id fsm.ID) fsm.Outcome {
	q := m.queue(name)
	if q == nil {
		return refuse(fsm.NotFound, fsm.FieldQueue)
	}
	x := m.deadLetter(q, id)
	if x == nil {
		return refuse(fsm.NotFound, fsm.FieldNone)
	}
	y := &message{
		original: x.original, task: x.task, kind: x.kind, contentType: x.contentType, givenType: x.givenType,
		headers: x.headers, body: x.body, key: x.key, priority: x.priority, retry: x.retry, ttl: x.ttl,
		timeout: x.timeout, originalEnqueuedAt: x.originalEnqueuedAt, redrives: x.redrives + 1,
	}
	if q.options.Ordering != fsm.OrderUnordered {
		y.priority = defaultPriority
	}
	if o := first(q.deep(), q.resultsFull(), q.large(y.size())); o.Code != fsm.OK {
		return o
	}
	y.id = m.newID()
	q.dead = remove(q.dead, x)
	m.begin(q, y, m.t)
	q.messages = append(q.messages, y)
	q.stats.Redriven++
	return fsm.Outcome{ID: y.id}
}

func (m *Model) deadDelete(name string, id fsm.ID) fsm.Outcome {
	q := m.queue(name)
	if q == nil {
		return refuse(fsm.NotFound, fsm.FieldQueue)
	}
	x := m.deadLetter(q, id)
	if x == nil {
		return refuse(fsm.NotFound, fsm.FieldNone)
	}
	q.dead = remove(q.dead, x)
	return fsm.Outcome{}
}

func (m *Model) deadPurge(name string) fsm.Outcome {
	q := m.queue(name)
	if q == nil {
		return refuse(fsm.NotFound, fsm.FieldQueue)
	}
	n := len(q.dead)
	q.dead = nil
	return fsm.Outcome{Count: int64(n)}
}
