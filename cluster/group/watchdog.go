package group

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// The watchdog looks after a leader that leads, says raft, and of which nothing comes: its disk hangs, which raft does not notice, or it refuses
// every entry for a transfer whose end it has missed. Such a leader is to give leadership away and, where it cannot, to end its process: a
// restarted node does no harm.
//
// A leader of which nothing comes because others need their time is none of these. It may be replaying a long log, and raft's loop waits for the
// state machine. Or the follower without which there is no majority is sent a snapshot, or catches up. As long as any of that moves, the
// watchdog waits; and where nothing does, and this node's own disk and raft's loop are well, it tries to give leadership away, and lets
// the leader be for patience times as long: its end would cost the followers what they have got of the snapshot, and serve nobody.

// patience is how many times Limits.WatchdogAfter a leader is left which cannot see what is wrong. It is for what nobody has thought of.
const patience = 6

// stall is what the watchdog has found.
type stall struct {
	why  string
	long time.Duration // since anything moved
	ours bool          // nobody but this node can be at fault
}

// moved notes that something goes on.
func (g *Group) moved() { g.movedAt.Store(int64(g.clock.Mono())) }

// stuck says what is wrong with this leader; nil: nothing, or not for long enough. The state lock is held.
func (g *Group) stuck(now time.Duration) *stall {
	if g.raft.State() != raft.Leader || g.stopping.Load() {
		g.electedAt, g.sparedAt, g.writtenAt = 0, 0, 0
		return nil
	}
	if applied := g.applied.Load(); applied != g.appliedSeen {
		g.appliedSeen = applied
		g.moved()
	}
	since := func(begun time.Duration) time.Duration { return now - max(begun, time.Duration(g.movedAt.Load())) }
	after := g.limits.WatchdogAfter
	if written, behind := g.ahead.progress(); !behind || written != g.writtenSeen || g.writtenAt == 0 {
		g.writtenSeen, g.writtenAt = written, now
	} else if long := now - g.writtenAt; long > after { // whatever else moves
		return &stall{why: fmt.Sprintf("this node's log has not been written for %v", long), long: long, ours: true}
	}
	var s stall
	switch {
	case !g.serving:
		if g.electedAt == 0 {
			g.electedAt = now
		}
		s.long = since(g.electedAt)
		s.why = fmt.Sprintf("elected %v ago and not able to begin", now-g.electedAt)
	case len(g.flights.list) > 0:
		g.electedAt = 0
		s.long = since(max(g.flights.list[0].packed, g.committedAt))
		s.why = fmt.Sprintf("nothing committed for %v with %d entries in flight", s.long, len(g.flights.list))
	default:
		g.electedAt = 0
	}
	if long := g.refusedLast - g.refusedSince; long > after {
		return &stall{why: fmt.Sprintf("raft refuses every entry for %v because of a leadership transfer", long), ours: true}
	}
	if s.long <= after || now-g.sparedAt <= after && g.sparedAt != 0 {
		return nil
	}
	return &s
}

// refusal notes that raft has refused an entry for a transfer. Those make a row that are no further apart than the watchdog waits, with nothing
// committed between; one alone says nothing: the transfer may be over, and nobody have written since. The state lock is held.
func (g *Group) refusal(now time.Duration) {
	if g.refusedSince == 0 || now-g.refusedLast > g.limits.WatchdogAfter {
		g.refusedSince = now
	}
	g.refusedLast = now
}

// trip tries to give leadership away and, if it cannot and this node is at fault, ends the process.
func (g *Group) trip(s *stall) {
	defer g.tripped.Store(false)
	term := g.raft.CurrentTerm()
	g.log.Error("watchdog: leader commits nothing", "term", term, "why", s.why)
	done := make(chan error, 1)
	go func() { done <- g.handOver(context.Background()) }()
	var err error
	select {
	case err = <-done:
	case <-g.stopTimer:
		return
	}
	if g.raft.State() != raft.Leader || g.raft.CurrentTerm() != term {
		return
	}
	if s.ours || errors.Is(err, errLoopWaits) || s.long > patience*g.limits.WatchdogAfter {
		g.fatal(fmt.Errorf("leader of term %d is stuck (%s) and cannot step down: %w", term, s.why, err))
		return
	}
	g.log.Warn("watchdog: this node is well, and no follower that a majority needs takes anything", "term", term, "err", err)
	g.mu.Lock()
	g.sparedAt = g.clock.Mono()
	g.mu.Unlock()
}
