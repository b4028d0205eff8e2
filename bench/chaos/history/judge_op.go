package history

import "github.com/quorate/quorate/fsm"

// parseID reads an id's text; zero for what is none.
func parseID(s string) fsm.ID {
	id, err := fsm.ParseID(s)
	if err != nil {
		return fsm.ID{}
	}
	return id
}

// leaseIndex is the entry that granted a token; 0 for what is none.
func leaseIndex(token string) uint64 {
	t, err := fsm.ParseToken(token)
	if err != nil {
		return 0
	}
	return t.Lease.Index()
}

// operate judges one operation.
func (j *judge) operate(e *Effect) {
	switch e.Op {
	case Queue:
		j.makeQueue(e)
	case Enqueue:
		j.enqueue(e)
	case Chain:
		j.chain(e)
	case Lease:
		j.lease(e)
	case Ack:
		j.ack(e)
	case Nack:
		j.nack(e)
	case Extend:
		j.extend(e)
	case Release:
		j.release(e)
	case Push:
		j.push(e)
	case Cancel:
		j.cancel(e)
	case Requeue:
		j.requeue(e)
	case Delete:
		j.deleteDead(e)
	case Purge:
		j.purgeDead(e)
	case Edit:
		j.edit(e)
	case Move:
		j.move(e)
	case Empty:
		j.empty(e)
	case Drop:
		j.drop(e)
	case Plan:
		j.plan(e)
	case Unplan:
		j.unplan(e)
	case Fire:
		j.step(e)
	case Erase:
		j.erase(e)
	case Key:
		j.keyChanged(e)
	case Batch:
		j.makeBatch(e)
	case Seal:
		j.seal(e)
	case End:
		if m := j.all[e.Message]; m == nil {
			j.blame("G6", nil, e, "message %s ends, which was never enqueued", e.Message)
		} else if !m.pushed && m.letter == nil {
			j.ended[m]--
		}
	default:
		j.blame("judge", nil, e, "entry %d has an operation that this checker does not judge: %s %s", e.Index, e.Op, e.Note)
	}
}

func (j *judge) makeQueue(e *Effect) {
	if j.repeated(e) {
		return
	}
	if e.Options == nil || j.queues[e.Queue] != nil {
		j.blame("judge", nil, e, "queue %s without options, or made twice", e.Queue)
		return
	}
	if e.Note != "" {
		j.blame("judge", nil, e, "queue %s has what this checker does not judge: %s", e.Queue, e.Note)
	}
	if q := j.addQueue(e.Queue, *e.Options); e.Options.Mapped {
		q.mapping = e.Index
	}
}

func (j *judge) addQueue(name string, o Options) *queue {
	q := &queue{
		name: name, opt: o, flows: map[string]*flow{}, lanes: map[string]*lane{}, dedup: map[string]first{},
		dead: map[*message]bool{}, live: map[*message]bool{},
	}
	j.queues[name] = q
	j.r.mode(o.Mode)
	return q
}

// repeated says whether a request id was answered before: then the answer must be that one, and nothing may change. What
// was not executed for want of a session or of room for its outcome is not remembered.
func (j *judge) repeated(e *Effect) bool {
	if e.Session == "" || e.Code == "session_expired" || e.Code == "overloaded" {
		return e.Session != ""
	}
	id := request{e.Session, e.Number}
	before, ok := j.asked[id]
	if !ok {
		j.asked[id] = *e
		return false
	}
	j.r.count("request answered again")
	if before.Code != e.Code || before.Message != e.Message || before.Made != e.Made || before.Count != e.Count || before.Duplicate != e.Duplicate {
		j.r.blame("G11", j.mode(e.Queue), "a request id has two answers", &before, e)
	}
	return true
}

func (j *judge) enqueue(e *Effect) {
	if e.Note != "" {
		j.blame("judge", nil, e, "a message with what this checker does not judge: %s", e.Note)
	}
	if j.repeated(e) {
		return
	}
	q := j.queues[e.Queue]
	switch {
	case q != nil:
	case e.Code == "" && e.Auto:
		q = j.addQueue(e.Queue, defaults())
		j.r.count("queue made by an enqueue")
	case e.Auto:
		return
	default:
		j.verdict("G14", nil, e, "not_found", "there is no queue "+e.Queue)
		return
	}
	if e.Dedup != "" && (e.Code == "" || e.Code == "already_exists") {
		f, known := q.dedup[e.Dedup]
		holds := known && j.time <= f.time+q.opt.Window
		switch {
		case holds && f.content == e.Content && (e.Code != "" || !e.Duplicate || e.Message != f.id):
			j.blame("G8", nil, e, "entry %d at T %d: the dedup key was first seen at T %d with message %s and holds for %d ms; want a duplicate",
				j.index, j.time, f.time, f.id, q.opt.Window)
		case holds && f.content != e.Content && (e.Code != "already_exists" || e.Message != f.id):
			j.blame("G8", nil, e, "entry %d at T %d: the dedup key stands for other content of message %s since T %d; want already_exists",
				j.index, j.time, f.id, f.time)
		case !holds && (e.Code != "" || e.Duplicate):
			j.blame("G8", nil, e, "entry %d at T %d: the dedup key does not hold (first seen at T %d, for %d ms); want a new message",
				j.index, j.time, f.time, q.opt.Window)
		case holds && e.Code != "":
			j.r.count("dedup key with other content refused")
		case holds:
			j.r.count("duplicate answered")
		case known:
			j.r.count("dedup key used again after its window")
		}
	} else if e.Code == "" && e.Duplicate {
		j.blame("G8", nil, e, "a message without a dedup key is a duplicate")
	}
	if e.Duplicate || !j.joins(e) || e.Code != "" {
		return
	}
	if m := j.create(q, e); m != nil {
		j.join(m, e.Batch)
	}
}

// chain judges a message that an ack enqueues: in the entry of the first one that succeeds, and once.
func (j *judge) chain(e *Effect) {
	q := j.queues[e.Queue]
	m := j.named(e.Token)
	if q == nil || e.Note != "" || e.Dedup != "" || e.Batch != "" {
		j.blame("judge", m, e, "an ack enqueues what this checker does not judge: %s", e.Note)
		return
	}
	first := j.chaining == e.Token && j.chains > 0
	if first && e.Message == "" && e.Made != "" { // it was, and a later operation of this entry took it
		seen := *e
		seen.Message = e.Made
		e = &seen
	}
	switch {
	case first && e.Message == "":
		j.chains--
		j.blame("G1", m, e, "the ack of message %s succeeded, and what it carries is not enqueued", m.id)
	case first:
		j.chains--
		if child := j.create(q, e); child != nil {
			child.parent = e.Token
			j.chained[e.Token] = append(j.chained[e.Token], child)
			j.r.count("message enqueued by an ack")
		}
	case e.Message != "":
		j.blame("G6", m, e, "an ack that changes nothing enqueues message %s", e.Message)
	default:
		j.r.count("ack with a message repeated")
	}
}

// brokenChain reports messages of an ack that the log has not spoken of.
func (j *judge) brokenChain() {
	if j.chains > 0 {
		j.blame("G1", j.named(j.chaining), nil, "the ack %s succeeded, and %d messages that it carries are not in the log", j.chaining, j.chains)
	}
	j.chaining, j.chains = "", 0
}

// create enters a message, nil where its id cannot be.
func (j *judge) create(q *queue, e *Effect) *message {
	id := parseID(e.Message)
	if id.Index() != j.index || j.all[e.Message] != nil || e.Priority < 0 || e.Priority > 9 {
		j.blame("G2", nil, e, "entry %d makes the message %s, whose id is of entry %d or was there, with priority %d", j.index, e.Message, id.Index(), e.Priority)
		return nil
	}
	m := &message{
		id: e.Message, q: q, lane: q.lane(e.Key), priority: e.Priority, body: e.Body, created: j.index,
		by: request{e.Session, e.Number}, timeout: e.Timeout, ttl: e.TTL, key: e.Key, retry: q.opt.Retry,
		sent: e.Body, since: j.time, own: e.Retry, keys: e.Keys,
	}
	if e.Retry != nil {
		m.retry = *e.Retry
	}
	if e.TTL > 0 {
		m.expires = j.time + e.TTL
	}
	j.all[m.id] = m
	q.live[m] = true
	q.all = append(q.all, m)
	if m.by.session != "" {
		j.created[m.by] = m
	}
	if e.Dedup != "" {
		q.dedup[e.Dedup] = first{m.id, e.Content, j.time}
	}
	if m.due = e.Due; m.due == 0 {
		m.due = j.time + e.Delay
	}
	if m.due > j.time {
		j.change(m, scheduled)
	} else {
		j.ready(m, true)
	}
	return m
}

func (j *judge) lease(e *Effect) {
	if e.Code != "" {
		return // refused whole: nothing was handed out
	}
	if e.Token == "" { // it found nothing
		if e.Session != "" {
			j.asked[request{e.Session, e.Number}] = *e
		}
		return
	}
	m := j.named(e.Token)
	if m == nil || m.id != e.Message {
		j.blame("G2", nil, e, "entry %d leases the message %s, which was never enqueued", j.index, e.Message)
		return
	}
	if at := leaseIndex(e.Token); at != j.index { // a request answered again
		if _, asked := j.asked[request{e.Session, e.Number}]; m.token != e.Token || m.state != leased || e.Session == "" || !asked || e.Attempt != m.attempts {
			j.blame("G11", m, e, "entry %d hands out a lease of entry %d again, which is not live, or not to who has it", j.index, at)
		}
		j.r.count("lease read again by its request")
		return
	}
	if e.Session != "" {
		j.asked[request{e.Session, e.Number}] = Effect{Op: Lease}
	}
	if e.Queue != m.q.name {
		j.blame("G2", m, e, "message %s of queue %s is leased from queue %s", m.id, m.q.name, e.Queue)
	}
	if e.Token <= m.token {
		j.blame("G3", m, e, "the token of message %s does not rise: the one before is %s", m.id, m.token)
	}
	switch {
	case m.state == leased || m.out:
		j.blame("G3", m, e, "message %s is leased while its lease %s is live, until lease time %d (now %d)", m.id, m.token, m.deadline, j.time-j.shift)
	case m.ended():
		j.blame("G6", m, e, "message %s is leased, though it is %s since entry %d", m.id, m.state, m.endIndex)
		return
	case m.state != ready:
		j.blame("G3", m, e, "message %s is leased while it is %s, due at T %d (now %d)", m.id, m.state, m.due, j.time)
	case m.lane != nil && m.lane.holder() != m:
		h := m.lane.holder()
		j.blame("G9", m, e, "message %s (place %d) is leased while %s (place %d, %s) is before it in its group", m.id, m.place, h.id, h.place, h.state)
	default:
		if b := m.q.best(m, j.time); b != m {
			j.blame("G9", m, e, "message %s (priority %d, place %d) is leased while %s (priority %d, place %d) is to go first",
				m.id, m.priority, m.place, b.id, b.priority, b.place)
		}
		j.waited(m, e)
	}
	j.paced(m, e)
	if m.replaced {
		j.given[e.Token] = m.body
	}
	if m.q.opt.Once {
		j.handOver(m, e)
		return
	}
	m.attempts++
	most := int(m.retry.Attempts())
	switch {
	case e.Attempt != m.attempts:
		j.blame("G10", m, e, "message %s goes out as attempt %d; %d cost one before", m.id, e.Attempt, m.attempts-1)
	case m.attempts > most:
		j.blame("G10", m, e, "message %s goes out as attempt %d of %d", m.id, m.attempts, most)
	}
	if m.leases++; m.leases > 1 {
		switch m.end {
		case byExpiry:
			j.r.count("redelivered after expiry")
		case byNack:
			j.r.count("redelivered after nack")
		case byRelease:
			j.r.count("redelivered after release, at the same attempt")
		}
	}
	length := e.Length
	if length == 0 {
		length = m.q.opt.Lease
	}
	m.token, m.end, m.cutoff, m.length, m.void = e.Token, running, 0, length, false
	m.deadline = j.time - j.shift + length
	if m.timeout > 0 {
		m.cutoff = j.time - j.shift + m.timeout
		m.deadline = min(m.deadline, m.cutoff)
		m.length = m.deadline - (j.time - j.shift)
	}
	j.change(m, leased)
}

// handOver is the lease of a queue that delivers at most once: the message is done with it, and nothing ever brings it back.
func (j *judge) handOver(m *message, e *Effect) {
	j.r.count("handed over, at most once")
	if e.Attempt != 1 {
		j.blame("G10", m, e, "message %s is delivered at most once, as attempt %d", m.id, e.Attempt)
	}
	m.leases++
	m.attempts, m.token, m.end, m.doneBy, m.taken = 1, e.Token, running, e.Token, true
	j.finish(m, done)
}

// waited judges how long a queue handed nothing out while a message lay ready, once faults had ended and workers did nothing but
// work. How long one message lay says nothing: with more of them than workers can take at once the last ones wait.
func (j *judge) waited(m *message, e *Effect) {
	since := max(m.eligible, m.q.leasedAt)
	m.q.leasedAt = j.time
	if j.heal == 0 || j.index <= j.heal || j.drained != 0 && j.index > j.drained {
		return
	}
	took := j.time - max(since, j.timeAt(j.heal))
	j.r.WaitMillis = max(j.r.WaitMillis, took)
	if most := j.within + m.q.opt.holds(); took > most {
		j.blame("G7", m, e, "message %s was ready, and for %d ms the queue handed nothing out after faults had ended, want at most %d", m.id, took, most)
	}
}

// task is the message that an id names now, the dead letter where that was moved.
func (j *judge) task(id string) *message {
	m := j.all[id]
	if m == nil {
		return nil
	}
	if m.letter != nil && m.gone == 0 {
		m = m.letter
	}
	return m.now()
}

func (j *judge) push(e *Effect) {
	if j.repeated(e) {
		return
	}
	m := j.task(e.Message)
	if m == nil || j.forgotten(m) || e.Code == "not_found" && m.nameless(j.all[e.Message]) {
		return // a task that is not known: not a message's
	}
	switch {
	case m.gone != 0: // deleted: as if the task had never been
		if e.Code == "" && !m.hasResult {
			m.result, m.hasResult, m.resultAt = e.Result, true, j.index
		}
	case m.state == cancelled:
		j.verdict("G6", m, e, "cancelled", "the task was cancelled")
	case m.hasResult || m.state == done:
		if j.verdict("G6", m, e, "", "the task has a result: a duplicate") && !e.Duplicate {
			j.blame("G6", m, e, "a second result of message %s is taken; the first is of entry %d", m.id, m.endIndex)
		}
		j.r.count("second result refused")
	case e.Code != "":
	case e.Duplicate:
		j.blame("G6", m, e, "the first result of message %s is called a duplicate", m.id)
	default:
		j.r.count("result pushed")
		m.result, m.hasResult, m.pushed, m.resultAt = e.Result, true, true, j.index
		if m.state == leased || m.state == dead {
			delete(j.ended, m)
			return
		}
		if m.end == byExpiry || m.end == byRelease {
			m.told = true // a late ack of the last lease will be
		}
		j.finish(m, done)
	}
}

func (j *judge) cancel(e *Effect) {
	if j.repeated(e) {
		return
	}
	m := j.task(e.Message)
	if m == nil || j.forgotten(m) || m.gone != 0 || e.Code == "not_found" && m.nameless(j.all[e.Message]) {
		return
	}
	switch {
	case m.state == cancelled:
		if j.verdict("G6", m, e, "", "cancelled again: the same success") && !e.Duplicate {
			j.blame("G6", m, e, "message %s is cancelled twice", m.id)
		}
	case m.ended() || m.hasResult:
		j.verdict("G6", m, e, "failed_precondition", "the task has ended")
	case j.verdict("G6", m, e, "", "the task is live"):
		j.r.count("task cancelled")
		m.out = m.state == leased
		gen := m.gen
		j.finish(m, cancelled)
		if m.out { // its deadline still stands
			m.gen = gen
		}
	}
}
