package group

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/quorate/quorate/fsm"
)

var (
	crashSeed = flag.Int64("crash.seed", 0, "seed of the first run with crashes; 0: a new one each time")
	crashRuns = flag.Int("crash.runs", 3, "runs with crashes")
	crashEnds = flag.Bool("crash.ends", false, "do not look at who has what on disk, only at what is applied and confirmed: how far a fault comes to light by itself")
)

// Mutants of the rig, each of which breaks one thing that Ahead promises.
const (
	earlyDisk   = "a disk that answers before it has written" // as applying, masking and flushing without waiting would be
	raftsCommit = "followers are told raft's own commit index"
)

// crashes is a cluster of nodes that lose what their disks had not written when they crash.
type crashes struct {
	*cluster
	mutant string
	groups []atomic.Pointer[Group] // nil: down
	dead   sync.WaitGroup          // crashed groups that are being put away

	mu        sync.Mutex
	rng       *rand.Rand
	disks     map[raft.ServerID]*forgetDisk // those in use
	applied   map[uint64]raft.Log           // the first that was applied at each index, by whichever node
	confirmed map[string]uint64             // body: index
	wrong     []string
	faults    map[string]int
	stop      atomic.Bool
	bodies    atomic.Int64
}

func (c *crashes) bad(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.wrong) < 10 {
		c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
	}
}

func (c *crashes) failed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.wrong) > 0
}

// durable says on how many disks an entry is.
func (c *crashes) durable(index, term uint64) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.disks {
		if *crashEnds || d.has(index, term) {
			n++
		}
	}
	return n
}

func (c *crashes) tune(cfg *Config) {
	id := cfg.LocalID
	c.mu.Lock()
	d := c.disks[id]
	if d == nil {
		d = newForgetDisk(rand.New(rand.NewSource(c.rng.Int63())))
		d.early = c.mutant == earlyDisk
		c.disks[id] = d
	}
	c.mu.Unlock()
	at := int(id[len(id)-1] - '1')
	cfg.Logs, cfg.Stable, cfg.Snapshots = d, d, forgetSnaps{d}
	cfg.Limits.SnapshotBytes, cfg.Limits.TrailingBytes = 24<<10, 12<<10
	cfg.Transport = newForgetTransport(cfg.Transport.(*raft.InmemTransport), d, func(args *raft.AppendEntriesRequest) {
		if args.LeaderCommitIndex == 0 { // a heartbeat
			return
		}
		if g := c.groups[at].Load(); c.mutant == raftsCommit && g != nil {
			args.LeaderCommitIndex = max(args.LeaderCommitIndex, g.Raft().CommitIndex())
		}
		var l raft.Log
		if d.GetLog(args.LeaderCommitIndex, &l) != nil {
			if !*crashEnds && !d.has(args.LeaderCommitIndex, 0) && !d.dead.Load() {
				c.bad("%s tells that entry %d is committed, and does not have it", id, args.LeaderCommitIndex)
			}
			return // compacted
		}
		if n := c.durable(l.Index, l.Term); n < 2 && !d.dead.Load() {
			c.bad("%s tells that entry %d of term %d is committed, which is on %d disks", id, l.Index, l.Term, n)
		}
	})
	cfg.Tap = func(index, term uint64, data []byte) {
		if d.dead.Load() {
			return
		}
		if n := c.durable(index, term); n < 2 && !d.dead.Load() {
			c.bad("%s applies entry %d of term %d, which is on %d disks", id, index, term, n)
		}
		c.mu.Lock()
		was, ok := c.applied[index]
		if !ok {
			c.applied[index] = raft.Log{Index: index, Term: term, Data: bytes.Clone(data)}
		}
		c.mu.Unlock()
		if ok && (was.Term != term || !bytes.Equal(was.Data, data)) {
			c.bad("%s applies an entry of term %d at index %d, another node one of term %d", id, term, index, was.Term)
		}
	}
}

// crashDone is the client of one message.
type crashDone struct {
	c    *crashes
	disk *forgetDisk
	body string
	end  chan struct{}
}

func (o *crashDone) Complete(_ *Proposal, _ *fsm.State, at Stamp, _ []fsm.Outcome, _ []fsm.Leased, err *Error) {
	if err == nil && !o.disk.dead.Load() {
		o.c.mu.Lock()
		o.c.confirmed[o.body] = at.Index
		o.c.mu.Unlock()
	}
	close(o.end)
}

func (o *crashDone) Flush() {}

// produce sends messages, each once, a few at a time.
func (c *crashes) produce(rng *rand.Rand) {
	for !c.stop.Load() {
		i := rng.Intn(len(c.nodes))
		c.mu.Lock()
		d := c.disks[c.nodes[i].id]
		g := c.groups[i].Load()
		c.mu.Unlock()
		if g == nil || !g.Status().Leader {
			pass(2 * time.Millisecond)
			continue
		}
		var sent []*crashDone
		for range 1 + rng.Intn(4) {
			o := &crashDone{c: c, disk: d, body: fmt.Sprintf("<%d>", c.bodies.Add(1)), end: make(chan struct{})}
			g.Propose(&Proposal{Op: fsm.AppendOp(nil, enqueue("q", o.body)), Done: o, Deadline: g.clock.Mono() + time.Second})
			sent = append(sent, o)
			pass(time.Duration(rng.Intn(500)) * time.Microsecond)
		}
		for _, o := range sent {
			<-o.end
		}
	}
}

// crash takes the power from nodes, all at once.
func (c *crashes) crash(nodes ...*node) {
	for _, nd := range nodes {
		at := c.at(nd)
		c.mu.Lock()
		g := c.groups[at].Swap(nil)
		c.disks[nd.id] = c.disks[nd.id].crash()
		c.mu.Unlock()
		c.cut(nd)
		nd.stopped = true
		c.dead.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			_ = g.Stop(ctx) // nobody hears of it
		})
	}
}

func (c *crashes) boot(nodes ...*node) {
	for _, nd := range nodes {
		c.start(nd)
		c.groups[c.at(nd)].Store(nd.g)
	}
}

func (c *crashes) at(nd *node) int {
	for i, other := range c.nodes {
		if other == nd {
			return i
		}
	}
	return -1
}

// trouble makes faults, of which several may be at once, and heals them.
func (c *crashes) trouble(rng *rand.Rand) {
	hold := func(most time.Duration) { pass(time.Duration(rng.Int63n(int64(most)))) }
	freeze := func(nd *node, most time.Duration) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.disks[nd.id].frozen.Store(time.Now().Add(time.Duration(rng.Int63n(int64(most)))).UnixNano())
	}
	for range 10 {
		if c.failed() {
			return
		}
		hold(150 * time.Millisecond)
		order := rng.Perm(3)
		for i := range c.groups { // the leader first, mostly
			if g := c.groups[i].Load(); g != nil && g.Status().Leader && rng.Intn(4) > 0 {
				for j, k := range order {
					if k == i {
						order[0], order[j] = order[j], order[0]
					}
				}
			}
		}
		nodes := []*node{c.nodes[order[0]], c.nodes[order[1]], c.nodes[order[2]]}
		what := rng.Intn(8)
		switch what {
		case 0, 1: // its disk hangs, one other is out of reach, and then it crashes
			c.cut(nodes[1])
			freeze(nodes[0], 300*time.Millisecond)
			hold(40 * time.Millisecond)
			c.crash(nodes[0])
			c.join(nodes[1])
			if rng.Intn(2) == 0 {
				c.cut(nodes[2]) // who has what the one that crashed has sent
			}
			hold(200 * time.Millisecond)
			c.boot(nodes[0])
			hold(800 * time.Millisecond)
			c.join(nodes[2])
		case 2:
			freeze(nodes[0], 500*time.Millisecond)
			hold(300 * time.Millisecond)
		case 3:
			n := 1 + rng.Intn(3)
			c.crash(nodes[:n]...)
			hold(500 * time.Millisecond)
			c.boot(nodes[:n]...)
		case 4: // cut off with a disk that hangs, heard again, crashed
			freeze(nodes[0], 600*time.Millisecond)
			hold(5 * time.Millisecond)
			c.cut(nodes[0])
			hold(900 * time.Millisecond)
			c.join(nodes[0])
			hold(20 * time.Millisecond)
			c.crash(nodes[0])
			c.boot(nodes[0])
		case 5:
			_ = nodes[0].g.Raft().LeadershipTransfer().Error()
			freeze(nodes[1], 100*time.Millisecond)
			hold(20 * time.Millisecond)
			c.crash(nodes[1])
			c.boot(nodes[1])
		case 6:
			_ = nodes[0].g.Raft().Snapshot().Error() // there may be nothing new
		case 7: // all hang, and two crash
			for _, nd := range nodes {
				freeze(nd, 200*time.Millisecond)
			}
			hold(30 * time.Millisecond)
			c.crash(nodes[0], nodes[2])
			hold(50 * time.Millisecond)
			c.boot(nodes[0], nodes[2])
		}
		c.mu.Lock()
		c.faults[fmt.Sprint(what)]++
		c.mu.Unlock()
	}
}

// TestCrashes: whatever crashes, hangs or is cut off, nothing is applied or said to be committed that is not on a majority's
// disks, no two nodes apply different entries at one index, and what was confirmed to a client is in the state at the end.
func TestCrashes(t *testing.T) {
	seed := *crashSeed
	if seed == 0 {
		seed = time.Now().UnixNano()
	}
	var confirmed atomic.Int64
	t.Cleanup(func() {
		if n := confirmed.Load(); n < 50 && !t.Failed() { // a run in which hardly anybody leads may have few
			t.Errorf("only %d messages were confirmed in %d runs", n, *crashRuns)
		}
	})
	for i := range *crashRuns {
		seed := seed + int64(i)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				for _, what := range crashAll(t, seed, "", &confirmed) {
					t.Error(what)
				}
			})
		})
	}
	// The test would notice.
	for _, mutant := range []string{earlyDisk, raftsCommit} {
		t.Run(mutant, func(t *testing.T) {
			t.Parallel()
			const most = 12 // one run notices nearly always
			for i := range int64(most) {
				noticed := false
				synctest.Test(t, func(t *testing.T) { noticed = len(crashAll(t, seed+i, mutant, new(atomic.Int64))) > 0 })
				if noticed {
					return
				}
			}
			t.Errorf("nothing was noticed with %d seeds from %d", most, seed)
		})
	}
}

// crashAll is one run. It says what was wrong, and adds to confirmed.
func crashAll(t *testing.T, seed int64, mutant string, confirmed *atomic.Int64) []string {
	rng := rand.New(rand.NewSource(seed))
	c := &crashes{
		mutant: mutant, groups: make([]atomic.Pointer[Group], 3), rng: rand.New(rand.NewSource(rng.Int63())),
		disks: map[raft.ServerID]*forgetDisk{}, applied: map[uint64]raft.Log{}, confirmed: map[string]uint64{}, faults: map[string]int{},
	}
	c.cluster = newCluster(t, 3, c.tune)
	defer c.cluster.stop()
	for i, nd := range c.nodes {
		c.groups[i].Store(nd.g)
	}
	c.leader().do(t, &fsm.CreateQueue{Name: []byte("q")})
	var producers sync.WaitGroup
	for range 3 {
		rng := rand.New(rand.NewSource(rng.Int63()))
		producers.Go(func() { c.produce(rng) })
	}
	c.trouble(rng)
	c.stop.Store(true)
	producers.Wait()
	c.dead.Wait()
	for _, nd := range c.nodes {
		c.join(nd)
	}
	if mutant == "" && !c.failed() {
		c.final()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	confirmed.Add(int64(len(c.confirmed)))
	t.Logf("%d entries applied, %d messages of %d confirmed, faults %v", len(c.applied), len(c.confirmed), c.bodies.Load(), c.faults)
	return c.wrong
}

// final compares what the nodes have with each other and with what was confirmed.
func (c *crashes) final() {
	l := c.leader()
	last := l.do(c.t, enqueue("q", "<0>")).at.Index
	c.until(time.Minute, "not all have caught up", func() bool {
		for _, nd := range c.nodes {
			if nd.g.Status().Applied < last {
				return false
			}
		}
		return true
	})
	c.agree()
	c.mu.Lock()
	seen := map[string]bool{}
	for _, e := range c.applied {
		for _, b := range bodiesIn(e.Data) {
			seen[b] = true
		}
	}
	there := len(seen)
	var lost []string
	for body, index := range c.confirmed {
		if e := c.applied[index]; !bytes.Contains(e.Data, []byte(body)) {
			lost = append(lost, fmt.Sprintf("%s was confirmed at index %d, and is not in the entry there", body, index))
		}
	}
	c.mu.Unlock()
	for _, what := range lost {
		c.bad("%s", what)
	}
	if got := l.stats("q").Ready; got != int64(there) {
		c.bad("%d messages are in the queue, %d were applied", got, there)
	}
}

// bodiesIn finds messages' bodies in an entry.
func bodiesIn(data []byte) (out []string) {
	for {
		from := bytes.IndexByte(data, '<')
		if from < 0 {
			return out
		}
		data = data[from:]
		to := bytes.IndexByte(data, '>')
		if n := to - 1; n > 0 && len(bytes.Trim(data[1:to], "0123456789")) == 0 {
			out = append(out, string(data[:to+1]))
		}
		data = data[1:]
	}
}
