//go:build !linux && !wasip1

package store

import "os"

func createDirect(path string) (f *os.File, direct bool, err error) {
	f, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	return f, false, err
}

func wantsCache(error) bool { return false }

func useCache(*os.File) error { return nil }

// writeOut syncs the file each time that another snapSync bytes of it are full.
func writeOut(f *os.File, off, n int64) error {
	if off/snapSync == (off+n)/snapSync {
		return nil
	}
	return f.Sync()
}
