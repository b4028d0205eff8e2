package fsm

import (
	"fmt"
	"testing"
)

// deadRig is a rig whose queue q has the dead-letter queue d.
func deadRig(t *testing.T) *rig {
	r := newRig(t)
	r.ok(&CreateQueue{Name: []byte("q"), Options: QueueOptions{DeadLetterQueue: "d", Retry: RetryPolicy{Kind: RetrySchedule, Steps: []int64{5}}}})
	r.ok(&CreateQueue{Name: []byte("d"), Options: QueueOptions{Retry: RetryPolicy{Kind: RetryFixed, MaxAttempts: 1}}})
	return r
}

const (
	numQ = 1
	numD = 2
)

// bury enqueues a message in q and lets it die at once: its old id, the id under which it is in d, and the token.
func (r *rig) bury(m Message) (old, id ID, tok Token) {
	r.t.Helper()
	old = r.put(m)
	tok = r.lease1()
	if !r.ok(&Nack{Token: tok, Error: []byte("boom"), Permanent: true}).Dead {
		r.t.Fatal("it did not die")
	}
	r.s.Dead(numD, 0, ID{}, func(in *Info) bool { id = in.ID; return true })
	return old, id, tok
}

func (r *rig) leaseOf(queue string) Token {
	r.t.Helper()
	r.ok(&Lease{Queue: []byte(queue), Consumer: someone, Worker: []byte("w2"), Max: 1, LeaseMillis: 1000})
	if len(r.fx.Leases) != 1 {
		r.t.Fatalf("leased %d of %q, want 1", len(r.fx.Leases), queue)
	}
	return r.fx.Leases[0].Token
}

func (r *rig) task(queue, task string) (in Info, found bool) {
	found = r.s.Task(queue, []byte(task), &in)
	return in, found
}

func (r *rig) gone(queue, task string) {
	r.t.Helper()
	if in, ok := r.task(queue, task); ok {
		r.t.Fatalf("task %q of %q is there, in state %d", task, queue, in.State)
	}
}

// What comes to a queue's dead letters is counted, whether it died there or was moved there, and whatever becomes of it then.
func TestQueueDeaths(t *testing.T) {
	r := deadRig(t)
	count := func(q, d int64) {
		t.Helper()
		must(t, "came to q", r.s.QueueDeaths(numQ), q)
		must(t, "came to d", r.s.QueueDeaths(numD), d)
	}
	count(0, 0)
	r.bury(Message{})
	count(1, 1)
	r.ok(&Nack{Token: r.leaseOf("d"), Permanent: true})
	count(1, 2)
	r.ok(&DeadPurge{Queue: []byte("d")})
	count(1, 2)
	must(t, "came to none", r.s.QueueDeaths(99), 0)
}

func TestMovedHoldsEverything(t *testing.T) {
	r := deadRig(t)
	m := Message{
		TaskID: []byte("t"), Kind: []byte("k"), ContentType: []byte("a/b"), Key: []byte("key"), Body: []byte("body"), Priority: 7,
		Headers: []Header{{[]byte("n"), []byte("v")}}, TTLMillis: 90_000, TimeoutMillis: 40_000,
	}
	old := r.put(m)
	r.ok(&Nack{Token: r.lease1(), Error: []byte("first"), DelayMillis: -1})
	r.tick(5)
	tok := r.lease1()
	r.tick(3)
	must(t, "dead", r.ok(&Nack{Token: tok, Error: []byte("second"), DelayMillis: -1}).Dead, true)
	must(t, "told", r.fx.Tasks[0].Message, old)
	must(t, "told by name", r.fx.Tasks[0].TaskHash, HashTask("q", []byte("t")))
	must(t, "d is told ready", fmt.Sprint(r.fx.Ready), "[2]")
	var id ID
	check := func(s *State) {
		t.Helper()
		var in Info
		if !s.Task("q", []byte("t"), &in) {
			t.Fatal("its origin does not know the task")
		}
		id = in.ID
		must(t, "new id", in.ID == old, false)
		must(t, "first id", in.OriginalID, old)
		must(t, "texts", fmt.Sprintf("%s %s %s %s %s %s %s %s %s", in.TaskID, in.Kind, in.ContentType, in.Key, in.Body, in.Worker, in.Error, in.Queue, in.Origin), "t k a/b key body w second d q")
		must(t, "header", string(in.Headers[0].Name)+string(in.Headers[0].Value), "nv")
		must(t, "numbers", fmt.Sprint(in.Priority, in.Attempts, in.State, in.Held, in.Reason, in.Redrives), fmt.Sprint(7, 2, StateDead, StateReady, ReasonMaxAttempts, 0))
		must(t, "times", fmt.Sprint(in.EnqueuedAt, in.OriginalEnqueuedAt, in.EndedAt, in.ExpiresAt), fmt.Sprint(t0+8, t0, t0+8, 0))
		must(t, "history", fmt.Sprintf("%d %s %s", in.History[0].At, in.History[0].Worker, in.History[1].Error), fmt.Sprintf("%d w second", t0))
		must(t, "token", in.Token, tok)
		var other Info
		for _, name := range []string{id.String(), old.String()} {
			if !s.Task("", []byte(name), &other) || other.ID != id {
				t.Fatalf("it is not found by %s", name)
			}
			if n, _ := ParseID(name); !s.DeadLetter(numD, n, &other) || other.ID != id {
				t.Fatalf("d has no dead letter %s", name)
			}
		}
		must(t, "not of d by its task id", s.Task("d", []byte("t"), &other), false)
	}
	check(r.s)
	b := restored(t, snapshot(t, r.s))
	defer b.Close()
	check(b)
	q, d := r.s.Stats(numQ), r.s.Stats(numD)
	must(t, "q", fmt.Sprint(q.Dead, q.Bytes, q.Died, q.MovedOut, q.DiedByReason[ReasonMaxAttempts]), "0 0 1 1 1")
	must(t, "d", fmt.Sprint(d.Ready, d.Moved, d.MovedIn, d.Dead, d.Enqueued), "1 1 1 0 0")

	// It is an ordinary message there, served by priority.
	r.ok(&Enqueue{Queue: []byte("d"), Messages: []Message{text("other")}})
	dt := r.leaseOf("d")
	must(t, "served first", dt.Message, id)
	var del Delivery
	r.s.Deliver(r.fx.Leases[0], &del)
	must(t, "delivery", fmt.Sprintf("%s %s %d %s", del.TaskID, del.Body, del.Attempt, del.Queue), "t body 1 d")

	// Requeued it goes home and starts afresh.
	r.refused(&DeadRequeue{Queue: []byte("d"), IDs: []ID{id}}, FailedPrecondition, FieldOut)
	r.refused(&DeadDelete{Queue: []byte("d"), IDs: []ID{id}}, FailedPrecondition, FieldOut)
	r.ok(&Release{Token: dt})
	r.tick(100)
	again := r.ok(&DeadRequeue{Queue: []byte("d"), IDs: []ID{old}}).ID
	in, _ := r.task("q", "t")
	must(t, "home", fmt.Sprint(in.ID == again, in.Queue, in.Origin, in.State, in.Attempts, in.Redrives, in.OriginalID == old), fmt.Sprint(true, "q", "", StateReady, 0, 1, true))
	must(t, "its ttl anew", in.ExpiresAt, r.now+90_000)
	must(t, "gone from d", r.s.DeadLetter(numD, id, &in), false)
	must(t, "old token", r.one(&Nack{Token: tok, DelayMillis: -1}).Code, NotFound)
	// And once more, with redrives rising.
	r.ok(&Nack{Token: r.lease1(), Permanent: true})
	in, _ = r.task("q", "t")
	must(t, "second time", fmt.Sprint(in.Queue, in.Redrives, in.Reason, in.OriginalID == old), fmt.Sprint("d", 1, ReasonPermanent, true))
	last := r.ok(&DeadRequeue{Queue: []byte("d"), IDs: []ID{in.ID}}).ID
	must(t, "redrives", r.info(last).Redrives, 2)
	r.everywhere()
}

func TestWhatMovesAndWhatStays(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup func(r *rig)
		stay  StayReason
		moved bool
	}{
		{"to a queue that is there", func(*rig) {}, StayNone, true},
		{"missing", func(r *rig) { r.ok(&DeleteQueue{Name: []byte("d")}) }, StayMissing, false},
		{"full of messages", func(r *rig) {
			r.s.lim.queueMessages = 2
			r.apply(&Enqueue{Queue: []byte("d"), Messages: []Message{text("1"), text("2")}})
		}, StayFull, false},
		{"full of dead letters", func(r *rig) {
			r.ok(&SetQueue{Name: []byte("d"), Options: QueueOptions{MaxDead: 1}})
			r.ok(&Enqueue{Queue: []byte("d"), Messages: []Message{text("1")}})
			r.ok(&Nack{Token: r.leaseOf("d"), Permanent: true})
		}, StayFull, false},
		{"out of a dead-letter queue", func(r *rig) {
			r.ok(&CreateQueue{Name: []byte("other"), Options: QueueOptions{DeadLetterQueue: "q"}})
		}, StayHere, false},
		{"two that name each other", func(r *rig) {
			r.ok(&SetQueue{Name: []byte("d"), Options: QueueOptions{DeadLetterQueue: "q"}})
		}, StayHere, false},
		{"of one that did", func(r *rig) {
			r.ok(&CreateQueue{Name: []byte("other"), Options: QueueOptions{DeadLetterQueue: "q"}})
			r.ok(&SetQueue{Name: []byte("other"), Options: QueueOptions{}})
		}, StayNone, true},
		{"of one that was deleted", func(r *rig) {
			r.ok(&CreateQueue{Name: []byte("other"), Options: QueueOptions{DeadLetterQueue: "q"}})
			r.ok(&DeleteQueue{Name: []byte("other")})
		}, StayNone, true},
		{"no dead-letter queue any more", func(r *rig) { r.ok(&SetQueue{Name: []byte("q"), Options: QueueOptions{}}) }, StayNone, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := deadRig(t)
			c.setup(r)
			id := r.put(text("x"))
			r.ok(&Nack{Token: r.lease1(), Permanent: true})
			in := r.info(id)
			must(t, "dead", in.State, StateDead)
			must(t, "moved", in.Origin == "q", c.moved)
			must(t, "says so", in.Stay, c.stay)
			b := restored(t, snapshot(t, r.s))
			defer b.Close()
			b.Task("", []byte(id.String()), &in)
			must(t, "says so after restore", in.Stay, c.stay)
			want := int64(0)
			if c.stay == StayMissing || c.stay == StayFull {
				want = 1
			}
			must(t, "counted", b.Stats(numQ).Stayed, want)
			r.everywhere()
		})
	}
}

// TestEveryDeathMoves lets a message die in each way.
func TestEveryDeathMoves(t *testing.T) {
	for _, c := range []struct {
		name   string
		m      Message
		die    func(r *rig) Token
		reason DeadReason
		end    leaseEnd // what a repeat of the operation that ended its last lease is answered by
	}{
		{"permanent", text("x"), func(r *rig) Token {
			tok := r.lease1()
			r.ok(&Nack{Token: tok, Permanent: true})
			return tok
		}, ReasonPermanent, endNackDead},
		{"attempts by nack", Message{Retry: RetryPolicy{Kind: RetryFixed, MaxAttempts: 1}}, func(r *rig) Token {
			tok := r.lease1()
			r.ok(&Nack{Token: tok, DelayMillis: -1})
			return tok
		}, ReasonMaxAttempts, endNackDead},
		{"attempts by expiry", Message{Retry: RetryPolicy{Kind: RetryFixed, MaxAttempts: 1}}, func(r *rig) Token {
			tok := r.lease1()
			r.tick(1000)
			return tok
		}, ReasonMaxAttempts, endExpiry},
		{"ttl while ready", Message{TTLMillis: 50}, func(r *rig) Token { r.tick(50); return Token{} }, ReasonExpired, endNone},
		{"ttl while retrying", Message{TTLMillis: 50}, func(r *rig) Token {
			tok := r.lease1()
			r.ok(&Nack{Token: tok, DelayMillis: 500})
			r.tick(50)
			return tok
		}, ReasonExpired, endNack},
		{"ttl while out", Message{TTLMillis: 50}, func(r *rig) Token {
			tok := r.lease1()
			r.tick(60)
			r.ok(&Nack{Token: tok, DelayMillis: -1})
			return tok
		}, ReasonExpired, endNackDead},
		{"ttl, released", Message{TTLMillis: 50}, func(r *rig) Token {
			tok := r.lease1()
			r.tick(60)
			must(r.t, "dead", r.ok(&Release{Token: tok}).Dead, true)
			return tok
		}, ReasonExpired, endReleaseDead},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := deadRig(t)
			id := r.put(c.m)
			tok := c.die(r)
			in := r.info(id)
			must(t, "state", fmt.Sprint(in.State, in.Reason, in.Queue, in.Origin), fmt.Sprint(StateDead, c.reason, "d", "q"))
			must(t, "found by its name", func() bool { _, ok := r.task("q", id.String()); return ok }(), true)
			if c.end == endNone {
				return
			}
			b := restored(t, snapshot(t, r.s))
			defer b.Close()
			before := digest(r.s)
			nack, rel := r.one(&Nack{Token: tok, DelayMillis: -1}), r.one(&Release{Token: tok})
			lost := Outcome{Code: LeaseLost, Field: FieldToken}
			wantNack, wantRel := lost, lost
			switch c.end {
			case endNackDead:
				wantNack = Outcome{Dead: true}
			case endNack:
				wantNack = Outcome{Millis: t0 + 500}
			case endReleaseDead:
				wantRel = Outcome{Dead: true}
			}
			must(t, "nack again", nack, wantNack)
			must(t, "release again", rel, wantRel)
			must(t, "ack", r.one(&Ack{Token: tok}), lost)
			must(t, "extend", r.one(&Extend{Token: tok}), lost)
			stale := tok
			stale.Lease.Lo ^= 1
			must(t, "nack with another token", r.one(&Nack{Token: stale, DelayMillis: -1}), lost)
			after := digest(b)
			must(t, "restored alike", after, before)
			r.everywhere()
		})
	}
}

func TestAckOfMovedCloses(t *testing.T) {
	for _, named := range []string{"", "t"} {
		t.Run("task "+named, func(t *testing.T) {
			r := deadRig(t)
			old, id, _ := r.bury(Message{TaskID: []byte(named), Body: []byte("x")})
			name := named
			if named == "" {
				name = old.String()
			}
			tok := r.leaseOf("d")
			must(t, "which", tok.Message, id)
			res := Result{Output: []byte("looked at")}
			o := r.ok(&Ack{Token: tok, HasResult: true, Result: res, Then: []ThenMessage{{Queue: []byte("next"), Message: text("n")}}, ThenAutoCreate: true})
			must(t, "no duplicate", o, Outcome{})
			must(t, "told", r.fx.Tasks[0].Message, id)
			r.gone("q", name)
			r.gone("", id.String())
			r.gone("", old.String())
			must(t, "no result", r.s.Stats(numQ).Results+r.s.Stats(numD).Results, int64(0))
			must(t, "then", r.s.Stats(3).Ready, int64(1))
			must(t, "again", r.ok(&Ack{Token: tok, HasResult: true, Result: res}), Outcome{Millis: -1})
			must(t, "with another", r.ok(&Ack{Token: tok}), Outcome{Millis: -1})
			r.refused(&Nack{Token: tok, DelayMillis: -1}, LeaseLost, FieldToken)
			must(t, "counts", fmt.Sprint(r.s.Stats(numD).Moved, r.s.Stats(numD).Acked, r.s.Memory().Messages), "0 1 1")
			if named != "" { // the name is free again
				r.put(Message{TaskID: []byte(named)})
			}
			r.everywhere()
		})
	}
}

func TestMovedKeepsItsNameInItsOrigin(t *testing.T) {
	r := deadRig(t)
	old, id, _ := r.bury(Message{TaskID: []byte("t")})
	o := r.refused(&Enqueue{Queue: []byte("q"), Messages: []Message{{TaskID: []byte("t")}}}, AlreadyExists, FieldTaskID)
	must(t, "holder", o.ID, id)
	_, other, _ := r.bury(Message{})
	in := r.info(other)
	o = r.refused(&Enqueue{Queue: []byte("q"), Messages: []Message{{TaskID: in.TaskID}}}, AlreadyExists, FieldTaskID)
	must(t, "holder of an id", o.ID, other)
	// In the dead-letter queue only message ids are unique.
	r.ok(&Enqueue{Queue: []byte("d"), Messages: []Message{{TaskID: []byte("t")}}})
	in, _ = r.task("d", "t")
	must(t, "d has its own", in.ID == id, false)
	in, _ = r.task("q", "t")
	must(t, "q has the moved one", in.ID, id)
	in, _ = r.task("q", old.String())
	must(t, "by the id it had", in.ID, id)
	r.everywhere()
	for _, c := range []struct {
		name string
		end  Op
	}{
		{"deleted", &DeadDelete{Queue: []byte("d"), IDs: []ID{id}}},
		{"purged", &PurgeQueue{Name: []byte("d")}},
		{"its queue deleted", &DeleteQueue{Name: []byte("d")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := deadRig(t)
			_, again, _ := r.bury(Message{TaskID: []byte("t")})
			if del, ok := c.end.(*DeadDelete); ok {
				del.IDs[0] = again
			}
			r.ok(c.end)
			r.gone("q", "t")
			r.gone("", again.String())
			must(t, "listed", r.s.Stats(numD).Moved, int64(0))
			r.put(Message{TaskID: []byte("t")})
			r.tick(1)
			r.tick(1)
			m := r.s.Memory()
			must(t, "memory", fmt.Sprint(m.Messages, m.Garbage, r.s.moves.Len()), "1 0 0")
			r.everywhere()
		})
	}
}

func TestPurgeOfMovedThatIsOut(t *testing.T) {
	r := deadRig(t)
	r.bury(Message{TaskID: []byte("a")})
	r.bury(Message{TaskID: []byte("b")})
	r.ok(&Release{Token: r.leaseOf("d")})
	r.leaseOf("d")
	r.leaseOf("d")
	in, _ := r.task("q", "a")
	must(t, "held", in.Held, StateLeased)
	r.tick(1000) // both come back, dead: one attempt is all there is
	must(t, "dead in d", r.s.Stats(numD).Dead, int64(2))
	r.ok(&DeadPurge{Queue: []byte("d")})
	r.gone("q", "a")
	r.gone("q", "b")

	// A purge of the queue leaves what is out, as what it is.
	_, id, _ := r.bury(Message{TaskID: []byte("c")})
	tok := r.leaseOf("d")
	_, idle, _ := r.bury(Message{TaskID: []byte("e")})
	must(t, "a dead purge leaves what was moved", r.ok(&DeadPurge{Queue: []byte("d")}).Count, int64(0))
	must(t, "purged", r.ok(&PurgeQueue{Name: []byte("d")}).Count, int64(1))
	r.gone("", idle.String())
	in, _ = r.task("q", "c")
	must(t, "out", fmt.Sprint(in.ID == id, in.Held), fmt.Sprint(true, StateLeased))
	var listed []ID
	r.s.Dead(numD, 0, ID{}, func(in *Info) bool { listed = append(listed, in.ID); return true })
	must(t, "listed", fmt.Sprint(listed), fmt.Sprint([]ID{id}))
	r.ok(&Release{Token: tok})
	must(t, "requeued", r.ok(&DeadRequeue{Queue: []byte("d"), IDs: []ID{id}}).Code, OK)
	r.everywhere()
}

func TestDeathInADeadLetterQueue(t *testing.T) {
	r := deadRig(t)
	old, id, tok := r.bury(Message{TaskID: []byte("t"), Kind: []byte("k")})
	r.tick(10)
	dt := r.leaseOf("d")
	r.ok(&Nack{Token: dt, Error: []byte("nor here"), DelayMillis: -1})
	in, _ := r.task("q", "t")
	must(t, "stays in d", fmt.Sprint(in.Queue, in.Origin, in.State, in.Held, in.Reason, in.Stay), fmt.Sprint("d", "q", StateDead, StateDead, ReasonMaxAttempts, StayNone))
	must(t, "its last death", fmt.Sprintf("%s %d %d", in.Error, in.EndedAt, in.Attempts), fmt.Sprintf("nor here %d 1", r.now))
	must(t, "d", fmt.Sprint(r.s.Stats(numD).Moved, r.s.Stats(numD).Dead), "0 1")
	must(t, "nack there again", r.ok(&Nack{Token: dt, DelayMillis: -1}), Outcome{Dead: true})
	must(t, "nack before again", r.ok(&Nack{Token: tok, DelayMillis: -1}), Outcome{Dead: true})
	b := restored(t, snapshot(t, r.s))
	defer b.Close()
	must(t, "alike", digest(b), digest(r.s))
	again := r.ok(&DeadRequeue{Queue: []byte("d"), IDs: []ID{id}}).ID
	in, _ = r.task("q", "t")
	must(t, "goes home", fmt.Sprint(in.ID == again, in.Queue, in.OriginalID == old, in.Redrives), fmt.Sprint(true, "q", true, 1))

	// Past retention its name is free.
	r.ok(&Nack{Token: r.lease1(), Permanent: true})
	r.ok(&Nack{Token: r.leaseOf("d"), DelayMillis: -1})
	r.ok(&SetQueue{Name: []byte("d"), Options: QueueOptions{DeadRetentionMillis: 1000}})
	r.tick(1000)
	r.gone("q", "t")
	r.put(Message{TaskID: []byte("t")})
	r.tick(1)
	must(t, "reclaimed", fmt.Sprint(r.s.Stats(numD).Dead, r.s.moves.Len()), "0 0")
	r.everywhere()
}

func TestRequeueHomeRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup func(r *rig)
		code  Code
		field Field
	}{
		{"origin deleted", func(r *rig) { r.ok(&DeleteQueue{Name: []byte("q")}) }, NotFound, FieldOrigin},
		{"origin made anew", func(r *rig) {
			r.ok(&DeleteQueue{Name: []byte("q")})
			r.ok(&CreateQueue{Name: []byte("q")})
		}, NotFound, FieldOrigin},
		{"origin full of messages", func(r *rig) {
			r.put(text("in the way"))
			r.s.lim.queueMessages = 1
		}, QueueFull, FieldTasks},
		{"origin full of dead letters", func(r *rig) {
			r.ok(&SetQueue{Name: []byte("q"), Options: QueueOptions{MaxDead: 1}})
			r.put(text("x"))
			r.ok(&Nack{Token: r.lease1(), Permanent: true})
		}, QueueFull, FieldDead},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := deadRig(t)
			_, id, _ := r.bury(Message{TaskID: []byte("t")})
			c.setup(r)
			before := r.s.Stats(numD)
			r.refused(&DeadRequeue{Queue: []byte("d"), IDs: []ID{id}}, c.code, c.field)
			r.refused(&DeadEdit{Queue: []byte("d"), ID: id, Fields: EditBody}, c.code, c.field)
			var in Info
			must(t, "it stays", r.s.DeadLetter(numD, id, &in), true)
			must(t, "it says where it came from", in.Origin, "q")
			must(t, "nothing changed", fmt.Sprint(r.s.Stats(numD)), fmt.Sprint(before))
			b := restored(t, snapshot(t, r.s))
			b.Close()
		})
	}
}

func TestQueueThatNamesItself(t *testing.T) {
	r := newRig(t)
	o := QueueOptions{DeadLetterQueue: "q"}
	r.refused(&CreateQueue{Name: []byte("q"), Options: o}, InvalidArgument, FieldDeadLetterQueue)
	must(t, "not made", r.s.Memory().Queues, int64(0))
	r.ok(&CreateQueue{Name: []byte("q")})
	r.refused(&SetQueue{Name: []byte("q"), Options: o}, InvalidArgument, FieldDeadLetterQueue)
	r.refused(&SetQueue{Name: []byte("q"), Options: QueueOptions{DeadLetterQueue: ".bad"}}, InvalidArgument, FieldDeadLetterQueue)
	must(t, "not set", r.s.QueueOptions(1).DeadLetterQueue, "")
	r.everywhere()
}

func TestPushedResultOfMoved(t *testing.T) {
	r := deadRig(t)
	_, id, _ := r.bury(Message{TaskID: []byte("t")})
	o := r.ok(&PushResult{Queue: []byte("q"), TaskID: []byte("t"), Result: Result{Output: []byte("late")}})
	must(t, "holder", o.ID, id)
	in, _ := r.task("q", "t")
	must(t, "done", in.State, StateDone)
	var in2 Info
	must(t, "the letter stays", r.s.DeadLetter(numD, id, &in2), true)
	must(t, "results of the origin", fmt.Sprint(r.s.Stats(numQ).Results, r.s.Stats(numD).Results), "1 0")
	must(t, "closes without it", r.ok(&Ack{Token: r.leaseOf("d")}), Outcome{})
	var res RecordedResult
	_, has := r.s.Result("q", []byte("t"), &res)
	must(t, "the result stays", fmt.Sprintf("%t%s", has, res.Output), "truelate")
	r.everywhere()

	// Requeued it finds its result at its ack.
	r = deadRig(t)
	_, id, _ = r.bury(Message{TaskID: []byte("t")})
	r.ok(&PushResult{TaskID: []byte(id.String()), Result: Result{Output: []byte("late")}})
	r.ok(&DeadRequeue{Queue: []byte("d"), IDs: []ID{id}})
	o = r.ok(&Ack{Token: r.lease1()})
	must(t, "duplicate", o.Duplicate && o.HasResult, true)
	r.everywhere()

	// Whose queue is gone has nowhere to keep one.
	r = deadRig(t)
	_, id, _ = r.bury(Message{TaskID: []byte("t")})
	r.ok(&DeleteQueue{Name: []byte("q")})
	r.refused(&PushResult{TaskID: []byte(id.String())}, NotFound, FieldTaskID)
	must(t, "still found", r.info(id).Origin, "q")
	must(t, "closed", r.ok(&Ack{Token: r.leaseOf("d")}), Outcome{})
	r.everywhere()
}

// TestMovedIsDeadToOperationsOnTasks: what a name leads to is dead, whatever it is where it was moved.
func TestMovedIsDeadToOperationsOnTasks(t *testing.T) {
	r := deadRig(t)
	_, id, _ := r.bury(Message{TaskID: []byte("t")})
	for _, name := range [][2]string{{"q", "t"}, {"", id.String()}} {
		r.refused(&Cancel{Queue: []byte(name[0]), TaskID: []byte(name[1])}, FailedPrecondition, FieldTaskID)
		r.refused(&Reschedule{Queue: []byte(name[0]), TaskID: []byte(name[1]), When: AfterDelay, Time: 5}, FailedPrecondition, FieldTaskID)
	}
	r.leaseOf("d")
	r.refused(&Cancel{Queue: []byte("q"), TaskID: []byte("t")}, FailedPrecondition, FieldTaskID)
	must(t, "dead", r.info(id).State, StateDead)
	r.everywhere()
}

// TestAttemptsOfMoved tells a letter's attempts from those that it has where it was moved to, each with its own maximum.
func TestAttemptsOfMoved(t *testing.T) {
	own := RetryPolicy{Kind: RetryFixed, MaxAttempts: 7}
	nothing := func(*rig) {}
	cases := []struct {
		name string
		m    Message
		then func(r *rig) // in d, where what is moved has three attempts
		want string       // attempts, their maximum, held, its attempts, their maximum
	}{
		{"as it came", Message{}, nothing, fmt.Sprint(2, 2, StateReady, 0, 3)},
		{"a policy of its own", Message{Retry: own}, nothing, fmt.Sprint(2, 7, StateReady, 0, 7)},
		{"out", Message{}, func(r *rig) { r.leaseOf("d") }, fmt.Sprint(2, 2, StateLeased, 1, 3)},
		{"released", Message{}, func(r *rig) { r.ok(&Release{Token: r.leaseOf("d")}) }, fmt.Sprint(2, 2, StateReady, 0, 3)},
		{"retrying", Message{}, func(r *rig) { r.ok(&Nack{Token: r.leaseOf("d"), DelayMillis: 60_000}) }, fmt.Sprint(2, 2, StateRetrying, 1, 3)},
		{"its origin has another policy now", Message{}, func(r *rig) {
			r.ok(&ChangeQueue{Name: []byte("q"), Options: QueueOptions{Retry: RetryPolicy{Kind: RetryFixed, MaxAttempts: 9}}, Only: only("retry")})
		}, fmt.Sprint(2, 9, StateReady, 0, 3)},
		{"its origin is gone", Message{}, func(r *rig) { r.ok(&DeleteQueue{Name: []byte("q")}) }, fmt.Sprint(2, 0, StateReady, 0, 3)},
		{"its origin is gone, a policy of its own", Message{Retry: own}, func(r *rig) { r.ok(&DeleteQueue{Name: []byte("q")}) }, fmt.Sprint(2, 7, StateReady, 0, 7)},
		{"dead there too", Message{}, func(r *rig) { r.ok(&Nack{Token: r.leaseOf("d"), Permanent: true}) }, fmt.Sprint(1, 3, StateDead, 0, 0)},
		{"requeued", Message{}, func(r *rig) {
			in := r.deadOf(numD)
			r.token.Message = r.ok(&DeadRequeue{Queue: []byte("d"), IDs: []ID{in.ID}}).ID
		}, fmt.Sprint(0, 2, MessageState(0), 0, 0)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := deadRig(t)
			r.ok(&ChangeQueue{Name: []byte("d"), Options: QueueOptions{Retry: RetryPolicy{Kind: RetryFixed, MaxAttempts: 3}}, Only: only("retry")})
			r.put(c.m)
			r.ok(&Nack{Token: r.lease1(), DelayMillis: 1})
			r.tick(1)
			r.ok(&Nack{Token: r.lease1(), Permanent: true})
			r.token.Message = r.deadOf(numD).ID
			c.then(r)
			in := r.info(r.token.Message)
			must(t, "attempts", fmt.Sprint(in.Attempts, in.MaxAttempts, in.Held, in.HeldAttempts, in.HeldMaxAttempts), c.want)
			r.everywhere()
		})
	}
}

// deadOf is the only dead letter that a queue lists.
func (r *rig) deadOf(queue uint32) (only Info) {
	r.t.Helper()
	n := 0
	r.s.Dead(queue, 0, ID{}, func(in *Info) bool { n++; only.ID = in.ID; return true })
	must(r.t, "dead letters listed", n, 1)
	return only
}
