package fsmtest

import (
	"sort"

	"github.com/quorate/quorate/fsm"
)

// Stats counts a queue as fsm.State.Stats does; the totals that only it keeps are left out.
func (m *Model) Stats(name string) (s fsm.QueueStats, ok bool) {
	q := m.queue(name)
	if q == nil {
		return s, false
	}
	s.Name, s.Options = q.name, q.options
	s.Bytes = q.bytes()
	s.Blocked = -int64(len(q.unblocked()))
	for _, x := range q.messages {
		switch x.state {
		case fsm.StateReady:
			s.Ready++
		case fsm.StateScheduled:
			s.Scheduled++
		case fsm.StateRetrying:
			s.Retrying++
		case fsm.StateLeased:
			s.Leased++
		}
		if s.OldestEnqueuedAt == 0 || x.enqueuedAt < s.OldestEnqueuedAt {
			s.OldestEnqueuedAt = x.enqueuedAt
		}
	}
	s.Blocked += s.Ready
	s.Dead = int64(len(q.dead))
	for _, r := range q.records {
		if r.hasResult {
			s.Results++
		} else {
			s.Tombstones++
		}
	}
	s.ResultBytes = q.resultBytes()
	s.DedupKeys = int64(len(q.dedup))
	c := q.stats
	s.Enqueued, s.Acked, s.Nacked, s.Expired, s.Died = c.Enqueued, c.Acked, c.Nacked, c.Expired, c.Died
	s.Duplicates, s.Redriven, s.DeadDropped, s.TombstonesDropped = c.Duplicates, c.Redriven, c.DeadDropped, c.TombstonesDropped
	s.Cancelled, s.Rescheduled = c.Cancelled, c.Rescheduled
	s.DiedByReason, s.LeaseMillisSum = c.DiedByReason, c.LeaseMillisSum
	return s, true
}

// Queues lists the queues' names in order.
func (m *Model) Queues() []string {
	var names []string
	for _, q := range m.queues {
		names = append(names, q.name)
	}
	sort.Strings(names)
	return names
}

// Sessions counts sessions that are not yet reclaimed, and the outcomes they keep.
func (m *Model) Sessions() (sessions, outcomes int) {
	for _, s := range m.sessions {
		outcomes += len(s.outcomes)
	}
	return len(m.sessions), outcomes
}

// info is everything known about a message or dead letter.
func (m *Model) info(q *queue, x *message) fsm.Info {
	in := fsm.Info{
		ID: x.id, OriginalID: x.original, Queue: q.name,
		TaskID: []byte(x.task), Kind: []byte(x.kind), ContentType: []byte(x.contentType), Key: []byte(x.key),
		Headers: x.headers, Body: x.body, Priority: x.priority, State: x.state,
		Attempts: x.attempts, MaxAttempts: maxAttempts(policy(q, x)),
		EnqueuedAt: x.enqueuedAt, OriginalEnqueuedAt: x.originalEnqueuedAt, DueAt: x.due, ExpiresAt: x.expiresAt,
		Worker: []byte(x.worker), Error: x.lastError, History: x.history, Reason: x.reason, Redrives: x.redrives,
	}
	if x.end != neverLeased {
		in.Token = x.token()
	}
	if x.state == fsm.StateLeased {
		in.Deadline = x.deadline + m.shift
	}
	if x.cancelled {
		in.State = fsm.StateCancelled
	}
	if x.state == fsm.StateDead {
		in.EndedAt = x.failedAt
	}
	return in
}

// named finds what a name names: by queue and task id, else by a message id's text, which needs no queue.
func (m *Model) named(name, task string) (*queue, *message, *record) {
	for _, q := range m.queues {
		if q.name == name {
			if x, r := m.find(q, func(n names) bool { return n.task == task }); x != nil || r != nil {
				return q, x, r
			}
		}
	}
	id, ok := idOf(task)
	if !ok || id.IsZero() {
		return nil, nil, nil
	}
	for _, q := range m.queues {
		if name == "" || q.name == name {
			if x, r := m.find(q, func(n names) bool { return n.id == id }); x != nil || r != nil {
				return q, x, r
			}
		}
	}
	// A redriven message has a new id, and keeps the first as its task id.
	for _, q := range m.queues {
		if name == "" {
			x, r := m.find(q, func(n names) bool { return n.original == id && n.task == task })
			if x != nil || r != nil && r.hasResult { // a tombstone knows no task id
				return q, x, r
			}
		}
	}
	return nil, nil, nil
}

// names are what a message, dead letter or record can be found by.
type names struct {
	id, original fsm.ID
	task         string
}

// find is a queue's first live message, dead letter, result or tombstone, in this order, that is the one sought.
func (m *Model) find(q *queue, is func(names) bool) (*message, *record) {
	for _, x := range q.messages {
		if is(names{x.id, x.original, x.task}) && !x.cancelled {
			return x, nil
		}
	}
	for _, x := range q.dead {
		if is(names{x.id, x.original, x.task}) && !m.deadEnded(q, x) {
			return x, nil
		}
	}
	for _, hasResult := range []bool{true, false} {
		for _, r := range q.records {
			if r.hasResult == hasResult && is(names{r.message, r.original, r.task}) && !m.ended(r.end) {
				return nil, r
			}
		}
	}
	return nil, nil
}

// Task says where a task stands. A task that has its result is done, whatever its message still does. Of a done task only
// State, the message id and the task id are filled.
func (m *Model) Task(name, task string) (fsm.Info, bool) {
	q, x, r := m.named(name, task)
	switch {
	case x != nil && m.resultOfTask(q, x.task) != nil:
		return fsm.Info{ID: x.id, Queue: q.name, TaskID: []byte(x.task), State: fsm.StateDone}, true
	case x != nil:
		return m.info(q, x), true
	case r != nil:
		in := fsm.Info{ID: r.message, Queue: q.name, TaskID: []byte(r.task), State: fsm.StateDone}
		if r.cancelled {
			in.State = fsm.StateCancelled
		}
		return in, true
	}
	return fsm.Info{}, false
}

// Result finds the recorded result of a task; found says that Task finds the task, with a result or without.
func (m *Model) Result(name, task string) (res fsm.RecordedResult, found, hasResult bool) {
	q, x, r := m.named(name, task)
	if x != nil {
		r = m.resultOfTask(q, x.task)
	}
	if r == nil || !r.hasResult {
		return res, x != nil || r != nil, false
	}
	return r.recorded(q.name), true, true
}

// recorded is a result as it is read.
func (r *record) recorded(queue string) fsm.RecordedResult {
	res := fsm.RecordedResult{
		Message: r.message, TaskID: []byte(r.task), Kind: []byte(r.kind), ContentType: []byte(r.contentType),
		Output: r.output, Worker: []byte(r.worker), Queue: queue,
		Attempts: r.attempts, DurationMillis: r.duration, RecordedAt: r.at, EndsAt: r.end, Seq: r.nth,
	}
	if r.contentType == "" {
		res.ContentType = []byte(defaultContentType)
	}
	return res
}

// Live lists a queue's live messages in one state: ready ones as they will be served, others by id.
func (m *Model) Live(name string, state fsm.MessageState) []fsm.Info {
	q := m.queue(name)
	if q == nil {
		return nil
	}
	var list []*message
	for _, x := range q.messages {
		if x.state == state {
			list = append(list, x)
		}
	}
	sort.Slice(list, func(i, j int) bool {
		a, b := list[i], list[j]
		switch {
		case state != fsm.StateReady:
			return a.id.Compare(b.id) < 0
		case a.priority != b.priority:
			return a.priority > b.priority
		}
		return a.place < b.place
	})
	return m.infos(q, list)
}

// Dead lists a queue's dead letters by (failed_at, id).
func (m *Model) Dead(name string) []fsm.Info {
	q := m.queue(name)
	if q == nil {
		return nil
	}
	var list []*message
	for _, x := range q.dead {
		if !m.deadEnded(q, x) {
			list = append(list, x)
		}
	}
	sort.Slice(list, func(i, j int) bool {
		a, b := list[i], list[j]
		if a.failedAt != b.failedAt {
			return a.failedAt < b.failedAt
		}
		return a.id.Compare(b.id) < 0
	})
	return m.infos(q, list)
}

func (m *Model) infos(q *queue, list []*message) []fsm.Info {
	var out []fsm.Info
	for _, x := range list {
		out = append(out, m.info(q, x))
	}
	return out
}

// Delivery is a lease as its worker gets it; ok only while it is live.
func (m *Model) Delivery(t fsm.Token) (d fsm.Delivery, ok bool) {
	for _, q := range m.queues {
		for _, x := range q.messages {
			if x.state != fsm.StateLeased || x.token() != t {
				continue
			}
			return fsm.Delivery{
				Token: t, Attempt: x.attempts, LeaseLeft: max(0, x.deadline-m.leaseNow()), Deadline: x.deadline + m.shift,
				Queue: q.name, TaskID: []byte(x.task), Kind: []byte(x.kind), ContentType: []byte(x.contentType),
				Headers: x.headers, Body: x.body, Key: []byte(x.key), Priority: x.priority, EnqueuedAt: x.enqueuedAt,
				TimeoutMillis: x.timeout, Redrives: x.redrives,
			}, true
		}
	}
	return d, false
}

// ConsumerLeases lists a consumer's live leases, oldest first.
func (m *Model) ConsumerLeases(c fsm.Consumer) []fsm.Token {
	var list []fsm.Token
	for _, q := range m.queues {
		for _, x := range q.messages {
			if x.state == fsm.StateLeased && x.consumer == c {
				list = append(list, x.token())
			}
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Lease.Compare(list[j].Lease) < 0 })
	return list
}
