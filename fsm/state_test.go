package fsm

import "testing"

func TestReadersOfWhatIsNotThere(t *testing.T) {
	r := newRig(t)
	id := r.put(text("x"))
	must(t, "group", r.s.Group(), 3)
	must(t, "name", r.s.QueueName(9), "")
	must(t, "options", r.s.QueueOptions(9).LeaseMillis, 0)
	must(t, "ready", r.s.Ready(9), 0)
	_, ok := r.s.QueueNumber([]byte("p"))
	must(t, "number", ok, false)
	var in Info
	var d Delivery
	must(t, "dead letter", r.s.DeadLetter(9, id, &in), false)
	must(t, "not dead", r.s.DeadLetter(1, id, &in), false)
	must(t, "task of another queue", r.s.Task("p", []byte(id.String()), &in), false)
	must(t, "task by a name without a queue", r.s.Task("", []byte("name"), &in), false)
	must(t, "lease", r.s.Lease(Token{Message: id}, &d), false)
	r.s.Dead(9, 0, ID{}, func(*Info) bool { t.Fatal("listed"); return false })
	r.s.Peek(9, StateReady, ID{}, func(*Info) bool { t.Fatal("listed"); return false })
	r.s.Peek(1, StateDone, ID{}, func(*Info) bool { t.Fatal("listed"); return false })
	r.s.ConsumerLeases(someone, func(Token) bool { t.Fatal("listed"); return false })
	must(t, "remembered", r.s.Remembered(Request{Session: ID{1, 1}}), false)
	v := r.s.View()
	defer v.Release()
	must(t, "view's time", v.Time(), t0)
	n := 0
	r.ok(&CreateQueue{Name: []byte("z")})
	r.s.Queues("", func(uint32, string) bool { n++; return false })
	must(t, "queues until false", n, 1)
	r.lease1()
	r.put(text("y"))
	r.lease1()
	n = 0
	r.s.ConsumerLeases(someone, func(Token) bool { n++; return false })
	must(t, "leases until false", n, 1)
}

func TestEnqueueArguments(t *testing.T) {
	for _, c := range []struct {
		name string
		m    Message
		code Code
		f    Field
	}{
		{"body", Message{Body: make([]byte, MaxBodyBytes+1)}, TooLarge, FieldBody},
		{"kind", Message{Kind: make([]byte, MaxKind+1)}, InvalidArgument, FieldKind},
		{"task id", Message{TaskID: []byte{0xff}}, InvalidArgument, FieldTaskID},
		{"too far ahead", Message{DueAt: t0 + MaxDelayMillis + 1}, InvalidArgument, FieldDelay},
		{"delay", Message{DelayMillis: MaxDelayMillis + 1}, InvalidArgument, FieldDelay},
		{"retry", Message{Retry: RetryPolicy{Kind: RetrySchedule}}, InvalidArgument, FieldRetry},
		{"header", Message{Headers: []Header{{nil, nil}}}, InvalidArgument, FieldHeaders},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.put(text("good"))
			o := r.apply(&Enqueue{Queue: []byte("q"), Messages: []Message{text("a"), c.m, text("b")}})
			must(t, "one bad does not stop the others", o[0].Code == OK && o[2].Code == OK, true)
			must(t, "code", o[1].Code, c.code)
			must(t, "field", o[1].Field, c.f)
			must(t, "ready", r.s.Ready(1), 3)
			must(t, "refused", r.s.Stats(1).Refused, 1)
		})
	}
	t.Run("edges that are good", func(t *testing.T) {
		r := newRig(t)
		r.quiet = true
		r.put(Message{Body: make([]byte, MaxBodyBytes)})
		r.put(Message{})
		r.put(Message{DueAt: t0 + MaxDelayMillis})
		r.put(Message{DueAt: 1})
		r.put(Message{TTLMillis: MaxDelayMillis, TimeoutMillis: MaxDelayMillis})
		must(t, "ready", r.s.Ready(1), 4)
		must(t, "the big one alone", len(r.lease(9)), 1)
		must(t, "the others", len(r.lease(9)), 3)
		if err := r.s.Check(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("too many", func(t *testing.T) {
		r := newRig(t)
		o := r.apply(&Enqueue{Queue: []byte("q"), AutoCreate: true, Messages: make([]Message, MaxBatch+1)})
		must(t, "outcomes", len(o), MaxBatch+1)
		must(t, "refused", o[MaxBatch], refuse(InvalidArgument, FieldBatch, MaxBatch))
	})
	t.Run("result", func(t *testing.T) {
		r := newRig(t)
		r.put(text("x"))
		tok := r.lease1()
		r.refused(&Ack{Token: tok, HasResult: true, Result: Result{Output: make([]byte, MaxBodyBytes+1)}}, TooLarge, FieldResult)
		r.refused(&Ack{Token: tok, Then: make([]ThenMessage, MaxBatch+1)}, InvalidArgument, FieldThen)
		r.ok(&Ack{Token: tok})
	})
}

// TestReleasedInAnyOrder gives many leases back in another order than they were taken: the places hold.
func TestReleasedInAnyOrder(t *testing.T) {
	r := newRig(t)
	r.quiet = true
	const n = 500
	var ids []ID
	for range n {
		ids = append(ids, r.put(Message{Priority: 4}))
	}
	ts := r.lease(n)
	for i := range ts { // 7 and n have no common factor: a permutation
		r.apply(&Release{Token: ts[i*7%n]})
	}
	if err := r.s.Check(); err != nil {
		t.Fatal(err)
	}
	for i, tok := range r.lease(n) {
		must(t, "order", tok.Message, ids[i])
	}
}

// TestFromTimeZero lives through a day that begins at T 0: no zero is taken for an unset time.
func TestFromTimeZero(t *testing.T) {
	r := newRig(t)
	s := New(3)
	defer s.Close()
	r.s, r.now, r.index, r.log = s, 0, 0, nil
	r.put(Message{TTLMillis: 50, TimeoutMillis: 40})
	tok := r.lease1()
	r.ok(&Nack{Token: tok, Permanent: true})
	r.wantState(tok.Message, StateDead)
	r.ok(&DeadRequeue{Queue: []byte("q"), IDs: []ID{tok.Message}})
	tok = r.lease1()
	r.tick(40)
	r.wantState(tok.Message, StateRetrying)
	r.tick(10)
	r.wantState(tok.Message, StateDead)
	r.everywhere()
}
