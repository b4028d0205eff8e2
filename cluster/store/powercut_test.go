package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// cutFiles are segments' files that know what of them is synced. at is called when a write has been made and not synced yet,
// or is about to be: the power may go at any moment then.
type cutFiles struct {
	walFiles
	at func(name string, synced, now []byte)
}

type cutFile struct {
	types.WritableFile
	path   string
	files  cutFiles
	synced []byte
}

func (v cutFiles) open(dir, name string, f types.WritableFile, err error) (types.WritableFile, error) {
	if err != nil {
		return nil, err
	}
	path := v.path(dir, name)
	b, err := os.ReadFile(path)
	return &cutFile{f, path, v, b}, err
}

func (v cutFiles) Create(dir, name string, size uint64) (types.WritableFile, error) {
	f, err := v.walFiles.Create(dir, name, size)
	return v.open(dir, name, f, err)
}

func (v cutFiles) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := v.walFiles.OpenWriter(dir, name)
	return v.open(dir, name, f, err)
}

func (f *cutFile) Sync() error {
	now, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}
	f.files.at(filepath.Base(f.path), f.synced, now)
	f.synced = now
	return nil
}

// TestPowerCuts: the power goes while a WAL is appended to, compacted and cut, at any moment between two syncs, with any of the
// sectors that were not synced on disk and no mark of where the log ended. What was acknowledged is there when it is opened,
// again and again, and the log goes on.
func TestPowerCuts(t *testing.T) {
	t.Parallel()
	t.Logf("seed %d", *seed)
	for run := range uint64(4) {
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			t.Parallel()
			powerCuts(t, rand.New(rand.NewPCG(*seed, 100+run)))
		})
	}
}

func powerCuts(t *testing.T, rng *rand.Rand) {
	id, dir := NewUUID(), filepath.Join(t.TempDir(), WALDir)
	body := func(i, term uint64) string { return fmt.Sprintf("%d of %d ", i, term) }
	terms := map[uint64]uint64{} // of the entries that were acknowledged, or are being written
	first, sure, last := uint64(1), uint64(0), uint64(0)
	cuts, ahead := 0, 0
	var w *walStore
	at := func(name string, synced, now []byte) {
		if rng.IntN(6) > 0 {
			return
		}
		cuts++
		dir2 := filepath.Join(t.TempDir(), WALDir)
		if err := copyLoose(dir, dir2); err != nil {
			t.Fatal(err)
		}
		torn := make([]byte, len(now))
		copy(torn, synced)
		for off := 0; off < len(now); off += 512 {
			if end := min(off+512, len(now)); rng.IntN(2) == 0 {
				copy(torn[off:end], now[off:end])
			}
		}
		if err := os.WriteFile(filepath.Join(dir2, name), torn, 0o600); err != nil {
			t.Fatal(err)
		}
		if m, err := readWALMeta(dir2, id); err == nil && m.Next != 0 && (walSegmentInfo{ID: m.Next}).file() == name {
			ahead++
		}
		for start := range 2 {
			w, err := openWAL(dir2, id, testSegment, 0)
			if err != nil {
				t.Fatalf("cut %d in %s, start %d: %v", cuts, name, start, err)
			}
			f, _ := w.FirstIndex()
			l, _ := w.LastIndex()
			if sure > 0 && (f > first || l < sure) {
				t.Fatalf("cut %d in %s, start %d: the log goes from %d to %d, %d to %d were acknowledged", cuts, name, start, f, l, first, sure)
			}
			for i := f; i <= sure && i > 0; i++ {
				var e raft.Log
				if err := w.GetLog(i, &e); err != nil || !strings.HasPrefix(string(e.Data), body(i, terms[i])) {
					t.Fatalf("cut %d in %s, start %d: entry %d is %.20q of term %d, want term %d (%v)", cuts, name, start, i, e.Data, e.Term, terms[i], err)
				}
			}
			if err := errors.Join(w.StoreLog(entry(l+1, 1<<40, "next")), w.Set([]byte("k"), []byte("v")), w.Close()); err != nil {
				t.Fatalf("cut %d in %s, start %d: %v", cuts, name, start, err)
			}
		}
		_ = os.RemoveAll(filepath.Dir(dir2))
	}
	use := func(s *walStore, err error) {
		if err != nil {
			t.Fatal(err)
		}
		w = s
		w.filer = segment.NewFiler(dir, cutFiles{at: at})
	}
	use(createWAL(dir, id, testSegment))
	for term := uint64(1); term <= 220; term++ {
		switch what := rng.IntN(20); {
		case what < 15:
			var batch []*raft.Log
			for range 1 + rng.IntN(5) {
				last++
				terms[last] = term
				batch = append(batch, entry(last, term, body(last, term)+strings.Repeat("x", rng.IntN(6000))))
			}
			if err := w.StoreLogs(batch); err != nil {
				t.Fatal(err)
			}
			sure = last
		case what < 17 && last > first+10:
			to := first + rng.Uint64N(last-first-5)
			if err := w.DeleteRange(first, to); err != nil {
				t.Fatal(err)
			}
			first = to + 1
		case what < 18 && last > first+3:
			from := last - rng.Uint64N(min(20, last-first))
			sure = from - 1
			if err := w.DeleteRange(from, last); err != nil {
				t.Fatal(err)
			}
			last = sure
		case what == 18 && last > 0 && rng.IntN(4) == 0: // a snapshot was installed
			sure = 0
			if err := w.DeleteRange(first, last); err != nil {
				t.Fatal(err)
			}
			last += 10
			first = last + 1
		case what == 19:
			if rng.IntN(2) == 0 {
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				use(openWAL(dir, id, testSegment, sure))
				w.filer = segment.NewFiler(dir, cutFiles{at: at})
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d cuts, %d of them in a segment ahead of the list", cuts, ahead)
	if cuts < 10 {
		t.Errorf("only %d cuts", cuts)
	}
}

// copyLoose copies a folder while others change it: what goes meanwhile is not copied.
func copyLoose(from, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(from, e.Name()))
		if os.IsNotExist(err) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, e.Name()), b, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestDamageBeforeAnEmptySegmentAhead: the newest segment has lost its end, and the one that was made ahead has nothing yet. The error names the
// one that is damaged.
func TestDamageBeforeAnEmptySegmentAhead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		harm func(file string) error
	}{
		{"cut short", func(f string) error { return os.Truncate(f, 3000) }},
		{"emptied", func(f string) error { return os.Truncate(f, 0) }},
		{"zeroed", func(f string) error { return os.WriteFile(f, make([]byte, testSegment), 0o600) }},
		{"a bit in its head", func(f string) error { return flipBit(f, 5) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir, id := filepath.Join(t.TempDir(), WALDir), NewUUID()
			w, err := createWAL(dir, id, testSegment)
			if err != nil {
				t.Fatal(err)
			}
			last := uint64(0)
			for w.spare == 0 {
				if last++; last > 1000 {
					t.Fatal("no segment was made ahead")
				}
				if err := w.StoreLog(entry(last, 1, fmt.Sprintf("%d %s", last, string(make([]byte, 2500))))); err != nil {
					t.Fatal(err)
				}
				settle(w)
			}
			file := filepath.Join(dir, w.newest().file())
			if err := errors.Join(w.Close(), c.harm(file)); err != nil {
				t.Fatal(err)
			}
			_, err = openWAL(dir, id, testSegment, last)
			var d *DamageError
			if !errors.As(err, &d) || d.File != file || d.Index > last {
				t.Fatalf("%v, want damage of %s", err, file)
			}
		})
	}
}

// TestDamageBeforeTheSegmentAhead: the segment that is newest in the list has lost its end, and the log has gone on behind it in
// one that is in the list as the next only. That is damage also where no mark says where the log ended.
func TestDamageBeforeTheSegmentAhead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		harm func(file string, end int64) error
	}{
		{"a bit in the last batch", func(f string, end int64) error { return flipBit(f, end-100) }},
		{"a bit in the commit", func(f string, end int64) error { return flipBit(f, end-2) }},
		{"cut in the last batch", func(f string, end int64) error { return os.Truncate(f, end-100) }},
		{"emptied", func(f string, _ int64) error { return os.Truncate(f, 0) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir, id, _, ahead := aheadOfTheList(t)
			m, err := readWALMeta(dir, id)
			if err != nil {
				t.Fatal(err)
			}
			newest := m.Segments[len(m.Segments)-1]
			if newest.sealed() {
				t.Fatalf("the newest listed segment is sealed: %+v", newest)
			}
			file := filepath.Join(dir, newest.file())
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.harm(file, int64(len(strings.TrimRight(string(b), "\x00")))); err != nil {
				t.Fatal(err)
			}
			for start := range 2 {
				_, err := openWAL(dir, id, testSegment, 0)
				var d *DamageError
				if !errors.As(err, &d) || d.File != file {
					t.Fatalf("start %d: %v, want damage of %s", start, err, file)
				}
				if _, err := os.Stat(ahead); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
