package group

import (
	"github.com/hashicorp/raft"
)

// SetHeartbeatHandler implements raft.Transport. Raft's own handler (hashicorp/raft v1.8.0, raft.go, processHeartbeat) is not used: it
// would carry a heartbeat out on the goroutine that it came in by, beside raft's loop, and one of a newer term changes state and term
// there. A leader that waits in its loop for the next entry gives that entry the term of the leader that has taken its place, and two
// entries of one index and term are never compared again: the nodes' logs part for good. A candidate that is just being elected leads in
// another's term, and a term that is being written can fall back to an older one (hashicorp/raft#695).
func (in *inbox) SetHeartbeatHandler(func(raft.RPC)) { in.Transport.SetHeartbeatHandler(in.beat) }

// beat answers a heartbeat of the leader that this node follows at once, however long raft's loop waits for the disk, as raft's own handler
// is for: nothing of raft changes by that. That this node was in no newer term while it looked is all that the answer says, and a vote in a
// newer one is given after the term has been taken on. Raft's loop hears of it when it has time, and puts off its election: it is behind
// with one at most, and what keeps it for longer is mostly an entry of that leader, which does the same. All others are the loop's.
func (in *inbox) beat(rpc raft.RPC) {
	r := in.raft.Load()
	req, ok := rpc.Command.(*raft.AppendEntriesRequest)
	if !ok || r == nil || in.broken() || r.State() != raft.Follower || r.CurrentTerm() != req.Term {
		in.give(rpc)
		return
	}
	rpc.Respond(&raft.AppendEntriesResponse{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}, Term: req.Term, LastLog: r.LastIndex(), Success: true,
	}, nil)
	select {
	case in.latest <- req:
	default:
	}
}
