package group

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm"
)

// withinRate fails where deliveries of a queue came faster than its rate allows, by log time.
func withinRate(t *testing.T, ds []delivered, interval time.Duration, burst int) {
	t.Helper()
	at := make([]int64, len(ds))
	for i := range ds {
		at[i] = ds[i].t
	}
	slices.Sort(at)
	for i := range at {
		for j := i; j < len(at); j++ {
			span := time.Duration(at[j]-at[i]) * time.Millisecond
			if n := j - i + 1; n > burst+int(span/interval) {
				t.Fatalf("%d deliveries within %v, want at most %d and one each %v", n, span, burst, interval)
			}
		}
	}
}

// bodies are so many texts.
func bodies(n int) (b []string) {
	for i := range n {
		b = append(b, fmt.Sprint(i))
	}
	return b
}

// Waiting consumers are served when the rate lets them be, by one entry each time; an entry is written for nothing else: not
// where nobody waits, nor where nothing is ready.
func TestRefill(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		s, cn, _ := l.attach(t)
		l.do(t, &fsm.CreateQueue{Name: []byte("q"), Options: fsm.QueueOptions{RateMilli: 10_000, Burst: 2, LeaseMillis: 3_600_000}})
		must(t, s.Subscribe(1, "q", 100, 0, "w"))
		l.do(t, enqueue("q", bodies(22)...))
		began, index := time.Now(), l.g.Raft().LastIndex()
		c.until(5*time.Second, "all delivered", func() bool { return len(cn.have(1)) == 22 })
		if took := time.Since(began); took < 1900*time.Millisecond || took > 2200*time.Millisecond {
			t.Errorf("20 at ten a second took %v", took)
		}
		withinRate(t, cn.have(1), 100*time.Millisecond, 2)
		if grown := l.g.Raft().LastIndex() - index; grown != 20 {
			t.Errorf("%d entries for 20 refills, want one each", grown)
		}
		idle := func(why string) {
			t.Helper()
			index := l.g.Raft().LastIndex()
			pass(time.Minute)
			if grown := l.g.Raft().LastIndex() - index; grown != 0 {
				t.Errorf("%d entries in an idle minute in which %s, want none", grown, why)
			}
		}
		idle("nothing is ready")
		must(t, s.Credit(1, 0))
		l.do(t, enqueue("q", bodies(50)...))
		idle("nobody wants more")
		must(t, s.Credit(1, 23))
		c.until(time.Second, "one more is delivered", func() bool { return len(cn.have(1)) == 23 })
		idle("the window is full")
		l.do(t, &fsm.SetQueue{Name: []byte("q"), Options: fsm.QueueOptions{RateMilli: 1, Burst: 1, Paused: true}})
		must(t, s.Credit(1, 100))
		idle("the queue is paused")

		// A pull waits for its turn as well, and gets what is there when it comes.
		l.do(t, &fsm.SetQueue{Name: []byte("q"), Options: fsm.QueueOptions{RateMilli: 500, Burst: 1}})
		must(t, s.Credit(1, 0))
		o := newOne()
		s.Lease(leaseOp(s, o, "q", 10), "q", fsm.Request{}, time.Minute)
		if a := o.wait(t); len(a.got) != 1 {
			t.Fatalf("the pull got %+v, want one", a)
		}
		began = time.Now()
		o = newOne()
		s.Lease(leaseOp(s, o, "q", 10), "q", fsm.Request{}, time.Minute)
		if a := o.wait(t); len(a.got) != 1 || a.when.Sub(began) < 1800*time.Millisecond || a.when.Sub(began) > 2300*time.Millisecond {
			t.Fatalf("the second pull got %d after %v, want one after two seconds", len(a.got), a.when.Sub(began))
		}
		c.agree()
	})
}

// At most a hundred entries a second are written for refills, however many queues ask; what the rates let out meanwhile comes
// with them.
func TestRefillsAreFew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 1, nil)
		defer c.stop()
		l := c.leader()
		s, cn, _ := l.attach(t)
		const queues = 40
		for i := range queues {
			name := fmt.Sprintf("q%02d", i)
			rate := int64(1_000_000 + i) // one a millisecond, in bursts of 50
			l.do(t, &fsm.CreateQueue{Name: []byte(name), Options: fsm.QueueOptions{RateMilli: rate, Burst: 50, LeaseMillis: 3_600_000}})
			l.do(t, enqueue(name, bodies(1000)...))
		}
		index, began := l.g.Raft().LastIndex(), time.Now()
		for i := range queues {
			must(t, s.Subscribe(uint32(i+1), fmt.Sprintf("q%02d", i), 10_000, 0, "w"))
		}
		all := func() (n int) {
			for i := range queues {
				n += len(cn.have(uint32(i + 1)))
			}
			return n
		}
		c.until(20*time.Second, "all delivered", func() bool { return all() == queues*1000 })
		took := time.Since(began)
		grown := l.g.Raft().LastIndex() - index
		// What does not fit into one entry, 1,024 messages, goes on in the next, which no refill asked for.
		if most := uint64(took/(10*time.Millisecond)) + queues*1000/dealMessages + queues + 10; grown > most {
			t.Errorf("%d entries in %v, want at most %d", grown, took, most)
		}
		if took > 1500*time.Millisecond {
			t.Errorf("a thousand at a thousand a second took %v", took)
		}
		for i := range queues {
			withinRate(t, cn.have(uint32(i+1)), 999*time.Microsecond, 50)
		}
	})
}

// A rate is not passed when the leader changes: what was delivered counts for the next one.
func TestRateOverLeaders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		l.do(t, &fsm.CreateQueue{Name: []byte("q"), Options: fsm.QueueOptions{RateMilli: 50_000, Burst: 5, LeaseMillis: 3_600_000}})
		l.do(t, enqueue("q", bodies(400)...))
		var cs []*conn
		total := func() (n int) {
			for _, cn := range cs {
				n += len(cn.have(1))
			}
			return n
		}
		for round := range 4 {
			l = c.leader()
			for range 8 {
				s, cn, _ := l.attach(t)
				cs = append(cs, cn)
				must(t, s.Subscribe(1, "q", 100, 0, "w"))
			}
			want := min(400, 120*(round+1))
			c.until(20*time.Second, "more delivered", func() bool { return total() >= want })
			if round%2 == 0 {
				if err := l.g.Raft().LeadershipTransfer().Error(); err != nil {
					t.Fatal(err)
				}
			} else if round < 3 {
				c.kill(l)
				c.start(l)
			}
		}
		c.until(20*time.Second, "all delivered", func() bool { return total() == 400 })
		var ds []delivered
		for _, cn := range cs {
			ds = append(ds, cn.have(1)...)
		}
		withinRate(t, ds, 20*time.Millisecond, 5)
		c.agree()
	})
}
