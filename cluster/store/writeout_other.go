//go:build !linux

package store

import "os"

// writeOut syncs the file each time that another snapSync bytes of it are full.
func writeOut(f *os.File, off, n int64) error {
	if off/snapSync == (off+n)/snapSync {
		return nil
	}
	return f.Sync()
}
