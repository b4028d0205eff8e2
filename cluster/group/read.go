package group

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/mutant"
)

// reads gathers those who wait for the next confirmation of leadership: one round of heartbeats serves all that have come
// before it began.
type reads struct {
	mu   sync.Mutex
	next *readBatch // guarded by mu; nil: nobody waits
	wake chan struct{}
}

type readBatch struct {
	done  chan struct{}
	err   *Error // set before done is closed
	count int
	later []func(st *fsm.State, at Stamp, err *Error)
}

func (r *reads) init() { r.wake = make(chan struct{}, 1) }

// join is the batch to wait for; nil if it is full.
func (r *reads) join(limit int, later func(*fsm.State, Stamp, *Error)) *readBatch {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = &readBatch{done: make(chan struct{})}
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	b := r.next
	if later != nil {
		b.later = append(b.later, later)
		return b
	}
	if b.count >= limit {
		return nil
	}
	b.count++
	return b
}

func (r *reads) take() *readBatch {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.next
	r.next = nil
	return b
}

// Read runs fn with the state lock held. fn must be short (a millisecond at most), must not call the group, and must copy
// what it keeps. A linearizable read is done by the leader alone: it sees everything that was confirmed before Read was
// called. A stale one is done by any node on what it has; AgeMillis says how old that may be.
func (g *Group) Read(ctx context.Context, stale bool, fn func(*fsm.State)) (Stamp, *Error) {
	if !stale {
		if !g.leads.Load() {
			return Stamp{}, g.notLeading()
		}
		b := g.reads.join(g.limits.Readers, nil)
		if b == nil {
			return Stamp{}, errReaders
		}
		select {
		case <-b.done:
		case <-ctx.Done():
			return Stamp{}, errReadLate
		case <-g.stopReads:
			return Stamp{}, errStopping
		}
		if b.err != nil {
			return Stamp{}, b.err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.broken.Load() {
		return Stamp{}, errStopping
	}
	fn(g.st)
	return Stamp{Index: g.st.Index(), Time: g.st.Time()}, nil
}

// AgeMillis is how long ago this node has heard from a leader: a stale read misses at most what was committed since
// then, and what was on its way. 0 on the leader, -1 if it has heard from none.
func (g *Group) AgeMillis() int64 {
	if g.leads.Load() {
		return 0
	}
	last := g.raft.LastContact()
	if last.IsZero() {
		return -1
	}
	return max(time.Since(last).Milliseconds(), 0)
}

// readAsync runs fn with the state lock held after the next confirmation of leadership; err says that there was none, and
// st is nil then.
func (g *Group) readAsync(fn func(st *fsm.State, at Stamp, err *Error)) { g.reads.join(0, fn) }

// verifyReads confirms leadership for the reads that wait. One goroutine.
func (g *Group) verifyReads() {
	for {
		select {
		case <-g.reads.wake:
		case <-g.stopReads:
			return
		}
		b := g.reads.take()
		if b == nil {
			continue
		}
		b.err = g.confirm()
		close(b.done)
		if len(b.later) == 0 {
			continue
		}
		g.mu.Lock()
		for _, fn := range b.later {
			err := b.err
			switch {
			case err != nil:
			case g.closed || g.broken.Load(): // entries go by without being applied
				err = errStopping
			case !g.serving:
				err = errElection
			}
			if err != nil {
				fn(nil, Stamp{}, err)
				continue
			}
			fn(g.st, Stamp{Index: g.st.Index(), Time: g.st.Time()}, nil)
		}
		g.mu.Unlock()
	}
}

// confirm returns when this node was certainly the leader after confirm was called, in the term whose barrier has passed,
// and everything that was committed by then is in the state.
func (g *Group) confirm() *Error {
	g.mu.Lock()
	serving, term := g.serving, g.term
	g.mu.Unlock()
	if !serving {
		return g.notLeading()
	}
	commit := g.raft.CommitIndex()
	for mark := g.contacts.begin(); !mutant.ReadWithoutLeaderCheck; {
		if err := g.raft.VerifyLeader().Error(); err != nil {
			return g.notLeading()
		}
		if g.raft.CurrentTerm() != term {
			return g.notLeading() // lost and won again: the new term's barrier has not passed
		}
		f := g.raft.GetConfiguration()
		if err := f.Error(); err != nil {
			return g.notLeading()
		}
		if g.contacts.majority(g.cfg.LocalID, f.Configuration().Servers, term, mark) {
			break
		}
	}
	target := g.lastForState(commit)
	for g.applied.Load() < target {
		g.wanted.Store(target)
		if g.applied.Load() >= target {
			break
		}
		select {
		case <-g.arrived:
		case <-g.stopReads:
			return errStopping
		}
	}
	g.wanted.Store(0)
	return nil
}

// lastForState is the last index up to commit whose entry is in the state, or is to be: that of a command. All others are raft's own, and
// no read need wait for them; after a snapshot that ends with some, it would wait for ever. An entry that is not in the log any more is in a
// snapshot, and so in the state of a leader, and all that came before it.
func (g *Group) lastForState(commit uint64) uint64 {
	var l raft.Log
	for i := commit; i > g.applied.Load(); i-- {
		switch err := g.cache.GetLog(i, &l); {
		case errors.Is(err, raft.ErrLogNotFound):
			return 0
		case err != nil || l.Type == raft.LogCommand:
			return i
		}
	}
	return 0
}

// SchemaVersion rises with every change of queues' schemas: whoever keeps them ready reads them anew where it has. 0: there has been none, or
// this node does not lead, and is not the one to judge.
func (g *Group) SchemaVersion() uint64 {
	if !g.leads.Load() {
		return 0
	}
	return g.schemas.Load()
}
