package group

import (
	"io"

	"github.com/hashicorp/raft"
)

// late answers a snapshot that has nothing which this node has not, and says whether it did. A connection that its sender has given up may
// still bring what it had taken, when the snapshot has long come by another one and what follows it has been confirmed; raft (raft.go,
// installSnapshot) asks for the term alone, goes back to the older state, and drops a log without gaps whole: this node would have lost what
// it had confirmed.
//
// Raft's loop may still be at work on what came in before, so it is first given a heartbeat of the snapshot's sender, whose answer shows that
// it is done, and which has it take on the term. Nothing but heartbeats reaches it from there until this returns. What is committed or
// applied here is a beginning of every later leader's log, so the snapshot's sender can go on from the snapshot's end.
func (g *gate) late(rpc raft.RPC, req *raft.InstallSnapshotRequest) bool {
	r := g.raft.Load()
	if r == nil || r.CurrentTerm() == 0 {
		return false
	}
	beat := g.ask(&raft.AppendEntriesRequest{RPCHeader: req.RPCHeader, Term: req.Term}, nil)
	if beat == nil || !beat.Success {
		return false // raft refuses the snapshot too, or takes nothing any more
	}
	if req.LastLogIndex > max(r.CommitIndex(), r.AppliedIndex()) {
		return false
	}
	go func() { // as long as the connection brings something, or its end
		_, err := io.Copy(io.Discard, rpc.Reader)
		rpc.Respond(&raft.InstallSnapshotResponse{Term: req.Term, Success: err == nil}, err)
	}()
	return true
}
