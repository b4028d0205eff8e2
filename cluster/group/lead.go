package group

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/mutant"
)

// epochFirst is the epoch of a cluster that was not restored from a backup.
const epochFirst = 1

// lookAgain is how soon a leader that could not begin to serve tries again.
const lookAgain = 50 * time.Millisecond

// lead follows this node's leadership. What raft says on its channel only means that something has changed: intermediate
// values may be dropped there, so each time the present state is looked at.
func (g *Group) lead() {
	again := time.NewTimer(time.Hour)
	defer again.Stop()
	for {
		select {
		case <-g.raft.LeaderCh():
		case <-again.C:
		case <-g.stopLead:
			return
		}
		if !g.look() {
			again.Reset(lookAgain)
		}
	}
}

// look brings what this node does in line with what raft says it is; false: it should lead and does not yet.
func (g *Group) look() (settled bool) {
	term := g.raft.CurrentTerm()
	leader := g.raft.State() == raft.Leader
	g.mu.Lock()
	serving, serves := g.serving, g.term
	g.mu.Unlock()
	if serving && (!leader || term != serves) {
		g.log.Info("leadership lost", "term", serves)
		g.lose(nil, RedirectNotLeader)
		serving = false
	}
	if !leader || serving || g.stopping.Load() {
		return true
	}
	return g.win(term)
}

// win begins to serve: first everything of earlier terms must be in the state, so that no answer is older than one that
// was given before, and the log must have its first operation.
func (g *Group) win(term uint64) bool {
	began := g.clock.Mono()
	if err := g.barrier(); err != nil {
		g.log.Info("barrier failed", "term", term, "err", err)
		return g.raft.State() != raft.Leader
	}
	g.mu.Lock()
	g.time.lead()
	bare := g.st.Cluster() == [16]byte{}
	cluster := g.cluster
	g.mu.Unlock()
	if bare && !g.writeFirst(cluster) {
		return g.raft.State() != raft.Leader
	}
	if g.raft.State() != raft.Leader || g.raft.CurrentTerm() != term || g.stopping.Load() {
		g.mu.Lock()
		g.time.follow()
		g.mu.Unlock()
		return true // raft says so on the channel, and we look again
	}
	g.mu.Lock()
	g.dispatch.reset()
	g.serving, g.term = true, term
	g.holdUntil, g.refusedSince, g.refusedLast, g.committedAt = 0, 0, 0, g.clock.Mono()
	g.mu.Unlock()
	g.leads.Store(true)
	g.intake.mu.Lock()
	g.intake.open = true
	g.intake.mu.Unlock()
	g.metrics.leader(true)
	g.log.Info("leading", "term", term, "index", g.applied.Load(), "took", g.clock.Mono()-began)
	g.wakeTimer()
	g.kick()
	return true
}

// barrier waits until the entries of earlier terms are in the state.
func (g *Group) barrier() error {
	if mutant.NoBarrierAfterElection {
		return nil
	}
	return g.raft.Barrier(0).Error()
}

// writeFirst writes the operation that begins a cluster's log. Nothing else is proposed before it.
func (g *Group) writeFirst(cluster [16]byte) bool {
	if cluster == ([16]byte{}) {
		g.log.Error("elected with an empty log and no cluster id; waiting for one")
		return false
	}
	data := fsm.AppendEntryHeader(nil, 0, 0)
	data = fsm.AppendOp(data, &fsm.Bootstrap{Cluster: cluster, Epoch: epochFirst})
	g.mu.Lock()
	now, shift := g.time.stamp()
	g.mu.Unlock()
	fsm.SetEntryTime(data, now, shift)
	if err := g.raft.ApplyLog(raft.Log{Data: data}, 0).Error(); err != nil {
		g.log.Warn("first operation failed", "err", err)
		return false
	}
	return true
}

// lose ends everything that only a leader does: what waits is refused, what is in flight is unknown, sessions are told
// where to go. why is nil for "ask the new leader".
func (g *Group) lose(why *Error, reason string) {
	g.leads.Store(false)
	waiting := g.intake.close()
	if why == nil {
		why = g.notLeading()
	}
	var b batch
	b.failAll(waiting, why)
	g.mu.Lock()
	was := g.serving
	g.serving = false
	g.time.follow()
	for len(g.flights.list) > 0 {
		f := g.flights.remove(0)
		g.abandon(f, errLost, &b)
		g.flights.recycle(f)
	}
	g.redirect(why, reason, &b)
	g.pullNext = 0
	g.tasks.failAll(why)
	g.recorded.failAll(why)
	g.deaths.failAll(why)
	g.watchers.wake(why)
	g.dispatch.reset()
	g.mu.Unlock()
	if was {
		g.metrics.leader(false)
	}
	g.finish(&b)
}

// redirect ends all sessions here. The state lock is held.
func (g *Group) redirect(why *Error, reason string, b *batch) {
	for _, s := range g.dispatch.sessions {
		conn := s.conn
		s.leave(why)
		if conn != nil {
			conn.Redirect(why.Leader, reason)
			conn.Flush()
		}
	}
	clear(g.dispatch.sessions)
	for _, o := range g.orphans {
		b.fail(o.p, o.why)
	}
	g.orphans = g.orphans[:0]
}

// farewell tells sessions to move and takes nothing more; what is in flight goes on.
func (g *Group) farewell() {
	waiting := g.intake.close()
	var b batch
	b.failAll(waiting, errStopping)
	g.mu.Lock()
	g.redirect(errStopping, RedirectStopping, &b)
	g.mu.Unlock()
	g.finish(&b)
}

var errLoopWaits = errors.New("raft's loop does not answer")

// handOver has raft hand leadership to another voter, and waits for that for Limits.TransferWithin at most. Raft is asked where its loop
// answers alone: a transfer that the loop has not come to when raft ends is never answered.
func (g *Group) handOver(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, g.limits.TransferWithin)
	defer cancel()
	if !g.gate.awake(ctx.Done()) {
		return errLoopWaits
	}
	done := make(chan error, 1)
	go func() { done <- g.raft.LeadershipTransfer().Error() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("no answer within %v", g.limits.TransferWithin)
	}
}
