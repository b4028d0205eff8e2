package fsm

import (
	"fmt"
	"testing"
)

// Every table of the state is filled here: its refusal, its counter, and how it empties.

func TestDedupTableFills(t *testing.T) {
	r := newRig(t)
	r.ok(&CreateQueue{Name: []byte("q"), Options: QueueOptions{DedupMaxKeys: 2, DedupWindowMillis: 5000}})
	m := func(k string) *Enqueue {
		m := text("x")
		m.HasDedup, m.DedupKey, m.DedupContent = true, HashDedup([]byte(k)), HashContent(nil, m.Body)
		return &Enqueue{Queue: []byte("q"), Messages: []Message{m}}
	}
	a := r.ok(m("a"))
	r.now += 1000
	r.ok(m("b"))
	o := r.refused(m("c"), QueueFull, FieldDedup)
	must(t, "limit", o.Limit, 2)
	r.put(text("without a key there is room"))
	must(t, "the known key still answers", r.ok(m("a")), Outcome{Duplicate: true, ID: a.ID})
	n, _ := r.s.QueueNumber([]byte("q"))
	must(t, "counter", r.s.Stats(n).DedupKeys, 2)
	must(t, "refused", r.s.Stats(n).Refused, 1)
	r.now = t0 + 5001
	// The end has passed, but a maximum counts what is not yet reclaimed: this entry does that after its operations.
	r.refused(m("c"), QueueFull, FieldDedup)
	must(t, "counter", r.s.Stats(n).DedupKeys, 1)
	r.ok(m("c"))
	r.everywhere()
}

func TestDedupWindow(t *testing.T) {
	for _, c := range []struct {
		name string
		at   int64
		dup  bool
	}{{"W-1", 4999, true}, {"W", 5000, true}, {"W+1", 5001, false}} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.ok(&CreateQueue{Name: []byte("q"), Options: QueueOptions{DedupWindowMillis: 5000}})
			m := text("x")
			m.HasDedup, m.DedupKey, m.DedupContent = true, HashDedup([]byte("k")), HashContent(nil, m.Body)
			op := &Enqueue{Queue: []byte("q"), Messages: []Message{m}}
			first := r.ok(op)
			// The window is fixed by the first, is not moved by later ones, and ends by nothing else: not by ack or purge.
			r.ok(&Ack{Token: r.lease1()})
			r.now += 3000
			r.ok(op)
			r.ok(&PurgeQueue{Name: []byte("q")})
			r.ok(&SetQueue{Name: []byte("q"), Options: QueueOptions{DedupWindowMillis: 1000}})
			r.now = t0 + c.at
			o := r.ok(op)
			must(t, "duplicate", o.Duplicate, c.dup)
			must(t, "first id", o.ID == first.ID, c.dup)
			r.everywhere()
		})
	}
}

func TestDedupOtherContentAndResult(t *testing.T) {
	r := newRig(t)
	m := func(body, queue string) *Enqueue {
		m := text(body)
		m.HasDedup, m.DedupKey, m.DedupContent = true, HashDedup([]byte("k")), HashContent(nil, m.Body)
		return &Enqueue{Queue: []byte(queue), AutoCreate: true, Messages: []Message{m}}
	}
	first := r.ok(m("x", "q"))
	o := r.refused(m("y", "q"), AlreadyExists, FieldDedupKey)
	must(t, "id", o.ID, first.ID)
	must(t, "another queue is another scope", r.ok(m("y", "p")).Duplicate, false)
	r.ok(&Ack{Token: r.lease1(), HasResult: true, Result: Result{Output: []byte("r")}})
	must(t, "with the result", r.ok(m("x", "q")), Outcome{Duplicate: true, ID: first.ID, HasResult: true, Task: first.ID})
	// Deleting the queue ends the window.
	r.ok(&DeleteQueue{Name: []byte("q")})
	must(t, "after deletion", r.ok(m("x", "q")).Duplicate, false)
	r.everywhere()
}

func TestResultsTableFills(t *testing.T) {
	r := newRig(t)
	r.ok(&CreateQueue{Name: []byte("q"), Options: QueueOptions{MaxResultsBytes: 200, ResultTTLMillis: 5000}})
	ids := []ID{r.put(text("a")), r.put(text("b")), r.put(text("c"))}
	ts := r.lease(3)
	for _, tok := range ts { // results of what is out are never refused
		r.ok(&Ack{Token: tok, HasResult: true, Result: Result{Output: make([]byte, 100)}})
	}
	n, _ := r.s.QueueNumber([]byte("q"))
	must(t, "results", r.s.Stats(n).Results, 3)
	if b := r.s.Stats(n).ResultBytes; b < 300 {
		t.Fatalf("results count %d bytes", b)
	}
	o := r.refused(&Enqueue{Queue: []byte("q"), Messages: []Message{text("d")}}, QueueFull, FieldResults)
	must(t, "limit", o.Limit, 200)
	r.refused(&PushResult{Queue: []byte("q"), TaskID: []byte("new")}, QueueFull, FieldResults)
	r.tick(5000)
	must(t, "results", r.s.Stats(n).Results, 0)
	must(t, "bytes", r.s.Stats(n).ResultBytes, 0)
	r.put(text("d"))
	r.wantState(ids[0], StateUnknown)
	r.everywhere()
}

func TestTombstonesFill(t *testing.T) {
	r := newRig(t)
	r.s.lim.tombstones = 3
	var ids []ID
	for range 5 {
		id := r.put(text("x"))
		r.ok(&Ack{Token: r.lease1()})
		ids = append(ids, id)
	}
	n, _ := r.s.QueueNumber([]byte("q"))
	must(t, "tombstones", r.s.Stats(n).Tombstones, 3)
	must(t, "dropped", r.s.Stats(n).TombstonesDropped, 2)
	for i, id := range ids {
		must(t, fmt.Sprint("remembered ", i), r.info(id).State == StateDone, i >= 2)
	}
	r.everywhere()
	r.tick(TombstoneMillis)
	must(t, "tombstones", r.s.Stats(n).Tombstones, 0)
	r.everywhere()
}

func TestTombstonesHoldAHundredThousand(t *testing.T) {
	r := newRig(t)
	r.quiet = true
	left := MaxTombstones + 10
	for left > 0 {
		op := &Enqueue{Queue: []byte("q"), AutoCreate: true}
		for range min(1000, left) {
			op.Messages = append(op.Messages, text(""))
		}
		left -= len(op.Messages)
		r.apply(op)
		var acks []Op
		for _, tok := range r.lease(1000) {
			acks = append(acks, &Ack{Token: tok})
		}
		r.apply(acks...)
	}
	n, _ := r.s.QueueNumber([]byte("q"))
	must(t, "tombstones", r.s.Stats(n).Tombstones, MaxTombstones)
	must(t, "dropped", r.s.Stats(n).TombstonesDropped, 10)
	if err := r.s.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestDeadLettersFill(t *testing.T) {
	die := func(r *rig, body string) ID {
		id := r.put(text(body))
		r.ok(&Nack{Token: r.lease1(), Permanent: true})
		r.now++
		return id
	}
	t.Run("refuse", func(t *testing.T) {
		r := newRig(t)
		r.ok(&CreateQueue{Name: []byte("q"), Options: QueueOptions{MaxDead: 2}})
		r.put(text("in before"))
		a := die(r, "a")
		die(r, "b")
		o := r.refused(&Enqueue{Queue: []byte("q"), Messages: []Message{text("c")}}, QueueFull, FieldDead)
		must(t, "limit", o.Limit, 2)
		// What is in already still dies, and requeueing is what makes room.
		r.ok(&Nack{Token: r.lease1(), Permanent: true})
		n, _ := r.s.QueueNumber([]byte("q"))
		must(t, "dead", r.s.Stats(n).Dead, 3)
		r.ok(&DeadRequeue{Queue: []byte("q"), IDs: []ID{a}})
		r.refused(&Enqueue{Queue: []byte("q"), Messages: []Message{text("c")}}, QueueFull, FieldDead)
		r.ok(&DeadPurge{Queue: []byte("q")})
		r.put(text("c"))
		r.everywhere()
	})
	t.Run("drop the oldest", func(t *testing.T) {
		r := newRig(t)
		r.ok(&CreateQueue{Name: []byte("q"), Options: QueueOptions{MaxDead: 2, DeadOverflow: DeadDropOldest}})
		ids := []ID{die(r, "a"), die(r, "b"), die(r, "c"), die(r, "d")}
		n, _ := r.s.QueueNumber([]byte("q"))
		must(t, "dead", r.s.Stats(n).Dead, 2)
		must(t, "dropped", r.s.Stats(n).DeadDropped, 2)
		for i, id := range ids {
			must(t, fmt.Sprint("there ", i), r.info(id).State == StateDead, i >= 2)
		}
		r.everywhere()
	})
	t.Run("drop the oldest of one millisecond, not the newcomer", func(t *testing.T) {
		r := newRig(t)
		r.ok(&CreateQueue{Name: []byte("q"), Options: QueueOptions{MaxDead: 1, DeadOverflow: DeadDropOldest}})
		first, second := r.put(text("1")), r.put(text("2"))
		ts := r.lease(2)
		r.apply(&Nack{Token: ts[1], Permanent: true}, &Nack{Token: ts[0], Permanent: true})
		r.wantState(first, StateDead)
		r.wantState(second, StateUnknown)
		must(t, "answer of the newcomer", r.one(&Nack{Token: ts[0], Permanent: true}), Outcome{Dead: true})
		r.everywhere()
	})
	t.Run("retention follows the option", func(t *testing.T) {
		r := newRig(t)
		r.ok(&CreateQueue{Name: []byte("q"), Options: QueueOptions{DeadRetentionMillis: 10_000}})
		m := text("x")
		m.TaskID = []byte("task")
		id := r.put(m)
		r.ok(&Nack{Token: r.lease1(), Permanent: true})
		r.tick(4000)
		r.refused(&Enqueue{Queue: []byte("q"), Messages: []Message{m}}, AlreadyExists, FieldTaskID)
		r.wantState(id, StateDead)
		r.s.lim.reclaim = 0
		r.ok(&SetQueue{Name: []byte("q"), Options: QueueOptions{DeadRetentionMillis: 3000}})
		n, _ := r.s.QueueNumber([]byte("q"))
		must(t, "not yet reclaimed", r.s.Stats(n).Dead, 1)
		r.wantState(id, StateUnknown)
		r.s.Dead(n, 0, ID{}, func(*Info) bool { t.Fatal("listed past retention"); return false })
		r.refused(&DeadDelete{Queue: []byte("q"), IDs: []ID{id}}, NotFound, FieldNone)
		r.put(m)
		r.s.lim.reclaim = MaxReclaim
		r.tick(0)
		must(t, "reclaimed", r.s.Stats(n).Dead, 0)
	})
}

func TestSessionsFill(t *testing.T) {
	t.Run("number", func(t *testing.T) {
		r := newRig(t)
		r.s.lim.sessions = 2
		a := r.ok(&OpenSession{}).ID
		r.now += 1000
		b := r.ok(&OpenSession{}).ID
		o := r.refused(&OpenSession{}, Overloaded, FieldSessions)
		must(t, "limit", o.Limit, 2)
		r.now = t0 + SessionIdleMillis - 1
		r.ok(&TouchSession{Session: b})
		r.tick(1)
		must(t, "a known", r.s.SessionKnown(a), false)
		must(t, "b known", r.s.SessionKnown(b), true)
		r.refused(&TouchSession{Session: a}, SessionExpired, FieldRequest)
		must(t, "sessions", r.s.Memory().Sessions, 1)
		r.ok(&OpenSession{})
		r.everywhere()
	})
	t.Run("bytes", func(t *testing.T) {
		r := newRig(t)
		r.s.lim.sessionBytes = 2*sessionCost + 3*outcomeCost
		a := r.ok(&OpenSession{}).ID
		req := Request{Session: a}
		put := func() *Enqueue {
			return &Enqueue{Request: req, Queue: []byte("q"), AutoCreate: true, Messages: []Message{text("x")}}
		}
		for range 3 {
			r.ok(put())
			req.Number++
		}
		r.ok(&OpenSession{})
		r.refused(&OpenSession{}, Overloaded, FieldSessions)
		r.refused(put(), Overloaded, FieldSessions)
		must(t, "not remembered", r.s.Remembered(req), false)
		req.Low = 2
		r.ok(put())
		must(t, "outcomes", r.s.Memory().RequestOutcomes, 2)
		r.everywhere()
	})
	t.Run("twenty thousand", func(t *testing.T) {
		r := newRig(t)
		r.quiet = true
		var ops []Op
		for range 1000 {
			ops = append(ops, &OpenSession{})
		}
		for range MaxSessions / 1000 {
			for _, o := range r.apply(ops...) {
				must(t, "code", o.Code, OK)
			}
		}
		r.refused(&OpenSession{}, Overloaded, FieldSessions)
		r.tick(SessionIdleMillis)
		must(t, "reclaimed", r.s.Memory().Sessions, MaxSessions-MaxReclaim)
		must(t, "more", r.fx.More, false)
		if err := r.s.Check(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestQueuesFill(t *testing.T) {
	r := newRig(t)
	r.quiet = true
	for i := range MaxQueues {
		r.ok(&CreateQueue{Name: []byte(fmt.Sprint("q", i))})
	}
	r.refused(&CreateQueue{Name: []byte("one-more")}, Overloaded, FieldQueues)
	r.refused(&Enqueue{Queue: []byte("one-more"), AutoCreate: true, Messages: []Message{text("x")}}, Overloaded, FieldQueues)
	must(t, "queues", r.s.Memory().Queues, MaxQueues)
	r.ok(&Enqueue{Queue: []byte("q17"), Messages: []Message{text("x")}})
	tok := func() Token {
		r.ok(&Lease{Queue: []byte("q17"), Max: 1})
		return r.fx.Leases[0].Token
	}()
	then := ThenMessage{Queue: []byte("one-more"), Message: text("y")}
	r.refused(&Ack{Token: tok, Then: []ThenMessage{then}, ThenAutoCreate: true}, Overloaded, FieldQueues)
	r.ok(&DeleteQueue{Name: []byte("q3")})
	r.refused(&Ack{Token: tok, Then: []ThenMessage{then, {Queue: []byte("and-another")}}, ThenAutoCreate: true}, Overloaded, FieldQueues)
	r.ok(&Ack{Token: tok, Then: []ThenMessage{then, then}, ThenAutoCreate: true})
	if err := r.s.Check(); err != nil {
		t.Fatal(err)
	}
	at := len(restoredNames(t, r.s))
	must(t, "names", at, MaxQueues)
}

func restoredNames(t *testing.T, s *State) (names []string) {
	b := restored(t, snapshot(t, s))
	defer b.Close()
	b.Queues("", func(_ uint32, name string) bool { names = append(names, name); return true })
	return names
}

func TestMessagesFill(t *testing.T) {
	r := newRig(t)
	r.s.lim.queueMessages, r.s.lim.groupMessages = 3, 5
	for range 3 {
		r.put(text("x"))
	}
	o := r.refused(&Enqueue{Queue: []byte("q"), Messages: []Message{text("x")}}, QueueFull, FieldTasks)
	must(t, "limit", o.Limit, 3)
	p := &Enqueue{Queue: []byte("p"), AutoCreate: true, Messages: []Message{text("x")}}
	r.ok(p)
	r.ok(p)
	r.refused(p, Overloaded, FieldTasks)
	r.ok(&Ack{Token: r.lease1()})
	r.put(text("x"))
}

func TestThenCountsAgainstTheMaximaTogether(t *testing.T) {
	r := newRig(t)
	r.s.lim.queueMessages, r.s.lim.groupMessages = 3, 6
	r.put(text("x"))
	tok := r.lease1()
	th := func(queue string, n int) (then []ThenMessage) {
		for range n {
			then = append(then, ThenMessage{Queue: []byte(queue), Message: text("y")})
		}
		return then
	}
	r.refused(&Ack{Token: tok, Then: th("q", 3)}, QueueFull, FieldTasks) // the acked one counts until it is done
	r.ok(&CreateQueue{Name: []byte("p")})
	r.refused(&Ack{Token: tok, Then: th("p", 4)}, QueueFull, FieldTasks)
	r.refused(&Ack{Token: tok, Then: append(append(th("p", 3), th("q", 2)...), th("new", 1)...), ThenAutoCreate: true}, Overloaded, FieldTasks)
	r.ok(&Ack{Token: tok, Then: append(th("p", 3), th("q", 2)...)})
	must(t, "messages", r.s.Memory().Messages, 5)
	r.everywhere()
}

// TestEndedDeadLettersStayEnded raises the retention over dead letters that had ended and were not reclaimed yet.
func TestEndedDeadLettersStayEnded(t *testing.T) {
	r := newRig(t)
	retain := func(ms int64) *SetQueue {
		return &SetQueue{Name: []byte("q"), Options: QueueOptions{DeadRetentionMillis: ms}}
	}
	m := text("x")
	m.TaskID = []byte("a")
	dead := r.put(m)
	r.ok(&Nack{Token: r.lease1(), Permanent: true})
	m.TaskID = []byte("b")
	r.put(m)
	r.now += 2000
	r.ok(&Nack{Token: r.lease1(), Permanent: true})
	m.TaskID = []byte("a")
	r.s.lim.reclaim = 0
	r.now += 3000
	o := r.apply(retain(4000), &Enqueue{Queue: []byte("q"), Messages: []Message{m}}, retain(3_600_000))
	must(t, "the name is free", o[1].Code, OK)
	r.wantState(dead, StateUnknown)
	must(t, "not yet reclaimed", r.s.Stats(1).Dead, 2)
	r.everywhere()
	r.s.lim.reclaim = MaxReclaim
	r.tick(0)
	must(t, "the ended one is reclaimed, the other stays", r.s.Stats(1).Dead, 1)
	r.everywhere()
}
