package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// testHalt reports its one fatal error on a channel.
func testHalt(t *testing.T) (*Halt, chan error) {
	t.Helper()
	ch := make(chan error, 1)
	h := NewHalt(func(err error) { ch <- err })
	h.Arm()
	t.Cleanup(h.Release)
	return h, ch
}

func entry(i, term uint64, data string) *raft.Log {
	return &raft.Log{Index: i, Term: term, Type: raft.LogCommand, Data: []byte(data)}
}

// stops runs f, which must trip the halt, and not return before Release, and then ErrReleased.
func stops(t *testing.T, h *Halt, fatal chan error, f func() error) error {
	t.Helper()
	return stopsWith(t, h, fatal, ErrReleased, f)
}

// stopsWith is stops of a call that returns after, which may be nil, after Release.
func stopsWith(t *testing.T, h *Halt, fatal chan error, after error, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-fatal:
		select {
		case err := <-done:
			t.Fatalf("the call returned %v after the failure", err)
		default:
		}
		h.Release()
		if err := <-done; after == nil && err != nil || after != nil && !errors.Is(err, after) {
			t.Errorf("after Release: %v, want %v", err, after)
		}
		return err
	case err := <-done:
		t.Fatalf("the call returned %v, want it to stop the process", err)
	case <-time.After(10 * time.Second):
		t.Fatal("nothing happened")
	}
	return nil
}

func TestLogNoticesDamage(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		damage func(l *raft.Log)
		want   string
	}{
		{"data", func(l *raft.Log) { l.Data = []byte("amount=9000") }, "checksum"},
		{"term", func(l *raft.Log) { l.Term ^= 1 }, "checksum"},
		{"type", func(l *raft.Log) { l.Type ^= 1 }, "checksum"},
		{"index", func(l *raft.Log) { l.Index ^= 8 }, "says it is"},
		{"checksum", func(l *raft.Log) { l.Extensions = append([]byte(nil), l.Extensions...); l.Extensions[3] ^= 4 }, "checksum"},
		{"checksum version", func(l *raft.Log) { l.Extensions = append([]byte(nil), l.Extensions...); l.Extensions[0] = 9 }, "checksum version 9"},
		{"checksum gone", func(l *raft.Log) { l.Extensions = nil }, "checksum of 0 bytes"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h, fatal := testHalt(t)
			inner := raft.NewInmemStore()
			log := NewLog(inner, h, LogOptions{File: "some/raft.db"})
			if err := log.StoreLogs([]*raft.Log{entry(1, 1, "a"), entry(2, 1, "amount=1000"), entry(3, 1, "c")}); err != nil {
				t.Fatal(err)
			}
			var got raft.Log
			if err := log.GetLog(2, &got); err != nil || string(got.Data) != "amount=1000" {
				t.Fatalf("whole entry: %q, %v", got.Data, err)
			}
			bad := got
			c.damage(&bad)
			key := bad
			key.Index = 2
			if err := inner.StoreLog(&key); err != nil {
				t.Fatal(err)
			}
			if bad.Index != 2 {
				// The in-memory store files entries by their own index; a flip in it on disk leaves the key.
				log.inner = misfiled{inner, bad}
			}
			err := stops(t, h, fatal, func() error { return log.GetLog(2, &got) })
			var d *DamageError
			if !errors.As(err, &d) || d.File != "some/raft.db" || d.Index != 2 || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want damage of some/raft.db at 2 with %q", err, c.want)
			}
		})
	}
}

type misfiled struct {
	raft.LogStore
	l raft.Log
}

func (m misfiled) GetLog(_ uint64, out *raft.Log) error { *out = m.l; return nil }

func TestLogNoticesMissingEntries(t *testing.T) {
	t.Parallel()
	floor := uint64(0)
	h, fatal := testHalt(t)
	inner := raft.NewInmemStore()
	log := NewLog(inner, h, LogOptions{File: "raft.db", Floor: func() (uint64, uint64) { return floor, 1 }})
	for i := uint64(1); i <= 10; i++ {
		if err := log.StoreLog(entry(i, 1, "x")); err != nil {
			t.Fatal(err)
		}
	}
	var l raft.Log
	if err := log.GetLog(11, &l); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("past the end: %v", err)
	}
	if err := inner.DeleteRange(1, 4); err != nil {
		t.Fatal(err)
	}
	floor = 4
	if err := log.GetLog(3, &l); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("compacted: %v", err)
	}
	floor = 3
	err := stops(t, h, fatal, func() error { return log.GetLog(4, &l) })
	var d *DamageError
	if !errors.As(err, &d) || d.Index != 4 {
		t.Errorf("hole: %v, want damage at 4", err)
	}
}

func TestLogRefusesDamagedEntriesFromElsewhere(t *testing.T) {
	t.Parallel()
	h, fatal := testHalt(t)
	log := NewLog(raft.NewInmemStore(), h, LogOptions{File: "raft.db"})
	whole := entry(7, 2, "as the leader sent it")
	if err := NewLog(raft.NewInmemStore(), h, LogOptions{}).StoreLog(whole); err != nil {
		t.Fatal(err)
	}
	sum := append([]byte(nil), whole.Extensions...)
	if err := log.StoreLog(whole); err != nil || !bytes.Equal(whole.Extensions, sum) {
		t.Fatalf("whole entry: %v, envelope %x, was %x", err, whole.Extensions, sum)
	}
	bad := *whole
	bad.Data = []byte("as the leader Sent it")
	err := stops(t, h, fatal, func() error { return log.StoreLog(&bad) })
	if !strings.Contains(err.Error(), "index 7") {
		t.Errorf("error %v does not name the index", err)
	}
	if strings.Contains(err.Error(), "empty its data directory") {
		t.Errorf("error %v has a node given up whose files are whole", err)
	}
}

// failing is a store whose every call fails on demand.
type failing struct {
	raft.LogStore
	raft.StableStore
	mu  sync.Mutex
	err error
}

// fail has every write fail from now on, or with nil none.
func (f *failing) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *failing) broke() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *failing) StoreLogs(l []*raft.Log) error {
	if err := f.broke(); err != nil {
		return err
	}
	return f.LogStore.StoreLogs(l)
}

func (f *failing) DeleteRange(a, b uint64) error {
	if err := f.broke(); err != nil {
		return err
	}
	return f.LogStore.DeleteRange(a, b)
}

func (f *failing) Set(k, v []byte) error {
	if err := f.broke(); err != nil {
		return err
	}
	return f.StableStore.Set(k, v)
}

func TestFailStop(t *testing.T) {
	t.Parallel()
	eio := errors.New("input/output error")
	cases := []struct {
		name  string
		after error
		call  func(l *Log, s *Stable) error
	}{
		{"store", ErrReleased, func(l *Log, _ *Stable) error { return l.StoreLog(entry(4, 1, "x")) }},
		{"compact", ErrReleased, func(l *Log, _ *Stable) error { return l.DeleteRange(1, 2) }},
		{"truncate", ErrReleased, func(l *Log, _ *Stable) error { return l.DeleteRange(2, 3) }},
		{"vote", ErrReleased, func(_ *Log, s *Stable) error { return s.SetUint64([]byte("LastVoteTerm"), 2) }},
		{"who", ErrReleased, func(_ *Log, s *Stable) error { return s.Set([]byte("LastVoteCand"), []byte("n2")) }},
		{"term", nil, func(_ *Log, s *Stable) error { return s.SetUint64([]byte(termKey), 2) }}, // raft would panic
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h, fatal := testHalt(t)
			f := &failing{LogStore: raft.NewInmemStore(), StableStore: raft.NewInmemStore()}
			log, stable := NewLog(f, h, LogOptions{File: "raft.db"}), NewStable(f, h, "raft.db")
			if err := log.StoreLogs([]*raft.Log{entry(1, 1, ""), entry(2, 1, ""), entry(3, 1, "")}); err != nil {
				t.Fatal(err)
			}
			f.fail(eio)
			// Another call that comes after the failure must not return either, though its own store is well again.
			err := stopsWith(t, h, fatal, c.after, func() error {
				return c.call(log, stable)
			})
			if !errors.Is(err, eio) || !strings.Contains(err.Error(), "raft.db") {
				t.Errorf("fatal error %v, want the cause and the file", err)
			}
			f.fail(nil)
			var l raft.Log
			if err := log.GetLog(1, &l); err != nil {
				t.Errorf("a read after the failure, over which raft would panic: %v", err)
			}
		})
	}
}

func TestCallsAfterAFailureDoNotReturn(t *testing.T) {
	t.Parallel()
	h, fatal := testHalt(t)
	f := &failing{LogStore: raft.NewInmemStore(), StableStore: raft.NewInmemStore(), err: errors.New("no space left on device")}
	log, stable := NewLog(f, h, LogOptions{File: "raft.db"}), NewStable(f, h, "raft.db")
	done := make(chan error, 3)
	go func() { done <- log.StoreLog(entry(1, 1, "")) }()
	<-fatal
	f.fail(nil)
	go func() { done <- log.StoreLog(entry(2, 1, "")) }()
	go func() { done <- stable.Set([]byte("k"), []byte("v")) }()
	select {
	case err := <-done:
		t.Fatalf("a call returned %v after the failure", err)
	case <-time.After(50 * time.Millisecond):
	}
	h.Release()
	for range 3 {
		if err := <-done; !errors.Is(err, ErrReleased) {
			t.Errorf("after Release: %v", err)
		}
	}
}

// sliced counts deletions.
type sliced struct {
	raft.LogStore
	calls [][2]uint64
}

func (s *sliced) DeleteRange(a, b uint64) error {
	s.calls = append(s.calls, [2]uint64{a, b})
	return s.LogStore.DeleteRange(a, b)
}

func TestDeleteRange(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name     string
		have     [][2]uint64 // ranges of entries
		from, to uint64
		want     string
	}{
		{"compaction goes in pieces", [][2]uint64{{1, 1000}}, 1, 300, "[[1 128] [129 256] [257 300]]"},
		{"truncation goes at once", [][2]uint64{{1, 1000}}, 201, 1000, "[[201 1000]]"},
		{"the whole log goes at once", [][2]uint64{{1, 1000}}, 1, 1000, "[[1 1000]]"},
		{"a gap is skipped", [][2]uint64{{1, 10}, {1_000_000, 1_000_200}}, 1, 1_000_150, "[[1 128] [1000000 1000127] [1000128 1000150]]"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h, _ := testHalt(t)
			dir := t.TempDir()
			b, err := openBolt(filepath.Join(dir, "raft.db"))
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			s := &sliced{LogStore: b}
			log := NewLog(s, h, LogOptions{File: "raft.db"})
			for _, r := range c.have {
				var batch []*raft.Log
				for i := r[0]; i <= r[1]; i++ {
					batch = append(batch, entry(i, 1, "x"))
				}
				if err := log.StoreLogs(batch); err != nil {
					t.Fatal(err)
				}
			}
			if err := log.DeleteRange(c.from, c.to); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(s.calls); got != c.want {
				t.Errorf("transactions %s, want %s", got, c.want)
			}
		})
	}
}

// openAll opens everything in dir as a node does, and closes what it can if that fails.
func openAll(t *testing.T, dir string) (*Dir, *Disk, *Snapshots, error) {
	t.Helper()
	d, err := OpenDir(dir, "n1")
	if err != nil {
		return nil, nil, nil, err
	}
	h := NewHalt(func(error) {})
	done := make(chan struct{})
	var disk *Disk
	var snaps *Snapshots
	go func() {
		defer close(done)
		if snaps, err = OpenSnapshots(d, h); err == nil {
			disk, err = OpenDisk(d, h, LogOptions{Floor: snaps.Newest, segment: testSegment})
		}
		if err == nil {
			err = readAll(disk, snaps)
		}
	}()
	select {
	case <-done:
	case <-h.Tripped():
		h.Release()
		<-done
		err = h.Err()
	}
	if err != nil {
		if disk != nil {
			_ = disk.Close()
		}
		_ = d.Close()
		return nil, nil, nil, err
	}
	return d, disk, snaps, nil
}

// readAll reads what raft reads at its start: stable values, the newest snapshot, the log behind it.
func readAll(disk *Disk, snaps *Snapshots) error {
	for _, k := range []string{"CurrentTerm", "LastVoteTerm"} {
		if _, err := disk.Stable.GetUint64([]byte(k)); err != nil {
			return err
		}
	}
	if _, err := disk.Stable.Get([]byte("LastVoteCand")); err != nil {
		return err
	}
	list, err := snaps.List()
	if err != nil {
		return err
	}
	if len(list) > 0 {
		_, rc, err := snaps.Open(list[0].ID)
		if err != nil {
			return err
		}
		defer rc.Close()
		var all bytes.Buffer
		if _, err := all.ReadFrom(rc); err != nil {
			return err
		}
	}
	last, err := disk.Log.LastIndex()
	if err != nil {
		return err
	}
	newest, _ := snaps.Newest()
	for i := newest + 1; i <= last; i++ {
		var l raft.Log
		if err := disk.Log.GetLog(i, &l); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
	}
	return nil
}

// fill makes a data directory of a member with 400 entries, a vote and, at 100, a snapshot.
func fill(t testing.TB, dir string, kind Kind, snapshot bool) {
	t.Helper()
	d, err := OpenDir(dir, "n1")
	if err != nil {
		t.Fatal(err)
	}
	id := d.Identity()
	id.Cluster = UUID{1, 2, 3}
	h := NewHalt(func(error) {})
	disk, err := OpenDisk(d, h, LogOptions{Kind: kind, segment: testSegment})
	if err != nil {
		t.Fatal(err)
	}
	id = d.Identity()
	id.Cluster = UUID{1, 2, 3}
	if err := d.Save(id); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := uint64(1); i <= 400; i += 4 {
		var batch []*raft.Log
		for j := i; j < i+4; j++ {
			batch = append(batch, entry(j, 3, fmt.Sprintf("%d:%s", j, strings.Repeat("v", rng.IntN(900)))))
		}
		if err := disk.Log.StoreLogs(batch); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(disk.Stable.SetUint64([]byte("CurrentTerm"), 3), disk.Stable.SetUint64([]byte("LastVoteTerm"), 3), disk.Stable.Set([]byte("LastVoteCand"), []byte("n2@127.0.0.1:1"))); err != nil {
		t.Fatal(err)
	}
	if snapshot {
		snaps, err := OpenSnapshots(d, h)
		if err != nil {
			t.Fatal(err)
		}
		writeSnapshot(t, snaps, 100, 3, strings.Repeat("state ", 4000))
		if err := disk.Log.DeleteRange(1, 50); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(disk.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
}

func writeSnapshot(t testing.TB, s *Snapshots, index, term uint64, state string) string {
	t.Helper()
	_, trans := raft.NewInmemTransport("")
	sink, err := s.Create(1, index, term, raft.Configuration{Servers: []raft.Server{{ID: "a", Address: "n1@x:1"}, {ID: "b", Address: "n2@y:2"}}}, 1, trans)
	if err != nil {
		t.Fatal(err)
	}
	for len(state) > 0 {
		n := min(len(state), 4096)
		if _, err := sink.Write([]byte(state[:n])); err != nil {
			t.Fatal(err)
		}
		state = state[n:]
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	return sink.ID()
}

func copyTree(t testing.TB, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(to, 0o700); err != nil {
		t.Fatal(err)
	}
}
