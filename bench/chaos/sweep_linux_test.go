package chaos

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/chaos/forgetfs"
)

var (
	sweepFlag = flag.Int("sweep", 2, "before how many of the first 300 changes and syncs of each story of a node's life TestPowerCutSweep and TestPowerCutsOfAConversion cut the power, with each log store")
	failFlag  = flag.Int("fail", 1, "how many of the first 200 syncs, and of the first 200 writes, of each story of one node TestFailingDisk lets fail, each of three ways with each log store")
)

// points are n of the numbers from 1 to most, spread evenly from a random one on; all of them if n is as many.
func points(first, n, most int) (at []int) {
	for i := range min(n, most) {
		at = append(at, 1+(first+i*most/min(n, most))%most)
	}
	return at
}

// wholeLife is a life in which nothing strikes, and counts its calls: of each of the sets.
func wholeLife(t *testing.T, bin string, s story, args []string, sets ...[]forgetfs.Op) (counts []int) {
	t.Helper()
	t.Run("whole", func(t *testing.T) {
		v := newLife(t, bin, s, args...)
		v.strikes = func() { // from there on they count
			for _, of := range sets {
				counts = append(counts, v.disk().Count(of...))
			}
		}
		s.run(t, v, forgetfs.Trap{}) // at no call
		for i, of := range sets {
			counts[i] = v.disk().Count(of...) - counts[i]
		}
		if !v.asked || s.nodes == 1 && v.code != 0 {
			t.Fatalf("nothing struck this node, and it has not come to its end: told to %v, code %d, %d messages confirmed", v.asked, v.code, v.ledger.Confirmed())
		}
		if b, err := os.ReadFile(v.Nodes[0].LogFile); err != nil || !strings.Contains(string(b), s.shows) {
			t.Fatalf("%s does not say %q (%v): the story is not what it is meant to be", v.Nodes[0].LogFile, s.shows, err)
		}
		v.disk().Clear()
		s.check(t, v)
	})
	if t.Failed() {
		t.FailNow()
	}
	return counts
}

// The power is cut before one after the other of the writes, syncs, renames and so on of a node's life: from its first start to its
// stop, with snapshots and compactions; from the moment that it joins another node, is given a snapshot and becomes a voter until it is
// removed; and of that other node's meanwhile. It starts again, and nothing that was confirmed is lost. (L5, G1)
func TestPowerCutSweep(t *testing.T) {
	bin := chaosBinary(t)
	withLogStores(t, func(t *testing.T, args ...string) {
		for _, s := range slices.Concat(alone, members) {
			t.Run(s.name, func(t *testing.T) { sweep(t, bin, s, args...) })
		}
	})
}

func sweep(t *testing.T, bin string, s story, args ...string) {
	rng := draw(t)
	all := wholeLife(t, bin, s, args, forgetfs.Changes)[0]
	at := points(rng.IntN(all), *sweepFlag, min(all, 300))
	type how struct {
		cut  forgetfs.Cut
		kill bool // first: it starts on what is not durable, and then the power goes
	}
	hows := make([]how, len(at))
	for i := range hows {
		hows[i] = how{forgetfs.Draw(rng, forgetfs.All, forgetfs.Some, forgetfs.Torn), s.nodes == 1 && rng.IntN(3) == 0}
	}
	var struck atomic.Int64
	eachOf(t, len(at), *togetherFlag, func(i int) string { return fmt.Sprint(at[i]) }, func(t *testing.T, i int) {
		v := newLife(t, bin, s, args...)
		s.run(t, v, forgetfs.Trap{On: forgetfs.Changes, N: at[i], Do: forgetfs.CutBefore})
		if where := v.disk().Struck(); where != "" {
			struck.Add(1)
			t.Logf("cut before %s", where)
		}
		victim := []int{v.victim}
		if hows[i].kill {
			v.cut(t, victim, []forgetfs.Cut{{Mode: forgetfs.Kept}})
			v.restart(t, victim)
		}
		v.cut(t, victim, []forgetfs.Cut{hows[i].cut})
		s.check(t, v)
	})
	report(t, "%d calls in a life; of %d cuts %d were before one of them", all, len(at), struck.Load())
	if struck.Load() == 0 {
		t.Error("no cut was before a call")
	}
}

// A write or a sync fails, and so do all after it: the node ends with a code that is not zero and the file named, and has confirmed nothing
// that is not there when the disk is well again; also when what the failed sync should have written is gone, at once, or after the next process has
// found it in the machine's cache. (L5, G17)
func TestFailingDisk(t *testing.T) {
	bin := chaosBinary(t)
	withLogStores(t, func(t *testing.T, args ...string) {
		for _, s := range alone {
			t.Run(s.name, func(t *testing.T) {
				all := wholeLife(t, bin, s, args, forgetfs.Syncs, forgetfs.Writes)
				for _, c := range []struct {
					name  string
					calls int
					trap  forgetfs.Trap
				}{
					{"EIO of syncs", all[0], forgetfs.Trap{On: forgetfs.Syncs, Err: syscall.EIO}},
					{"EIO of writes", all[1], forgetfs.Trap{On: forgetfs.Writes, Err: syscall.EIO}},
					{"ENOSPC", all[1], forgetfs.Trap{On: forgetfs.Writes, Err: syscall.ENOSPC}},
				} {
					t.Run(c.name, func(t *testing.T) { fail(t, bin, s, c.calls, c.trap, args...) })
				}
			})
		}
	})
}

// fail has calls of a story, which has so many that the trap is for, fail one after the other.
func fail(t *testing.T, bin string, s story, all int, trap forgetfs.Trap, args ...string) {
	rng := draw(t)
	at := points(rng.IntN(all), *failFlag, min(all, 200))
	cuts := make([]*forgetfs.Cut, len(at)) // half of the time the power goes after it
	for i := range cuts {
		if rng.IntN(2) == 0 {
			cut := forgetfs.Draw(rng, forgetfs.All, forgetfs.Some, forgetfs.Torn)
			cuts[i] = &cut
		}
	}
	var struck atomic.Int64
	eachOf(t, len(at), *togetherFlag, func(i int) string { return fmt.Sprint(at[i]) }, func(t *testing.T, i int) {
		v := newLife(t, bin, s, args...)
		trap := trap
		trap.N, trap.Do = at[i], forgetfs.Fail
		s.run(t, v, trap)
		where := v.disk().Struck()
		t.Logf("struck at %q, power cut after it: %v", where, cuts[i] != nil)
		if where != "" {
			struck.Add(1)
			v.failed(t, trap.Err)
		}
		v.disk().Clear()
		if cuts[i] != nil {
			v.cut(t, []int{0}, []forgetfs.Cut{*cuts[i]})
		}
		s.check(t, v)
		if cuts[i] == nil { // what has been found on the machine's cache is there without it
			v.cut(t, []int{0}, []forgetfs.Cut{{Mode: forgetfs.All}})
			s.check(t, v)
		}
	})
	report(t, "%d calls in a life; of %d failures %d struck", all, len(at), struck.Load())
	if struck.Load() == 0 {
		t.Error("no call was made to fail")
	}
}

// failed demands that the node has ended as it should on a disk that fails.
func (v *life) failed(t *testing.T, errno syscall.Errno) {
	t.Helper()
	select {
	case <-v.ended:
	case <-time.After(30 * time.Second):
		t.Fatalf("the disk has failed and the node goes on; %d messages are confirmed", v.ledger.Confirmed())
	}
	b, _ := os.ReadFile(v.node().LogFile)
	last := string(tail(b, 2000))
	// The data directory's own name is in the one above it, and is synced there.
	named := strings.Contains(last, v.node().DataDir) || strings.Contains(last, "sync "+filepath.Dir(v.node().DataDir)+":")
	if v.code <= 0 || !named || !strings.Contains(last, errno.Error()) {
		t.Errorf("ended with code %d (told to stop: %v), want a positive one, and a file named, and %q; the log ends:\n%s", v.code, v.asked, errno.Error(), last)
	}
}

// A sync takes seconds: where it is a follower's nobody waits for it, where it is the leader's all do, and then it goes on; nothing is
// lost.
func TestStalledDisk(t *testing.T) {
	bin := chaosBinary(t)
	withLogStores(t, func(t *testing.T, args ...string) {
		const stall = 6 * time.Second // longer than enqueues may stand still for reasons of the machine
		for _, c := range []struct {
			name string
			most time.Duration // between two confirmed enqueues
		}{{"follower", stall}, {"leader", 2 * stall}} {
			t.Run(c.name, func(t *testing.T) {
				f, cl := startForgetful(t, bin, 3, args...)
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
