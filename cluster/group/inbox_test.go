package group

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// A follower whose store fails while entries are replaced, and is let go for the node's end, hears of nothing more: raft believes that it
// has entries which have been cut off, and would panic over them.
func TestNothingComesInAfterAFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		failed := map[raft.ServerID]chan struct{}{}
		var ways []*fastBeat
		var disks []*slowDisk
		c := newCluster(t, 3, func(cfg *Config) {
			f, d := newFastBeat(cfg.Transport.(*raft.InmemTransport)), &slowDisk{LogStore: cfg.Logs}
			ways, disks = append(ways, f), append(disks, d)
			failed[cfg.LocalID] = make(chan struct{})
			cfg.Transport, cfg.Logs, cfg.Failed, cfg.Limits.CacheBytes = f, d, failed[cfg.LocalID], 1
		})
		defer c.stop()
		l := c.leader()
		for range 4 {
			l.do(t, enqueue("q", "committed by the others"))
		}
		c.agree()
		f := c.followers()[0]
		at := slices.Index(c.nodes, f)
		c.cut(f)
		r := f.g.Raft()
		// One more entry of this term, which only this node has, and then another one in its place, of the next term, which it cannot store.
		last, term := r.LastIndex(), r.CurrentTerm()
		header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(l.id), Addr: []byte(l.addr)}
		send := func(term, after, of uint64, committed uint64, entries ...*raft.Log) chan raft.RPCResponse {
			got := make(chan raft.RPCResponse, 1)
			in := raft.RPC{RespChan: got, Command: &raft.AppendEntriesRequest{
				RPCHeader: header, Term: term, PrevLogEntry: after, PrevLogTerm: of, Entries: entries, LeaderCommitIndex: committed,
			}}
			go func() {
				select {
				case ways[at].out <- in:
				case <-ways[at].end:
				}
			}()
			synctest.Wait()
			return got
		}
		var e raft.Log
		check(t, f.logs.GetLog(last, &e))
		prev := e.Term
		if a := <-send(term, last, prev, last, &raft.Log{Index: last + 1, Term: term, Type: raft.LogNoop}); !a.Response.(*raft.AppendEntriesResponse).Success {
			t.Fatalf("the entry of this term: %+v", a.Response)
		}
		broken := errors.New("the disk is gone")
		disks[at].fails.Store(&broken)
		hang := make(chan struct{})
		disks[at].hang.Store(&hang)
		first := send(term+1, last, prev, last, &raft.Log{Index: last + 1, Term: term + 1, Type: raft.LogNoop})
		second := send(term+1, last, prev, last+1)
		close(failed[f.id])
		synctest.Wait()
		close(hang) // let go, and still failing
		if a := <-first; a.Response.(*raft.AppendEntriesResponse).Success {
			t.Errorf("an entry that was not stored: %+v", a.Response)
		}
		pass(time.Second)
		select {
		case a := <-second:
			t.Errorf("the request after it was answered: %+v", a.Response)
		default:
		}
		for _, term := range []uint64{r.CurrentTerm(), r.CurrentTerm() + 1} {
			if a := ways[at].heartbeat(l, term)(); a != nil {
				t.Errorf("a heartbeat of term %d was answered: %+v", term, a)
			}
		}
	})
}
