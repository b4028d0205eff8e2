package group

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/quorate/quorate/fsm"
)

// handClock is set by hand.
type handClock struct {
	wall int64
	mono time.Duration
}

func (c *handClock) WallMillis() int64   { return c.wall }
func (c *handClock) Mono() time.Duration { return c.mono }

func (c *handClock) run(d time.Duration) { c.mono += d; c.wall += d.Milliseconds() }

func TestLogTime(t *testing.T) {
	t.Parallel()
	const base = 1_700_000_000_000
	second := time.Second
	for _, test := range []struct {
		name      string
		do        func(c *handClock, l *logTime)
		wantT     int64 // relative to base
		wantShift int64
	}{
		{"a new process jumps to the wall, and says by how much", func(c *handClock, l *logTime) {
			l.applied(base-5000, 1, c.mono, false)
			l.lead()
		}, 0, 5000},
		{"an empty state jumps from zero", func(c *handClock, l *logTime) { l.lead() }, 0, base},
		{"a wall in the past is not jumped to", func(c *handClock, l *logTime) {
			l.applied(base+5000, 1, c.mono, false)
			l.lead()
		}, 5000, 0},
		{"one who saw a live entry goes on by its own clock", func(c *handClock, l *logTime) {
			l.applied(base, 1, c.mono, true)
			c.run(3 * second)
			l.lead()
		}, 3000, 0},
		{"an entry that was applied late does not make T late", func(c *handClock, l *logTime) {
			l.applied(base, 1, c.mono, true)
			c.run(second)
			l.applied(base+100, 1, c.mono, true) // stamped 900 ms ago
			l.lead()
		}, 930, 0},
		{"nor do many, but for 7 %, of which the wall gives 5 back", func(c *handClock, l *logTime) {
			l.applied(base, 1, c.mono, true)
			for i := range int64(40) {
				c.run(100 * time.Millisecond)
				l.applied(base+10*i, 1, c.mono, true)
			}
			l.lead()
			l.stamp()
			c.run(4 * second)
		}, 7920, 0},
		{"one that was applied in time counts anew", func(c *handClock, l *logTime) {
			l.applied(base, 1, c.mono, true)
			c.run(second)
			l.applied(base+990, 1, c.mono, true)
			c.run(second)
			l.applied(base+1000, 1, c.mono, true)
			l.lead()
		}, 1920, 0},
		{"a leader whose T began low is gone on from, and not the one before it", func(c *handClock, l *logTime) {
			l.applied(base, 1, c.mono, true)
			c.run(10 * second)
			l.applied(base+9000, 2, c.mono, true)
			c.run(second)
			l.lead()
		}, 10_050, 0},
		{"nor one that was hours on its way, and looked new", func(c *handClock, l *logTime) {
			l.applied(base, 1, c.mono, true)
			c.run(3600 * second)
			l.applied(base+100, 1, c.mono, true)
			l.applied(base+200, 2, c.mono, false) // of the next leader, under whom nobody has written since
			l.lead()
		}, 3_600_000, 3_599_800},
		{"what a snapshot tells of is old", func(c *handClock, l *logTime) {
			l.applied(base, 1, c.mono, true)
			c.run(10 * second)
			l.applied(base+9000, 0, c.mono, false)
			c.run(second)
			l.lead()
		}, 11_000, 1000},
		{"old entries do not hide how long nobody wrote", func(c *handClock, l *logTime) {
			l.applied(base, 1, c.mono, true)
			c.run(3600 * second)
			l.applied(base+1000, 1, c.mono, false)
			l.applied(base+2000, 2, c.mono, false)
			c.run(second)
			l.lead()
		}, 3_601_000, 3_598_000},
		{"nor to one who has seen no other", func(c *handClock, l *logTime) {
			l.applied(base-3_600_000, 1, c.mono, false)
			c.run(second)
			l.lead()
		}, 1000, 3_601_000},
		{"nor is a wall that is wrong believed because of them", func(c *handClock, l *logTime) {
			l.applied(base, 1, c.mono, true)
			c.run(100 * second)
			c.wall += 3_600_000
			l.applied(base+1000, 2, c.mono, false)
			l.lead()
		}, 105_000, 104_000},
		{"of the same leader they shift by what it is not certain of", func(c *handClock, l *logTime) {
			l.applied(base, 1, c.mono, true)
			c.run(10 * second)
			l.applied(base+8000, 1, c.mono, false) // it lets T run 7 % slow at most
			l.lead()
		}, 10_000, 700},
		{"and one that is live ends that", func(c *handClock, l *logTime) {
			l.applied(base, 1, c.mono, true)
			c.run(10 * second)
			l.applied(base+1000, 2, c.mono, false)
			l.applied(base+9500, 2, c.mono, true)
			l.lead()
		}, 9_500, 0},
		{"an entry counts from when it came", func(c *handClock, l *logTime) {
			l.applied(base, 1, c.mono-10*second, true)
			l.lead()
		}, 9_500, 0},
		{"half an hour under a leader that loses the slew on a slower clock", func(c *handClock, l *logTime) {
			for i := range int64(18_000) {
				l.applied(base+95*i, 1, c.mono, true)
				c.run(102 * time.Millisecond)
			}
			l.lead()
			c.wall = base + 95*18_000
		}, 95*17_999 + 96, 0},
		{"a late entry hides no wait without a leader", func(c *handClock, l *logTime) {
			l.applied(base, 1, c.mono, true)
			c.run(second)
			l.applied(base+900, 1, c.mono, true)
			c.run(10 * second)
			l.lead()
		}, 11_000, 0},
		{"the wall an hour ahead gains 5 %", func(c *handClock, l *logTime) {
			l.applied(base, 1, c.mono, true)
			c.run(10 * second)
			c.wall += 3_600_000
			l.lead()
		}, 10_500, 0},
		{"the wall an hour behind loses 5 %", func(c *handClock, l *logTime) {
			l.applied(base, 1, c.mono, true)
			c.run(10 * second)
			c.wall -= 3_600_000
			l.lead()
		}, 9_500, 0},
		{"a small difference is made up and no more", func(c *handClock, l *logTime) {
			l.applied(base, 1, c.mono, true)
			c.run(10 * second)
			c.wall += 200
			l.lead()
		}, 10_200, 0},
		{"many stamps a millisecond keep the pace", func(c *handClock, l *logTime) {
			l.applied(base, 1, c.mono, true)
			l.lead()
			for range 10_000 {
				c.mono += 100 * time.Microsecond
				c.wall = base + (c.mono - time.Hour).Milliseconds() + 3_600_000
				l.stamp()
			}
		}, 1050, 0},
		{"stamps before their apply do not slow time down", func(c *handClock, l *logTime) {
			l.applied(base, 1, c.mono, true)
			l.lead()
			for i := range 100 {
				c.run(10 * time.Millisecond)
				at, _ := l.stamp()
				if i%2 == 0 {
					l.applied(at-50, 1, c.mono, true) // an earlier entry, applied late
				}
			}
		}, 1000, 0},
		{"only the first stamp of a leader jumps", func(c *handClock, l *logTime) {
			l.lead()
			at, _ := l.stamp()
			l.applied(at, 1, c.mono, true)
			c.run(second)
			c.wall += 3_600_000
		}, 1050, 0},
		{"a jump that raft has refused is said again, and not made again", func(c *handClock, l *logTime) {
			l.applied(base-9000, 1, c.mono, false)
			l.lead()
			l.stamp()
			l.stamp()
			c.run(second)
			c.wall += 3_600_000
		}, 1050, 9000},
		{"a jump that was lost with its entry is made again", func(c *handClock, l *logTime) {
			l.applied(base-9000, 1, c.mono, false)
			l.lead()
			l.stamp()
			l.follow()
			c.run(second)
			l.lead()
		}, 1000, 10_000},
		{"a follower's estimate", func(c *handClock, l *logTime) {
			l.applied(base, 1, c.mono, true)
			c.run(2 * second)
		}, 2000, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &handClock{wall: base, mono: time.Hour}
			l := &logTime{clock: c}
			test.do(c, l)
			if at, shift := l.now(); at-base != test.wantT || shift != test.wantShift {
				t.Errorf("T is base%+d with shift %d, want base%+d and %d", at-base, shift, test.wantT, test.wantShift)
			}
		})
	}
}

// T never falls, whatever wall clocks do, and lags real time by 5 % at most.
func TestLogTimeUnderClockFaults(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		began := time.Now()
		var first, last int64
		jumps := []int64{3_600_000, -3_600_000, 0, 7_200_000, -100_000}
		for i := range 50 {
			l := c.leader()
			a := l.do(t, enqueue("q", "x"))
			if first == 0 {
				first, began = a.at.Time, time.Now()
			}
			if a.at.Time < last {
				t.Fatalf("T fell from %d to %d", last, a.at.Time)
			}
			last = a.at.Time
			c.nodes[i%3].clock.offset.Store(jumps[i%len(jumps)])
			if i%10 == 9 {
				c.cut(l)
				c.until(5*time.Second, "deposed", func() bool { return !l.g.Status().Leader })
				fresh := c.leader()
				c.join(l)
				c.until(5*time.Second, "caught up", func() bool { return l.g.Status().Applied >= fresh.g.Status().Applied })
			}
			pass(300 * time.Millisecond)
		}
		real, got := time.Since(began).Milliseconds(), last-first
		if got > real*106/100 || got < real*80/100-3000 {
			t.Errorf("T went %d ms in %d ms of real time", got, real)
		}
	})
}

// C25, G13: no lease ends early, whatever the wall clocks and the leaders do.
func TestLeasesUnderWallJumps(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		s, cn, _ := l.attach(t)
		must(t, s.Subscribe(1, "q", 10, 2000, "w"))
		l.do(t, enqueue("q", "a"))
		leased := time.Now()
		if len(cn.have(1)) != 1 {
			t.Fatal("not delivered")
		}
		for _, nd := range c.nodes {
			nd.clock.offset.Store(3_600_000)
		}
		pass(500 * time.Millisecond)
		c.kill(l)
		l = c.leader()
		c.until(10*time.Second, "the lease runs out without anybody asking (C29)", func() bool { return l.stats("q").Leased == 0 })
		if took := time.Since(leased); took < 2000*94/100*time.Millisecond-50*time.Millisecond || took > 4*time.Second {
			t.Errorf("the lease of 2 s lasted %v", took)
		}
	})
}

// A due message is delivered within 100 ms on an idle cluster, and an idle cluster writes nothing.
func TestDueOnAnIdleCluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		s, cn, _ := l.attach(t)
		must(t, s.Subscribe(1, "q", 10, 0, "w"))
		l.do(t, &fsm.CreateQueue{Name: []byte("q")})
		pass(time.Second)
		before := l.g.Raft().LastIndex()
		pass(time.Minute)
		if got := l.g.Raft().LastIndex(); got != before {
			t.Errorf("%d entries written while idle", got-before)
		}
		for _, delay := range []int64{1, 37, 1000, 61_000} {
			have := len(cn.have(1))
			op := enqueue("q", fmt.Sprint(delay))
			op.Messages[0].DelayMillis = delay
			began := time.Now()
			l.do(t, op)
			c.until(2*time.Minute, "due", func() bool { return len(cn.have(1)) > have })
			took := time.Since(began) - time.Duration(delay)*time.Millisecond
			if took < 0 || took > 100*time.Millisecond {
				t.Errorf("delay %d ms: delivered %v after it was due", delay, took)
			}
			l.do(t, &fsm.Ack{Token: cn.have(1)[have].token})
		}
		grown := l.g.Raft().LastIndex() - before
		if grown != 4*3 { // enqueue, tick with the lease, ack
			t.Errorf("%d entries for four delayed messages, want the leases to ride along with what is due", grown)
		}
		l.do(t, enqueue("q", "never acked"))
		c.until(time.Minute, "the lease runs out and the worker is told", func() bool { _, gone := cn.sent(); return len(gone) == 1 })
	})
}

// With nobody asking for anything, leases end within a second of their deadline, on an idle cluster: their messages are ready again, and dead
// after the last attempt. (C29)
func TestLeasesEndUnasked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		id := l.session(t)
		op := enqueue("q", "a", "b", "c", "d", "e")
		for i := range op.Messages {
			op.Messages[i].Retry = fsm.RetryPolicy{Kind: fsm.RetryFixed, InitialMillis: 10, MaxAttempts: 2}
		}
		l.do(t, op)
		const lease = 5000 * time.Millisecond
		for _, end := range []struct {
			name string
			is   func(s fsm.QueueStats) bool
		}{
			{"ready again", func(s fsm.QueueStats) bool { return s.Ready == 5 && s.Leased == 0 && s.Retrying == 0 }},
			{"dead", func(s fsm.QueueStats) bool { return s.Dead == 5 && s.Leased == 0 && s.Retrying == 0 }},
		} {
			a := l.do(t, &fsm.Lease{Queue: []byte("q"), Consumer: fsm.Consumer{Session: id}, Max: 5, LeaseMillis: lease.Milliseconds()})
			if len(a.got) != 5 {
				t.Fatalf("%d leased, want 5", len(a.got))
			}
			began := time.Now()
			c.until(2*lease, "the leases end", func() bool { return end.is(l.stats("q")) })
			if took := time.Since(began); took < lease*94/100 || took > lease+time.Second {
				t.Errorf("%s after %v, want a lease of %v and a second at most", end.name, took, lease)
			}
		}
	})
}

// Many due at once: ticks follow each other until all have moved.
func TestManyDue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 1, nil)
		defer c.stop()
		l := c.leader()
		for range 10 {
			op := enqueue("q", make([]string, 1000)...)
			for i := range op.Messages {
				op.Messages[i].DelayMillis = 1000
			}
			l.do(t, op)
		}
		began := time.Now()
		c.until(5*time.Second, "all ready", func() bool { return l.stats("q").Ready == 10_000 })
		if took := time.Since(began); took > 1200*time.Millisecond {
			t.Errorf("took %v, want little more than the delay", took)
		}
	})
}

// What is due together is moved and leased by one entry, as far as there is credit for it; a queue that is paused gets no leases.
func TestDueTogetherIsLeasedAtOnce(t *testing.T) {
	for _, c := range []struct {
		name    string
		options fsm.QueueOptions
		due     int
		credit  int32
		want    int    // delivered
		entries uint64 // that are written for it
	}{
		{"all of them", fsm.QueueOptions{}, 400, 1000, 400, 1},
		{"as many as there is credit for", fsm.QueueOptions{}, 400, 150, 150, 1},
		{"one of a queue in order", fsm.QueueOptions{Ordering: fsm.OrderFIFO}, 400, 1000, 1, 1},
		{"none of a paused queue", fsm.QueueOptions{Paused: true}, 400, 1000, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				cl := newCluster(t, 3, nil)
				defer cl.stop()
				l := cl.leader()
				l.do(t, &fsm.CreateQueue{Name: []byte("q"), Options: c.options})
				s, cn, _ := l.attach(t)
				must(t, s.Subscribe(1, "q", c.credit, 0, "w"))
				op := enqueue("q", make([]string, c.due)...)
				for i := range op.Messages {
					op.Messages[i].DelayMillis = 5000
				}
				l.do(t, op)
				pass(time.Second)
				before := l.g.Raft().LastIndex()
				pass(6 * time.Second)
				if got := l.g.Raft().LastIndex() - before; len(cn.have(1)) != c.want || got != c.entries {
					t.Errorf("%d delivered with %d entries, want %d with %d", len(cn.have(1)), got, c.want, c.entries)
				}
				l.g.audit(t)
			})
		})
	}
}

// G3, G13: a lease outlasts an outage, also where raft refuses the entry that was to say how long it was, and takes the next. (C25)
func TestJumpOfARefusedEntry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var deaf atomic.Bool
		end := make(chan struct{})
		c := newCluster(t, 3, func(cfg *Config) {
			cfg.Transport = &deafTransport{InmemTransport: cfg.Transport.(*raft.InmemTransport), deaf: &deaf, end: end}
		})
		defer c.stop()
		l := c.leader()
		id := l.session(t)
		l.do(t, enqueue("q", "a"))
		a := l.do(t, &fsm.Lease{Queue: []byte("q"), Consumer: fsm.Consumer{Session: id}, Max: 1, LeaseMillis: (31 * time.Minute).Milliseconds()}) // nothing is due when they are back
		for _, nd := range c.nodes {
			c.halt(nd)
		}
		pass(30 * time.Minute)
		for _, nd := range c.nodes {
			c.start(nd)
		}
		l = c.leader()
		deaf.Store(true)
		transfer := l.g.Raft().LeadershipTransfer()
		pass(50 * time.Millisecond)
		for range 3 {
			if a := l.send(enqueue("q", "refused")).wait(t); a.err == nil || a.err.Unknown {
				t.Fatalf("a proposal during a transfer: %+v, want it refused", a.err)
			}
			pass(50 * time.Millisecond)
		}
		close(end)
		if transfer.Error() == nil {
			t.Error("the transfer has succeeded, want it to fail")
		}
		pass(time.Second)
		before := l.g.Raft().LastIndex()
		b := l.do(t, enqueue("q", "taken"))
		if b.at.Index != before+1 || b.at.Index > a.at.Index+10 {
			t.Fatalf("entry %d after %d, and %d of the lease: want no command between", b.at.Index, before, a.at.Index)
		}
		if gone := b.at.Time - a.at.Time; gone < (30 * time.Minute).Milliseconds() {
			t.Errorf("T has gone on by %d ms, want the half hour that the outage took", gone)
		}
		pass(2 * time.Minute)
		if n := l.stats("q").Leased; n != 1 {
			t.Errorf("%d leases live 2 minutes later, want the one of 31 minutes", n)
		}
	})
}

// G13: a node that is given old entries after a time in which nobody wrote, and then leads, does not take them for new: T goes on from where
// the clocks have come to meanwhile, and leases are prolonged by what it jumps.
func TestOldEntriesBeforeLeading(t *testing.T) {
	const idle = time.Minute
	for _, test := range []struct {
		name string
		away func(t *testing.T, c *cluster, nd *node) // until the node's return it is away
		back func(c *cluster, nd *node)
		same bool // it knows from before how far T has come at least, and that part prolongs no lease
	}{
		{"started again", func(_ *testing.T, c *cluster, nd *node) { c.halt(nd) }, (*cluster).start, false},
		{"emptied", func(_ *testing.T, c *cluster, nd *node) {
			c.halt(nd)
			nd.stable = raft.NewInmemStore()
			nd.logs = nd.stable
		}, (*cluster).start, false},
		{"given a snapshot", func(t *testing.T, c *cluster, nd *node) {
			c.halt(nd)
			l := c.leader()
			for range 1100 { // more than the log keeps behind a snapshot
				l.do(t, enqueue("q", "b"))
			}
			check(t, l.g.Raft().Snapshot().Error())
		}, (*cluster).start, false},
		{"cut off", func(_ *testing.T, c *cluster, nd *node) { c.cut(nd) }, (*cluster).join, true},
		{"cut off, and another leads", func(t *testing.T, c *cluster, nd *node) {
			c.cut(nd)
			to := c.followers()[0]
			if to == nd {
				to = c.followers()[1]
			}
			check(t, c.leader().g.Raft().LeadershipTransferToServer(to.id, to.addr).Error())
		}, (*cluster).join, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newCluster(t, 3, nil)
				defer c.stop()
				for range 20 {
					c.leader().do(t, enqueue("q", "a"))
				}
				nd := c.followers()[0]
				test.away(t, c, nd)
				var l *node
				c.until(10*time.Second, "another node leads", func() bool { l = c.leader(); return l != nd })
				id := l.session(t)
				l.do(t, &fsm.Lease{Queue: []byte("q"), Consumer: fsm.Consumer{Session: id}, Max: 1, LeaseMillis: (idle + 30*time.Second).Milliseconds()})
				pass(idle)
				test.back(c, nd)
				c.until(2*time.Minute, "it has what there is", func() bool { return nd.g.Status().Applied >= c.leader().g.Status().Applied })
				c.until(10*time.Second, "it leads", func() bool {
					if l := c.leader(); l != nd {
						_ = l.g.Raft().LeadershipTransferToServer(nd.id, nd.addr).Error()
					}
					return nd.g.Status().Leader
				})
				at := nd.do(t, enqueue("q", "c")).at.Time
				if behind := time.Now().UnixMilli() - at; behind > 2000 || behind < -2000 {
					t.Errorf("T is %d ms behind the wall clocks", behind)
				}
				pass(45 * time.Second)
				if n := nd.stats("q").Leased; n != 1 && !test.same {
					t.Errorf("%d leases live, want the one that had half a minute more to go than nobody wrote", n)
				}
			})
		})
	}
}
