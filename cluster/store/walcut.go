//go:build !wasip1

package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// What is cut off a log of segments: its beginning once it is in a snapshot, its end where another leader has another.

// DeleteRange implements raft.LogStore. The range must reach one of the log's ends. A compaction does not hold up appends.
func (w *walStore) DeleteRange(from, to uint64) error {
	w.metaMu.Lock()
	if err := w.failed(); err != nil {
		w.metaMu.Unlock()
		return err
	}
	if first := w.first.Load(); first != 0 && from <= first && to >= first && to < w.last.Load() {
		defer w.metaMu.Unlock()
		return w.compact(to + 1)
	}
	w.metaMu.Unlock()
	w.write.Lock()
	defer w.write.Unlock()
	w.metaMu.Lock()
	defer w.metaMu.Unlock()
	if err := w.failed(); err != nil {
		return err
	}
	first, last := w.first.Load(), w.last.Load()
	switch {
	case first == 0, from > to, to < first, from > last:
		return nil
	case from <= first && to >= last:
		return w.clear()
	case from <= first:
		return w.compact(to + 1)
	case to >= last:
		return w.truncate(from - 1)
	default:
		return fmt.Errorf("entries %d to %d are in the middle of %d to %d", from, to, first, last)
	}
}

// clear drops all segments. write and metaMu are held.
func (w *walStore) clear() error {
	if err := w.commit(w.list(nil, w.spare)); err != nil {
		return err
	}
	w.mu.Lock()
	gone := w.segments
	w.segments = nil
	w.first.Store(0)
	w.last.Store(0)
	w.mu.Unlock()
	return w.remove(gone)
}

// compact has the log begin at first, which it holds. metaMu is held. An append may go on in the segment ahead meanwhile,
// which the list then names as the next one.
func (w *walStore) compact(first uint64) error {
	w.mu.RLock()
	n := 0
	for n+1 < len(w.segments) && w.segments[n+1].Base <= first {
		n++
	}
	m := w.list(w.segments[n:], w.spare)
	w.mu.RUnlock()
	m.Segments[0].Min = first
	if err := w.commit(m); err != nil {
		return err
	}
	w.mu.Lock()
	gone := w.segments[:n:n]
	w.segments = w.segments[n:]
	w.segments[0].Min = first
	w.first.Store(first)
	w.mu.Unlock()
	return w.remove(gone)
}

// truncate has the log end at last, which it holds. A segment is not written to again once it was cut: the entries that
// come next begin another one. write and metaMu are held.
func (w *walStore) truncate(last uint64) error {
	n := len(w.segments)
	for w.segments[n-1].Base > last {
		n--
	}
	end := w.segments[n-1]
	at := end.Index
	if !end.sealed() {
		var err error
		if at, err = end.tail.ForceSeal(); err != nil {
			return err
		}
	}
	m := w.list(w.segments[:n], w.spare)
	m.Segments[n-1].Max, m.Segments[n-1].Index = last, at
	if err := w.commit(m); err != nil {
		return err
	}
	w.mu.Lock()
	end.Max, end.Index = last, at
	gone := w.segments[n:]
	w.segments = w.segments[:n:n]
	w.last.Store(last)
	w.mu.Unlock()
	return errors.Join(w.remove(gone), end.trim(w.dir))
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
