package group

import (
	"context"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm"
)

func (c *conn) toldCancelled() []fsm.Token {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]fsm.Token(nil), c.cancelled...)
}

func sameTokens(a, b []fsm.Token) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// A worker is told of the cancellation of what it has; the window stays taken until its answer.
func TestCancelOfWhatIsOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		s, cn, id := l.attach(t)
		must(t, s.Subscribe(1, "q", 2, 0, "w"))
		_, other, _ := l.attach(t)
		a := l.do(t, enqueue("q", "a", "b", "c"))
		pass(10 * time.Millisecond)
		got := cn.have(1)
		if len(got) != 2 {
			t.Fatalf("%d delivered, want the window's 2", len(got))
		}
		cancel := func(i int) fsm.Outcome {
			t.Helper()
			return l.do(t, &fsm.Cancel{TaskID: []byte(a.out[i].ID.String())}).out[0]
		}
		if o := cancel(0); o.Count != 1 {
			t.Errorf("cancel: %+v, want it to be out", o)
		}
		pass(10 * time.Millisecond)
		if told := cn.toldCancelled(); !sameTokens(told, []fsm.Token{got[0].token}) {
			t.Errorf("told of %v, want %v", told, got[0].token)
		}
		if told := other.toldCancelled(); len(told) > 0 {
			t.Errorf("another worker is told of %v", told)
		}
		if _, gone := cn.sent(); len(gone) > 0 || len(cn.have(1)) != 2 {
			t.Errorf("gone %v, %d delivered: the lease is live and takes its place", gone, len(cn.have(1)))
		}
		if a := l.send(&fsm.Release{Token: got[0].token}).wait(t); a.err != nil || a.out[0].Code != fsm.Cancelled {
			t.Errorf("release: %+v", a)
		}
		pass(10 * time.Millisecond)
		if len(cn.have(1)) != 3 {
			t.Errorf("%d delivered, want the freed place filled", len(cn.have(1)))
		}

		// Away at the cancellation, it is told when it resumes: of what it lists, started or held.
		third := cn.have(1)[2].token
		s.Started(1, []fsm.Token{got[1].token, third})
		s.Detach()
		cancel(1)
		cancel(2)
		cn2 := newConn()
		s2, err := l.g.Attach(id, cn2)
		must(t, err)
		lost, _, err := s2.Resume(t.Context(), 1, "q", 2, 0, "w", []fsm.Token{got[1].token}, []fsm.Token{third})
		must(t, err)
		if len(lost) > 0 {
			t.Errorf("lost %v: they are live", lost)
		}
		if told := cn2.toldCancelled(); len(told) != 2 {
			t.Errorf("told of %v, want both", told)
		}
		// And what it does not list is given back, which frees it.
		if _, _, err = s2.Resume(t.Context(), 1, "q", 2, 0, "w", []fsm.Token{got[1].token}, nil); err != nil {
			t.Fatal(err)
		}
		c.until(5*time.Second, "its place is not free", func() bool { return l.stats("q").Leased == 1 })
		c.agree()
	})
}

// The end of a cancelled task wakes who waits for it, and so does a purge.
func TestWaitersOfCancelledAndPurged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 1, nil)
		defer c.stop()
		l := c.leader()
		a := l.do(t, enqueue("q", "a", "b"))
		ended := make(chan *Error, 2)
		wait := func(i int) {
			go func() { ended <- l.g.WaitTask(t.Context(), "", []byte(a.out[i].ID.String())) }()
			pass(10 * time.Millisecond)
		}
		wait(0)
		l.do(t, &fsm.Cancel{TaskID: []byte(a.out[0].ID.String())})
		must(t, <-ended)
		must(t, l.g.WaitTask(t.Context(), "", []byte(a.out[0].ID.String()))) // at once now
		wait(1)
		l.do(t, enqueue("other", "x"))
		l.do(t, &fsm.PurgeQueue{Name: []byte("other")})
		pass(10 * time.Millisecond)
		select {
		case err := <-ended:
			t.Fatalf("woken by another queue's purge: %v", err)
		default:
		}
		l.do(t, &fsm.PurgeQueue{Name: []byte("q")})
		must(t, <-ended)
		if err := l.g.WaitTask(t.Context(), "", []byte(a.out[1].ID.String())); err == nil || err.Code != CodeNotFound {
			t.Errorf("after the purge: %v", err)
		}
	})
}

func TestWaitResult(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, func(cfg *Config) { cfg.Limits.ResultWaiters = 3 })
		defer c.stop()
		l := c.leader()
		l.do(t, &fsm.CreateQueue{Name: []byte("q")})
		l.do(t, &fsm.CreateQueue{Name: []byte("p")})
		push := func(queue, task string) {
			t.Helper()
			l.do(t, &fsm.PushResult{Queue: []byte(queue), TaskID: []byte(task)})
		}
		if err := l.g.WaitResult(t.Context(), "none", 0); err == nil || err.Code != CodeNotFound {
			t.Errorf("no such queue: %v", err)
		}
		ends := make(chan *Error, 5)
		wait := func(queue string, after uint64) {
			go func() { ends <- l.g.WaitResult(t.Context(), queue, after) }()
			pass(10 * time.Millisecond)
		}
		still := func(what string) {
			t.Helper()
			pass(10 * time.Millisecond)
			select {
			case err := <-ends:
				t.Fatalf("%s: woken, %v", what, err)
			default:
			}
		}
		wait("q", 0)
		push("p", "a") // position 1
		still("another queue's result")
		push("q", "b") // position 2
		must(t, <-ends)
		must(t, l.g.WaitResult(t.Context(), "q", 1)) // at once
		wait("q", 2)
		still("the last position")
		push("q", "b") // recorded already
		still("a duplicate")
		push("q", "c")
		must(t, <-ends)
		wait("q", 3)
		l.do(t, &fsm.DeleteQueue{Name: []byte("q")})
		must(t, <-ends)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.g.WaitResult(ctx, "p", 1<<60); err == nil || err.Code != CodeTimeout || err.Unknown {
			t.Errorf("time-out: %v", err)
		}
		for range 4 {
			wait("p", 1<<60)
		}
		if err := <-ends; err == nil || err.Code != CodeOverloaded {
			t.Errorf("fourth waiter: %v, want overloaded", err)
		}
		c.cut(l)
		for range 3 {
			if err := <-ends; err == nil || err.Code != CodeNoLeader && err.Code != CodeNotLeader {
				t.Errorf("after leadership: %v", err)
			}
		}
	})
}
