package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/link"
	"github.com/quorate/quorate/cluster/store"
)

const (
	// lonelyAfter is how long a member waits for a leader before it asks around whether it still is a member.
	lonelyAfter = 3 * time.Second
	// announceEvery is the pace of join requests and of announcements of a changed address.
	announceEvery = time.Second
	// saveEvery is the pace of writes of peers.json.
	saveEvery = 2 * time.Second
)

// tend is the node's own loop: it finds a cluster, keeps its place in it, and as leader keeps the others in theirs.
func (n *Node) tend() {
	t := time.NewTicker(tendEvery)
	defer t.Stop()
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-t.C:
		case <-n.kicked:
		}
		n.tendOnce()
	}
}

func (n *Node) tendOnce() {
	if n.gossip == nil || n.removed.Load() || n.failed.Load() != nil {
		return
	}
	now := time.Now()
	if now.Sub(n.redialled) >= redialEvery {
		n.redialled = now
		n.gossip.redial()
	}
	switch {
	case n.self().Cluster.IsZero():
		n.seekCluster()
	case n.group.Raft().State() == raft.Leader:
		n.lonely = time.Time{}
		n.placeLeader()
		n.promoteJoined()
		n.welcome()
	default:
		n.keepPlace(now)
		n.welcome()
	}
	if now.Sub(n.saved) >= saveEvery {
		n.saved = now
		n.forgetStrangers()
		if err := n.peers.save(); err != nil {
			n.log.Warn("known peers not saved", "err", err)
		}
	}
}

// forgetStrangers drops who is neither a member nor alive, so that it is not dialled for ever.
func (n *Node) forgetStrangers() {
	if n.self().Cluster.IsZero() {
		return
	}
	servers, err := n.servers()
	if err != nil || len(servers) == 0 {
		return
	}
	member := map[string]bool{}
	for _, s := range servers {
		member[string(s.ID)] = true
	}
	for _, p := range n.peers.list() {
		if !p.Alive && !member[p.UUID.String()] {
			n.peers.forget(p.UUID)
		}
	}
}

// keepPlace is what a member that does not lead does: it says where it is when the configuration says otherwise, and asks
// whether it still belongs when it is not in it or no leader has called for a while.
func (n *Node) keepPlace(now time.Time) {
	servers, err := n.servers()
	if err != nil {
		return
	}
	_, leader := n.group.Raft().LeaderWithID()
	if leader != "" {
		n.lonely = time.Time{}
		n.led.Store(true)
	} else if n.lonely.IsZero() {
		n.lonely = now
	}
	n.checkForeign(now)
	want := link.ServerAddress(n.cfg.NodeID, n.link.Addr())
	placed := false
	for _, s := range servers {
		placed = placed || s.ID == n.id() && s.Address == want
	}
	if placed && (leader != "" || now.Sub(n.lonely) < lonelyAfter) || now.Sub(n.announced) < announceEvery {
		return
	}
	n.announced = now
	if err := n.announce(servers); err != nil {
		n.log.Debug("announcing this node", "err", err)
	}
}

// checkForeign ends a node whose data belong to another cluster than the nodes it was told to join: it could wait for a leader
// for ever. A node that has found one of its own, or ever had a leader, has only met somebody who lost the way.
func (n *Node) checkForeign(now time.Time) {
	f := n.foreign.Load()
	if f == nil || n.led.Load() || now.Sub(n.lonely) < lonelyAfter {
		return
	}
	for _, p := range n.peers.list() {
		if p.Alive && p.Cluster == n.self().Cluster {
			return
		}
	}
	go n.fatal(fmt.Errorf("data directory %s belongs to cluster %s, but node %s at %s, which this node was told to join, to cluster %s: correct join, or give this node the data directory that belongs to that cluster, or an empty one to join it as a new member",
		n.cfg.DataDir, n.self().Cluster, f.label, f.addr, f.cluster))
}

// placeLeader is what a leader does that has come back at another address: nobody else can tell raft.
func (n *Node) placeLeader() {
	want := link.ServerAddress(n.cfg.NodeID, n.link.Addr())
	misplaced := func(s raft.Server) bool { return s.ID == n.id() && s.Address != want && s.Suffrage == raft.Voter }
	if servers, err := n.servers(); err != nil || !slices.ContainsFunc(servers, misplaced) {
		return
	}
	ctx, cancel := context.WithTimeout(n.ctx, changeWithin)
	defer cancel()
	end, gerr := n.turn(ctx)
	if gerr != nil {
		return
	}
	defer end()
	servers, index, gerr := n.settled(ctx)
	if gerr != nil || !slices.ContainsFunc(servers, misplaced) {
		return
	}
	if err := wait(ctx, func() error { return n.group.Raft().AddVoter(n.id(), want, index, changeWithin).Error() }); err != nil {
		n.log.Debug("this leader's new address", "err", err)
	}
}

// announcement is what this node says of itself.
func (n *Node) announcement() announcement {
	return announcement{
		Raft: n.link.Addr(), Gossip: n.gossip.addr, Client: n.cfg.ClientAddr, Version: n.cfg.Version,
		Format: store.Format, Entry: entryFormat,
	}
}

// announce finds the leader and tells it where this node is; for a node that belongs to no cluster this is the request to
// join. It follows at most a few hints.
func (n *Node) announce(servers []raft.Server) error {
	var try []place
	_, leader := n.group.Raft().LeaderWithID()
	add := func(id store.UUID, addr string) {
		if id != n.self().UUID && addr != "" && len(try) < maxMembers {
			try = append(try, place{id, addr})
		}
	}
	for _, s := range servers {
		id, err := store.ParseUUID(string(s.ID))
		if err != nil {
			continue
		}
		_, addr := link.SplitAddress(s.Address)
		addr = n.peers.where(s.ID, addr)
		if s.ID == leader && addr != "" && id != n.self().UUID {
			try = append([]place{{id, addr}}, try...)
			continue
		}
		add(id, addr)
	}
	mine := n.self().Cluster
	for _, p := range n.peers.list() {
		if !p.Cluster.IsZero() && (mine.IsZero() || p.Cluster == mine) {
			add(p.UUID, p.Raft)
		}
	}
	a := n.announcement()
	var errs []error
	asked := map[store.UUID]bool{}
	for hops := 0; len(try) > 0 && hops < 8 && n.ctx.Err() == nil; hops++ {
		p := try[0]
		try = try[1:]
		if asked[p.UUID] {
			continue
		}
		asked[p.UUID] = true
		ans, _, err := n.call(n.ctx, p.Raft, p.UUID, &request{Op: opJoin, Join: &a})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		switch ans.Code {
		case "":
			return n.joined(ans.Cluster)
		case codeNotLeader:
			if ans.Leader != nil && !asked[ans.Leader.UUID] {
				try = append([]place{*ans.Leader}, try...)
			}
			errs = append(errs, fmt.Errorf("%s: %s", p.Raft, ans.Message))
		case codeRemoved:
			n.leaveForGood(ans.Message)
			return store.ErrRemoved
		case codeTimeout: // the next one is asked again
			return errors.New(ans.Message)
		default:
			if old := n.rejected.Swap(&ans.Message); old == nil || *old != ans.Message {
				n.log.Error("the cluster does not take this node", "reason", ans.Message)
			}
			return errors.New(ans.Message)
		}
	}
	return errors.Join(errs...)
}

// joined makes this node's membership durable.
func (n *Node) joined(cluster store.UUID) error {
	id := n.dir.Identity()
	if id.Cluster == cluster || cluster.IsZero() {
		return nil
	}
	if !id.Cluster.IsZero() {
		return fmt.Errorf("joined cluster %s, but this node belongs to %s", cluster, id.Cluster)
	}
	n.hasLog.Store(true)
	id.Cluster = cluster
	if err := n.dir.Save(id); err != nil {
		n.fatal(err)
		return err
	}
	n.log.Info("joined the cluster", "cluster", cluster)
	n.gossip.changed()
	return nil
}

// leaveForGood is what a node does that has been told, by a leader of its cluster, that it is a member no more.
func (n *Node) leaveForGood(why string) {
	if n.removed.Swap(true) {
		return
	}
	id := n.dir.Identity()
	id.Removed = true
	err := fmt.Errorf("%w: %s; empty data directory %s and start it again, and it joins as a new member", store.ErrRemoved, why, n.cfg.DataDir)
	if saveErr := n.dir.Save(id); saveErr != nil {
		err = errors.Join(err, saveErr)
	}
	n.log.Error("removed from the cluster", "why", why)
	go n.fatal(err)
}

// servers is raft's latest configuration, which may not be committed yet.
func (n *Node) servers() ([]raft.Server, error) {
	f := n.group.Raft().GetConfiguration()
	if err := f.Error(); err != nil {
		return nil, err
	}
	return f.Configuration().Servers, nil
}
