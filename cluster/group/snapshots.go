package group

import (
	"errors"
	"time"

	"github.com/hashicorp/raft"
)

const (
	snapshotLook  = 250 * time.Millisecond // how often the log's growth is looked at
	snapshotRetry = 10 * time.Second       // after a failure
	trailingLeast = 64                     // entries; a follower that is a moment late needs no snapshot
	trailingMost  = 1 << 20
)

// keepSnapshots has raft take a snapshot when the log has grown by Limits.SnapshotBytes, and sets how many entries stay
// behind it so that they are about Limits.TrailingBytes. One goroutine.
func (g *Group) keepSnapshots() {
	t := time.NewTimer(snapshotLook)
	defer t.Stop()
	from := g.applied.Load()
	for {
		select {
		case <-t.C:
		case <-g.stopSnapshot:
			return
		}
		next := snapshotLook
		if bytes := g.logBytes.Load(); bytes >= g.limits.SnapshotBytes && !g.broken.Load() {
			if to := g.applied.Load(); g.snapshot(bytes, to-min(from, to)) {
				g.logBytes.Add(-bytes)
				from = to
			} else {
				next = snapshotRetry
			}
		}
		t.Reset(next)
	}
}

// snapshot takes one, of a log that grew by so many bytes and entries since the last.
func (g *Group) snapshot(bytes int64, entries uint64) bool {
	rc := g.raft.ReloadableConfig()
	average := max(uint64(bytes)/max(entries, 1), 1)
	rc.TrailingLogs = min(max(uint64(g.limits.TrailingBytes)/average, trailingLeast), trailingMost)
	if err := g.raft.ReloadConfig(rc); err != nil {
		g.log.Error("trailing logs not set", "count", rc.TrailingLogs, "err", err)
	}
	began := g.clock.Mono()
	err := g.raft.Snapshot().Error()
	took := g.clock.Mono() - began
	switch {
	case errors.Is(err, raft.ErrNothingNewToSnapshot):
		return true
	case err != nil:
		g.log.Warn("snapshot failed", "err", err, "took", took)
		return false
	}
	g.metrics.snapshot(took)
	g.log.Info("snapshot taken", "index", g.applied.Load(), "bytes", bytes, "entries", entries, "took", took)
	return true
}
