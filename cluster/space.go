package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/cluster/link"
)

// A node whose disk is full ends (store.Halt), and when a majority has nothing can be written any more, not even the acks and deletions that
// would make room. So enqueues are refused (no_space) while there is still some: each node looks at the file system of its data
// directory, and the leader refuses while it, or a voter that answers, has less than Config.DiskFreeBytes.

const (
	// spaceEvery is the pace of looks at this node's own file system: at 100 MB/s some 25 MB go by between two.
	spaceEvery = 250 * time.Millisecond
	// spaceAsk is the pace at which a leader asks the others.
	spaceAsk = time.Second
	// spaceLeast and spaceShare are what must be left by default, the lesser of the two: bytes, and the whole divided by. A log grows by
	// 128 MiB before a snapshot shortens it, and its segments are reserved ahead.
	spaceLeast = 256 << 20
	spaceShare = 10
)

// SpaceWanted is how many bytes must be left of a file system of size bytes, the one that DataDir is on, for enqueues to be taken.
func (c *Config) SpaceWanted(size int64) int64 {
	if c.DiskFreeBytes > 0 {
		return c.DiskFreeBytes
	}
	return min(spaceLeast, size/spaceShare)
}

// space is how many bytes are left where the data directory is, and how many there are in all.
func (n *Node) space() (free, size int64, err error) {
	if n.cfg.space != nil {
		return n.cfg.space()
	}
	return n.dir.Space()
}

// watchSpace looks at this node's file system until the node stops, and tells the group.
func (n *Node) watchSpace() {
	t := time.NewTicker(spaceEvery)
	defer t.Stop()
	for {
		n.lookAtSpace()
		select {
		case <-n.ctx.Done():
			return
		case <-t.C:
		}
	}
}

// lookAtSpace finds out whether this node's disk is low. What cannot be found out is as it was. What a snapshot has still to write counts as
// taken: it cannot be stopped for want of room.
func (n *Node) lookAtSpace() {
	claimed := n.group.SpaceClaimed() // before the look: what it writes meanwhile counts twice rather than not at all
	free, size, err := n.space()
	if err != nil {
		n.log.Debug("room on disk", "err", err)
		return
	}
	want := n.cfg.SpaceWanted(size)
	low := free-claimed < want
	if n.lowSpace.Swap(low) != low {
		if low {
			n.log.Warn("little room on disk: enqueues are refused", "dir", n.cfg.DataDir, "free_bytes", free-claimed, "disk_free_bytes", want)
		} else {
			n.log.Info("there is room on disk again", "dir", n.cfg.DataDir, "free_bytes", free-claimed, "disk_free_bytes", want)
		}
	}
	n.group.SetSpace(group.Space{Refuse: n.whyLowSpace(), Low: low, Free: free, Keep: want})
}

// watchVoters has a leader ask the others whether they have room, until the node stops.
func (n *Node) watchVoters() {
	t := time.NewTicker(spaceAsk)
	defer t.Stop()
	for {
		label := ""
		if n.group.Raft().State() == raft.Leader {
			label = n.lowVoter(n.ctx)
		}
		if old := n.lowOther.Swap(&label); label != "" && (old == nil || *old != label) {
			n.log.Warn("a voter has little room on disk: enqueues are refused", "peer", label)
		}
		select {
		case <-n.ctx.Done():
			return
		case <-t.C:
		}
	}
}

// lowVoter is the label of another voter that has little room, "" where none says so.
func (n *Node) lowVoter(ctx context.Context) string {
	servers, err := n.servers()
	if err != nil {
		return ""
	}
	for i, st := range n.askAll(ctx, servers) {
		if s := servers[i]; st != nil && st.LowSpace && s.Suffrage == raft.Voter && s.ID != n.id() {
			label, _ := link.SplitAddress(s.Address)
			return label
		}
	}
	return ""
}

// whyLowSpace is why this node refuses enqueues for want of room where it leads, "" where there is enough.
func (n *Node) whyLowSpace() string {
	label := n.cfg.NodeID
	if !n.lowSpace.Load() {
		other := n.lowOther.Load()
		if other == nil || *other == "" {
			return ""
		}
		label = *other
	}
	return fmt.Sprintf("node %s has less than limits.disk_free_bytes left on disk, so enqueues are refused, and nothing else: wait until some messages are done, make room there, or lower it", label)
}
