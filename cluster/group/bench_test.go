//go:build unix

package group

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/quorate/quorate/fsm"
)

// loop keeps a number of enqueues outstanding until n are confirmed; a Completer for all of them.
type loop struct {
	g      *Group
	t      testing.TB
	left   atomic.Int64
	live   atomic.Int64
	done   chan struct{}
	mu     sync.Mutex
	next   []*Proposal
	failed atomic.Int64
}

func (b *loop) Complete(p *Proposal, _ *fsm.State, _ Stamp, _ []fsm.Outcome, _ []fsm.Leased, err *Error) {
	if err != nil {
		b.failed.Add(1)
	}
	if b.left.Add(-1) >= 0 {
		b.mu.Lock()
		b.next = append(b.next, p)
		b.mu.Unlock()
		return
	}
	if b.live.Add(-1) == 0 {
		close(b.done)
	}
}

func (b *loop) Flush() {
	b.mu.Lock()
	ps := b.next
	b.next = nil
	b.mu.Unlock()
	if len(ps) > 0 {
		b.g.Propose(ps...)
	}
}

// BenchmarkEnqueue is confirmed enqueues of 256 B with 2048 outstanding, three nodes in this process, stores in memory:
// the cost of all but disks, network and doors.
func BenchmarkEnqueue(b *testing.B) {
	c := newCluster(b, 3, calm)
	defer c.stopNow()
	l := c.leader()
	body := fmt.Sprintf("%0256d", 0)
	run := &loop{g: l.g, t: b, done: make(chan struct{})}
	const outstanding = 2048
	ps := make([]*Proposal, outstanding)
	for i := range ps {
		ps[i] = &Proposal{Op: fsm.AppendOp(nil, enqueue("q", body)), Done: run}
	}
	run.left.Store(int64(b.N))
	run.live.Store(outstanding)
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime()
	l.g.Propose(ps...)
	<-run.done
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
	if n := run.failed.Load(); n > 0 {
		b.Fatalf("%d failed", n)
	}
}

// calm keeps a crowded machine from electing leaders in the middle of a measurement.
func calm(cfg *Config) {
	cfg.Raft = func(rc *raft.Config) {
		rc.HeartbeatTimeout, rc.ElectionTimeout, rc.LeaderLeaseTimeout = 3*time.Second, 3*time.Second, 3*time.Second
	}
}

// worker acks what it is delivered.
type worker struct {
	g     *Group
	gone  atomic.Int64
	mu    sync.Mutex
	acks  []*Proposal
	spare []*Proposal
	left  *atomic.Int64
	done  chan struct{}
}

func (w *worker) Deliver(_ uint32, st *fsm.State, l []fsm.Leased) bool {
	var d fsm.Delivery
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range l {
		st.Deliver(one, &d)
		var p *Proposal
		if n := len(w.spare); n > 0 {
			p, w.spare = w.spare[n-1], w.spare[:n-1]
		} else {
			p = &Proposal{Done: w}
		}
		p.Op = fsm.AppendOp(p.Op[:0], &fsm.Ack{Token: d.Token})
		w.acks = append(w.acks, p)
	}
	return true
}

func (w *worker) LeaseGone(uint32, []fsm.Token)      {}
func (w *worker) LeaseCancelled(uint32, []fsm.Token) {}
func (w *worker) Redirect(string, string)            { w.gone.Add(1) }

func (w *worker) Complete(p *Proposal, _ *fsm.State, _ Stamp, _ []fsm.Outcome, _ []fsm.Leased, err *Error) {
	w.mu.Lock()
	w.spare = append(w.spare, p)
	w.mu.Unlock()
	if err == nil && w.left.Add(-1) == 0 {
		close(w.done)
	}
}

func (w *worker) Flush() {
	w.mu.Lock()
	ps := w.acks
	w.acks = nil
	w.mu.Unlock()
	if len(ps) > 0 {
		w.g.Propose(ps...)
	}
}

// BenchmarkEndToEnd is enqueue, delivery and ack of 256 B: 512 enqueues outstanding, 8 workers with a window of 256.
func BenchmarkEndToEnd(b *testing.B) {
	c := newCluster(b, 3, calm)
	defer c.stopNow()
	l := c.leader()
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan struct{})
	for range 8 {
		w := &worker{g: l.g, left: &left, done: done}
		s, err := l.g.Attach(l.session(b), w)
		must(b, err)
		must(b, s.Subscribe(1, "q", 256, 0, "worker"))
	}
	body := fmt.Sprintf("%0256d", 0)
	run := &loop{g: l.g, t: b, done: make(chan struct{})}
	outstanding := min(512, b.N)
	ps := make([]*Proposal, outstanding)
	for i := range ps {
		ps[i] = &Proposal{Op: fsm.AppendOp(nil, enqueue("q", body)), Done: run}
	}
	run.left.Store(int64(b.N - outstanding))
	run.live.Store(int64(outstanding))
	b.ReportAllocs()
	b.ResetTimer()
	first := l.g.Raft().LastIndex()
	cpu := cpuTime()
	l.g.Propose(ps...)
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		b.Fatalf("%d never acked, %d failed; %+v; %+v", left.Load(), run.failed.Load(), l.g.Status(), l.stats("q"))
	}
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
	b.ReportMetric(float64(b.N)/float64(l.g.Raft().LastIndex()-first), "op/entry")
}
