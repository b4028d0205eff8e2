package fsmtest

import "github.com/quorate/quorate/fsm"

// die makes a live message a dead letter, or moves it to the queue's dead-letter queue.
func (m *Model) die(q *queue, x *message, reason fsm.DeadReason) {
	if lane, ok := q.lane(x); ok && q.lanes()[lane] == x {
		m.sometimes("order: the head of a group dies")
	}
	q.messages = remove(q.messages, x)
	x.state, x.reason, x.failedAt, x.due = fsm.StateDead, reason, m.t, 0
	if x.moved == nil {
		m.taskEnded(q, x.id, x.task)
	} else {
		m.sometimes("dead: what was moved dies again")
	}
	m.settle(x.id, settledDead, x.body)
	q.stats.Died++
	q.stats.DiedByReason[reason]++
	if x.stay = m.moveDead(q, x); x.stay == movedAway {
		return
	}
	if q.options.DeadOverflow == fsm.DeadDropOldest {
		for n := 0; n < maxReclaims && int64(len(q.dead)) >= q.options.MaxDead; n++ {
			q.dead = remove(q.dead, q.oldestDead())
			q.stats.DeadDropped++
			m.sometimes("dead letters: the oldest is dropped")
		}
	}
	q.dead = append(q.dead, x)
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

// deadLetter finds a dead letter of a queue, its own or one that was moved there, by its id or the one it had.
func (m *Model) deadLetter(q *queue, id fsm.ID) *message {
	is := func(x *message) bool { return x.id == id || x.moved != nil && x.moved.letter.id == id }
	for _, x := range q.dead {
		if is(x) && !m.deadEnded(q, x) {
			return x
		}
	}
	for _, x := range q.messages {
		if x.moved != nil && is(x) {
			return x
		}
	}
	return nil
}

// take finds a dead letter that is to leave its queue. One that a worker has cannot.
func (m *Model) take(name string, id fsm.ID) (*queue, *message, fsm.Outcome) {
	q := m.queue(name)
	if q == nil {
		return nil, nil, refuse(fsm.NotFound, fsm.FieldQueue)
	}
	x := m.deadLetter(q, id)
	switch {
	case x == nil:
		return nil, nil, refuse(fsm.NotFound, fsm.FieldNone)
	case x.state == fsm.StateLeased:
		m.sometimes("dead: a worker has it")
		return nil, nil, refuse(fsm.FailedPrecondition, fsm.FieldOut)
	}
	return q, x, fsm.Outcome{}
}

func (m *Model) deadRequeue(name string, id fsm.ID) fsm.Outcome {
	return m.redrive(name, id, nil, 0)
}

// redrive makes a dead letter live again where it came from, once edit has been over it, to be ready at T or due later.
func (m *Model) redrive(name string, id fsm.ID, edit func(*message), due int64) fsm.Outcome {
	at, x, o := m.take(name, id)
	if o.Code != fsm.OK {
		return o
	}
	q := m.home(at, x)
	if q == nil {
		m.sometimes("requeue: the origin is gone")
		return refuse(fsm.NotFound, fsm.FieldOrigin)
	}
	was := x
	if x.moved != nil { // priority and ttl as they were there
		was = x.moved.letter
	}
	y := &message{
		original: x.original, task: x.task, kind: x.kind, contentType: x.contentType, givenType: x.givenType,
		headers: x.headers, body: x.body, key: x.key, priority: was.priority, retry: x.retry, ttl: was.ttl,
		timeout: x.timeout, originalEnqueuedAt: x.originalEnqueuedAt, redrives: x.redrives + 1,
	}
	if q.options.Ordering != fsm.OrderUnordered {
		y.priority = defaultPriority
	}
	if edit != nil {
		edit(y)
	}
	if q.options.Ordering != fsm.OrderUnordered && y.priority != defaultPriority {
		return refuse(fsm.InvalidArgument, fsm.FieldPriority)
	}
	if o := q.never(y.size()); o.Code != fsm.OK {
		return o
	}
	full := q.resultsFull()
	if x.moved != nil { // it makes no room among the origin's dead letters
		full = m.full(q)
	}
	if o := m.first(q.deep(), full, q.large(y.size())); o.Code != fsm.OK {
		if x.moved != nil && o.Code == fsm.QueueFull {
			m.sometimes("requeue: the origin is full, " + fieldName(o.Field))
		}
		return o
	}
	if x.moved != nil {
		m.sometimes("requeue: from a dead-letter queue")
	}
	y.id = m.newID()
	m.drop(at, x)
	m.begin(q, y, max(due, m.t))
	q.messages = append(q.messages, y)
	q.stats.Redriven++
	m.settleAll()
	return fsm.Outcome{ID: y.id}
}

// drop takes a dead letter, its own or one that was moved there, out of a queue.
func (m *Model) drop(q *queue, x *message) {
	q.dead, q.messages = remove(q.dead, x), remove(q.messages, x)
}

const allEdits = fsm.EditBody | fsm.EditHeaders | fsm.EditPriority | fsm.EditContentType | fsm.EditKind | fsm.EditKey |
	fsm.EditTTL | fsm.EditTimeout | fsm.EditRetry | fsm.EditDelay

func (m *Model) deadEdit(op *fsm.DeadEdit) fsm.Outcome {
	if m.queue(string(op.Queue)) == nil {
		return refuse(fsm.NotFound, fsm.FieldQueue)
	}
	x := &op.Message
	if op.Fields&^allEdits != 0 || len(x.TaskID) > 0 || x.HasDedup || len(x.Keys) > 0 || !x.Batch.IsZero() {
		// Task id and dedup key are what others know a task by.
		return refuse(fsm.InvalidArgument, fsm.FieldEdit)
	}
	if f := m.checkMessage(x); f != fsm.FieldNone { // also a field that is not named
		return refuse(fsm.InvalidArgument, f)
	}
	given, due := newMessage(&queue{}, x), int64(0)
	if op.Fields&fsm.EditDelay != 0 {
		if due = x.DueAt; due == 0 {
			due = m.t + x.DelayMillis
		}
	}
	return m.redrive(string(op.Queue), op.ID, func(y *message) {
		for _, edit := range []struct {
			field fsm.EditFields
			set   func()
		}{
			{fsm.EditBody, func() { y.body = given.body }},
			{fsm.EditHeaders, func() { y.headers = given.headers }},
			{fsm.EditPriority, func() { y.priority = given.priority }},
			{fsm.EditContentType, func() { y.contentType, y.givenType = given.contentType, given.givenType }},
			{fsm.EditKind, func() { y.kind = given.kind }},
			{fsm.EditKey, func() { y.key = given.key }},
			{fsm.EditTTL, func() { y.ttl = given.ttl }},
			{fsm.EditTimeout, func() { y.timeout = given.timeout }},
			{fsm.EditRetry, func() { y.retry = given.retry }},
		} {
			if op.Fields&edit.field != 0 {
				edit.set()
			}
		}
		m.sometimes("requeue: edited")
	}, due)
}

func (m *Model) deadDelete(name string, id fsm.ID) fsm.Outcome {
	q, x, o := m.take(name, id)
	if o.Code != fsm.OK {
		return o
	}
	m.drop(q, x)
	return fsm.Outcome{}
}

// deadPurge removes a queue's own dead letters; what was moved there stands among other messages and stays.
func (m *Model) deadPurge(name string) fsm.Outcome {
	q := m.queue(name)
	if q == nil {
		return refuse(fsm.NotFound, fsm.FieldQueue)
	}
	n := len(q.dead)
	q.dead = nil
	return fsm.Outcome{Count: int64(n)}
}
