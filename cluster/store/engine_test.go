package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// TestEngine does what raft does to a log, at random, and compares each kind with a map: appends in batches, compaction,
// truncation, an emptied log, and a start in between.
func TestEngine(t *testing.T) {
	t.Parallel()
	t.Logf("seed %d", *seed)
	eachKind(t, testEngine)
}

func testEngine(t *testing.T, kind Kind) {
	rng := rand.New(rand.NewPCG(*seed, 7))
	path, id := kind.path(t.TempDir()), NewUUID()
	e, err := kind.create(path, id, testSegment)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	model := map[uint64]*raft.Log{}
	var first, last uint64
	check := func(what string) {
		t.Helper()
		f, err1 := e.FirstIndex()
		l, err2 := e.LastIndex()
		if err := errors.Join(err1, err2); err != nil || f != first || l != last {
			t.Fatalf("after %s: log from %d to %d (%v), want %d to %d", what, f, l, err, first, last)
		}
		for _, i := range []uint64{first, last, first + (last-first)/2, first + rng.Uint64N(last-first+1)} {
			var got raft.Log
			want := model[i]
			switch err := e.GetLog(i, &got); {
			case want == nil:
				if !errors.Is(err, raft.ErrLogNotFound) {
					t.Fatalf("after %s: entry %d: %v", what, i, err)
				}
			case err != nil || got.Index != i || got.Term != want.Term || got.Type != want.Type || !got.AppendedAt.Equal(want.AppendedAt) ||
				!bytes.Equal(got.Data, want.Data) || !bytes.Equal(got.Extensions, want.Extensions):
				t.Fatalf("after %s: entry %d is %d %d %v of %d bytes, %v", what, i, got.Index, got.Term, got.Type, len(got.Data), err)
			}
		}
		for _, i := range []uint64{first - 1, last + 1} {
			if err := e.GetLog(i, &raft.Log{}); !errors.Is(err, raft.ErrLogNotFound) {
				t.Fatalf("after %s: entry %d beyond the log: %v", what, i, err)
			}
		}
	}
	drop := func(from, to uint64) {
		if err := e.DeleteRange(from, to); err != nil {
			t.Fatal(err)
		}
		for i := from; i <= to; i++ {
			delete(model, i)
		}
	}
	for range 600 {
		switch n := rng.IntN(100); {
		case n < 70: // append
			next := last + 1
			if last == 0 {
				next = 1 + rng.Uint64N(1000) // behind an installed snapshot
				first = next
			}
			var batch []*raft.Log
			for range 1 + rng.IntN(8) {
				size := rng.IntN(3000)
				if rng.IntN(60) == 0 {
					size = rng.IntN(3 * testSegment)
				}
				l := &raft.Log{Index: next, Term: 1 + rng.Uint64N(9), Type: raft.LogType(rng.IntN(5)), Extensions: make([]byte, rng.IntN(8))}
				if l.Data = make([]byte, size); size > 0 {
					l.Data[rng.IntN(size)] = byte(next)
				}
				if rng.IntN(2) == 0 {
					l.AppendedAt = time.Unix(1_700_000_000, int64(next))
				}
				batch = append(batch, l)
				model[next] = l
				next++
			}
			if err := e.StoreLogs(batch); err != nil {
				t.Fatal(err)
			}
			last = next - 1
			check("append")
		case n < 80 && last > first: // compaction, as raft asks for it
			to := first + rng.Uint64N(last-first)
			drop(first, to)
			first = to + 1
			check("compaction")
		case n < 90 && last > first: // truncation
			from := first + 1 + rng.Uint64N(last-first)
			drop(from, last)
			last = from - 1
			check("truncation")
		case n < 91 && last > 0:
			drop(first, last)
			first, last = 0, 0
			if err := e.GetLog(1, &raft.Log{}); !errors.Is(err, raft.ErrLogNotFound) {
				t.Fatalf("an emptied log: %v", err)
			}
		case n < 95:
			if err := errors.Join(e.Set([]byte("key"), []byte{byte(n)}), e.Set([]byte(fmt.Sprint(n)), []byte{1, byte(n)})); err != nil {
				t.Fatal(err)
			}
		default:
			want, _ := e.Get([]byte("key"))
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if e, err = kind.open(path, id, testSegment, last); err != nil {
				t.Fatal(err)
			}
			if f, _ := e.FirstIndex(); kind == WAL && f > first {
				t.Fatalf("after a start the log begins at %d, want %d", f, first)
			}
			if got, err := e.Get([]byte("key")); want != nil && (err != nil || !bytes.Equal(got, want)) {
				t.Fatalf("after a start the value is %v, %v, want %v", got, err, want)
			}
			if last > 0 {
				check("start")
			}
		}
	}
}

// TestEngineRefuses: what raft must never ask for is refused and changes nothing.
func TestEngineRefuses(t *testing.T) {
	t.Parallel()
	e, err := WAL.create(WAL.path(t.TempDir()), NewUUID(), testSegment)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.StoreLogs([]*raft.Log{entry(5, 1, "a"), entry(6, 1, "b"), entry(7, 1, "c")}); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() error{
		"a gap":                func() error { return e.StoreLog(entry(9, 1, "")) },
		"an overwrite":         func() error { return e.StoreLog(entry(7, 1, "")) },
		"a gap in a batch":     func() error { return e.StoreLogs([]*raft.Log{entry(8, 1, ""), entry(10, 1, "")}) },
		"index 0":              func() error { return e.StoreLog(entry(0, 1, "")) },
		"a hole":               func() error { return e.DeleteRange(6, 6) },
		"too large":            func() error { return e.StoreLog(&raft.Log{Index: 8, Data: make([]byte, walEntryMost)}) },
		"too large extensions": func() error { return e.StoreLog(&raft.Log{Index: 8, Extensions: make([]byte, 256)}) },
	} {
		if err := call(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := e.DeleteRange(1, 4); err != nil {
		t.Errorf("nothing there: %v", err)
	}
	first, _ := e.FirstIndex()
	last, _ := e.LastIndex()
	if first != 5 || last != 7 {
		t.Errorf("log from %d to %d", first, last)
	}
	if err := e.StoreLog(entry(8, 1, "")); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

// TestGapBehindASnapshot: after a crash between a snapshot's install and the log's end, the log goes on behind the snapshot.
func TestGapBehindASnapshot(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, kind Kind) {
		dir := filepath.Join(t.TempDir(), "n")
		fill(t, dir, kind, false)
		d, err := OpenDir(dir, "n1")
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		h, fatal := testHalt(t)
		disk, err := OpenDisk(d, h, LogOptions{Floor: func() (uint64, uint64) { return 450, 4 }, segment: testSegment})
		if err != nil {
			t.Fatal(err)
		}
		if err := disk.Log.StoreLogs([]*raft.Log{entry(451, 4, "a"), entry(452, 4, "b")}); err != nil {
			t.Fatal(err)
		}
		var l raft.Log
		if err := disk.Log.GetLog(452, &l); err != nil || string(l.Data) != "b" {
			t.Fatalf("%q, %v", l.Data, err)
		}
		if first, _ := disk.Log.FirstIndex(); first != 451 {
			t.Errorf("the log begins at %d", first)
		}
		if kind == WAL { // a gap that no snapshot fills is none to make
			err := stops(t, h, fatal, func() error { return disk.Log.StoreLog(entry(500, 4, "c")) })
			if err == nil {
				t.Error("stored")
			}
		}
		if err := disk.Close(); err != nil {
			t.Fatal(err)
		}
		disk = reopen(t, d, NewHalt(func(error) {}))
		if last, err := disk.Log.LastIndex(); err != nil || last != 452 {
			t.Errorf("after a start the log ends at %d, %v", last, err)
		}
		if err := disk.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestReadsBesideWrites: entries are read while others are appended, compacted away and cut off. What is read is what was
// written, or is not there.
func TestReadsBesideWrites(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, kind Kind) {
		e, err := kind.create(kind.path(t.TempDir()), NewUUID(), testSegment)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		var wg sync.WaitGroup
		var done atomic.Bool
		for r := range 2 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(*seed, uint64(r)))
				for !done.Load() {
					first, _ := e.FirstIndex()
					last, _ := e.LastIndex()
					if last == 0 || last < first {
						continue
					}
					i := first + rng.Uint64N(last-first+1)
					var l raft.Log
					switch err := e.GetLog(i, &l); {
					case errors.Is(err, raft.ErrLogNotFound):
					case err != nil || l.Index != i || !bytes.HasPrefix(l.Data, fmt.Appendf(nil, "%d ", i)):
						t.Errorf("entry %d: %d %.20q, %v", i, l.Index, l.Data, err)
						return
					}
				}
			})
		}
		next, first := uint64(1), uint64(1)
		pad := string(make([]byte, 2000))
		for n := range 300 {
			var batch []*raft.Log
			for range 4 {
				batch = append(batch, entry(next, 1, fmt.Sprintf("%d %s", next, pad)))
				next++
			}
			if err := e.StoreLogs(batch); err != nil {
				t.Fatal(err)
			}
			switch {
			case n%20 == 19:
				if err := e.DeleteRange(first, next-20); err != nil {
					t.Fatal(err)
				}
				first = next - 19
			case n%7 == 6:
				if err := e.DeleteRange(next-3, next-1); err != nil {
					t.Fatal(err)
				}
				next -= 3
			}
		}
		done.Store(true)
		wg.Wait()
	})
}
