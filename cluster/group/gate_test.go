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

// sent counts what comes to a transport.
type sent struct {
	raft.Transport
	n int
}

func (s *sent) AppendEntries(raft.ServerID, raft.ServerAddress, *raft.AppendEntriesRequest, *raft.AppendEntriesResponse) error {
	s.n++
	return nil
}

func (s *sent) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return sentPipeline{s: s}, nil
}

type sentPipeline struct {
	raft.AppendPipeline
	s *sent
}

func (p sentPipeline) AppendEntries(*raft.AppendEntriesRequest, *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	p.s.n++
	return nil, nil
}

// Requests that were put together in a term which is over here are not sent: they may be of two logs.
func TestDeposedLeaderSendsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		r := c.leader().g.Raft()
		below := &sent{}
		g := newGate(below, nil, nil, func() {}, nil, nil)
		g.open(r)
		pipe, err := g.AppendEntriesPipeline("", "")
		check(t, err)
		for _, tc := range []struct {
			name string
			term uint64
			want error
			sent int
		}{
			{"of this term", r.CurrentTerm(), nil, 2},
			{"of one that is over", r.CurrentTerm() - 1, errDeposed, 0},
		} {
			below.n = 0
			req := &raft.AppendEntriesRequest{Term: tc.term}
			if err := g.AppendEntries("", "", req, &raft.AppendEntriesResponse{}); !errors.Is(err, tc.want) {
				t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
			}
			if _, err := pipe.AppendEntries(req, nil); !errors.Is(err, tc.want) {
				t.Errorf("%s, by pipeline: %v, want %v", tc.name, err, tc.want)
			}
			if below.n != tc.sent {
				t.Errorf("%s: %d were sent, want %d", tc.name, below.n, tc.sent)
			}
		}
	})
}

// Raft is not asked for a transfer while its loop waits for the disk: one that was given up is not carried out later.
func TestHandOverWhileTheLoopWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, diskOf := newSlowCluster(t, 3)
		defer c.stop()
		l, f := c.leader(), c.followers()[0]
		r := l.g.Raft()
		term := r.CurrentTerm()
		hang := make(chan struct{})
		diskOf(l).hang.Store(&hang)
		change := r.DemoteVoter(f.id, 0, 0) // raft's loop writes it
		synctest.Wait()
		began := time.Now()
		if err := l.g.handOver(t.Context()); err == nil {
			t.Error("leadership was handed over")
		}
		if took := time.Since(began); took > l.g.limits.TransferWithin {
			t.Errorf("it took %v, %v at most were to be waited", took, l.g.limits.TransferWithin)
		}
		diskOf(l).hang.Store(nil)
		close(hang)
		check(t, change.Error())
		pass(5 * time.Second)
		if r.State() != raft.Leader || r.CurrentTerm() != term {
			t.Errorf("%v in term %d, want the leader of term %d", r.State(), r.CurrentTerm(), term)
		}
		check(t, l.g.handOver(t.Context()))
	})
}
