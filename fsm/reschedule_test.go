package fsm

import (
	"fmt"
	"testing"
)

func TestReschedule(t *testing.T) {
	const later = 5000
	ops := []struct {
		name string
		op   Reschedule
		due  func(r *rig, was int64) int64 // T; 0: ready now. was is the due time before, 0 of a ready message
		body string
	}{
		{"after a delay", Reschedule{When: AfterDelay, Time: later}, func(r *rig, _ int64) int64 { return r.now + later }, "body"},
		{"after no delay", Reschedule{When: AfterDelay}, func(*rig, int64) int64 { return 0 }, "body"},
		{"at a time", Reschedule{When: AtTime, Time: t0 + 9000}, func(*rig, int64) int64 { return t0 + 9000 }, "body"},
		{"at a time that is past", Reschedule{When: AtTime, Time: 1}, func(*rig, int64) int64 { return 0 }, "body"},
		{"debounced", Reschedule{When: AfterDelay, Time: later, MaxWaitMillis: 60_000}, func(r *rig, _ int64) int64 { return r.now + later }, "body"},
		{"debounced to the end of the wait", Reschedule{When: AfterDelay, Time: later, MaxWaitMillis: 4000}, func(*rig, int64) int64 { return t0 + 4000 }, "body"},
		{"debounced beyond the wait", Reschedule{When: AfterDelay, Time: later, MaxWaitMillis: 1}, func(r *rig, _ int64) int64 {
			if r.now > t0 {
				return 0
			}
			return t0 + 1
		}, "body"},
		{"another body", Reschedule{HasBody: true, Body: []byte("a new and longer body")}, func(_ *rig, was int64) int64 { return was }, "a new and longer body"},
		{"no body", Reschedule{HasBody: true}, func(_ *rig, was int64) int64 { return was }, ""},
		{"another body and time", Reschedule{When: AfterDelay, Time: later, HasBody: true, Body: []byte("n")}, func(r *rig, _ int64) int64 { return r.now + later }, "n"},
	}
	for _, c := range taskStates {
		for i, o := range ops {
			t.Run(c.name+", "+o.name, func(t *testing.T) {
				r := newRig(t)
				id, tok := c.make(r)
				other := r.put(text("other")) // takes the place behind
				var was Info
				r.s.Task("q", []byte("x"), &was)
				attempts, history, expires := was.Attempts, len(was.History), was.ExpiresAt
				op := o.op
				op.Queue, op.TaskID = []byte("q"), []byte("x")
				got := r.one(&op)
				switch c.state {
				case StateScheduled, StateReady, StateRetrying:
				default:
					must(t, "outcome", got, Outcome{Code: FailedPrecondition, Field: FieldTaskID})
					must(t, "state", r.stateX(), c.state)
					if i == 0 {
						r.everywhere()
					}
					return
				}
				due := o.due(r, was.DueAt)
				must(t, "outcome", got, Outcome{ID: id, Count: due})
				var in Info
				r.s.Task("q", []byte("x"), &in)
				want := StateReady
				if due > 0 {
					want = StateScheduled
				}
				must(t, "state", in.State, want)
				must(t, "due", in.DueAt, due)
				must(t, "body", string(in.Body), o.body)
				must(t, "attempts, history, ttl", [3]int64{int64(in.Attempts), int64(len(in.History)), in.ExpiresAt}, [3]int64{int64(attempts), int64(history), expires})
				n, _ := r.s.QueueNumber([]byte("q"))
				must(t, "counted", r.s.Stats(n).Rescheduled, 1)
				must(t, "by id", r.info(id).State, want)

				if !tok.Lease.IsZero() && op.HasBody { // the work that it stands for is another
					for _, old := range []Op{&Ack{Token: tok}, &Nack{Token: tok, DelayMillis: -1}, &Extend{Token: tok}, &Release{Token: tok}} {
						r.refused(old, LeaseLost, FieldToken)
					}
				}
				got1 := r.lease1()
				must(t, "served first", got1.Message, other)
				if due > 0 {
					must(t, "served before its time", len(r.lease(1)), 0)
					if expires != 0 && expires <= due {
						r.tick(expires - r.now)
						must(t, "the ttl stands", r.stateX(), StateDead)
						r.everywhere()
						return
					}
					r.tick(due - r.now - 1)
					must(t, "served 1 ms before its time", r.stateX(), StateScheduled)
					r.tick(1)
				}
				r.ok(&Ack{Token: r.lease1()})
				must(t, "state", r.stateX(), StateDone)
				if i%3 == 0 {
					r.everywhere()
				}
			})
		}
	}
}

// An earlier lease's late ack ends a message that was only given another time: its work is done.
func TestLateAckOfARescheduled(t *testing.T) {
	r := newRig(t)
	id, tok := putX(r), r.lease1()
	r.tick(1000)
	r.ok(&Reschedule{Queue: []byte("q"), TaskID: []byte("x"), When: AfterDelay, Time: 60_000})
	r.ok(&Ack{Token: tok})
	r.wantState(id, StateDone)
	r.everywhere()
}

// A repeated nack gets its first answer, also where the message has been moved meanwhile.
func TestNackAgainOfARescheduled(t *testing.T) {
	r := newRig(t)
	_, tok := putX(r), r.lease1()
	first := r.ok(&Nack{Token: tok, DelayMillis: 300})
	r.ok(&Reschedule{Queue: []byte("q"), TaskID: []byte("x"), When: AfterDelay, Time: 60_000})
	must(t, "again", r.ok(&Nack{Token: tok, DelayMillis: 300}), first)
	must(t, "state", r.stateX(), StateScheduled)
	r.everywhere()
}

func TestRescheduleRefusals(t *testing.T) {
	bad := func(f func(op *Reschedule)) Reschedule {
		op := Reschedule{Queue: []byte("q"), TaskID: []byte("x"), When: AfterDelay}
		f(&op)
		return op
	}
	for _, c := range []struct {
		name  string
		op    Reschedule
		code  Code
		field Field
		limit int64
	}{
		{"nothing to do", bad(func(o *Reschedule) { o.When = KeepTime }), InvalidArgument, FieldDelay, 0},
		{"negative delay", bad(func(o *Reschedule) { o.Time = -1 }), InvalidArgument, FieldDelay, MaxDelayMillis},
		{"long delay", bad(func(o *Reschedule) { o.Time = MaxDelayMillis + 1 }), InvalidArgument, FieldDelay, MaxDelayMillis},
		{"negative time", bad(func(o *Reschedule) { o.When, o.Time = AtTime, -1 }), InvalidArgument, FieldDelay, 0},
		{"far time", bad(func(o *Reschedule) { o.When, o.Time = AtTime, t0+MaxDelayMillis+1 }), InvalidArgument, FieldDelay, MaxDelayMillis},
		{"very far time", bad(func(o *Reschedule) { o.When, o.Time = AtTime, 1<<63-1 }), InvalidArgument, FieldDelay, MaxDelayMillis},
		{"negative wait", bad(func(o *Reschedule) { o.MaxWaitMillis = -1 }), InvalidArgument, FieldMaxWait, MaxDelayMillis},
		{"long wait", bad(func(o *Reschedule) { o.MaxWaitMillis = MaxDelayMillis + 1 }), InvalidArgument, FieldMaxWait, MaxDelayMillis},
		{"wait without a delay", bad(func(o *Reschedule) { o.When, o.MaxWaitMillis = AtTime, 5 }), InvalidArgument, FieldMaxWait, 0},
		{"body too large", bad(func(o *Reschedule) { o.HasBody, o.Body = true, make([]byte, MaxBodyBytes+1) }), TooLarge, FieldBody, MaxBodyBytes},
		{"content type too long", bad(func(o *Reschedule) { o.HasBody, o.ContentType = true, make([]byte, MaxContentType+1) }), InvalidArgument, FieldContentType, MaxContentType},
		{"content type no text", bad(func(o *Reschedule) { o.HasBody, o.ContentType = true, []byte{0xff} }), InvalidArgument, FieldContentType, MaxContentType},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			putX(r)
			must(t, "outcome", r.one(&c.op), Outcome{Code: c.code, Field: c.field, Limit: c.limit})
			must(t, "state", r.stateX(), StateReady)
		})
	}
	r := newRig(t)
	putX(r)
	r.ok(&Reschedule{Queue: []byte("q"), TaskID: []byte("x"), When: AfterDelay, Time: MaxDelayMillis, MaxWaitMillis: MaxDelayMillis})
	r.ok(&Reschedule{Queue: []byte("q"), TaskID: []byte("x"), When: AtTime, Time: t0 + MaxDelayMillis})
}

// Many replacements keep every other field, and the bytes of a queue with them.
func TestReplaceKeepsTheRest(t *testing.T) {
	r := newRig(t)
	m := Message{
		TaskID: []byte("x"), Kind: []byte("kind"), ContentType: []byte("text/plain"), Key: []byte("key"), Body: []byte("body"),
		Headers: []Header{{[]byte("traceparent"), []byte("00-1")}}, Priority: 9, TTLMillis: 90_000, TimeoutMillis: 60_000,
		Retry: RetryPolicy{Kind: RetrySchedule, Steps: []int64{1, 2, 3}}, HasDedup: true, DedupKey: [16]byte{1},
	}
	id := r.put(m)
	for i := range 40 {
		op := &Reschedule{Queue: []byte("q"), TaskID: []byte("x"), HasBody: true, Body: fmt.Append(nil, i, string(make([]byte, i*37)))}
		if i == 20 {
			op.ContentType = []byte("text/html")
		}
		r.ok(op)
		in := r.info(id)
		want := "text/plain"
		if i >= 20 {
			want = "text/html"
		}
		must(t, "content type", string(in.ContentType), want)
		must(t, "body", string(in.Body), string(op.Body))
		must(t, "kind, key, headers", string(in.Kind)+string(in.Key)+string(in.Headers[0].Value), "kindkey00-1")
		must(t, "attempts", in.MaxAttempts, 4)
		must(t, "expires", in.ExpiresAt, t0+90_000)
	}
	var d Delivery
	r.lease1()
	r.s.Deliver(r.fx.Leases[0], &d)
	must(t, "timeout", d.TimeoutMillis, 60_000)
	must(t, "priority", d.Priority, 9)
	r.everywhere()
}
