package cluster

import (
	"fmt"
	"testing"

	"github.com/hashicorp/raft"
)

// What a removal leaves can decide only if a majority of it is there.
func TestRemaining(t *testing.T) {
	t.Parallel()
	here := &statusAnswer{}
	for _, c := range []struct {
		name        string
		status      []*statusAnswer // of voters a, b, c and so on; the first one goes
		nonvoter    int             // how many of the last ones do not vote
		rest, alive int
	}{
		{"all are there", []*statusAnswer{here, here, here}, 0, 2, 2},
		{"who goes is not counted", []*statusAnswer{here, nil, here}, 0, 2, 1},
		{"who goes may be dead", []*statusAnswer{nil, here, here}, 0, 2, 2},
		{"who does not vote is not counted", []*statusAnswer{here, here, here, here}, 1, 2, 2},
		{"one is left", []*statusAnswer{nil, here}, 0, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var servers []raft.Server
			for i := range c.status {
				s := raft.Server{ID: raft.ServerID(fmt.Sprint("n", i)), Suffrage: raft.Voter}
				if i >= len(c.status)-c.nonvoter {
					s.Suffrage = raft.Nonvoter
				}
				servers = append(servers, s)
			}
			if rest, alive := remaining(servers, "n0", c.status); rest != c.rest || alive != c.alive {
				t.Errorf("%d stay, %d answer; want %d, %d", rest, alive, c.rest, c.alive)
			}
		})
	}
}

// A non-voter is promoted when it is near, however many entries of raft's own there were while nobody wrote.
func TestCaughtUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		applied, informed uint64
		want              bool
	}{
		{"all of it", 1000, 1000, true},
		{"near", 900, 1000 - promoteLag, true},
		{"far", 900, 1000 - promoteLag - 1, false},
		{"what came after the last write is raft's own", 5, 1000, true},
		{"no state yet", 0, 1000, false},
		{"says nothing of it", 1000, 0, false},
	} {
		if got := (&statusAnswer{Applied: c.applied, Informed: c.informed}).caughtUp(1000); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
