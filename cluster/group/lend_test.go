package group

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm"
)

// Where all windows are full, an entry that ends leases hands out as many in their place.
func TestLeaseRidesWithItsCredit(t *testing.T) {
	hour := int64(3_600_000)
	for _, test := range []struct {
		name string
		op   func(fsm.Token) fsm.Op
		rest int // what is not leased by the same entry
	}{
		{"ack", func(k fsm.Token) fsm.Op { return &fsm.Ack{Token: k} }, 0},
		{"ack with a result", func(k fsm.Token) fsm.Op {
			return &fsm.Ack{Token: k, HasResult: true, Result: fsm.Result{Output: []byte("done")}}
		}, 0},
		{"nack", func(k fsm.Token) fsm.Op { return &fsm.Nack{Token: k, DelayMillis: hour} }, 0},
		{"permanent nack", func(k fsm.Token) fsm.Op { return &fsm.Nack{Token: k, Permanent: true} }, 0},
		{"release", func(k fsm.Token) fsm.Op { return &fsm.Release{Token: k} }, 0},
		{"chain, which may be refused", func(k fsm.Token) fsm.Op {
			return &fsm.Ack{Token: k, ThenAutoCreate: true, Then: []fsm.ThenMessage{{Queue: []byte("p")}}}
		}, 1},
		{"ack under a key, which may have been used", func(k fsm.Token) fsm.Op { return under(k.String(), &fsm.Ack{Token: k}) }, 1},
		{"nack under a key", func(k fsm.Token) fsm.Op { return under(k.String(), &fsm.Nack{Token: k, DelayMillis: hour}) }, 1},
		{"release under a key", func(k fsm.Token) fsm.Op { return under(k.String(), &fsm.Release{Token: k}) }, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newCluster(t, 3, nil)
				defer c.stop()
				l := c.leader()
				s, cn, _ := l.attach(t)
				for i := range 40 {
					l.do(t, enqueue("q", fmt.Sprint(i)))
				}
				must(t, s.Subscribe(1, "q", 4, 0, "w"))
				c.until(time.Second, "a full window", func() bool { return len(cn.have(1)) == 4 })
				for i := range 10 {
					pass(10 * time.Millisecond)
					before := cn.have(1)
					a := l.do(t, test.op(before[i].token))
					got := cn.have(1)[len(before):]
					if test.rest > 0 {
						for _, d := range got { // those of the next entry may be here already
							if d.token.Lease.Index() == a.at.Index {
								t.Fatalf("%d leased, one of them on the strength of what may be refused", len(got))
							}
						}
						continue
					}
					if len(got) != 1 || got[0].token.Lease.Index() != a.at.Index {
						t.Fatalf("%d delivered with the answer, %v, want one leased by its entry %d", len(got), got, a.at.Index)
					}
					l.g.audit(t)
				}
			})
		})
	}
}

// Those whose credit comes with an entry are served by turns, in the order in which it comes, behind those who wait already.
func TestLentByTurns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var disk *slowDisk
		c := newCluster(t, 1, func(cfg *Config) {
			disk = &slowDisk{LogStore: cfg.Logs}
			cfg.Logs = disk
		})
		defer c.stop()
		l := c.leader()
		var conns []*conn
		for range 4 {
			s, cn, _ := l.attach(t)
			must(t, s.Subscribe(1, "q", 8, 0, "w"))
			conns = append(conns, cn)
		}
		for range 32 {
			l.do(t, enqueue("q", "x"))
		}
		hang := make(chan struct{})
		disk.hang.Store(&hang)
		first := l.send(&fsm.OpenSession{})
		c.until(time.Second, "in flight", func() bool { n, _ := l.g.intake.size(); return n == 0 && l.g.inFlight.Load() > 0 })
		var all []*one
		all = append(all, l.send(enqueue("q", "a", "b", "c", "d", "e", "f", "g", "h")))
		for i, cn := range conns { // 8, 6, 4 and 2 ends, and 8 messages for them
			for _, d := range cn.have(1)[:8-2*i] {
				all = append(all, l.send(&fsm.Ack{Token: d.token}))
			}
		}
		disk.hang.Store(nil)
		close(hang)
		first.wait(t)
		for _, o := range all {
			o.wait(t)
		}
		for i, cn := range conns {
			if got := len(cn.have(1)) - 8; got != 2 {
				t.Errorf("consumer %d was given %d, want its turn's 2", i, got)
			}
		}
		l.g.audit(t)
	})
}

// handsConn counts what its workers hold, over all connections of their session.
type handsConn struct {
	*conn
	t      testing.TB
	g      *Group
	window int
	hands  map[uint32]map[fsm.Token]struct{}
	lent   *int // deliveries seen while something was lent on
}

func (c *handsConn) Deliver(sub uint32, st *fsm.State, l []fsm.Leased) bool {
	if !c.conn.Deliver(sub, st, l) {
		return false
	}
	if c.hands[sub] == nil {
		c.hands[sub] = map[fsm.Token]struct{}{}
	}
	for i := range l {
		c.hands[sub][l[i].Token] = struct{}{}
	}
	var d fsm.Delivery
	for token := range c.hands[sub] {
		if !st.Lease(token, &d) && !st.LeaseCancelled(token) {
			delete(c.hands[sub], token)
		}
	}
	if n := len(c.hands[sub]); n > c.window {
		c.t.Errorf("the worker of subscription %d holds %d, window %d", sub, n, c.window)
	}
	if c.g.dispatch.lent.count > 0 {
		*c.lent++
	}
	return true
}

// TestWindow has workers with small windows do all that ends leases or fails to, twice and in vain too, while leases run out,
// tasks are cancelled, windows change and leadership moves: nobody is ever handed more than the window allows.
func TestWindow(t *testing.T) {
	seed := *simSeed
	if seed == 0 {
		seed = time.Now().UnixNano()
	}
	for i := range *simRuns {
		seed := seed + int64(i)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) { playWindows(t, seed) })
		})
	}
}

func playWindows(t *testing.T, seed int64) {
	const subs, window, leaseMillis = 4, 5, 1000
	rng := rand.New(rand.NewSource(seed))
	c := newCluster(t, 3, nil)
	defer c.stop()
	var id fsm.ID
	var cn *conn
	var s *Session
	var l *node
	same, lent := 0, 0
	hands := map[uint32]map[fsm.Token]struct{}{}
	begin := func() {
		l = c.leader()
		if id.IsZero() {
			id = l.session(t)
		}
		cn = newConn()
		var err *Error
		s, err = l.g.Attach(id, &handsConn{conn: cn, t: t, g: l.g, window: window, hands: hands, lent: &lent})
		must(t, err)
		for n := range uint32(subs) {
			must(t, s.Subscribe(n+1, "q", window, leaseMillis, "w"))
		}
	}
	begin()
	long := make([]byte, fsm.MaxContentType+1)
	for i := range long {
		long[i] = 'x'
	}
	var running []*one
	for step := range 1500 {
		var known []delivered
		for n := range uint32(subs) {
			got := cn.have(n + 1)
			known = append(known, got[max(0, len(got)-2*window):]...)
		}
		if rng.Intn(3) == 0 || len(known) == 0 {
			m := enqueue("q", "x", "y", "z")
			if rng.Intn(4) == 0 {
				m.Messages[0].TTLMillis = int64(1 + rng.Intn(1500))
			}
			running = append(running, l.send(m))
		}
		for range rng.Intn(6) {
			if len(known) == 0 {
				break
			}
			d := known[rng.Intn(len(known))]
			var op fsm.Op
			switch rng.Intn(12) {
			case 0:
				op = &fsm.Nack{Token: d.token, DelayMillis: int64(rng.Intn(50))}
			case 1:
				op = &fsm.Nack{Token: d.token, DelayMillis: -2} // refused
			case 2:
				op = &fsm.Release{Token: d.token}
			case 3:
				op = &fsm.Ack{Token: d.token, Then: []fsm.ThenMessage{{Queue: []byte("none")}}} // refused
			case 4:
				op = &fsm.Ack{Token: d.token, HasResult: true, Result: fsm.Result{ContentType: long}} // refused
			case 5:
				op = &fsm.Ack{Token: fsm.Token{Message: d.token.Message, Lease: fsm.MakeID(1, 1, 1, 0)}} // stale
			case 6:
				op = &fsm.Cancel{Queue: []byte("q"), TaskID: fsm.AppendID(nil, d.token.Message)}
			case 7:
				op = &fsm.Extend{Token: d.token, LeaseMillis: leaseMillis}
			default:
				op = &fsm.Ack{Token: d.token}
			}
			for range 1 + rng.Intn(2) { // and its repeat
				running = append(running, l.send(op))
			}
		}
		switch rng.Intn(200) {
		case 0:
			pass(leaseMillis * time.Millisecond) // leases run out
		case 1:
			s.Detach()
			begin()
		case 2:
			sub := uint32(1 + rng.Intn(subs))
			if err := s.Credit(sub, int32(rng.Intn(window))); err == nil {
				pass(time.Millisecond)
				_ = s.Credit(sub, window)
			}
		case 3:
			_ = l.g.Raft().LeadershipTransfer().Error()
			pass(time.Second)
			begin()
		case 4:
			_ = s.Unsubscribe(1)
			must(t, s.Subscribe(1, "q", window, leaseMillis, "w"))
		case 5:
			running = append(running, l.send(&fsm.DeleteQueue{Name: []byte("q")}))
		}
		l.g.audit(t)
		if step%3 == 0 {
			pass(time.Duration(rng.Intn(3000)) * time.Microsecond)
			l.g.audit(t)
		}
		if len(running) > 64 {
			for _, o := range running {
				<-o.end
				same++
			}
			running = running[:0]
		}
	}
	for _, o := range running {
		<-o.end
	}
	pass(100 * time.Millisecond)
	l.g.audit(t)
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	if n := l.g.dispatch.lent.count; n != 0 {
		t.Errorf("%d leases are lent on with nothing in flight", n)
	}
	if lent == 0 {
		t.Errorf("nothing was lent on: the test shows nothing")
	}
	t.Logf("%d operations, %d deliveries while something was lent on", same, lent)
}

// The table of what is lent holds each lease once, and only so many that fall together.
func TestLentTable(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewSource(seed))
	var l lent
	sub := &subscription{}
	has := map[fsm.ID]bool{}
	refused := 0
	for range 200_000 {
		id := fsm.MakeID(1, 0, uint64(rng.Intn(100)), uint32(rng.Intn(60)))
		if rng.Intn(2) == 0 {
			if got := l.add(id, sub); got && has[id] {
				t.Fatalf("%v added twice", id)
			} else if got {
				has[id] = true
			} else if !has[id] {
				refused++
			}
		} else {
			l.remove(id)
			delete(has, id)
		}
		if l.count != len(has) || int(sub.lent) != len(has) {
			t.Fatalf("count %d, lent %d, want %d", l.count, sub.lent, len(has))
		}
	}
	for id := range has {
		if l.of(id) != sub {
			t.Fatalf("%v is not found", id)
		}
	}
	if refused > 20_000 {
		t.Errorf("%d of some 100,000 found no room in a table that is 0.7 full: ids are spread badly", refused)
	}
}
