package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/chaos/forgetfs"
	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

var (
	cutsFlag   = flag.Int("cuts", 4, "how many power cuts TestPowerCuts makes of three nodes, with each log store")
	singleFlag = flag.Int("single-cuts", 4, "how many power cuts TestPowerCuts makes of one node, with each log store")
)

// cutsOfARun is how many power cuts the same nodes live through: a run's ledger is read whole in the end.
const cutsOfARun = 25

// startMost is how long a node may take to be ready after its power was cut, the election of a leader included, on a machine that has other
// tests to run.
const startMost = 15 * time.Second

// forgetful are nodes each of whose data directories is on a disk that forgets what was not synced. Nothing below those may be looked
// at here: this process serves them.
type forgetful struct {
	*proc.Cluster
	disks   []*forgetfs.Disk
	slowest time.Duration // start after a cut
}

// onForgetfulDisks prepares nodes whose snapshots and segments are small, so that there are many of them; nothing is started.
func onForgetfulDisks(t *testing.T, binary string, nodes int, args ...string) *forgetful {
	t.Helper()
	return onDisks(t, forgetfs.Options{}, binary, nodes, args...)
}

// onDisks is onForgetfulDisks with disks of a size of their own.
func onDisks(t *testing.T, o forgetfs.Options, binary string, nodes int, args ...string) *forgetful {
	t.Helper()
	if err := forgetfs.Available(); err != nil {
		t.Skipf("disks that forget cannot be served here: %v", err)
	}
	c, err := proc.New(proc.Config{
		Binary: binary, Nodes: nodes, Dir: t.TempDir(), Args: args,
		Env: []string{"QUORATE_CHAOS_SNAPSHOT_BYTES=262144", "QUORATE_CHAOS_SEGMENT_BYTES=262144"},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &forgetful{Cluster: c}
	for _, n := range c.Nodes {
		at := n.DataDir
		if err := os.Mkdir(at, 0o700); err != nil {
			t.Fatal(err)
		}
		// Below the mount: a data directory's own name can get lost too.
		n.DataDir = filepath.Join(at, "data")
		n.Args[slices.Index(n.Args, at)] = n.DataDir
		d := forgetfs.New(o)
		if err := d.Mount(at); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(d.Unmount(), d.Err()); err != nil {
				t.Errorf("disk of %s: %v", n.Name, err)
			}
		})
		f.disks = append(f.disks, d)
	}
	t.Cleanup(func() {
		for _, d := range f.disks {
			d.Clear()
		}
		c.Kill()
		if t.Failed() {
			for _, n := range c.Nodes {
				b, _ := os.ReadFile(n.LogFile)
				t.Logf("log of %s:\n%s", n.Name, tail(b, 4000))
			}
		}
	})
	return f
}

// cut cuts the power of some nodes at once.
func (f *forgetful) cut(t *testing.T, victims []int, cuts []forgetfs.Cut) {
	t.Helper()
	for _, v := range victims {
		f.disks[v].Hold()
	}
	var wg sync.WaitGroup
	for i, v := range victims {
		wg.Go(func() {
			l, err := f.disks[v].Cut(cuts[i], &f.Nodes[v].Process)
			if err != nil {
				t.Errorf("cut of %s: %v", f.Nodes[v].Name, err)
			}
			t.Logf("  %s: %s: of %d changes that were not durable, %d pieces are gone", f.Nodes[v].Name, cuts[i], l.Changes, l.Dropped)
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// restart starts nodes whose power was cut.
func (f *forgetful) restart(t *testing.T, victims []int) {
	t.Helper()
	f.begin(t, victims)
	f.ready(t, victims)
}

func (f *forgetful) begin(t *testing.T, victims []int) {
	t.Helper()
	for _, v := range victims {
		if err := f.Nodes[v].Start(); err != nil {
			t.Fatal(err)
		}
	}
}

// ready waits for nodes that have begun, and notes how long that took.
func (f *forgetful) ready(t *testing.T, victims []int) {
	t.Helper()
	began := time.Now()
	for _, v := range victims {
		if err := f.Nodes[v].WaitReady(within(t, 30*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	f.slowest = max(f.slowest, time.Since(began))
}

// startForgetful starts nodes on disks that forget, with a queue "q".
func startForgetful(t *testing.T, bin string, nodes int, args ...string) (*forgetful, *client.Client) {
	t.Helper()
	f := onForgetfulDisks(t, bin, nodes, args...)
	if err := f.Start(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	cl := open(t, f.Addrs()...)
	create(t, cl, "q", client.QueueOptions{MaxResultsBytes: 4 << 30})
	return f, cl
}

// Power cuts of one node, the leader, two and all at once, and of one while others are stopped, under load: nothing that was confirmed is
// lost, whatever of what was not synced is gone, and the nodes start again within startMost. (L5, G1)
func TestPowerCuts(t *testing.T) {
	bin := chaosBinary(t)
	for _, c := range []struct{ nodes, cuts, atOnce int }{{3, *cutsFlag, 1}, {1, *singleFlag, *togetherFlag}} {
		t.Run(fmt.Sprintf("%d nodes", c.nodes), func(t *testing.T) {
			withLogStores(t, func(t *testing.T, args ...string) {
				eachOf(t, (c.cuts+cutsOfARun-1)/cutsOfARun, c.atOnce, func(i int) string { return fmt.Sprint(i) }, func(t *testing.T, i int) {
					powerCuts(t, bin, c.nodes, min(cutsOfARun, c.cuts-i*cutsOfARun), args...)
				})
			})
		})
	}
}

func powerCuts(t *testing.T, bin string, nodes, cuts int, args ...string) {
	rng := draw(t)
	f, cl := startForgetful(t, bin, nodes, args...)
	l := NewLedger()
	stop := load(t, f.Cluster, l, "q", 1, 1)
	for i := range cuts {
		after := l.Confirmed() + 1 + rng.IntN(300)
		eventually(t, 30*time.Second, "enqueues are confirmed", func(context.Context) bool { return l.Confirmed() >= after })
		s := f.pick(t, rng, i)
		if !s.first && rng.IntN(2) == 0 {
			// At a moment that the disk of one of them knows: in the middle of a batch, a snapshot, a compaction.
			trap := forgetfs.Trap{On: forgetfs.Changes, N: 1 + rng.IntN(60), Do: forgetfs.CutBefore}
			if rng.IntN(2) == 0 {
				trap.Do = forgetfs.CutAfter
			}
			d := f.disks[s.victims[0]]
			select {
			case <-d.Set(trap):
				s.what += " at " + d.Struck()
			case <-time.After(10 * time.Second):
				s.what += " (it wrote too little for a trap)"
			}
		}
		t.Logf("cut %d of %s", i+1, s.what)
		var how []forgetfs.Cut
		for range s.victims {
			// One that is only killed starts on what is in the cache, and may be cut soon after.
			how = append(how, forgetfs.Draw(rng, forgetfs.All, forgetfs.Some, forgetfs.Some, forgetfs.Torn, forgetfs.Kept))
		}
		f.signal(s.stopped, syscall.SIGSTOP)
		if s.first {
			pause(t, s.pause)
		}
		f.cut(t, s.victims, how)
		f.begin(t, s.victims)
		if len(s.stopped) > 0 && !s.first {
			pause(t, s.pause)
		}
		f.signal(s.stopped, syscall.SIGCONT)
		f.ready(t, s.victims)
	}
	stop()
	audit(t, f.Cluster, l, "q")
	verify(t, cl, nodes)
	report(t, "%d cuts, %d confirmed; the slowest start took %s", cuts, l.Confirmed(), f.slowest)
	if f.slowest > startMost {
		t.Errorf("a start after a power cut took %s, want at most %s", f.slowest, startMost)
	}
}

// strike is a power cut: whose, and who is stopped (SIGSTOP) meanwhile, and goes on a while after it.
type strike struct {
	victims, stopped []int
	pause            time.Duration
	first            bool // the pause is before the cut, and what it leaves starts among nodes that go on
	what             string
}

// pick says whose power is cut next.
func (f *forgetful) pick(t *testing.T, rng *rand.Rand, i int) strike {
	t.Helper()
	anyone := rng.Perm(len(f.Nodes))
	if len(f.Nodes) == 1 {
		return strike{victims: anyone, what: "the node"}
	}
	switch i % 5 {
	case 0:
		return strike{victims: anyone[:1], what: "one node"}
	case 1:
		return strike{victims: anyone[:2], what: "two nodes"}
	case 3:
		return strike{victims: anyone, what: "all nodes"}
	case 4:
		s := strike{victims: anyone[:1], stopped: anyone[1 : 2+rng.IntN(2)], pause: time.Duration(50+rng.IntN(2000)) * time.Millisecond, first: rng.IntN(3) == 0}
		s.what = fmt.Sprintf("one node, %d others stopped, for %s, before it: %v", len(s.stopped), s.pause, s.first)
		return s
	}
	leader, err := f.Leader(within(t, 30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return strike{victims: []int{slices.Index(f.Nodes, leader)}, what: "the leader"}
}

func (f *forgetful) signal(nodes []int, s os.Signal) {
	for _, n := range nodes {
		f.Nodes[n].Signal(s)
	}
}

// pause lets time pass in which nodes are stopped.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	if err := linger(t, d); err != nil {
		t.Fatal(err)
	}
}

// A node whose syncs do nothing loses what it has confirmed, and the ledger says so: without that the tests beside this one would
// prove nothing.
func TestPowerCutsAreNoticed(t *testing.T) {
	bin := chaosBinary(t)
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d nodes", nodes), func(t *testing.T) {
			withLogStores(t, func(t *testing.T, args ...string) { powerCutsWithoutSyncs(t, bin, nodes, args...) })
		})
	}
}

func powerCutsWithoutSyncs(t *testing.T, bin string, nodes int, args ...string) {
	rng := draw(t)
	f, cl := startForgetful(t, bin, nodes, args...)
	var all []int
	var how []forgetfs.Cut
	for i, d := range f.disks {
		d.Set(forgetfs.Trap{On: forgetfs.Syncs, N: 1, Do: forgetfs.Lie})
		all, how = append(all, i), append(how, forgetfs.Cut{Mode: forgetfs.All, Seed: rng.Uint64()})
	}
	l := NewLedger()
	for range 50 { // little enough that no snapshot is made: those would not fit what is left
		n, b := l.body(256)
		r, err := cl.Enqueue(within(t, 10*time.Second), "q", client.Message{Body: b})
		l.answered(n, r, err)
		if err != nil {
			t.Fatal(err)
		}
	}
	f.cut(t, all, how)
	f.restart(t, all)
	takeAll(t, l, "q", f.Addrs()...)
	r, err := l.Check(within(t, time.Minute), cl, "q")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("of %d that were confirmed, %d are lost", r.Confirmed, len(r.Lost))
	if len(r.Lost) == 0 {
		t.Error("syncs did nothing, the power was cut, and nothing is said to be lost: these tests prove nothing")
	}
}
