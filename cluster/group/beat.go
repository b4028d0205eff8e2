package group

import (
	"github.com/hashicorp/raft"
)

// SetHeartbeatHandler implements raft.Transport. Raft's own handler (hashicorp/raft v1.8.0, raft.go, processHeartbeat) is not used: it
// would carry a heartbeat out on the goroutine that it came in by, beside raft's loop, and one of a newer term changes state and term
// there. A leader that waits in its loop for the next entry gives that entry the term of the leader that has taken its place, and two
// entries of one index and term are never compared again: the nodes' logs part for good. A candidate that is just being elected leads in
// another's term, and a term that is being written can fall back to an older one (hashicorp/raft#695).
func (g *gate) SetHeartbeatHandler(func(raft.RPC)) { g.Transport.SetHeartbeatHandler(g.beat) }

// beat answers a heartbeat of the leader that this node follows at once, however long raft's loop waits for the disk, as raft's own handler
// is for: nothing of raft changes by that. That this node was in no newer term while it looked is all that the answer says, and a vote in a
// newer one is given after the term has been taken on. Raft's loop hears of it when it has time, a heartbeat or two late; what keeps it for
// long is mostly an entry or a snapshot of that leader, which puts off its election as well, and where it is not, a vote is asked for
// before the election (pre-vote) and refused. All other heartbeats are the loop's.
func (g *gate) beat(rpc raft.RPC) {
	r := g.raft.Load()
	req, ok := rpc.Command.(*raft.AppendEntriesRequest)
	if !ok || r == nil || g.broken() || r.State() != raft.Follower || r.CurrentTerm() != req.Term {
		g.give(rpc, nil)
		return
	}
	rpc.Respond(&raft.AppendEntriesResponse{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}, Term: req.Term, LastLog: r.LastIndex(), Success: true,
	}, nil)
	select {
	case g.latest <- req:
	default:
	}
}
