package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/cluster/link"
	"github.com/quorate/quorate/cluster/store"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/mutant"
)

const (
	// changeWithin bounds one change of raft's configuration.
	changeWithin = 5 * time.Second
	// promoteLag is how many entries a non-voter may be behind when it becomes a voter, transferLag how many a voter when
	// leadership goes to it: it has to catch up before it can lead, and nothing is committed meanwhile.
	promoteLag  = 64
	transferLag = 128
	// transferWithin bounds a transfer of leadership.
	transferWithin = 5 * time.Second
	// statusWithin bounds the question how a member is.
	statusWithin = time.Second
	// entryFormat is the newest log entry format of this build, compared when a node joins.
	entryFormat = 1
)

func refusal(format string, args ...any) *group.Error {
	return &group.Error{Code: group.CodeFailedPrecondition, Message: fmt.Sprintf(format, args...)}
}

// notLeader says where the leader is.
func (n *Node) notLeader() *group.Error {
	s := n.group.Status()
	if s.LeaderID == "" || s.LeaderID == n.id() {
		return &group.Error{Code: group.CodeNoLeader, Message: "the cluster has no leader at present", RetryAfter: tendEvery}
	}
	return &group.Error{Code: group.CodeNotLeader, Message: "this node does not lead", Leader: n.clientAddr(s.LeaderID)}
}

// turn waits until it is the caller's turn to change the membership, which one has at a time, until end.
func (n *Node) turn(ctx context.Context) (end func(), err *group.Error) {
	select {
	case n.changes <- struct{}{}:
		return func() { <-n.changes }, nil
	case <-ctx.Done():
		return nil, &group.Error{Code: group.CodeTimeout, Message: "another change of the membership is under way", RetryAfter: tendEvery}
	}
}

// settled is the configuration, of which this node makes sure that it leads by it and that nothing of it can be taken back, and the index to
// change it by: raft refuses a change that is given that index where there has been another one since, of this leader or, between two of its
// terms, of another. While a change is not committed there is none: a leader that has not got round to that yet may be replaced by one that
// knows nothing of it.
func (n *Node) settled(ctx context.Context) (servers []raft.Server, index uint64, err *group.Error) {
	if _, err := n.group.Read(ctx, false, func(*fsm.State) {}); err != nil {
		return nil, 0, err
	}
	servers, index = n.group.Members()
	if latest, err := n.servers(); err != nil || !slices.Equal(servers, latest) {
		return nil, 0, &group.Error{Code: group.CodeTimeout, Message: "a change of the membership is not committed yet", RetryAfter: tendEvery}
	}
	return servers, index, nil
}

// notNow is the answer to an announcement that cannot be judged now.
func (n *Node) notNow(err *group.Error) *answer {
	if err.Code == group.CodeNotLeader || err.Code == group.CodeNoLeader {
		return n.pointToLeader()
	}
	return &answer{Code: codeTimeout, Message: err.Message}
}

// serveJoin is the leader's answer to an announcement. A new node becomes a non-voter, a member that has moved gets its new
// address; anything else is told why not.
func (n *Node) serveJoin(ctx context.Context, from link.Peer, a *announcement) *answer {
	r := n.group.Raft()
	if n.self().Cluster.IsZero() || r.State() != raft.Leader {
		return n.pointToLeader()
	}
	if err := checkAddr(a.Raft, false); err != nil {
		return refuse("your node address %v", err)
	}
	switch {
	case a.Format != store.Format:
		return refuse("your data has format %d, this cluster's %d: run the same version of quorate, or upgrade the cluster first", a.Format, store.Format)
	case a.Entry < entryFormat:
		return refuse("you can apply log entries of format %d, this cluster writes %d: run a newer version of quorate", a.Entry, entryFormat)
	}
	end, gerr := n.turn(ctx)
	if gerr != nil {
		return n.notNow(gerr)
	}
	defer end()
	servers, index, gerr := n.settled(ctx)
	if gerr != nil {
		return n.notNow(gerr)
	}
	id, addr := raft.ServerID(from.UUID.String()), link.ServerAddress(from.Label, a.Raft)
	for _, s := range servers {
		label, _ := link.SplitAddress(s.Address)
		switch {
		case s.ID == id && s.Address == addr:
			n.learnPlace(from, a) // gossip may not get through
			return &answer{Cluster: n.self().Cluster}
		case s.ID == id:
			n.learnPlace(from, a)
			change := r.AddNonvoter
			if s.Suffrage == raft.Voter {
				change = r.AddVoter // of a voter: only its address changes
			}
			n.log.Info("a member has moved", "peer", from.Label, "from", s.Address, "to", addr)
			if err := wait(ctx, func() error { return change(id, addr, index, changeWithin).Error() }); err != nil {
				return &answer{Code: codeTimeout, Message: err.Error()}
			}
			return &answer{Cluster: n.self().Cluster}
		case label == from.Label && !mutant.WipedNodeRejoins:
			return refuse("label %q belongs to node %s: run `quorate cluster remove %s` first if that one is gone, or give this node another node_id", label, s.ID, label)
		}
	}
	if !from.Stranger() {
		return &answer{Code: codeRemoved, Message: fmt.Sprintf("cluster %s has no member %s (%s) any more", n.self().Cluster, from.UUID, from.Label)}
	}
	if len(servers) >= maxMembers {
		return refuse("the cluster has %d members, that is the limit", len(servers))
	}
	n.learnPlace(from, a)
	n.log.Info("a node joins", "peer", from.Label, "uuid", from.UUID, "addr", a.Raft)
	if err := wait(ctx, func() error { return r.AddNonvoter(id, addr, index, changeWithin).Error() }); err != nil {
		return &answer{Code: codeTimeout, Message: err.Error()}
	}
	n.kick()
	return &answer{Cluster: n.self().Cluster}
}

func (n *Node) learnPlace(from link.Peer, a *announcement) {
	n.peers.learn(from.UUID, from.Incarnation, func(p *peer) {
		p.Label, p.Raft, p.Client, p.Version = from.Label, a.Raft, a.Client, a.Version
		if a.Gossip != "" {
			p.Gossip = a.Gossip
		}
	})
}

func (n *Node) pointToLeader() *answer {
	a := &answer{Code: codeNotLeader, Message: "this node does not lead"}
	if n.self().Cluster.IsZero() {
		a.Message = "this node belongs to no cluster yet"
		return a
	}
	addr, id := n.group.Raft().LeaderWithID()
	if u, err := store.ParseUUID(string(id)); err == nil && id != n.id() {
		_, hostPort := link.SplitAddress(addr)
		a.Leader = &place{u, n.peers.where(id, hostPort)}
	}
	return a
}

// promoteJoined makes voters of the non-voters that have caught up, one at a time.
func (n *Node) promoteJoined() {
	servers, err := n.servers()
	if err != nil {
		return
	}
	for _, s := range servers {
		if s.Suffrage != raft.Nonvoter {
			continue
		}
		label, _ := link.SplitAddress(s.Address)
		if st, err := n.promote(s); err != nil {
			n.log.Warn("promoting a member", "peer", label, "err", err)
			return
		} else if st != nil {
			n.log.Info("a member has caught up and votes now", "peer", label, "applied", st.Applied)
		}
	}
}

// promote makes a voter of a non-voter that says that it has caught up, and returns what it has said; nil: not now. What it says holds for
// statusWithin: where its turn comes later it may have died, and be one more voter that a majority has to do without.
func (n *Node) promote(s raft.Server) (*statusAnswer, error) {
	ctx, cancel := context.WithTimeout(n.ctx, statusWithin)
	defer cancel()
	st, err := n.memberStatus(ctx, s)
	if err != nil || !st.caughtUp(n.group.Raft().CommitIndex()) {
		return nil, nil //nolint:nilerr // it is asked again
	}
	end, gerr := n.turn(ctx)
	if gerr != nil {
		return nil, nil
	}
	defer end()
	now, index, gerr := n.settled(ctx)
	if gerr != nil || !slices.Contains(now, s) { // it may have been removed since
		return nil, nil
	}
	ctx, cancel = context.WithTimeout(n.ctx, changeWithin)
	defer cancel()
	return st, wait(ctx, func() error { return n.group.Raft().AddVoter(s.ID, s.Address, index, changeWithin).Error() })
}

// caughtUp says whether a non-voter may vote: its state has begun, and it is near what is committed, raft's own entries included.
func (st *statusAnswer) caughtUp(commit uint64) bool {
	return st.Applied > 0 && st.Informed+promoteLag >= commit
}

// memberStatus asks a member how it is.
func (n *Node) memberStatus(ctx context.Context, s raft.Server) (*statusAnswer, error) {
	if s.ID == n.id() {
		return n.status(), nil
	}
	id, err := store.ParseUUID(string(s.ID))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, statusWithin)
	defer cancel()
	_, addr := link.SplitAddress(s.Address)
	a, err := n.ask(ctx, id, addr, &request{Op: opStatus})
	if err != nil {
		return nil, err
	}
	if a.Status == nil {
		return nil, fmt.Errorf("status of %s: %s", id, a.Message)
	}
	return a.Status, nil
}

// askAll asks every member how it is, all at once; the answers stand where the servers do, nil for who gave none.
func (n *Node) askAll(ctx context.Context, servers []raft.Server) []*statusAnswer {
	out := make([]*statusAnswer, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() {
			if st, err := n.memberStatus(ctx, s); err == nil {
				out[i] = st
			}
		})
	}
	wg.Wait()
	return out
}

// find is the member with a label or UUID.
func find(servers []raft.Server, labelOrUUID string) (raft.Server, bool) {
	for _, s := range servers {
		if label, _ := link.SplitAddress(s.Address); label == labelOrUUID || string(s.ID) == labelOrUUID {
			return s, true
		}
	}
	return raft.Server{}, false
}

func labelsOf(servers []raft.Server) []string {
	var out []string
	for _, s := range servers {
		label, _ := link.SplitAddress(s.Address)
		out = append(out, label)
	}
	return out
}

// Remove takes a member out of the cluster, for good: it may come back as a new one, under the same label, once its data
// directory has been emptied. Only the leader does it (group.CodeNotLeader says who that is), and only when what would be
// left could still decide: the voters that remain and answer must be a majority of those that remain. The leader itself
// is not removed; transfer leadership first.
func (n *Node) Remove(ctx context.Context, labelOrUUID string) error {
	r := n.group.Raft()
	if r.State() != raft.Leader {
		return n.notLeader()
	}
	end, gerr := n.turn(ctx)
	if gerr != nil {
		return gerr
	}
	defer end()
	servers, index, gerr := n.settled(ctx)
	if gerr != nil {
		return gerr
	}
	target, ok := find(servers, labelOrUUID)
	if !ok {
		return &group.Error{Code: group.CodeNotFound, Message: fmt.Sprintf("no member has the label or UUID %q: members are %v", labelOrUUID, labelsOf(servers))}
	}
	label, _ := link.SplitAddress(target.Address)
	if len(servers) == 1 {
		return refusal("node %s is the only member: a cluster needs one", label)
	}
	if target.ID == n.id() {
		return refusal("node %s leads: transfer leadership to another node first", label)
	}
	if target.Suffrage == raft.Voter {
		rest, alive := remaining(servers, target.ID, n.askAll(ctx, servers))
		if alive < rest/2+1 {
			return refusal("without node %s %d voters would remain, of which %d answer: no majority; bring one of them back first", label, rest, alive)
		}
	}
	err := wait(ctx, func() error { return r.RemoveServer(target.ID, index, changeWithin).Error() })
	if errors.Is(err, raft.ErrNotLeader) {
		return n.notLeader()
	} else if err != nil {
		return &group.Error{Code: group.CodeTimeout, Message: fmt.Sprintf("remove node %s: %v", label, err), Unknown: true}
	}
	n.log.Info("a member was removed", "peer", label, "uuid", target.ID)
	return nil
}

// remaining counts the voters without one: all, and those that answered; status stands where servers do.
func remaining(servers []raft.Server, without raft.ServerID, status []*statusAnswer) (rest, alive int) {
	for i, st := range status {
		if servers[i].Suffrage != raft.Voter || servers[i].ID == without {
			continue
		}
		rest++
		if st != nil {
			alive++
		}
	}
	return rest, alive
}

// Transfer gives leadership to the voter with a label, "" for the one that is least behind. It refuses a target that does
// not answer or is far behind, since nothing could be committed until it has caught up, and returns once the target
// leads, or after a few seconds with what is known.
func (n *Node) Transfer(ctx context.Context, label string) error {
	r := n.group.Raft()
	if r.State() != raft.Leader {
		return n.notLeader()
	}
	end, gerr := n.turn(ctx)
	if gerr != nil {
		return gerr
	}
	defer end()
	servers, err := n.servers()
	if err != nil {
		return fmt.Errorf("read the membership: %w", err)
	}
	last := r.LastIndex()
	status := n.askAll(ctx, servers)
	var target raft.Server
	best := uint64(0)
	for i, s := range servers {
		l, _ := link.SplitAddress(s.Address)
		if label != "" && l != label && string(s.ID) != label || label == "" && s.ID == n.id() {
			continue
		}
		switch st := status[i]; {
		case s.ID == n.id():
			return refusal("node %s leads already", l)
		case label == "" && (s.Suffrage != raft.Voter || st == nil || st.LastLog < best):
			continue
		case s.Suffrage != raft.Voter:
			return refusal("node %s does not vote yet, so that it cannot lead: wait until it has caught up", l)
		case st == nil:
			return refusal("node %s does not answer, so that it cannot lead", l)
		default:
			best, target = st.LastLog, s
		}
	}
	if target.ID == "" {
		if label != "" {
			return &group.Error{Code: group.CodeNotFound, Message: fmt.Sprintf("no member has the label %q: members are %v", label, labelsOf(servers))}
		}
		return refusal("no other voter answers")
	}
	to, _ := link.SplitAddress(target.Address)
	if best+transferLag < last {
		return refusal("node %s is %d entries behind, too far to lead soon (limit %d): wait until it has caught up", to, last-best, transferLag)
	}
	ctx, cancel := context.WithTimeout(ctx, transferWithin)
	defer cancel()
	err = wait(ctx, func() error { return r.LeadershipTransferToServer(target.ID, target.Address).Error() })
	if errors.Is(err, raft.ErrNotLeader) {
		return n.notLeader()
	} else if err != nil {
		return &group.Error{Code: group.CodeTimeout, Message: fmt.Sprintf("leadership did not move to node %s: %v", to, err), Unknown: true}
	}
	t := time.NewTicker(5 * time.Millisecond)
	defer t.Stop()
	for {
		if _, id := r.LeaderWithID(); id == target.ID {
			n.log.Info("leadership moved", "to", to)
			return nil
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return &group.Error{Code: group.CodeTimeout, Message: fmt.Sprintf("leadership was offered to node %s, which has not taken it within %v", to, transferWithin), Unknown: true}
		case <-n.ctx.Done():
			return &group.Error{Code: group.CodeTimeout, Message: "this node stops", Unknown: true}
		}
	}
}

// wait waits for what raft is asked for in f, which has no end of its own, as long as ctx lets it. It may happen later all the same.
func wait(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
