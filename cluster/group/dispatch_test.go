package group

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm"
)

// A message that arrives while somebody waits is enqueued and leased by one entry.
func TestLeaseRidesAlong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		s, cn, _ := l.attach(t)
		must(t, s.Subscribe(7, "q", 100, 0, "w"))
		pass(50 * time.Millisecond)
		for i := range 10 {
			a := l.do(t, enqueue("q", fmt.Sprint(i)))
			got := cn.have(7)
			if len(got) != i+1 {
				t.Fatalf("%d delivered when enqueue %d was confirmed, want it to have come with it", len(got), i)
			}
			d := got[i]
			if d.token.Message != a.out[0].ID || d.token.Lease.Index() != a.at.Index || d.body != fmt.Sprint(i) || d.attempt != 1 {
				t.Fatalf("delivery %+v of message %v, want a lease of the same entry %d", d, a.out[0].ID, a.at.Index)
			}
		}
		// The same for a pull that waits, an ack's followers and a message given back.
		o := newOne()
		s.Lease(leaseOp(s, o, "p", 10), "p", fsm.Request{}, time.Minute)
		l.do(t, enqueue("q", "x")) // does not know p
		direct := o.wait(t)
		if direct.err != nil || direct.out[0].Code != fsm.NotFound {
			t.Fatalf("pull of a queue that does not exist: %+v, want not_found", direct)
		}
		l.do(t, &fsm.CreateQueue{Name: []byte("p")})
		o = newOne()
		s.Lease(leaseOp(s, o, "p", 10), "p", fsm.Request{}, time.Minute)
		ack := l.do(t, &fsm.Ack{Token: cn.have(7)[0].token, ThenAutoCreate: true, Then: []fsm.ThenMessage{
			{Queue: []byte("p"), Message: fsm.Message{Body: []byte("then")}},
		}})
		a := o.wait(t)
		if len(a.got) != 1 || a.got[0].body != "then" || a.at.Index != ack.at.Index {
			t.Fatalf("pull got %+v at %d, want the ack's follower at %d", a.got, a.at.Index, ack.at.Index)
		}
		o = newOne()
		s.Lease(leaseOp(s, o, "p", 10), "p", fsm.Request{}, time.Minute)
		rel := l.do(t, &fsm.Release{Token: a.got[0].token})
		b := o.wait(t)
		if len(b.got) != 1 || b.at.Index != rel.at.Index || b.got[0].attempt != 1 {
			t.Fatalf("pull got %+v at %d, want what was released at %d, attempt 1", b.got, b.at.Index, rel.at.Index)
		}
		c.agree()
	})
}

// The window is exact: never more leases out than credit, and each end lets in one more.
func TestCreditIsExact(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		s, cn, id := l.attach(t)
		must(t, s.Subscribe(1, "q", 5, 0, "w"))
		for i := range 40 {
			l.do(t, enqueue("q", fmt.Sprint(i)))
		}
		out := func() (n int) {
			_, err := l.g.Read(t.Context(), false, func(st *fsm.State) {
				st.ConsumerLeases(fsm.Consumer{Session: id, Sub: 1}, func(fsm.Token) bool { n++; return true })
			})
			must(t, err)
			return n
		}
		if got, n := len(cn.have(1)), out(); got != 5 || n != 5 {
			t.Fatalf("%d delivered and %d out, want 5", got, n)
		}
		steps := []struct {
			name string
			do   func(first fsm.Token)
			want int // more deliveries
		}{
			{"ack", func(f fsm.Token) { l.do(t, &fsm.Ack{Token: f}) }, 1},
			{"nack", func(f fsm.Token) { l.do(t, &fsm.Nack{Token: f, DelayMillis: 3_600_000}) }, 1},
			{"permanent nack", func(f fsm.Token) { l.do(t, &fsm.Nack{Token: f, Permanent: true}) }, 1},
			{"ack that is refused", func(f fsm.Token) {
				l.send(&fsm.Ack{Token: fsm.Token{Message: f.Message, Lease: fsm.MakeID(1, 0, 1, 0)}}).wait(t)
			}, 0},
			{"credit 8", func(fsm.Token) { must(t, s.Credit(1, 8)) }, 3},
			{"credit 6", func(fsm.Token) { must(t, s.Credit(1, 6)) }, 0},
			{"ack above the window", func(f fsm.Token) { l.do(t, &fsm.Ack{Token: f}) }, 0},
			{"ack down to the window", func(f fsm.Token) { l.do(t, &fsm.Ack{Token: f}) }, 0},
			{"ack within it", func(f fsm.Token) { l.do(t, &fsm.Ack{Token: f}) }, 1},
			{"pause", func(fsm.Token) { must(t, s.Credit(1, 0)) }, 0},
			{"ack while paused", func(f fsm.Token) { l.do(t, &fsm.Ack{Token: f}) }, 0},
			{"go on", func(fsm.Token) { must(t, s.Credit(1, 6)) }, 1},
		}
		var have []delivered
		next := 0
		have = cn.have(1)
		for _, step := range steps {
			before := len(cn.have(1))
			first := have[next].token
			step.do(first)
			if step.name != "ack that is refused" && step.name != "pause" && step.name != "go on" && step.name != "credit 8" && step.name != "credit 6" {
				next++
			}
			pass(20 * time.Millisecond)
			have = cn.have(1)
			if got := len(have) - before; got != step.want {
				t.Fatalf("%s: %d more delivered, want %d", step.name, got, step.want)
			}
		}
	})
}

// Everybody who waits is served in turn, whatever the credit of others.
func TestFairTurns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		var conns []*conn
		for i, credit := range []int32{10_000, 10, 10, 10} {
			s, cn, _ := l.attach(t)
			must(t, s.Subscribe(1, "q", credit, 0, fmt.Sprint(i)))
			conns = append(conns, cn)
		}
		for range 40 {
			l.do(t, enqueue("q", "x"))
		}
		for i, cn := range conns {
			if got := len(cn.have(1)); got != 10 {
				t.Errorf("consumer %d has %d, want its turn's 10", i, got)
			}
		}
		var bodies []string
		for range 500 {
			bodies = append(bodies, "y")
		}
		l.do(t, enqueue("q", bodies...)) // only the first has credit left
		c.until(time.Second, "the rest", func() bool { return len(conns[0].have(1)) == 510 })
	})
}

func TestPull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		s, _, id := l.attach(t)
		l.do(t, enqueue("q", "a", "b", "c"))
		o := newOne()
		s.Lease(leaseOp(s, o, "q", 2), "q", fsm.Request{}, time.Minute)
		if a := o.wait(t); a.err != nil || len(a.got) != 2 || a.got[0].body != "a" || a.got[1].body != "b" {
			t.Fatalf("pull of two: %+v", a)
		}
		// With a request id: the repeat gets the same lease though the queue is empty by then.
		req := fsm.Request{Session: id, Number: 1, Low: 1}
		withReq := func() answer {
			op := &fsm.Lease{Request: req, Queue: []byte("q"), Consumer: fsm.Consumer{Session: id}, Max: 5, MaxBytes: fsm.MaxLeaseBytes}
			o := newOne()
			s.Lease(&Proposal{Op: fsm.AppendOp(nil, op), Done: o}, "q", req, time.Minute)
			return o.wait(t)
		}
		first := withReq()
		again := withReq()
		if len(first.got) != 1 || first.got[0].body != "c" || len(again.got) != 1 || again.got[0].token != first.got[0].token {
			t.Fatalf("first %+v, repeated %+v", first.got, again.got)
		}
		before := l.g.Raft().LastIndex()
		for _, wait := range []time.Duration{0, 300 * time.Millisecond} {
			o = newOne()
			began := time.Now()
			s.Lease(leaseOp(s, o, "q", 2), "q", fsm.Request{}, wait)
			a := o.wait(t)
			took := time.Since(began)
			if a.err != nil || len(a.out) != 1 || a.out[0].Code != fsm.OK || len(a.got) != 0 || a.at.Index == 0 {
				t.Fatalf("pull of an empty queue: %+v, want an empty success", a)
			}
			if took < wait || took > wait+100*time.Millisecond {
				t.Errorf("waited %v, want %v", took, wait)
			}
		}
		if got := l.g.Raft().LastIndex(); got != before {
			t.Errorf("waiting wrote %d log entries", got-before)
		}
		if n := len(l.g.dispatch.queues); n != 0 {
			t.Errorf("%d queues left in the dispatcher", n)
		}
	})
}

// Many pulls for few messages: each message goes to one, in the order of asking, the others go on waiting.
func TestPullsInTurn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		s, _, _ := l.attach(t)
		l.do(t, &fsm.CreateQueue{Name: []byte("q")})
		var ones []*one
		for range 50 {
			o := newOne()
			s.Lease(leaseOp(s, o, "q", 100), "q", fsm.Request{}, time.Hour)
			ones = append(ones, o)
		}
		for i := range 50 {
			a := l.do(t, enqueue("q", fmt.Sprint(i)))
			got := ones[i].wait(t)
			if len(got.got) != 1 || got.got[0].body != fmt.Sprint(i) || got.at.Index != a.at.Index {
				t.Fatalf("pull %d got %+v", i, got)
			}
		}
	})
}

// A connection goes: what no handler has taken is back at once and free; what was started stays out.
func TestDetach(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		s, cn, _ := l.attach(t)
		must(t, s.Subscribe(1, "q", 10, 0, "w"))
		l.do(t, enqueue("q", "a", "b", "c"))
		got := cn.have(1)
		s.Started(1, []fsm.Token{got[0].token})
		waiting := newOne()
		l.do(t, &fsm.CreateQueue{Name: []byte("empty")})
		s.Lease(leaseOp(s, waiting, "empty", 1), "empty", fsm.Request{}, time.Hour)
		s.Detach()
		if a := waiting.wait(t); a.err == nil || a.err.Unknown {
			t.Errorf("pull of the lost connection: %+v, want refused", a)
		}
		c.until(time.Second, "two back", func() bool { st := l.stats("q"); return st.Ready == 2 && st.Leased == 1 })
		s2, cn2, _ := l.attach(t)
		must(t, s2.Subscribe(1, "q", 10, 0, "w"))
		c.until(time.Second, "delivered anew", func() bool { return len(cn2.have(1)) == 2 })
		for i, d := range cn2.have(1) {
			if d.attempt != 1 || d.body != got[i+1].body {
				t.Errorf("delivered anew: %+v, want %q at attempt 1", d, got[i+1].body)
			}
		}
		l.do(t, &fsm.Ack{Token: got[0].token}) // the worker that had started may still answer
		if err := s.Subscribe(2, "q", 1, 0, ""); err == nil {
			t.Error("a detached session subscribes")
		}
		s.Detach()
		if n := len(l.g.dispatch.releasing); n != 0 {
			t.Errorf("%d releases are thought to be on their way", n)
		}
	})
}

// Of a subscription that is abandoned, what had been started goes back at once too, to its old place, and costs an attempt; what had been
// answered stays as it is.
func TestAbandon(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		s, cn, _ := l.attach(t)
		must(t, s.Subscribe(1, "q", 3, 600_000, "w"))
		l.do(t, enqueue("q", "acked", "started", "held", "waiting"))
		got := cn.have(1)
		s.Started(1, []fsm.Token{got[0].token, got[1].token})
		must(t, s.Subscribe(2, "other", 3, 600_000, "w"))
		l.do(t, enqueue("other", "of another"))
		s.Started(2, []fsm.Token{cn.have(2)[0].token})
		must(t, s.Credit(1, 0)) // the ack makes no room
		l.do(t, &fsm.Ack{Token: got[0].token})
		must(t, s.Abandon(1))
		if err := s.Abandon(1); err == nil {
			t.Error("it is abandoned twice")
		}
		c.until(time.Second, "both back", func() bool { st := l.stats("q"); return st.Ready == 3 && st.Leased == 0 })
		if st := l.stats("other"); st.Leased != 1 {
			t.Errorf("%d out of the other subscription, want 1", st.Leased)
		}
		must(t, s.Subscribe(3, "q", 10, 0, "w"))
		c.until(time.Second, "delivered anew", func() bool { return len(cn.have(3)) == 3 })
		for i, want := range []string{"started 2", "held 1", "waiting 1"} {
			if d := cn.have(3)[i]; fmt.Sprint(d.body, " ", d.attempt) != want {
				t.Errorf("delivered anew: %s at attempt %d, want %s", d.body, d.attempt, want)
			}
		}
		c.agree()
	})
}

// A lease that was committed for a connection that had gone meanwhile is given back.
func TestLeaseForNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var disk *slowDisk
		c := newCluster(t, 1, func(cfg *Config) {
			disk = &slowDisk{LogStore: cfg.Logs}
			cfg.Logs = disk
		})
		defer c.stop()
		l := c.leader()
		s, cn, _ := l.attach(t)
		must(t, s.Subscribe(1, "q", 10, 0, "w"))
		o := newOne()
		l.do(t, &fsm.CreateQueue{Name: []byte("p")})
		s.Lease(leaseOp(s, o, "p", 5), "p", fsm.Request{}, time.Hour)
		hang := make(chan struct{})
		disk.hang.Store(&hang)
		e1, e2 := l.send(enqueue("q", "a")), l.send(enqueue("p", "b"))
		c.until(time.Second, "in flight", func() bool { n, _ := l.g.intake.size(); return n == 0 && l.g.inFlight.Load() > 0 })
		s.Detach()
		disk.hang.Store(nil)
		close(hang)
		e1.wait(t)
		e2.wait(t)
		if a := o.wait(t); a.err != nil || len(a.got) != 1 {
			t.Errorf("pull: %+v, want the lease that is then given back", a)
		}
		c.until(time.Second, "both back", func() bool { return l.stats("q").Ready == 1 && l.stats("p").Ready == 1 })
		if got := cn.have(1); len(got) > 0 {
			t.Errorf("delivered %+v to a connection that had gone", got)
		}
	})
}

// A subscription that ends, or begins anew for another queue, while a lease for it is in flight: the lease is given back
// and the new window is exact.
func TestSubscriptionChangesInFlight(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(s *Session) *Error
	}{
		{"unsubscribe", func(s *Session) *Error { return s.Unsubscribe(1) }},
		{"another queue", func(s *Session) *Error { return s.Subscribe(1, "p", 3, 0, "w") }},
		{"again", func(s *Session) *Error {
			if err := s.Unsubscribe(1); err != nil {
				return err
			}
			return s.Subscribe(1, "p", 3, 0, "w")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var disk *slowDisk
				c := newCluster(t, 1, func(cfg *Config) {
					disk = &slowDisk{LogStore: cfg.Logs}
					cfg.Logs = disk
				})
				defer c.stop()
				l := c.leader()
				s, cn, _ := l.attach(t)
				l.do(t, enqueue("p", "1", "2", "3", "4", "5"))
				must(t, s.Subscribe(1, "q", 10, 0, "w"))
				hang := make(chan struct{})
				disk.hang.Store(&hang)
				e := l.send(enqueue("q", "a", "b"))
				c.until(time.Second, "in flight", func() bool { n, _ := l.g.intake.size(); return n == 0 && l.g.inFlight.Load() > 0 })
				must(t, test.change(s))
				l.g.audit(t)
				disk.hang.Store(nil)
				close(hang)
				e.wait(t)
				c.until(time.Second, "both back", func() bool { return l.stats("q").Ready == 2 })
				pass(10 * time.Millisecond)
				for _, d := range cn.have(1) {
					if d.body == "a" || d.body == "b" {
						t.Errorf("delivered %q to a subscription that had ended", d.body)
					}
				}
				if n := len(cn.have(1)); n > 3 {
					t.Errorf("%d delivered, window 3", n)
				}
				l.g.audit(t)
			})
		})
	}
}

// A connection without room is not asked again at once, and costs no attempt.
func TestNoRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		s, cn, _ := l.attach(t)
		cn.setFull(true)
		must(t, s.Subscribe(1, "q", 10, 0, "w"))
		l.do(t, enqueue("q", "a"))
		before := l.g.Raft().LastIndex()
		pass(time.Second)
		if grown := l.g.Raft().LastIndex() - before; grown > 25 {
			t.Errorf("%d entries in a second for a connection without room", grown)
		}
		cn.setFull(false)
		c.until(time.Second, "delivered", func() bool { return len(cn.have(1)) == 1 })
		if d := cn.have(1)[0]; d.attempt != 1 {
			t.Errorf("attempt %d, want 1: those before were never sent", d.attempt)
		}
	})
}

func TestResume(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		s, cn, id := l.attach(t)
		must(t, s.Subscribe(1, "q", 10, 0, "w"))
		l.do(t, enqueue("q", "started", "held", "never seen", "acked"))
		got := cn.have(1)
		l.do(t, &fsm.Ack{Token: got[3].token})
		c.kill(l)
		if r, _ := cn.sent(); len(r) != 1 {
			t.Errorf("redirects %q, want one", r)
		}
		l = c.leader()
		cn2 := newConn()
		s2, err := l.g.Attach(id, cn2)
		must(t, err)
		lost, at, err := s2.Resume(t.Context(), 1, "q", 10, 0, "w", []fsm.Token{got[0].token, got[3].token}, []fsm.Token{got[1].token})
		must(t, err)
		if len(lost) != 1 || lost[0] != got[3].token || at.Index == 0 {
			t.Errorf("lost %v, want the acked one", lost)
		}
		c.until(time.Second, "delivered anew", func() bool { return len(cn2.have(1)) == 1 })
		if d := cn2.have(1)[0]; d.body != "never seen" || d.attempt != 1 {
			t.Errorf("delivered %+v, want the one that was in no list, free", d)
		}
		l.g.mu.Lock()
		sub := s2.subs[1]
		if sub.out != 3 || len(sub.unstarted) != 2 {
			t.Errorf("out %d, unstarted %d; want 3 and 2", sub.out, len(sub.unstarted))
		}
		l.g.mu.Unlock()
		s2.Detach() // held and newly delivered go back, started stays
		c.until(time.Second, "back", func() bool { st := l.stats("q"); return st.Ready == 2 && st.Leased == 1 })
	})
}

// A second connection of a session takes over; the first is told, and nothing is lost or charged.
func TestReplace(t *testing.T) {
	for _, resume := range []bool{true, false} {
		t.Run(fmt.Sprintf("resume=%v", resume), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newCluster(t, 3, nil)
				defer c.stop()
				l := c.leader()
				s, cn, id := l.attach(t)
				must(t, s.Subscribe(1, "q", 10, 0, "w"))
				l.do(t, enqueue("q", "a", "b"))
				got := cn.have(1)
				cn2 := newConn()
				s2, err := l.g.Attach(id, cn2)
				must(t, err)
				if r, _ := cn.sent(); len(r) != 1 || r[0] != RedirectReplaced {
					t.Errorf("redirects %q, want %q", r, RedirectReplaced)
				}
				l.do(t, enqueue("q", "c"))
				if n := len(cn.have(1)) + len(cn2.have(1)); n != 2 {
					t.Errorf("%d delivered, want none before the subscription is resumed", n-2)
				}
				if err := s.Credit(1, 3); err == nil {
					t.Error("the replaced session still works")
				}
				s.Detach() // of the old connection: must not disturb the new one
				want := 1
				if resume {
					lost, _, err := s2.Resume(context.Background(), 1, "q", 10, 0, "w", []fsm.Token{got[0].token}, []fsm.Token{got[1].token})
					must(t, err)
					if len(lost) != 0 {
						t.Errorf("lost %v", lost)
					}
				} else {
					must(t, s2.Subscribe(1, "q", 10, 0, "w")) // what the first had not started is delivered again
					want = 3
				}
				c.until(time.Second, "deliveries", func() bool { return len(cn2.have(1)) == want })
				for _, d := range cn2.have(1) {
					if d.attempt != 1 {
						t.Errorf("delivered %+v, want attempt 1", d)
					}
				}
			})
		})
	}
}

func TestAttachUnknownSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 1, nil)
		defer c.stop()
		if _, err := c.leader().g.Attach(fsm.MakeID(1, 0, 99, 0), newConn()); err == nil || err.Code != CodeSessionExpired {
			t.Errorf("got %v, want session_expired", err)
		}
	})
}

func TestSubscriptionArguments(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 1, nil)
		defer c.stop()
		s, _, _ := c.leader().attach(t)
		long := make([]byte, 300)
		for name, err := range map[string]*Error{
			"queue":    s.Subscribe(1, "no spaces", 1, 0, ""),
			"credit":   s.Subscribe(1, "q", 10_001, 0, ""),
			"negative": s.Subscribe(1, "q", -1, 0, ""),
			"lease":    s.Subscribe(1, "q", 1, 99, ""),
			"worker":   s.Subscribe(1, "q", 1, 0, string(long)),
			"number":   s.Subscribe(0, "q", 1, 0, ""),
			"window":   s.Credit(1, 20_000),
		} {
			if err == nil || err.Code != CodeInvalidArgument || err.Unknown {
				t.Errorf("%s: %v, want invalid_argument", name, err)
			}
		}
		if err := s.Credit(1, 5); err == nil || err.Code != CodeNotFound {
			t.Errorf("credit of no subscription: %v", err)
		}
		if err := s.Unsubscribe(1); err == nil || err.Code != CodeNotFound {
			t.Errorf("unsubscribe of no subscription: %v", err)
		}
	})
}

// C33: idle consumers are served after a change of leader.
func TestConsumersAfterFailover(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		var ids []fsm.ID
		for range 30 {
			s, _, id := l.attach(t)
			must(t, s.Subscribe(1, "q", 50, 0, "w"))
			ids = append(ids, id)
		}
		c.kill(l)
		l = c.leader()
		var conns []*conn
		for _, id := range ids {
			cn := newConn()
			s, err := l.g.Attach(id, cn)
			must(t, err)
			_, _, err = s.Resume(t.Context(), 1, "q", 50, 0, "w", nil, nil)
			must(t, err)
			conns = append(conns, cn)
		}
		for i := range 300 {
			l.do(t, enqueue("q", fmt.Sprint(i)))
		}
		total := 0
		for i, cn := range conns {
			n := len(cn.have(1))
			total += n
			if n != 10 {
				t.Errorf("consumer %d has %d, want 10", i, n)
			}
		}
		if total != 300 {
			t.Errorf("%d delivered, want 300", total)
		}
	})
}
