package chaos

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/chaos/forgetfs"
	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

var (
	sweepFlag = flag.Int("sweep", 6, "before how many of the first 300 changes and syncs of a node's life TestPowerCutSweep cuts the power, with each log store")
	failFlag  = flag.Int("fail", 2, "how many of the first 200 syncs, and of the first 200 writes, TestFailingDisk lets fail, each of three ways with each log store")
)

const (
	lifeMessages = 14
	lifeBytes    = 60 << 10 // three snapshots' worth, and as many segments
)

// life is that of one node on a disk of its own that forgets: it starts, takes messages, makes snapshots, compacts its log and is
// stopped. Something strikes in it.
type life struct {
	*forgetful
	node   *proc.Node
	disk   *forgetfs.Disk
	ledger *Ledger
	ended  chan struct{} // closed when the process that live has started has ended
	code   int           // that it has ended with
	asked  bool          // it has been told to stop
}

func newLife(t *testing.T, bin string, args ...string) *life {
	t.Helper()
	f := onForgetfulDisks(t, bin, 1, args...)
	return &life{forgetful: f, node: f.Nodes[0], disk: f.disks[0], ledger: NewLedger()}
}

// live is the life, until its end or until the channel is closed.
func (v *life) live(t *testing.T, until <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := v.node.Start(); err != nil {
		t.Fatal(err)
	}
	v.ended = make(chan struct{})
	go func() {
		defer close(v.ended)
		v.code, _ = v.node.Exited(context.WithoutCancel(ctx))
	}()
	go func() { // who asks a node that has ended would wait for it
		defer cancel()
		select {
		case <-until:
		case <-v.ended:
		case <-ctx.Done():
		}
	}()
	if v.node.WaitReady(ctx) != nil {
		return
	}
	cl, err := client.Open(ctx, client.Options{Addrs: []string{v.node.ClientAddr}, Name: "life", Timeout: time.Minute})
	if err != nil {
		return
	}
	defer func() { _ = cl.Close(ctx) }() // which has ended: nothing that is under way is waited for
	if cl.CreateQueue(ctx, "q", client.QueueOptions{MaxResultsBytes: 4 << 30}) != nil {
		return
	}
	for range lifeMessages {
		n, b := v.ledger.body(lifeBytes)
		r, err := cl.Enqueue(ctx, "q", client.Message{Body: b})
		v.ledger.answered(n, r, err)
		if err != nil {
			return
		}
	}
	v.asked = true
	v.node.Signal(syscall.SIGTERM)
	<-ctx.Done()
}

// check starts the node again, takes everything that is in its queue, and looks for what was confirmed.
func (v *life) check(t *testing.T) {
	t.Helper()
	v.restart(t, []int{0})
	if v.slowest > startMost {
		t.Errorf("the start took %s, want at most %s", v.slowest, startMost)
	}
	cl := open(t, v.node.ClientAddr)
	if _, err := cl.Queue(within(t, 10*time.Second), "q"); err != nil {
		if v.ledger.Confirmed() > 0 {
			t.Fatalf("the queue with %d messages: %v", v.ledger.Confirmed(), err)
		}
		create(t, cl, "q", client.QueueOptions{MaxResultsBytes: 4 << 30})
	}
	n, b := v.ledger.body(64)
	v.ledger.answered(n, put(t, cl, "q", client.Message{Body: b}), nil) // it takes more
	cctx, stop := context.WithCancel(t.Context())
	consuming := make(chan error, 1)
	go func() {
		consuming <- cl.Consume(cctx, "q", client.ConsumeOptions{Concurrency: 4, Prefetch: 32, DrainTimeout: 5 * time.Second}, v.ledger.Handle)
	}()
	drained(t, cl, "q")
	stop()
	<-consuming
	r, err := v.ledger.Check(within(t, time.Minute), cl, "q")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Lost)+len(r.Phantom) > 0 {
		t.Errorf("of %d that were confirmed: lost %q, invented %q", r.Confirmed, r.Lost, r.Phantom)
	}
	if err := v.node.Stop(); err != nil {
		t.Error(err)
	}
}

// points are n of the numbers from 1 to most, spread evenly from a random one on; all of them if n is as many.
func points(first, n, most int) (at []int) {
	for i := range min(n, most) {
		at = append(at, 1+(first+i*most/min(n, most))%most)
	}
	return at
}

// wholeLife counts the calls of a life in which nothing happens.
func wholeLife(t *testing.T, bin string, of []forgetfs.Op, args ...string) (n int) {
	t.Helper()
	t.Run("whole", func(t *testing.T) {
		v := newLife(t, bin, args...)
		v.live(t, nil)
		n = v.disk.Count(of...)
		if !v.asked || v.code != 0 || v.ledger.Confirmed() != lifeMessages {
			t.Fatalf("nothing happened to this node, and it ended with code %d, %d of %d messages confirmed", v.code, v.ledger.Confirmed(), lifeMessages)
		}
		v.check(t)
	})
	if t.Failed() {
		t.FailNow()
	}
	return n
}

// The power is cut before one after the other of the writes, syncs, renames and so on of a node's life, from its first start to its
// stop: it starts again, and nothing that was confirmed is lost. (L5, G1)
func TestPowerCutSweep(t *testing.T) {
	bin := chaosBinary(t)
	withLogStores(t, func(t *testing.T, args ...string) {
		rng := draw(t)
		all := wholeLife(t, bin, forgetfs.Changes, args...)
		first, struck := rng.IntN(all), 0
		for _, at := range points(first, *sweepFlag, min(all, 300)) {
			cut := forgetfs.Draw(rng, forgetfs.All, forgetfs.Some, forgetfs.Torn)
			kill := rng.IntN(3) == 0 // first: it starts on what is not durable, and then the power goes
			t.Run(fmt.Sprint(at), func(t *testing.T) {
				v := newLife(t, bin, args...)
				hit := v.disk.Set(forgetfs.Trap{On: forgetfs.Changes, N: at, Do: forgetfs.CutBefore})
				v.live(t, hit)
				if where := v.disk.Struck(); where != "" {
					struck++
					t.Logf("cut before %s", where)
				}
				if kill {
					v.cut(t, []int{0}, []forgetfs.Cut{{Mode: forgetfs.Kept}})
					v.restart(t, []int{0})
				}
				v.cut(t, []int{0}, []forgetfs.Cut{cut})
				v.check(t)
			})
		}
		t.Logf("%d calls in a life; of %d cuts %d were before one of them", all, *sweepFlag, struck)
		if struck == 0 {
			t.Error("no cut was before a call")
		}
	})
}

// A write or a sync fails, and so do all after it: the node ends with a code that is not zero and the file named, and has confirmed nothing
// that is not there when the disk is well again; also when what the failed sync should have written is gone. (L5, G17)
func TestFailingDisk(t *testing.T) {
	bin := chaosBinary(t)
	withLogStores(t, func(t *testing.T, args ...string) {
		rng := draw(t)
		for _, c := range []struct {
			name string
			trap forgetfs.Trap
		}{
			{"EIO of syncs", forgetfs.Trap{On: forgetfs.Syncs, Err: syscall.EIO}},
			{"EIO of writes", forgetfs.Trap{On: forgetfs.Writes, Err: syscall.EIO}},
			{"ENOSPC", forgetfs.Trap{On: forgetfs.Writes, Err: syscall.ENOSPC}},
		} {
			t.Run(c.name, func(t *testing.T) {
				all := wholeLife(t, bin, c.trap.On, args...)
				struck := 0
				for _, at := range points(rng.IntN(all), *failFlag, min(all, 200)) {
					power := rng.IntN(2) == 0
					cut := forgetfs.Draw(rng, forgetfs.All, forgetfs.Some, forgetfs.Torn)
					t.Run(fmt.Sprint(at), func(t *testing.T) {
						v := newLife(t, bin, args...)
						trap := c.trap
						trap.N, trap.Do = at, forgetfs.Fail
						v.disk.Set(trap)
						v.live(t, nil)
						where := v.disk.Struck()
						t.Logf("struck at %q, power cut after it: %v", where, power)
						if where != "" {
							struck++
							v.failed(t, trap.Err)
						}
						v.disk.Clear()
						if power {
							v.cut(t, []int{0}, []forgetfs.Cut{cut})
						}
						v.check(t)
					})
				}
				if struck == 0 {
					t.Error("no call was made to fail")
				}
			})
		}
	})
}

// failed demands that the node has ended as it should on a disk that fails.
func (v *life) failed(t *testing.T, errno syscall.Errno) {
	t.Helper()
	select {
	case <-v.ended:
	case <-time.After(10 * time.Second):
		t.Fatalf("the disk has failed and the node goes on; %d messages are confirmed", v.ledger.Confirmed())
	}
	b, _ := os.ReadFile(v.node.LogFile)
	last := string(tail(b, 2000))
	if v.code <= 0 || !strings.Contains(last, v.node.DataDir) || !strings.Contains(last, errno.Error()) {
		t.Errorf("ended with code %d (told to stop: %v), want a positive one, and a file named, and %q; the log ends:\n%s", v.code, v.asked, errno.Error(), last)
	}
}

// A sync takes seconds: where it is a follower's nobody waits for it, where it is the leader's all do, and then it goes on; nothing is
// lost.
func TestStalledDisk(t *testing.T) {
	bin := chaosBinary(t)
	withLogStores(t, func(t *testing.T, args ...string) {
		const stall = 3 * time.Second
		for _, c := range []struct {
			name string
			most time.Duration // between two confirmed enqueues
		}{{"follower", stall}, {"leader", 2 * stall}} {
			t.Run(c.name, func(t *testing.T) {
				f := onForgetfulDisks(t, bin, 3, args...)
				if err := f.Start(within(t, time.Minute)); err != nil {
					t.Fatal(err)
				}
				cl := open(t, f.Addrs()...)
				create(t, cl, "q", client.QueueOptions{MaxResultsBytes: 4 << 30})
				l := NewLedger()
				stop := load(t, f.Cluster, l, "q", 1, 1)
				eventually(t, 30*time.Second, "enqueues are confirmed", func(context.Context) bool { return l.Confirmed() >= 100 })
				leader, err := f.Leader(within(t, 30*time.Second))
				if err != nil {
					t.Fatal(err)
				}
				for i, n := range f.Nodes {
					if (n == leader) == (c.name == "leader") {
						<-f.disks[i].Set(forgetfs.Trap{On: forgetfs.Syncs, N: 1, Do: forgetfs.Stall, For: stall})
						break
					}
				}
				after := l.Confirmed() + 500
				eventually(t, 30*time.Second, "enqueues are confirmed again", func(context.Context) bool { return l.Confirmed() >= after })
				stop()
				r := audit(t, f.Cluster, l, "q")
				verify(t, cl, 3)
				if r.LongestGap > c.most {
					t.Errorf("nothing was confirmed for %s, want at most %s", r.LongestGap, c.most)
				}
			})
		}
	})
}
