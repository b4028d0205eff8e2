package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/bench/chaos/forgetfs"
)

// fillerPath is the file with which a filler process fills its disk.
const fillerPath = "QUORATE_TEST_FILLER"

// filler writes a file until there is no room for another byte.
func filler(path string) int {
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = fillDisk(path)
	}
	if !errors.Is(err, unix.ENOSPC) {
		fmt.Println("failed:", err)
		return 1
	}
	fmt.Println("full")
	return 0
}

func fillDisk(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for piece := 1 << 20; piece > 0; piece /= 16 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, piece))
		}
	}
	return errors.Join(err, f.Close())
}

// TestStartOnAFullDisk: what fills the disk is what the node itself has left, and it starts.
func TestStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, kind Kind) {
		for _, c := range []struct{ name, file string }{
			{"a snapshot that was not finished", filepath.Join(snapshotDir, "9-999-999"+unfinished, snapshotState)},
			{"a conversion that was not finished", WALDir + convertSuffix + "/0000000000000001.wal"},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				f := newForgettingOf(t, kind, forgetfs.Options{Capacity: 8 << 20})
				f.write(t, forgetfs.Trap{On: forgetfs.Syncs, N: 1 << 30}, 60, forgetfs.Cut{Mode: forgetfs.Kept})
				var said string
				p := f.start(t, func(line string) { said = line }, fillerPath+"="+filepath.Join(f.dir, c.file))
				select {
				case <-p.done:
				case <-time.After(time.Minute):
					p.Kill()
				}
				if said != "full" {
					t.Fatalf("the disk is not full: %q", said)
				}
				if err := f.check(t); err != nil {
					t.Fatal(err)
				}
			})
		}
	})
}

// TestSegmentThatNoListCanName: room that was reserved for a segment is given back where there is none for the list. A list that names the
// segment all the same finds it empty.
func TestSegmentThatNoListCanName(t *testing.T) {
	t.Parallel()
	dir, id := filepath.Join(t.TempDir(), WALDir), NewUUID()
	w, err := createWAL(dir, id, testSegment)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, walMetaFile+".tmp")
	if err := os.Symlink("/dev/full", list); err != nil {
		t.Fatal(err)
	}
	if err := w.StoreLog(entry(1, 1, "x")); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("stored: %v", err)
	}
	if n := onDisk(dir); n > 4<<10 {
		t.Errorf("%d bytes are taken, of which the list is a few hundred", n)
	}
	if err := errors.Join(w.Close(), os.Remove(list)); err != nil {
		t.Fatal(err)
	}
	if w, err = openWAL(dir, id, testSegment, 0); err != nil {
		t.Fatal(err)
	}
	s, err := w.grow(1)
	if err := errors.Join(err, w.sweep(), w.Close(), os.Truncate(filepath.Join(dir, s.file()), 0)); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(3) {
		if w, err = openWAL(dir, id, testSegment, i); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.StoreLog(entry(i+1, 1, "x")), w.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
