//go:build unix

package group

import (
	"fmt"
	"slices"
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

// worker acks what it is delivered, at most so many acks a proposal, as the doors do with what comes in one frame.
type worker struct {
	g     *Group
	frame int
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
		w.ack(d.Token)
	}
	return true
}

func (w *worker) ack(token fsm.Token) {
	var p *Proposal
	if n := len(w.acks); n > 0 && w.acks[n-1].Count < w.frame {
		p = w.acks[n-1]
	} else if n := len(w.spare); n > 0 {
		p, w.spare = w.spare[n-1], w.spare[:n-1]
		p.Op, p.Count = p.Op[:0], 0
		w.acks = append(w.acks, p)
	} else {
		p = &Proposal{Done: w}
		w.acks = append(w.acks, p)
	}
	p.Op = fsm.AppendOp(p.Op, &fsm.Ack{Token: token})
	p.Count++
}

func (w *worker) LeaseGone(uint32, []fsm.Token)      {}
func (w *worker) LeaseCancelled(uint32, []fsm.Token) {}
func (w *worker) Redirect(string, string)            { w.gone.Add(1) }

func (w *worker) Complete(p *Proposal, _ *fsm.State, _ Stamp, _ []fsm.Outcome, _ []fsm.Leased, err *Error) {
	n := int64(p.Count)
	w.mu.Lock()
	w.spare = append(w.spare, p)
	w.mu.Unlock()
	if left := w.left.Add(-n); err == nil && left <= 0 && left+n > 0 {
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

// BenchmarkEndToEnd is enqueue, delivery and ack of 256 B: 512 enqueues outstanding, 8 workers with a window of 256. With frames, so many
// messages are an operation, and as many acks a proposal.
func BenchmarkEndToEnd(b *testing.B) {
	b.Run("one", func(b *testing.B) { endToEnd(b, 1) })
	b.Run("frames=25", func(b *testing.B) { endToEnd(b, 25) })
}

func endToEnd(b *testing.B, frame int) {
	c := newCluster(b, 3, calm)
	defer c.stopNow()
	l := c.leader()
	total := (b.N + frame - 1) / frame * frame
	ws := workers(l, total, frame)
	ws.start(b, l)
	run, ps := frames(l, b, total, frame)
	b.ReportAllocs()
	b.ResetTimer()
	first := l.g.Raft().LastIndex()
	cpu := cpuTime()
	l.g.Propose(ps...)
	ws.wait(b, l, run)
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(total), "cpu-µs/op")
	b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "op/s")
	b.ReportMetric(float64(total)/float64(l.g.Raft().LastIndex()-first), "op/entry")
}

// BenchmarkDrain is delivery and ack alone, of messages that were all enqueued before: they have left the processors' caches by then, on each
// node.
func BenchmarkDrain(b *testing.B) {
	for _, frame := range []int{1, 25} {
		b.Run(fmt.Sprint("frames=", frame), func(b *testing.B) {
			c := newCluster(b, 3, calm)
			defer c.stopNow()
			l := c.leader()
			total := (b.N + 24) / 25 * 25
			run, ps := frames(l, b, total, 25)
			l.g.Propose(ps...)
			<-run.done
			ws := workers(l, total, frame)
			b.ReportAllocs()
			b.ResetTimer()
			first := l.g.Raft().LastIndex()
			cpu := cpuTime()
			ws.start(b, l)
			ws.wait(b, l, run)
			b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(total), "cpu-µs/op")
			b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "op/s")
			b.ReportMetric(float64(total)/float64(l.g.Raft().LastIndex()-first), "op/entry")
		})
	}
}

// frames are enqueues of total messages, so many an operation and 512 messages outstanding: proposing the first ones proposes all.
func frames(l *node, b *testing.B, total, frame int) (*loop, []*Proposal) {
	bodies := slices.Repeat([]string{fmt.Sprintf("%0256d", 0)}, frame)
	run := &loop{g: l.g, t: b, done: make(chan struct{})}
	outstanding := max(min(512, total)/frame, 1)
	ps := make([]*Proposal, outstanding)
	for i := range ps {
		ps[i] = &Proposal{Op: fsm.AppendOp(nil, enqueue("q", bodies...)), Done: run}
	}
	run.left.Store(int64(total/frame - outstanding))
	run.live.Store(int64(outstanding))
	return run, ps
}

// crew is eight workers that ack a number of messages between them.
type crew struct {
	workers [8]*worker
	left    atomic.Int64
	done    chan struct{}
}

func workers(l *node, total, frame int) *crew {
	c := &crew{done: make(chan struct{})}
	c.left.Store(int64(total))
	for i := range c.workers {
		c.workers[i] = &worker{g: l.g, frame: frame, left: &c.left, done: c.done}
	}
	return c
}

func (c *crew) start(b *testing.B, l *node) {
	for _, w := range c.workers {
		s, err := l.g.Attach(l.session(b), w)
		must(b, err)
		must(b, s.Subscribe(1, "q", 256, 0, "worker"))
	}
}

func (c *crew) wait(b *testing.B, l *node, run *loop) {
	select {
	case <-c.done:
	case <-time.After(30 * time.Second):
		b.Fatalf("%d never acked, %d failed; %+v; %+v", c.left.Load(), run.failed.Load(), l.g.Status(), l.stats("q"))
	}
}
