package fsm

import (
	"fmt"
	"strings"
	"testing"
)

// TestRetryKinds follows a message through every attempt of each kind, by nack and by expiry, as the queue's policy and as
// its own.
func TestRetryKinds(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy RetryPolicy
		delays []int64
	}{
		{"default", RetryPolicy{}, []int64{1000, 5000, 10000}},
		{"schedule", RetryPolicy{Kind: RetrySchedule, Steps: []int64{10, 0, 70}}, []int64{10, 0, 70}},
		{"fixed", RetryPolicy{Kind: RetryFixed, InitialMillis: 300, MaxAttempts: 3}, []int64{300, 300}},
		{"linear", RetryPolicy{Kind: RetryLinear, InitialMillis: 100, MaxMillis: 250, MaxAttempts: 5}, []int64{100, 200, 250, 250}},
		{"exponential", RetryPolicy{Kind: RetryExponential}, []int64{1000, 2000, 4000, 8000}},
		{"exponential by 1.5", RetryPolicy{Kind: RetryExponential, MultiplierMilli: 1500, InitialMillis: 3, MaxAttempts: 4}, []int64{3, 4, 6}},
		{"one attempt", RetryPolicy{Kind: RetryFixed, MaxAttempts: 1}, nil},
	} {
		for _, own := range []bool{false, true} {
			for _, by := range []string{"nack", "expiry"} {
				t.Run(fmt.Sprintf("%s own=%t by %s", c.name, own, by), func(t *testing.T) {
					if own && c.policy.Kind == RetryDefault {
						return
					}
					r := newRig(t)
					m := text("x")
					o := QueueOptions{}
					if own {
						m.Retry = c.policy
						o.Retry = RetryPolicy{Kind: RetryFixed, MaxAttempts: 1}
					} else {
						o.Retry = c.policy
					}
					r.ok(&CreateQueue{Name: []byte("q"), Options: o})
					id := r.put(m)
					for n := 0; ; n++ {
						tok := r.lease1()
						must(t, "attempt", r.fx.Leases[0].Attempt, int32(n+1))
						var due int64
						var dead bool
						if by == "nack" {
							o := r.ok(&Nack{Token: tok, Error: []byte(fmt.Sprint("e", n)), DelayMillis: -1})
							due, dead = o.Millis, o.Dead
							must(t, "free attempt count", r.info(id).Attempts, int32(n+1))
						} else {
							r.tick(999)
							r.wantState(id, StateLeased)
							r.tick(1)
							in := r.info(id)
							due, dead = in.DueAt, in.State == StateDead
							if n < len(c.delays) && c.delays[n] == 0 {
								due = r.now // moved on at once
							}
						}
						must(t, "dead", dead, n == len(c.delays))
						if dead {
							break
						}
						must(t, "due", due, r.now+c.delays[n])
						if c.delays[n] > 0 {
							r.tick(c.delays[n] - 1)
							r.wantState(id, StateRetrying)
							r.tick(1)
						} else {
							r.tick(0)
						}
						r.wantState(id, StateReady)
					}
					in := r.info(id)
					must(t, "reason", in.Reason, ReasonMaxAttempts)
					must(t, "max attempts", in.MaxAttempts, int32(len(c.delays)+1))
					want := "lease expired"
					if by == "nack" {
						want = fmt.Sprint("e", len(c.delays))
					}
					must(t, "error", string(in.Error), want)
					must(t, "history", len(in.History), len(c.delays)+1)
					for i, a := range in.History {
						must(t, "number", a.Number, int32(i+1))
						must(t, "worker", string(a.Worker), "w")
					}
					r.everywhere()
				})
			}
		}
	}
}

func TestHistoryKeepsTheLastEight(t *testing.T) {
	r := newRig(t)
	m := text("x")
	m.Retry = RetryPolicy{Kind: RetryFixed, InitialMillis: 1, MaxAttempts: 12}
	id := r.put(m)
	long := strings.Repeat("é", 3000)
	for i := range 12 {
		tok := r.lease1()
		r.ok(&Nack{Token: tok, Error: []byte(fmt.Sprint(i, long)), DelayMillis: -1})
		r.tick(1)
	}
	in := r.info(id)
	must(t, "history", len(in.History), MaxHistory)
	must(t, "oldest", in.History[0].Number, 5)
	must(t, "newest", in.History[7].Number, 12)
	if len(in.Error) > MaxError || len(in.History[7].Error) > MaxAttemptError || !strings.HasPrefix(fmt.Sprint(11, long), string(in.Error)) ||
		!ValidText(in.Error, MaxError) || !ValidText(in.History[7].Error, MaxAttemptError) {
		t.Fatalf("error of %d bytes, in history %d", len(in.Error), len(in.History[7].Error))
	}
	r.everywhere()
}

func TestNack(t *testing.T) {
	t.Run("delay", func(t *testing.T) {
		r := newRig(t)
		id := r.put(text("x"))
		tok := r.lease1()
		r.refused(&Nack{Token: tok, DelayMillis: -2}, InvalidArgument, FieldDelay)
		r.refused(&Nack{Token: tok, DelayMillis: MaxDelayMillis + 1}, InvalidArgument, FieldDelay)
		must(t, "due", r.ok(&Nack{Token: tok, DelayMillis: 7}).Millis, r.now+7)
		r.tick(7)
		r.wantState(id, StateReady)
	})
	t.Run("delay 0 is ready in the next entry", func(t *testing.T) {
		r := newRig(t)
		id := r.put(text("x"))
		r.ok(&Nack{Token: r.lease1()})
		r.wantState(id, StateRetrying)
		must(t, "more", r.fx.More, true)
		r.tick(0)
		r.wantState(id, StateReady)
		must(t, "ready", len(r.fx.Ready), 1)
	})
	t.Run("permanent", func(t *testing.T) {
		r := newRig(t)
		id := r.put(text("x"))
		tok := r.lease1()
		o := r.ok(&Nack{Token: tok, Permanent: true, DelayMillis: -1, Error: []byte("no")})
		must(t, "answer", o, Outcome{Dead: true})
		must(t, "again", r.one(&Nack{Token: tok, DelayMillis: 9}), o)
		must(t, "reason", r.info(id).Reason, ReasonPermanent)
		must(t, "tasks", len(r.fx.Tasks), 0)
	})
	t.Run("first answer after the ttl killed it", func(t *testing.T) {
		r := newRig(t)
		m := text("x")
		m.TTLMillis = 2000
		id := r.put(m)
		tok := r.lease1()
		o := r.ok(&Nack{Token: tok, DelayMillis: 9000})
		r.tick(2000)
		must(t, "reason", r.info(id).Reason, ReasonExpired)
		must(t, "again", r.one(&Nack{Token: tok, DelayMillis: -1}), o)
		r.everywhere()
	})
	t.Run("fewer attempts by new options", func(t *testing.T) {
		r := newRig(t)
		id := r.put(text("x"))
		r.ok(&Nack{Token: r.lease1(), DelayMillis: 0})
		r.tick(0)
		tok := r.lease1()
		r.ok(&SetQueue{Name: []byte("q"), Options: QueueOptions{Retry: RetryPolicy{Kind: RetryFixed, MaxAttempts: 1}}})
		must(t, "dead", r.ok(&Nack{Token: tok, DelayMillis: -1}).Dead, true)
		must(t, "reason", r.info(id).Reason, ReasonMaxAttempts)
	})
}

func TestTTL(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(r *rig, id ID)
		dead bool
	}{
		{"ready", func(r *rig, _ ID) { r.tick(500) }, true},
		{"ready, not yet", func(r *rig, _ ID) { r.tick(499) }, false},
		{"scheduled", func(r *rig, _ ID) { r.tick(500) }, true},
		{"out, then released", func(r *rig, id ID) {
			tok := r.lease1()
			r.tick(600)
			r.wantState(id, StateLeased)
			must(r.t, "dead", r.ok(&Release{Token: tok}).Dead, true)
		}, true},
		{"out, then nacked", func(r *rig, _ ID) {
			tok := r.lease1()
			r.tick(600)
			must(r.t, "dead", r.ok(&Nack{Token: tok, DelayMillis: -1}).Dead, true)
		}, true},
		{"out, then expired", func(r *rig, _ ID) { r.lease1(); r.tick(1000) }, true},
		{"retrying", func(r *rig, _ ID) { r.ok(&Nack{Token: r.lease1(), DelayMillis: 5000}); r.tick(500) }, true},
		{"back in time", func(r *rig, _ ID) { r.ok(&Release{Token: r.lease1()}); r.tick(499) }, false},
		{"back in time, then over", func(r *rig, _ ID) { r.ok(&Release{Token: r.lease1()}); r.tick(500) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			m := text("x")
			m.TTLMillis = 500
			if c.name == "scheduled" {
				m.DelayMillis = 900
			}
			id := r.put(m)
			c.run(r, id)
			in := r.info(id)
			must(t, "dead", in.State == StateDead, c.dead)
			if c.dead {
				must(t, "reason", in.Reason, ReasonExpired)
			}
			r.everywhere()
		})
	}
}
