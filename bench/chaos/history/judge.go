package history

import (
	"container/heap"
	"fmt"
)

// request is a request id.
type request struct {
	session string
	number  uint64
}

// maxMoves is how many due moves an entry makes; it is part of the log's format.
const maxMoves = 1024

// freeReturns is how many returns in a row cost no attempt.
const freeReturns = 16

// tombstone is how long a task that is done without a result, or cancelled, is remembered at least, in ms.
const tombstone = 600_000

// judge walks the log by the contract's rules and says where it went another way. After a disagreement it goes on with what
// the log did, so that one fault is not reported as many.
type judge struct {
	r       *Report
	queues  map[string]*queue
	all     map[string]*message
	asked   map[request]Effect // the first outcome of each request id
	created map[request]*message
	lapsed  map[string]int64      // length in ms of leases that ran out and had never been extended, by token
	chained map[string][]*message // by the token of the ack that enqueued them
	mapped  map[string]string     // by the token of an ack that speaks of a mapping: the queue that it maps to
	places  uint64

	time, shift int64
	index       uint64
	times       map[uint64]int64 // T at each entry
	indexes     []uint64         // of the entries, rising
	due         moveHeap         // by T
	leases      moveHeap         // by lease time
	chaining    string           // token of the ack whose messages are to be enqueued next
	chains      int              // how many are left
	expected    []*message       // leases that the due moves of this entry ended, and of which the log has not spoken yet
	ended       map[*message]int // ends of this entry: what should be less what was

	schedules      map[string]*schedule
	plans          map[request]*Effect // what was declared under each request
	firings        map[string]string   // the message of each time that was fired
	term           uint64
	kv             map[string][]version
	written        map[string]version // keys that this entry has to change
	said           map[string]*Effect // keys that the log says it changed
	bodies         map[request]string // what stands for another body, by the request that brought it
	given          map[string]string  // the body that each lease of a message went out with, where it was replaced at some time
	swept          []*message         // members of batches that a purge or a deletion in this entry took
	announcedMoves map[string]*Effect // dead letters that this entry moves, by their ids

	batches   map[string]*batch
	announced map[string]*Effect // callbacks of this entry, by batch
	ripe      []*batch           // whose last member ended in the step at hand

	heal, drained uint64 // indexes between which every message must go out in time
	within        int64  // ms
}

func newJudge(r *Report) *judge {
	return &judge{
		r: r, queues: map[string]*queue{}, all: map[string]*message{}, asked: map[request]Effect{},
		created: map[request]*message{}, times: map[uint64]int64{}, ended: map[*message]int{},
		lapsed: map[string]int64{}, chained: map[string][]*message{}, mapped: map[string]string{}, batches: map[string]*batch{}, announced: map[string]*Effect{},
		schedules: map[string]*schedule{}, plans: map[request]*Effect{}, firings: map[string]string{}, kv: map[string][]version{},
		written: map[string]version{}, said: map[string]*Effect{}, bodies: map[request]string{}, given: map[string]string{},
		announcedMoves: map[string]*Effect{},
	}
}

func (j *judge) blame(g string, m *message, e *Effect, format string, args ...any) {
	mode := ""
	if m != nil {
		mode = m.q.opt.Mode
	} else if e != nil {
		mode = j.mode(e.Queue)
	}
	var shown []any
	if e != nil {
		shown = append(shown, e)
	}
	j.r.blame(g, mode, fmt.Sprintf(format, args...), shown...)
}

func (j *judge) mode(queue string) string {
	if q := j.queues[queue]; q != nil {
		return q.opt.Mode
	}
	return ""
}

// run walks all effects.
func (j *judge) run(fx []Effect) {
	for i := range fx {
		e := &fx[i]
		if e.Op == Entry {
			j.closeEntry()
			for k := i + 1; k < len(fx) && (fx[k].Op == Callback || fx[k].Op == Bury); k++ {
				j.announce(&fx[k])
			}
			j.enter(e)
			continue
		}
		if i > 0 && !e.continues(&fx[i-1]) {
			j.fire()
		}
		if e.Op == Callback || e.Op == Bury {
			continue
		}
		if e.Index != j.index {
			j.blame("G15", nil, e, "an operation of entry %d stands in entry %d", e.Index, j.index)
		}
		if e.Op == Expire {
			j.expired(e)
			continue
		}
		j.missedExpiries()
		if e.Op != Chain {
			j.brokenChain()
		}
		j.operate(e)
	}
	j.closeEntry()
}

// continues says whether an effect is of the same operation as the one before it.
func (e *Effect) continues(before *Effect) bool {
	return e.Op == Chain || e.Op == Lease && before.Op == Lease && e.Session == before.Session && e.Number == before.Number && e.Queue == before.Queue
}

// announce notes a callback, or a move to a dead-letter queue, of the entry that begins.
func (j *judge) announce(e *Effect) {
	if e.Op == Bury {
		if j.announcedMoves[e.Message] != nil {
			j.blame("G6", j.all[e.Message], e, "dead letter %s is moved twice in an entry", e.Message)
			return
		}
		j.announcedMoves[e.Message] = e
		return
	}
	if j.announced[e.Batch] != nil {
		j.blame("G6", nil, e, "batch %s is called back twice in an entry", e.Batch)
		return
	}
	j.announced[e.Batch] = e
}

// enter begins an entry: T advances, and what is due moves.
func (j *judge) enter(e *Effect) {
	switch {
	case e.Index <= j.index:
		j.blame("G15", nil, e, "entry %d comes after entry %d", e.Index, j.index)
	case e.Time < j.time:
		j.blame("G13", nil, e, "T falls from %d to %d at entry %d", j.time, e.Time, e.Index)
	case e.Shift < j.shift || e.Shift-j.shift > e.Time-j.time:
		j.blame("G13", nil, e, "ΣShift goes from %d to %d while T goes from %d to %d", j.shift, e.Shift, j.time, e.Time)
	}
	if j.shift > 0 && e.Shift > j.shift {
		j.r.count("log time jumped")
	}
	j.index, j.time, j.shift, j.term = e.Index, max(j.time, e.Time), e.Shift, e.Term
	j.times[j.index] = j.time
	j.indexes = append(j.indexes, j.index)
	for range maxMoves {
		t, l := j.due.top(), j.leases.top()
		var next move
		switch {
		case t == nil && l == nil:
			return
		case l == nil:
			next = *t
		default:
			next = *l
			next.at += j.shift
			if t != nil && t.before(&next) {
				next = *t
			}
		}
		if next.at > j.time {
			return
		}
		if next.kind == moveLease {
			heap.Pop(&j.leases)
		} else {
			heap.Pop(&j.due)
		}
		m := next.m
		switch next.kind {
		case moveDelay:
			j.r.count("delayed message came due")
			j.ready(m, true)
		case moveRetry:
			j.ready(m, m.lane == nil)
		case moveLease:
			j.expected = append(j.expected, m)
			j.expire(m)
		case moveTTL:
			j.die(m, "expired")
		}
		j.fire()
	}
}

// closeEntry compares what ended in the entry with what had to.
func (j *judge) closeEntry() {
	j.fire()
	j.missedExpiries()
	j.brokenChain()
	j.sweep()
	j.unexplained()
	j.unexplainedMoves()
	j.compareKeys()
	for m, n := range j.ended {
		switch {
		case n > 0:
			j.blame("G6", m, nil, "message %s is %s since entry %d, where the log does not say that it ended", m.id, m.state, j.index)
		case n < 0 && m.ended():
			j.blame("G6", m, nil, "message %s ended again in entry %d; it is %s since entry %d", m.id, j.index, m.state, m.endIndex)
		case n < 0:
			j.blame("G6", m, nil, "message %s ended in entry %d, where it is %s", m.id, j.index, m.state)
		}
	}
	clear(j.ended)
}

func (j *judge) missedExpiries() {
	for _, m := range j.expected {
		j.blame("G3", m, nil, "the lease %s of message %s was at its deadline %d in entry %d (lease time %d), and the log did not end it",
			m.token, m.id, m.deadline, j.index, j.time-j.shift)
	}
	j.expected = j.expected[:0]
}

// expired compares an expiry of the log with those that were due.
func (j *judge) expired(e *Effect) {
	for i, m := range j.expected {
		if m.token == e.Token {
			j.expected = append(j.expected[:i], j.expected[i+1:]...)
			return
		}
	}
	m := j.holder(e.Token)
	if m == nil {
		j.blame("G3", nil, e, "entry %d ends lease %s, which is not live", j.index, e.Token)
		return
	}
	j.blame("G3", m, e, "entry %d ends lease %s at lease time %d, before its deadline %d", j.index, e.Token, j.time-j.shift, m.deadline)
	j.expire(m)
}

// holder is the message whose live lease has the token.
func (j *judge) holder(token string) *message {
	m := j.named(token)
	if m == nil || m.token != token || m.state != leased && !m.out {
		return nil
	}
	return m
}

// named is the message that a token is of.
func (j *judge) named(token string) *message { return j.all[messageOf(token)] }

// messageOf is the message's half of a token.
func messageOf(token string) string { return token[:min(len(token), 26)] }

// change moves a message to a state and puts it under the clock.
func (j *judge) change(m *message, s state) {
	m.state = s
	m.gen++
	switch s {
	case scheduled:
		heap.Push(&j.due, move{m.due, moveDelay, m, m.gen})
	case retrying:
		heap.Push(&j.due, move{m.due, moveRetry, m, m.gen})
	case leased:
		heap.Push(&j.leases, move{m.deadline, moveLease, m, m.gen})
		return
	}
	if !m.ended() && m.expires != 0 {
		heap.Push(&j.due, move{m.expires, moveTTL, m, m.gen})
	}
}

// ready makes a message ready, at a new place or at its old one.
func (j *judge) ready(m *message, fresh bool) {
	if fresh {
		j.places++
		m.place = j.places
		if m.lane != nil {
			m.lane.members = append(m.lane.members, m)
		}
	}
	j.change(m, ready)
	if m.lane == nil || m.lane.holder() == m {
		j.offer(m)
	}
}

// offer lets a message be the next to go out.
func (j *judge) offer(m *message) {
	m.eligible = j.time
	w := &m.q.ready
	if f := m.q.flow(m.key); f != nil {
		w = &f.ready
	}
	heap.Push(&w[m.priority], placed{m.place, m, m.gen})
}

// leave takes an ended message out of its lane: the one behind it holds it now.
func (j *judge) leave(m *message, held bool) {
	if m.lane == nil || !held {
		return
	}
	if next := m.lane.holder(); next != nil && next.state == ready {
		j.offer(next)
	}
}

// holds says whether a message holds its lane.
func (m *message) holds() bool {
	return m.lane != nil && m.place != 0 && m.lane.holder() == m
}

// finish ends a message.
func (j *judge) finish(m *message, s state) {
	held := m.holds()
	j.change(m, s)
	delete(m.q.live, m)
	m.endIndex, m.endTime = j.index, j.time
	if !m.pushed && m.letter == nil { // whose task's end was told with its result, or when it died
		j.ended[m]++
	}
	j.leaves(m)
	if !m.out {
		j.leave(m, held)
	}
}

func (j *judge) die(m *message, reason string) {
	m.reason, m.most = reason, int(m.retry.Attempts())
	j.finish(m, dead)
	j.writeKeys(m)
	if !j.bury(m) {
		m.q.dead[m] = true
	}
	switch reason {
	case "max_attempts":
		j.r.count("attempts exhausted")
	case "expired":
		j.r.count("message expired by ttl")
	case "permanent":
		j.r.count("permanent failure")
	}
}

// expire ends a lease at its deadline.
func (j *judge) expire(m *message) {
	m.end = byExpiry
	if m.length > 0 {
		j.lapsed[m.token] = m.length
	}
	if m.out {
		j.free(m)
		return
	}
	j.r.count("lease expired")
	m.lastWord = "lease expired"
	j.failed(m, -1, "")
}

// free ends the lease of a cancelled task.
func (j *judge) free(m *message) {
	held := m.holds()
	m.out = false
	m.gen++
	j.leave(m, held)
}

// failed decides what becomes of a message whose attempt failed.
func (j *judge) failed(m *message, delay int64, why string) {
	m.free = 0
	switch {
	case m.expires != 0 && m.expires <= j.time:
		j.die(m, "expired")
	case why != "":
		j.die(m, why)
	case m.attempts >= int(m.retry.Attempts()):
		j.die(m, "max_attempts")
	default:
		if delay < 0 {
			delay = m.retry.Delay(parseID(m.id), int32(m.attempts))
		}
		m.due = j.time + delay
		j.change(m, retrying)
	}
}
