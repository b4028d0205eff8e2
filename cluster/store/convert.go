//go:build !wasip1

package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/raft"
)

// Conversion says what a conversion has done.
type Conversion struct {
	From, To Kind   // equal: there was nothing to convert
	First    uint64 // index of the first entry that was copied, 0: there are none
	Last     uint64
	Bytes    int64  // of the entries' data
	Sum      uint32 // CRC32C over the entries and the stable values, as they were read back
	Removed  string // file or folder of the old log, which is gone
}

// convertBatch is how many bytes of entries are copied in one transaction.
const convertBatch = 4 << 20

// Convert makes the log of a stopped node, with its stable values, one of another kind.
//
// The new log is made beside the old one under another name and read back whole before it gets its own; then the identity
// names it, in one durable step, and the old one is removed. Until that step the node has the old log, and from it on the
// new one, whenever the process ends: what is left of the other is removed by the next start or conversion. step hears what is
// done next; nil: nobody.
func Convert(dir string, to Kind, step func(what string)) (c Conversion, err error) {
	if step == nil {
		step = func(string) {}
	}
	if k, err := ParseKind(string(to)); err != nil || k == "" {
		return c, fmt.Errorf("convert to what? %q is no log store, want %q or %q", to, Bolt, WAL)
	}
	id, err := readIdentity(filepath.Join(dir, identityFile))
	if errors.Is(err, os.ErrNotExist) {
		return c, fmt.Errorf("%s is no data directory: it has no %s", dir, identityFile)
	}
	if err != nil {
		return c, err
	}
	d, err := OpenDir(dir, id.Label)
	if errors.Is(err, ErrInUse) {
		return c, fmt.Errorf("data directory %s is %w: stop node %s first", dir, ErrInUse, id.Label)
	}
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	id = d.Identity()
	c = Conversion{From: id.Kind(), To: to}
	if id.empty() {
		return c, fmt.Errorf("node %s in %s belongs to no cluster yet and has nothing to convert: start it with raft.log_store = %q", id.Label, dir, to)
	}
	t, err := openTail(filepath.Join(dir, TailFile), false)
	if err != nil {
		return c, err
	}
	last, _ := t.marks()
	if err := t.close(); err != nil {
		return c, err
	}
	if c.From == to {
		if err := to.check(to.path(dir), id.UUID, last); err != nil {
			return c, err
		}
		step("remove what an earlier conversion has left")
		return c, errors.Join(removeOthers(dir, to), syncDir(dir))
	}
	temp := to.path(dir) + convertSuffix
	if err := errors.Join(to.remove(dir), os.RemoveAll(temp)); err != nil {
		return c, fmt.Errorf("remove what an earlier conversion has left: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(temp)
		}
	}()
	step("copy")
	sums, err := copyLog(d, temp, &c)
	if err != nil {
		return c, err
	}
	step("read back")
	if err := readBack(temp, id.UUID, sums, c); err != nil {
		return c, err
	}
	step("give it its name")
	if err := changeDir(dir, func() error { return os.Rename(temp, to.path(dir)) }); err != nil {
		return c, err
	}
	step("have the identity name it")
	id.setKind(to)
	if err := d.Save(id); err != nil {
		return c, err
	}
	c.Removed = c.From.path(dir)
	step("remove the old log")
	return c, errors.Join(removeOthers(dir, to), syncDir(dir))
}

// logSums is what a log holds, in brief.
type logSums struct {
	first, last uint64
	bytes       int64
	sum         uint32
}

func (s *logSums) entry(l *raft.Log) {
	if s.first == 0 {
		s.first = l.Index
	}
	s.last = l.Index
	s.bytes += int64(len(l.Data))
	var at int64
	if !l.AppendedAt.IsZero() {
		at = l.AppendedAt.UnixNano()
	}
	b := binary.BigEndian.AppendUint64(nil, l.Index)
	b = binary.BigEndian.AppendUint64(b, l.Term)
	b = append(b, byte(l.Type))
	b = binary.BigEndian.AppendUint64(b, uint64(at))
	b = append(b, l.Extensions...)
	s.sum = crc32.Update(crc32.Update(s.sum, castagnoli, b), castagnoli, l.Data)
}

// stableKeys are the values that a log of a member always has.
func stableKeys() []string {
	return append(slices.Sorted(maps.Keys(raftKeys)), markKey)
}

func (s *logSums) value(key string, val []byte) {
	s.sum = crc32.Update(crc32.Update(s.sum, castagnoli, []byte(key)), castagnoli, val)
}

// copyLog makes a log of kind c.To at path from the one that the directory has.
func copyLog(d *Dir, path string, c *Conversion) (sums logSums, err error) {
	// Failures come back: there is no process to end that might go on with what it has.
	halt := NewHalt(func(error) {})
	halt.Release()
	defer func() { err = plain(err) }()
	snaps, err := OpenSnapshots(d, halt)
	if err != nil {
		return sums, err
	}
	id := d.Identity()
	t, err := openTail(filepath.Join(d.path, TailFile), false)
	if err != nil {
		return sums, err
	}
	marked, _ := t.marks()
	e, err := c.From.open(c.From.path(d.path), id.UUID, 0, marked)
	if err != nil {
		return sums, errors.Join(err, t.close())
	}
	from := newDisk(e, c.From, c.From.path(d.path), t, halt, LogOptions{Floor: snaps.Newest})
	defer func() { err = errors.Join(err, from.Close()) }()
	if err := from.resume(id); err != nil {
		return sums, err
	}
	to, err := c.To.create(path, id.UUID, 0)
	if err != nil {
		return sums, err
	}
	defer func() { err = errors.Join(err, guard(path, to.Close)) }()
	first, err := gapless(from.Log)
	if err != nil {
		return sums, err
	}
	last, err := from.Log.LastIndex()
	if err != nil {
		return sums, err
	}
	var batch []*raft.Log
	var size int
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := guard(path, func() error { return to.StoreLogs(batch) })
		batch, size = batch[:0], 0
		return err
	}
	for i := first; i <= last && last > 0; i++ {
		l := new(raft.Log)
		if err := from.Log.GetLog(i, l); err != nil {
			return sums, err
		}
		sums.entry(l)
		batch = append(batch, l)
		if size += len(l.Data); size >= convertBatch || len(batch) == 4096 {
			if err := flush(); err != nil {
				return sums, err
			}
		}
	}
	if err := flush(); err != nil {
		return sums, err
	}
	for _, key := range stableKeys() {
		val, err := e.Get([]byte(key)) // with its envelope, which resume has checked
		if err != nil {
			return sums, fmt.Errorf("read stable value %q: %w", key, err)
		}
		sums.value(key, val)
		if err := guard(path, func() error { return to.Set([]byte(key), val) }); err != nil {
			return sums, err
		}
	}
	c.First, c.Last, c.Bytes, c.Sum = sums.first, sums.last, sums.bytes, sums.sum
	return sums, nil
}

// gapless is the first index from which on no entry is missing. A bbolt log may have a gap below the newest snapshot, which no
// reader goes beyond.
func gapless(l *Log) (uint64, error) {
	first, err := l.FirstIndex()
	if err != nil {
		return 0, err
	}
	i, err := l.LastIndex()
	if err != nil {
		return 0, err
	}
	for ; i > first; i-- {
		var e raft.Log
		switch err := l.GetLog(i-1, &e); {
		case errors.Is(err, raft.ErrLogNotFound):
			return i, nil
		case err != nil:
			return 0, err
		}
	}
	return first, nil
}

// readBack compares a new log with what was copied to it. It is opened as a node opens it.
func readBack(path string, id UUID, want logSums, c Conversion) (err error) {
	e, err := c.To.open(path, id, 0, want.last)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, guard(path, e.Close)) }()
	first, err1 := e.FirstIndex()
	last, err2 := e.LastIndex()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	var got logSums
	for i := first; i <= last && last > 0; i++ {
		var l raft.Log
		if err := guard(path, func() error { return e.GetLog(i, &l) }); err != nil {
			return fmt.Errorf("read entry %d back from %s: %w", i, path, err)
		}
		if err := Verify(&l); err != nil || l.Index != i {
			return &DamageError{File: path, Index: i, What: fmt.Sprintf("entry %d was read back", l.Index), Err: err}
		}
		got.entry(&l)
	}
	for _, key := range stableKeys() {
		val, err := e.Get([]byte(key))
		if err != nil {
			return fmt.Errorf("read stable value %q back: %w", key, err)
		}
		got.value(key, bytes.Clone(val))
	}
	if got != want {
		return fmt.Errorf("%s was read back as %+v, %+v was copied to it: the old log stays", path, got, want)
	}
	return nil
}

// plain takes the words of a released halt away.
func plain(err error) error {
	var d *DamageError
	if errors.As(err, &d) {
		return d
	}
	return err
}
