//go:build !wasip1

package store

import (
	"errors"
	"os"
	"unsafe"
)

const (
	// snapPiece is how much of a snapshot goes to the disk at once: large enough that the disk's time for a write is mostly that of
	// its bytes, small enough that an entry of the log does not wait long behind one.
	snapPiece = 1 << 20
	// snapBlock is what the place, the length and the address of a write around the page cache have to be multiples of, at most.
	snapBlock = 4 << 10
	// snapSync is how much of a snapshot that goes through the page cache may be on its way to the disk. One sync of everything at the
	// end would keep the disk, and with it every commit, for as long as it takes to write hundreds of megabytes.
	snapSync = 4 << 20
)

// snapFile is a new file that is written from its beginning to its end in pieces of snapPiece: around the page cache where the
// system and the file system let it, since a snapshot is not read before the next start, and copying it there and having it written from
// there costs twice the processor's time.
type snapFile struct {
	f      *os.File
	piece  []byte // at an address that is a multiple of snapBlock
	off    int64  // of the piece in the file
	direct bool
}

func createSnapFile(path string) (*snapFile, error) {
	f, direct, err := createDirect(path)
	if err != nil {
		return nil, err
	}
	b := make([]byte, snapPiece+snapBlock)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) % snapBlock) //nolint:gosec // an address, to align it
	return &snapFile{f: f, piece: b[skip : skip : skip+snapPiece], direct: direct}, nil
}

// Write takes p; a piece that is full is on the disk, or on its way there, when it returns. After an error the file is of no use.
func (w *snapFile) Write(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		m := copy(w.piece[len(w.piece):cap(w.piece)], p[n:])
		w.piece = w.piece[:len(w.piece)+m]
		n += m
		if len(w.piece) == cap(w.piece) {
			if err := w.flush(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// flush writes the piece, of which all but the last one of a file are full.
func (w *snapFile) flush() error {
	n := len(w.piece)
	if w.direct {
		whole := (n + snapBlock - 1) / snapBlock * snapBlock
		b := w.piece[:whole]
		clear(b[n:])
		switch _, err := w.f.WriteAt(b, w.off); {
		case err == nil:
		case !wantsCache(err):
			return err
		default: // it needs more than snapBlock
			if err := useCache(w.f); err != nil {
				return err
			}
			w.direct = false
		}
	}
	if !w.direct {
		if _, err := w.f.WriteAt(w.piece, w.off); err != nil {
			return err
		}
		if err := writeOut(w.f, w.off, int64(n)); err != nil {
			return err
		}
	}
	w.off += int64(n)
	w.piece = w.piece[:0]
	return nil
}

// Close writes what is left and makes all of it durable.
func (w *snapFile) Close() error {
	err := w.flush()
	if err == nil && w.direct {
		err = w.f.Truncate(w.off) // the last piece was written with zeros to the end of its block
	}
	if err == nil {
		err = w.f.Sync()
	}
	return errors.Join(err, w.f.Close())
}

// Drop closes the file without.
func (w *snapFile) Drop() error { return w.f.Close() }
