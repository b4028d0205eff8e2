package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm"
)

// roomyConn is a conn that says whether it has room.
type roomyConn struct {
	*conn
	room bool
}

func (c *roomyConn) Room(uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.room
}

func (c *roomyConn) set(room bool) {
	c.mu.Lock()
	c.room = room
	c.mu.Unlock()
}

func onceQueue(t *testing.T, l *node, messages int) {
	t.Helper()
	l.do(t, &fsm.CreateQueue{Name: []byte("q"), Options: fsm.QueueOptions{Delivery: fsm.DeliverAtMostOnce}})
	for i := range messages {
		l.do(t, enqueue("q", fmt.Sprint(i)))
	}
}

func tokensIn(ds []delivered) (ts []fsm.Token) {
	for _, d := range ds {
		ts = append(ts, d.token)
	}
	return ts
}

// What is delivered at most once counts against the window until the worker says that it is done with it, whatever else it says,
// and over a change of connection.
func TestAtMostOnceWindow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		onceQueue(t, l, 30)
		s, cn, id := l.attach(t)
		must(t, s.Subscribe(1, "q", 5, 0, "w"))
		pass(50 * time.Millisecond)
		have := cn.have(1)
		if len(have) != 5 {
			t.Fatalf("%d delivered, want the window of 5", len(have))
		}
		for i, d := range have {
			if d.body != fmt.Sprint(i) || d.attempt != 1 {
				t.Errorf("delivery %d: %+v", i, d)
			}
		}
		ts := tokensIn(have)
		expect := func(what string, n int) {
			t.Helper()
			pass(50 * time.Millisecond)
			if got := len(cn.have(1)); got != n {
				t.Fatalf("%s: %d delivered, want %d", what, got, n)
			}
		}
		l.do(t, &fsm.Ack{Token: ts[0]})
		expect("an ack", 5)
		s.Started(1, ts[:2])
		expect("two are done with", 7)
		s.Started(1, ts[:2])
		s.Started(1, []fsm.Token{{Message: ts[0].Message}})
		expect("said twice, and of nothing", 7)
		must(t, s.Credit(1, 8))
		expect("a wider window", 10)
		must(t, s.Credit(1, 0))
		must(t, s.Settled(t.Context(), 1))
		s.Started(1, ts[2:3])
		expect("paused", 10)

		// On another connection what the worker still has counts, by its word.
		cn2 := newConn()
		s2, err := l.g.Attach(id, cn2)
		must(t, err)
		left := tokensIn(cn.have(1))[4:] // it says so of the fourth now
		lost, _, err := s2.Resume(t.Context(), 1, "q", 8, 0, "w", nil, nil, left...)
		must(t, err)
		pass(50 * time.Millisecond)
		if got := len(cn2.have(1)); got != 2 || len(lost) != 0 {
			t.Fatalf("%d delivered beside 6 of 8, %d lost", got, len(lost))
		}
		// And where it begins anew under another number.
		must(t, s2.Unsubscribe(1))
		must(t, s2.Subscribe(2, "q", 8, 0, "w", left...))
		pass(50 * time.Millisecond)
		if got := len(cn2.have(2)); got != 2 {
			t.Fatalf("%d delivered beside 6 of 8", got)
		}
		s2.Started(2, left)
		pass(50 * time.Millisecond)
		if got := len(cn2.have(2)); got != 8 {
			t.Fatalf("%d delivered, want 8", got)
		}
		c.agree()
	})
}

// A connection without room is given nothing, rather than what would be lost; a pull that came too late is.
func TestAtMostOnceKeepsWhatCannotBeSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		onceQueue(t, l, 3)
		ready := func() (n int) {
			_, err := l.g.Read(t.Context(), false, func(st *fsm.State) {
				q, _ := st.QueueNumber([]byte("q"))
				n = st.Ready(q)
			})
			must(t, err)
			return n
		}
		_, _, id := l.attach(t)
		cn := &roomyConn{conn: newConn()}
		s, err := l.g.Attach(id, cn)
		must(t, err)
		must(t, s.Subscribe(1, "q", 10, 0, "w"))
		pass(time.Second)
		if n := ready(); n != 3 || len(cn.have(1)) != 0 {
			t.Fatalf("%d ready and %d delivered where there was no room", n, len(cn.have(1)))
		}
		cn.set(true)
		pass(time.Second)
		if n := ready(); n != 0 || len(cn.have(1)) != 3 {
			t.Fatalf("%d ready and %d delivered, want all", n, len(cn.have(1)))
		}
		s.Detach()
		l.do(t, enqueue("q", "kept"))
		pass(time.Second)
		if n := ready(); n != 1 {
			t.Fatalf("%d ready where nobody is there", n)
		}
		c.agree()
	})
}
