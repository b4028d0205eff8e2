package group

import (
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// late looks at a snapshot before raft does, and says whether it has seen to it.
//
// A snapshot that has nothing which this node has not is not installed. A connection that its sender has given up may still bring what it had
// taken, when the snapshot has long come by another one and what follows it has been confirmed; raft (raft.go, installSnapshot) asks for the
// term alone, goes back to the older state, and drops a log without gaps whole: this node would have lost what it had confirmed. What is
// committed or applied here is a beginning of every later leader's log, so the snapshot's sender can go on from the snapshot's end.
//
// One of a term that is over is refused here, as raft would, which would read all of it first and do nothing else meanwhile.
//
// Raft's loop may still be at work on what came in before, so it is first given a heartbeat of the snapshot's sender, whose answer shows that
// it is done, and which has it take on the term. Nothing but heartbeats reaches it from there until this returns.
func (g *gate) late(rpc raft.RPC, req *raft.InstallSnapshotRequest) bool {
	r := g.raft.Load()
	if r == nil || r.CurrentTerm() == 0 {
		return false
	}
	beat := g.ask(&raft.AppendEntriesRequest{RPCHeader: req.RPCHeader, Term: req.Term}, nil)
	if beat == nil { // raft takes nothing any more
		return false
	}
	if beat.Success && req.LastLogIndex > g.have() {
		if last := r.LastIndex(); last > req.LastLogIndex {
			g.replace(rpc, req.LastLogIndex, last)
			return true
		}
		return false
	}
	drain(rpc, raft.InstallSnapshotResponse{RPCHeader: beat.RPCHeader, Term: beat.Term, Success: beat.Success})
	return true
}

// drain reads what comes with a request, as long as the connection brings something, and then answers.
func drain(rpc raft.RPC, resp raft.InstallSnapshotResponse) {
	go func() {
		_, err := io.Copy(io.Discard, rpc.Reader)
		resp.Success = resp.Success && err == nil
		rpc.Respond(&resp, err)
	}()
}

// replace has a snapshot installed that ends at index, within a log that ended at last, and the process end. Raft drops such a log, whose end
// is another one's than the leader's, and goes on to believe that it ends where it did: it would look for what the leader sends next in what is
// gone, and refuse it for good, or panic over it (hashicorp/raft#697 is of the same kind). So it is handed nothing more. A start asks the
// log store.
func (g *gate) replace(rpc raft.RPC, index, last uint64) {
	asked := rpc.RespChan
	answer := make(chan raft.RPCResponse, 1)
	rpc.RespChan = answer
	if !g.give(rpc, nil) {
		return
	}
	select {
	case a := <-answer:
		if resp, ok := a.Response.(*raft.InstallSnapshotResponse); ok && resp.Success {
			g.spent.Store(true)
			g.fatal(fmt.Errorf("%w: entries up to %d, after those of the snapshot up to %d, were of a leader that has been replaced; "+
				"start this node again and it goes on from here", ErrLogReplaced, last, index))
		}
		asked <- a // has room
	case <-g.failed:
	case <-g.end:
	}
}

// ErrLogReplaced ends a process that has been given a snapshot in place of a part of its log. Nothing is lost by that, and the next start goes on.
var ErrLogReplaced = errors.New("a snapshot has been installed within the log")
