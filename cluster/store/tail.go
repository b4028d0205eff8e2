package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"
)

// tail is a small file beside the log that says where the log ends at least, and how often the stable store was written at
// least. bbolt has no checksum on its tree pages, and one on its two meta pages of which it silently takes the older when
// the newer is damaged: either way a flipped bit can make the newest transactions vanish without an error. The marks are
// written, without fsync, after each transaction that raises them, and with fsync before one that lowers them, so that they
// are never ahead of the log, neither after a crash of the process nor of the machine.
//
//	0      4             12            20        24
//	"QTL1" | last index | stable seq  | CRC32C |
type tail struct {
	mu   sync.Mutex
	f    *os.File
	last uint64
	seq  uint64
}

const (
	tailMagic = "QTL1"
	tailLen   = 24
)

// openTail opens or, when create is set, makes the file.
func openTail(path string, create bool) (*tail, error) {
	if create {
		// Made anew: of one that is found the name may be in the cache alone.
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, err
		}
		t := &tail{f: f}
		if err := t.write(true); err != nil {
			f.Close()
			return nil, fmt.Errorf("write %s: %w", path, err)
		}
		return t, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if err != nil {
		if os.IsNotExist(err) {
			return nil, &DamageError{File: path, What: "it is missing"}
		}
		return nil, err
	}
	var b [tailLen + 1]byte
	n, err := f.ReadAt(b[:], 0)
	if n != tailLen || string(b[:4]) != tailMagic || crc32.Checksum(b[:20], castagnoli) != binary.BigEndian.Uint32(b[20:]) {
		f.Close()
		return nil, &DamageError{File: path, What: fmt.Sprintf("its %d bytes are not an end mark", n), Err: nonEOF(err)}
	}
	return &tail{f: f, last: binary.BigEndian.Uint64(b[4:]), seq: binary.BigEndian.Uint64(b[12:])}, nil
}

func (t *tail) setLast(last uint64, sync bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = last
	return t.write(sync)
}

func (t *tail) setSeq(seq uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seq = seq
	return t.write(false)
}

// renew makes the marks durable as they were found: a higher one, which a failed sync has left on the disk, would say after a power cut that
// entries are gone.
func (t *tail) renew() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.write(true)
}

func (t *tail) marks() (last, seq uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last, t.seq
}

func (t *tail) write(sync bool) error {
	var b [tailLen]byte
	copy(b[:], tailMagic)
	binary.BigEndian.PutUint64(b[4:], t.last)
	binary.BigEndian.PutUint64(b[12:], t.seq)
	binary.BigEndian.PutUint32(b[20:], crc32.Checksum(b[:20], castagnoli))
	if _, err := t.f.WriteAt(b[:], 0); err != nil {
		return err
	}
	if sync {
		return t.f.Sync()
	}
	return nil
}

func (t *tail) close() error { return t.f.Close() }

// nonEOF drops the error that only says that a file ended.
func nonEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
