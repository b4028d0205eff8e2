package group

import (
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// inbox is where the requests of other nodes come in, before raft gets them: votes asked for are judged by the logs alone (ballot.go),
// heartbeats are kept from changing raft beside its own loop (beat.go), and after a failure of a store nothing comes through.
type inbox struct {
	raft.Transport
	out    chan raft.RPC
	latest chan *raft.AppendEntriesRequest // one heartbeat that has been answered and that raft has not heard of
	failed <-chan struct{}                 // closed when a store has failed; nil: never
	end    <-chan struct{}                 // closed when raft has ended
	raft   atomic.Pointer[raft.Raft]       // nil until pass
}

func newInbox(t raft.Transport, failed, end <-chan struct{}) *inbox {
	return &inbox{Transport: t, out: make(chan raft.RPC), latest: make(chan *raft.AppendEntriesRequest, 1), failed: failed, end: end}
}

// transport is for raft to use; it has all that raft looks for in the one below.
func (in *inbox) transport() raft.Transport {
	if p, ok := in.Transport.(raft.WithPreVote); ok {
		return struct {
			*inbox
			raft.WithPreVote
		}{in, p}
	}
	return in
}

// Consumer implements raft.Transport.
func (in *inbox) Consumer() <-chan raft.RPC { return in.out }

// Close implements raft.WithClose.
func (in *inbox) Close() error {
	if c, ok := in.Transport.(raft.WithClose); ok {
		return c.Close()
	}
	return nil
}

// pass hands on what comes in for r until the end. voter is somebody who votes, "" where nobody is known to.
func (in *inbox) pass(r *raft.Raft, voter func() raft.ServerID) {
	in.raft.Store(r)
	for {
		var rpc raft.RPC
		select {
		case rpc = <-in.Transport.Consumer():
			rpc.Command = ballot(rpc.Command, voter)
		case beat := <-in.latest:
			rpc = raft.RPC{Command: beat, RespChan: make(chan raft.RPCResponse, 1)}
		case <-in.end:
			return
		}
		if !in.give(rpc) {
			return
		}
	}
}

// give waits until raft's loop takes a request; false: it takes none any more, and nobody answers this one. After a failed write raft goes on as
// if it had what it has not (hashicorp/raft v1.8.0, raft.go, appendEntries: "leaving r.getLastLog() in the wrong state"), and would panic
// over the entries that the next request calls committed, in the middle of the node's orderly end. The loop waits in the store that has
// failed until it is let go (store.Halt), so whoever waits here has seen it by then.
func (in *inbox) give(rpc raft.RPC) bool {
	if in.broken() {
		return false
	}
	select {
	case in.out <- rpc:
		return true
	case <-in.failed:
		return false
	case <-in.end:
		return false
	}
}

// broken says whether a store has failed.
func (in *inbox) broken() bool {
	select {
	case <-in.failed:
		return true
	default:
		return false
	}
}
