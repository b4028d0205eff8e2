package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// aheadOfTheList makes a log whose newest segment is in the list as the next one only, and says what it ends with and which
// file that is.
func aheadOfTheList(t *testing.T) (dir string, id UUID, last uint64, file string) {
	t.Helper()
	dir, id = filepath.Join(t.TempDir(), WALDir), NewUUID()
	w, err := createWAL(dir, id, testSegment)
	if err != nil {
		t.Fatal(err)
	}
	for len(w.segments) < 3 || len(w.segments) == len(w.meta.Segments) {
		if last++; last > 1000 {
			t.Fatal("no segment was begun without a change of the list")
		}
		if err := w.StoreLog(entry(last, 1, fmt.Sprintf("%d %s", last, string(make([]byte, 2500))))); err != nil {
			t.Fatal(err)
		}
		settle(w)
	}
	last++
	if err := w.StoreLog(entry(last, 1, fmt.Sprintf("%d ", last))); err != nil {
		t.Fatal(err)
	}
	newest := w.newest()
	if w.meta.Next != newest.ID {
		t.Fatalf("the list says that %d is next, the newest is %d", w.meta.Next, newest.ID)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, id, last, filepath.Join(dir, newest.file())
}

// TestAheadOfTheList: entries in a segment that the list names only as the next one are as safe as all others.
func TestAheadOfTheList(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		harm func(file string) error
		want string // in the error, "": it opens
	}{
		{"whole", func(string) error { return nil }, ""},
		{"gone", os.Remove, "newest are gone"},
		{"emptied", func(f string) error { return os.Truncate(f, 0) }, "newest are gone"},
		{"its head damaged", func(f string) error { return flipBit(f, 9) }, "newest are gone"},
		{"its last entry damaged", func(f string) error {
			b, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			return flipBit(f, int64(len(strings.TrimRight(string(b), "\x00"))-12))
		}, "newest are gone"},
		{"its first entry damaged", func(f string) error { return flipBit(f, 80) }, "is damaged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir, id, last, file := aheadOfTheList(t)
			if err := c.harm(file); err != nil {
				t.Fatal(err)
			}
			for start := range 2 {
				w, err := openWAL(dir, id, testSegment, last)
				if c.want != "" {
					if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir) {
						t.Fatalf("error %v, want %q", err, c.want)
					}
					continue // and it says so again
				}
				if err != nil {
					t.Fatalf("start %d: %v", start, err)
				}
				for i := uint64(1); i <= last; i++ {
					var l raft.Log
					if err := w.GetLog(i, &l); err != nil || !strings.HasPrefix(string(l.Data), fmt.Sprintf("%d ", i)) {
						t.Fatalf("start %d: entry %d: %.20q, %v", start, i, l.Data, err)
					}
				}
				last++
				if err := errors.Join(w.StoreLog(entry(last, 1, fmt.Sprintf("%d ", last))), w.Set([]byte("k"), []byte("v")), w.Close()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestSegmentAheadIsKept: one that was made and not used is used after the next start, and one that no list names is removed.
func TestSegmentAheadIsKept(t *testing.T) {
	t.Parallel()
	dir, id := filepath.Join(t.TempDir(), WALDir), NewUUID()
	w, err := createWAL(dir, id, testSegment)
	if err != nil {
		t.Fatal(err)
	}
	last := uint64(0)
	fill := func(w *walStore, n int) {
		t.Helper()
		for range n {
			last++
			if err := w.StoreLog(entry(last, 1, string(make([]byte, 4000)))); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(w, 10)
	settle(w)
	spare := w.spare
	if spare == 0 {
		t.Fatalf("no segment was made ahead: %v", w.spareErr)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	stray := filepath.Join(dir, walSegmentInfo{ID: 77}.file())
	if err := os.WriteFile(stray, []byte("not listed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if w, err = openWAL(dir, id, testSegment, last); err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.sweep(); err != nil {
		t.Fatal(err)
	}
	if w.spare != spare {
		t.Errorf("segment %d is ahead, want %d", w.spare, spare)
	}
	if _, err := os.Stat(stray); !os.IsNotExist(err) {
		t.Errorf("a file that no list names: %v", err)
	}
	fill(w, 10)
	if got := w.newest().ID; got != spare {
		t.Errorf("the log goes on in segment %d, want %d", got, spare)
	}
}

// TestSegmentAheadIsEmpty: of the first batch in the segment ahead a power cut has left all but the first sector. Nothing of it is there when the
// log goes on.
func TestSegmentAheadIsEmpty(t *testing.T) {
	t.Parallel()
	dir, id := filepath.Join(t.TempDir(), WALDir), NewUUID()
	w, err := createWAL(dir, id, testSegment)
	if err != nil {
		t.Fatal(err)
	}
	last := uint64(0)
	for w.spare == 0 {
		last++
		if err := w.StoreLog(entry(last, 1, string(make([]byte, 4000)))); err != nil {
			t.Fatal(err)
		}
		settle(w)
	}
	spare := w.spare
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, walSegmentInfo{ID: spare}.file())
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte("the rest of a batch"), 512)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if w, err = openWAL(dir, id, testSegment, last); err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if w.spare != spare {
		t.Fatalf("segment %d is ahead, want %d", w.spare, spare)
	}
	if b, err := os.ReadFile(file); err != nil || len(strings.Trim(string(b), "\x00")) > 0 {
		t.Errorf("%q, %v is in the segment ahead, want zeros", strings.Trim(string(b), "\x00"), err)
	}
}

// TestSegmentAheadFails: what fails beside the calls stops the next one, whatever it is. (G17)
func TestSegmentAheadFails(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(w *walStore, next uint64) error{
		"append":     func(w *walStore, next uint64) error { return w.StoreLog(entry(next, 1, "x")) },
		"vote":       func(w *walStore, _ uint64) error { return w.Set([]byte("CurrentTerm"), []byte{1}) },
		"compaction": func(w *walStore, _ uint64) error { return w.DeleteRange(1, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), WALDir)
			w, err := createWAL(dir, NewUUID(), testSegment)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			next := uint64(1)
			for ; w.making == nil; next++ {
				if next == 2 { // the first segment exists: nothing can be made in the place of the next
					if err := os.Mkdir(filepath.Join(dir, walSegmentInfo{ID: w.nextID}.file()), 0o700); err != nil {
						t.Fatal(err)
					}
				}
				if err := w.StoreLog(entry(next, 1, string(make([]byte, 4000)))); err != nil {
					t.Fatal(err)
				}
			}
			settle(w)
			if err := call(w, next); err == nil || !strings.Contains(err.Error(), "make a segment ahead") {
				t.Errorf("after the failure: %v", err)
			}
		})
	}
}

// TestSegmentAheadEndsTheNode: and it ends the node, also where nothing is stored any more. (G17)
func TestSegmentAheadEndsTheNode(t *testing.T) {
	t.Parallel()
	d, err := OpenDir(filepath.Join(t.TempDir(), "n"), "n1")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	h, fatal := testHalt(t)
	disk, err := OpenDisk(d, h, LogOptions{Kind: WAL, segment: testSegment})
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	w := disk.engine.(*walStore)
	for i := uint64(1); w.making == nil; i++ {
		if i == 2 { // the first segment exists: nothing can be made in the place of the next
			if err := os.Mkdir(filepath.Join(w.dir, walSegmentInfo{ID: w.nextID}.file()), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.StoreLog(entry(i, 1, string(make([]byte, 4000)))); err != nil {
			t.Fatal(err)
		}
	}
	settle(w)
	select {
	case err := <-fatal:
		if !strings.Contains(err.Error(), "make a segment ahead") || !strings.Contains(err.Error(), w.dir) {
			t.Errorf("the node ends with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the node goes on")
	}
	h.Release()
}

func flipBit(path string, at int64) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	b[at] ^= 4
	return os.WriteFile(path, b, 0o600)
}
