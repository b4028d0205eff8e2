package group

import (
	"github.com/hashicorp/raft"
)

// known is a request for entries as raft is to take it, where this node has what a majority has up to entry have. Raft (hashicorp/raft
// v1.8.0, raft.go, appendEntries) takes it too literally in two ways.
//
// It calls committed what the leader has committed, as far as its own log goes, and not as far as the request shows that the two logs agree
// (Ongaro's dissertation, figure 3.1: the index of the last new entry). A leader reads its commit index after it has looked where its log
// ends (replication.go, replicateTo), so the first request of a new one may say that its first entry is committed and end before it; a node
// that led until then, with entries of its own from there on, would apply those. (G15)
//
// And it looks up the entry before the new ones, and each that comes again, in a log that may have been cut from below: after a snapshot was
// installed, or one of its own has let it. It refuses then, the leader goes back to where its own log begins, sends a snapshot that this
// node has, and so on without end. What is committed here is a beginning of the log of every leader whose request raft does not refuse for
// its term, so up to there nothing need be compared or stored.
//
// The sender's request stays as it is: transports in memory hand over the sender's own.
func known(req *raft.AppendEntriesRequest, have uint64) *raft.AppendEntriesRequest {
	shown := req.PrevLogEntry
	if n := len(req.Entries); n > 0 {
		shown = req.Entries[n-1].Index
	}
	again := req.PrevLogEntry <= have && (req.PrevLogEntry > 0 || len(req.Entries) > 0 && req.Entries[0].Index <= have)
	if req.LeaderCommitIndex <= shown && !again {
		return req
	}
	own := *req
	own.LeaderCommitIndex = min(req.LeaderCommitIndex, shown)
	if again {
		own.PrevLogEntry, own.PrevLogTerm = 0, 0
		for len(own.Entries) > 0 && own.Entries[0].Index <= have {
			own.Entries = own.Entries[1:]
		}
	}
	return &own
}
