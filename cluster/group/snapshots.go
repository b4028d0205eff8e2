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

// snapshotShare is how much smaller than the last snapshot the log may be when the next is due. With a fixed size of log between
// them, ten million messages would be written twenty times for each byte that is new.
const snapshotShare = 4

// snapshotDue is by how many bytes the log is to grow before a snapshot is taken: Limits.SnapshotBytes, or a quarter of a large
// state's, so that what is written for snapshots is never more than four times what is written for entries, and the log behind the
// snapshot is read in less time than the snapshot.
func (g *Group) snapshotDue() int64 {
	return max(g.limits.SnapshotBytes, g.snapshotSize.Load()/snapshotShare)
}

// entriesDue is the same in entries: Limits.SnapshotEntries, and with a large state in proportion more.
func (g *Group) entriesDue() int64 {
	return g.limits.SnapshotEntries * (g.snapshotDue() / g.limits.SnapshotBytes)
}

// keepSnapshots has raft take a snapshot when the log has grown by snapshotDue or entriesDue (a start reads each entry behind the snapshot, so
// small ones count too), and sets how many entries stay behind it so that they are about Limits.TrailingBytes. One goroutine.
func (g *Group) keepSnapshots() {
	t := time.NewTimer(snapshotLook)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-g.stopSnapshot:
			return
		}
		next := snapshotLook
		bytes, entries := g.logBytes.Load(), g.logEntries.Load()
		if (bytes >= g.snapshotDue() || entries >= g.entriesDue()) && !g.broken.Load() {
			if g.snapshot(bytes, uint64(entries)) {
				g.logBytes.Add(-bytes)
				g.logEntries.Add(-entries)
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
