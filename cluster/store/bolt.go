//go:build !wasip1

package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"time"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/quorate/quorate/fsm/mutant"
)

// LogFile is the bbolt file of a log of kind Bolt.
const LogFile = "raft.db"

// checkBolt reads a bbolt file before bbolt does: its pages (see boltTree), and first the two meta pages, because bbolt takes the older one without a word
// when the newer is damaged, and with it forgets its last transaction. Each meta lies in one sector, so that a write that
// was torn by a crash leaves both whole: one that is not whole is damage.
//
//	page: id 8 | flags 2 | count 2 | overflow 4 | meta
//	meta: magic 4 | version 4 | page size 4 | flags 4 | root 8+8 | freelist 8 | high-water page 8 | txid 8 | FNV-1a of all before
func checkBolt(path string) error {
	f, err := os.Open(path)
	if err != nil {
		if os.IsNotExist(err) {
			return &DamageError{File: path, What: "it is missing, though this node has data"}
		}
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	const metaLen = 16 + 64
	pageSize := int64(os.Getpagesize())
	var txid, root, high [2]uint64
	for i := range txid {
		var b [metaLen]byte
		n, err := f.ReadAt(b[:], int64(i)*pageSize)
		if n < metaLen {
			return &DamageError{File: path, What: fmt.Sprintf("it is cut short at %d bytes, though this node has data", st.Size()), Err: nonEOF(err)}
		}
		m := b[16:]
		h := fnv.New64a()
		h.Write(m[:56])
		le := binary.NativeEndian
		switch {
		case le.Uint32(m) != 0xED0CDAED:
			return &DamageError{File: path, What: fmt.Sprintf("meta page %d has no bbolt magic", i)}
		case le.Uint64(m[56:]) != h.Sum64():
			return &DamageError{File: path, What: fmt.Sprintf("meta page %d fails its checksum", i)}
		case le.Uint64(b[:]) != uint64(i), le.Uint16(b[8:])&0x04 == 0:
			return &DamageError{File: path, What: fmt.Sprintf("page %d is not a meta page", i)}
		case int64(le.Uint32(m[8:])) != pageSize:
			return fmt.Errorf("%s was written with pages of %d bytes, this machine has %d: move it to a machine like the old one, or wipe the node and let it join again", path, le.Uint32(m[8:]), pageSize)
		}
		root[i], high[i], txid[i] = le.Uint64(m[16:]), le.Uint64(m[40:]), le.Uint64(m[48:])
		if st.Size()/pageSize < int64(high[i]) {
			return &DamageError{File: path, What: fmt.Sprintf("it is cut short: %d bytes, at least %d were written", st.Size(), int64(high[i])*pageSize)}
		}
	}
	if d := int64(txid[0] - txid[1]); d != 1 && d != -1 {
		return &DamageError{File: path, What: fmt.Sprintf("its meta pages are of transactions %d and %d, which do not follow each other", txid[0], txid[1])}
	}
	newest := 0
	if txid[1] > txid[0] {
		newest = 1
	}
	t := newBoltTree(f, pageSize, high[newest])
	if err := t.check(root[newest], true); err != nil {
		return &DamageError{File: path, What: "its pages do not fit together", Err: err}
	}
	if !t.buckets["logs"] || !t.buckets["conf"] {
		return &DamageError{File: path, What: "it is no log: it has no entries and values"}
	}
	return nil
}

// renewBolt writes a bbolt file's meta pages once more and syncs it. The rest of what a meta page leads to was synced before the page was
// written, and what it does not lead to is written before it is used.
func renewBolt(path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := (renewer{f}).ReadAt(make([]byte, 2*os.Getpagesize()), 0); nonEOF(err) != nil {
		return fmt.Errorf("write the meta pages of %s once more: %w", path, err)
	}
	return f.Sync()
}

// boltStore is an engine on raft-boltdb.
type boltStore struct {
	*raftboltdb.BoltStore
	path  string
	pages boltPages
}

// size implements engine. The file never shrinks.
func (b *boltStore) size() int64 {
	st, err := os.Stat(b.path)
	if err != nil {
		return 0
	}
	return st.Size()
}

// fileOf implements engine.
func (b *boltStore) fileOf(uint64) string { return b.path }

// sweep implements engine: there is but one file.
func (b *boltStore) sweep() error { return nil }

func openBolt(path string) (*boltStore, error) {
	var b *raftboltdb.BoltStore
	err := guard(path, func() (err error) {
		b, err = raftboltdb.New(raftboltdb.Options{Path: path, NoSync: mutant.NoSync, BoltOptions: &bbolt.Options{
			// Each commit would rewrite the whole free list otherwise, for ever after the first compaction.
			NoFreelistSync: true,
			FreelistType:   bbolt.FreelistMapType,
			Timeout:        time.Second,
		}})
		return err
	})
	var d *DamageError
	switch {
	case err == nil:
		return &boltStore{BoltStore: b, path: path, pages: boltPages{db: boltDB(b)}}, nil
	case errors.As(err, &d):
		return nil, err
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("open %s: another process has it open", path)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, &DamageError{File: path, What: "bbolt cannot open it", Err: err}
	default:
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
}
