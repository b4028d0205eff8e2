package group

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/quorate/quorate/fsm"
)

// A leader that is told of little room on disk refuses enqueues alone, by no_space, also in the midst of others; who does not lead says so.
func TestLowSpace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l, f := c.leader(), c.followers()[0]
		_, _, id := l.attach(t)
		l.do(t, enqueue("q", "a", "b"))
		for _, nd := range c.nodes {
			nd.g.SetSpace(Space{Refuse: "the disk is full"})
		}
		lease := fsm.AppendOp(nil, &fsm.Lease{Queue: []byte("q"), Consumer: fsm.Consumer{Session: id}, Max: 1, LeaseMillis: 60_000})
		first, put, last := newOne(), newOne(), newOne()
		end := l.clock.Mono() + 5*time.Second
		l.g.Propose(&Proposal{Op: lease, Done: first, Deadline: end},
			&Proposal{Op: fsm.AppendOp(nil, enqueue("q", "c")), Done: put, Deadline: end},
			&Proposal{Op: lease, Done: last, Deadline: end})
		a, b := first.wait(t), last.wait(t)
		if a.err != nil || b.err != nil || len(a.got) != 1 || len(b.got) != 1 || a.got[0].body != "a" || b.got[0].body != "b" {
			t.Errorf("leases around the enqueue: %+v, %+v; want a and b", a, b)
		}
		if r := put.wait(t); r.err == nil || r.err.Code != CodeNoSpace || r.err.Unknown || r.err.RetryAfter <= 0 || r.err.Message != "the disk is full" {
			t.Errorf("the enqueue gets %v, want no_space, certain, with a wait and the node's words", r.err)
		}
		l.do(t, &fsm.Ack{Token: a.got[0].token})
		l.do(t, &fsm.Nack{Token: b.got[0].token, Permanent: true})
		if r := f.send(enqueue("q", "d")).wait(t); r.err == nil || r.err.Code != CodeNotLeader {
			t.Errorf("a follower says %v, want that it does not lead", r.err)
		}
		l.g.SetSpace(Space{})
		l.do(t, enqueue("q", "e"))
		if s := l.stats("q"); s.Ready != 1 {
			t.Errorf("%d ready, want the one that was taken in the end", s.Ready)
		}
	})
}

// Where room on disk is low a snapshot is taken as soon as it gives back more than it takes, though the log has hardly grown, and leaves the
// least of the log; not before, not again and again, and not where there is no room for it.
func TestSnapshotsWhereRoomIsLow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 1, func(cfg *Config) {
			cfg.Limits.SnapshotBytes, cfg.Limits.TrailingBytes = 4<<20, 2<<20
		})
		defer c.stop()
		l := c.leader()
		taken := func() uint64 { s, _ := l.snaps.List(); return s[0].Index }
		body := strings.Repeat("x", 64<<10)
		for range 300 { // 19 MB
			l.do(t, enqueue("q", body))
			pass(10 * time.Millisecond)
		}
		pass(time.Second)
		const much = 1 << 40
		at := taken()
		if l.g.snapshotSize.Load() < 4<<20 {
			t.Fatalf("the last snapshot has %d bytes, want 4 MB and more", l.g.snapshotSize.Load())
		}
		still := func(what string) {
			t.Helper()
			for range 20 {
				l.do(t, enqueue("other", "small"))
				pass(snapshotLook)
			}
			if now := taken(); now != at {
				t.Errorf("%s: a snapshot was taken at %d, the last was at %d", what, now, at)
			}
		}
		l.g.SetSpace(Space{Low: true, Free: much})
		still("a state that is as large as its snapshot")
		l.g.SetSpace(Space{Free: much})
		l.do(t, &fsm.PurgeQueue{Name: []byte("q")})
		still("room enough")
		l.g.SetSpace(Space{Low: true, Free: 1})
		still("no room for a snapshot")
		if n := l.g.SpaceClaimed(); n != 0 {
			t.Errorf("%d bytes are claimed for a snapshot that was not begun", n)
		}
		l.g.SetSpace(Space{Low: true, Free: much})
		c.until(30*time.Second, "a snapshot", func() bool { l.do(t, enqueue("other", "small")); return taken() > at })
		c.until(30*time.Second, "it is written", func() bool { return l.g.snapshotSize.Load() < 1<<20 })
		pass(5 * time.Second) // the log is cut after that
		first, err := l.g.cache.FirstIndex()
		check(t, err)
		if last := l.g.Raft().LastIndex(); last-first > 2*trailingLeast {
			t.Errorf("the log has %d to %d, want about %d entries behind the snapshot", first, last, trailingLeast)
		}
		l.do(t, enqueue("other", "small")) // the large one is still there: once more
		pass(5 * time.Second)
		at = taken()
		still("nothing to give back")
	})
}

// What a snapshot has still to write is claimed: it is begun where that leaves what should be left, and not where it does not.
func TestSnapshotClaimsItsRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		c := newCluster(t, 1, func(cfg *Config) {
			cfg.Limits.SnapshotBytes = 1 << 20
			cfg.Snapshots = gated{cfg.Snapshots, gate}
		})
		defer c.stop()
		l := c.leader()
		body := strings.Repeat("x", 64<<10)
		l.g.SetSpace(Space{Free: 10 << 20, Keep: 9 << 20})
		for range 40 {
			l.do(t, enqueue("q", body))
		}
		pass(2 * snapshotRetry)
		if s, _ := l.snaps.List(); len(s) != 0 || l.g.SpaceClaimed() != 0 {
			t.Errorf("%d snapshots, %d bytes claimed, where it would leave too little", len(s), l.g.SpaceClaimed())
		}
		l.g.SetSpace(Space{Free: 100 << 20, Keep: 9 << 20})
		c.until(2*snapshotRetry, "a snapshot claims its room", func() bool { return l.g.SpaceClaimed() > 40*64<<10 })
		close(gate)
		c.until(10*time.Second, "it is written", func() bool { s, _ := l.snaps.List(); return len(s) > 0 && l.g.SpaceClaimed() == 0 })
	})
}

// gated is a snapshot store that begins when the gate is open.
type gated struct {
	raft.SnapshotStore
	gate chan struct{}
}

func (g gated) Create(version raft.SnapshotVersion, index, term uint64, c raft.Configuration, at uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	<-g.gate
	return g.SnapshotStore.Create(version, index, term, c, at, trans)
}
