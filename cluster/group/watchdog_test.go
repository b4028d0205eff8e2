package group

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/fsm"
)

// The watchdog ends a leader whose disk hangs (raft does not notice): nothing else would.
func TestWatchdog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hang := make(chan struct{})
		var disk *slowDisk
		c := newCluster(t, 1, func(cfg *Config) {
			disk = &slowDisk{LogStore: cfg.Logs}
			cfg.Logs = disk
			cfg.Limits.WatchdogAfter = 3 * time.Second
		})
		l := c.leader()
		disk.hang.Store(&hang)
		o := newOne()
		l.g.Propose(&Proposal{Op: fsm.AppendOp(nil, enqueue("q", "x")), Done: o, Deadline: l.clock.Mono() + time.Second})
		if a := o.wait(t); a.err == nil || !a.err.Unknown {
			t.Errorf("proposal on a hung disk: %+v, want unknown", a.err)
		}
		select {
		case err := <-l.fatal:
			t.Logf("fatal: %v", err)
		case <-time.After(10 * time.Second):
			t.Error("the watchdog did not bark")
		}
		disk.hang.Store(nil)
		close(hang)
		c.stop()
	})
}

// slowReads is a log store that takes a while to find an entry.
type slowReads struct {
	sealing
	each *atomic.Int64
}

func (s slowReads) GetLog(index uint64, l *raft.Log) error {
	if d := s.each.Load(); d > 0 {
		pass(time.Duration(d))
	}
	return s.sealing.GetLog(index, l)
}

// A leader that replays a long log before it can begin is waited for, as long as it moves. (G12)
func TestWatchdogWaitsForAReplay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var each atomic.Int64
		c := newCluster(t, 1, func(cfg *Config) {
			cfg.Logs = slowReads{sealing{cfg.Logs}, &each}
			cfg.Limits.WatchdogAfter = 3 * time.Second
		})
		defer c.stop()
		l := c.leader()
		for range 3000 {
			l.do(t, enqueue("q", "x"))
		}
		c.halt(l)
		each.Store(int64(4 * time.Millisecond)) // 12 s of it
		c.start(l)
		began := time.Now()
		c.leader()
		if took := time.Since(began); took < 3*l.g.limits.WatchdogAfter {
			t.Errorf("it began after %v, which shows nothing", took)
		}
	})
}

// A leader that is well is left where the follower that it needs for a majority takes nothing, and ended when that goes on for long. (G12)
func TestWatchdogAndTheOthers(t *testing.T) {
	for _, tc := range []struct {
		name string
		hang time.Duration // in times of Limits.WatchdogAfter
		ends bool
	}{
		{"for a while", 4, false},
		{"for long", 2 * patience, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, _, diskOf := newBeatCluster(t)
				defer c.stop()
				l, f := c.leader(), c.followers()[0]
				c.kill(c.followers()[1])
				hang := make(chan struct{})
				diskOf(f).hang.Store(&hang)
				o := l.send(enqueue("q", "in flight"))
				ended := false
				select {
				case err := <-l.fatal:
					t.Logf("ended: %v", err)
					ended = true
				case <-time.After(tc.hang * l.g.limits.WatchdogAfter):
				}
				if ended != tc.ends {
					t.Errorf("the leader was ended: %v", ended)
				}
				diskOf(f).hang.Store(nil)
				close(hang)
				o.wait(t)
				if !ended {
					c.until(time.Minute, "nothing goes on", func() bool { return c.leader().send(enqueue("q", "goes on")).wait(t).err == nil })
				}
			})
		})
	}
}

// slowInstall sends a snapshot in forty pieces, with a while between them.
type slowInstall struct {
	*fastBeat
	while time.Duration
}

func (s slowInstall) InstallSnapshot(id raft.ServerID, at raft.ServerAddress, req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	var all bytes.Buffer
	for piece := req.Size/40 + 1; ; pass(s.while) {
		switch _, err := io.CopyN(&all, data, piece); {
		case err == nil:
		case errors.Is(err, io.EOF):
			return s.fastBeat.InstallSnapshot(id, at, req, resp, &all)
		default:
			return err
		}
	}
}

// A leader without a majority but for a follower that it sends a snapshot to is not ended meanwhile, however long that takes: it would have to
// begin again. (G12)
func TestWatchdogWaitsForASnapshot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const while = time.Second // 40 s of it
		c := newCluster(t, 3, func(cfg *Config) {
			cfg.Transport = slowInstall{newFastBeat(cfg.Transport.(*raft.InmemTransport)), while}
			cfg.Raft = func(rc *raft.Config) { rc.TrailingLogs = 1 }
			cfg.Limits.WatchdogAfter = 3 * time.Second
		})
		defer c.stop()
		l, f := c.leader(), c.followers()[0]
		c.cut(f)
		for range 10 {
			l.do(t, enqueue("q", "in the snapshot"))
		}
		check(t, l.g.Raft().Snapshot().Error())
		other := c.followers()
		c.join(f)
		for _, nd := range other {
			if nd != f {
				c.kill(nd)
			}
		}
		began := time.Now()
		o := newOne()
		l.g.Propose(&Proposal{Op: fsm.AppendOp(nil, enqueue("q", "after it")), Done: o, Deadline: l.clock.Mono() + 5*time.Minute})
		select {
		case err := <-l.fatal:
			t.Errorf("ended after %v: %v", time.Since(began), err)
		case a := <-o.end:
			if took := time.Since(began); a.err != nil || took < 2*patience*time.Second {
				t.Errorf("after %v: %v", took, a.err)
			}
		case <-time.After(4 * time.Minute):
			t.Error("nothing came of it")
		}
	})
}

// What goes to a third node does not hide that this leader's own disk hangs, with a successor at hand. (G12)
func TestWatchdogSeesItsOwnDisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var disks []*slowDisk
		c := newCluster(t, 3, func(cfg *Config) {
			d := &slowDisk{LogStore: cfg.Logs}
			disks = append(disks, d)
			cfg.Logs = d
			cfg.Transport = slowInstall{newFastBeat(cfg.Transport.(*raft.InmemTransport)), 300 * time.Millisecond}
			cfg.Raft = func(rc *raft.Config) { rc.TrailingLogs = 1 }
			cfg.Limits.WatchdogAfter = 3 * time.Second
		})
		l, f := c.leader(), c.followers()[0]
		c.cut(f)
		for range 10 {
			l.do(t, enqueue("q", "in the snapshot"))
		}
		check(t, l.g.Raft().Snapshot().Error())
		c.join(f)
		pass(100 * time.Millisecond)
		hang := make(chan struct{})
		mine := disks[slices.Index(c.nodes, l)]
		mine.hang.Store(&hang)
		began := time.Now()
		l.send(enqueue("q", "in flight"))
		gone := func() bool { return l.g.Raft().State() != raft.Leader || len(l.fatal) > 0 }
		c.until(2*l.g.limits.WatchdogAfter, "the leader whose disk hangs still leads", gone)
		t.Logf("gone after %v", time.Since(began))
		mine.hang.Store(nil)
		close(hang)
		c.stop()
	})
}
