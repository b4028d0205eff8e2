package group

import (
	"bytes"
	"io"
	"slices"
	"testing"
	"testing/synctest"

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
