package group

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/quorate/quorate/fsm"
)

// Snapshots by bytes, a short log behind them, restart from one, and an install on a node that was away (C4).
func TestSnapshotRestartAndInstall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, func(cfg *Config) {
			cfg.Limits.SnapshotBytes, cfg.Limits.TrailingBytes = 256<<10, 64<<10
		})
		defer c.stop()
		l := c.leader()
		away := c.followers()[0]
		c.halt(away)
		body := string(make([]byte, 4000))
		write := func(n int) {
			for i := range n {
				l.do(t, enqueue("q", fmt.Sprint(i), body))
			}
			pass(time.Second)
		}
		write(200)
		write(200)
		first, err := l.g.cache.FirstIndex()
		check(t, err)
		if last := l.g.Raft().LastIndex(); first <= 2 || last-first > 250 {
			t.Errorf("the log has %d to %d, want a short one", first, last)
		}
		c.start(away)
		c.until(10*time.Second, "caught up by an install", func() bool { return away.g.Status().Applied >= l.g.Status().Applied })
		c.agree()
		write(420) // as much again as there is
		// What an install has passed over was never in this node's log: it must not make the log's trail longer.
		first, err = away.g.cache.FirstIndex()
		check(t, err)
		if last := away.g.Raft().LastIndex(); last-first > 70 {
			t.Errorf("the log of the node that was away has %d to %d, want a short one", first, last)
		}
		c.halt(l)
		c.start(l)
		l = c.leader()
		write(100)
		l.do(t, enqueue("q", "after"))
		c.until(10*time.Second, "all caught up", func() bool {
			for _, nd := range c.nodes {
				if nd.g.Status().Applied < l.g.Status().Applied || !nd.g.Status().Ready {
					return false
				}
			}
			return true
		})
		if got := l.stats("q").Ready; got != 1841 {
			t.Errorf("%d messages, want 1841", got)
		}
		for _, nd := range c.nodes { // one has written snapshots, one got them, one began with its own
			if n := nd.g.snapshotSize.Load(); n < 400*4000 {
				t.Errorf("%s knows of a snapshot of %d bytes, want that of 400 messages of 4,000 bytes at least", nd.id, n)
			}
		}
		c.agree()
	})
}

// Snapshots by entries: small ones, which are few bytes, do not make the log longer than a start should read (C4).
func TestSnapshotsByEntries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 1, func(cfg *Config) {
			cfg.Limits.SnapshotEntries, cfg.Limits.TrailingBytes = 100, 1
		})
		defer c.stop()
		l := c.leader()
		for i := range 400 {
			l.do(t, enqueue("q", fmt.Sprint(i)))
			if i%50 == 0 {
				pass(time.Second)
			}
		}
		pass(time.Second)
		first, err := l.g.cache.FirstIndex()
		check(t, err)
		if last := l.g.Raft().LastIndex(); last < 400 || last-first > 100+50+trailingLeast {
			t.Errorf("the log has %d to %d, want a short one", first, last)
		}
	})
}

// A read sees everything that was confirmed before it, by whatever leader.
func TestReadsAreLinearizable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		confirmed, reads := int64(0), 0
		for i := range 300 {
			l := c.leader()
			if a := l.send(enqueue("q", "x")).wait(t); a.err == nil {
				confirmed++
			}
			before := confirmed
			var got int64
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			at, err := l.g.Read(ctx, false, func(st *fsm.State) {
				n, _ := st.QueueNumber([]byte("q"))
				got = int64(st.Ready(n))
			})
			cancel()
			if err == nil {
				reads++
				if got < before || at.Index == 0 {
					t.Fatalf("read %d messages at index %d after %d were confirmed", got, at.Index, before)
				}
			}
			if i%50 == 49 {
				c.cut(l)
				if i%100 == 99 { // at once, or when it has noticed
					c.until(5*time.Second, "deposed", func() bool { return !l.g.Status().Leader })
				}
				c.until(5*time.Second, "another leader", func() bool {
					for _, nd := range c.nodes {
						if nd != l && nd.g.Status().Leader {
							return true
						}
					}
					return false
				})
				c.join(l)
			}
		}
		if reads < 200 {
			t.Errorf("only %d reads succeeded", reads)
		}
	})
}

// A new leader answers nothing before it knows what the old one had confirmed: without the barrier there is a time in
// which leadership is confirmed and the commit index is an old one.
func TestFirstReadOfATerm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var disks []*slowDisk
		c := newCluster(t, 3, func(cfg *Config) {
			d := &slowDisk{LogStore: cfg.Logs}
			disks = append(disks, d)
			cfg.Logs = d
			cfg.Transport = newFastBeat(cfg.Transport.(*raft.InmemTransport))
		})
		defer c.stop()
		l := c.leader()
		l.do(t, enqueue("q", "first"))
		pass(100 * time.Millisecond)
		l.do(t, enqueue("q", "second")) // the others have it in their logs and do not know yet that it is committed
		c.cut(l)
		for _, d := range disks {
			d.delay.Store(int64(80 * time.Millisecond))
		}
		end := time.Now().Add(5 * time.Second)
		reads := 0
		for time.Now().Before(end) {
			for _, nd := range c.nodes {
				if nd == l {
					continue
				}
				var got int64
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				_, err := nd.g.Read(ctx, false, func(st *fsm.State) {
					n, _ := st.QueueNumber([]byte("q"))
					got = int64(st.Ready(n))
				})
				cancel()
				if err == nil {
					reads++
					if got != 2 {
						t.Fatalf("read %d messages, two were confirmed", got)
					}
				}
			}
			pass(2 * time.Millisecond)
		}
		if reads == 0 {
			t.Error("no read succeeded")
		}
		for _, d := range disks {
			d.delay.Store(0)
		}
		c.join(l)
	})
}

// Reads that wait share one check.
func TestReadsShareTheCheck(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, func(cfg *Config) { cfg.Limits.Readers = 100 })
		defer c.stop()
		l := c.leader()
		var wg sync.WaitGroup
		var mu sync.Mutex
		ok, refused := 0, 0
		for range 1000 {
			wg.Go(func() {
				_, err := l.g.Read(t.Context(), false, func(*fsm.State) {})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					ok++
				case err.Code == CodeOverloaded:
					refused++
				default:
					t.Errorf("read: %v", err)
				}
			})
		}
		wg.Wait()
		if ok < 100 || ok+refused != 1000 {
			t.Errorf("%d served, %d refused", ok, refused)
		}
	})
}

func TestWaitTask(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, func(cfg *Config) { cfg.Limits.TaskWaiters = 4 })
		defer c.stop()
		l := c.leader()
		s, cn, _ := l.attach(t)
		must(t, s.Subscribe(1, "q", 10, 0, "w"))
		op := enqueue("q", "named", "by id", "dies", "deleted")
		op.Messages[0].TaskID = []byte("job-1")
		a := l.do(t, op)
		got := cn.have(1)
		byID := func(i int) []byte { return []byte(a.out[i].ID.String()) }
		if err := l.g.WaitTask(t.Context(), "q", []byte("nobody")); err == nil || err.Code != CodeNotFound {
			t.Errorf("unknown task: %v", err)
		}
		for _, test := range []struct {
			name  string
			queue string
			task  []byte
			end   fsm.Op
		}{
			{"task id", "q", []byte("job-1"), &fsm.Ack{Token: got[0].token, HasResult: true, Result: fsm.Result{Output: []byte("r")}}},
			{"message id without queue", "", byID(1), &fsm.Ack{Token: got[1].token}},
			{"death", "q", byID(2), &fsm.Nack{Token: got[2].token, Permanent: true}},
		} {
			ended := make(chan *Error, 1)
			go func() { ended <- l.g.WaitTask(t.Context(), test.queue, test.task) }()
			pass(50 * time.Millisecond)
			select {
			case err := <-ended:
				t.Fatalf("%s: returned before the end: %v", test.name, err)
			default:
			}
			l.do(t, test.end)
			select {
			case err := <-ended:
				must(t, err)
			case <-time.After(time.Second):
				t.Fatalf("%s: not woken", test.name)
			}
			must(t, l.g.WaitTask(t.Context(), test.queue, test.task)) // at once now
		}
		// Time-out, the bound, and the loss of leadership.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.g.WaitTask(ctx, "q", byID(3)); err == nil || err.Code != CodeTimeout || err.Unknown {
			t.Errorf("time-out: %v", err)
		}
		ends := make(chan *Error, 5)
		for range 5 {
			go func() { ends <- l.g.WaitTask(t.Context(), "q", byID(3)) }()
		}
		if err := <-ends; err == nil || err.Code != CodeOverloaded {
			t.Errorf("fifth waiter: %v, want overloaded", err)
		}
		c.cut(l)
		for range 4 {
			if err := <-ends; err == nil || err.Code != CodeNoLeader && err.Code != CodeNotLeader {
				t.Errorf("after leadership: %v", err)
			}
		}
	})
}

func TestVerify(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		l.do(t, enqueue("q", "x"))
		index, ds, at, err := l.g.Verify(t.Context())
		must(t, err)
		if len(ds) != 3 || index != at.Index {
			t.Fatalf("%d digests at %d, stamp %+v", len(ds), index, at)
		}
		l.do(t, enqueue("q", "y"))
		_, after, _, err := l.g.Verify(t.Context())
		must(t, err)
		if after[0].Digest == ds[0].Digest {
			t.Error("the digest does not see a message")
		}
		if _, err := l.g.DigestAt(t.Context(), index); err != nil {
			t.Errorf("digest of an earlier checkpoint: %v", err)
		}
		if _, err := l.g.DigestAt(t.Context(), index+1); err == nil {
			t.Error("digest of an index without a checkpoint")
		}
		for range 20 {
			_, _, _, err := l.g.Verify(t.Context())
			must(t, err)
		}
		if _, err := l.g.DigestAt(t.Context(), index); err == nil {
			t.Error("a digest older than the last sixteen is still kept")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.g.DigestAt(ctx, 1_000_000); err == nil {
			t.Error("digest of the future")
		}
	})
}

// An entry that this build cannot read ends the node and changes nothing.
func TestUnreadableEntry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 1, nil)
		l := c.leader()
		l.do(t, enqueue("q", "x"))
		before := l.stats("q")
		check(t, l.g.Raft().Apply([]byte{99, 1, 2, 3}, 0).Error())
		select {
		case err := <-l.fatal:
			t.Logf("fatal: %v", err)
		case <-time.After(time.Second):
			t.Fatal("no fatal")
		}
		o := l.send(enqueue("q", "y"))
		select {
		case a := <-o.end:
			if a.err == nil {
				t.Error("confirmed after the failure")
			}
		case <-time.After(10 * time.Second):
			t.Error("no answer by the deadline")
		}
		if got := l.waiting("q"); got != before.Ready {
			t.Errorf("%d ready, want %d", got, before.Ready)
		}
		c.stop()
	})
}

// What a node that comes back has in its log and not in its state it applies aside; what serves does nothing so, and nor does
// what keeps up. The log is there at once, so that all but the last batch have more behind them, whoever is how fast.
func TestCatchUpAside(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		aside := map[raft.ServerID]int{}
		c := newCluster(t, 3, func(cfg *Config) {
			id := cfg.LocalID
			cfg.Aside = func(f func()) {
				mu.Lock()
				aside[id]++
				mu.Unlock()
				f()
			}
		})
		defer c.stop()
		l := c.leader()
		away := c.followers()[0]
		for i := range 4 * behindBy {
			l.do(t, enqueue("q", fmt.Sprint(i)))
			if i%(behindBy/4) == 0 { // a majority is enough to go on, so that the third could be left behind
				c.until(time.Second, "the others keep up", func() bool {
					for _, nd := range c.nodes {
						if nd.g.Status().Applied < l.g.Status().Applied {
							return false
						}
					}
					return true
				})
			}
		}
		mu.Lock()
		if len(aside) != 0 {
			t.Errorf("%v times aside, want none: nobody was behind", aside)
		}
		mu.Unlock()
		c.halt(away)
		c.start(away)
		c.until(10*time.Second, "caught up", func() bool { return away.g.Status().Applied >= l.g.Status().Applied })
		c.agree()
		mu.Lock()
		defer mu.Unlock()
		if len(aside) != 1 || aside[away.g.cfg.LocalID] == 0 {
			t.Errorf("%v times aside, want some on %s alone", aside, away.g.cfg.LocalID)
		}
	})
}

// TestBrokenGroupReadsNothing: a group that has failed lets entries go by without applying them, so no read may take the index that
// was reached for what is in the state.
func TestBrokenGroupReadsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 1, nil)
		l := c.leader()
		l.do(t, enqueue("q", "before"))
		l.g.broken.Store(true) // as by Fatal, which may return
		for _, stale := range []bool{false, true} {
			if _, err := l.g.Read(t.Context(), stale, func(*fsm.State) { t.Errorf("stale=%v: it was read", stale) }); err != errStopping {
				t.Errorf("stale=%v: %v, want %v", stale, err, errStopping)
			}
		}
		end := make(chan *Error, 1)
		l.g.readAsync(func(st *fsm.State, _ Stamp, err *Error) {
			if st != nil {
				t.Error("later: it was read")
			}
			end <- err
		})
		if err := <-end; err != errStopping {
			t.Errorf("later: %v, want %v", err, errStopping)
		}
		c.stop()
	})
}

// A node that has a snapshot whose newest entries are raft's own, and no log from before it, answers reads when it leads, though nobody
// writes: no state ever gets to those entries.
func TestReadAfterAnInstallWhileNobodyWrites(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l, away, other := c.leader(), c.followers()[0], c.followers()[1]
		c.halt(away)
		for i := range 1100 { // more than the log keeps behind a snapshot
			l.do(t, enqueue("q", fmt.Sprint(i)))
		}
		lead := func(nd *node) {
			t.Helper()
			check(t, c.leader().g.Raft().LeadershipTransferToServer(nd.id, nd.addr).Error())
			c.until(10*time.Second, "it leads", func() bool { return nd.g.Status().Leader })
		}
		lead(other)
		check(t, other.g.Raft().Snapshot().Error())
		snaps, err := other.snaps.List()
		check(t, err)
		if snaps[0].Index <= other.g.Status().Applied {
			t.Fatalf("the snapshot ends at %d, the state at %d: want raft's own entries between", snaps[0].Index, other.g.Status().Applied)
		}
		c.start(away)
		c.until(10*time.Second, "caught up by an install", func() bool { return away.g.Raft().AppliedIndex() >= snaps[0].Index })
		if err := away.g.cache.GetLog(snaps[0].Index, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
			t.Fatalf("its log has entry %d (%v), want it in the snapshot alone", snaps[0].Index, err)
		}
		lead(away)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if at, err := away.g.Read(ctx, false, func(*fsm.State) {}); err != nil || at.Index != other.g.Status().Applied {
			t.Errorf("read at %d, %v", at.Index, err)
		}
	})
}

// Nor does a node whose snapshot ends with a change of the membership that its log still has: a start does not bring it once more.
func TestReadAfterAStartWhileNobodyWrites(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 1, nil)
		defer c.stop()
		l := c.leader()
		l.do(t, enqueue("q", "x"))
		last := l.g.Status().Applied
		check(t, l.g.Raft().AddNonvoter("elsewhere", "nowhere", 0, 0).Error())
		check(t, l.g.Raft().Snapshot().Error())
		snaps, err := l.snaps.List()
		check(t, err)
		var end raft.Log
		check(t, l.logs.GetLog(snaps[0].Index, &end))
		if end.Type != raft.LogConfiguration {
			t.Fatalf("the snapshot ends with entry %d of type %v, want a configuration", end.Index, end.Type)
		}
		c.halt(l)
		c.start(l)
		c.until(10*time.Second, "it leads", func() bool { return l.g.Status().Leader })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if at, err := l.g.Read(ctx, false, func(*fsm.State) {}); err != nil || at.Index != last {
			t.Errorf("read at %d, %v, want %d", at.Index, err, last)
		}
	})
}

// A cluster in which nobody writes is ready, however many entries of raft's own there have been since somebody did.
func TestReadyWhileNobodyWrites(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		defer c.stop()
		l := c.leader()
		l.do(t, enqueue("q", "the last one"))
		last := l.g.Status().Commit
		for range readyLag + 1 {
			check(t, l.g.Raft().Barrier(10*time.Second).Error())
		}
		for _, nd := range append(c.followers(), l) {
			c.until(10*time.Second, "ready", func() bool {
				s := nd.g.Status()
				return s.Commit > last+readyLag && s.Ready
			})
			if s := nd.g.Status(); s.Applied > last {
				t.Errorf("the state is at %d, want raft's own entries alone behind %d", s.Applied, last)
			}
		}
	})
}
