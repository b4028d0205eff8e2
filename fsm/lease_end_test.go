package fsm

import (
	"strings"
	"testing"
)

// TestLeaseEnds is the table of semantics: how the last lease ended against what the token still does.
func TestLeaseEnds(t *testing.T) {
	ends := []struct {
		name string
		end  func(r *rig, tok Token)
		// want, for ack, nack, extend, release: "done", "same", "lost", "retrying", "ready", "ms"
		ack, nack, extend, release string
	}{
		{"live", func(*rig, Token) {}, "done", "retrying", "ms", "ready"},
		{"expiry", func(r *rig, _ Token) { r.tick(1000) }, "done", "lost", "lost", "lost"},
		{"expiry and retry due", func(r *rig, _ Token) { r.tick(1000); r.tick(1000) }, "done", "lost", "lost", "lost"},
		{"nack", func(r *rig, tok Token) { r.ok(&Nack{Token: tok, DelayMillis: 50}) }, "lost", "same", "lost", "lost"},
		{"nack and retry due", func(r *rig, tok Token) { r.ok(&Nack{Token: tok, DelayMillis: 50}); r.tick(50) }, "lost", "same", "lost", "lost"},
		{"nack to death", func(r *rig, tok Token) { r.ok(&Nack{Token: tok, Permanent: true}) }, "lost", "same", "lost", "lost"},
		{"release", func(r *rig, tok Token) { r.ok(&Release{Token: tok}) }, "done", "lost", "lost", "same"},
		{"lease of another", func(r *rig, tok Token) { r.ok(&Release{Token: tok}); r.lease1() }, "lost", "lost", "lost", "lost"},
		{"ack", func(r *rig, tok Token) { r.ok(&Ack{Token: tok}) }, "same", "lost", "lost", "lost"},
		{"ack with result", func(r *rig, tok Token) {
			r.ok(&Ack{Token: tok, HasResult: true, Result: Result{Output: []byte("r")}})
		}, "conflict", "lost", "lost", "lost"},
		{"purge leaves it", func(r *rig, _ Token) { r.ok(&PurgeQueue{Name: []byte("q")}) }, "done", "retrying", "ms", "ready"},
		{"deletion of the queue", func(r *rig, _ Token) { r.ok(&DeleteQueue{Name: []byte("q")}) }, "unknown", "unknown", "unknown", "unknown"},
		{"nack to death and requeue", func(r *rig, tok Token) {
			r.ok(&Nack{Token: tok, Permanent: true})
			r.ok(&DeadRequeue{Queue: []byte("q"), IDs: []ID{tok.Message}})
		}, "unknown", "unknown", "unknown", "unknown"},
	}
	for _, e := range ends {
		for op, want := range map[string]string{"ack": e.ack, "nack": e.nack, "extend": e.extend, "release": e.release} {
			t.Run(e.name+" then "+op, func(t *testing.T) {
				r := newRig(t)
				id := r.put(text("x"))
				tok := r.lease1()
				var first Outcome
				e.end(r, tok)
				if want == "same" && len(r.fx.Outcomes) > 0 {
					first = r.fx.Outcomes[0]
				}
				was := r.info(id).State
				var o Outcome
				switch op {
				case "ack":
					o = r.one(&Ack{Token: tok})
				case "nack":
					o = r.one(&Nack{Token: tok, DelayMillis: 50})
				case "extend":
					o = r.one(&Extend{Token: tok, LeaseMillis: 700})
				case "release":
					o = r.one(&Release{Token: tok})
				}
				switch want {
				case "lost":
					must(t, "code", o.Code, LeaseLost)
					r.wantState(id, was)
				case "unknown":
					must(t, "code", o.Code, NotFound)
				case "conflict":
					must(t, "code", o.Code, AlreadyExists)
					must(t, "has result", o.HasResult, true)
					must(t, "task", o.Task, id)
				case "done":
					must(t, "code", o.Code, OK)
					r.wantState(id, StateDone)
				case "same":
					must(t, "code", o.Code, OK)
					if op == "nack" && strings.Contains(e.name, "due") {
						first = Outcome{Millis: t0 + 50}
					}
					if op == "ack" {
						first.Millis = -1 // it was done before
					}
					must(t, "answer", o, first)
					r.wantState(id, was)
				case "retrying":
					must(t, "code", o.Code, OK)
					must(t, "due", o.Millis, r.now+50)
					r.wantState(id, StateRetrying)
				case "ready":
					must(t, "code", o.Code, OK)
					r.wantState(id, StateReady)
				case "ms":
					must(t, "left", o.Millis, 700)
					r.wantState(id, StateLeased)
				}
				r.everywhere()
			})
		}
	}
}

func TestTokenOfAnotherLeaseOrMessage(t *testing.T) {
	r := newRig(t)
	id := r.put(text("x"))
	other := r.put(text("y"))
	for name, tok := range map[string]Token{
		"never leased": {Message: other, Lease: ID{1, 1}}, "never leased, zero lease": {Message: other},
	} {
		t.Run(name, func(*testing.T) { r.refused(&Ack{Token: tok}, LeaseLost, FieldToken) })
	}
	r.refused(&Ack{Token: Token{Message: ID{9, 9}, Lease: ID{1, 1}}}, NotFound, FieldToken)
	old := r.lease1()
	must(t, "message", old.Message, id)
	r.ok(&Release{Token: old})
	now := r.lease1()
	if now.Lease.Compare(old.Lease) <= 0 {
		t.Fatalf("lease %s after %s: tokens must rise", now.Lease, old.Lease)
	}
	o := r.one(&Ack{Token: old, HasResult: true, Result: Result{Output: []byte("late")}})
	must(t, "code", o.Code, LeaseLost)
	r.ok(&Ack{Token: now})
	r.refused(&Ack{Token: old}, LeaseLost, FieldToken)
	r.refused(&Nack{Token: now, DelayMillis: -1}, LeaseLost, FieldToken)
}

func TestAckAgain(t *testing.T) {
	res := func(s string) *Result { return &Result{Output: []byte(s)} }
	for _, c := range []struct {
		name          string
		first, second *Result
		code          Code
	}{
		{"none, none", nil, nil, OK},
		{"none, some", nil, res("a"), AlreadyExists},
		{"same", res("a"), res("a"), OK},
		{"empty, empty", res(""), res(""), OK},
		{"other", res("a"), res("b"), AlreadyExists},
		{"some, none", res("a"), nil, AlreadyExists},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			id := r.put(text("x"))
			tok := r.lease1()
			ack := func(res *Result) *Ack {
				a := &Ack{Token: tok}
				if res != nil {
					a.HasResult, a.Result = true, *res
				}
				return a
			}
			must(t, "first", r.ok(ack(c.first)), Outcome{})
			o := r.one(ack(c.second))
			must(t, "code", o.Code, c.code)
			must(t, "has result", o.HasResult, c.code == AlreadyExists && c.first != nil)
			if c.code == AlreadyExists {
				must(t, "id", o.ID, id)
			}
			// As long as it is remembered, and not longer.
			r.tick(TombstoneMillis - 1)
			must(t, "code at the end", r.one(ack(c.first)).Code, OK)
			if c.first == nil {
				r.tick(1)
				must(t, "code after the end", r.one(ack(c.first)).Code, NotFound)
				r.everywhere()
				return
			}
			r.tick(DefaultResultTTL - TombstoneMillis)
			must(t, "code just before the result's end", r.one(ack(c.first)).Code, OK)
			r.tick(1)
			must(t, "code after the result's end", r.one(ack(c.first)).Code, NotFound)
			r.everywhere()
		})
	}
}

func TestExtend(t *testing.T) {
	r := newRig(t)
	m := text("x")
	m.TimeoutMillis = 5000
	r.put(m)
	tok := r.lease1()
	r.tick(600)
	must(t, "left", r.ok(&Extend{Token: tok, LeaseMillis: 2000}).Millis, 2000)
	r.tick(1999)
	r.wantState(tok.Message, StateLeased)
	must(t, "shorter", r.ok(&Extend{Token: tok, LeaseMillis: 100}).Millis, 100)
	must(t, "the queue's, cut by the timeout", r.ok(&Extend{Token: tok}).Millis, 5000-600-1999)
	r.refused(&Extend{Token: tok, LeaseMillis: 99}, InvalidArgument, FieldLease)
	r.refused(&Extend{Token: tok, LeaseMillis: MaxLeaseMillis + 1}, InvalidArgument, FieldLease)
	at, ok := r.s.NextDue()
	must(t, "next due", at, t0+5000)
	must(t, "ok", ok, true)
	r.now = t0 + 5000
	r.tick(0)
	r.wantState(tok.Message, StateRetrying)
	must(t, "ended", len(r.fx.Ended), 1)
	must(t, "expired", r.fx.Ended[0], LeaseEnd{Token: tok, Consumer: someone, Expired: true})
	r.everywhere()
}

func TestShiftLengthensNoLeaseAndCutsNone(t *testing.T) {
	r := newRig(t)
	r.put(text("x"))
	tok := r.lease1()
	r.now += 1_000_000 // a jump that the leader declares, but for 400 ms that passed
	r.applyData(r.entry(1_000_000 - 400))
	r.wantState(tok.Message, StateLeased)
	at, _ := r.s.NextDue()
	must(t, "next due", at, r.now+600)
	var d Delivery
	if !r.s.Lease(tok, &d) {
		t.Fatal("the lease is gone")
	}
	must(t, "left", d.LeaseLeft, 600)
	must(t, "deadline", d.Deadline, r.now+600)
	// A shift cannot be more than T moved, nor negative.
	r.now += 10
	r.applyData(r.entry(50))
	r.now += 10
	r.applyData(r.entry(-50))
	must(t, "shift", r.s.Shift(), 1_000_000-400+10)
	r.tick(589)
	r.wantState(tok.Message, StateLeased)
	r.tick(1)
	r.wantState(tok.Message, StateRetrying)
	r.everywhere()
}

func TestTimeNeverFalls(t *testing.T) {
	r := newRig(t)
	r.now -= 5000
	r.apply()
	must(t, "T", r.s.Time(), t0)
	must(t, "effects", r.fx.Time, t0)
	r.now = 1 << 62
	r.apply()
	must(t, "T", r.s.Time(), MaxTime)
	r.put(Message{Body: []byte("x"), DelayMillis: MaxDelayMillis})
	r.everywhere()
}

func TestFreeReturns(t *testing.T) {
	r := newRig(t)
	r.quiet = true
	id := r.put(text("x"))
	r.put(text("y"))
	for range MaxFreeReturns {
		tok := r.lease1()
		must(t, "old place", tok.Message, id)
		must(t, "attempt", r.fx.Leases[0].Attempt, 1)
		must(t, "dead", r.ok(&Release{Token: tok}).Dead, false)
		must(t, "attempts after return", r.info(id).Attempts, 0)
	}
	// The default schedule has 4 attempts: these cost one each, and the fourth is the last.
	for n := int32(1); n <= 4; n++ {
		tok := r.lease1()
		must(t, "attempt", r.fx.Leases[0].Attempt, n)
		o := r.ok(&Release{Token: tok})
		must(t, "dead", o.Dead, n == 4)
		must(t, "again", r.one(&Release{Token: tok}), o)
	}
	in := r.info(id)
	must(t, "state", in.State, StateDead)
	must(t, "reason", in.Reason, ReasonMaxAttempts)
	r.refused(&Ack{Token: in.Token}, LeaseLost, FieldToken)
	r.everywhere()
}

func TestFreeReturnsStartAgainAfterACostlyEnd(t *testing.T) {
	r := newRig(t)
	r.quiet = true
	id := r.put(text("x"))
	for range MaxFreeReturns {
		r.ok(&Release{Token: r.lease1()})
	}
	r.ok(&Nack{Token: r.lease1(), DelayMillis: 0})
	r.tick(1)
	r.ok(&Release{Token: r.lease1()})
	must(t, "attempts", r.info(id).Attempts, 1)
}
