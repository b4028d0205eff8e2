package history

// requeue judges a dead letter that is made live again: once, as a new message at the end of its queue that has the old one's task and
// contents, and neither its attempts nor their history. The old one is gone then.
func (j *judge) requeue(e *Effect) {
	if j.repeated(e) {
		return
	}
	j.comeBack(e, func(*Effect) {})
}

// comeBack makes a dead letter live again in the queue where it died, with what change makes of it.
func (j *judge) comeBack(e *Effect, change func(to *Effect)) {
	m := j.letter(e)
	if m == nil {
		j.verdict("G6", j.all[e.Message], e, "not_found", "there is no such dead letter in queue "+e.Queue+", or it has come back or was deleted")
		j.r.count("requeue of what is no dead letter refused")
		return
	}
	here := m // where it stands
	if m.letter != nil {
		m = m.letter
	}
	switch {
	case e.Code == "queue_full": // taken as it is
		return
	case here.state == leased:
		j.verdict("G6", here, e, "failed_precondition", "a worker has it")
		j.r.count("requeue of a dead letter that is out refused")
		return
	case m.q != j.queues[m.q.name]:
		j.verdict("G6", here, e, "not_found", "the queue where it died is gone")
		return
	case !j.verdict("G6", here, e, "", "it is a dead letter"):
		return
	}
	to := Effect{
		Op: e.Op, Index: e.Index, Queue: m.q.name, Message: e.Made, Body: m.body, Priority: m.priority, Key: m.key, TTL: m.ttl,
		Timeout: m.timeout, Retry: m.own,
	}
	change(&to)
	next := j.create(m.q, &to)
	if next == nil {
		return
	}
	if here != m {
		j.withdraw(here)
		j.r.count("moved dead letter requeued to where it died")
	}
	next.result, next.hasResult, next.resultAt, next.pushed = m.result, m.hasResult, m.resultAt, m.pushed
	next.redrives = m.redrives + 1
	m.next = next
	j.forget(m)
	j.r.count("dead letter requeued")
	if next.redrives > 1 {
		j.r.count("dead letter requeued that had been before")
	}
}

// deleteDead judges the deletion of one dead letter.
func (j *judge) deleteDead(e *Effect) {
	if j.repeated(e) {
		return
	}
	m := j.letter(e)
	if m == nil {
		j.verdict("G6", j.all[e.Message], e, "not_found", "there is no such dead letter in queue "+e.Queue)
		return
	}
	here := m
	if m.letter != nil {
		m = m.letter
	}
	if here.state == leased {
		j.verdict("G6", here, e, "failed_precondition", "a worker has it")
		return
	}
	if j.verdict("G6", here, e, "", "it is a dead letter") {
		if here != m {
			j.withdraw(here)
		}
		j.forget(m)
		if here == m && !m.pushed { // who waits for the task is told
			j.ended[m]++
		}
		j.r.count("dead letter deleted")
	}
}

// purgeDead judges the deletion of all dead letters of a queue.
func (j *judge) purgeDead(e *Effect) {
	q := j.queues[e.Queue]
	if j.repeated(e) || q == nil || e.Code != "" {
		return
	}
	if n := int64(len(q.dead)); n != e.Count {
		j.blame("G14", nil, e, "a purge says that it took %d dead letters, where the queue had %d", e.Count, n)
	}
	for m := range q.dead {
		j.forget(m)
		if m.letter != nil {
			m.letter.gone = j.index
		}
	}
	j.r.count("dead letters purged")
}

// letter is the dead letter that an operation names, by its id or the one it had before it was moved there, nil where there is none in that
// queue. One that was moved may live.
func (j *judge) letter(e *Effect) *message {
	m := j.all[e.Message]
	if m != nil && m.moved != nil {
		m = m.moved
	}
	if m == nil || m.gone != 0 || m.q != j.queues[e.Queue] || !m.q.dead[m] && (m.letter == nil || m.ended()) {
		return nil
	}
	return m
}

// forget takes a dead letter out.
func (j *judge) forget(m *message) {
	delete(m.q.dead, m)
	m.gone = j.index
}

// asOf is the message that an id names at an index. The id that a task's first message had is the task's name, and names what that was
// made into; the ids between are nobody's once their message is gone.
func (m *message) asOf(index uint64) *message {
	if m.redrives > 0 || m.letter != nil {
		return m
	}
	for m.next != nil && m.gone <= index {
		m = m.next
	}
	return m
}

// now is the message that an id names at last.
func (m *message) now() *message { return m.asOf(^uint64(0)) }

// deletedBy says whether nothing is known of a message at an index, as asOf names it: it was deleted, or is one of those between.
func (m *message) deletedBy(index uint64) bool {
	closed := m.letter != nil && m.state == done && m.endIndex <= index
	return m.dropped != 0 && m.dropped <= index || (closed || m.gone != 0 && m.gone <= index) && (!m.hasResult || m.resultAt > index)
}

// edit judges a dead letter that comes back with some fields set anew: as requeue does, and with the others as they were.
func (j *judge) edit(e *Effect) {
	if j.repeated(e) {
		return
	}
	j.comeBack(e, func(to *Effect) {
		for _, f := range e.Fields {
			switch f {
			case "body":
				to.Body = e.Body
				j.bodies[request{e.Session, e.Number}] = e.Body
			case "priority":
				to.Priority = e.Priority
			case "key":
				to.Key = e.Key
			case "ttl_ms":
				to.TTL = e.TTL
			case "timeout_ms":
				to.Timeout = e.Timeout
			case "retry":
				to.Retry = e.Retry
			case "delay":
				to.Delay, to.Due = e.Delay, e.Due
			}
		}
		j.r.count("dead letter edited")
	})
}
