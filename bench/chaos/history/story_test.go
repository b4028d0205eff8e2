package history

import (
	"testing"

	"github.com/quorate/quorate/fsm"
)

// story is a run told by hand: every step is an entry of a real log, and what a client sees of it. Its clocks move when it
// says so.
type story struct {
	t       *testing.T
	st      *fsm.State
	fx      fsm.Effects
	now     int64
	index   uint64
	entries []LogEntry
	events  []Event
	at      int64
	calls   uint64
	number  uint64
	session fsm.ID
	ids     []string
	term    uint64
	looks   []func() // to be taken at the end
}

func tell(t *testing.T) *story {
	s := &story{t: t, st: fsm.New(0), now: 1_000_000, index: 2, term: 1}
	t.Cleanup(s.st.Close)
	s.apply(&fsm.Bootstrap{Cluster: [16]byte{1}, Epoch: 1})
	s.apply(&fsm.OpenSession{})
	s.session = s.fx.Outcomes[0].ID
	return s
}

// apply appends an entry.
func (s *story) apply(ops ...fsm.Op) *fsm.Outcome {
	s.t.Helper()
	b := fsm.AppendEntryHeader(nil, s.now, 0)
	for _, op := range ops {
		b = fsm.AppendOp(b, op)
	}
	s.index++
	if err := s.st.Apply(s.index, b, &s.fx); err != nil {
		s.t.Fatal(err)
	}
	s.entries = append(s.entries, LogEntry{Index: s.index, Term: s.term, Data: b})
	if len(s.fx.Outcomes) == 0 {
		return nil
	}
	return &s.fx.Outcomes[0]
}

// pass lets log time pass, with ticks on the way.
func (s *story) pass(ms int64) {
	for ms > 0 {
		step := min(ms, 50)
		s.now += step
		s.at += 1000 * step
		ms -= step
		s.apply()
	}
}

func (s *story) event(e Event) {
	s.at += 10
	e.At = s.at
	s.events = append(s.events, e)
}

func (s *story) call(e Event) uint64 {
	s.calls++
	e.Kind, e.Call = Call, s.calls
	s.event(e)
	return s.calls
}

// ret notes the answer of the last entry.
func (s *story) ret(call uint64, op Op, e Event, o *fsm.Outcome) {
	e.Kind, e.Call, e.Op, e.Class, e.Index, e.Time = Return, call, op, OK, s.index, s.now
	if o != nil && o.Code != fsm.OK {
		e.Class, e.Code = Refused, codeName(o.Code)
	}
	s.event(e)
}

// queue makes a queue, by a request that is sent again: it is made once.
func (s *story) queue(name string, o fsm.Ordering) {
	op := &fsm.CreateQueue{Request: s.request(), Name: []byte(name), Options: fsm.QueueOptions{
		Ordering: o, LeaseMillis: 1000, DedupWindowMillis: 2000,
		Retry: fsm.RetryPolicy{Kind: fsm.RetryFixed, InitialMillis: 100, MaxAttempts: 3},
	}}
	s.apply(op)
	s.apply(op)
}

// onceQueue makes a queue that delivers at most once.
func (s *story) onceQueue(name string, o fsm.Ordering) {
	s.event(Event{Kind: Mark, Note: AtMostOnce, Queue: name})
	s.apply(&fsm.CreateQueue{Name: []byte(name), Options: fsm.QueueOptions{
		Ordering: o, Delivery: fsm.DeliverAtMostOnce, DedupWindowMillis: 2000, Retry: fsm.RetryPolicy{Kind: fsm.RetryFixed, InitialMillis: 100, MaxAttempts: 3},
	}})
}

func (s *story) request() fsm.Request {
	s.number++
	return fsm.Request{Session: s.session, Number: s.number, Low: 1}
}

// enqueue sends one message and returns its id.
func (s *story) enqueue(queue string, m fsm.Message) string {
	return s.send(queue, m, s.request(), true, true)
}

// send sends a message under a request id; arrives: it comes into the log; answered: its answer comes back.
func (s *story) send(queue string, m fsm.Message, r fsm.Request, arrives, answered bool) string {
	call := s.call(Event{Op: Enqueue, Queue: queue, Session: r.Session.String(), Number: r.Number, Body: Sum(m.Body)})
	var id string
	var o *fsm.Outcome
	if arrives {
		o = s.apply(&fsm.Enqueue{Request: r, Queue: []byte(queue), Messages: []fsm.Message{m}})
		id = o.ID.String()
	}
	if !answered {
		s.event(Event{Kind: Return, Call: call, Op: Enqueue, Class: Unknown})
	} else {
		s.ret(call, Enqueue, Event{Message: id, Duplicate: o.Duplicate}, o)
	}
	if arrives && o.Code == fsm.OK && !o.Duplicate {
		s.ids = append(s.ids, id)
	}
	return id
}

// turnedAway sends a message under a request id and is refused at the door.
func (s *story) turnedAway(queue string, m fsm.Message, r fsm.Request) {
	call := s.call(Event{Op: Enqueue, Queue: queue, Session: r.Session.String(), Number: r.Number, Body: Sum(m.Body)})
	s.event(Event{Kind: Return, Call: call, Op: Enqueue, Class: Refused, Code: "no_leader"})
}

func text(body string) fsm.Message {
	return fsm.Message{Body: []byte(body), Priority: 4}
}

func dedup(body, key string) fsm.Message {
	m := text(body)
	m.HasDedup = true
	copy(m.DedupKey[:], key)
	copy(m.DedupContent[:], body)
	return m
}

// lease pulls up to most messages and returns their tokens.
func (s *story) lease(queue string, most int32) (tokens []string) {
	s.t.Helper()
	return s.pull(queue, most, s.request(), true)
}

// pull leases under a request id; answered: the answer comes back.
func (s *story) pull(queue string, most int32, r fsm.Request, answered bool) (tokens []string) {
	s.t.Helper()
	call := s.call(Event{Op: Lease, Queue: queue, Session: r.Session.String(), Number: r.Number})
	o := s.apply(&fsm.Lease{Request: r, Queue: []byte(queue), Consumer: fsm.Consumer{Session: s.session}, Max: most, Worker: []byte("w")})
	if !answered {
		s.event(Event{Kind: Return, Call: call, Op: Lease, Class: Unknown})
		return nil
	}
	for _, l := range s.fx.Leases {
		var d fsm.Delivery
		s.st.Deliver(l, &d)
		s.event(Event{
			Kind: Deliver, Call: call, Op: Lease, Queue: queue, Message: l.Token.Message.String(), Token: l.Token.String(),
			Attempt: int(l.Attempt), Body: Sum(d.Body),
		})
		tokens = append(tokens, l.Token.String())
	}
	s.ret(call, Lease, Event{}, o)
	return tokens
}

// take leases exactly one.
func (s *story) take(queue string) string {
	s.t.Helper()
	got := s.lease(queue, 1)
	if len(got) != 1 {
		s.t.Fatalf("leased %d of %s at entry %d, want one", len(got), queue, s.index)
	}
	return got[0]
}

func (s *story) token(text string) fsm.Token {
	s.t.Helper()
	tok, err := fsm.ParseToken(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return tok
}

func (s *story) ack(token, result string) { s.ackThen(token, result, "", "") }

// ackThen acks and enqueues a message in the same entry, where a queue is given.
func (s *story) ackThen(token, result, queue, body string) {
	s.t.Helper()
	op := &fsm.Ack{Token: s.token(token)}
	e := Event{Op: Ack, Token: token}
	if queue != "" {
		op.Then = []fsm.ThenMessage{{Queue: []byte(queue), Message: text(body)}}
		e.Body = Sum([]byte(body))
	}
	if result != "" {
		op.HasResult, op.Result.Output, e.Result = true, []byte(result), Sum([]byte(result))
	}
	call := s.call(e)
	o := s.apply(op)
	s.ret(call, Ack, Event{Token: token, Duplicate: o.Duplicate}, o)
}

func (s *story) nack(token string, permanent bool) {
	s.t.Helper()
	call := s.call(Event{Op: Nack, Token: token})
	o := s.apply(&fsm.Nack{Token: s.token(token), DelayMillis: -1, Permanent: permanent, Error: []byte("no")})
	s.ret(call, Nack, Event{Token: token, Dead: o.Dead, Millis: o.Millis}, o)
}

func (s *story) extend(token string) {
	s.t.Helper()
	call := s.call(Event{Op: Extend, Token: token})
	o := s.apply(&fsm.Extend{Token: s.token(token)})
	s.ret(call, Extend, Event{Token: token, Millis: o.Millis}, o)
}

func (s *story) release(token string) {
	s.t.Helper()
	call := s.call(Event{Op: Release, Token: token})
	o := s.apply(&fsm.Release{Token: s.token(token)})
	s.ret(call, Release, Event{Token: token}, o)
}

func (s *story) cancel(queue, id string) {
	r := s.request()
	call := s.call(Event{Op: Cancel, Queue: queue, Message: id, Session: r.Session.String(), Number: r.Number})
	o := s.apply(&fsm.Cancel{Request: r, TaskID: []byte(id)})
	s.ret(call, Cancel, Event{Message: id, Duplicate: o.Duplicate}, o)
}

func (s *story) push(queue, id, result string) {
	r := s.request()
	call := s.call(Event{Op: Push, Queue: queue, Message: id, Session: r.Session.String(), Number: r.Number, Result: Sum([]byte(result))})
	o := s.apply(&fsm.PushResult{Request: r, Queue: []byte(queue), TaskID: []byte(id), Result: fsm.Result{Output: []byte(result)}})
	s.ret(call, Push, Event{Message: id, Duplicate: o.Duplicate}, o)
}

// read reads a task's end, or where it stands.
func (s *story) read(op Op, queue, id string) {
	call := s.call(Event{Op: op, Queue: queue, Message: id})
	e := Event{Message: id, Queue: queue}
	var in fsm.Info
	var o *fsm.Outcome
	if !s.st.Task(queue, []byte(id), &in) {
		o = &fsm.Outcome{Code: fsm.NotFound}
	} else {
		switch in.State {
		case fsm.StateDone:
			e.Status = succeeded
			var r fsm.RecordedResult
			if _, has := s.st.Result(queue, []byte(id), &r); has {
				e.Result = Sum(r.Output)
			}
		case fsm.StateDead:
			e.Status, e.Reason, e.Attempt, e.Note = wasDead, causes[in.Reason], int(in.Attempts), string(in.Error)
			e.Queue, e.Origin = in.Queue, in.Origin
		case fsm.StateCancelled:
			e.Status = wasCancelled
		}
	}
	s.ret(call, op, e, o)
}

func (s *story) mark(note string) { s.event(Event{Kind: Mark, Note: note, Index: s.index}) }

// history ends the story: everything is read once more.
func (s *story) history() *History {
	s.t.Helper()
	s.mark(Drained)
	for _, id := range s.ids {
		s.read(Final, "", id)
	}
	for _, look := range s.looks {
		look()
	}
	fx, _, err := Replay(s.entries)
	if err != nil {
		s.t.Fatal(err)
	}
	return &History{Events: s.events, Effects: fx}
}

// wholeStory has everything in it that a run must have.
func wholeStory(t *testing.T) *History {
	s := tell(t)
	s.queue("u", fsm.OrderUnordered)
	s.queue("f", fsm.OrderFIFO)
	s.queue("k", fsm.OrderPerKey)

	// Unordered: priorities, two at once, an ack that is repeated, one with another result.
	low, high := text("low"), text("high")
	low.Priority, high.Priority = 1, 7
	s.enqueue("u", low)
	s.enqueue("u", high)
	s.enqueue("u", text("middle"))
	both := s.lease("u", 2)
	s.ack(both[0], "high done")
	s.ack(both[0], "high done")
	s.ack(both[0], "something else")
	s.read(Read, "u", both[0][:26])
	s.ack(both[1], "")
	low1 := s.take("u")
	s.nack(low1, false)
	s.nack(low1, false)
	s.ack(low1, "too late")
	s.pass(150)
	low2 := s.take("u")
	s.extend(low2)
	s.pass(600)
	s.extend(low2)
	s.pass(1050) // expired, and waiting for its retry
	s.ack(low2, "late")

	// A worker that is too slow: somebody else has it.
	s.enqueue("u", text("slow"))
	slow1 := s.take("u")
	s.pass(1200)
	slow2 := s.take("u")
	s.ack(slow1, "stale")
	s.extend(slow1)
	s.release(slow2)
	slow3 := s.take("u")
	s.nack(slow3, false)
	s.pass(150)
	slow4 := s.take("u")
	s.nack(slow4, false) // the third that costs

	// Dedup: within the window, with other content, after it.
	first := s.request()
	s.send("u", dedup("same", "k"), first, true, true)
	s.send("u", dedup("same", "k"), first, true, true) // the same request
	s.enqueue("u", dedup("same", "k"))
	s.enqueue("u", dedup("other", "k"))
	s.ack(s.take("u"), "same done")
	s.pass(2050)
	s.enqueue("u", dedup("same", "k"))
	s.ack(s.take("u"), "same done again")

	// Unknown: one that arrived and one that did not.
	s.send("u", text("arrived"), s.request(), true, false)
	s.send("u", text("gone"), s.request(), false, false)
	s.ack(s.take("u"), "arrived done")

	// Refused at the door, before or after another sending of the same request came through: that is what the log has.
	twice := s.request()
	s.turnedAway("u", text("twice"), twice)
	s.send("u", text("twice"), twice, true, true)
	s.turnedAway("u", text("twice"), twice)
	s.ack(s.take("u"), "twice done")
	unheard := s.request()
	s.send("u", text("unheard"), unheard, true, false)
	s.turnedAway("u", text("unheard"), unheard)
	s.ack(s.take("u"), "unheard done")
	s.turnedAway("u", text("never"), s.request())

	// Delay, ttl, cancel, pushed results, permanent failure, expiry to death.
	delayed, ttl := text("delayed"), text("ttl")
	delayed.DelayMillis, ttl.TTLMillis = 300, 200
	s.enqueue("u", delayed)
	s.enqueue("u", ttl)
	id := s.enqueue("u", text("cancelled"))
	s.read(Read, "u", id)
	s.cancel("u", id)
	s.cancel("u", id)
	s.pass(400)
	s.ack(s.take("u"), "delayed done")
	pushed := s.enqueue("u", text("pushed"))
	tok := s.take("u")
	s.push("u", pushed, "from elsewhere")
	s.push("u", pushed, "from elsewhere again")
	s.ack(tok, "mine")
	s.enqueue("u", text("hopeless"))
	s.nack(s.take("u"), true)
	once := text("once")
	once.Retry = fsm.RetryPolicy{Kind: fsm.RetryFixed, InitialMillis: 100, MaxAttempts: 1}
	s.enqueue("u", once)
	s.take("u")
	s.pass(1100)
	s.enqueue("u", text("held for too long"))
	s.pass(60)
	s.ack(s.take("u"), "held done")
	out := s.enqueue("u", text("cancelled while out"))
	tok = s.take("u")
	s.cancel("u", out)
	s.ack(tok, "nobody wants it")

	s.schedules()

	// Ordered queues: the head keeps its place.
	for _, q := range []string{"f", "k"} {
		a, b, c := text(q+" a"), text(q+" b"), text(q+" c")
		a.Key, b.Key, c.Key = []byte("x"), []byte("x"), []byte("x")
		s.enqueue(q, a)
		s.enqueue(q, b)
		s.enqueue(q, c)
		head := s.take(q)
		if got := s.lease(q, 5); len(got) != 0 {
			t.Fatalf("queue %s: leased %d beside the head", q, len(got))
		}
		s.nack(head, false)
		s.pass(150)
		head = s.take(q)
		s.release(head)
		s.ack(s.take(q), "a done")
		s.ack(s.take(q), "b done")
		s.event(Event{Kind: Mark, Note: Killed, Node: "n1", Leader: true})
		s.mark(Heal)
		s.ack(s.take(q), "c done")
	}
	s.atMostOnce()
	s.deadLetters()
	s.rates()
	s.batches()
	s.moves()
	s.emptied()
	s.keyRates()
	s.buried()
	s.edits()
	s.kvKeys()
	s.enqueue("u", text("first of a chain"))
	tok = s.take("u")
	s.ackThen(tok, "first done", "u", "second of a chain")
	s.ackThen(tok, "first done", "u", "second of a chain")
	s.ack(s.take("u"), "second done")
	s.enqueue("u", text("last"))
	s.ack(s.take("u"), "last done")
	return s.history()
}
