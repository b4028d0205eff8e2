package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/store"
	"github.com/quorate/quorate/fsm"
)

func TestKnown(t *testing.T) {
	logs := func(from, to uint64) (out []*raft.Log) {
		for i := from; i <= to; i++ {
			out = append(out, &raft.Log{Index: i, Term: 3})
		}
		return out
	}
	type request struct{ prev, from, to, commit uint64 }
	for _, tc := range []struct {
		name     string
		have     uint64
		in, want request
	}{
		{"a heartbeat", 9, request{}, request{}},
		{"the first entries there are", 0, request{0, 1, 4, 0}, request{0, 1, 4, 0}},
		{"new ones", 9, request{11, 12, 14, 11}, request{11, 12, 14, 11}},
		{"new ones, all committed", 9, request{11, 12, 14, 14}, request{11, 12, 14, 14}},
		{"new ones, and more is committed", 9, request{11, 12, 14, 90}, request{11, 12, 14, 14}},
		{"none, and more is committed", 9, request{11, 0, 0, 90}, request{11, 0, 0, 11}},
		{"none, nothing before, and more is committed", 9, request{0, 0, 0, 90}, request{0, 0, 0, 0}},
		{"none, after what is committed here", 11, request{11, 0, 0, 11}, request{0, 0, 0, 11}},
		{"none, after what is committed here, and more is committed", 11, request{11, 0, 0, 90}, request{0, 0, 0, 11}},
		{"after what is committed here", 11, request{11, 12, 14, 11}, request{0, 12, 14, 11}},
		{"one of them is committed here", 12, request{11, 12, 14, 12}, request{0, 13, 14, 12}},
		{"all of them are committed here", 20, request{11, 12, 14, 90}, request{0, 0, 0, 14}},
		{"from the first, which are committed here", 2, request{0, 1, 4, 0}, request{0, 3, 4, 0}},
		{"from the first, all of which are committed here", 4, request{0, 1, 4, 4}, request{0, 0, 0, 4}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			make := func(r request) *raft.AppendEntriesRequest {
				a := &raft.AppendEntriesRequest{Term: 3, PrevLogEntry: r.prev, LeaderCommitIndex: r.commit}
				if r.prev > 0 {
					a.PrevLogTerm = 3
				}
				if r.from > 0 {
					a.Entries = logs(r.from, r.to)
				}
				return a
			}
			show := func(a *raft.AppendEntriesRequest) string {
				s := fmt.Sprintf("term %d after %d of %d, committed %d:", a.Term, a.PrevLogEntry, a.PrevLogTerm, a.LeaderCommitIndex)
				for _, e := range a.Entries {
					s += fmt.Sprintf(" %d", e.Index)
				}
				return s
			}
			in := make(tc.in)
			got := known(in, tc.have)
			if show(got) != show(make(tc.want)) {
				t.Errorf("%s\ngot  %s\nwant %s", show(make(tc.in)), show(got), show(make(tc.want)))
			}
			if show(in) != show(make(tc.in)) {
				t.Errorf("the sender's request has become %s", show(in))
			}
		})
	}
}

// away is a follower that has been cut off, to which a test brings a leader's requests.
type away struct {
	t *testing.T
	c *cluster
	*node
	r    *raft.Raft
	l    *node  // the leader
	term uint64 // in which it leads
	way  *fastBeat
}

// newAway is a cluster of three whose nodes' logs may have no gaps, and one of them.
func newAway(t *testing.T) *away {
	return newAwayOn(t, func(below raft.LogStore) raft.LogStore { return gapless{below} })
}

func newAwayOn(t *testing.T, logs func(below raft.LogStore) raft.LogStore) *away {
	var ways []*fastBeat
	c := newCluster(t, 3, func(cfg *Config) {
		f := newFastBeat(cfg.Transport.(*raft.InmemTransport))
		ways = append(ways, f)
		cfg.Transport, cfg.Logs, cfg.Limits.CacheBytes = f, logs(cfg.Logs), 1
	})
	a := &away{t: t, c: c, l: c.leader()}
	for range 4 {
		a.l.do(t, enqueue("q", "everybody has it"))
	}
	c.agree()
	a.node = c.followers()[0]
	a.way = ways[slices.Index(c.nodes, a.node)]
	a.r = a.g.Raft()
	a.term = a.r.CurrentTerm()
	c.cut(a.node)
	return a
}

// own gives the node n entries that nobody else has, of a leader which is replaced then.
func (a *away) own(n uint64) {
	a.t.Helper()
	last := a.r.LastIndex()
	for i := last + 1; i <= last+n; i++ {
		e := &raft.Log{Index: i, Term: a.term, Type: raft.LogNoop}
		prev := &raft.Log{Term: a.term}
		if i == last+1 {
			prev = a.entry(last)
		}
		if !a.appendAfter(i-1, prev.Term, 0, e) {
			a.t.Fatalf("entry %d, which this node alone has, was refused", i)
		}
	}
	for _, next := range a.c.nodes {
		if next != a.node && next != a.l {
			check(a.t, a.l.g.Raft().LeadershipTransferToServer(next.id, next.addr).Error())
		}
	}
	a.l = a.c.successor(a.l)
	a.term = a.l.g.Status().Term
}

func (a *away) header() raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(a.l.id), Addr: []byte(a.l.addr)}
}

// bring has a request come in, beside whatever has come before. What it is answered is in the channel.
func (a *away) bring(command any, with io.Reader) chan raft.RPCResponse {
	got := make(chan raft.RPCResponse, 1)
	go func() {
		select {
		case a.way.out <- raft.RPC{Command: command, Reader: with, RespChan: got}:
		case <-a.way.end:
		}
	}()
	synctest.Wait()
	return got
}

// append brings entries of the leader and says whether they were taken.
func (a *away) append(after uint64, committed uint64, entries ...*raft.Log) bool {
	a.t.Helper()
	return a.appendAfter(after, a.entry(after).Term, committed, entries...)
}

func (a *away) appendAfter(after, of, committed uint64, entries ...*raft.Log) bool {
	a.t.Helper()
	req := &raft.AppendEntriesRequest{
		RPCHeader: a.header(), Term: a.term, PrevLogEntry: after, PrevLogTerm: of, Entries: entries, LeaderCommitIndex: committed,
	}
	select {
	case got := <-a.bring(req, nil):
		return got.Response.(*raft.AppendEntriesResponse).Success
	default:
		a.t.Fatalf("no answer to entries after %d", after)
		return false
	}
}

func (a *away) entry(index uint64) *raft.Log {
	a.t.Helper()
	e := new(raft.Log)
	check(a.t, a.l.logs.GetLog(index, e))
	return e
}

// snapshot is one of the leader's, as it sends it.
func (a *away) snapshot() (*raft.InstallSnapshotRequest, []byte) {
	a.t.Helper()
	taken := a.l.g.Raft().Snapshot()
	check(a.t, taken.Error())
	meta, rc, err := taken.Open()
	check(a.t, err)
	state, err := io.ReadAll(rc)
	check(a.t, errors.Join(err, rc.Close()))
	return &raft.InstallSnapshotRequest{
		RPCHeader: a.header(), SnapshotVersion: meta.Version, Term: a.term, LastLogIndex: meta.Index, LastLogTerm: meta.Term, Size: meta.Size,
		Configuration: raft.EncodeConfiguration(meta.Configuration), ConfigurationIndex: meta.ConfigurationIndex,
	}, state
}

// install brings one and says whether it was taken.
func (a *away) install(req *raft.InstallSnapshotRequest, state []byte) bool {
	a.t.Helper()
	got := <-a.bring(req, bytes.NewReader(state))
	resp, ok := got.Response.(*raft.InstallSnapshotResponse)
	return ok && got.Error == nil && resp.Success
}

// back joins the node to the others again, which must agree.
func (a *away) back() {
	a.c.join(a.node)
	a.c.leader().do(a.t, enqueue("q", "goes on"))
	a.c.agree()
	a.c.stop()
}

// A node that led commits none of its own entries because its successor says that an entry of that number is committed, in a request that does
// not have it. (G1, G15)
func TestOwnTailIsNotCommitted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newAway(t)
		defer a.back()
		last := a.r.LastIndex()
		a.own(1)
		if !a.append(last, last+1) {
			t.Error("the first request of the next leader was refused")
		}
		if a.r.CommitIndex() > last || a.r.AppliedIndex() > last {
			t.Errorf("committed up to %d and applied up to %d, %d is what the request has shown to be the leader's", a.r.CommitIndex(), a.r.AppliedIndex(), last)
		}
	})
}

// A follower goes on from a snapshot, or from what is committed, whatever its log has of that. (G12)
func TestGoesOnFromWhatIsCommitted(t *testing.T) {
	more := func(a *away) uint64 { // and the leader's snapshot of it is installed
		for range 3 {
			a.l.do(a.t, enqueue("q", "in the snapshot"))
		}
		req, state := a.snapshot()
		for range 2 {
			a.l.do(a.t, enqueue("q", "after it"))
		}
		if !a.install(req, state) {
			a.t.Fatal("the snapshot was refused")
		}
		return req.LastLogIndex
	}
	for _, tc := range []struct {
		name string
		run  func(a *away)
	}{
		{"the answer to the first entries after a snapshot is lost", func(a *away) {
			end := more(a)
			for _, which := range []string{"the first time", "again", "and again"} {
				if !a.append(end, end, a.entry(end+1), a.entry(end+2)) {
					a.t.Fatalf("entries after the snapshot were refused, %s", which)
				}
			}
		}},
		{"one more comes than the first time", func(a *away) {
			end := more(a)
			if !a.append(end, end, a.entry(end+1)) || !a.append(end, end+1, a.entry(end+1), a.entry(end+2)) {
				a.t.Fatal("entries after the snapshot were refused")
			}
		}},
		{"the leader begins before the snapshot", func(a *away) {
			end := more(a)
			if !a.append(end-2, end, a.entry(end-1), a.entry(end), a.entry(end+1)) {
				a.t.Fatal("entries of the snapshot, and one after it, were refused")
			}
		}},
		{"its own log has been cut from below", func(a *away) {
			a.l.do(a.t, enqueue("q", "next"))
			last := a.r.AppliedIndex()
			check(a.t, a.logs.DeleteRange(1, last-1))
			if !a.append(last-2, last, a.entry(last-1), a.entry(last), a.entry(last+1)) {
				a.t.Fatal("entries were refused whose beginning is applied here")
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				a := newAway(t)
				tc.run(a)
				a.back()
			})
		})
	}
}

// A snapshot that ends within a log whose end is a replaced leader's ends the process, which goes on when it is started again. (G12, G15)
func TestSnapshotWithinTheLog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newAway(t)
		last := a.r.LastIndex()
		a.own(20)
		a.l.do(t, enqueue("q", "in the snapshot"))
		req, state := a.snapshot()
		if !a.install(req, state) {
			t.Error("the snapshot was refused")
		}
		select {
		case err := <-a.fatal:
			if !errors.Is(err, ErrLogReplaced) || !strings.Contains(err.Error(), fmt.Sprint(last+20)) {
				t.Errorf("ended with %v, want %v up to %d", err, ErrLogReplaced, last+20)
			}
		case <-time.After(time.Second):
			t.Error("the node was not ended")
		}
		a.c.kill(a.node)
		a.c.start(a.node)
		a.back()
	})
}

// A process that ends when a snapshot has its name and the log has not been dropped starts without the entries of the leader that was replaced,
// also below the snapshot, which nobody sends again. (G15)
func TestCutOffInstall(t *testing.T) {
	for _, tc := range []struct {
		name string
		own  uint64 // entries that it alone has
	}{
		{"within the log", 20},
		{"beyond the log's end", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				halt := store.NewHalt(func(err error) { t.Errorf("a store has failed: %v", err) })
				defer halt.Release()
				var index, term uint64
				a := newAwayOn(t, func(below raft.LogStore) raft.LogStore {
					log := store.NewLog(below, halt, store.LogOptions{File: "log", Floor: func() (uint64, uint64) { return index, term }})
					check(t, log.Settle())
					return log
				})
				a.own(tc.own)
				for range 6 {
					a.l.do(t, enqueue("q", "in the snapshot"))
				}
				req, state := a.snapshot()
				a.c.kill(a.node)
				sink, err := a.snaps.Create(req.SnapshotVersion, req.LastLogIndex, req.LastLogTerm, raft.DecodeConfiguration(req.Configuration), req.ConfigurationIndex, a.trans)
				check(t, err)
				_, err = sink.Write(state)
				check(t, errors.Join(err, sink.Close()))
				index, term = req.LastLogIndex, req.LastLogTerm
				a.c.start(a.node)
				a.back()
				for i := uint64(1); i <= index; i++ {
					e := new(raft.Log)
					if err := a.logs.GetLog(i, e); err == nil && e.Term != a.entry(i).Term {
						t.Errorf("entry %d is of term %d, the leader's is of term %d; the snapshot ends at %d", i, e.Term, a.entry(i).Term, index)
					}
				}
			})
		})
	}
}

// A snapshot of a term that is over keeps raft's loop from nothing while it comes in.
func TestOldSnapshotIsReadAside(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newAway(t)
		defer a.back()
		a.l.do(t, enqueue("q", "in the snapshot"))
		req, state := a.snapshot()
		req.Term--
		r, w := io.Pipe()
		got := a.bring(req, r)
		if last := a.r.LastIndex(); !a.append(last, last) {
			t.Error("the leader's request was refused")
		}
		_, err := w.Write(state)
		check(t, errors.Join(err, w.Close()))
		if resp := (<-got).Response.(*raft.InstallSnapshotResponse); resp.Success || resp.Term != a.term {
			t.Errorf("the answer is %+v, want a refusal of term %d", resp, a.term)
		}
	})
}

// Who waits for the digest of a checkpoint that the node then passes by a snapshot is told so.
func TestDigestOvertakenByASnapshot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newAway(t)
		defer a.back()
		at := a.l.do(t, &fsm.Checkpoint{Nonce: 1}).at.Index
		a.l.do(t, enqueue("q", "after it"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		asked := make(chan error, 1)
		go func() {
			_, err := a.g.DigestAt(ctx, at)
			asked <- err
		}()
		synctest.Wait()
		if req, state := a.snapshot(); !a.install(req, state) {
			t.Error("the snapshot was refused")
		}
		if err := <-asked; err == nil || ctx.Err() != nil {
			t.Errorf("a digest at %d: %v, want to be told that there is none", at, err)
		}
	})
}

// Nothing of a log is left when a snapshot has taken its place, whatever store it is in: not the entries of a leader that was replaced, which a
// later leader would send as what was committed. (G15; hashicorp/raft#697)
func TestSnapshotLeavesNothingOfTheLog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		halt := store.NewHalt(func(err error) { t.Errorf("a store has failed: %v", err) })
		defer halt.Release()
		a := newAwayOn(t, func(below raft.LogStore) raft.LogStore {
			return store.NewLog(below, halt, store.LogOptions{File: "log"})
		})
		defer a.back()
		last := a.r.LastIndex()
		a.own(2)
		for range 9 {
			a.l.do(t, enqueue("q", "in the snapshot"))
		}
		if req, state := a.snapshot(); !a.install(req, state) || req.LastLogIndex <= last+2 {
			t.Errorf("a snapshot up to %d was refused, or does not reach over the log, which ends at %d", req.LastLogIndex, last+2)
		}
		for i := uint64(1); i <= last+2; i++ {
			if err := a.logs.GetLog(i, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
				t.Errorf("entry %d is still there (%v)", i, err)
			}
		}
	})
}
