package cluster

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/link"
	"github.com/quorate/quorate/cluster/store"
)

const (
	// promiseFor is how long a node that has agreed to a new cluster agrees to no other. Who makes it must be done sooner.
	promiseFor     = 10 * time.Second
	bootstrapIn    = 5 * time.Second
	bootstrapRetry = 500 * time.Millisecond
)

// promise is this node's word to one maker of a new cluster.
type promise struct {
	mu    sync.Mutex
	maker store.UUID
	until time.Time
	next  time.Time // no attempt of our own before
}

// seekCluster is what a node does that belongs to none: it joins one it sees, or makes one with others like it.
func (n *Node) seekCluster() {
	seen := map[store.UUID]bool{}
	for _, p := range n.peers.list() {
		if p.Alive && !p.Cluster.IsZero() {
			seen[p.Cluster] = true
		}
	}
	switch len(seen) {
	case 0:
		n.makeCluster()
	case 1:
		if now := time.Now(); now.Sub(n.announced) >= announceEvery {
			n.announced = now
			if err := n.announce(nil); err != nil {
				n.log.Debug("joining", "err", err)
			}
		}
	default:
		if now := time.Now(); now.Sub(n.announced) >= announceEvery {
			n.announced = now
			n.log.Error("gossip shows several clusters, this node joins none: set join to addresses of one", "count", len(seen))
		}
	}
}

// founders is who would make a new cluster as this node sees it: of the empty nodes with the same expectation that are alive,
// the first by UUID. nil: they are too few.
func (n *Node) founders() []store.UUID {
	expect := n.cfg.BootstrapExpect
	if expect == 0 || n.hasData() {
		return nil
	}
	ids := []store.UUID{n.self().UUID}
	for _, p := range n.peers.list() {
		if p.Alive && p.Cluster.IsZero() && !p.HasData && p.Expect == expect {
			ids = append(ids, p.UUID)
		}
	}
	if len(ids) < expect {
		return nil
	}
	slices.SortFunc(ids, compareUUID)
	return ids[:expect]
}

// makeCluster makes a new cluster if this node is the first of its founders and all the others agree. Nothing is written
// anywhere before that, and then here first: from the moment that this node's log says who the members are, there is a
// cluster, and the others are told until they know.
func (n *Node) makeCluster() {
	ids := n.founders()
	me := n.self()
	if len(ids) == 0 || ids[0] != me.UUID || !n.promiseTo(me.UUID) {
		return
	}
	defer n.unpromise(me.UUID)
	start := time.Now()
	c := clusterProposal{ID: store.NewUUID(), Members: ids}
	servers := []raft.Server{{ID: n.id(), Address: link.ServerAddress(me.Label, n.link.Addr())}}
	for _, id := range ids[1:] {
		p, ok := n.peers.get(id)
		if !ok {
			return
		}
		ans, _, err := n.call(n.ctx, p.Raft, id, &request{Op: opPrepare, Cluster: &c})
		if err != nil || ans.Code != "" {
			n.log.Debug("no new cluster yet", "peer", p.Label, "err", err, "answer", ans)
			return
		}
		servers = append(servers, raft.Server{ID: raft.ServerID(id.String()), Address: link.ServerAddress(p.Label, p.Raft)})
	}
	if time.Since(start) > bootstrapIn {
		return
	}
	n.hasLog.Store(true)
	id := n.dir.Identity()
	id.Cluster, id.Founding = c.ID, true
	if err := n.dir.Save(id); err != nil {
		n.fatal(err)
		return
	}
	if err := n.group.Bootstrap(c.ID, servers); err != nil {
		n.fatal(fmt.Errorf("make a new cluster: %w", err))
		return
	}
	id.Founding = false
	if err := n.dir.Save(id); err != nil {
		n.fatal(err)
		return
	}
	n.log.Info("made a new cluster", "cluster", c.ID, "voters", len(servers))
	n.welcome()
	n.gossip.changed()
}

// promiseTo gives this node's word to maker, unless another has it.
func (n *Node) promiseTo(maker store.UUID) bool {
	p := &n.promise
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	own := maker == n.self().UUID
	if now.Before(p.until) && p.maker != maker || own && now.Before(p.next) {
		return false
	}
	p.maker, p.until = maker, now.Add(promiseFor)
	if own {
		p.next = now.Add(bootstrapRetry)
	}
	return true
}

// unpromise takes this node's word to itself back.
func (n *Node) unpromise(maker store.UUID) {
	p := &n.promise
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.maker == maker {
		p.until = time.Time{}
	}
}

// endFounding settles what a crash while a cluster was being made has left: with the log written there is a cluster, of which
// the others will be told; without it nobody has ever heard of it.
func (n *Node) endFounding(logged bool) error {
	id := n.dir.Identity()
	if !id.Founding {
		return nil
	}
	if !logged {
		id.Cluster = store.UUID{}
		defer n.hasLog.Store(false)
	}
	id.Founding = false
	return n.dir.Save(id)
}

func (n *Node) servePrepare(from link.Peer, c *clusterProposal) *answer {
	switch {
	case !n.self().Cluster.IsZero():
		return refuse("node %s belongs to cluster %s", n.cfg.NodeID, n.self().Cluster)
	case n.hasData():
		return refuse("node %s has data", n.cfg.NodeID)
	case len(c.Members) == 0 || c.Members[0] != from.UUID || !slices.Equal(c.Members, n.founders()):
		return refuse("node %s does not see the same nodes yet", n.cfg.NodeID)
	case !n.promiseTo(from.UUID):
		return refuse("node %s has given its word to another", n.cfg.NodeID)
	}
	return &answer{}
}

// welcome tells members of this node's configuration that do not know their cluster yet.
func (n *Node) welcome() {
	var servers []raft.Server
	for _, p := range n.peers.list() {
		if !p.Alive || !p.Cluster.IsZero() {
			continue
		}
		if servers == nil {
			// A membership that is not committed may never be; the founder's own, the log's first entry, cannot be before
			// the others have been told, and counts.
			if servers, _ = n.group.Members(); len(servers) == 0 {
				return
			}
		}
		c := clusterProposal{ID: n.self().Cluster}
		member := false
		for _, s := range servers {
			id, err := store.ParseUUID(string(s.ID))
			if err != nil {
				continue
			}
			c.Members = append(c.Members, id)
			member = member || id == p.UUID
		}
		if !member {
			continue
		}
		ans, _, err := n.call(n.ctx, p.Raft, p.UUID, &request{Op: opAdopt, Cluster: &c})
		if err != nil || ans.Code != "" {
			n.log.Debug("welcoming a member", "peer", p.Label, "err", err, "answer", ans)
			continue
		}
		n.peers.learn(p.UUID, p.Incarnation, func(k *peer) { k.Cluster = c.ID })
	}
}

func (n *Node) serveAdopt(from link.Peer, c *clusterProposal) *answer {
	me := n.self()
	switch {
	case c.ID.IsZero() || from.Cluster != c.ID:
		return refuse("you belong to cluster %s and speak for %s", from.Cluster, c.ID)
	case me.Cluster == c.ID:
		return &answer{}
	case !me.Cluster.IsZero():
		return refuse("node %s belongs to cluster %s", me.Label, me.Cluster)
	case !slices.Contains(c.Members, me.UUID):
		return refuse("node %s is not among the members", me.UUID)
	}
	if err := n.joined(c.ID); err != nil {
		return refuse("%v", err)
	}
	n.kick()
	return &answer{}
}
