package cluster

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
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
