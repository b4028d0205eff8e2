package group

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/quorate/quorate/fsm"
)

func commands(from, to uint64) (logs []*raft.Log) {
	for i := from; i <= to; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: 1, Type: raft.LogCommand, Data: fmt.Append(nil, i)})
	}
	return logs
}

// began runs f and says whether it has come back by itself when nothing else can happen any more.
func began(f func() error) (back func() bool, end chan error) {
	end = make(chan error, 1)
	go func() { end <- f() }()
	return func() bool { synctest.Wait(); return len(end) > 0 }, end
}

// TestAheadWaits: what a leader's disk has not written yet is in the log for raft, and everything that must not come before
// the disk waits for it.
func TestAheadWaits(t *testing.T) {
	type rig struct {
		a *Ahead
	}
	for _, test := range []struct {
		name string
		do   func(r rig) error
		want func(t *testing.T, r rig)
	}{
		{"the state machine", func(r rig) error { return r.a.Wait(3) }, nil},
		{"a read of the entry", func(r rig) error { return r.a.GetLog(3, new(raft.Log)) }, nil},
		{"the log's ends", func(r rig) error {
			first, err := r.a.FirstIndex()
			last, err2 := r.a.LastIndex()
			if first != 1 || last != 3 {
				return fmt.Errorf("the log goes from %d to %d, want 1 to 3", first, last)
			}
			return errors.Join(err, err2)
		}, nil},
		{"a change of term", func(r rig) error { return r.a.Stable(raft.NewInmemStore()).SetUint64([]byte("CurrentTerm"), 2) }, nil},
		{"a vote", func(r rig) error { return r.a.Stable(raft.NewInmemStore()).Set([]byte("LastVoteCand"), []byte("x")) }, nil},
		{"a membership change", func(r rig) error {
			return r.a.StoreLogs([]*raft.Log{{Index: 4, Term: 1, Type: raft.LogConfiguration}})
		}, func(t *testing.T, r rig) {
			if got := r.a.commit(9); got != 4 {
				t.Errorf("committed is said up to %d, want 4", got)
			}
		}},
		{"a command behind a barrier", func(r rig) error {
			return r.a.StoreLogs(append([]*raft.Log{{Index: 4, Term: 1, Type: raft.LogBarrier}}, commands(5, 5)...))
		}, nil},
		{"another leader's entry", func(r rig) error {
			return r.a.StoreLogs([]*raft.Log{{Index: 4, Term: 2, Type: raft.LogCommand, Extensions: testSeal}})
		}, nil},
		{"a cut of the log's end", func(r rig) error { return r.a.DeleteRange(2, 3) }, func(t *testing.T, r rig) {
			if got := r.a.commit(9); got != 1 {
				t.Errorf("committed is said up to %d, want 1", got)
			}
			if err := r.a.StoreLogs([]*raft.Log{{Index: 2, Term: 2, Type: raft.LogCommand, Extensions: testSeal}}); err != nil {
				t.Error(err)
			}
			if got := r.a.commit(9); got != 2 {
				t.Errorf("after another leader's entry committed is said up to %d, want 2", got)
			}
		}},
		{"a compaction", func(r rig) error { return r.a.DeleteRange(1, 2) }, func(t *testing.T, r rig) {
			if got := r.a.commit(9); got != 3 {
				t.Errorf("committed is said up to %d, want 3", got)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := &slowDisk{LogStore: sealing{raft.NewInmemStore()}}
				hang := make(chan struct{})
				a := NewAhead(disk, 0)
				defer a.Close()
				if err := a.StoreLogs(commands(1, 1)); err != nil {
					t.Fatal(err)
				}
				if err := a.Wait(1); err != nil {
					t.Fatal(err)
				}
				disk.hang.Store(&hang)
				if err := a.StoreLogs(commands(2, 3)); err != nil {
					t.Fatal(err)
				}
				if got := a.commit(3); got != 1 {
					t.Errorf("committed is said up to %d with a disk that has 1", got)
				}
				r := rig{a: a}
				back, end := began(func() error { return test.do(r) })
				if back() {
					t.Error("it did not wait for the disk")
				}
				disk.hang.Store(nil)
				close(hang)
				if err := <-end; err != nil {
					t.Error(err)
				}
				if test.want != nil {
					test.want(t, r)
				}
			})
		})
	}
}

// TestAheadInOrder: all is written, in order, and what came up while the disk was busy in one piece.
func TestAheadInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		counted := &callsStore{sealing: sealing{raft.NewInmemStore()}}
		disk := &slowDisk{LogStore: counted}
		disk.hang.Store(&hang)
		a := NewAhead(disk, 0)
		for i := uint64(1); i <= 100; i++ {
			if err := a.StoreLogs(commands(i, i)); err != nil {
				t.Fatal(err)
			}
			if i == 1 {
				synctest.Wait() // the writer has the first in hand
			}
		}
		disk.hang.Store(nil)
		close(hang)
		a.Close() // writes the rest
		a.Close()
		if counted.calls != 2 {
			t.Errorf("%d writes, want 2: the first entry, and all that came up meanwhile", counted.calls)
		}
		for i := uint64(1); i <= 100; i++ {
			var l raft.Log
			if err := a.GetLog(i, &l); err != nil || string(l.Data) != fmt.Sprint(i) || string(l.Extensions) != string(testSeal) {
				t.Fatalf("entry %d is %q %q (%v)", i, l.Data, l.Extensions, err)
			}
		}
		if err := a.StoreLogs(commands(101, 101)); err != nil || a.commit(101) != 101 {
			t.Errorf("after the end an entry is written at once: %v, committed %d", err, a.commit(101))
		}
	})
}

type callsStore struct {
	sealing
	calls int
}

func (c *callsStore) StoreLogs(logs []*raft.Log) error {
	c.calls++
	return c.sealing.StoreLogs(logs)
}

// failingStore fails every write.
type failingStore struct {
	sealing
	err error
}

func (f failingStore) StoreLogs([]*raft.Log) error { return f.err }

// TestAheadFails: after a failed write nothing is said to be written, and nothing is taken any more.
func TestAheadFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken disk")
		a := NewAhead(failingStore{sealing{raft.NewInmemStore()}, broken}, 7)
		defer a.Close()
		if err := a.StoreLogs(commands(8, 8)); err != nil {
			t.Fatal(err)
		}
		if err := a.Wait(8); !errors.Is(err, broken) {
			t.Errorf("the state machine is told %v, want the disk's error", err)
		}
		if err := a.Wait(7); err != nil {
			t.Errorf("what was there before: %v", err)
		}
		if got := a.commit(8); got != 7 {
			t.Errorf("committed is said up to %d, want 7", got)
		}
		for what, err := range map[string]error{
			"another entry": a.StoreLogs(commands(9, 9)), "a barrier": a.StoreLogs([]*raft.Log{{Index: 9, Type: raft.LogBarrier}}),
			"a vote": a.Stable(raft.NewInmemStore()).Set([]byte(voteKey), []byte("x")), "a cut": a.DeleteRange(8, 8),
			"an entry that there never was": a.GetLog(9, new(raft.Log)),
		} {
			if !errors.Is(err, broken) {
				t.Errorf("%s after the failure: %v", what, err)
			}
		}
		// What raft panics over.
		stable := raft.NewInmemStore()
		if err := a.Stable(stable).SetUint64([]byte(termKey), 2); err != nil {
			t.Errorf("a term after the failure: %v", err)
		}
		if v, _ := stable.GetUint64([]byte(termKey)); v != 0 {
			t.Errorf("term %d is stored, and what was taken before it is not", v)
		}
		var l raft.Log
		if err := a.GetLog(8, &l); err != nil || l.Index != 8 {
			t.Errorf("an entry that was taken and never will be written: %d, %v", l.Index, err)
		}
	})
}

// TestAheadOfASlowLeader: with the leader's disk hanging an entry reaches the followers, and nobody applies it; when the disk
// goes on everybody does. Where the leader is gone by then the next one decides, and the old one follows.
func TestAheadOfASlowLeader(t *testing.T) {
	for _, dies := range []bool{false, true} {
		t.Run(fmt.Sprintf("dies=%v", dies), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, diskOf := newSlowCluster(t, 3)
				l := c.leader()
				l.do(t, enqueue("q", "first"))
				c.agree()
				disk := diskOf(l)
				before := l.g.applied.Load()
				hang := make(chan struct{})
				disk.hang.Store(&hang)
				o := l.send(enqueue("q", "second"))
				c.until(time.Second, "the followers have not got the entry", func() bool {
					for _, nd := range c.nodes {
						if nd.g.Raft().LastIndex() <= before {
							return false
						}
					}
					return true
				})
				pass(200 * time.Millisecond) // many times what an answer takes, and less than an election
				for _, nd := range c.nodes {
					if got := nd.g.applied.Load(); got > before {
						t.Errorf("%s has applied entry %d, which the leader's disk does not have", nd.id, got)
					}
				}
				if len(o.end) > 0 {
					t.Errorf("answered %+v before the leader's disk has it", <-o.end)
				}
				if dies {
					c.cut(l)
					c.successor(l)
				}
				disk.hang.Store(nil)
				close(hang)
				if a := o.wait(t); dies != (a.err != nil) || dies && !a.err.Unknown {
					t.Errorf("answered %+v", a)
				}
				if dies {
					c.join(l)
				}
				c.until(10*time.Second, "not everybody has the second message", func() bool {
					for _, nd := range c.nodes {
						n := int64(0)
						if _, err := nd.g.Read(t.Context(), true, func(st *fsm.State) {
							if q, ok := st.QueueNumber([]byte("q")); ok {
								n = st.Stats(q).Ready
							}
						}); err != nil || n != 2 {
							return false
						}
					}
					return true
				})
				c.agree()
				c.stop()
			})
		})
	}
}

// TestAheadOfAFailedLeader: a leader whose disk has failed, and that is being let go, hears of a new term and of what that has committed. Raft must
// not panic over either, whatever it is at: applying what it took ahead, standing for election, following.
func TestAheadOfAFailedLeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, diskOf := newSlowCluster(t, 3)
		l := c.leader()
		l.do(t, enqueue("q", "first"))
		c.agree()
		broken := errors.New("broken disk")
		diskOf(l).fails.Store(&broken)
		o := l.send(enqueue("q", "second"))
		select {
		case err := <-l.fatal:
			if !errors.Is(err, broken) {
				t.Errorf("it ends over %v, want its disk's error", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the leader does not end over its disk's error")
		}
		if len(o.end) > 0 {
			if a := <-o.end; a.err == nil {
				t.Errorf("answered %+v, which the leader's disk does not have", a)
			}
		}
		c.cut(l)
		next := c.successor(l)
		next.do(t, enqueue("q", "third"))
		c.join(l)
		c.until(10*time.Second, "the old leader has not heard of the new term", func() bool {
			return l.g.Raft().CurrentTerm() >= next.g.Raft().CurrentTerm()
		})
		pass(5 * time.Second)
		c.kill(l)
		c.stop()
	})
}

// reading is a transport at whose other end a request is still read when its sender has given it up.
type reading struct {
	raft.Transport
	got []*raft.AppendEntriesRequest
}

func (r *reading) AppendEntries(_ raft.ServerID, _ raft.ServerAddress, args *raft.AppendEntriesRequest, _ *raft.AppendEntriesResponse) error {
	r.got = append(r.got, args)
	return errors.New("no answer in time")
}

// TestRequestsStayAsTheyAre: raft sends one heartbeat again and again, so what is said of the commit index is said in a request of its own.
func TestRequestsStayAsTheyAre(t *testing.T) {
	store := raft.NewInmemStore()
	if err := store.StoreLogs(commands(1, 3)); err != nil {
		t.Fatal(err)
	}
	a := NewAhead(store, 3)
	defer a.Close()
	r := &reading{}
	trans := a.Transport(r)
	args := raft.AppendEntriesRequest{Term: 7, LeaderCommitIndex: 9}
	for i := range 2 {
		if err := trans.AppendEntries("n2", "n2", &args, new(raft.AppendEntriesResponse)); err == nil {
			t.Fatal("an answer")
		}
		if args.LeaderCommitIndex != 9 {
			t.Errorf("sending %d has written to the request: %+v", i, args)
		}
		if got := r.got[i]; got == &args || got.LeaderCommitIndex != 3 || got.Term != 7 {
			t.Errorf("sending %d: %+v", i, got)
		}
	}
	if r.got[0] == r.got[1] {
		t.Error("two sendings share a request")
	}
}
