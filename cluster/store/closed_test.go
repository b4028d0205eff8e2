package store

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
)

// A log that is closed takes and gives nothing more, whoever still holds it, and what it had is there at the next start.
func TestClosedLog(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, kind Kind) {
		path, id := kind.path(t.TempDir()), NewUUID()
		e, err := kind.create(path, id, testSegment)
		if err != nil {
			t.Fatal(err)
		}
		const last = 100
		for i := uint64(1); i <= last; i++ {
			if err := e.StoreLog(entry(i, 1, fmt.Sprintf("%d %s", i, string(make([]byte, 1000))))); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(e.Set([]byte("k"), []byte("v")), e.Close()); err != nil {
			t.Fatal(err)
		}
		files := filesOf(t, path)
		for _, c := range []struct {
			name string
			call func() error
		}{
			{"append", func() error { return e.StoreLog(entry(last+1, 1, "x")) }},
			{"append elsewhere", func() error { return e.StoreLogs([]*raft.Log{entry(7, 1, "x"), entry(8, 1, "x")}) }},
			{"vote", func() error { return e.Set([]byte("k"), []byte("w")) }},
			{"compaction", func() error { return e.DeleteRange(1, last/2) }},
			{"truncation", func() error { return e.DeleteRange(last/2, last) }},
			{"all", func() error { return e.DeleteRange(1, last) }},
			{"read", func() error { return e.GetLog(last, &raft.Log{}) }},
			{"read beyond", func() error { return e.GetLog(last+1, &raft.Log{}) }},
		} {
			if err := guard(path, c.call); err == nil || errors.Is(err, raft.ErrLogNotFound) {
				t.Errorf("%s: %v, want an error that says that the log is closed", c.name, err)
			} else if d := (*DamageError)(nil); errors.As(err, &d) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		if err := e.Close(); err != nil {
			t.Errorf("closed again: %v", err)
		}
		if now := filesOf(t, path); !maps.Equal(now, files) {
			t.Error("a closed log has changed its files")
		}
		if e, err = kind.open(path, id, testSegment, last); err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		for i := uint64(1); i <= last; i++ {
			if err := e.GetLog(i, &raft.Log{}); err != nil {
				t.Fatalf("entry %d: %v", i, err)
			}
		}
	})
}

// filesOf is what is in the file at path, or in those below it.
func filesOf(t *testing.T, path string) map[string]string {
	t.Helper()
	files := map[string]string{}
	if err := filepath.WalkDir(path, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		files[p] = string(b)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}
