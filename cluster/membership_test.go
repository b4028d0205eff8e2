package cluster

import (
	"fmt"
	"testing"

	"github.com/hashicorp/raft"
)

// What a removal leaves can decide only if a majority of it is there and knows who votes.
func TestRemaining(t *testing.T) {
	t.Parallel()
	const committed = 100
	at := func(index uint64) *statusAnswer { return &statusAnswer{Informed: index, Applied: index - 2} } // raft's own are in no state
	cases := []struct {
		name                  string
		status                []*statusAnswer // of voters a, b, c and so on; the first one goes
		nonvoter              int             // how many of the last ones do not vote
		rest, alive, informed int
		whole                 bool
	}{
		{"all are there", []*statusAnswer{at(100), at(100), at(103)}, 0, 2, 2, 2, true},
		{"who goes is not counted", []*statusAnswer{at(100), nil, at(100)}, 0, 2, 1, 1, false},
		{"who goes may be dead", []*statusAnswer{nil, at(100), at(100)}, 0, 2, 2, 2, true},
		{"one of two that stay is behind", []*statusAnswer{at(100), at(100), at(99)}, 0, 2, 2, 1, false},
		{"one of three that stay is behind", []*statusAnswer{at(100), at(100), at(3), at(100)}, 0, 3, 3, 2, true},
		{"one of three is dead and one behind", []*statusAnswer{at(100), at(100), nil, at(99)}, 0, 3, 2, 1, false},
		{"who does not vote is not counted", []*statusAnswer{at(100), at(100), at(3), at(100)}, 1, 2, 2, 1, false},
		{"one is left", []*statusAnswer{nil, at(100)}, 0, 1, 1, 1, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var servers []raft.Server
			for i := range c.status {
				s := raft.Server{ID: raft.ServerID(fmt.Sprint("n", i)), Suffrage: raft.Voter}
				if i >= len(c.status)-c.nonvoter {
					s.Suffrage = raft.Nonvoter
				}
				servers = append(servers, s)
			}
			rest, alive, informed := remaining(servers, "n0", c.status, committed)
			if rest != c.rest || alive != c.alive || informed != c.informed || informed >= rest/2+1 != c.whole {
				t.Errorf("%d stay, %d answer, %d are informed; want %d, %d, %d", rest, alive, informed, c.rest, c.alive, c.informed)
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
