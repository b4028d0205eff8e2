package group

import (
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// With one of three dead, a voter that knows less of the membership than the other, or nothing of it, votes for that one: else
// there would be no leader. (G7)
func TestVoteForWhomTheVoterDoesNotKnowAsAVoter(t *testing.T) {
	for _, tc := range []struct {
		name   string
		before func(r *raft.Raft, n *node) raft.IndexFuture // what the one that lags behind knows
	}{
		{"a non-voter as it knows", func(r *raft.Raft, n *node) raft.IndexFuture { return r.DemoteVoter(n.id, 0, 0) }},
		{"no member as it knows", func(r *raft.Raft, n *node) raft.IndexFuture { return r.RemoveServer(n.id, 0, 0) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newCluster(t, 3, nil)
				defer c.stop()
				l, behind, other := c.leader(), c.followers()[0], c.followers()[1]
				r := l.g.Raft()
				check(t, tc.before(r, other).Error())
				at := l.do(t, enqueue("q", "known to all"))
				c.until(10*time.Second, "the one that will lag has it", func() bool { return behind.g.Status().Applied >= at.at.Index })
				c.cut(behind)
				c.until(10*time.Second, "the other votes again", func() bool { return r.AddVoter(other.id, other.addr, 0, 0).Error() == nil })
				c.until(10*time.Second, "the other has heard of it", func() bool {
					f := other.g.Raft().GetConfiguration()
					votes := f.Error() == nil && slices.Contains(f.Configuration().Servers, raft.Server{ID: other.id, Address: other.addr})
					return votes && other.g.Raft().CommitIndex() == r.CommitIndex()
				})
				c.kill(l)
				c.join(behind)
				c.until(60*time.Second, "the other leads", func() bool { return other.g.Status().Leader })
				other.do(t, enqueue("q", "goes on"))
			})
		})
	}
}
