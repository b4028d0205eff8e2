package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSyncsAreAskedFor: what is acknowledged was synced, by both kinds of log. A WAL's file is put on a pipe, of which the kernel
// says that it cannot be synced, to whoever asks.
func TestSyncsAreAskedFor(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if err := (walFile{w}).Sync(); !errors.Is(err, unix.EINVAL) {
		t.Errorf("wal: the sync of a pipe gives %v, want %v", err, unix.EINVAL)
	}
	b, err := openBolt(filepath.Join(t.TempDir(), LogFile))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if db := boltDB(b.BoltStore); db == nil || db.NoSync {
		t.Error("bolt: the database is told not to sync, or cannot be found")
	}
}
