package group

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// arrivals knows which entries this node was sent when they had just been made, and when that was: those that their own leader had not yet
// called committed, in the same request or in one that came within an election time-out before. A leader that commits nothing for that long
// is soon none. What a node is sent to catch up with, or finds in its log at a start, may be of any age.
//
// An entry that is taken for an old one for want of room, or since it was sent late, has just no say in how late it is. One is taken for new
// wrongly where a request was long on its way: what a process finds in its sockets that was stopped for a while.
type arrivals struct {
	mu   sync.Mutex
	term uint64 // guarded by mu, as is the rest: of the last request that told what is committed
	told uint64
	at   time.Duration
	list [64]arrival // the newest; requests that have come and are not applied are far fewer, but where this node is behind
	next int         // the oldest of them
}

// arrival is a range of entries of one leader that came with one request.
type arrival struct {
	term, first, last uint64
	at                time.Duration
}

// note looks at a request that comes at a monotonic reading.
func (a *arrivals) note(req *raft.AppendEntriesRequest, now time.Duration) {
	if req.LeaderCommitIndex == 0 && len(req.Entries) == 0 { // a heartbeat, which tells nothing
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	old := req.LeaderCommitIndex
	if a.term == req.Term && now-a.at <= electionTimeout {
		old = min(old, a.told)
	}
	if req.LeaderCommitIndex > 0 {
		a.term, a.told, a.at = req.Term, req.LeaderCommitIndex, now
	}
	for _, l := range req.Entries {
		if l.Term == req.Term && l.Index > old {
			a.list[a.next] = arrival{term: req.Term, first: l.Index, last: req.Entries[len(req.Entries)-1].Index, at: now}
			a.next = (a.next + 1) % len(a.list)
			return
		}
	}
}

// of is when an entry came; false: it is old, or may be.
func (a *arrivals) of(index, term uint64) (at time.Duration, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.list {
		if r := &a.list[i]; r.term == term && r.first <= index && index <= r.last {
			return r.at, true
		}
	}
	return 0, false
}
