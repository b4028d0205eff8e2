//go:build !wasip1

package store

import (
	"reflect"
	"sync/atomic"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// boltTouched is how many bytes of a bbolt file are read or written, at most, before its pages are let go.
const boltTouched = 32 << 20

// boltPages keeps the pages of a bbolt file that were looked at from counting as this process's memory for ever. bbolt maps the
// file, and what was once read through the map stays resident: after some hours all of a file that never shrinks. Letting go of the pages
// leaves them in the system's cache, from where the few that are needed again come back at once.
type boltPages struct {
	db      *bbolt.DB // nil: nothing is let go
	touched atomic.Int64
}

// boltDB is the bbolt database in a raft-boltdb store, which has no way to ask for it. nil: a release that keeps it elsewhere.
func boltDB(b *raftboltdb.BoltStore) *bbolt.DB {
	if f := reflect.ValueOf(b).Elem().FieldByName("conn"); f.IsValid() && f.Type() == reflect.TypeFor[*bbolt.DB]() {
		return (*bbolt.DB)(f.UnsafePointer())
	}
	return nil
}

// touch counts n bytes.
func (p *boltPages) touch(n int) {
	if p.touched.Add(int64(n)) >= boltTouched && p.db != nil {
		p.touched.Store(0)
		// The map does not move while a transaction is open. An error means that the store is being closed.
		_ = p.db.View(func(tx *bbolt.Tx) error {
			forgetPages(p.db.Info().Data, tx.Size())
			return nil
		})
	}
}

// GetLog implements engine.
func (b *boltStore) GetLog(index uint64, out *raft.Log) error {
	err := b.BoltStore.GetLog(index, out)
	b.pages.touch(len(out.Data))
	return err
}

// StoreLog implements engine.
func (b *boltStore) StoreLog(l *raft.Log) error { return b.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements engine.
func (b *boltStore) StoreLogs(logs []*raft.Log) error {
	err := b.BoltStore.StoreLogs(logs)
	n := 0
	for _, l := range logs {
		n += len(l.Data)
	}
	b.pages.touch(n)
	return err
}

// DeleteRange implements engine. How large the entries are is not known: they may be as large as they get when they are packed.
func (b *boltStore) DeleteRange(from, to uint64) error {
	err := b.BoltStore.DeleteRange(from, to)
	b.pages.touch(int(min(to-from+1, boltTouched>>16)) << 16)
	return err
}
