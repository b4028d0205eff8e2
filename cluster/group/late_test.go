package group

import (
	"bytes"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// gapless is a log store that can have no gaps, which raft drops whole when a snapshot is installed.
type gapless struct{ raft.LogStore }

func (gapless) IsMonotonic() bool { return true }

// A snapshot that comes when a node has long confirmed what follows it takes nothing back. (G1)
func TestLateSnapshot(t *testing.T) {
	for _, tc := range []struct {
		name    string
		later   int64 // its term, less the node's
		success bool
	}{
		{"of the term", 0, true},
		{"of a later term", 1, true},
		{"of an earlier term", -1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var ways []*fastBeat
				c := newCluster(t, 3, func(cfg *Config) {
					f := newFastBeat(cfg.Transport.(*raft.InmemTransport))
					ways = append(ways, f)
					cfg.Transport, cfg.Logs = f, gapless{cfg.Logs}
				})
				defer c.stop()
				l := c.leader()
				l.do(t, enqueue("q", "in the snapshot"))
				taken := l.g.Raft().Snapshot()
				check(t, taken.Error())
				meta, rc, err := taken.Open()
				check(t, err)
				state, err := io.ReadAll(rc)
				check(t, err)
				check(t, rc.Close())
				l.do(t, enqueue("q", "after it"))
				c.agree()

				f := c.followers()[0]
				r := f.g.Raft()
				applied, term := r.AppliedIndex(), r.CurrentTerm()
				last, err := f.logs.LastIndex()
				check(t, err)
				got := make(chan raft.RPCResponse, 1)
				ways[slices.Index(c.nodes, f)].out <- raft.RPC{RespChan: got, Reader: bytes.NewReader(state), Command: &raft.InstallSnapshotRequest{
					RPCHeader:       raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(l.id), Addr: []byte(l.addr)},
					SnapshotVersion: meta.Version, Term: uint64(int64(term) + tc.later), LastLogIndex: meta.Index, LastLogTerm: meta.Term, Size: meta.Size,
					Configuration: raft.EncodeConfiguration(meta.Configuration), ConfigurationIndex: meta.ConfigurationIndex,
				}}
				synctest.Wait()
				a := <-got
				if resp, ok := a.Response.(*raft.InstallSnapshotResponse); a.Error != nil || !ok || resp.Success != tc.success {
					t.Errorf("the answer is %+v (%v), want success: %v", a.Response, a.Error, tc.success)
				}
				if r.AppliedIndex() < applied {
					t.Errorf("the node has gone back from entry %d to %d", applied, r.AppliedIndex())
				}
				if now, err := f.logs.LastIndex(); err != nil || now < last {
					t.Errorf("the log ends at %d, it ended at %d (%v)", now, last, err)
				}
				if want := uint64(int64(term) + max(0, tc.later)); r.CurrentTerm() != want {
					t.Errorf("the node is in term %d, want %d", r.CurrentTerm(), want)
				}
				if tc.later > 0 {
					c.beyond(term)
				}
				c.agree()
				c.leader().do(t, enqueue("q", "goes on"))
				c.agree()
			})
		})
	}
}

// slow is a snapshot store whose next snapshot is kept waiting.
type slow struct {
	raft.SnapshotStore
	next        atomic.Bool // the next one waits
	began, goOn chan struct{}
}

func (s *slow) Create(version raft.SnapshotVersion, index, term uint64, c raft.Configuration, at uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	if s.next.Swap(false) {
		close(s.began)
		<-s.goOn
	}
	return s.SnapshotStore.Create(version, index, term, c, at, trans)
}

// far is a transport on which a snapshot takes a while.
type far struct{ *raft.InmemTransport }

func (f far) InstallSnapshot(id raft.ServerID, at raft.ServerAddress, req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, state io.Reader) error {
	pass(100 * time.Millisecond)
	return f.InmemTransport.InstallSnapshot(id, at, req, resp, state)
}

// A follower whose own snapshot is finished when a newer one has been installed goes on.
func TestSnapshotOvertakenByAnInstall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		snaps := map[raft.ServerID]*slow{}
		c := newCluster(t, 3, func(cfg *Config) {
			snaps[cfg.LocalID] = &slow{SnapshotStore: cfg.Snapshots, began: make(chan struct{}), goOn: make(chan struct{})}
			cfg.Snapshots, cfg.Logs = snaps[cfg.LocalID], gapless{cfg.Logs}
			cfg.Transport = far{cfg.Transport.(*raft.InmemTransport)}
		})
		defer c.stop()
		l := c.leader()
		l.do(t, enqueue("q", "in both"))
		c.agree()

		f := c.followers()[0]
		r, own := f.g.Raft(), snaps[f.id]
		goOn := sync.OnceFunc(func() { close(own.goOn) })
		defer goOn()
		own.next.Store(true)
		taken := r.Snapshot()
		<-own.began
		c.cut(f)
		for range 10 {
			l.do(t, enqueue("q", "in the leader's"))
		}
		rc := l.g.Raft().ReloadableConfig()
		rc.TrailingLogs = 0
		check(t, l.g.Raft().ReloadConfig(rc))
		check(t, l.g.Raft().Snapshot().Error())
		index := l.g.Raft().LastIndex()
		c.join(f)
		c.until(30*time.Second, "the snapshot is installed", func() bool { return r.AppliedIndex() == index })
		goOn()
		check(t, taken.Error()) // the store in memory takes one that is older
		l.do(t, enqueue("q", "behind it"))
		c.until(30*time.Second, "the follower has what follows", func() bool { return r.AppliedIndex() > index })
		c.agree()
	})
}
