package store

import (
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// Kind is the sort of log store that a data directory has.
type Kind string

const (
	// Bolt keeps entries and stable values in one bbolt file, raft.db.
	Bolt Kind = "bolt"
	// WAL keeps entries in segment files that are only appended to, and stable values beside them, in the folder raft.wal.
	WAL Kind = "wal"
)

// Kinds are all there are, the default first.
var Kinds = []Kind{WAL, Bolt}

// DefaultKind is what a data directory gets that has no log yet.
var DefaultKind = Kinds[0]

// ParseKind reads a kind's name; "" is no choice: what is there, or the default.
func ParseKind(s string) (Kind, error) {
	switch k := Kind(s); k {
	case "", Bolt, WAL:
		return k, nil
	}
	return "", fmt.Errorf("%q is no log store, want %q or %q", s, Bolt, WAL)
}

// engine is what a Log and a Stable stand on: it stores durably and gives back, and is trusted with nothing else. Its
// calls may come from several goroutines.
type engine interface {
	raft.LogStore
	raft.StableStore
	io.Closer

	// size is what the engine takes on disk, in bytes.
	size() int64
	// sweep removes files that are no part of the log: after a start has found that it is whole and the right one.
	sweep() error
	// fileOf is the file that has, or had, an entry.
	fileOf(index uint64) string
}
