package cluster_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/clustertest"
	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/fsm"
)

// one completes a single proposal.
type one chan result

type result struct {
	out []fsm.Outcome
	err *group.Error
}

func (c one) Complete(_ *group.Proposal, _ *fsm.State, _ group.Stamp, out []fsm.Outcome, _ []fsm.Leased, err *group.Error) {
	c <- result{append([]fsm.Outcome(nil), out...), err}
}

// enqueue adds one message and says whether it was confirmed.
func enqueue(n *cluster.Node, body []byte) bool {
	op := fsm.AppendOp(nil, &fsm.Enqueue{Queue: []byte("q"), AutoCreate: true, Messages: []fsm.Message{{Body: body, Priority: 4}}})
	done := make(one, 1)
	n.Group(0).Propose(&group.Proposal{Op: op, Done: done})
	r := <-done
	return r.err == nil && len(r.out) == 1 && r.out[0].Code == fsm.OK
}

// pending counts the messages of the queue on the leader, which on a busy machine may be another one by then.
func pending(t *testing.T, c *clustertest.Cluster) (count int64) {
	t.Helper()
	err := c.AsLeader(func(n *cluster.Node) error {
		_, err := n.Group(0).Read(bounded(t), false, func(s *fsm.State) {
			if q, ok := s.QueueNumber([]byte("q")); ok {
				count = s.Stats(q).Ready
			}
		})
		if err != nil {
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return count
}

func sameState(t *testing.T, c *clustertest.Cluster, nodes int) {
	t.Helper()
	c.Until("equal digests", func() bool {
		_, digests, _, err := c.Leader().Group(0).Verify(bounded(t))
		if err != nil || len(digests) != nodes {
			return false
		}
		for _, d := range digests {
			if d.Err != "" {
				return false
			}
			if d.Digest != digests[0].Digest {
				t.Fatalf("states differ: %+v", digests)
			}
		}
		return true
	})
}

// TestKilledNodesLoseNothing: nodes are killed while work goes on; what was confirmed is there afterwards, on all of them.
func TestKilledNodesLoseNothing(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 3, clustertest.Options{})
	c.WaitVoters(3)
	confirmed, attempted := int64(0), int64(0)
	for round := range 4 {
		stop := make(chan struct{})
		type tally struct{ confirmed, attempted int64 }
		done := make(chan tally)
		leader := c.Leader()
		from := leader.Group(0).Status().Applied
		go func() {
			var k tally
			for i := 0; ; i++ {
				select {
				case <-stop:
					done <- k
					return
				default:
				}
				k.attempted++
				if enqueue(leader, fmt.Appendf(nil, "round %d message %d", round, i)) {
					k.confirmed++
				} else if !leader.Group(0).Status().Leader {
					<-stop // refused from now on
					done <- k
					return
				}
			}
		}()
		c.Until("some work", func() bool { s := leader.Group(0).Status(); return s.Applied > from+50 || !s.Leader })
		victim := (c.Index(leader) + round) % 3 // the leader in rounds 0 and 3
		c.Kill(victim)
		close(stop)
		k := <-done
		confirmed, attempted = confirmed+k.confirmed, attempted+k.attempted
		if err := c.TryStart(victim, 3); err != nil {
			t.Fatal(err)
		}
		c.WaitReady()
	}
	c.WaitVoters(3)
	if got := pending(t, c); got < confirmed || got > attempted {
		t.Errorf("%d messages are there, %d were confirmed of %d attempted", got, confirmed, attempted)
	}
	t.Logf("%d confirmed of %d", confirmed, attempted)
	sameState(t, c, 3)
	for i := range 3 {
		c.Kill(i)
	}
	for i := range 3 {
		if err := c.TryStart(i, 3); err != nil {
			t.Fatal(err)
		}
	}
	c.WaitReady()
	if got := pending(t, c); got < confirmed {
		t.Errorf("%d messages after all were down, %d were confirmed", got, confirmed)
	}
}

// TestSnapshotInstall: a node that comes to a compacted log gets the snapshot, through the checked store on both sides, and
// starts from it again; a bit of it flipped stops that start with the file named. (C4, C7, G16)
func TestSnapshotInstall(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 1, clustertest.Options{Config: func(_ int, k *cluster.Config) {
		inner := k.Raft
		k.Raft = func(r *raft.Config) { inner(r); r.TrailingLogs = 4 }
	}})
	body := bytes.Repeat([]byte("b"), 2000)
	for range 300 {
		if !enqueue(c.Leader(), body) {
			t.Fatal("not confirmed")
		}
	}
	if err := c.Leader().Group(0).Raft().Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	i := c.Add()
	c.WaitVoters(2)
	sameState(t, c, 2)
	states, err := filepath.Glob(filepath.Join(c.Dir(i), "snapshots", "*", "state.bin"))
	if err != nil || len(states) != 1 {
		t.Fatalf("snapshots of the new node: %v, %v", states, err)
	}
	for range 20 {
		enqueue(c.Leader(), body)
	}
	c.Restart(i)
	c.WaitReady()
	sameState(t, c, 2)
	if got := pending(t, c); got != 320 {
		t.Errorf("%d messages, want 320", got)
	}
	c.AwayFrom(i)
	c.Stop(i)
	b, err := os.ReadFile(states[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/3] ^= 2
	if err := os.WriteFile(states[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := c.TryStart(i, 0); err == nil || !bytes.Contains([]byte(err.Error()), []byte(states[0]+" is damaged")) {
		t.Errorf("start on a damaged snapshot: %v", err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v to say so", took)
	}
}

// TestTransfersUnderLoad: C2. Each transfer ends in "moved" or a clear error, most of them move, and nothing is lost.
func TestTransfersUnderLoad(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 3, clustertest.Options{})
	c.WaitVoters(3)
	stop := make(chan struct{})
	done := make(chan int64)
	nodes := []*cluster.Node{c.Node(0), c.Node(1), c.Node(2)}
	go func() {
		confirmed := int64(0)
		defer func() { done <- confirmed }()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				if enqueue(nodes[i%3], fmt.Appendf(nil, "message %d", i)) {
					confirmed++
					i-- // go on with the one that leads
				}
			}
		}
	}()
	const transfers = 12
	moved := 0
	for range transfers {
		before := c.Leader()
		err := c.AsLeader(func(n *cluster.Node) error { return n.Transfer(bounded(t), "") })
		var coded *group.Error
		if err != nil && (!errors.As(err, &coded) || coded.Code == group.CodeInternal) {
			t.Errorf("neither moved nor a clear error: %v", err)
		}
		if err == nil && c.Leader() != before {
			moved++
		}
	}
	close(stop)
	confirmed := <-done
	t.Logf("%d of %d moved, %d messages confirmed", moved, transfers, confirmed)
	if moved < transfers/4 { // most of them, but on a machine that is starved
		t.Errorf("%d of %d transfers moved", moved, transfers)
	}
	if got := pending(t, c); got < confirmed {
		t.Errorf("%d messages, %d were confirmed", got, confirmed)
	}
	sameState(t, c, 3)
}
