package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// testSegment is small, so that a few hundred entries fill several.
const testSegment = 64 << 10

// eachKind runs a test with every kind of log store.
func eachKind(t *testing.T, f func(t *testing.T, k Kind)) {
	t.Helper()
	for _, k := range []Kind{Bolt, WAL} {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			f(t, k)
		})
	}
}

// logName is what the path of a kind's log ends with.
func (k Kind) logName() string { return filepath.Base(k.path("")) }

// keep copies the log of a directory and gives back what puts the copy in its place.
func keep(t testing.TB, dir string, k Kind) (putBack func() error) {
	t.Helper()
	saved := filepath.Join(t.TempDir(), "log")
	copyLog := func(from, to string) error {
		if err := os.RemoveAll(to); err != nil {
			return err
		}
		if k == WAL {
			return errors.Join(os.CopyFS(to, os.DirFS(from)), os.Chmod(to, 0o700))
		}
		b, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		return os.WriteFile(to, b, 0o600)
	}
	if err := copyLog(k.path(dir), saved); err != nil {
		t.Fatal(err)
	}
	return func() error { return copyLog(saved, k.path(dir)) }
}

// reopen opens the log of a stopped node without counting a start.
func reopen(t testing.TB, d *Dir, halt *Halt) *Disk {
	t.Helper()
	k := d.Identity().Kind()
	tl, err := openTail(filepath.Join(d.path, TailFile), false)
	if err != nil {
		t.Fatal(err)
	}
	last, _ := tl.marks()
	e, err := k.open(k.path(d.path), d.Identity().UUID, testSegment, last)
	if err != nil {
		t.Fatal(err)
	}
	disk := newDisk(e, k, k.path(d.path), tl, halt, LogOptions{})
	if err := disk.Stable.resume(markKey); err != nil {
		t.Fatal(err)
	}
	return disk
}

// segmentsOf are the segment files of a WAL, in order.
func segmentsOf(t testing.TB, dir string) []string {
	t.Helper()
	m, err := filepath.Glob(filepath.Join(dir, WALDir, "*.wal"))
	if err != nil || len(m) < 3 {
		t.Fatalf("segments %v, %v; want at least 3", m, err)
	}
	return m
}
