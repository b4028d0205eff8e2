package cluster

import (
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/store"
)

// A non-voter that is removed while it is asked how it is, is not put back as a voter: who has removed it switches it off, and of a cluster
// of one a majority would be gone.
func TestRemovedIsNotPromoted(t *testing.T) {
	t.Parallel()
	n := alone(t)
	f := newFake(t, n, "n2")
	var once sync.Once
	f.asked = func(*request) *answer {
		once.Do(func() {
			if err := n.Remove(within(t, 10*time.Second), "n2"); err != nil {
				t.Errorf("remove: %v", err)
			}
		})
		return nil
	}
	must(t, n.group.Raft().AddNonvoter(f.id(), f.addr(), 0, 0).Error())
	ends(t, "the promotion", n.promoteJoined)
	if m := latest(t, n); !maps.Equal(m, map[string]raft.ServerSuffrage{"n1": raft.Voter}) {
		t.Errorf("members %v", m)
	}
}

func TestPromotion(t *testing.T) {
	t.Parallel()
	n := alone(t)
	f := newFake(t, n, "n2")
	must(t, n.group.Raft().AddNonvoter(f.id(), f.addr(), 0, 0).Error())
	end, gerr := n.turn(t.Context())
	if gerr != nil {
		t.Fatal(gerr)
	}
	ends(t, "a promotion whose turn does not come", n.promoteJoined)
	end()
	if m := latest(t, n); m["n2"] != raft.Nonvoter {
		t.Errorf("promoted by what it said a second before, or out of turn: %v", m)
	}
	ends(t, "a promotion in turn", n.promoteJoined)
	if m := latest(t, n); m["n2"] != raft.Voter {
		t.Errorf("not promoted: %v", m)
	}
}

// A change is made on the configuration that it was decided on, or not at all: another leader may have changed it between two terms of this one.
func TestChangeOfWhatWasReadOnly(t *testing.T) {
	t.Parallel()
	n := alone(t)
	r := n.group.Raft()
	f := newFake(t, n, "n2")
	var done atomic.Bool
	var others atomic.Int32
	f.asked = func(*request) *answer {
		if len(n.changes) == 1 && !done.Load() { // it is the removal that asks
			id := fmt.Sprint("another", others.Add(1))
			must(t, r.AddNonvoter(raft.ServerID(id), raft.ServerAddress(id+"@127.0.0.1:1"), 0, 0).Error())
		}
		return nil
	}
	must(t, r.AddVoter(f.id(), f.addr(), 0, 0).Error())
	err := n.Remove(within(t, 10*time.Second), "n2")
	if err == nil || !strings.Contains(err.Error(), "configuration changed since") {
		t.Errorf("remove: %v", err)
	}
	if m := latest(t, n); m["n2"] != raft.Voter || m["another1"] != raft.Nonvoter {
		t.Errorf("members %v", m)
	}
	done.Store(true)
	if err := n.Remove(within(t, 10*time.Second), "n2"); err != nil {
		t.Errorf("remove, again: %v", err)
	}
}

// stuck is a node that leads and cannot commit: its other voter hears it and takes nothing.
func stuck(t *testing.T) (n *Node, voter *fake) {
	t.Helper()
	n = alone(t)
	voter = newFake(t, n, "n2")
	must(t, n.group.Raft().AddVoter(voter.id(), voter.addr(), 0, 0).Error())
	voter.stalled.Store(true)
	return n, voter
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.NewTimer(20 * time.Second)
	defer end.Stop()
	for tick := time.NewTicker(time.Millisecond); !ok(); {
		select {
		case <-tick.C:
		case <-end.C:
			t.Fatalf("waited 20 s for %s", what)
		}
	}
}

// Whoever announces himself is answered in his time, whatever keeps the change from being made.
func TestJoinEndsInTime(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(t *testing.T, n *Node, f, voter *fake){
		"another change is under way": func(t *testing.T, n *Node, _, _ *fake) {
			if _, err := n.turn(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"a new one is not committed": func(*testing.T, *Node, *fake, *fake) {},
		"one that has moved is not committed": func(t *testing.T, n *Node, f, voter *fake) {
			voter.stalled.Store(false)
			must(t, n.group.Raft().AddNonvoter(f.id(), "n3@127.0.0.1:1", 0, 0).Error())
			voter.stalled.Store(true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, voter := stuck(t)
			f := newFake(t, n, "n3")
			begin(t, n, f, voter)
			ends(t, "the answer", func() {
				if a := f.announces(within(t, 300*time.Millisecond), n, true); a.Code != codeTimeout {
					t.Errorf("answer %+v, want %s", a, codeTimeout)
				}
			})
		})
	}
}

// What is not committed may be taken back by another leader, and nobody is told that he is a member by that, or that he is none: a node that has
// been told either keeps it on its disk.
func TestNothingIsToldThatIsNotCommitted(t *testing.T) {
	t.Parallel()
	t.Run("a new one that asks", func(t *testing.T) {
		t.Parallel()
		n, voter := stuck(t)
		f := newFake(t, n, "n3")
		n.group.Raft().AddNonvoter(f.id(), f.addr(), 0, 0)
		until(t, "it to be in the log", func() bool { return len(latest(t, n)) == 3 })
		if a := f.announces(within(t, 5*time.Second), n, true); a.Code != codeTimeout {
			t.Errorf("answer %+v, want %s", a, codeTimeout)
		}
		voter.stalled.Store(false)
		until(t, "it to be let in", func() bool { return f.announces(within(t, 5*time.Second), n, true).Code == "" })
	})
	t.Run("one that goes asks", func(t *testing.T) {
		t.Parallel()
		n := alone(t)
		var voters []*fake
		for i := range 2 {
			f := newFake(t, n, fmt.Sprint("n", 2+i))
			must(t, n.group.Raft().AddVoter(f.id(), f.addr(), 0, 0).Error())
			voters = append(voters, f)
		}
		for _, f := range voters {
			f.stalled.Store(true)
		}
		gone := voters[0]
		n.group.Raft().RemoveServer(gone.id(), 0, 0)
		until(t, "the removal to be in the log", func() bool { return len(latest(t, n)) == 2 })
		if a := gone.announces(within(t, 5*time.Second), n, false); a.Code != codeTimeout {
			t.Errorf("answer %+v, want %s", a, codeTimeout)
		}
		voters[1].stalled.Store(false)
		until(t, "it to be told", func() bool { return gone.announces(within(t, 5*time.Second), n, false).Code == codeRemoved })
	})
	t.Run("a new one that is seen", func(t *testing.T) {
		t.Parallel()
		n, voter := stuck(t)
		f := newFake(t, n, "n3")
		f.Cluster = store.UUID{}
		var told atomic.Bool
		f.asked = func(q *request) *answer {
			told.Store(told.Load() || q.Op == opAdopt)
			return &answer{}
		}
		n.peers.learn(f.UUID, 1, func(p *peer) { p.Label, p.Raft, p.Alive = f.Label, f.l.Addr(), true })
		n.group.Raft().AddNonvoter(f.id(), f.addr(), 0, 0)
		until(t, "it to be in the log", func() bool { return len(latest(t, n)) == 3 })
		if n.welcome(); told.Load() {
			t.Error("it was told")
		}
		voter.stalled.Store(false)
		until(t, "it to be told", func() bool { n.welcome(); return told.Load() })
	})
}

// inside is how many goroutines are in a method of Node.
func inside(method string) int {
	b := make([]byte, 4<<20)
	return strings.Count(string(b[:runtime.Stack(b, true)]), "cluster.(*Node)."+method+"(")
}

// stops fails the test if n does not stop.
func stops(t *testing.T, n *Node) {
	t.Helper()
	ends(t, "the stop", func() {
		if err := n.Stop(within(t, 15*time.Second)); err != nil {
			t.Error(err)
		}
	})
}

// A node stops while others wait to be let in, and a promotion that cannot be committed waits as well.
func TestStopWhileChangesWait(t *testing.T) {
	t.Parallel()
	t.Run("joins", func(t *testing.T) {
		t.Parallel()
		n, _ := stuck(t)
		const joiners = 12
		var wg sync.WaitGroup
		defer wg.Wait()
		for i := range joiners {
			f := newFake(t, n, fmt.Sprint("n", 3+i))
			f.Cluster = store.UUID{}
			a := f.announcement()
			wg.Go(func() {
				_, _, _ = callOver(within(t, 20*time.Second), f.l, n.RaftAddr(), n.self().UUID, &request{Op: opJoin, Join: &a})
			})
		}
		until(t, "all of them to wait", func() bool { return len(latest(t, n)) == 3 && inside("turn") >= joiners-1 })
		stops(t, n)
	})
	t.Run("a promotion", func(t *testing.T) {
		t.Parallel()
		n, voter := stuck(t)
		voter.stalled.Store(false)
		f := newFake(t, n, "n3")
		must(t, n.group.Raft().AddNonvoter(f.id(), f.addr(), 0, 0).Error())
		voter.stalled.Store(true)
		f.stalled.Store(true)
		n.wg.Go(n.promoteJoined)
		until(t, "the promotion to wait", func() bool { return latest(t, n)["n3"] == raft.Voter })
		began := time.Now()
		stops(t, n)
		if took := time.Since(began); took > changeWithin {
			t.Errorf("the stop took %v", took)
		}
	})
}
