package fsmtest

import "github.com/quorate/quorate/fsm"

// move is what a message that was moved to a dead-letter queue keeps of its life in the queue where it died.
type move struct {
	letter *message // the dead letter: its id, last lease, history, reason, priority, ttl
	origin uint64   // number of the queue whose task it is
	name   string   // and its name, which outlives it
}

// queueNumbered is the queue of a number, nil when it was deleted; one that is made anew has another.
func (m *Model) queueNumbered(n uint64) *queue {
	for _, q := range m.queues {
		if q.number == n {
			return q
		}
	}
	return nil
}

// home is the queue whose task a message is: that of its origin, where it was moved; nil where that is gone.
func (m *Model) home(q *queue, x *message) *queue {
	if x.moved == nil {
		return q
	}
	return m.queueNumbered(x.moved.origin)
}

// placeOf is the queue that a message or dead letter is in.
func (m *Model) placeOf(x *message) *queue {
	for _, q := range m.queues {
		for _, list := range [][]*message{q.messages, q.dead} {
			for _, y := range list {
				if x == y {
					return q
				}
			}
		}
	}
	return nil
}

// letters calls f for every message that was moved and is still there, live or dead again, with the queue that it is in.
func (m *Model) letters(f func(at *queue, x *message)) {
	for _, q := range m.queues {
		for _, x := range q.messages {
			if x.moved != nil {
				f(q, x)
			}
		}
		for _, x := range q.dead {
			if x.moved != nil && !m.deadEnded(q, x) {
				f(q, x)
			}
		}
	}
}

// deadLetterQueue says whether any queue names this one for what dies there.
func (m *Model) deadLetterQueue(name string) bool {
	for _, q := range m.queues {
		if q.options.DeadLetterQueue == name {
			return true
		}
	}
	return false
}

// moveDead moves what has died in a queue to the queue that it names, or says why it stays.
func (m *Model) moveDead(q *queue, x *message) fsm.StayReason {
	name := q.options.DeadLetterQueue
	if name == "" {
		return fsm.StayNone
	}
	if x.moved != nil || m.deadLetterQueue(q.name) { // nothing is moved twice
		m.sometimes("dead: stays in a dead-letter queue")
		return fsm.StayHere
	}
	to := m.queue(name)
	if to == nil {
		m.sometimes("dead: the dead-letter queue is missing")
		q.stats.Stayed++
		return fsm.StayMissing
	}
	y := &message{
		original: x.original, task: x.task, kind: x.kind, contentType: x.contentType, givenType: x.givenType,
		headers: x.headers, body: x.body, key: x.key, priority: x.priority, retry: x.retry, ttl: to.options.MaxAgeMillis,
		timeout: x.timeout, originalEnqueuedAt: x.originalEnqueuedAt, redrives: x.redrives,
		moved: &move{x, q.number, q.name},
	}
	if to.options.Ordering != fsm.OrderUnordered {
		y.priority = defaultPriority
	}
	if o := m.first(to.deep(), to.large(y.size()), m.full(to)); o.Code != fsm.OK {
		m.sometimes("dead: the dead-letter queue is full, " + fieldName(o.Field))
		q.stats.Stayed++
		return fsm.StayFull
	}
	m.sometimes("dead: moved")
	y.id = m.newID()
	m.begin(to, y, m.t)
	to.messages = append(to.messages, y)
	to.stats.MovedIn++
	q.stats.MovedOut++
	return movedAway
}

// movedAway is moveDead's answer for what does not stay.
const movedAway fsm.StayReason = 255

// fieldName names the fields that say which table is full.
func fieldName(f fsm.Field) string {
	switch f {
	case fsm.FieldDepth:
		return "depth"
	case fsm.FieldBytes:
		return "bytes"
	case fsm.FieldDead:
		return "dead letters"
	case fsm.FieldResults:
		return "results"
	}
	return "?"
}

// closeMoved ends a moved message by an ack: nothing is recorded but that its token is good.
func (m *Model) closeMoved(q *queue, x *message) fsm.Outcome {
	m.sometimes("ack: closes a moved message")
	m.remember(q, &record{message: x.id, original: x.id, lease: x.lease, closed: true})
	return fsm.Outcome{Millis: m.t - x.leasedAt}
}
