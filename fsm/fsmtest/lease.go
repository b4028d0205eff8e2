package fsmtest

import (
	"bytes"
	"unicode/utf8"

	"github.com/quorate/quorate/fsm"
)

// firstReady is the message that a queue serves next: highest priority, then lowest place.
func (q *queue) firstReady() *message {
	var first *message
	for _, x := range q.unblocked() {
		if first == nil || x.priority > first.priority || x.priority == first.priority && x.place < first.place {
			first = x
		}
	}
	return first
}

func (m *Model) leaseOut(op *fsm.Lease) fsm.Outcome {
	switch {
	case !validQueueName(string(op.Queue)):
		return refuse(fsm.InvalidArgument, fsm.FieldQueue)
	case op.Max < 1 || op.Max > 1000:
		return refuse(fsm.InvalidArgument, fsm.FieldMax)
	case op.LeaseMillis != 0 && !within(op.LeaseMillis, minLease, maxLease):
		return refuse(fsm.InvalidArgument, fsm.FieldLease)
	case !validText(op.Worker, 256):
		return refuse(fsm.InvalidArgument, fsm.FieldWorker)
	}
	q := m.queue(string(op.Queue))
	if q == nil {
		return refuse(fsm.NotFound, fsm.FieldQueue)
	}
	most := op.MaxBytes
	if most <= 0 || most > maxLeaseBytes {
		most = maxLeaseBytes
	}
	length := op.LeaseMillis
	if length == 0 {
		length = q.options.LeaseMillis
	}
	o := fsm.Outcome{LeaseFrom: int32(len(m.fx.Leases))}
	size := int64(0)
	m.noticeTime(q)
	for o.LeaseCount < op.Max {
		if q.slots() == 0 {
			m.seeLimit(q)
			break
		}
		if q.rate().tokens(q.tat, m.t) == 0 {
			m.sometimes("limit: the rate")
			break
		}
		x := m.nextOf(q)
		m.seeOrder(q, x)
		if x == nil {
			break
		}
		load := int64(len(x.body))
		if q.options.Delivery == fsm.DeliverAtMostOnce { // what does not fit into a frame could not be given back
			load = x.size()
		}
		if o.LeaseCount > 0 && size+load > most {
			break
		}
		size += load
		x.state, x.end = fsm.StateLeased, leaseLive
		x.lease = m.newID()
		x.attempts++
		x.worker, x.consumer = string(op.Worker), op.Consumer
		x.leasedAt, x.leasedLease = m.t, m.leaseNow()
		x.deadline = m.deadline(x, length)
		q.tat = q.rate().take(q.tat, m.t)
		if q.options.Delivery == fsm.DeliverAtMostOnce {
			m.handOver(q, x)
		} else {
			m.handOut(x)
		}
		m.served(q, x)
		o.LeaseCount++
	}
	return o
}

// deadline is the end, in lease time, of a lease of the given length from now, within the attempt's timeout.
func (m *Model) deadline(x *message, length int64) int64 {
	d := m.leaseNow() + length
	if x.timeout > 0 {
		d = min(d, x.leasedLease+x.timeout)
	}
	return d
}

// handOut puts a leased message into the entry's answer.
func (m *Model) handOut(x *message) {
	m.fx.Leases = append(m.fx.Leases, fsm.Leased{Token: x.token(), Consumer: x.consumer, Op: m.op, Attempt: x.attempts})
}

func (x *message) token() fsm.Token { return fsm.Token{Message: x.id, Lease: x.lease} }

func (m *Model) leaseEnded(x *message, expired bool) {
	m.fx.Ended = append(m.fx.Ended, fsm.LeaseEnd{Token: x.token(), Consumer: x.consumer, Expired: expired})
}

// holder is what a token's message id names: a live message, a dead letter or a remembered task.
type holder struct {
	queue   *queue
	message *message
	dead    bool
	record  *record
}

// lookUp finds what a token is about. A refusal says that the token is good for nothing.
func (m *Model) lookUp(t fsm.Token) (holder, fsm.Outcome) {
	lost := refuse(fsm.LeaseLost, fsm.FieldToken)
	for _, q := range m.queues {
		for _, x := range q.messages {
			if x.id == t.Message {
				if x.lease != t.Lease || x.end == neverLeased {
					return holder{}, lost
				}
				return holder{queue: q, message: x}, fsm.Outcome{}
			}
		}
		for _, x := range q.dead {
			if x.id == t.Message && !m.deadEnded(q, x) {
				if x.lease != t.Lease || x.end == neverLeased {
					return holder{}, lost
				}
				return holder{queue: q, message: x, dead: true}, fsm.Outcome{}
			}
		}
	}
	// What was moved answers for the dead letter that it was.
	var letter *message
	m.letters(func(_ *queue, x *message) {
		if x.moved.letter.id == t.Message {
			letter = x.moved.letter
		}
	})
	if letter != nil {
		if letter.lease != t.Lease || letter.end == neverLeased {
			return holder{}, lost
		}
		return holder{message: letter, dead: true}, fsm.Outcome{}
	}
	// The token of one that was acked comes before a result that was pushed under its id.
	for _, q := range m.queues {
		for _, r := range q.records {
			if r.closed && r.message == t.Message && r.lease == t.Lease && !m.ended(r.end) {
				return holder{queue: q, record: r}, fsm.Outcome{}
			}
		}
	}
	for _, q := range m.queues {
		for _, r := range q.records {
			if r.message == t.Message && !t.Message.IsZero() && !m.ended(r.end) {
				if r.lease != t.Lease || r.lease.IsZero() {
					return holder{}, lost
				}
				return holder{queue: q, record: r}, fsm.Outcome{}
			}
		}
	}
	return holder{}, refuse(fsm.NotFound, fsm.FieldToken)
}

func (m *Model) nack(op *fsm.Nack) fsm.Outcome {
	h, o := m.lookUp(op.Token)
	if o.Code != fsm.OK {
		return o
	}
	x := h.message
	if h.record != nil {
		return afterEnd(h.record)
	}
	if x.cancelled {
		return m.leaseOfCancelled(h.queue, x, false)
	}
	bad := op.DelayMillis < -1 || op.DelayMillis > maxDelay
	if h.queue == nil && (bad || x.end != leaseNacked) { // of what was moved
		return refuse(fsm.LeaseLost, fsm.FieldToken)
	}
	if bad {
		return refuse(fsm.InvalidArgument, fsm.FieldDelay)
	}
	if x.end == leaseNacked {
		m.seeRepeat(x)
		return x.answer
	}
	if h.dead || x.end != leaseLive {
		return refuse(fsm.LeaseLost, fsm.FieldToken)
	}
	if m.staleMapping(h.queue, op.Mapping) {
		return refuse(fsm.FailedPrecondition, fsm.FieldMapping)
	}
	h.queue.stats.Nacked++
	m.leaseEnded(x, false)
	x.end = leaseNacked
	x.answer = fsm.Outcome{Dead: true}
	why := fsm.ReasonNone
	if op.Permanent {
		why = fsm.ReasonPermanent
	}
	if op.Mapping != 0 {
		why = fsm.ReasonMapping
		m.sometimes("mapping: a message dies of it")
	}
	if died := m.fail(h.queue, x, op.Error, op.DelayMillis, why); !died {
		x.answer = fsm.Outcome{Millis: x.due}
	}
	return x.answer
}

// seeRepeat notes that an answer is given again beside a result of the same id.
func (m *Model) seeRepeat(x *message) {
	for _, q := range m.queues {
		for _, r := range q.records {
			if r.hasResult && r.message == x.id && x.state == fsm.StateDead {
				m.sometimes("dead: a repeat is answered, beside a result")
				if m.placeOf(x) == nil {
					m.sometimes("dead: a repeat is answered where it was moved, beside a result")
				}
			}
		}
	}
}

// expire ends a lease whose deadline has passed.
func (m *Model) expire(q *queue, x *message) {
	if x.cancelled {
		m.sometimes("cancel: the lease runs out")
		q.stats.Expired++
		m.leaseOfCancelled(q, x, true)
		return
	}
	q.stats.Expired++
	m.leaseEnded(x, true)
	x.end = leaseExpired
	m.fail(q, x, []byte("lease expired"), -1, fsm.ReasonNone)
}

// fail is the end of an attempt that counts: the message waits or dies.
func (m *Model) fail(q *queue, x *message, text []byte, delay int64, why fsm.DeadReason) (died bool) {
	x.free = 0
	m.note(x, text)
	p := policy(q, x)
	switch {
	case x.expiresAt != 0 && x.expiresAt <= m.t:
		m.die(q, x, fsm.ReasonExpired)
		return true
	case why != fsm.ReasonNone:
		m.die(q, x, why)
		return true
	case x.attempts >= maxAttempts(p):
		m.die(q, x, fsm.ReasonMaxAttempts)
		return true
	}
	if delay < 0 {
		delay = retryDelay(p, x.id, x.attempts)
	}
	x.state, x.due = fsm.StateRetrying, m.t+delay
	return false
}

// note writes an attempt that cost one into the history.
func (m *Model) note(x *message, text []byte) {
	x.lastError = cutOnRune(text, maxErrorBytes)
	x.history = append(x.history[:len(x.history):len(x.history)], fsm.Attempt{
		At: m.t, Number: x.attempts, Worker: []byte(x.worker), Error: cutOnRune(text, maxAttemptError),
	})
	if len(x.history) > maxHistory {
		x.history = x.history[1:]
	}
}

func cutOnRune(b []byte, most int) []byte {
	if len(b) > most {
		n := most
		for n > most-utf8.UTFMax && !utf8.RuneStart(b[n]) {
			n--
		}
		b = b[:n]
	}
	return bytes.Clone(b)
}

func (m *Model) extend(op *fsm.Extend) fsm.Outcome {
	h, o := m.lookUp(op.Token)
	if o.Code != fsm.OK {
		return o
	}
	if h.record != nil {
		return afterEnd(h.record)
	}
	if h.queue == nil { // what was moved
		return refuse(fsm.LeaseLost, fsm.FieldToken)
	}
	if h.message.cancelled {
		return refuse(fsm.Cancelled, fsm.FieldToken)
	}
	if op.LeaseMillis != 0 && !within(op.LeaseMillis, minLease, maxLease) {
		return refuse(fsm.InvalidArgument, fsm.FieldLease)
	}
	if h.dead || h.message.end != leaseLive {
		return refuse(fsm.LeaseLost, fsm.FieldToken)
	}
	length := op.LeaseMillis
	if length == 0 {
		length = h.queue.options.LeaseMillis
	}
	h.message.deadline = m.deadline(h.message, length)
	return fsm.Outcome{Millis: max(0, h.message.deadline-m.leaseNow())}
}

func (m *Model) release(op *fsm.Release) fsm.Outcome {
	h, o := m.lookUp(op.Token)
	if o.Code != fsm.OK {
		return o
	}
	x := h.message
	if h.record != nil {
		return afterEnd(h.record)
	}
	if x.cancelled {
		return m.leaseOfCancelled(h.queue, x, false)
	}
	if x.end == leaseReleased {
		m.seeRepeat(x)
		return x.answer
	}
	if h.dead || x.end != leaseLive {
		return refuse(fsm.LeaseLost, fsm.FieldToken)
	}
	m.leaseEnded(x, false)
	x.end, x.answer = leaseReleased, fsm.Outcome{}
	spent := false
	if !op.Spent && x.free < maxFreeReturns {
		x.free++
		x.attempts--
	} else {
		why := "released too often"
		if op.Spent {
			why = "stream closed"
			x.free = 0
			m.sometimes("lease: given back by a stream that closed")
		}
		m.note(x, []byte(why))
		spent = x.attempts >= maxAttempts(policy(h.queue, x))
	}
	reason := fsm.ReasonNone
	switch {
	case x.expiresAt != 0 && x.expiresAt <= m.t:
		reason = fsm.ReasonExpired
	case spent:
		reason = fsm.ReasonMaxAttempts
	}
	if reason != fsm.ReasonNone {
		m.die(h.queue, x, reason)
		x.answer.Dead = true
		return x.answer
	}
	x.state = fsm.StateReady // at its old place
	if _, ok := h.queue.lane(x); ok {
		m.sometimes("order: released to its old place behind nobody")
	}
	return x.answer
}
