package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
)

// TestTornBatch: whatever part of the last batch of a WAL a power cut leaves on disk, all that was acknowledged before it is
// there, and the log goes on behind it, also through the next start. (C7, G17)
func TestTornBatch(t *testing.T) {
	t.Parallel()
	t.Logf("seed %d", *seed)
	for _, c := range []struct {
		name  string
		size  int // bytes of an entry
		count int // of batches of three before the torn one
	}{
		{"first of a segment", 700, 0},
		{"in the middle", 700, 5},
		{"larger than a sector", 6000, 1},
		{"the one that seals", 7300, 2}, // nine of them are more than a segment
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			id := NewUUID()
			whole := filepath.Join(t.TempDir(), WALDir)
			w, err := createWAL(whole, id, testSegment)
			if err != nil {
				t.Fatal(err)
			}
			next := uint64(1)
			batch := func(fill byte) (b []*raft.Log) {
				for range 3 {
					l := entry(next, 1, string(bytes.Repeat([]byte{fill}, c.size)))
					l.Extensions = []byte{1, 2, 3, 4, 5}
					b = append(b, l)
					next++
				}
				return b
			}
			for range c.count {
				if err := w.StoreLogs(batch('a')); err != nil {
					t.Fatal(err)
				}
			}
			acknowledged := next - 1
			if c.count == 0 { // the segment exists, with nothing in it
				if _, err := w.grow(1); err != nil {
					t.Fatal(err)
				}
			}
			file := w.segments[0].file()
			before, err := os.ReadFile(filepath.Join(whole, file))
			if err != nil {
				t.Fatal(err)
			}
			if err := w.StoreLogs(batch('b')); err != nil {
				t.Fatal(err)
			}
			if c.name == "the one that seals" {
				if full, _, err := w.segments[0].tail.Sealed(); err != nil || !full {
					t.Fatalf("sealed: %v, %v", full, err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			after, err := os.ReadFile(filepath.Join(whole, file))
			if err != nil {
				t.Fatal(err)
			}
			before = append(before, make([]byte, len(after)-len(before))...)
			end := len(bytes.TrimRight(after, "\x00"))
			start := 0
			for start < len(after) && before[start] == after[start] {
				start++
			}
			rng := rand.New(rand.NewPCG(*seed, uint64(c.size)))
			for round := range 60 {
				torn := bytes.Clone(before)
				var what string
				switch {
				case round < 25: // a prefix
					n := start + rng.IntN(end-start)
					what = fmt.Sprintf("up to byte %d of %d to %d", n, start, end)
					copy(torn[start:n], after[start:n])
				default: // any sectors
					const sector = 512
					for at := start / sector * sector; at < end; at += sector {
						if rng.IntN(2) == 0 {
							copy(torn[at:min(at+sector, len(torn))], after[at:])
						}
					}
					what = fmt.Sprintf("some sectors, round %d", round)
					if bytes.Equal(torn, after) {
						continue
					}
				}
				dir := filepath.Join(t.TempDir(), WALDir)
				copyTree(t, whole, dir)
				if err := os.WriteFile(filepath.Join(dir, file), torn, 0o600); err != nil {
					t.Fatal(err)
				}
				goesOn(t, dir, id, what, acknowledged)
				_ = os.RemoveAll(filepath.Dir(dir))
			}
		})
	}
}

// goesOn opens a torn log, appends to it, opens it again and looks at every entry.
func goesOn(t *testing.T, dir string, id UUID, what string, acknowledged uint64) {
	t.Helper()
	w, err := openWAL(dir, id, testSegment, acknowledged)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	last, _ := w.LastIndex()
	if last < acknowledged || last > acknowledged+3 {
		t.Fatalf("%s: the log ends at %d, want %d", what, last, acknowledged)
	}
	for i := last + 1; i < last+4; i++ {
		if err := w.StoreLog(entry(i, 2, fmt.Sprintf("short %d", i))); err != nil {
			t.Fatalf("%s: append: %v", what, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w, err = openWAL(dir, id, testSegment, last+3); err != nil {
		t.Fatalf("%s: second start: %v", what, err)
	}
	defer w.Close()
	for i := uint64(1); i <= last+3; i++ {
		var l raft.Log
		if err := w.GetLog(i, &l); err != nil || l.Index != i {
			t.Fatalf("%s: entry %d: %d, %v", what, i, l.Index, err)
		}
		if i > last && string(l.Data) != fmt.Sprintf("short %d", i) || i <= acknowledged && l.Data[0] != 'a' {
			t.Fatalf("%s: entry %d is %.20q", what, i, l.Data)
		}
	}
}

// TestUnfinishedChange: a process that ends between the steps of a change of segments leaves a log that opens as before it,
// or as after it.
func TestUnfinishedChange(t *testing.T) {
	t.Parallel()
	fresh := func(t *testing.T) (*walStore, string, UUID) {
		id, dir := NewUUID(), filepath.Join(t.TempDir(), WALDir)
		w, err := createWAL(dir, id, testSegment)
		if err != nil {
			t.Fatal(err)
		}
		for i := uint64(1); i <= 60; i++ {
			if err := w.StoreLog(entry(i, 1, string(make([]byte, 3000)))); err != nil {
				t.Fatal(err)
			}
		}
		settle(w)
		return w, dir, id
	}
	// begin seals the newest segment and begins another one.
	begin := func(w *walStore, base uint64) error {
		s := w.segments[len(w.segments)-1]
		at, err := s.tail.ForceSeal()
		if err != nil {
			return err
		}
		s.Max, s.Index = base-1, at
		_, err = w.grow(base)
		return err
	}
	// withOldList puts an earlier list in the place of the present one, which is what a crash before the list's change leaves.
	withOldList := func(change func(w *walStore) error) func(t *testing.T, w *walStore, dir string) {
		return func(t *testing.T, w *walStore, dir string) {
			list := filepath.Join(dir, walMetaFile)
			old, err := os.ReadFile(list)
			if err != nil {
				t.Fatal(err)
			}
			if err := change(w); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(list, old, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name        string
		crash       func(t *testing.T, w *walStore, dir string)
		first, last uint64
	}{
		{"a segment begun and not listed", withOldList(func(w *walStore) error { return begin(w, 61) }), 1, 60},
		{"a segment begun and listed", func(t *testing.T, w *walStore, _ string) {
			if err := begin(w, 61); err != nil {
				t.Fatal(err)
			}
		}, 1, 60},
		{"the newest sealed for a cut that is not listed", withOldList(func(w *walStore) error {
			_, err := w.segments[len(w.segments)-1].tail.ForceSeal()
			return err
		}), 1, 60},
		{"dropped segments not removed", func(t *testing.T, w *walStore, dir string) {
			files, err := filepath.Glob(filepath.Join(dir, "*.wal"))
			if err != nil {
				t.Fatal(err)
			}
			saved := t.TempDir()
			copyTree(t, dir, saved)
			if err := w.DeleteRange(1, 45); err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				b, err := os.ReadFile(filepath.Join(saved, filepath.Base(f)))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(f, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}, 46, 60},
		{"an unfinished list", func(t *testing.T, _ *walStore, dir string) {
			if err := os.WriteFile(filepath.Join(dir, walMetaFile+".tmp"), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, 1, 60},
		{"nothing left and a segment begun", func(t *testing.T, w *walStore, _ string) {
			if err := w.DeleteRange(1, 60); err != nil {
				t.Fatal(err)
			}
			if _, err := w.grow(77); err != nil {
				t.Fatal(err)
			}
		}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, dir, id := fresh(t)
			c.crash(t, w, dir)
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			next := c.last
			for start := range 3 {
				w, err := openWAL(dir, id, testSegment, next)
				if err != nil {
					t.Fatalf("start %d: %v", start, err)
				}
				if err := w.sweep(); err != nil {
					t.Fatalf("start %d: %v", start, err)
				}
				first, _ := w.FirstIndex()
				last, _ := w.LastIndex()
				if first != c.first || last != next {
					t.Fatalf("start %d: log from %d to %d, want %d to %d", start, first, last, c.first, next)
				}
				if next == 0 {
					next, c.first = 90, 91 // any index will do
				}
				next++
				if err := w.StoreLog(entry(next, 1, "next")); err != nil {
					t.Fatalf("start %d: %v", start, err)
				}
				settle(w)
				files := 1 + len(w.segments)
				if w.spare != 0 {
					files++
				}
				found, err := filepath.Glob(filepath.Join(dir, "*"))
				if err != nil || len(found) != files {
					t.Errorf("start %d: files %v, %v, want a list and segments, %d in all", start, found, err, files)
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// settle waits for the segment that is being made ahead.
func settle(w *walStore) {
	if w.making != nil {
		<-w.making
	}
}

// TestCutsTakeNoSpace: each truncation ends a segment; what was reserved behind its end is given back.
func TestCutsTakeNoSpace(t *testing.T) {
	t.Parallel()
	const segment = 1 << 20
	w, err := createWAL(filepath.Join(t.TempDir(), WALDir), NewUUID(), segment)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i := uint64(1); i <= 50; i++ {
		if err := w.StoreLogs([]*raft.Log{entry(2*i-1, i, "kept"), entry(2*i, i, "kept"), entry(2*i+1, i, "cut off")}); err != nil {
			t.Fatal(err)
		}
		if err := w.DeleteRange(2*i+1, 2*i+1); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.size(); got > 3*segment {
		t.Errorf("%d segments take %d bytes", len(w.segments), got)
	}
}
