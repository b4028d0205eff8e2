package group

import (
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// gate stands between raft and the transport, for what raft (hashicorp/raft v1.8.0) would take or send and must not. What comes in: votes
// asked for are judged by the logs alone (ballot.go), heartbeats are kept from changing raft beside its own loop (beat.go), entries are
// committed as far as their request shows that they are the leader's, and what is committed is not compared again (entries.go), a snapshot of
// what is there already is not installed, and one that ends within the log ends the process (late.go), and after a failure of a store
// nothing comes through. When new entries come is noted (arrivals.go). What goes out: no entries that a leader which is none any more has
// read from a log that is being replaced (AppendEntries).
type gate struct {
	raft.Transport
	out    chan raft.RPC
	latest chan *raft.AppendEntriesRequest // one heartbeat that has been answered and that raft has not heard of
	fatal  func(error)                     // ends the process
	moved  func()                          // hears that a follower has taken something, or that a snapshot goes out to one
	failed <-chan struct{}                 // closed when a store has failed; nil: never
	end    <-chan struct{}                 // closed when raft has ended
	raft   atomic.Pointer[raft.Raft]       // nil until open
	spent  atomic.Bool                     // raft is to be handed nothing any more (late.go)
	mono   func() time.Duration            // Clock.Mono

	arrivals arrivals
}

func newGate(t raft.Transport, mono func() time.Duration, fatal func(error), moved func(), failed, end <-chan struct{}) *gate {
	return &gate{
		Transport: t, out: make(chan raft.RPC), latest: make(chan *raft.AppendEntriesRequest, 1), fatal: fatal, moved: moved, failed: failed, end: end,
		mono: mono,
	}
}

// transport is for raft to use; it has all that raft looks for in the one below.
func (g *gate) transport() raft.Transport {
	if p, ok := g.Transport.(raft.WithPreVote); ok {
		return struct {
			*gate
			raft.WithPreVote
		}{g, p}
	}
	return g
}

// Consumer implements raft.Transport.
func (g *gate) Consumer() <-chan raft.RPC { return g.out }

// Close implements raft.WithClose.
func (g *gate) Close() error {
	if c, ok := g.Transport.(raft.WithClose); ok {
		return c.Close()
	}
	return nil
}

// open says whose gate it is; until then heartbeats are left to raft's loop, and all else waits.
func (g *gate) open(r *raft.Raft) { g.raft.Store(r) }

// pass hands on what comes in until the end. voter is somebody who votes, "" where nobody is known to.
func (g *gate) pass(voter func() raft.ServerID) {
	for {
		var rpc raft.RPC
		select {
		case rpc = <-g.Transport.Consumer():
			rpc.Command = ballot(rpc.Command, voter)
		case beat := <-g.latest:
			rpc = raft.RPC{Command: beat, RespChan: make(chan raft.RPCResponse, 1)}
		case <-g.end:
			return
		}
		switch req := rpc.Command.(type) {
		case *raft.AppendEntriesRequest:
			g.arrivals.note(req, g.mono())
			rpc.Command = known(req, g.have())
		case *raft.InstallSnapshotRequest:
			if g.late(rpc, req) {
				continue
			}
		}
		if !g.give(rpc, nil) {
			return
		}
	}
}

// have is up to where this node has what a majority has. Raft's loop may be on its way to more.
func (g *gate) have() uint64 {
	r := g.raft.Load()
	if r == nil {
		return 0
	}
	return max(r.CommitIndex(), r.AppliedIndex())
}

// give waits until raft's loop takes a request; false: it has not before done was closed, or takes none any more, and nobody answers this one.
// After a failed write raft goes on as if it had what it has not (raft.go, appendEntries, after its DeleteRange), and would panic over the
// entries that the next request calls committed, in the middle of the node's orderly end. The loop waits in the store that has failed until
// it is let go (store.Halt); who waits here has seen it by then.
func (g *gate) give(rpc raft.RPC, done <-chan struct{}) bool {
	if g.broken() {
		return false
	}
	select {
	case g.out <- rpc:
		return true
	case <-done:
		return false
	case <-g.failed:
		return false
	case <-g.end:
		return false
	}
}

// ask has raft's loop answer a request of the gate's own; nil: it has not before done was closed, or does not.
func (g *gate) ask(req *raft.AppendEntriesRequest, done <-chan struct{}) *raft.AppendEntriesResponse {
	answer := make(chan raft.RPCResponse, 1)
	if !g.give(raft.RPC{Command: req, RespChan: answer}, done) {
		return nil
	}
	select {
	case a := <-answer:
		resp, _ := a.Response.(*raft.AppendEntriesResponse)
		return resp
	case <-done:
	case <-g.failed:
	case <-g.end:
	}
	return nil
}

// awake says whether raft's loop answers, before done is closed, a request of a term that is over.
func (g *gate) awake(done <-chan struct{}) bool {
	return g.ask(&raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}}, done) != nil
}

// broken says whether raft is to be handed nothing any more.
func (g *gate) broken() bool {
	select {
	case <-g.failed:
		return true
	default:
		return g.spent.Load()
	}
}

var errDeposed = errors.New("this node does not lead in the request's term any more")

// current refuses a request of a term that is over here. A leader's goroutines read the log beside raft's loop (replication.go,
// setupAppendEntries), and stop after the loop has replaced the log's end by another leader's entries: a request with what stood before an
// entry from before, and the entry from after, would have a follower in the old term put together a log that nobody had. Raft takes on a
// term before it cuts, so a request that was put together wholly before that is in the term still.
func (g *gate) current(req *raft.AppendEntriesRequest) error {
	if r := g.raft.Load(); r != nil && r.CurrentTerm() != req.Term {
		return errDeposed
	}
	return nil
}

// AppendEntries implements raft.Transport.
func (g *gate) AppendEntries(id raft.ServerID, at raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if err := g.current(req); err != nil {
		return err
	}
	err := g.Transport.AppendEntries(id, at, req, resp)
	if err == nil && resp.Success && len(req.Entries) > 0 {
		g.moved()
	}
	return err
}

// InstallSnapshot implements raft.Transport.
func (g *gate) InstallSnapshot(id raft.ServerID, at raft.ServerAddress, req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	return g.Transport.InstallSnapshot(id, at, req, resp, outgoing{data, g.moved})
}

// outgoing is a snapshot on its way to a follower.
type outgoing struct {
	io.Reader
	moved func()
}

// Read implements io.Reader.
func (o outgoing) Read(b []byte) (int, error) {
	n, err := o.Reader.Read(b)
	if n > 0 {
		o.moved()
	}
	return n, err
}

// AppendEntriesPipeline implements raft.Transport.
func (g *gate) AppendEntriesPipeline(id raft.ServerID, at raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := g.Transport.AppendEntriesPipeline(id, at)
	if err != nil {
		return nil, err
	}
	return gatePipeline{p, g}, nil
}

type gatePipeline struct {
	raft.AppendPipeline
	gate *gate
}

// AppendEntries implements raft.AppendPipeline. A pipeline takes no more than a few requests whose answers have not come, so those that it
// takes show that they do.
func (p gatePipeline) AppendEntries(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if err := p.gate.current(req); err != nil {
		return nil, err
	}
	f, err := p.AppendPipeline.AppendEntries(req, resp)
	if err == nil && len(req.Entries) > 0 {
		p.gate.moved()
	}
	return f, err
}
