package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"time"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

const (
	// LogFile is the bbolt file with the log and the stable values.
	LogFile = "raft.db"
	// TailFile has the marks beside it (see tail).
	TailFile = "raft.tail"
	// markKey holds who the log belongs to: UUID, incarnation.
	markKey = "quorate/node"
)

// nonEOF drops the error that only says that a file ended.
func nonEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

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

func openBolt(path string) (*raftboltdb.BoltStore, error) {
	var b *raftboltdb.BoltStore
	err := guard(path, func() (err error) {
		b, err = raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &bbolt.Options{
			// Each commit would rewrite the whole free list otherwise, for ever after the first compaction.
			NoFreelistSync: true,
			FreelistType:   bbolt.FreelistMapType,
			Timeout:        time.Second,
		}})
		return err
	})
	var d *DamageError
	switch {
	case err == nil, errors.As(err, &d):
		return b, err
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("open %s: another process has it open", path)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, &DamageError{File: path, What: "bbolt cannot open it", Err: err}
	default:
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
}

// Disk is the pair of durable stores of one group in the data directory.
type Disk struct {
	Log    *Log
	Stable *Stable

	bolt *raftboltdb.BoltStore
	tail *tail
	path string
}

// OpenDisk opens the log of the node that id describes and raises the incarnation in both, so that a log, or an identity,
// that was put back from an older copy is told from the one that belongs here. The log is made when the identity says that
// there is no data yet, or that the node belongs to no cluster. floor and observe are LogOptions'.
func OpenDisk(d *Dir, halt *Halt, o LogOptions) (_ *Disk, err error) {
	id := d.Identity()
	path, tailPath := filepath.Join(d.path, LogFile), filepath.Join(d.path, TailFile)
	// Until a node belongs to a cluster it has neither voted nor stored anything for anybody.
	fresh := !id.HasData || id.Cluster.IsZero()
	if fresh {
		for _, p := range []string{path, tailPath} {
			if err := os.Remove(p); err != nil && !os.IsNotExist(err) {
				return nil, err
			}
		}
	} else if err := checkBolt(path); err != nil {
		return nil, err
	}
	t, err := openTail(tailPath, fresh)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = t.close()
		}
	}()
	b, err := openBolt(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = b.Close()
		}
	}()
	o.File, o.tail = path, t
	disk := &Disk{Log: NewLog(b, halt, o), Stable: NewStable(b, halt, path), bolt: b, tail: t, path: path}
	disk.Stable.tail = t
	if fresh {
		err = disk.Stable.prepare()
	} else {
		err = disk.resume(id)
	}
	if err != nil {
		return nil, err
	}
	if err := disk.Stable.Set([]byte(markKey), mark(id.UUID, id.Incarnation+1)); err != nil {
		return nil, err
	}
	id.Incarnation++
	id.HasData = true
	if err := d.Save(id); err != nil {
		return nil, err
	}
	return disk, nil
}

func mark(id UUID, incarnation uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(nil), id[:]...), incarnation)
}

// resume compares the log with the identity and with the marks.
func (k *Disk) resume(id Identity) error {
	if err := k.Stable.resume(markKey); err != nil {
		return err
	}
	m, _, err := k.Stable.get([]byte(markKey))
	if err != nil {
		return err
	}
	if len(m) != 24 || UUID(m[:16]) != id.UUID {
		return &DamageError{File: k.path, What: fmt.Sprintf("it is the log of another node, identity.json says %s", id.UUID)}
	}
	// A start writes the mark first and the identity second.
	switch n := binary.BigEndian.Uint64(m[16:]); {
	case n < id.Incarnation:
		return &DamageError{File: k.path, What: fmt.Sprintf("it is an older copy: its last start was number %d, identity.json counts %d", n, id.Incarnation)}
	case n > id.Incarnation+1:
		return &DamageError{File: identityFile, What: fmt.Sprintf("it is an older copy: it counts %d starts, %s counts %d", id.Incarnation, k.path, n)}
	}
	last, err := k.Log.LastIndex()
	if err != nil {
		return err
	}
	if want, _ := k.tail.marks(); last < want {
		return &DamageError{File: k.path, Index: last + 1, What: fmt.Sprintf("its entries end at %d, but entry %d was stored: the newest are gone", last, want)}
	}
	return nil
}

// Bytes is the size of the log's file.
func (k *Disk) Bytes() int64 {
	st, err := os.Stat(k.path)
	if err != nil {
		return 0
	}
	return st.Size()
}

// Close closes the files. Nothing may be called on the stores afterwards.
func (k *Disk) Close() error {
	err := guard(k.path, k.bolt.Close)
	return errors.Join(err, k.tail.close())
}
