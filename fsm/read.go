package fsm

// Callers of what follows hold the lock that guards the State against Apply. Slices that come back alias the state and are
// good until the next Apply: copy what is kept.

// Delivery is a leased message as a worker gets it.
type Delivery struct {
	Token         Token
	Attempt       int32
	LeaseLeft     int64 // ms, 0 or more
	Deadline      int64 // in T as ΣShift stands now
	Queue         string
	TaskID        []byte // text; the id's text where none was given
	Kind          []byte
	ContentType   []byte   // application/octet-stream where none was given
	Headers       []Header // the array is reused by the next call with the same Delivery
	Body          []byte
	Key           []byte
	Priority      uint8
	EnqueuedAt    int64 // T
	TimeoutMillis int64 // 0: none
	Redrives      int32
	Once          bool // delivered at most once: there is no lease, LeaseLeft and Deadline are 0

	text [32]byte // what TaskID aliases where it is the id's text: a copy of a Delivery must copy TaskID too
}

var defaultContentType = []byte("application/octet-stream")

// Deliver fills d for a lease in Effects.Leases right after the Apply that made it. It is false, and d zero, where the same
// entry has ended the lease again (by deleting its queue).
func (s *State) Deliver(l Leased, d *Delivery) bool {
	if l.Slot >= 0 && s.messages.Live(l.Slot) {
		if m := s.messages.Get(l.Slot); m.state == StateDone {
			if s.deliverParked(m, l.Token, d) {
				return true
			}
		} else if s.deliver(l.Slot, l.Token, d) {
			return true
		}
	}
	*d = Delivery{Headers: d.Headers[:0]}
	return false
}

// Lease looks a token up (resume, repeated requests) and fills d: ok only while that lease is live.
func (s *State) Lease(t Token, d *Delivery) (ok bool) {
	slot, ok := s.find(t.Message)
	return ok && s.deliver(slot, t, d)
}

func (s *State) deliver(slot int32, t Token, d *Delivery) bool {
	m := s.messages.Get(slot)
	if m.id != t.Message || m.state != StateLeased || !s.alive(m) {
		return false
	}
	sd := s.sides.Get(m.side)
	if sd.lease != t.Lease {
		return false
	}
	s.describe(m, d)
	d.Token, d.Attempt, d.Once = t, int32(sd.attempts), false
	d.LeaseLeft, d.Deadline = max(0, sd.due-s.leaseTime()), sd.due+s.shift
	d.Queue = s.queues[m.queue].meta.name
	return true
}

// describe fills in what the message itself says.
func (s *State) describe(m *message, d *Delivery) {
	var f fields
	f.parse(m.bits, s.arena.Get(m.body))
	if d.TaskID = f.task; f.task == nil {
		d.TaskID = AppendID(d.text[:0], m.id)
	}
	d.Kind, d.Key, d.Body = f.kind, f.key, f.body
	if d.ContentType = f.contentType; f.contentType == nil {
		d.ContentType = defaultContentType
	}
	d.Headers = decodeHeaders(f.headers, d.Headers[:0])
	d.Priority, d.EnqueuedAt, d.TimeoutMillis = m.priority, m.enqueued, f.timeout
	d.Redrives = int32(min(f.redrives, 1<<31-1))
}

// ConsumerLeases calls f for every live lease of a consumer, oldest first, until it returns false.
func (s *State) ConsumerLeases(c Consumer, f func(t Token) bool) {
	who, ok := s.findConsumer(c)
	if !ok {
		return
	}
	for sl := s.consumers.Get(who).oldest; sl != none; {
		sd := s.sides.Get(sl)
		sl = sd.newer
		if !f(Token{Message: s.messages.Get(sd.message).id, Lease: sd.lease}) {
			return
		}
	}
}

// Consumers calls f for each consumer that has live leases, with how many and the queue of the oldest (a subscription has
// one queue; Sub 0, a session's pulled leases, may have several). The order is not the same on every node.
func (s *State) Consumers(f func(c Consumer, queue uint32, leases int) bool) {
	s.consumers.Each(func(_ int32, c *consumer) bool {
		m := s.messages.Get(s.sides.Get(c.oldest).message)
		return f(c.who, s.queues[m.queue].meta.number, int(c.count))
	})
}

// MessageState is where a task stands. Numbers are part of the snapshot format.
type MessageState uint8

// States. Enqueue makes scheduled or ready; due moves make ready; a lease makes leased; nack and expiry make retrying or
// dead; release makes ready; ack and push_result make done; cancel makes cancelled; reschedule makes scheduled or ready;
// requeue of a dead letter makes a new message.
const (
	StateUnknown MessageState = iota
	StateScheduled
	StateReady
	StateLeased
	StateRetrying
	StateDone
	StateDead
	StateCancelled
)

// DeadReason says why a message died. Numbers are part of the snapshot format.
type DeadReason uint8

// Reasons.
const (
	ReasonNone DeadReason = iota
	ReasonMaxAttempts
	ReasonPermanent
	ReasonExpired
	ReasonOverflow
	ReasonMapping
)

// Attempt is one remembered failed attempt (the last eight are kept).
type Attempt struct {
	At     int64 // T
	Number int32
	Worker []byte
	Error  []byte // ≤ 256 bytes
}

// Info is everything known about a message, task or dead letter. Headers and History reuse their arrays from call to call.
//
// Of a message that was moved to a dead-letter queue it tells of its death: State is dead, and attempts, their maximum, history,
// worker and token are those of its life in Origin. Queue is where it is, and Held in what state it stands there, with attempts of
// its own. Once it has died there too, it tells of that death, and Queue's maximum.
type Info struct {
	ID, OriginalID                                  ID // OriginalID: the first one of a redriven message, else the id
	Queue                                           string
	TaskID                                          []byte
	Kind, ContentType, Key                          []byte
	Headers                                         []Header
	Body                                            []byte
	Priority                                        uint8
	State                                           MessageState
	Attempts                                        int32 // that cost one, including the one that is out
	MaxAttempts                                     int32 // by the policies as they are; 0: unknown, the origin is gone
	EnqueuedAt, DueAt, Deadline, ExpiresAt, EndedAt int64 // T; 0 unset
	OriginalEnqueuedAt                              int64
	Worker                                          []byte // of the current or last lease
	Error                                           []byte // the last, ≤ 4 KiB
	History                                         []Attempt
	Reason                                          DeadReason
	Stay                                            StayReason // dead: why it is not in the queue's dead-letter queue
	Origin                                          string     // of what was moved: the queue where it died, whose task it is
	Held                                            MessageState
	HeldAttempts, HeldMaxAttempts                   int32 // of what was moved and lives on: in Queue
	Redrives                                        int32
	Token                                           Token // last lease, zero if there was none

	text   [32]byte // what TaskID aliases where it is an id's text
	policy RetryPolicy
}

// info fills in everything about a message.
func (s *State) info(slot int32, in *Info) {
	m := s.messages.Get(slot)
	q := s.queues[m.queue]
	var f fields
	f.parse(m.bits, s.arena.Get(m.body))
	*in = Info{
		ID: m.id, OriginalID: m.id, Queue: q.meta.name, TaskID: f.task, Kind: f.kind, ContentType: f.contentType, Key: f.key,
		Headers: decodeHeaders(f.headers, in.Headers[:0]), Body: f.body, Priority: m.priority, State: m.state,
		EnqueuedAt: m.enqueued, OriginalEnqueuedAt: m.enqueued, History: in.History[:0], policy: in.policy,
	}
	if m.flags&flagCancelled != 0 {
		in.State = StateCancelled
	}
	if f.task == nil {
		in.TaskID = AppendID(in.text[:0], m.id)
	}
	if f.contentType == nil {
		in.ContentType = defaultContentType
	}
	if !f.origin.IsZero() {
		in.OriginalID, in.OriginalEnqueuedAt, in.Redrives = f.origin, f.originAt, int32(min(f.redrives, 1<<31-1))
	}
	in.MaxAttempts = q.meta.options.Retry.Attempts()
	if f.retry != nil {
		decodePolicy(f.retry, &in.policy)
		in.MaxAttempts = in.policy.Attempts()
	}
	if m.flags&flagMoved != 0 {
		in.Held = m.state
		mv := s.moveOf(m)
		in.Origin = string(s.workerText(mv.name))
		if m.state != StateDead {
			s.movedInfo(m, mv, in)
			return
		}
	}
	if !m.hasSide() {
		return
	}
	sd := s.sides.Get(m.side)
	in.Attempts, in.ExpiresAt, in.Worker = int32(sd.attempts), sd.expires, s.workerText(sd.worker)
	in.Error, in.History = decodeHistory(s.blob(sd.history), in.History)
	if !sd.lease.IsZero() {
		in.Token = Token{Message: m.id, Lease: sd.lease}
	}
	switch m.state {
	case StateScheduled, StateRetrying:
		in.DueAt = sd.due
	case StateLeased:
		in.Deadline = sd.due + s.shift
	case StateDead:
		in.EndedAt, in.Reason, in.Stay = sd.due, sd.reason, StayReason(sd.stay)
	}
}

// movedInfo fills in how a message died that was moved and lives where it is.
func (s *State) movedInfo(m *message, mv *move, in *Info) {
	in.State, in.Reason, in.EndedAt = StateDead, mv.reason, mv.failedAt
	in.HeldMaxAttempts = in.MaxAttempts
	if m.bits&hasRetry == 0 { // else the message brought it along
		in.MaxAttempts = 0
		if home := s.home(m); home != nil {
			in.MaxAttempts = home.meta.options.Retry.Attempts()
		}
	}
	in.Attempts, in.Worker = int32(mv.attempts), s.workerText(mv.worker)
	in.Error, in.History = decodeHistory(s.blob(mv.history), in.History)
	if !mv.lease.IsZero() {
		in.Token = Token{Message: mv.old, Lease: mv.lease}
	}
	if !m.hasSide() {
		return
	}
	sd := s.sides.Get(m.side)
	in.ExpiresAt, in.HeldAttempts = sd.expires, int32(sd.attempts)
	switch m.state {
	case StateScheduled, StateRetrying:
		in.DueAt = sd.due
	case StateLeased:
		in.Deadline = sd.due + s.shift
	}
}

// RecordedResult is a task's result.
type RecordedResult struct {
	Message                                   ID // zero for a pushed result of a task never seen
	TaskID, Kind, ContentType, Output, Worker []byte
	Queue                                     string
	Attempts                                  int32
	DurationMillis, RecordedAt, EndsAt        int64  // EndsAt: T from which on it is forgotten
	Seq                                       uint64 // place in the order of recording

	text [32]byte
}

// lookUp is resolve for a reader.
func (s *State) lookUp(name string, task []byte) (f found) {
	var q *queue
	if name != "" {
		if q = s.findQueueRead([]byte(name)); q == nil {
			return found{none, none, none}
		}
	}
	return s.resolve(q, task, false)
}

// Task resolves a task by queue and task id, or by a broker id's text with queue "". State says where it stands: a task
// that has its result is done, whatever its message still does. Of done tasks only what is remembered is filled in.
func (s *State) Task(queue string, task []byte, in *Info) (found bool) {
	f := s.lookUp(queue, task)
	switch {
	case f.message != none:
		s.info(f.message, in)
		if f.result != none {
			in.State, in.EndedAt = StateDone, s.results.Get(f.result).at
		}
		return true
	case f.result != none:
		var r RecordedResult
		s.fillResult(f.result, &r)
		*in = Info{
			ID: r.Message, OriginalID: r.Message, Queue: r.Queue, Kind: r.Kind, Worker: r.Worker, Attempts: r.Attempts,
			State: StateDone, EndedAt: r.RecordedAt, Headers: in.Headers[:0], History: in.History[:0], policy: in.policy,
		}
		in.TaskID = append(in.text[:0], r.TaskID...)
		if lease := s.results.Get(f.result).lease; !lease.IsZero() {
			in.Token = Token{Message: r.Message, Lease: lease}
		}
		return true
	case f.tomb != none:
		t := s.tombs.Get(f.tomb)
		if slot, out := s.findCancelled(t.id); out { // what is left of it tells more
			s.info(slot, in)
			in.EndedAt = t.end() - TombstoneMillis
			return true
		}
		*in = Info{
			ID: t.id, OriginalID: t.id, Queue: s.queues[t.queue].meta.name, State: StateDone, EndedAt: t.end() - TombstoneMillis,
			Token: Token{Message: t.id, Lease: t.lease}, Headers: in.Headers[:0], History: in.History[:0], policy: in.policy,
		}
		if t.outcome() == tombCancelled {
			in.State = StateCancelled
		}
		if in.TaskID = append([]byte(nil), task...); t.task == [16]byte{} {
			in.TaskID = AppendID(in.text[:0], t.id)
		}
		return true
	}
	return false
}

// Result finds the recorded result of a task, as Task resolves it. found without hasResult: the task is known, and done
// without output or not done.
func (s *State) Result(queue string, task []byte, r *RecordedResult) (found, hasResult bool) {
	f := s.lookUp(queue, task)
	if f.result == none {
		return f.any(), false
	}
	s.fillResult(f.result, r)
	return true, true
}

func (s *State) fillResult(sl int32, r *RecordedResult) {
	rec := s.results.Get(sl)
	var f resultFields
	f.parse(s.arena.Get(rec.blob))
	*r = RecordedResult{
		Message: rec.id, TaskID: f.task, Kind: f.kind, ContentType: f.contentType, Output: f.output, Worker: f.worker,
		Queue: s.queues[rec.queue].meta.name, Attempts: int32(rec.attempts),
		DurationMillis: rec.duration, RecordedAt: rec.at, EndsAt: rec.end, Seq: rec.seq,
	}
	if rec.flags&resultHasTask == 0 {
		r.TaskID = AppendID(r.text[:0], rec.id)
	}
	if len(f.contentType) == 0 {
		r.ContentType = defaultContentType
	}
}
