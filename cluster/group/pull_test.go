package group

import (
	"testing"
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
