package store

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
)

// TestCutOffInstall: a snapshot has its name, and the process ended before the log was dropped. Nothing is left of what a leader that was replaced
// has written, wherever it ends, and a log that the snapshot was made of stays as it is. (G15)
func TestCutOffInstall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		index, term uint64 // of the snapshot; the log has 1 to 400, of term 3
		compacted   uint64 // up to here, before
		begun       bool   // an earlier start has lowered the end mark, and no more
		behind      uint64 // entries that an older version has stored behind the snapshot
		first, last uint64 // what is left
	}{
		{name: "within the log", index: 300, term: 5},
		{name: "within a log that begins later", index: 300, term: 5, compacted: 200},
		{name: "at the log's end", index: 400, term: 5},
		{name: "at the log's end, and the next start too", index: 400, term: 5, begun: true},
		{name: "one beyond the log's end", index: 401, term: 5},
		{name: "beyond the log's end", index: 450, term: 5},
		{name: "beyond the log's end, of its own term", index: 450, term: 3},
		{name: "beyond the log's end, and it went on", index: 450, term: 5, behind: 10, first: 451, last: 460},

		{name: "its own, within it", index: 300, term: 3, first: 1, last: 400},
		{name: "its own, at its first entry", index: 300, term: 3, compacted: 299, first: 300, last: 400},
		{name: "its own, compacted up to it", index: 300, term: 3, compacted: 300, first: 301, last: 400},
		{name: "its own, at its end", index: 400, term: 3, compacted: 200, first: 201, last: 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			eachKind(t, func(t *testing.T, kind Kind) {
				if kind == WAL && c.behind > 0 {
					t.Skip("it can have no gap")
				}
				dir := filepath.Join(t.TempDir(), "n")
				fill(t, dir, kind, false)
				d, disk, snaps, err := openAll(t, dir)
				if err != nil {
					t.Fatal(err)
				}
				if c.compacted > 0 {
					if err := disk.Log.DeleteRange(1, c.compacted); err != nil {
						t.Fatal(err)
					}
				}
				writeSnapshot(t, snaps, c.index, c.term, "state")
				for i := range c.behind {
					if err := disk.Log.StoreLog(entry(c.index+1+i, c.term, "behind it")); err != nil {
						t.Fatal(err)
					}
				}
				if c.begun {
					if err := disk.tail.setLast(0, true); err != nil {
						t.Fatal(err)
					}
				}
				first, last := c.first, c.last
				for start := range 3 {
					if err := errors.Join(disk.Close(), d.Close()); err != nil {
						t.Fatal(err)
					}
					if d, disk, _, err = openAll(t, dir); err != nil {
						t.Fatalf("start %d: %v", start, err)
					}
					hasJust(t, disk.Log, first, last, 470)
					if marked, _ := disk.tail.marks(); marked != last {
						t.Errorf("start %d: the end mark is %d, want %d", start, marked, last)
					}
					if last == 0 {
						first, last = c.index+1, c.index
					}
					last++
					if err := disk.Log.StoreLog(entry(last, 6, "goes on")); err != nil {
						t.Fatalf("start %d: %v", start, err)
					}
				}
				if err := errors.Join(disk.Close(), d.Close()); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// hasJust fails a test where a log has other entries than those from first to last, of all up to most.
func hasJust(t *testing.T, log *Log, first, last, most uint64) {
	t.Helper()
	f, err1 := log.FirstIndex()
	l, err2 := log.LastIndex()
	if err := errors.Join(err1, err2); err != nil || f != first || l != last {
		t.Fatalf("the log is %d to %d, %v; want %d to %d", f, l, err, first, last)
	}
	for i := uint64(1); i <= most; i++ {
		var e raft.Log
		err := log.inner.GetLog(i, &e)
		if there := first > 0 && first <= i && i <= last; there != (err == nil) || err != nil && !errors.Is(err, raft.ErrLogNotFound) {
			t.Fatalf("entry %d, of term %d: %v; want it to be there: %v", i, e.Term, err, there)
		}
	}
}
