package group

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

const (
	snapshotLook  = 250 * time.Millisecond // how often the log's growth is looked at
	snapshotRetry = 10 * time.Second       // after a failure
	trailingLeast = 64                     // entries; a follower that is a moment late needs no snapshot
	trailingMost  = 1 << 20
)

// snapshotEven is up to how many bytes of log there may be as much of it as the last snapshot has, when the next is due, and half as
// much of a larger one.
const snapshotEven = 1 << 30

// snapshotApart is in how many parts that growth is divided: each member before this one, three at most, takes one off, so that not
// all are at it at once. Meanwhile a node copies each record that changes and its disk is busy, and the others commit.
const snapshotApart = 8

// snapshotDue is by how many bytes the log is to grow before a snapshot is taken: Limits.SnapshotBytes, or where the last one was
// larger as much as that, so that each byte of an entry costs one of a snapshot, however much is queued. With a fixed size of log
// between them ten million messages would be written twenty times for each byte that is new. Above snapshotEven the log, which a start
// reads whole, grows more slowly: half of the snapshot, and each byte costs two.
func (g *Group) snapshotDue() int64 {
	last := g.snapshotSize.Load()
	return max(g.limits.SnapshotBytes, min(last, snapshotEven), last/2)
}

// snapshotsApart is snapshotDue for a member with so many before it.
func snapshotsApart(due int64, before int) int64 {
	return due - due/snapshotApart*int64(min(before, 3))
}

// membersBefore is how many other members of the group have a lower id than this one.
func (g *Group) membersBefore() (n int) {
	f := g.raft.GetConfiguration()
	if f.Error() != nil {
		return 0
	}
	for _, s := range f.Configuration().Servers {
		if s.ID < g.cfg.LocalID {
			n++
		}
	}
	return n
}

// entriesDue is the same in entries: Limits.SnapshotEntries, and with a large state in proportion more.
func (g *Group) entriesDue() int64 {
	return g.limits.SnapshotEntries * (g.snapshotDue() / g.limits.SnapshotBytes)
}

// keepSnapshots has raft take a snapshot when the log has grown by snapshotDue or entriesDue (a start reads each entry behind the snapshot, so
// small ones count too), or where room on disk is low as soon as one gives back more than it takes; and sets how many entries stay behind it
// so that they are about Limits.TrailingBytes, the least there may be where room is low. One goroutine.
func (g *Group) keepSnapshots() {
	t := time.NewTimer(snapshotLook)
	defer t.Stop()
	before := g.snapshotSize.Load() // of the snapshot before the last, which the next one takes away; a guess at first
	trail := int64(0)               // bytes of log behind the last snapshot
	for {
		select {
		case <-t.C:
		case <-g.stopSnapshot:
			return
		}
		next := snapshotLook
		bytes, entries := g.logBytes.Load(), g.logEntries.Load()
		apart := g.membersBefore()
		due := bytes >= snapshotsApart(g.snapshotDue(), apart) || entries >= snapshotsApart(g.entriesDue(), apart)
		if (due || entries > 0 && g.lowSpace() && bytes+before+trail > g.weight()) && !g.broken.Load() {
			last := g.snapshotSize.Load()
			if g.claim() && g.snapshot(bytes, uint64(entries)) {
				lessen(&g.logBytes, bytes)
				lessen(&g.logEntries, entries)
				before, trail = last, min(bytes+trail, g.limits.TrailingBytes)
				if g.lowSpace() {
					trail = 0
				}
			} else {
				next = snapshotRetry
			}
			g.claimed.Store(0)
		}
		t.Reset(next)
	}
}

// lessen takes what a snapshot has off what has been applied since the last one. One that was installed meanwhile has begun a new count.
func lessen(count *atomic.Int64, by int64) {
	for {
		was := count.Load()
		if count.CompareAndSwap(was, max(was-by, 0)) {
			return
		}
	}
}

// snapshot takes one, of a log that grew by so many bytes and entries since the last.
func (g *Group) snapshot(bytes int64, entries uint64) bool {
	rc := g.raft.ReloadableConfig()
	average := max(uint64(bytes)/max(entries, 1), 1)
	rc.TrailingLogs = min(max(uint64(g.limits.TrailingBytes)/average, trailingLeast), trailingMost)
	if g.lowSpace() {
		rc.TrailingLogs = trailingLeast
	}
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
