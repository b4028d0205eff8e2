package group

import (
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// lastConfiguration is the newest configuration in a node's log, committed or not, and its index.
func lastConfiguration(t *testing.T, nd *node) ([]raft.Server, uint64) {
	t.Helper()
	last, err := nd.logs.LastIndex()
	check(t, err)
	for i := last; i > 0; i-- {
		var l raft.Log
		check(t, nd.logs.GetLog(i, &l))
		if l.Type == raft.LogConfiguration {
			return raft.DecodeConfiguration(l.Data).Servers, i
		}
	}
	return nil, 0
}

// What raft tells nobody: which configuration is committed, and at which index. A snapshot brings it along.
func TestMembers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l, f, g := c.leader(), c.followers()[0], c.followers()[1]
		r := l.g.Raft()
		is := func(nd *node, want []raft.Server, index uint64) bool {
			servers, at := nd.g.Members()
			return at == index && slices.Equal(servers, want)
		}
		change := r.DemoteVoter(g.id, 1, 0)
		check(t, change.Error())
		servers, index := lastConfiguration(t, l)
		if index != change.Index() || !is(l, servers, index) {
			t.Fatalf("the change is entry %d, in the log is %v at %d", change.Index(), servers, index)
		}
		c.until(10*time.Second, "the follower knows it", func() bool { return is(f, servers, index) })

		l.do(t, enqueue("q", "x"))
		c.until(10*time.Second, "a snapshot", func() bool { return f.g.Raft().Snapshot().Error() == nil })
		c.halt(f)
		c.start(f)
		if !is(f, servers, index) {
			now, at := f.g.Members()
			t.Errorf("after a start from a snapshot it is %v at %d, want %v at %d", now, at, servers, index)
		}
		c.until(10*time.Second, "the leader is followed again", func() bool { return r.VerifyLeader().Error() == nil })

		c.cut(f)
		r.AddNonvoter("new", "new", 0, 0)
		c.until(10*time.Second, "the leader has it in its log", func() bool { _, at := lastConfiguration(t, l); return at > index })
		if !is(l, servers, index) {
			t.Error("it counts as committed")
		}
	})
}

// The configuration by which the cluster was made counts before anything is committed, also where another has brought it.
func TestMembersOfANewCluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		want, index := lastConfiguration(t, c.leader())
		for _, nd := range c.nodes {
			c.kill(nd)
		}
		for _, nd := range c.nodes {
			c.start(nd)
			c.cut(nd)
		}
		for _, nd := range c.nodes {
			if servers, at := nd.g.Members(); at != index || !slices.Equal(servers, want) {
				t.Errorf("%s: %v at %d, want %v at %d", nd.id, servers, at, want, index)
			}
		}
		for _, nd := range c.nodes {
			c.join(nd)
		}
		c.leader()
	})
}
