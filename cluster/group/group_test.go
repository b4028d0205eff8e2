package group

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/quorate/quorate/fsm"
)

func TestConfirmedOnAllNodes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		if got := l.g.Cluster(); got != testCluster16 {
			t.Errorf("cluster id %q, want %q", got, testCluster16)
		}
		seen := map[fsm.ID]bool{}
		for i := range 20 {
			a := l.do(t, enqueue("q", fmt.Sprint(i), "second"))
			if len(a.out) != 2 || a.at.Index == 0 || a.at.Time == 0 {
				t.Fatalf("answer %+v, want two outcomes and a stamp", a)
			}
			for _, o := range a.out {
				if seen[o.ID] || o.ID.Index() != a.at.Index {
					t.Fatalf("id %v at index %d: used before, or of another entry", o.ID, a.at.Index)
				}
				seen[o.ID] = true
			}
		}
		if got := l.stats("q").Ready; got != 40 {
			t.Errorf("%d ready, want 40", got)
		}
		c.agree()
	})
}

// Outcomes of operations that shared entries reach their own callers, in order.
func TestManyProposalsShareEntries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		before := l.g.Raft().LastIndex()
		const n = 5000
		ones := make([]*one, n)
		ps := make([]*Proposal, n)
		for i := range ps {
			ones[i] = newOne()
			ps[i] = &Proposal{Op: fsm.AppendOp(nil, enqueue("q", fmt.Sprintf("%0100d", i))), Done: ones[i]}
		}
		l.g.Propose(ps...)
		var last fsm.ID
		for i, o := range ones {
			a := o.wait(t)
			if a.err != nil || len(a.out) != 1 {
				t.Fatalf("proposal %d: %+v", i, a)
			}
			if a.out[0].ID.Compare(last) <= 0 {
				t.Fatalf("proposal %d has id %v, not after %v", i, a.out[0].ID, last)
			}
			last = a.out[0].ID
		}
		if got := l.g.Raft().LastIndex() - before; got > n/50 {
			t.Errorf("%d entries for %d operations, want them packed", got, n)
		}
	})
}

func TestFollowerNamesTheLeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l, f := c.leader(), c.followers()[0]
		a := f.send(enqueue("q", "x")).wait(t)
		if a.err == nil || a.err.Code != CodeNotLeader || a.err.Leader != "client-of-"+string(l.id) || a.err.Unknown {
			t.Errorf("proposal: %+v, want not_leader with the leader's address", a.err)
		}
		if _, err := f.g.Attach(fsm.ID{Hi: 1}, newConn()); err == nil || err.Code != CodeNotLeader {
			t.Errorf("attach: %v, want not_leader", err)
		}
		if _, err := f.g.Read(t.Context(), false, func(*fsm.State) {}); err == nil || err.Code != CodeNotLeader {
			t.Errorf("read: %v, want not_leader", err)
		}
		ran := false
		if _, err := f.g.Read(t.Context(), true, func(*fsm.State) { ran = true }); err != nil || !ran {
			t.Errorf("stale read: %v, ran %v", err, ran)
		}
		if age := f.g.AgeMillis(); age < 0 || age > 1000 {
			t.Errorf("age %d ms, want the time since the last heartbeat", age)
		}
	})
}

// An operation that the log cannot carry reaches nobody's log, and those beside it are not disturbed.
func TestBadEncodingIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		good := fsm.AppendOp(nil, enqueue("q", "x"))
		for name, bad := range map[string][]byte{
			"empty":     {},
			"unknown":   {250},
			"cut":       good[:len(good)-1],
			"two":       append(append([]byte(nil), good...), good...),
			"trailing":  append(append([]byte(nil), good...), 0),
			"not an op": []byte("hello"),
		} {
			o1, o2, o3 := newOne(), newOne(), newOne()
			l.g.Propose(&Proposal{Op: good, Done: o1}, &Proposal{Op: bad, Done: o2}, &Proposal{Op: good, Done: o3})
			if a := o2.wait(t); a.err == nil || a.err.Code != CodeInternal || a.err.Unknown {
				t.Errorf("%s: %+v, want a refusal", name, a.err)
			}
			if a, b := o1.wait(t), o3.wait(t); a.err != nil || b.err != nil {
				t.Errorf("%s: neighbours got %v and %v", name, a.err, b.err)
			}
		}
		c.agree()
	})
}

func TestOverloadIsRefusedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, func(cfg *Config) { cfg.Limits.Queued, cfg.Limits.QueuedBytes = 10, 1<<20 })
		defer c.stop()
		l := c.leader()
		for _, f := range c.followers() { // nothing commits, so the flights fill and then the queue
			c.cut(f)
		}
		var refused, other int
		ones := make([]*one, 0, 100)
		for range 100 {
			ones = append(ones, l.send(enqueue("q", "x")))
		}
		for _, o := range ones {
			switch a := o.wait(t); {
			case a.err != nil && a.err.Code == CodeOverloaded && !a.err.Unknown:
				refused++
			default:
				other++
			}
		}
		if refused < 10 { // eight entries of at most what the queue holds, and the queue once more
			t.Errorf("%d refused, %d not; want 10 refused at least", refused, other)
		}
		for _, f := range c.nodes {
			c.join(f)
		}
		c.leader().do(t, enqueue("q", "x"))
	})
}

// C18: without a majority every call ends by its deadline, refused or unknown, and nothing piles up.
func TestNoQuorum(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		var tags []string
		for _, f := range c.followers() {
			c.cut(f)
		}
		began := time.Now()
		for i := range 1000 {
			o := newOne()
			deadline := l.clock.Mono() + time.Second
			l.g.Propose(&Proposal{Op: fsm.AppendOp(nil, enqueue("q", fmt.Sprint(i))), Done: o, Deadline: deadline})
			a := o.wait(t)
			if a.err == nil {
				t.Fatalf("call %d was confirmed without a majority", i)
			}
			if i < 3 {
				tags = append(tags, a.err.Error())
			}
			if took := a.when.Sub(began); took > 2*time.Second+time.Duration(i)*time.Second {
				t.Fatalf("call %d took %v", i, took)
			}
		}
		t.Logf("first answers: %q", tags)
		pass(60 * time.Second)
		if n, b := l.g.intake.size(); n != 0 || b != 0 || l.g.inFlight.Load() != 0 || l.g.inFlightBytes.Load() != 0 {
			t.Errorf("left behind: %d queued, %d in flight of %d bytes", n, l.g.inFlight.Load(), l.g.inFlightBytes.Load())
		}
		for _, nd := range c.nodes {
			c.join(nd)
		}
		healed := time.Now()
		c.leader().do(t, enqueue("q", "after"))
		if took := time.Since(healed); took > 5*time.Second {
			t.Errorf("service is back after %v, want 5 s at most", took)
		}
		c.agree()
	})
}

// C17, C19: a leader that is cut off gives no leases and confirms nothing; what it had proposed is unknown.
func TestDeposedLeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		old := c.leader()
		old.do(t, enqueue("q", "a", "b"))
		s, cn, _ := old.attach(t)
		c.cut(old)
		enq := old.send(enqueue("q", "c")) // first: behind an entry with leases it might not be proposed at all
		must(t, s.Subscribe(1, "q", 10, 0, "w"))
		pull := newOne()
		s.Lease(leaseOp(s, pull, "q", 1), "q", fsm.Request{}, time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if lost, _, err := s.Resume(ctx, 1, "q", 10, 0, "w", nil, nil); err == nil {
			t.Errorf("a cut-off leader has told a worker which of its leases live, all but %v", lost)
		}
		if _, err := old.g.Read(ctx, false, func(*fsm.State) {}); err == nil {
			t.Error("a cut-off leader has served a linearizable read")
		}
		if a := enq.wait(t); a.err == nil || !a.err.Unknown || a.err.Code != CodeTimeout {
			t.Errorf("enqueue: %+v, want unknown", a.err)
		}
		if a := pull.wait(t); a.err == nil || len(a.got) > 0 {
			t.Errorf("pull: %+v, want an error", a)
		}
		if got := cn.have(1); len(got) > 0 {
			t.Errorf("delivered %+v by a deposed leader", got)
		}
		c.until(time.Second, "one redirect", func() bool { r, _ := cn.sent(); return len(r) == 1 })
		if err := s.Credit(1, 5); err == nil {
			t.Error("the session still works")
		}
		fresh := c.leader()
		if fresh == old {
			t.Fatal("still the old leader")
		}
		fs, fc, _ := fresh.attach(t)
		must(t, fs.Subscribe(1, "q", 10, 0, "w"))
		c.until(time.Second, "deliveries by the new leader", func() bool { return len(fc.have(1)) == 2 })
		c.join(old)
		c.until(10*time.Second, "the old leader has not caught up", func() bool {
			return old.g.Status().Applied >= fresh.g.Status().Applied
		})
		c.agree()
	})
}

func leaseOp(s *Session, o Completer, queue string, max int32) *Proposal {
	op := &fsm.Lease{
		Queue: []byte(queue), Consumer: fsm.Consumer{Session: s.id}, Worker: []byte("w"), Max: max, MaxBytes: fsm.MaxLeaseBytes,
		Waits: true,
	}
	return &Proposal{Op: fsm.AppendOp(nil, op), Done: o}
}

// A request repeated at the new leader gets its first answer, whether the old one had committed it or not (C17).
func TestLeaderKilledUnderLoad(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		session := l.session(t)
		op := func(i int) *fsm.Enqueue {
			e := enqueue("q", fmt.Sprint(i))
			e.Request = fsm.Request{Session: session, Number: uint64(i + 1), Low: 1}
			return e
		}
		const n = 2000
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
		confirmed, unknown, refused := 0, 0, 0
		for i, o := range ones {
			a := o.wait(t)
			switch {
			case a.err == nil:
				confirmed++
			case a.err.Unknown:
				unknown++
			default:
				refused++
			}
			again := l.do(t, op(i))
			if a.err == nil && again.out[0].ID != a.out[0].ID {
				t.Fatalf("request %d: first %+v, repeated %+v", i, a.out[0], again.out[0])
			}
			select {
			case second := <-o.end:
				t.Fatalf("request %d was completed twice: %+v then %+v", i, a, second)
			default:
			}
		}
		t.Logf("%d confirmed, %d unknown, %d refused", confirmed, unknown, refused)
		if confirmed == 0 || unknown == 0 || refused == 0 {
			t.Errorf("vacuous: %d confirmed, %d unknown, %d refused", confirmed, unknown, refused)
		}
		if got := l.stats("q").Ready; got != n {
			t.Errorf("%d messages, want %d", got, n)
		}
		c.agree()
	})
}

// Stop hands leadership away: the others go on without an election's wait.
func TestStopHandsLeadershipAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		_, cn, _ := l.attach(t)
		began := time.Now()
		c.halt(l)
		c.leader()
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("new leader after %v, want a transfer", took)
		}
		if r, _ := cn.sent(); len(r) != 1 || r[0] != RedirectStopping {
			t.Errorf("redirects %q, want %q", r, RedirectStopping)
		}
		if a := l.send(enqueue("q", "x")).wait(t); a.err == nil || a.err.Unknown {
			t.Errorf("proposal after stop: %+v", a.err)
		}
		if _, err := l.g.Read(t.Context(), true, func(*fsm.State) {}); err == nil {
			t.Error("stale read after stop succeeded")
		}
	})
}

// Restart of all nodes on their stores: nothing is lost, and log time jumps by the outage without costing a lease.
func TestRestartAll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		l.do(t, enqueue("q", "a", "b", "c"))
		s, _, _ := l.attach(t)
		o := newOne()
		s.Lease(leaseOp(s, o, "q", 1), "q", fsm.Request{}, 0)
		token := o.wait(t).got[0].token
		before := l.stats("q")
		for _, nd := range c.nodes {
			c.halt(nd)
		}
		pass(time.Hour)
		for _, nd := range c.nodes {
			c.start(nd)
		}
		l = c.leader()
		if got := l.stats("q"); got.Ready != before.Ready || got.Leased != 1 {
			t.Errorf("after the outage: %d ready, %d leased; want %d and 1", got.Ready, got.Leased, before.Ready)
		}
		a := l.do(t, &fsm.Ack{Token: token})
		if behind := time.Now().UnixMilli() - a.at.Time; behind > 1000 || behind < -1000 {
			t.Errorf("log time is %d ms behind the wall, want the jump", behind)
		}
		c.agree()
	})
}

func TestNewRefusesIncompleteConfig(t *testing.T) {
	t.Parallel()
	_, err := New(Config{LocalID: "x"})
	if err == nil || err.Error() != "group config: Clock is missing" {
		t.Errorf("got %v", err)
	}
	store := raft.NewInmemStore()
	_, tr := raft.NewInmemTransport("a")
	cfg := Config{
		LocalID: "x", Clock: &nodeClock{}, Logs: store, Stable: store, Snapshots: raft.NewInmemSnapshotStore(), Transport: tr,
		Fatal: func(error) {},
	}
	cfg.Limits.InFlight = 1000
	if _, err := New(cfg); err == nil {
		t.Error("1000 in flight accepted")
	}
}
