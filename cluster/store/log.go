package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/fsm/mutant"
)

// castagnoli is the CRC32C table, which the processor computes at memory speed.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	// sumVersion is the first byte of an entry's envelope.
	sumVersion = 1
	// sumLen is the envelope's length: version byte, CRC32C big-endian.
	sumLen = 5
	// pruneSlice is how many indexes one transaction of a compaction of a bbolt file deletes. At 64 KiB an entry that is about 5 ms of
	// bbolt's only writer, far below the shortest election time-out; a whole compaction in one piece takes half a second.
	pruneSlice = 128
)

// Log is a raft.LogStore that trusts nothing below it. Every entry carries a CRC32C over index, term, type and data in
// raft.Log.Extensions, put there when it is first stored and travelling with it to the followers; it is checked whenever an
// entry is stored or read. Damage, and any failed write, trips the Halt and the call does not return.
//
// Methods may be called from several goroutines, as raft does.
type Log struct {
	inner  raft.LogStore
	halt   *Halt
	file   string
	tail   *tail                       // nil in memory
	floor  func() (index, term uint64) // of the newest snapshot's last entry: below it the log may have gaps
	seen   func(entries, bytes int, took time.Duration)
	slice  uint64                    // indexes that one transaction of a compaction deletes
	fileOf func(index uint64) string // for errors

	// truncating guards the tail against a store and a truncation that cross; raft makes both on one goroutine, so it is
	// never waited for.
	truncating sync.Mutex
}

// LogOptions are what a Log needs beside the store it wraps.
type LogOptions struct {
	File     string                                       // name in errors
	Floor    func() (index, term uint64)                  // the last entry that the newest snapshot has; nil: 0
	Observer func(entries, bytes int, took time.Duration) // after each successful StoreLogs; nil: none
	Kind     Kind                                         // OpenDisk: the sort of store; "": what is there, or the default

	tail    *tail
	slice   uint64 // indexes that one transaction of a compaction deletes, 0: pruneSlice
	segment uint64 // WAL: bytes of a segment, 0: walSegmentBytes()
}

// NewLog wraps inner.
func NewLog(inner raft.LogStore, halt *Halt, o LogOptions) *Log {
	if o.Floor == nil {
		o.Floor = func() (index, term uint64) { return 0, 0 }
	}
	if o.slice == 0 {
		o.slice = pruneSlice
	}
	file := o.File
	return &Log{
		inner: inner, halt: halt, file: file, tail: o.tail, floor: o.Floor, seen: o.Observer, slice: o.slice,
		fileOf: func(uint64) string { return file },
	}
}

// sum is the checksum of an entry.
func sum(l *raft.Log) uint32 {
	var head [17]byte
	binary.BigEndian.PutUint64(head[0:], l.Index)
	binary.BigEndian.PutUint64(head[8:], l.Term)
	head[16] = byte(l.Type)
	return crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, l.Data)
}

// Verify checks the envelope of an entry that comes from anywhere but a Log, for instance a cache above it.
func Verify(l *raft.Log) error {
	switch {
	case len(l.Extensions) != sumLen:
		return fmt.Errorf("checksum of %d bytes, want %d", len(l.Extensions), sumLen)
	case l.Extensions[0] != sumVersion:
		return fmt.Errorf("checksum version %d, this build knows %d", l.Extensions[0], sumVersion)
	}
	if want, got := binary.BigEndian.Uint32(l.Extensions[1:]), sum(l); want != got {
		return fmt.Errorf("checksum is %08x, its bytes give %08x", want, got)
	}
	return nil
}

func (s *Log) do(f func() error) error { return s.halt.do(s.file, f) }

// fail trips the halt with what was being done.
func (s *Log) fail(what string, err error) error {
	var d *DamageError
	if !errors.As(err, &d) {
		err = fmt.Errorf("%s %s: %w", what, s.file, err)
	}
	return s.halt.trip(err)
}

// FirstIndex implements raft.LogStore.
func (s *Log) FirstIndex() (i uint64, err error) {
	if err = s.do(func() error { i, err = s.inner.FirstIndex(); return err }); err != nil {
		return 0, s.fail("read the first index of", err)
	}
	return i, nil
}

// LastIndex implements raft.LogStore.
func (s *Log) LastIndex() (i uint64, err error) {
	if err = s.do(func() error { i, err = s.inner.LastIndex(); return err }); err != nil {
		return 0, s.fail("read the last index of", err)
	}
	return i, nil
}

// GetLog implements raft.LogStore. An entry that is missing between the newest snapshot and the log's end is damage, not
// raft.ErrLogNotFound. After Release it reads: raft, which applies what it has learned to be committed until it is told to stop,
// would end the process with a panic over an error, and a read promises nothing.
func (s *Log) GetLog(index uint64, out *raft.Log) error {
	s.halt.wait()
	err := guard(s.file, func() error { return s.inner.GetLog(index, out) })
	if errors.Is(err, raft.ErrLogNotFound) {
		return s.missing(index, out)
	}
	if err != nil {
		return s.fail("", &DamageError{File: s.fileOf(index), Index: index, What: "entry cannot be read", Err: err})
	}
	return s.check(index, out)
}

func (s *Log) check(index uint64, out *raft.Log) error {
	if out.Index != index {
		return s.fail("", &DamageError{File: s.fileOf(index), Index: index, What: fmt.Sprintf("entry says it is %d", out.Index)})
	}
	if err := Verify(out); err != nil {
		return s.fail("", &DamageError{File: s.fileOf(index), Index: index, What: err.Error()})
	}
	return nil
}

func (s *Log) missing(index uint64, out *raft.Log) error {
	last, err := s.LastIndex()
	if err != nil {
		return err
	}
	if floor, _ := s.floor(); index <= floor || index > last {
		return raft.ErrLogNotFound
	}
	// The log may have been truncated and written again between the two looks.
	err = s.do(func() error { return s.inner.GetLog(index, out) })
	switch floor, _ := s.floor(); {
	case err == nil:
		return s.check(index, out)
	case errors.Is(err, raft.ErrLogNotFound) && index > floor:
		return s.fail("", &DamageError{File: s.file, Index: index, What: fmt.Sprintf("entry is missing, the log ends at %d and the newest snapshot at %d", last, floor)})
	default:
		return err
	}
}

// StoreLog implements raft.LogStore.
func (s *Log) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// Seal gives checksums to entries that have none, which are the leader's own new ones, and says whether none of them had one.
// It is for who sends entries to followers before StoreLogs has returned.
func (s *Log) Seal(logs []*raft.Log) (own bool) {
	fresh := 0
	for _, l := range logs {
		if len(l.Extensions) == 0 {
			fresh++
		}
	}
	if fresh == 0 {
		return false
	}
	sums := make([]byte, fresh*sumLen)
	for _, l := range logs {
		if len(l.Extensions) == 0 {
			e := sums[:sumLen:sumLen]
			sums = sums[sumLen:]
			e[0] = sumVersion
			binary.BigEndian.PutUint32(e[1:], sum(l))
			l.Extensions = e
		}
	}
	return fresh == len(logs)
}

// StoreLogs implements raft.LogStore. It seals entries that are not.
func (s *Log) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	if !s.Seal(logs) && !mutant.FollowerSkipsChecksum {
		for _, l := range logs {
			if err := Verify(l); err != nil {
				return s.fail("", &DamageError{File: "an entry on its way to " + s.file, Index: l.Index, What: err.Error(), Cure: cureWay})
			}
		}
	}
	bytes := 0
	for _, l := range logs {
		bytes += len(l.Data)
	}
	start := time.Now()
	s.truncating.Lock()
	defer s.truncating.Unlock()
	if err := s.do(func() error { return s.inner.StoreLogs(logs) }); err != nil {
		return s.fail("write entries to", err)
	}
	if s.tail != nil {
		if err := s.tail.setLast(logs[len(logs)-1].Index, false); err != nil {
			return s.fail("write the end mark of", err)
		}
	}
	if s.seen != nil {
		s.seen(len(logs), bytes, time.Since(start))
	}
	return nil
}

// Settle has a log agree with the newest snapshot, before raft has either. An install gives the snapshot its name, restores the state and
// drops the log whole; where the process ended in between, what the log has may be of a leader that was replaced. Raft would look at the terms of
// what it has not applied alone, and nobody sends what is in the snapshot again: such entries would stay in its way for good, or go to
// others as what was committed. A log that has the snapshot's last entry, or begins behind it, is the one that the snapshot was made of.
func (s *Log) Settle() error {
	first, err := s.FirstIndex()
	if err != nil {
		return err
	}
	last, err := s.LastIndex()
	if err != nil {
		return err
	}
	floor, term := s.floor()
	if last == 0 || first > floor {
		return nil
	}
	var l raft.Log
	switch err := s.GetLog(floor, &l); {
	case err == nil && l.Term == term:
		return nil
	case err == nil: // whatever follows it is not what was committed either
		return s.DeleteRange(first, last)
	case errors.Is(err, raft.ErrLogNotFound): // what follows a gap was stored behind the snapshot
		return s.DeleteRange(first, min(floor, last))
	default:
		return err
	}
}

// DeleteRange implements raft.LogStore. A range that reaches the log's end goes in one transaction, since a crash half-way
// would leave a hole; any other (a compaction) goes in small ascending pieces between which StoreLogs gets its turn.
func (s *Log) DeleteRange(from, to uint64) error {
	last, err := s.LastIndex()
	if err != nil {
		return err
	}
	if to >= last {
		return s.truncate(from, to)
	}
	for from <= to {
		end := min(from+s.slice-1, to)
		if err := s.do(func() error { return s.inner.DeleteRange(from, end) }); err != nil {
			return s.fail("delete old entries of", err)
		}
		if end == to {
			return nil
		}
		// Past a snapshot that was installed there may be a gap of millions: go on with what there is.
		first, err := s.FirstIndex()
		if err != nil {
			return err
		}
		from = max(end+1, min(first, to+1))
	}
	return nil
}

func (s *Log) truncate(from, to uint64) error {
	s.truncating.Lock()
	defer s.truncating.Unlock()
	return s.cut(from, to)
}

// cut is truncate with truncating held.
func (s *Log) cut(from, to uint64) error {
	if s.tail != nil {
		keep := uint64(0)
		if from > 1 {
			var l raft.Log
			if err := s.do(func() error { return s.inner.GetLog(from-1, &l) }); err == nil {
				keep = from - 1
			} else if !errors.Is(err, raft.ErrLogNotFound) {
				return s.fail("read", err)
			}
		}
		if err := s.tail.setLast(keep, true); err != nil {
			return s.fail("write the end mark of", err)
		}
	}
	if err := s.do(func() error { return s.inner.DeleteRange(from, to) }); err != nil {
		return s.fail("truncate", err)
	}
	return nil
}

// IsMonotonic implements raft.MonotonicLogStore: raft is to drop the log whole when it has installed a snapshot. Of a store that can have gaps
// it would drop the old part by what it takes for the log's end, and keep entries of a leader that was replaced, below the snapshot: as a leader
// it might send them as what was committed (hashicorp/raft#697).
func (s *Log) IsMonotonic() bool { return true }
