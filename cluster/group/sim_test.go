package group

import (
	"context"
	"flag"
	"fmt"
	"math/rand"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm"
)

var (
	simSeed = flag.Int64("sim.seed", 0, "seed of the simulation; 0: a new one each time")
	simRuns = flag.Int("sim.runs", 2, "simulations to run")
)

// sim is a cluster with producers and workers that behave as the SDK does, while nodes are cut off, killed, restarted,
// stopped, made to hand over, and given wrong clocks.
type sim struct {
	*cluster
	groups []atomic.Pointer[Group] // nil: down

	mu        sync.Mutex
	confirmed map[fsm.ID]string
	acked     map[fsm.ID]int
	faults    map[string]int
	lost      int // leases that a resume or an ack found lost
	stop      atomic.Bool
}

func (s *sim) group(rng *rand.Rand) *Group {
	g := s.groups[rng.Intn(len(s.groups))].Load()
	if g == nil || !g.Status().Leader {
		return nil
	}
	return g
}

// call proposes one operation to whoever leads until it is certain how it ended.
func (s *sim) call(rng *rand.Rand, op fsm.Op) answer {
	for {
		g := s.group(rng)
		if g == nil {
			pass(5 * time.Millisecond)
			continue
		}
		o := newOne()
		g.Propose(&Proposal{Op: fsm.AppendOp(nil, op), Done: o, Deadline: g.clock.Mono() + 2*time.Second})
		a := <-o.end
		if a.err == nil {
			return a
		}
		pass(time.Duration(5+rng.Intn(20)) * time.Millisecond)
	}
}

func (s *sim) session(rng *rand.Rand) fsm.ID {
	return s.call(rng, &fsm.OpenSession{}).out[0].ID
}

func (s *sim) produce(rng *rand.Rand, name string) {
	id := s.session(rng)
	for n := uint64(1); !s.stop.Load(); n++ {
		op := enqueue("q", fmt.Sprintf("%s-%d", name, n))
		if rng.Intn(20) == 0 {
			op.Messages[0].DelayMillis = int64(rng.Intn(3000))
		}
		op.Request = fsm.Request{Session: id, Number: n, Low: n}
		a := s.call(rng, op)
		if a.out[0].Code != fsm.OK {
			s.t.Errorf("enqueue: %+v", a.out[0])
			return
		}
		s.mu.Lock()
		s.confirmed[a.out[0].ID] = string(op.Messages[0].Body)
		s.mu.Unlock()
		pass(time.Duration(rng.Intn(4000)) * time.Microsecond)
	}
}

// simConn is a worker's connection with room for its window.
type simConn struct {
	mu    sync.Mutex
	got   []delivered
	dead  bool
	limit int
	kick  chan struct{}
}

func (c *simConn) Deliver(_ uint32, st *fsm.State, l []fsm.Leased) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead || len(c.got)+len(l) > c.limit {
		return false
	}
	for _, one := range l {
		c.got = append(c.got, readDelivery(st, one))
	}
	return true
}

func (c *simConn) LeaseGone(uint32, []fsm.Token) {}

func (c *simConn) LeaseCancelled(uint32, []fsm.Token) {}

func (c *simConn) Redirect(string, string) {
	c.mu.Lock()
	c.dead = true
	c.mu.Unlock()
}

func (c *simConn) Flush() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

func (c *simConn) take() (got []delivered, dead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	got, c.got = c.got, nil
	return got, c.dead
}

func tokens(ds []delivered) (out []fsm.Token) {
	for _, d := range ds {
		out = append(out, d.token)
	}
	return out
}

func (s *sim) work(rng *rand.Rand, credit int32) {
	id := s.session(rng)
	var held, running []delivered // running: at most one
	unsure := false               // running has been acked with an unknown end: only the same ack tells
	without := func(ds []delivered, lost []fsm.Token) (out []delivered) {
	next:
		for _, d := range ds {
			for _, t := range lost {
				if d.token == t {
					s.mu.Lock()
					s.lost++
					s.mu.Unlock()
					continue next
				}
			}
			out = append(out, d)
		}
		return out
	}
	for {
		g := s.group(rng)
		if g == nil {
			pass(5 * time.Millisecond)
			continue
		}
		conn := &simConn{kick: make(chan struct{}, 1), limit: int(credit)}
		ses, err := g.Attach(id, conn)
		if err != nil {
			if err.Code == CodeSessionExpired {
				s.t.Errorf("attach: %v", err)
				return
			}
			pass(10 * time.Millisecond)
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		lost, _, err := ses.Resume(ctx, 1, "q", credit, 3_600_000, "w", tokens(running), tokens(held))
		cancel()
		if err != nil {
			ses.Detach()
			held = nil // they are given back with the connection
			pass(10 * time.Millisecond)
			continue
		}
		held = without(held, lost)
		if !unsure {
			running = without(running, lost)
		}
		for {
			got, dead := conn.take()
			for _, d := range got {
				if d.attempt != 1 {
					s.t.Errorf("%q comes at attempt %d: something that was free was charged", d.body, d.attempt)
				}
			}
			held = append(held, got...)
			if dead {
				break
			}
			if rng.Intn(300) == 0 { // the connection drops
				ses.Detach()
				held = nil
				break
			}
			if len(running) == 0 && len(held) == 0 {
				if s.drained() {
					ses.Detach()
					return
				}
				select {
				case <-conn.kick:
				case <-time.After(50 * time.Millisecond):
				}
				continue
			}
			if len(running) == 0 {
				running, held = held[:1:1], held[1:]
				ses.Started(1, tokens(running))
			}
			pass(time.Duration(rng.Intn(3000)) * time.Microsecond)
			o := newOne()
			g.Propose(&Proposal{
				Op: fsm.AppendOp(nil, &fsm.Ack{Token: running[0].token}), Done: o, Deadline: g.clock.Mono() + 2*time.Second,
			})
			a := <-o.end
			if a.err != nil {
				unsure = unsure || a.err.Unknown
				pass(time.Duration(rng.Intn(20)) * time.Millisecond)
				continue
			}
			unsure = false
			s.mu.Lock()
			switch a.out[0].Code {
			case fsm.OK:
				s.acked[running[0].token.Message]++
			case fsm.LeaseLost:
				s.lost++
			default:
				s.t.Errorf("ack: %+v", a.out[0])
			}
			s.mu.Unlock()
			running = nil
		}
	}
}

func (s *sim) drained() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop.Load() && len(s.acked) >= len(s.confirmed)
}

func (s *sim) fault(name string) {
	s.mu.Lock()
	s.faults[name]++
	s.mu.Unlock()
}

// trouble makes faults, of one node at a time or of the network between all, each healed before the next.
func (s *sim) trouble(rng *rand.Rand, rounds int) {
	index := func(nd *node) int {
		for i, other := range s.nodes {
			if other == nd {
				return i
			}
		}
		return -1
	}
	target := func() *node {
		if rng.Intn(3) > 0 {
			for i := range s.groups {
				if g := s.groups[i].Load(); g != nil && g.Status().Leader {
					return s.nodes[i]
				}
			}
		}
		return s.nodes[rng.Intn(len(s.nodes))]
	}
	for range rounds {
		pass(time.Duration(rng.Intn(400_000)) * time.Microsecond)
		nd := target()
		hold := func() { pass(time.Duration(rng.Intn(1_500_000)) * time.Microsecond) }
		switch rng.Intn(8) {
		case 0, 1:
			s.fault("cut")
			s.cut(nd)
			hold()
			s.join(nd)
		case 2:
			s.fault("cut all")
			for _, other := range s.nodes {
				s.cut(other)
			}
			hold()
			for _, other := range s.nodes {
				s.join(other)
			}
		case 3, 4:
			if rng.Intn(2) == 0 {
				s.fault("kill")
				s.cut(nd)
			} else {
				s.fault("stop")
			}
			s.groups[index(nd)].Store(nil)
			s.halt(nd)
			hold()
			s.start(nd)
			s.groups[index(nd)].Store(nd.g)
		case 5:
			s.fault("transfer")
			if err := nd.g.Raft().LeadershipTransfer().Error(); err != nil {
				s.fault("transfer failed")
			}
		case 6:
			s.fault("clock")
			nd.clock.offset.Store(int64(rng.Intn(6_000_000) - 3_000_000)) // an hour would end idle sessions, and be right
		case 7:
			s.fault("snapshot")
			_ = nd.g.Raft().Snapshot().Error() // nothing new, or one that is refused, is no fault
		}
	}
}

// TestSimulation: whatever happens to a minority (and to the network between all), every confirmed message is delivered
// and acked, none appears that was not enqueued, and no fault of the cluster costs a message an attempt.
func TestSimulation(t *testing.T) {
	seed := *simSeed
	if seed == 0 {
		seed = time.Now().UnixNano()
	}
	for i := range *simRuns {
		seed := seed + int64(i)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) { simulate(t, seed) })
		})
	}
}

func simulate(t *testing.T, seed int64) {
	rng := rand.New(rand.NewSource(seed))
	s := &sim{
		cluster: newCluster(t, 3, func(cfg *Config) {
			cfg.Limits.SnapshotBytes, cfg.Limits.TrailingBytes = 64<<10, 32<<10
		}),
		confirmed: map[fsm.ID]string{}, acked: map[fsm.ID]int{}, faults: map[string]int{},
	}
	defer s.cluster.stop()
	s.groups = make([]atomic.Pointer[Group], len(s.nodes))
	for i, nd := range s.nodes {
		s.groups[i].Store(nd.g)
	}
	s.leader().do(t, &fsm.CreateQueue{Name: []byte("q")})
	var producers, workers sync.WaitGroup
	for i := range 3 {
		rng := rand.New(rand.NewSource(rng.Int63()))
		producers.Go(func() { s.produce(rng, fmt.Sprint(i)) })
	}
	for i := range 4 {
		rng := rand.New(rand.NewSource(rng.Int63()))
		workers.Go(func() { s.work(rng, int32(1+i*5)) })
	}
	var audits sync.WaitGroup
	audits.Go(func() {
		for !s.stop.Load() {
			for i := range s.groups {
				if g := s.groups[i].Load(); g != nil {
					g.audit(t)
				}
			}
			pass(700 * time.Microsecond)
		}
	})
	s.trouble(rng, 25)
	s.stop.Store(true)
	audits.Wait()
	producers.Wait()
	healed := time.Now()
	done := make(chan struct{})
	go func() { workers.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		s.mu.Lock()
		st := s.leader().stats("q")
		t.Errorf("not drained: %d confirmed, %d acked; %d ready, %d leased, %d scheduled, %d retrying",
			len(s.confirmed), len(s.acked), st.Ready, st.Leased, st.Scheduled, st.Retrying)
		for id := range s.acked {
			delete(s.confirmed, id)
		}
		for id, body := range s.confirmed {
			t.Logf("missing %s %q", id, body)
		}
		s.mu.Unlock()
		t.FailNow()
	}
	s.mu.Lock()
	for id := range s.acked {
		if _, ok := s.confirmed[id]; !ok {
			t.Errorf("%s was delivered and acked, and never confirmed to a producer that retries until it is", id)
		}
	}
	t.Logf("%d messages, drained in %v, %d leases lost, faults %v", len(s.confirmed), time.Since(healed), s.lost, s.faults)
	s.mu.Unlock()
	l := s.leader()
	if st := l.stats("q"); st.Ready+st.Leased+st.Scheduled+st.Retrying+st.Dead != 0 {
		t.Errorf("left: %+v", st)
	}
	s.until(10*time.Second, "all caught up", func() bool {
		for _, nd := range s.nodes {
			if nd.g.Status().Applied < l.g.Status().Applied {
				return false
			}
		}
		return true
	})
	s.agree()
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	d := &l.g.dispatch
	if len(d.releases)+len(d.releasing)+d.waiting+d.pulls+len(d.subs)+len(d.sessions)+len(d.queues) != 0 {
		t.Errorf("the dispatcher keeps %d releases, %d releasing, %d waiting, %d subscriptions, %d sessions, %d queues",
			len(d.releases), len(d.releasing), d.waiting, len(d.subs), len(d.sessions), len(d.queues))
	}
}
