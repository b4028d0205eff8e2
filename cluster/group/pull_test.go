package group

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/fsm"
)

// A pull that waits is not over because something was moved that might have made a message ready for it, or because a
// message came that turned out to be there already: it goes on waiting.
func TestPullOutlastsGuesses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		s, _, _ := l.attach(t)
		hour := fsm.RetryPolicy{Kind: fsm.RetryFixed, InitialMillis: 3_600_000, MaxAttempts: 5}
		l.do(t, &fsm.CreateQueue{Name: []byte("q"), Options: fsm.QueueOptions{LeaseMillis: 1000, Retry: hour}})
		m := fsm.Message{Body: []byte("once"), HasDedup: true, DedupKey: fsm.HashDedup([]byte("k"))}
		m.DedupContent = fsm.HashContent(nil, m.Body)
		once := &fsm.Enqueue{Queue: []byte("q"), Messages: []fsm.Message{m}}
		l.do(t, once)
		first := newOne()
		s.Lease(leaseOp(s, first, "q", 1), "q", fsm.Request{}, 0)
		if a := first.wait(t); len(a.got) != 1 {
			t.Fatalf("got %+v, want the one message", a)
		}
		waiting := newOne()
		s.Lease(leaseOp(s, waiting, "q", 10), "q", fsm.Request{}, time.Minute)
		l.do(t, once)         // a duplicate: stores nothing
		pass(2 * time.Second) // the lease ends; the message waits for its retry
		if n := l.stats("q").Retrying; n != 1 {
			t.Fatalf("%d retrying, want one", n)
		}
		for range 3 { // more of both
			l.do(t, once)
			l.do(t, enqueue("other", "x"))
			pass(100 * time.Millisecond)
		}
		if len(waiting.end) > 0 {
			t.Fatalf("the pull is over: %+v, want it to wait", waiting.wait(t))
		}
		l.do(t, enqueue("q", "real"))
		if a := waiting.wait(t); len(a.got) != 1 || a.got[0].body != "real" {
			t.Fatalf("the pull got %+v, want what was enqueued", a)
		}
	})
}

// What comes back from the dead hands of one consumer goes to those who wait, in turn: another subscription, or a pull, though
// leases for subscriptions ride along with the due moves (C57).
func TestTurnsOfWhatIsDue(t *testing.T) {
	for _, other := range []string{"subscription", "pull"} {
		for _, credit := range []int32{1, 2, 100} {
			t.Run(fmt.Sprintf("%s, credit %d", other, credit), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					c := newCluster(t, 3, nil)
					defer c.stop()
					l := c.leader()
					dead, _, _ := l.attach(t)
					living, cn, _ := l.attach(t)
					at := fsm.RetryPolicy{Kind: fsm.RetryFixed, InitialMillis: 50, MaxAttempts: 100}
					l.do(t, &fsm.CreateQueue{Name: []byte("q"), Options: fsm.QueueOptions{LeaseMillis: 1000, Retry: at}})
					must(t, dead.Subscribe(1, "q", credit, 0, "dead")) // takes all it is given and answers nothing
					l.do(t, enqueue("q", "x"))
					one := newOne()
					if other == "pull" {
						living.Lease(leaseOp(living, one, "q", 1), "q", fsm.Request{}, time.Hour)
					} else {
						must(t, living.Subscribe(1, "q", credit, 0, "living"))
					}
					c.until(5*time.Second, "the living one has it", func() bool {
						return len(one.end) > 0 || len(cn.have(1)) > 0
					})
				})
			})
		}
	}
}

// A pull whose message ends in the very entry that was to lease it goes on waiting, under the same request, until there is another
// message or its time is over.
func TestPullOutlastsItsMessage(t *testing.T) {
	for _, c := range []struct {
		name string
		// lose has a message come and end in the entry that leases it. The proposer is held until what it proposes is there.
		lose func(t *testing.T, l *node)
	}{
		{"purged", func(t *testing.T, l *node) {
			a, b := l.send(enqueue("q", "gone")), l.send(&fsm.PurgeQueue{Name: []byte("q")})
			a.wait(t)
			b.wait(t)
		}},
		{"its queue deleted and made again", func(t *testing.T, l *node) {
			a, b := l.send(enqueue("q", "gone")), l.send(&fsm.DeleteQueue{Name: []byte("q")})
			c := l.send(&fsm.CreateQueue{Name: []byte("q")})
			a.wait(t)
			b.wait(t)
			c.wait(t)
		}},
		{"cancelled", func(t *testing.T, l *node) {
			op := enqueue("q", "gone")
			op.Messages[0].TaskID = []byte("t")
			a, b := l.send(op), l.send(&fsm.Cancel{Queue: []byte("q"), TaskID: []byte("t")})
			a.wait(t)
			b.wait(t)
		}},
		{"expired", nil},
	} {
		for _, end := range []string{"another message", "its time is over"} {
			t.Run(c.name+", then "+end, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					cl := newCluster(t, 3, nil)
					defer cl.stop()
					l := cl.leader()
					s, _, id := l.attach(t)
					l.do(t, &fsm.CreateQueue{Name: []byte("q")})
					hold := func(d time.Duration) {
						l.g.mu.Lock()
						l.g.holdUntil = l.g.clock.Mono() + d
						l.g.mu.Unlock()
					}
					req := fsm.Request{Session: id, Number: 1, Low: 1}
					op := &fsm.Lease{
						Request: req, Queue: []byte("q"), Consumer: fsm.Consumer{Session: id}, Max: 3, MaxBytes: fsm.MaxLeaseBytes, Waits: true,
					}
					pull, began := newOne(), time.Now()
					start := func() { s.Lease(&Proposal{Op: fsm.AppendOp(nil, op), Done: pull}, "q", req, 20*time.Second) }
					if c.lose != nil {
						start()
						hold(100 * time.Millisecond)
						c.lose(t, l)
					} else { // it is there, and its time is over in the entry that was to lease it
						m := enqueue("q", "gone")
						m.Messages[0].TTLMillis = 50
						l.do(t, m)
						hold(200 * time.Millisecond)
						start()
					}
					pass(5 * time.Second)
					if len(pull.end) > 0 {
						t.Fatalf("the pull is over: %+v, want it to wait", pull.wait(t))
					}
					if end == "another message" {
						l.do(t, enqueue("q", "real"))
						if a := pull.wait(t); len(a.got) != 1 || a.got[0].body != "real" {
							t.Fatalf("the pull got %+v, want what was enqueued", a)
						}
						again := newOne() // and the same request has the same answer
						s.Lease(&Proposal{Op: fsm.AppendOp(nil, op), Done: again}, "q", req, time.Minute)
						if a := again.wait(t); len(a.got) != 1 || a.got[0].body != "real" {
							t.Fatalf("the same request got %+v, want its first answer", a)
						}
						return
					}
					if a := pull.wait(t); a.err != nil || len(a.got) != 0 || a.out[0].Code != fsm.OK {
						t.Fatalf("got %+v, want nothing", a)
					}
					if d := time.Since(began); d < 20*time.Second || d > 21*time.Second {
						t.Errorf("it waited for %v, want 20 s", d)
					}
				})
			})
		}
	}
}

// A pull whose wait is ended early is answered at once, with nothing; ended again, or when it has its answer, it stays as it is.
func TestPullEndedEarly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		s, _, _ := l.attach(t)
		l.do(t, &fsm.CreateQueue{Name: []byte("q")})
		waiting, other := newOne(), newOne()
		end := s.Lease(leaseOp(s, waiting, "q", 1), "q", fsm.Request{}, time.Hour)
		s.Lease(leaseOp(s, other, "q", 1), "q", fsm.Request{}, time.Hour)
		pass(time.Second)
		began := time.Now()
		end()
		if a := waiting.wait(t); a.err != nil || len(a.got) != 0 || a.out[0].Code != fsm.OK {
			t.Fatalf("got %+v, want nothing", a)
		}
		if d := time.Since(began); d > time.Second {
			t.Errorf("it was answered %v after its wait had been ended", d)
		}
		end()
		l.do(t, enqueue("q", "x"))
		if a := other.wait(t); len(a.got) != 1 {
			t.Fatalf("the other pull got %+v, want the message", a)
		}
		if len(waiting.end) > 0 {
			t.Errorf("the pull was answered twice: %+v", waiting.wait(t))
		}
	})
}

// A pull whose wait is over while the disk hangs is asked about once, not at each beat, and the beats are no faster for it; when the disk is well it is
// answered, and so is the next one.
func TestExpiredPullIsAskedAboutOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, diskOf := newSlowCluster(t, 1)
		defer c.stop()
		l := c.leader()
		s, _, _ := l.attach(t)
		l.do(t, &fsm.CreateQueue{Name: []byte("q")})
		hang := make(chan struct{})
		diskOf(l).hang.Store(&hang)
		late := newOne()
		l.g.Propose(&Proposal{Op: fsm.AppendOp(nil, enqueue("other", "y")), Done: late}) // so that raft's loop writes
		synctest.Wait()
		pull := newOne()
		s.Lease(leaseOp(s, pull, "q", 1), "q", fsm.Request{}, 10*time.Millisecond)
		pass(20 * time.Millisecond)
		for range 1000 {
			pass(time.Millisecond)
			l.g.reads.mu.Lock()
			asked := 0
			if b := l.g.reads.next; b != nil {
				asked = len(b.later)
			}
			l.g.reads.mu.Unlock()
			if asked > 1 {
				t.Errorf("%d questions wait for the disk", asked)
				break
			}
		}
		if len(pull.end) > 0 {
			t.Error("it is answered, and nobody has confirmed who leads")
		}
		synctest.Wait()
		if next := l.g.beat(); next < beatLeading/2 {
			t.Errorf("the next beat is in %v", next)
		}
		diskOf(l).hang.Store(nil)
		close(hang)
		if a := pull.wait(t); a.err != nil || len(a.got) != 0 {
			t.Errorf("answered %+v, want nothing", a)
		}
		for _, wait := range []time.Duration{0, 50 * time.Millisecond} {
			next := newOne()
			began := time.Now()
			s.Lease(leaseOp(s, next, "q", 1), "q", fsm.Request{}, wait)
			if a := next.wait(t); a.err != nil || len(a.got) != 0 || time.Since(began) > wait+2*beatLeading {
				t.Errorf("answered %+v after %v, want nothing after %v", a, time.Since(began), wait)
			}
		}
		one, two := newOne(), newOne() // the answer to one has the other looked for in time
		began := time.Now()
		s.Lease(leaseOp(s, one, "q", 1), "q", fsm.Request{}, 100*time.Millisecond)
		s.Lease(leaseOp(s, two, "q", 1), "q", fsm.Request{}, 103*time.Millisecond)
		one.wait(t)
		if two.wait(t); time.Since(began) > 103*time.Millisecond+beatLeading/4 {
			t.Errorf("the second of two was answered after %v", time.Since(began))
		}
	})
}
