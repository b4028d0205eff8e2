//go:build !wasip1

package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Inspection is a data directory as it is found, without taking hold of it.
type Inspection struct {
	Identity Identity // zero when there is none yet
	InUse    bool     // a process holds it
	LogBytes int64    // what the log takes on disk
}

// Inspect looks at a data directory and changes nothing. Unless a process holds it, it also checks the structure of the log
// and the headers of the snapshots, as a start would. A directory that does not exist is a zero Inspection.
func Inspect(path string) (in Inspection, err error) {
	lock, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return in, err
	default:
		in.InUse = unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil
		if err := unlock(lock); err != nil {
			return in, err
		}
	}
	in.Identity, err = readIdentity(filepath.Join(path, identityFile))
	if errors.Is(err, os.ErrNotExist) {
		return in, nil
	}
	in.LogBytes = onDisk(in.Identity.Kind().path(path))
	if err != nil || in.InUse {
		return in, err
	}
	if in.Identity.empty() {
		return in, checkEmpty(path, in.Identity)
	}
	t, err := openTail(filepath.Join(path, TailFile), false)
	if err != nil {
		return in, err
	}
	last, _ := t.marks()
	if err := t.close(); err != nil {
		return in, err
	}
	if err := in.Identity.Kind().check(in.Identity.Kind().path(path), in.Identity.UUID, last); err != nil {
		return in, err
	}
	s := &Snapshots{dir: filepath.Join(path, snapshotDir)}
	_, err = s.verify()
	return in, err
}

// onDisk is what a file, or the files of a folder, take on disk.
func onDisk(path string) (n int64) {
	_ = filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil // it may go at any moment
		}
		if f, err := os.Open(p); err == nil {
			n += allocated(f)
			f.Close()
		}
		return nil
	})
	return n
}
