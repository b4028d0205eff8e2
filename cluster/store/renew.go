//go:build !wasip1

package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// What a start finds may be in the kernel's cache alone: a sync has failed, the process has ended, and the machine has gone on. The kernel
// calls such pages written, so that a later sync passes over them, and may drop them, so that what was read once is read differently the next
// time. It writes them when they are written to, with whatever bytes. So what a start believes and a failed sync may have left behind is
// written once more, as it was found, and synced, before anybody is told of it.

// renewer reads a file and writes what it has read to where it was. What is judged by such a reader is what a sync then makes durable,
// whatever the cache has dropped before; and a crash at any moment leaves the same bytes.
type renewer struct{ f *os.File }

// ReadAt implements io.ReaderAt.
func (r renewer) ReadAt(b []byte, off int64) (int, error) {
	n, err := r.f.ReadAt(b, off)
	if n > 0 {
		if _, err := r.f.WriteAt(b[:n], off); err != nil {
			return 0, err
		}
	}
	return n, err
}

// changeDir changes which names a folder has, and makes all of them durable. The folder is opened first: that a sync has failed is told to
// those who have the folder open, and to nobody who opens it later.
func changeDir(path string, change func() error) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	if err := change(); err != nil {
		return errors.Join(err, d.Close())
	}
	return errors.Join(d.Sync(), d.Close())
}

// syncDir makes the names that a folder has durable, unless a sync of it has failed before.
func syncDir(path string) error { return changeDir(path, func() error { return nil }) }

// again is behind the name of a snapshot that is given its name once more.
const again = ".again"

// renewSnapshots gives the snapshots below dir their names once more, since the folder's sync may have failed after the renames that a
// snapshot ends with. A name that a snapshot had before is taken from it first, durably: what is removed later must not be in a folder
// that a power cut gives its old name back, nor the folder that is kept have two.
func renewSnapshots(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var whole []string // as they are called now, and will be
	if err := changeDir(dir, func() error {
		for _, e := range entries {
			name := filepath.Join(dir, e.Name())
			had := name + unfinished
			switch {
			case !e.IsDir():
				continue
			case strings.HasSuffix(name, unfinished):
				had = strings.TrimSuffix(name, unfinished)
			case strings.HasSuffix(name, again): // of a start that was cut off
				to := strings.TrimSuffix(name, again)
				if err := os.Rename(name, to); err != nil {
					return err
				}
				whole, had = append(whole, to), to+unfinished
			default:
				whole = append(whole, name)
			}
			// A file instead: what is no folder is no snapshot.
			f, err := os.OpenFile(had, os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return err
			}
			if err := errors.Join(f.Close(), os.Remove(had)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return changeDir(dir, func() error {
		for _, name := range whole {
			if err := os.Rename(name, name+again); err != nil {
				return err
			}
			if err := os.Rename(name+again, name); err != nil {
				return err
			}
		}
		return nil
	})
}
