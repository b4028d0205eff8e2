package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/hashicorp/raft"
)

// Stable is a raft.StableStore whose values carry a checksum and a running number. Term and vote live here: a value that
// has gone back or away could make a node vote twice in a term.
//
//	0         1          9                  13
//	version | sequence | CRC32C(key, rest) | value
type Stable struct {
	inner raft.StableStore
	halt  *Halt
	file  string
	tail  *tail

	mu    sync.Mutex
	seq   uint64
	fixed map[string]bool // keys that were written when the store was made: "not found" is damage
}

const (
	stableVersion = 1
	stableHead    = 13
)

// raftKeys are the keys that raft v1.8.0 keeps in its stable store, and whether they are numbers.
var raftKeys = map[string]bool{termKey: true, "LastVoteTerm": true, "LastVoteCand": false}

// errNotFound has the text that raft looks for.
var errNotFound = errors.New("not found")

// NewStable wraps inner, which may hold values of an earlier run. File is the name in errors.
func NewStable(inner raft.StableStore, halt *Halt, file string) *Stable {
	return &Stable{inner: inner, halt: halt, file: file, fixed: map[string]bool{}}
}

func (s *Stable) do(f func() error) error { return s.halt.do(s.file, f) }

func stableSum(key, head, val []byte) uint32 {
	c := crc32.Checksum(key, castagnoli)
	c = crc32.Update(c, castagnoli, head)
	return crc32.Update(c, castagnoli, val)
}

// Set implements raft.StableStore.
func (s *Stable) Set(key, val []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := make([]byte, stableHead+len(val))
	rec[0] = stableVersion
	binary.BigEndian.PutUint64(rec[1:], s.seq+1)
	copy(rec[stableHead:], val)
	binary.BigEndian.PutUint32(rec[9:], stableSum(key, rec[:9], val))
	err := s.do(func() error { return s.inner.Set(key, rec) })
	if err == nil && s.tail != nil {
		err = s.tail.setSeq(s.seq + 1)
	}
	if errors.Is(err, ErrReleased) {
		return err
	}
	if err != nil {
		return s.halt.trip(fmt.Errorf("write %q to %s: %w", key, s.file, err))
	}
	s.seq++
	return nil
}

// get is Get without the halt: it returns the value and its number.
func (s *Stable) get(key []byte) (val []byte, seq uint64, err error) {
	var rec []byte
	if err := s.do(func() (err error) { rec, err = s.inner.Get(key); return err }); err != nil && err.Error() != errNotFound.Error() {
		return nil, 0, err
	}
	if len(rec) == 0 {
		if s.fixed[string(key)] {
			return nil, 0, &DamageError{File: s.file, What: fmt.Sprintf("stable value %q is missing", key)}
		}
		return nil, 0, errNotFound
	}
	if len(rec) < stableHead || rec[0] != stableVersion {
		return nil, 0, &DamageError{File: s.file, What: fmt.Sprintf("stable value %q has no envelope of version %d", key, stableVersion)}
	}
	val = rec[stableHead:]
	if want, got := binary.BigEndian.Uint32(rec[9:]), stableSum(key, rec[:9], val); want != got {
		return nil, 0, &DamageError{File: s.file, What: fmt.Sprintf("stable value %q: checksum is %08x, its bytes give %08x", key, want, got)}
	}
	return val, binary.BigEndian.Uint64(rec[1:]), nil
}

// Get implements raft.StableStore. An unknown key gives an error with the text "not found", as raft expects.
func (s *Stable) Get(key []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	val, _, err := s.get(key)
	switch {
	case err == nil, errors.Is(err, errNotFound), errors.Is(err, ErrReleased):
		return val, err
	default:
		return nil, s.halt.trip(fmt.Errorf("read stable value %q: %w", key, err))
	}
}

// termKey is raft's key of the term that a node is in.
const termKey = "CurrentTerm"

// SetUint64 implements raft.StableStore. The term has no error to give after Release, since raft would end the process with a panic over
// it, in the middle of being stopped. A term that is on no disk is no promise: the votes and entries of that term are, and they fail.
func (s *Stable) SetUint64(key []byte, v uint64) error {
	err := s.Set(key, binary.BigEndian.AppendUint64(nil, v))
	if string(key) == termKey && errors.Is(err, ErrReleased) {
		return nil
	}
	return err
}

// GetUint64 implements raft.StableStore.
func (s *Stable) GetUint64(key []byte) (uint64, error) {
	b, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	if len(b) != 8 {
		return 0, s.halt.trip(&DamageError{File: s.file, What: fmt.Sprintf("stable value %q has %d bytes, want 8", key, len(b))})
	}
	return binary.BigEndian.Uint64(b), nil
}

// prepare writes raft's keys with the values that raft takes for their absence, so that from now on absence is damage.
func (s *Stable) prepare() error {
	for key, number := range raftKeys {
		val := []byte{}
		if number {
			val = make([]byte, 8)
		}
		if err := s.Set([]byte(key), val); err != nil {
			return err
		}
		s.fixed[key] = true
	}
	return nil
}

// resume reads what prepare and later calls have written, and checks that the newest of it is still there.
func (s *Stable) resume(keys ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range raftKeys {
		keys = append(keys, key)
	}
	for _, key := range keys {
		s.fixed[key] = true
		_, seq, err := s.get([]byte(key))
		if err != nil {
			return err
		}
		s.seq = max(s.seq, seq)
	}
	if s.tail != nil {
		if _, want := s.tail.marks(); s.seq < want {
			return &DamageError{File: s.file, What: fmt.Sprintf("its newest stable value is number %d, but number %d was written: newer ones are gone", s.seq, want)}
		}
	}
	return nil
}
