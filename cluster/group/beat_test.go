package group

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// newBeatCluster is a cluster of nodes whose transports hand heartbeats over beside raft's loop.
func newBeatCluster(t *testing.T) (c *cluster, beatsOf func(*node) *fastBeat, diskOf func(*node) *slowDisk) {
	var beats []*fastBeat // of the nodes in their order, which none leaves
	var disks []*slowDisk
	c = newCluster(t, 3, func(cfg *Config) {
		f, d := newFastBeat(cfg.Transport.(*raft.InmemTransport)), &slowDisk{LogStore: cfg.Logs}
		beats, disks = append(beats, f), append(disks, d)
		cfg.Transport, cfg.Logs = f, d
	})
	return c, func(nd *node) *fastBeat { return beats[slices.Index(c.nodes, nd)] },
		func(nd *node) *slowDisk { return disks[slices.Index(c.nodes, nd)] }
}

// heartbeat hands one over as the transport does, and says what the answer is; nil while there is none.
func (f *fastBeat) heartbeat(from *node, term uint64) (answer func() *raft.AppendEntriesResponse) {
	got := make(chan raft.RPCResponse, 1)
	go (*f.beat.Load())(raft.RPC{RespChan: got, Command: &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(from.id), Addr: []byte(from.addr)}, Term: term,
	}})
	return func() *raft.AppendEntriesResponse {
		synctest.Wait()
		select {
		case a := <-got:
			return a.Response.(*raft.AppendEntriesResponse)
		default:
			return nil
		}
	}
}

// A leader that hears of the next one by a heartbeat makes no entry in that one's term. (G1, G15; hashicorp/raft#695)
func TestHeartbeatOfTheNextLeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, beatsOf, _ := newBeatCluster(t)
		defer c.stop()
		l, next := c.leader(), c.followers()[0]
		l.do(t, enqueue("q", "before"))
		c.cut(l)
		r := l.g.Raft()
		term := r.CurrentTerm()
		synctest.Wait() // raft's loop waits for what comes
		answer := beatsOf(l).heartbeat(next, term+1)
		synctest.Wait()
		late := r.Apply([]byte("of an old leader"), time.Second)
		if a := answer(); a == nil || a.Term != term+1 {
			t.Errorf("the answer is %+v, want one of term %d", a, term+1)
		}
		if err := late.Error(); !errors.Is(err, raft.ErrNotLeader) {
			t.Errorf("an entry after the heartbeat: %v, want %v", err, raft.ErrNotLeader)
		}
		last, err := l.logs.LastIndex()
		check(t, err)
		var e raft.Log
		check(t, l.logs.GetLog(last, &e))
		if e.Term > term {
			t.Errorf("the old leader has stored entry %d of term %d, it led in %d", last, e.Term, term)
		}
		c.join(l)
	})
}

// While raft's loop waits for the disk, a heartbeat of the leader that is followed is answered, and none changes state or term.
func TestHeartbeatsBesideASlowDisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, beatsOf, diskOf := newBeatCluster(t)
		defer c.stop()
		l, f := c.leader(), c.followers()[0]
		l.do(t, enqueue("q", "before"))
		r := f.g.Raft()
		term := r.CurrentTerm()
		hang := make(chan struct{})
		diskOf(f).hang.Store(&hang)
		l.do(t, enqueue("q", "the other follower has it"))
		pass(20 * time.Millisecond)
		if a := beatsOf(f).heartbeat(l, term)(); a == nil || !a.Success || a.Term != term {
			t.Errorf("the answer to the leader is %+v, want success in term %d", a, term)
		}
		for _, tc := range []struct {
			name string
			term uint64
		}{{"a newer term", term + 1}, {"an older term", term - 1}} {
			if a := beatsOf(f).heartbeat(l, tc.term)(); a != nil {
				t.Errorf("%s: answered with %+v, while raft's loop waits", tc.name, a)
			}
			if r.CurrentTerm() != term || r.State() != raft.Follower {
				t.Errorf("%s: raft is %v in term %d, while its loop waits", tc.name, r.State(), r.CurrentTerm())
			}
		}
		diskOf(f).hang.Store(nil)
		close(hang)
		c.beyond(term)
		c.agree()
	})
}

// Heartbeats alone keep a follower from campaigning, though they are answered before raft hears of them.
func TestHeartbeatsPutOffElections(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, beatsOf, _ := newBeatCluster(t)
		defer c.stop()
		l := c.leader()
		l.do(t, enqueue("q", "before"))
		term := l.g.Raft().CurrentTerm()
		for _, f := range c.followers() {
			beatsOf(f).alone.Store(true)
		}
		for range 100 {
			pass(100 * time.Millisecond)
			for _, nd := range c.nodes {
				if r := nd.g.Raft(); r.CurrentTerm() != term || r.State() == raft.Candidate {
					t.Fatalf("%s: %v in term %d, want what it was in term %d", nd.id, r.State(), r.CurrentTerm(), term)
				}
			}
		}
		for _, f := range c.followers() {
			beatsOf(f).alone.Store(false)
		}
		c.agree()
	})
}
