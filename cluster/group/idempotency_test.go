package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm"
)

// under is an operation with an idempotency key.
func under(key string, op fsm.Op) *fsm.Idempotent {
	return &fsm.Idempotent{IdempotencyKey: fsm.IdempotencyKey{Key: fsm.HashIdempotencyKey([]byte(key)), Print: [16]byte{1}}, Op: op}
}

// leaseUnder is a pull with an idempotency key.
func leaseUnder(key string, s *Session, o Completer, queue string) *Proposal {
	op := under(key, &fsm.Lease{
		Queue: []byte(queue), Consumer: fsm.Consumer{Session: s.id}, Worker: []byte("w"), Max: 1, MaxBytes: fsm.MaxLeaseBytes, LeaseMillis: 3_600_000, Waits: true,
	})
	return &Proposal{Op: fsm.AppendOp(nil, op), Done: o}
}

// Of two pulls of one key that wait, one is given a message. The other is given the same when there would be something for it, and told to ask
// again when its time is over first; a third gets it at once.
func TestPullsOfOneKey(t *testing.T) {
	for _, more := range []bool{false, true} {
		t.Run(fmt.Sprintf("another message comes: %v", more), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newCluster(t, 3, nil)
				defer c.stop()
				l := c.leader()
				s, _, _ := l.attach(t)
				l.do(t, &fsm.CreateQueue{Name: []byte("q")})
				first, second := newOne(), newOne()
				s.Lease(leaseUnder("k", s, first, "q"), "q", fsm.Request{}, 10*time.Second)
				s.Lease(leaseUnder("k", s, second, "q"), "q", fsm.Request{}, 10*time.Second)
				pass(time.Second)
				l.do(t, enqueue("q", "x"))
				a := first.wait(t)
				if len(a.got) != 1 || a.out[0].Replayed {
					t.Fatalf("the first got %+v", a)
				}
				if more {
					l.do(t, enqueue("q", "y"))
				}
				b := second.wait(t)
				switch {
				case more && (b.err != nil || len(b.got) != 1 || b.got[0].token != a.got[0].token || !b.out[0].Replayed):
					t.Errorf("the second got %+v, want what the first got", b)
				case !more && (b.err == nil || b.err.Code != CodeOverloaded || b.err.Unknown || b.err.RetryAfter == 0):
					t.Errorf("the second got %+v, want to be told to ask again", b)
				}
				third := newOne()
				s.Lease(leaseUnder("k", s, third, "q"), "q", fsm.Request{}, time.Hour)
				if x := third.wait(t); len(x.got) != 1 || x.got[0].token != a.got[0].token || !x.out[0].Replayed {
					t.Errorf("the third got %+v, want what the first got", x)
				}
				want := int64(0)
				if more {
					want = 1
				}
				if n := l.stats("q"); n.Ready != want || n.Leased != 1 {
					t.Errorf("%d ready and %d out, want %d and 1", n.Ready, n.Leased, want)
				}
			})
		})
	}
}

// A repeat whose caller has gone gives back nothing: the message is with the first, who may be at work.
func TestRepeatedPullIsNotGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		s, _, _ := l.attach(t)
		l.do(t, enqueue("q", "x"))
		first := newOne()
		s.Lease(leaseUnder("k", s, first, "q"), "q", fsm.Request{}, 0)
		token := first.wait(t).got[0].token
		other, _, _ := l.attach(t)
		again := newOne()
		other.Lease(leaseUnder("k", other, again, "q"), "q", fsm.Request{}, 0)
		other.Detach()
		again.wait(t)
		pass(time.Second)
		l.do(t, &fsm.Ack{Token: token})
	})
}

// What was proposed under a key is done once, whether the leader that was cut off and died had committed it or not (C17).
func TestLeaderKilledUnderKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		op := func(i int) fsm.Op { return under(fmt.Sprint("k", i), enqueue("q", fmt.Sprint(i))) }
		const n = 1000
		ones := make([]*one, n)
		for i := range ones {
			ones[i] = l.send(op(i))
			switch i {
			case n / 4:
				ones[i].wait(t) // some are confirmed for certain
				ones[i] = l.send(op(i))
			case n / 2:
				c.cut(l)
			case n * 3 / 4:
				c.until(time.Second, "deposed", func() bool { return !l.g.Status().Leader })
			}
		}
		c.halt(l)
		l = c.leader()
		confirmed, unknown, fresh := 0, 0, 0
		for i, o := range ones {
			a := o.wait(t)
			again := l.do(t, op(i))
			if !again.out[0].Replayed {
				fresh++
			}
			switch {
			case a.err == nil:
				if confirmed++; again.out[0].ID != a.out[0].ID || !again.out[0].Replayed {
					t.Fatalf("request %d: first %+v, repeated %+v", i, a.out[0], again.out[0])
				}
			case a.err.Unknown:
				unknown++
			case !again.out[0].Replayed: // refused, so it was not done
			default:
				t.Fatalf("request %d was refused (%v), and done", i, a.err)
			}
		}
		if confirmed == 0 || unknown == 0 || fresh == 0 {
			t.Errorf("vacuous: %d confirmed, %d unknown, %d not done before", confirmed, unknown, fresh)
		}
		if got := l.stats("q"); got.Ready != n || got.Enqueued != n {
			t.Errorf("%d messages of %d, want %d", got.Ready, got.Enqueued, n)
		}
		c.agree()
	})
}
