package fsmtest

import (
	"sort"

	"github.com/quorate/quorate/fsm"
)

// moveKind is the kind of a due move; its order is the second key of the order of moves.
type moveKind int

const (
	moveDelay moveKind = iota
	moveRetry
	moveLease
	moveTTL
	moveNone
)

// dueMove is something that time does to a message.
type dueMove struct {
	due     int64 // T at which it is due
	kind    moveKind
	queue   *queue
	message *message
}

func (a dueMove) before(b dueMove) bool {
	if a.due != b.due {
		return a.due < b.due
	}
	if a.kind != b.kind {
		return a.kind < b.kind
	}
	return a.message.id.Compare(b.message.id) < 0
}

// moveOf is the first thing that is still to happen to a message. A message that is out meets its ttl when it comes back.
func (m *Model) moveOf(q *queue, x *message) (mv dueMove, ok bool) {
	switch x.state {
	case fsm.StateLeased:
		return dueMove{x.deadline + m.shift, moveLease, q, x}, true
	case fsm.StateScheduled:
		mv, ok = dueMove{x.due, moveDelay, q, x}, true
	case fsm.StateRetrying:
		mv, ok = dueMove{x.due, moveRetry, q, x}, true
	}
	if ttl := (dueMove{x.expiresAt, moveTTL, q, x}); x.expiresAt != 0 && (!ok || ttl.before(mv)) {
		mv, ok = ttl, true
	}
	return mv, ok
}

// firstMove is the first move there is, whether due or not.
func (m *Model) firstMove() (first dueMove, ok bool) {
	for _, q := range m.queues {
		for _, x := range q.messages {
			if mv, has := m.moveOf(q, x); has && (!ok || mv.before(first)) {
				first, ok = mv, true
			}
		}
	}
	return first, ok
}

// nextMove is the first move that is due now, or moveNone.
func (m *Model) nextMove() (dueMove, moveKind) {
	first, ok := m.firstMove()
	if !ok || first.due > m.t {
		return dueMove{}, moveNone
	}
	return first, first.kind
}

// NextDue is the earliest T at which something is to be moved.
func (m *Model) NextDue() (int64, bool) {
	first, ok := m.firstMove()
	if m.sweep.at != nil && (!ok || first.due > m.t) {
		return m.t, true
	}
	return first.due, ok
}

// move makes the next due move and says whether there was one.
func (m *Model) move() bool {
	mv, kind := m.nextMove()
	switch kind {
	case moveDelay:
		m.makeReady(mv.queue, mv.message)
	case moveRetry:
		m.retryDue(mv.queue, mv.message)
	case moveLease:
		m.expire(mv.queue, mv.message)
	case moveTTL:
		m.die(mv.queue, mv.message, fsm.ReasonExpired)
	case moveNone:
		return false
	}
	return true
}

// taskEnded notes that a task has come to its end. A task id that is the message id has no hash.
func (m *Model) taskEnded(q *queue, id fsm.ID, task string) {
	if q == nil {
		return
	}
	e := fsm.TaskEnd{Message: id}
	if id.IsZero() || task != idText(id) {
		e.TaskHash = fsm.HashTask(q.name, []byte(task))
	}
	m.fx.Tasks = append(m.fx.Tasks, e)
}

// makeReady puts a message at the end of its queue.
func (m *Model) makeReady(q *queue, x *message) {
	x.state = fsm.StateReady
	x.due = 0
	x.place = m.newPlace()
}

// endedRecord is a record whose time is over, to be given back.
type endedRecord struct {
	table int
	end   int64
	seq   uint64
	drop  func()
}

// reclaim gives back what has ended, in order of (table, end, position), at most maxReclaims an entry.
func (m *Model) reclaim() {
	var ended []endedRecord
	for _, q := range m.queues {
		for _, d := range q.dedup {
			if m.dedupEnded(d) {
				ended = append(ended, endedRecord{0, d.end, d.seq, func() { q.dedup = remove(q.dedup, d) }})
			}
		}
		for _, r := range q.records {
			if m.ended(r.end) {
				table := 2
				if r.hasResult {
					table = 1
				}
				ended = append(ended, endedRecord{table, r.end, r.seq, func() { q.records = remove(q.records, r) }})
			}
		}
		for _, x := range q.dead {
			if m.deadEnded(q, x) {
				ended = append(ended, endedRecord{4, x.failedAt + q.options.DeadRetentionMillis, x.id.Index()<<20 | uint64(x.id.Offset()), func() { q.dead = remove(q.dead, x) }})
			}
		}
	}
	for _, s := range m.sessions {
		if m.sessionEnded(s) {
			ended = append(ended, endedRecord{3, s.touched + sessionIdle, s.id.Index()<<20 | uint64(s.id.Offset()), func() { m.sessions = remove(m.sessions, s) }})
		}
	}
	ended = append(append(append(ended, m.endedTables()...), m.endedDebts()...), m.endedIdems()...)
	sort.SliceStable(ended, func(i, j int) bool {
		a, b := ended[i], ended[j]
		if a.table != b.table {
			return a.table < b.table
		}
		if a.end != b.end {
			return a.end < b.end
		}
		return a.seq < b.seq
	})
	for i, e := range ended {
		if i == maxReclaims {
			break
		}
		e.drop()
	}
}

// ended says whether a record that ends at the given T is over.
func (m *Model) ended(end int64) bool { return m.t >= end }

func (m *Model) dedupEnded(d *dedupKey) bool { return m.t > d.end }

func (m *Model) deadEnded(q *queue, x *message) bool {
	return x.over || m.ended(x.failedAt+q.options.DeadRetentionMillis)
}

// remove returns the list without the one element.
func remove[T comparable](list []T, x T) []T {
	for i := range list {
		if list[i] == x {
			return append(append([]T(nil), list[:i]...), list[i+1:]...)
		}
	}
	return list
}

// endedTables lists what is over in the tables of the group; they come after those of the queues.
func (m *Model) endedTables() (ended []endedRecord) {
	for _, r := range m.kv.records {
		if m.ended(r.end) {
			table := 5
			if r.deleted {
				table = 6
			}
			ended = append(ended, endedRecord{table, r.end, r.rev, func() { m.kvReclaim(r) }})
		}
	}
	for _, b := range m.batches {
		if m.batchOver(b) {
			ended = append(ended, endedRecord{7, b.end(), b.id.Index()<<20 | uint64(b.id.Offset()), func() {
				m.sometimes("batch: is forgotten")
				m.batches = remove(m.batches, b)
			}})
		}
	}
	return ended
}
