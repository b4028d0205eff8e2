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
	s.Parked, s.KeyDebts = q.parked(), q.debts()
	for _, x := range q.messages {
		if x.moved != nil {
			s.Moved++
		}
	}
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
	s.MovedOut, s.MovedIn, s.Stayed, s.Overflowed = c.MovedOut, c.MovedIn, c.Stayed, c.Overflowed
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
		in.EndedAt, in.Stay = x.failedAt, x.stay
	}
	if x.moved != nil {
		in.Origin, in.Held, in.State = x.moved.name, x.state, fsm.StateDead
		was := m.lived(x)
		if was != x {
			in.HeldAttempts, in.HeldMaxAttempts = x.attempts, in.MaxAttempts
			if x.retry.Kind == fsm.RetryDefault { // the origin's policy is gone with it
				in.MaxAttempts = 0
				if home := m.home(q, x); home != nil {
					in.MaxAttempts = maxAttempts(policy(home, x))
				}
			}
		}
		in.Attempts, in.Worker, in.Error, in.History, in.Reason, in.EndedAt = was.attempts, []byte(was.worker), was.lastError, was.history, was.reason, was.failedAt
		in.Token = fsm.Token{}
		if was.end != neverLeased {
			in.Token = was.token()
		}
	}
	return in
}

// lived is the dead letter whose death is told of: of what was moved and has not died again, the one that it was.
func (m *Model) lived(x *message) *message {
	if x.moved != nil && x.state != fsm.StateDead {
		return x.moved.letter
	}
	return x
}

// named finds what a name names, and whose task it is, nil for what was moved from a queue that is gone: by queue and task
// id, else by a message id's text, which needs no queue.
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
		if x := m.messageIn(q, id); x != nil && (name == "" || q.name == name) {
			return m.home(q, x), x, nil
		}
	}
	for _, q := range m.queues {
		if name == "" || q.name == name {
			if r := m.recordOf(q, func(n names) bool { return n.id == id }); r != nil {
				return q, nil, r
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
	// What was moved is found by the id that it had, too.
	var found *message
	m.letters(func(at *queue, x *message) {
		h := m.home(at, x)
		if x.moved.letter.id == id && (name == "" || h != nil && h.name == name) {
			found = x
		}
		if name == "" && h == nil && x.original == id && x.task == task { // of a queue that is gone, by its first id as well
			found = x
		}
	})
	if found != nil {
		return m.home(nil, found), found, nil
	}
	return nil, nil, nil
}

// names are what a message, dead letter or record can be found by.
type names struct {
	id, original fsm.ID
	task         string
}

// messageIn is the message or dead letter that is in a queue under an id.
func (m *Model) messageIn(q *queue, id fsm.ID) *message {
	for _, list := range [][]*message{q.messages, q.dead} {
		for _, x := range list {
			if x.id == id && !x.cancelled && (x.state != fsm.StateDead || !m.deadEnded(q, x)) {
				return x
			}
		}
	}
	return nil
}

// find is the first live message, dead letter, result or tombstone of a queue's tasks, in this order, that is the one
// sought. What was moved away is its task still, by the id that it had; what was moved here is not.
func (m *Model) find(q *queue, is func(names) bool) (found *message, _ *record) {
	for _, x := range q.messages {
		if x.moved == nil && is(names{x.id, x.original, x.task}) && !x.cancelled {
			return x, nil
		}
	}
	for _, x := range q.dead {
		if x.moved == nil && is(names{x.id, x.original, x.task}) && !m.deadEnded(q, x) {
			return x, nil
		}
	}
	m.letters(func(_ *queue, x *message) {
		if x.moved.origin == q.number && is(names{x.moved.letter.id, x.original, x.task}) {
			found = x
		}
	})
	if found != nil {
		return found, nil
	}
	return nil, m.recordOf(q, is)
}

// recordOf is the first result, or else tombstone, of a queue that is the one sought.
func (m *Model) recordOf(q *queue, is func(names) bool) *record {
	for _, hasResult := range []bool{true, false} {
		for _, r := range q.records {
			if r.hasResult == hasResult && !r.closed && is(names{r.message, r.original, r.task}) && !m.ended(r.end) {
				return r
			}
		}
	}
	return nil
}

// Task says where a task stands. A task that has its result is done, whatever its message still does. Of a done task only
// State, the message id and the task id are filled.
func (m *Model) Task(name, task string) (fsm.Info, bool) {
	q, x, r := m.named(name, task)
	switch {
	case x != nil && q != nil && m.resultOfTask(q, x.task) != nil:
		return fsm.Info{ID: x.id, Queue: m.placeOf(x).name, TaskID: []byte(x.task), State: fsm.StateDone}, true
	case x != nil:
		return m.info(m.placeOf(x), x), true
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
	if x != nil && q != nil {
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

// Dead lists a queue's dead letters, its own and those that were moved to it, by (failed_at, id).
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
	for _, x := range q.messages {
		if x.moved != nil {
			list = append(list, x)
		}
	}
	sort.Slice(list, func(i, j int) bool {
		a, b := list[i], list[j]
		if at, bt := m.lived(a).failedAt, m.lived(b).failedAt; at != bt {
			return at < bt
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
			return m.delivery(q, x), true
		}
	}
	return d, false
}

// delivery is a leased message as its worker gets it.
func (m *Model) delivery(q *queue, x *message) fsm.Delivery {
	return fsm.Delivery{
		Token: x.token(), Attempt: x.attempts, LeaseLeft: max(0, x.deadline-m.leaseNow()), Deadline: x.deadline + m.shift,
		Queue: q.name, TaskID: []byte(x.task), Kind: []byte(x.kind), ContentType: []byte(x.contentType),
		Headers: x.headers, Body: x.body, Key: []byte(x.key), Priority: x.priority, EnqueuedAt: x.enqueuedAt,
		TimeoutMillis: x.timeout, Redrives: x.redrives,
	}
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
