package fsm

import "testing"

func TestRequestIDs(t *testing.T) {
	r := newRig(t)
	ses := r.ok(&OpenSession{}).ID
	must(t, "known", r.s.SessionKnown(ses), true)
	req := func(n, low uint64) Request { return Request{Session: ses, Number: n, Low: low} }
	put := func(q Request, bodies ...string) *Enqueue {
		e := &Enqueue{Request: q, Queue: []byte("q"), AutoCreate: true}
		for _, b := range bodies {
			e.Messages = append(e.Messages, text(b))
		}
		return e
	}
	must(t, "remembered", r.s.Remembered(req(5, 0)), false)
	first := r.apply(put(req(5, 0), "a", "b", "c"))
	must(t, "remembered", r.s.Remembered(req(7, 0)), true)
	must(t, "remembered", r.s.Remembered(req(8, 0)), false)
	again := r.apply(put(req(5, 0), "a", "b", "c"))
	for i := range first {
		must(t, "the first answer again", again[i], first[i])
	}
	n, _ := r.s.QueueNumber([]byte("q"))
	must(t, "ready", r.s.Ready(n), 3)

	// A batch that is half known executes the other half.
	half := r.apply(put(req(7, 0), "c", "d"))
	must(t, "known half", half[0], first[2])
	must(t, "ready", r.s.Ready(n), 4)

	// Refusals are remembered too, though the cause is gone.
	create := &CreateQueue{Request: req(20, 0), Name: []byte("q"), Options: QueueOptions{MaxDead: 9}}
	r.refused(create, AlreadyExists, FieldOptions)
	r.ok(&DeleteQueue{Name: []byte("q")})
	r.refused(create, AlreadyExists, FieldOptions)
	missing := &Enqueue{Request: req(21, 0), Queue: []byte("m"), Messages: []Message{text("x")}}
	r.refused(missing, NotFound, FieldQueue)
	r.ok(&CreateQueue{Name: []byte("m")})
	r.refused(missing, NotFound, FieldQueue)

	// Out of order below the highest is fine while it is in the window.
	r.ok(put(req(3, 0), "early"))
	r.ok(put(req(3, 0), "early"))

	// Low passes.
	r.ok(put(req(30, 7), "x"))
	r.refused(put(req(6, 7), "b"), SessionExpired, FieldRequest)
	r.refused(put(req(6, 0), "b"), SessionExpired, FieldRequest)
	r.refused(put(req(7+RequestWindow, 7), "b"), InvalidArgument, FieldRequest)
	r.ok(put(req(6+RequestWindow, 7), "b"))
	edge := r.apply(put(req(5+RequestWindow, 7), "a", "b", "c"))
	must(t, "in", edge[0].Code, OK)
	must(t, "known", edge[1].Code, OK)
	must(t, "out", edge[2].Code, InvalidArgument)
	r.refused(put(Request{Session: ID{5, 5}, Number: 1}, "b"), SessionExpired, FieldRequest)
	// Numbers at the end of their range do not wrap into known ones.
	last := r.apply(put(req(1<<64-1, 1<<64-3), "a", "b"))
	must(t, "last", last[0].Code, OK)
	must(t, "wrapped", last[1].Code, SessionExpired)
	r.everywhere()
}

func TestRequestIDsOfEveryOperation(t *testing.T) {
	r := newRig(t)
	ses := r.ok(&OpenSession{}).ID
	req := Request{Session: ses}
	next := func() Request { req.Number++; return req }
	twice := func(name string, op Op) Outcome {
		t.Helper()
		a := r.one(op)
		d := r.s.Stats(1)
		b := r.one(op)
		must(t, name, b, a)
		must(t, name+" counted once", r.s.Stats(1).Enqueued, d.Enqueued)
		return a
	}
	create := twice("create", &CreateQueue{Request: next(), Name: []byte("q")})
	must(t, "create again is no duplicate", create.Duplicate, false)
	twice("set", &SetQueue{Request: next(), Name: []byte("q"), Options: QueueOptions{MaxDead: 7}})
	a := twice("enqueue", &Enqueue{Request: next(), Queue: []byte("q"), Messages: []Message{text("a")}}).ID
	r.ok(&Nack{Token: r.lease1(), Permanent: true})
	b := twice("requeue", &DeadRequeue{Request: next(), Queue: []byte("q"), IDs: []ID{a}}).ID
	must(t, "new id", a == b, false)
	r.ok(&Nack{Token: r.lease1(), Permanent: true})
	twice("dead delete", &DeadDelete{Request: next(), Queue: []byte("q"), IDs: []ID{b}})
	r.put(text("x"))
	r.put(text("y"))
	must(t, "purged", twice("purge", &PurgeQueue{Request: next(), Name: []byte("q")}).Count, 2)
	r.put(text("x"))
	r.ok(&Nack{Token: r.lease1(), Permanent: true})
	must(t, "dead purged", twice("dead purge", &DeadPurge{Request: next(), Queue: []byte("q")}).Count, 1)
	push := twice("push", &PushResult{Request: next(), Queue: []byte("q"), TaskID: []byte("t"), Result: Result{Output: []byte("o")}})
	must(t, "push", push, Outcome{})
	dup := twice("push again", &PushResult{Request: next(), Queue: []byte("q"), TaskID: []byte("t")})
	must(t, "duplicate", dup, Outcome{Duplicate: true, HasResult: true})
	twice("delete", &DeleteQueue{Request: next(), Name: []byte("q")})
	r.everywhere()
}

func TestRepeatedLease(t *testing.T) {
	r := newRig(t)
	ses := r.ok(&OpenSession{}).ID
	for _, b := range []string{"a", "b", "c", "d"} {
		r.put(text(b))
	}
	r.lease(1) // another lease of the same consumer before
	op := &Lease{Request: Request{Session: ses, Number: 1}, Queue: []byte("q"), Consumer: someone, Max: 3}
	o := r.ok(op)
	must(t, "leased", o.LeaseCount, 3)
	first := append([]Leased(nil), r.fx.Leases...)
	r.put(text("e"))
	r.lease(1) // and one after
	again := r.ok(op)
	must(t, "leased again", again, o)
	for i, l := range r.fx.Leases {
		must(t, "token", l.Token, first[i].Token)
		var d Delivery
		if !r.s.Deliver(l, &d) || d.Token != l.Token {
			t.Fatalf("delivery of %v: %+v", l, d)
		}
	}
	r.ok(&Ack{Token: first[1].Token})
	must(t, "still leased", r.ok(op).LeaseCount, 2)
	must(t, "token", r.fx.Leases[1].Token, first[2].Token)
	r.tick(30_000)
	must(t, "none left", r.ok(op).LeaseCount, 0)
	// None at first: none again, though there are messages now.
	none := &Lease{Request: Request{Session: ses, Number: 2}, Queue: []byte("empty"), Consumer: someone, Max: 3}
	r.refused(none, NotFound, FieldQueue)
	r.ok(&CreateQueue{Name: []byte("empty")})
	r.refused(none, NotFound, FieldQueue)
	none.Request.Number = 3
	must(t, "nothing", r.ok(none).LeaseCount, 0)
	r.ok(&Enqueue{Queue: []byte("empty"), Messages: []Message{text("x")}})
	must(t, "nothing again", r.ok(none).LeaseCount, 0)
	r.everywhere()
}

func TestLeaseArguments(t *testing.T) {
	r := newRig(t)
	for range 3 {
		r.put(text("0123456789"))
	}
	for _, c := range []struct {
		name string
		op   Lease
		f    Field
	}{
		{"queue name", Lease{Queue: []byte("?"), Max: 1}, FieldQueue},
		{"max 0", Lease{Queue: []byte("q")}, FieldMax},
		{"max", Lease{Queue: []byte("q"), Max: 1001}, FieldMax},
		{"short lease", Lease{Queue: []byte("q"), Max: 1, LeaseMillis: 99}, FieldLease},
		{"long lease", Lease{Queue: []byte("q"), Max: 1, LeaseMillis: MaxLeaseMillis + 1}, FieldLease},
		{"worker", Lease{Queue: []byte("q"), Max: 1, Worker: make([]byte, MaxWorker+1)}, FieldWorker},
	} {
		t.Run(c.name, func(*testing.T) { r.refused(&c.op, InvalidArgument, c.f) })
	}
	must(t, "at least one", r.ok(&Lease{Queue: []byte("q"), Max: 9, MaxBytes: 1}).LeaseCount, 1)
	must(t, "as many as fit", r.ok(&Lease{Queue: []byte("q"), Max: 9, MaxBytes: 20}).LeaseCount, 2)
}
