package client

import (
	"context"
	"errors"

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

// Transfer hands leadership to a node by its label or UUID; empty: to the voter that is furthest on.
func (c *Client) Transfer(ctx context.Context, node string) error {
	b := &wire.ClusterTransfer{Node: node}
	if f := b.Validate(); f != nil {
		return errorOf(f)
	}
	before, err := c.ClusterStatus(ctx)
	if err != nil {
		return err
	}
	if node == "" {
		b.Node = furthest(&before)
	}
	err = ask[wire.OK](ctx, c, wire.TypeClusterTransfer, b, nil)
	if !errors.Is(err, ErrFailedPrecondition) || before.leads(b.Node) {
		return err
	}
	// A transfer takes the connection away from under its own answer, so that the request is asked again of the new
	// leader, who refuses it: it leads already.
	if now, e := c.ClusterStatus(ctx); e == nil && now.leads(b.Node) {
		return nil
	}
	return err
}

// furthest is the label of the voter other than the leader whose log is longest; empty if none answers. A transfer names
// its target, since one without a name that is asked again would move leadership once more, from leader to leader.
func furthest(s *ClusterStatus) (label string) {
	best := uint64(0)
	for _, n := range s.Nodes {
		if n.ID != s.Leader && n.Voter && n.Role != "" && n.LastLog >= best {
			label, best = n.ID, n.LastLog
		}
	}
	return label
}

// leads says whether the node with that label or UUID is the leader.
func (s *ClusterStatus) leads(node string) bool {
	for _, n := range s.Nodes {
		if n.ID == node || n.UUID == node {
			return n.ID == s.Leader
		}
	}
	return false
}

// Remove removes a member by label or UUID.
func (c *Client) Remove(ctx context.Context, node string) error {
	b := &wire.ClusterRemove{Node: node}
	if f := b.Validate(); f != nil {
		return errorOf(f)
	}
	return ask[wire.OK](ctx, c, wire.TypeClusterRemove, b, nil)
}
