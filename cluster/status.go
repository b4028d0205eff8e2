package cluster

import (
	"context"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/cluster/link"
	"github.com/quorate/quorate/cluster/roster"
	"github.com/quorate/quorate/cluster/store"
)

// Member is one node of the cluster as Members found it.
type Member = roster.Member

// Members is the cluster at a glance.
type Members = roster.Members

// Ready tells whether this node can serve, and if not, why; of one that can, what it cannot serve and why, "" if nothing.
func (n *Node) Ready() (bool, string) {
	switch failed := n.failed.Load(); {
	case failed != nil:
		return false, (*failed).Error()
	case n.stopping.Load():
		return false, "this node is stopping"
	case n.removed.Load():
		return false, "this node was removed from its cluster: empty its data directory and start it again to join as a new member"
	case n.self().Cluster.IsZero():
		return false, n.whyNoCluster()
	}
	s := n.group.Status()
	switch {
	case s.Ready:
		return true, n.whyLowSpace()
	case s.LeaderID == "":
		return false, "the cluster has no leader: a majority of its voters must be up and reach each other"
	default:
		return false, fmt.Sprintf("catching up: applied %d of %d", s.Applied, s.Commit)
	}
}

func (n *Node) whyNoCluster() string {
	if why := n.rejected.Load(); why != nil {
		return "the cluster does not take this node: " + *why
	}
	if n.cfg.BootstrapExpect == 0 {
		return "this node belongs to no cluster and has found none to join: check join"
	}
	alike := 1
	for _, p := range n.peers.list() {
		if p.Alive && p.Cluster.IsZero() && p.Expect == n.cfg.BootstrapExpect {
			alike++
		}
	}
	return fmt.Sprintf("waiting for a new cluster: %d of %d nodes see each other (bootstrap_expect)", alike, n.cfg.BootstrapExpect)
}

// status is this node as it sees itself.
func (n *Node) status() *statusAnswer {
	s := n.group.Status()
	r := n.group.Raft()
	st := &statusAnswer{
		Role: role(r.State()), Term: s.Term, Applied: s.Applied, Informed: r.AppliedIndex(), Commit: s.Commit, LastLog: s.LastLog,
		HasData: n.hasData(), Expect: n.cfg.BootstrapExpect, Wall: n.cfg.Clock.WallMillis(), LowSpace: n.lowSpace.Load(),
	}
	if n.link != nil {
		st.Place = n.announcement()
	} else {
		st.Place = announcement{Client: n.cfg.ClientAddr, Version: n.cfg.Version, Format: store.Format, Entry: entryFormat}
	}
	if id, err := store.ParseUUID(string(s.LeaderID)); err == nil {
		st.Leader = id
	}
	st.Ready, st.Why = n.Ready()
	if len(st.Why) > 512 {
		st.Why = st.Why[:512]
	}
	return st
}

func role(s raft.RaftState) string {
	switch s {
	case raft.Leader:
		return "leader"
	case raft.Candidate:
		return "candidate"
	default:
		return "follower"
	}
}

// note keeps what an answer tells of a node.
func (n *Node) note(p link.Peer, s *statusAnswer) {
	if checkAddr(s.Place.Raft, false) != nil {
		return
	}
	n.peers.learn(p.UUID, p.Incarnation, func(k *peer) {
		k.Label, k.Cluster, k.Raft, k.Client, k.Version = p.Label, p.Cluster, s.Place.Raft, s.Place.Client, s.Place.Version
		k.HasData, k.Expect = s.HasData, s.Expect
		if s.Place.Gossip != "" {
			k.Gossip = s.Place.Gossip
		}
	})
}

// clientAddr is where clients reach a node, "" if unknown.
func (n *Node) clientAddr(id raft.ServerID) string {
	if id == n.id() {
		return n.cfg.ClientAddr
	}
	return n.peers.client(id)
}

// Members asks every member how it is, for at most a second. A node that belongs to no cluster has none to ask.
func (n *Node) Members(ctx context.Context) (Members, error) {
	if n.self().Cluster.IsZero() {
		return Members{}, &group.Error{Code: group.CodeNoLeader, Message: n.whyNoCluster(), RetryAfter: tendEvery}
	}
	servers, err := n.servers()
	if err != nil {
		return Members{}, fmt.Errorf("read the membership: %w", err)
	}
	m := Members{Cluster: n.Cluster()}
	answers := n.askAll(ctx, servers)
	for i, s := range servers {
		label, addr := link.SplitAddress(s.Address)
		k := Member{Label: label, UUID: string(s.ID), Voter: s.Suffrage == raft.Voter, RaftAddr: addr, ClientAddr: n.clientAddr(s.ID)}
		if st := answers[i]; st != nil {
			k.Alive, k.Role, k.Applied, k.LastLog, k.Ready, k.Reason = true, st.Role, st.Applied, st.LastLog, st.Ready, st.Why
			k.Version, k.ClientAddr = st.Place.Version, st.Place.Client
			if st.Place.Raft != "" {
				k.RaftAddr = st.Place.Raft
			}
			// A leader that was cut off may believe in itself still; the higher term is right.
			if st.Role == "leader" && st.Term >= m.Term {
				m.Leader = label
			}
			m.Term = max(m.Term, st.Term)
		} else {
			k.Reason = "it does not answer"
		}
		m.Nodes = append(m.Nodes, k)
	}
	return m, nil
}

// digests asks every member for its state's digest at a checkpoint.
func (n *Node) digests(ctx context.Context, index uint64) []group.NodeDigest {
	servers, err := n.servers()
	if err != nil {
		return []group.NodeDigest{{ID: n.id(), Err: err.Error()}}
	}
	out := make([]group.NodeDigest, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		out[i].ID = s.ID
		wg.Go(func() {
			d, err := n.digestOf(ctx, s, index)
			out[i].Digest = d
			if err != nil {
				out[i].Err = err.Error()
			}
		})
	}
	wg.Wait()
	return out
}

func (n *Node) digestOf(ctx context.Context, s raft.Server, index uint64) (d [32]byte, err error) {
	if s.ID == n.id() {
		return n.group.DigestAt(ctx, index)
	}
	id, err := store.ParseUUID(string(s.ID))
	if err != nil {
		return d, err
	}
	_, addr := link.SplitAddress(s.Address)
	a, err := n.ask(ctx, id, addr, &request{Op: opDigest, Digest: index})
	for err == nil && a.Code == codeTimeout && ctx.Err() == nil { // it is still hashing
		a, err = n.ask(ctx, id, addr, &request{Op: opDigest, Digest: index})
	}
	switch {
	case err != nil:
		return d, err
	case a.Code != "":
		return d, fmt.Errorf("%s: %s", a.Code, a.Message)
	case len(a.Digest) != len(d):
		return d, fmt.Errorf("digest of %d bytes, want %d", len(a.Digest), len(d))
	}
	return [32]byte(a.Digest), nil
}
