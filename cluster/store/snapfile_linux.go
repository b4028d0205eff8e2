package store

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// createDirect makes a file whose writes go around the page cache, if its file system has that.
func createDirect(path string) (f *os.File, direct bool, err error) {
	const flags = os.O_CREATE | os.O_EXCL | os.O_WRONLY
	if f, err = os.OpenFile(path, flags|unix.O_DIRECT, 0o600); err == nil {
		return f, true, nil
	}
	if !wantsCache(err) {
		return nil, false, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // some refuse it after they have made the file
		return nil, false, err
	}
	f, err = os.OpenFile(path, flags, 0o600)
	return f, false, err
}

// wantsCache says whether an error is how a file system refuses to go around the cache.
func wantsCache(err error) bool { return errors.Is(err, unix.EINVAL) }

// useCache has the writes that follow go through the page cache.
func useCache(f *os.File) error {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags&^unix.O_DIRECT)
	}
	if err != nil {
		return &os.PathError{Op: "fcntl", Path: f.Name(), Err: err}
	}
	return nil
}

// writeOut has the disk begin with n bytes from off of a file that is being written, and waits for what is more than snapSync
// before their end. It makes nothing durable: unlike a sync it does not commit the file system's journal, for which entries of the
// log would have to wait.
func writeOut(f *os.File, off, n int64) error {
	if err := unix.SyncFileRange(int(f.Fd()), off, n, unix.SYNC_FILE_RANGE_WRITE); err != nil {
		return &os.PathError{Op: "sync_file_range", Path: f.Name(), Err: err}
	}
	if before := off + n - snapSync; before > 0 {
		const wait = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
		if err := unix.SyncFileRange(int(f.Fd()), max(0, before-n), min(n, before), wait); err != nil {
			return &os.PathError{Op: "sync_file_range", Path: f.Name(), Err: err}
		}
	}
	return nil
}
