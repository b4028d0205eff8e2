//go:build !wasip1

package store

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft-wal/types"
	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/fsm/mutant"
)

// walFiles are the files that raft-wal's segments are written to.
//
// Compared with its own they are private to the user, are synced without their times, and are named after the segment's id
// alone: the first index, which is in raft-wal's name for them, is not known when the file is made.
type walFiles struct{}

// path is where a segment is that raft-wal calls INDEX-ID.wal.
func (walFiles) path(dir, name string) string {
	return filepath.Join(dir, name[strings.LastIndexByte(name, '-')+1:])
}

// walFile is one of them, open for writing.
type walFile struct{ *os.File }

// Sync makes what was written durable.
func (f walFile) Sync() error {
	if mutant.NoSync {
		return nil
	}
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// Create implements types.VFS. A file that is there was made ahead. The space is taken at once, so that a full disk shows
// itself here and appends need not grow the file.
func (v walFiles) Create(dir, name string, size uint64) (types.WritableFile, error) {
	if size > math.MaxInt32 {
		return nil, fmt.Errorf("segment of %d bytes, want at most %d", size, math.MaxInt32)
	}
	path := v.path(dir, name)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		return walFile{f}, nil
	}
	if !os.IsNotExist(err) {
		return nil, err
	}
	if f, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	err = allocate(f, 0, 0, int64(size))
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) { // some file systems cannot: then the file grows as it is written
		return nil, errors.Join(fmt.Errorf("reserve %d bytes for %s: %w", size, path, err), f.Close(), os.Remove(path))
	}
	return walFile{f}, nil
}

// OpenWriter implements types.VFS.
func (v walFiles) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := os.OpenFile(v.path(dir, name), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return walFile{f}, nil
}

// OpenReader implements types.VFS.
func (v walFiles) OpenReader(dir, name string) (types.ReadableFile, error) {
	return os.Open(v.path(dir, name))
}

// ListDir implements types.VFS.
func (walFiles) ListDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Delete implements types.VFS.
func (v walFiles) Delete(dir, name string) error { return os.Remove(v.path(dir, name)) }

// allocate is fallocate, which a signal may interrupt.
func allocate(f *os.File, mode uint32, off, n int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), mode, off, n)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
