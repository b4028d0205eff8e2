package cluster

import (
	"context"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/cluster/store"
)

// SetGossip gives a test the last word on gossip's settings.
func SetGossip(c *Config, f func(*memberlist.Config)) { c.gossip = f }

// SetSpace has a node believe f about its file system.
func SetSpace(c *Config, f func() (free, size int64, err error)) { c.space = f }

// SetLogs has a node's raft use what f makes of its log on disk.
func SetLogs(c *Config, f func(*store.Log) raft.LogStore) { c.logs = f }

// Stopping says whether the node's end has begun.
func (n *Node) Stopping() bool { return n.stopping.Load() }

// AliveByGossip is how many other nodes gossip sees.
func (n *Node) AliveByGossip() (alive int) {
	for _, p := range n.peers.list() {
		if p.Alive {
			alive++
		}
	}
	return alive
}

// KnownByGossip is how many other nodes memberlist has not forgotten.
func (n *Node) KnownByGossip() int { return n.gossip.ml.NumMembers() - 1 }

// DigestsAt is digests, for tests.
func (n *Node) DigestsAt(ctx context.Context, index uint64) []group.NodeDigest {
	return n.digests(ctx, index)
}
