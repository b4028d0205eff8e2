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
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

const (
	// WALDir is the folder of a log of kind WAL.
	WALDir = "raft.wal"
	// walSegmentBytes is about how large a segment's file becomes. It is taken from the disk when the segment is begun, and
	// given back when all its entries are compacted away: a smaller one is given back sooner, and begun more often.
	walSegmentBytes = 64 << 20
	// walAppendBytes bounds what is encoded and written at once; one entry may be larger.
	walAppendBytes = 8 << 20
	// walEntryMost is the largest entry that a segment takes.
	walEntryMost = segment.MaxEntrySize
)

// walStore is an engine on segments as raft-wal (v0.4.2) writes them: an append is one write and one sync, and compaction
// drops whole files. raft-wal's own reading, recovery and list of segments are not used, because they believe what they
// find (see walFrames), its metadata have no checksum, and a failed change of segments is only logged.
//
//	raft.wal/meta                                which segments there are, stable values
//	raft.wal/BASE-ID.wal                         entries from index BASE on
//
// Entries have no gaps. A store without entries takes any index first.
type walStore struct {
	dir   string
	codec uint64 // in each segment's head: whose it is
	limit uint64 // bytes of a segment
	filer *segment.Filer

	write sync.Mutex // held by whoever changes entries: one at a time
	buf   []byte     // guarded by write: entries being encoded

	// metaMu guards meta and its file. It is taken under write, or alone for a stable value.
	metaMu sync.Mutex
	meta   walMeta

	// mu guards which segments there are. It is held for reading while an entry is read, so that a segment is closed only
	// when nobody reads it.
	mu          sync.RWMutex
	segments    []*walSegment
	first, last atomic.Uint64 // indexes; 0: there are no entries
}

// walSegment is an open segment.
type walSegment struct {
	walSegmentInfo
	f       *os.File            // for reading
	tail    types.SegmentWriter // nil: sealed when it was opened
	offsets []uint32            // of the frames of entries from Base on, where tail is nil
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

func (s *walSegment) close() error {
	err := s.f.Close()
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
		limit = walSegmentBytes
	}
	return &walStore{dir: dir, codec: walCodec(id), limit: limit, filer: segment.NewFiler(dir, walFiles{}), meta: walMeta{Node: id, NextID: 1, Stable: map[string][]byte{}}}
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
	return nil
}

// tail is the segment that takes the entry at index, which may be a new one. write is held.
func (w *walStore) tail(index uint64) (*walSegment, error) {
	if n := len(w.segments); n > 0 {
		s := w.segments[n-1]
		if !s.sealed() {
			full, at, err := s.tail.Sealed()
			switch {
			case err != nil:
				return nil, err
			case !full && (w.last.Load() != 0 || s.Base == index):
				return s, nil
			case full:
				s.Max, s.Index = w.last.Load(), at // nobody reads these two but under write
			default: // begun, never written to, and the log goes on elsewhere
				if err := w.drop(nil, w.segments); err != nil {
					return nil, err
				}
			}
		}
	}
	return w.grow(index)
}

// grow begins a segment. Its file, and the file's name, are on disk before the list names it. write is held.
func (w *walStore) grow(base uint64) (*walSegment, error) {
	w.metaMu.Lock()
	id := w.meta.NextID
	w.metaMu.Unlock()
	s := &walSegment{walSegmentInfo: walSegmentInfo{ID: id, Base: base, Min: base}}
	path := filepath.Join(w.dir, s.file())
	var err error
	if s.tail, err = w.filer.Create(s.raftWAL(w.codec, w.limit)); err != nil {
		return nil, err
	}
	if s.f, err = os.Open(path); err != nil {
		return nil, errors.Join(err, s.tail.Close())
	}
	all := append(w.segments[:len(w.segments):len(w.segments)], s)
	if err := w.commit(all); err != nil {
		return nil, errors.Join(err, s.close())
	}
	w.swap(all, w.first.Load(), w.last.Load())
	return s, nil
}

// commit makes the list of segments durable. write is held.
func (w *walStore) commit(all []*walSegment) error {
	w.metaMu.Lock()
	defer w.metaMu.Unlock()
	m := w.meta.clone()
	m.Segments = make([]walSegmentInfo, len(all))
	for i, s := range all {
		m.Segments[i] = s.walSegmentInfo
		m.NextID = max(m.NextID, s.ID+1)
	}
	if err := m.write(w.dir); err != nil {
		return err
	}
	w.meta = m
	return nil
}

// swap puts a list of segments into force. write is held.
func (w *walStore) swap(all []*walSegment, first, last uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.segments = all
	w.first.Store(first)
	w.last.Store(last)
}

// drop has keep be the log, and removes the files of gone. write is held.
func (w *walStore) drop(keep, gone []*walSegment) error {
	if err := w.commit(keep); err != nil {
		return err
	}
	first, last := uint64(0), uint64(0)
	if n := len(keep); n > 0 {
		first = keep[0].Min
		if last = keep[n-1].Max; !keep[n-1].sealed() {
			last = w.last.Load()
		}
	}
	w.swap(keep, first, last)
	var errs []error
	for _, s := range gone {
		errs = append(errs, s.close(), os.Remove(filepath.Join(w.dir, s.file())))
	}
	return errors.Join(errs...)
}

// DeleteRange implements raft.LogStore. The range must reach one of the log's ends.
func (w *walStore) DeleteRange(from, to uint64) error {
	w.write.Lock()
	defer w.write.Unlock()
	first, last := w.first.Load(), w.last.Load()
	switch {
	case first == 0, from > to, to < first, from > last:
		return nil
	case from <= first && to >= last:
		return w.drop(nil, w.segments)
	case from <= first:
		return w.compact(to + 1)
	case to >= last:
		return w.truncate(from - 1)
	default:
		return fmt.Errorf("entries %d to %d are in the middle of %d to %d", from, to, first, last)
	}
}

// compact has the log begin at first, which it holds. write is held.
func (w *walStore) compact(first uint64) error {
	n := 0
	for n+1 < len(w.segments) && w.segments[n+1].Base <= first {
		n++
	}
	head := *w.segments[n]
	head.Min = first
	keep := append([]*walSegment{&head}, w.segments[n+1:]...)
	return w.drop(keep, w.segments[:n:n])
}

// truncate has the log end at last, which it holds. A segment is not written to again once it was cut: the entries that
// come next begin another one. write is held.
func (w *walStore) truncate(last uint64) error {
	n := len(w.segments)
	for w.segments[n-1].Base > last {
		n--
	}
	end := *w.segments[n-1]
	if !end.sealed() {
		at, err := end.tail.ForceSeal()
		if err != nil {
			return err
		}
		end.Index = at
	}
	end.Max = last
	keep := append(w.segments[:n-1:n-1], &end)
	if err := w.drop(keep, w.segments[n:]); err != nil {
		return err
	}
	return end.trim(w.dir)
}

// trim gives back what was reserved for a sealed segment behind its end.
func (s *walSegment) trim(dir string) error {
	st, err := s.f.Stat()
	if err != nil {
		return err
	}
	var head [walFrameHead]byte
	if _, err := s.f.ReadAt(head[:], int64(s.Index)-walFrameHead); err != nil {
		return err
	}
	end := int64(s.Index) + walPadded(int64(binary.LittleEndian.Uint32(head[4:]))) + walFrameHead // the index block, a commit
	if end >= st.Size() {
		return nil
	}
	return os.Truncate(filepath.Join(dir, s.file()), end)
}

// Set implements raft.StableStore.
func (w *walStore) Set(key, val []byte) error {
	w.metaMu.Lock()
	defer w.metaMu.Unlock()
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
	return n
}

// Close implements io.Closer.
func (w *walStore) Close() error {
	w.write.Lock()
	defer w.write.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, s := range w.segments {
		errs = append(errs, s.close())
	}
	w.segments = nil
	w.first.Store(0)
	w.last.Store(0)
	return errors.Join(errs...)
}

var (
	_ engine                 = (*walStore)(nil)
	_ raft.MonotonicLogStore = (*walStore)(nil)
	_ io.Closer              = (*walStore)(nil)
)
