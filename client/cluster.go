package client

import (
	"context"

	"github.com/quorate/quorate/wire"
)

// ClusterStatus is the cluster as its leader sees it.
type ClusterStatus struct {
	Cluster string // id, 32 hex digits
	Leader  string // label
	Term    uint64
	Nodes   []Node
}

// Node is one member.
type Node struct {
	ID         string // label
	UUID       string
	Role       string // leader, follower or candidate; empty when it was not reached
	Voter      bool
	Alive      bool
	ClientAddr string
	RaftAddr   string
	Applied    uint64 // log index
	LastLog    uint64 // log index
	Version    string
}

// ClusterStatus asks for the members and their state.
func (c *Client) ClusterStatus(ctx context.Context) (s ClusterStatus, err error) {
	err = ask(ctx, c, wire.TypeClusterStatus, &wire.ClusterStatus{}, func(v *wire.ClusterIs) error {
		s = ClusterStatus{Cluster: v.Cluster, Leader: v.Leader, Term: v.Term, Nodes: make([]Node, len(v.Nodes))}
		for i, n := range v.Nodes {
			s.Nodes[i] = Node{
				ID: n.ID, UUID: n.UUID, Role: n.Role, Voter: n.Voter, Alive: n.Alive, ClientAddr: n.ClientAddr,
				RaftAddr: n.RaftAddr, Applied: n.Applied, LastLog: n.LastLog, Version: n.Version,
			}
		}
		return nil
	})
	return s, err
}

// Verified compares the nodes' states at one log index.
type Verified struct {
	Index uint64
	Equal bool
	Nodes []NodeDigest
}

// NodeDigest is one node's state hash, or why there is none.
type NodeDigest struct{ ID, Digest, Error string }

// Verify has every node hash its state at one log index.
func (c *Client) Verify(ctx context.Context) (out Verified, err error) {
	err = ask(ctx, c, wire.TypeClusterVerify, &wire.ClusterVerify{}, func(v *wire.Verified) error {
		out = Verified{Index: v.Index, Equal: v.Equal}
		for _, n := range v.Nodes {
			out.Nodes = append(out.Nodes, NodeDigest{ID: n.ID, Digest: n.Digest, Error: n.Error})
		}
		return nil
	})
	return out, err
}

// Transfer hands leadership to a node by its label; empty: to the voter that is furthest on.
func (c *Client) Transfer(ctx context.Context, node string) error {
	b := &wire.ClusterTransfer{Node: node}
	if f := b.Validate(); f != nil {
		return errorOf(f)
	}
	return ask[wire.OK](ctx, c, wire.TypeClusterTransfer, b, nil)
}

// Remove removes a member by label or UUID.
func (c *Client) Remove(ctx context.Context, node string) error {
	b := &wire.ClusterRemove{Node: node}
	if f := b.Validate(); f != nil {
		return errorOf(f)
	}
	return ask[wire.OK](ctx, c, wire.TypeClusterRemove, b, nil)
}
