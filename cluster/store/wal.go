//go:build !wasip1

package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
	"golang.org/x/sys/unix"
)

const (
	// WALDir is the folder of a log of kind WAL.
	WALDir = "raft.wal"
	// segmentBytes is about how large a segment's file becomes. It is taken from the disk when the segment is begun, and
	// given back when all its entries are compacted away: a smaller one is given back sooner, and begun more often.
	segmentBytes = 64 << 20
	// walAppendBytes bounds what is encoded and written at once; one entry may be larger.
	walAppendBytes = 8 << 20
	// walEntryMost is the largest entry that a segment takes.
	walEntryMost = segment.MaxEntrySize
)

// walStore is an engine on segments as raft-wal (v0.4.2) writes them: an append is one write and one sync, and compaction
// drops whole files. raft-wal's own reading, recovery and list of segments are not used, because they believe what they
// find (see walFrames), its metadata have no checksum, and a failed change of segments is only logged.
//
//	raft.wal/meta      which segments there are, stable values
//	raft.wal/ID.wal    entries
//
// Entries have no gaps. A store without entries takes any index first.
//
// The list names a segment ahead, which is made when the newest is half full: an append that finds the newest full goes on in
// the next one at once, since waiting for the list's syncs held up every message when a snapshot was being written beside. So
// the newest segment may be in the list as the next one only; what it holds begins where the one before ends.
//
// Locks are taken in the order write, metaMu, mu.
type walStore struct {
	dir   string
	codec uint64 // in each segment's head: whose it is
	limit uint64 // bytes of a segment
	filer *segment.Filer
	fatal func(error) // told of a failure beside the calls, may not return; nil: the next call tells

	write  sync.Mutex    // held by whoever appends or truncates: one at a time
	buf    []byte        // guarded by write: entries being encoded
	nextID uint64        // guarded by write: of the segment that is made next
	making chan struct{} // guarded by write: closed when the segment ahead is made, or has failed; nil: none is under way

	// metaMu guards meta and its file. Every change of which segments there are is made under it, but going on in the segment
	// ahead.
	metaMu sync.Mutex
	meta   walMeta

	// mu guards what follows, and the Min, Max and Index of segments. It is held for reading while an entry is read, so that a
	// segment is closed only when nobody reads it.
	mu          sync.RWMutex
	segments    []*walSegment
	spare       uint64        // id of the segment ahead, 0: there is none
	spareErr    error         // why there is none: nothing more is stored then
	closed      bool          // nothing more is stored, nor read
	first, last atomic.Uint64 // indexes; 0: there are no entries
}

// walSegment is an open segment.
type walSegment struct {
	walSegmentInfo
	f       *os.File            // for reading
	tail    types.SegmentWriter // nil: sealed when it was opened
	offsets []uint32            // of the frames of entries from Base on, where tail is nil
	used    uint64              // guarded by write: bytes of entries, where tail is not nil
}

// walOffsets is what raft-wal's writer knows of its entries.
type walOffsets interface {
	OffsetForFrame(index uint64) (uint32, error)
}

func (s *walSegment) offset(index uint64) (uint32, error) {
	if s.tail != nil {
		return s.tail.(walOffsets).OffsetForFrame(index)
	}
	return s.offsets[index-s.Base], nil
}

func (s *walSegment) close() (err error) {
	if s.f != nil {
		err = s.f.Close()
	}
	if s.tail != nil {
		err = errors.Join(err, s.tail.Close())
	}
	return err
}

// walCodec marks the segments of a node, so that one of another node is told from its own.
func walCodec(id UUID) uint64 {
	h := fnv.New64a()
	h.Write(id[:])
	h.Write([]byte{1}) // version of an entry's encoding
	return h.Sum64() | 1<<63
}

func newWALStore(dir string, id UUID, limit uint64) *walStore {
	if limit == 0 {
		limit = walSegmentBytes()
	}
	return &walStore{dir: dir, codec: walCodec(id), limit: limit, filer: segment.NewFiler(dir, walFiles{}), nextID: 1, meta: walMeta{Node: id, NextID: 1, Stable: map[string][]byte{}}}
}

// createWAL makes an empty store in a new folder.
func createWAL(dir string, id UUID, limit uint64) (*walStore, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	w := newWALStore(dir, id, limit)
	if err := w.meta.write(dir); err != nil {
		return nil, err
	}
	return w, syncDir(filepath.Dir(dir))
}

// FirstIndex implements raft.LogStore.
func (w *walStore) FirstIndex() (uint64, error) { return w.first.Load(), nil }

// LastIndex implements raft.LogStore.
func (w *walStore) LastIndex() (uint64, error) { return w.last.Load(), nil }

// IsMonotonic implements raft.MonotonicLogStore: there can be no gap.
func (w *walStore) IsMonotonic() bool { return true }

// An entry in a frame, big-endian:
//
//	index 8 | term 8 | type 1 | length of extensions 1 | appended at, Unix nanoseconds, 0: not known 8 | extensions | data
const walEntryHead = 8 + 8 + 1 + 1 + 8

func walEntrySize(l *raft.Log) int { return walEntryHead + len(l.Extensions) + len(l.Data) }

func appendWALEntry(b []byte, l *raft.Log) []byte {
	b = binary.BigEndian.AppendUint64(b, l.Index)
	b = binary.BigEndian.AppendUint64(b, l.Term)
	b = append(b, byte(l.Type), byte(len(l.Extensions)))
	at := int64(0)
	if !l.AppendedAt.IsZero() {
		at = l.AppendedAt.UnixNano()
	}
	b = binary.BigEndian.AppendUint64(b, uint64(at))
	b = append(b, l.Extensions...)
	return append(b, l.Data...)
}

// parseWALEntry reads an entry, which keeps b.
func parseWALEntry(b []byte, l *raft.Log) error {
	if len(b) < walEntryHead || len(b) < walEntryHead+int(b[17]) {
		return fmt.Errorf("entry of %d bytes is cut short", len(b))
	}
	l.Index, l.Term, l.Type = binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), raft.LogType(b[16])
	l.AppendedAt = time.Time{}
	if at := int64(binary.BigEndian.Uint64(b[18:])); at != 0 {
		l.AppendedAt = time.Unix(0, at)
	}
	rest := b[walEntryHead:]
	n := int(b[17])
	l.Extensions, l.Data = nil, nil
	if n > 0 {
		l.Extensions = rest[:n:n]
	}
	if len(rest) > n {
		l.Data = rest[n:]
	}
	return nil
}

// segmentOf is the segment that has an entry, nil if none has. mu is held.
func (w *walStore) segmentOf(index uint64) *walSegment {
	if index == 0 || index < w.first.Load() || index > w.last.Load() {
		return nil
	}
	i := sort.Search(len(w.segments), func(i int) bool { return w.segments[i].Base > index })
	return w.segments[i-1]
}

// GetLog implements raft.LogStore.
func (w *walStore) GetLog(index uint64, out *raft.Log) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return errClosed
	}
	s := w.segmentOf(index)
	if s == nil {
		return raft.ErrLogNotFound
	}
	at, err := s.offset(index)
	if err != nil {
		return err
	}
	var head [walFrameHead]byte
	if _, err := s.f.ReadAt(head[:], int64(at)); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint32(head[4:])
	if head[0] != walEntry || n > walEntryMost {
		return fmt.Errorf("frame at byte %d begins with %x", at, head)
	}
	b := make([]byte, n)
	if _, err := s.f.ReadAt(b, int64(at)+walFrameHead); err != nil {
		return err
	}
	return parseWALEntry(b, out)
}

// fileOf implements engine.
func (w *walStore) fileOf(index uint64) string {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if s := w.segmentOf(index); s != nil {
		return filepath.Join(w.dir, s.file())
	}
	return w.dir
}

// StoreLog implements raft.LogStore.
func (w *walStore) StoreLog(l *raft.Log) error { return w.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore.
func (w *walStore) StoreLogs(logs []*raft.Log) error {
	w.write.Lock()
	defer w.write.Unlock()
	if err := w.failed(); err != nil {
		return err
	}
	for i, next := 0, w.last.Load()+1; i < len(logs); i, next = i+1, logs[i].Index+1 {
		switch l := logs[i]; {
		case l.Index == 0, next > 1 && l.Index != next:
			return fmt.Errorf("entry %d cannot follow entry %d", l.Index, next-1)
		case len(l.Extensions) > math.MaxUint8, walEntrySize(l) > walEntryMost:
			return fmt.Errorf("entry %d has %d bytes and %d of extensions, want at most %d and %d", l.Index, len(l.Data), len(l.Extensions), walEntryMost-walEntryHead-math.MaxUint8, math.MaxUint8)
		}
	}
	for len(logs) > 0 {
		n, bytes := 0, 0
		for n < len(logs) && (n == 0 || bytes+walEntrySize(logs[n]) <= walAppendBytes) {
			bytes += walEntrySize(logs[n])
			n++
		}
		if err := w.append(logs[:n], bytes); err != nil {
			return err
		}
		logs = logs[n:]
	}
	return nil
}

// append writes entries of so many bytes in one piece. write is held.
func (w *walStore) append(logs []*raft.Log, bytes int) error {
	s, err := w.tail(logs[0].Index)
	if err != nil {
		return err
	}
	if cap(w.buf) < bytes {
		w.buf = make([]byte, 0, max(bytes, 2*cap(w.buf)))
	}
	b, entries := w.buf[:0], make([]types.LogEntry, len(logs))
	for i, l := range logs {
		from := len(b)
		b = appendWALEntry(b, l)
		entries[i] = types.LogEntry{Index: l.Index, Data: b[from:]}
	}
	if cap(w.buf) > walAppendBytes {
		w.buf = nil // one very large entry is no reason to keep as much for ever
	}
	if err := s.tail.Append(entries); err != nil {
		return fmt.Errorf("segment %s: %w", s.file(), err)
	}
	if w.first.Load() == 0 {
		w.first.Store(logs[0].Index)
	}
	w.last.Store(logs[len(logs)-1].Index)
	if s.used += uint64(bytes); s.used >= w.limit/2 {
		w.makeSpare()
	}
	return nil
}

// tail is the segment that takes the entry at index, which may be a new one. write is held.
func (w *walStore) tail(index uint64) (*walSegment, error) {
	if s := w.newest(); s != nil && !s.sealed() {
		full, at, err := s.tail.Sealed()
		switch {
		case err != nil:
			return nil, err
		case !full && (w.last.Load() != 0 || s.Base == index):
			return s, nil
		case full:
			w.mu.Lock()
			s.Max, s.Index = w.last.Load(), at
			w.mu.Unlock()
		default: // begun, never written to, and the log goes on elsewhere
			w.metaMu.Lock()
			err := w.clear()
			w.metaMu.Unlock()
			if err != nil {
				return nil, err
			}
		}
	}
	if w.making != nil {
		<-w.making
		w.making = nil
	}
	if err := w.failed(); err != nil {
		return nil, err
	}
	return w.grow(index)
}

// failed is what has gone wrong beside the calls, or that the store is closed. Each call that promises something asks, with the lock that it
// changes anything under: after a failed sync nothing more is promised.
func (w *walStore) failed() error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return errClosed
	}
	return w.spareErr
}

// newest is the segment with the log's end, nil if there is none. write is held, so it stays that.
func (w *walStore) newest() *walSegment {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if n := len(w.segments); n > 0 {
		return w.segments[n-1]
	}
	return nil
}

// grow begins a segment. write is held, and no segment is being made ahead.
func (w *walStore) grow(base uint64) (*walSegment, error) {
	last := w.newest()
	w.mu.RLock()
	id := w.spare
	w.mu.RUnlock()
	ahead := id != 0 && last != nil && last.sealed() && last.Max+1 == base
	if id == 0 {
		id = w.nextID
		w.nextID++
	}
	s := &walSegment{walSegmentInfo: walSegmentInfo{ID: id, Base: base, Min: base}}
	open := func() (err error) {
		if s.tail, err = w.filer.Create(s.raftWAL(w.codec, w.limit)); err != nil {
			return err
		}
		s.f, err = os.Open(filepath.Join(w.dir, s.file()))
		return err
	}
	if ahead {
		if err := open(); err != nil {
			return nil, errors.Join(err, s.close())
		}
	} else {
		// The file's name is on disk before the list names it. One sync of the folder for both would leave it to the file system
		// which of the two it keeps.
		if err := changeDir(w.dir, open); err != nil {
			return nil, errors.Join(err, s.close())
		}
		w.metaMu.Lock()
		defer w.metaMu.Unlock()
		if err := w.commit(w.list(append(slices.Clip(w.segments), s), 0)); err != nil {
			if errors.Is(err, unix.ENOSPC) { // what is reserved here would keep the next start from writing anything; a list may name the file by now
				err = errors.Join(err, os.Truncate(filepath.Join(w.dir, s.file()), 0))
			}
			return nil, errors.Join(err, s.close())
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.segments, w.spare = append(slices.Clip(w.segments), s), 0
	return s, nil
}

// makeSpare has the segment ahead made, unless there is one. write is held.
func (w *walStore) makeSpare() {
	w.mu.RLock()
	have := w.spare != 0 || w.spareErr != nil
	w.mu.RUnlock()
	if have || w.making != nil {
		return
	}
	id, done := w.nextID, make(chan struct{})
	w.nextID++
	w.making = done
	go func() {
		err := w.makeAhead(id)
		if errors.Is(err, unix.ENOSPC) { // who needs it will tell
			err = nil
		}
		if err != nil {
			err = fmt.Errorf("make a segment ahead in %s: %w", w.dir, err)
			w.mu.Lock()
			w.spareErr = err
			w.mu.Unlock()
		}
		close(done)
		if err != nil && w.fatal != nil {
			w.fatal(err)
		}
	}()
}

// makeAhead makes a segment's file and lists it as the next one.
func (w *walStore) makeAhead(id uint64) error {
	name := walSegmentInfo{ID: id}.file()
	made := false
	if err := changeDir(w.dir, func() error {
		f, err := walFiles{}.Create(w.dir, name, w.limit)
		if err != nil {
			return err
		}
		made = true
		return errors.Join(f.Sync(), f.Close())
	}); err != nil {
		if made {
			err = errors.Join(err, os.Remove(filepath.Join(w.dir, name)))
		}
		return err
	}
	w.metaMu.Lock()
	defer w.metaMu.Unlock()
	w.mu.RLock()
	m := w.list(w.segments, id)
	w.mu.RUnlock()
	if err := w.commit(m); err != nil {
		return errors.Join(err, os.Remove(filepath.Join(w.dir, name)))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spare = id
	return nil
}

// list is the list with these segments. metaMu is held, and write or mu.
func (w *walStore) list(all []*walSegment, spare uint64) walMeta {
	m := w.meta.clone()
	m.Segments, m.Next = make([]walSegmentInfo, len(all)), spare
	m.NextID = max(m.NextID, spare+1)
	for i, s := range all {
		m.Segments[i] = s.walSegmentInfo
		m.NextID = max(m.NextID, s.ID+1)
	}
	return m
}

// commit makes a list durable. metaMu is held.
func (w *walStore) commit(m walMeta) error {
	if err := m.write(w.dir); err != nil {
		return err
	}
	w.meta = m
	return nil
}

// remove closes segments that nobody can find any more and removes their files.
func (w *walStore) remove(gone []*walSegment) error {
	var errs []error
	for _, s := range gone {
		errs = append(errs, s.close(), os.Remove(filepath.Join(w.dir, s.file())))
	}
	return errors.Join(errs...)
}

// Set implements raft.StableStore.
func (w *walStore) Set(key, val []byte) error {
	w.metaMu.Lock()
	defer w.metaMu.Unlock()
	if err := w.failed(); err != nil {
		return err
	}
	m := w.meta.clone()
	m.Stable[string(key)] = append([]byte{}, val...)
	if err := m.write(w.dir); err != nil {
		return err
	}
	w.meta = m
	return nil
}

// Get implements raft.StableStore.
func (w *walStore) Get(key []byte) ([]byte, error) {
	w.metaMu.Lock()
	defer w.metaMu.Unlock()
	val, ok := w.meta.Stable[string(key)]
	if !ok {
		return nil, errNotFound
	}
	return append([]byte{}, val...), nil
}

// SetUint64 implements raft.StableStore.
func (w *walStore) SetUint64(key []byte, v uint64) error {
	return w.Set(key, binary.BigEndian.AppendUint64(nil, v))
}

// GetUint64 implements raft.StableStore.
func (w *walStore) GetUint64(key []byte) (uint64, error) {
	b, err := w.Get(key)
	if err != nil {
		return 0, err
	}
	if len(b) != 8 {
		return 0, fmt.Errorf("value %q has %d bytes, want 8", key, len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}

// size implements engine: what the files take, which is more than they hold.
func (w *walStore) size() (n int64) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, s := range w.segments {
		n += allocated(s.f)
	}
	if w.spare != 0 {
		n += onDisk(filepath.Join(w.dir, walSegmentInfo{ID: w.spare}.file()))
	}
	return n
}

// errClosed is what a closed store has to say.
var errClosed = errors.New("the log is closed")

// Close implements io.Closer. A call that waits for one of the locks meanwhile, or comes later, fails and changes nothing.
func (w *walStore) Close() error {
	w.write.Lock()
	defer w.write.Unlock()
	if w.making != nil {
		<-w.making
	}
	w.metaMu.Lock()
	defer w.metaMu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	var errs []error
	for _, s := range w.segments {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

var (
	_ engine                 = (*walStore)(nil)
	_ raft.MonotonicLogStore = (*walStore)(nil)
	_ io.Closer              = (*walStore)(nil)
)
