package group

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// An entry is new where its leader had not called it committed, in the request or just before.
func TestArrivals(t *testing.T) {
	t.Parallel()
	request := func(term, commit uint64, entries ...*raft.Log) *raft.AppendEntriesRequest {
		return &raft.AppendEntriesRequest{Term: term, LeaderCommitIndex: commit, Entries: entries}
	}
	entry := func(index, term uint64) *raft.Log { return &raft.Log{Index: index, Term: term} }
	for _, test := range []struct {
		name string
		do   func(a *arrivals)
		want map[uint64]time.Duration // by index, of term 2
	}{
		{"not committed yet", func(a *arrivals) {
			a.note(request(2, 4, entry(4, 2), entry(5, 2), entry(6, 2)), time.Second)
		}, map[uint64]time.Duration{5: time.Second, 6: time.Second}},
		{"committed", func(a *arrivals) { a.note(request(2, 9, entry(5, 2)), time.Second) }, nil},
		{"committed since the last request", func(a *arrivals) {
			a.note(request(2, 4), time.Second)
			a.note(request(2, 6, entry(4, 2), entry(5, 2)), time.Second+electionTimeout)
		}, map[uint64]time.Duration{5: time.Second + electionTimeout}},
		{"committed since one that is long ago", func(a *arrivals) {
			a.note(request(2, 4), time.Second)
			a.note(request(2, 6, entry(5, 2)), time.Second+electionTimeout+1)
		}, nil},
		{"committed since one of another leader", func(a *arrivals) {
			a.note(request(1, 4), time.Second)
			a.note(request(2, 6, entry(5, 2)), time.Second)
		}, nil},
		{"a heartbeat tells nothing", func(a *arrivals) {
			a.note(request(2, 0), time.Second)
			a.note(request(2, 6, entry(5, 2)), time.Second)
		}, nil},
		{"of an earlier leader", func(a *arrivals) {
			a.note(request(3, 4, entry(5, 2), entry(6, 3)), time.Second)
		}, nil},
		{"the next leader's in its place", func(a *arrivals) {
			a.note(request(1, 4, entry(5, 1)), time.Second)
			a.note(request(3, 4, entry(5, 3)), time.Second)
		}, nil},
		{"more than there is room for", func(a *arrivals) {
			for i := range uint64(70) {
				a.note(request(2, 4, entry(5+i, 2)), time.Second)
			}
		}, map[uint64]time.Duration{11: time.Second, 74: time.Second}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var a arrivals
			test.do(&a)
			for _, i := range []uint64{4, 5, 6, 10, 11, 74, 75} {
				at, ok := a.of(i, 2)
				want, fresh := test.want[i]
				if ok != fresh || at != want {
					t.Errorf("entry %d came at %v (new: %v), want %v (%v)", i, at, ok, want, fresh)
				}
			}
		})
	}
}
