package store

import (
	"os"

	"golang.org/x/sys/unix"
)

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
