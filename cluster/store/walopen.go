//go:build !wasip1

package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// checkWAL reads everything in the folder of a log and changes nothing: the list of segments, and each of them. last is what the
// log ends with at least. What is found of the segments is returned in the order of the list, to which the segment ahead is
// added where the log goes on in it. renew has it make durable what it finds in segments that the list does not call sealed (see renewer):
// one is called so only when its end has been synced.
func checkWAL(dir string, id UUID, last uint64, renew bool) (m walMeta, found []*walFrames, err error) {
	if m, err = readWALMeta(dir, id); err != nil {
		return m, nil, err
	}
	codec := walCodec(id)
	end := uint64(0) // of the log
	path := dir      // of the file that has the end
	var rest error   // what follows it there
	visit := func(s *walSegmentInfo) (*walFrames, error) {
		w, err := checkWALSegment(dir, *s, codec, renew && !s.sealed())
		if err != nil {
			return nil, err
		}
		if !s.sealed() {
			path, rest = filepath.Join(dir, s.file()), w.rest
			end = s.Base + uint64(len(w.offsets)) - 1
			if w.index != 0 { // it was sealed, and the process ended before the list said so
				s.Max, s.Index = end, w.index
			}
			return w, nil
		}
		end = s.Max
		return w, nil
	}
	for i := range m.Segments {
		w, err := visit(&m.Segments[i])
		if err != nil {
			return m, nil, err
		}
		found = append(found, w)
	}
	if m.Next != 0 {
		ahead := walSegmentInfo{ID: m.Next, Base: end + 1, Min: end + 1}
		n := len(m.Segments)
		goesOn := n > 0 && m.Segments[n-1].sealed()
		_, err := os.Lstat(filepath.Join(dir, ahead.file()))
		switch {
		case os.IsNotExist(err):
			m.Next = 0 // whether anything is missing is seen below
		case err != nil:
			return m, nil, err
		default:
			was, endOf, before := end, path, rest
			w, err := visit(&ahead)
			if err != nil {
				return m, nil, err
			}
			if !goesOn && (w.end > 0 || w.rest != nil) {
				// It is written to only when the one before is sealed on disk: what ended there is gone.
				return m, nil, &DamageError{File: endOf, Index: was + 1, What: fmt.Sprintf("its entries end at %d, but the log went on in %s: the last of them are gone", was, ahead.file()), Err: before}
			}
			if len(w.offsets) > 0 {
				m.Segments, found = append(m.Segments, ahead), append(found, w)
			} else if end = was; !goesOn { // nothing is in it: what is missing is missing before it
				path, rest = endOf, before
			}
			if w.end > 0 || w.rest != nil {
				m.Next = 0 // it is no empty one any more
			}
		}
	}
	if end < last {
		return m, nil, &DamageError{File: path, Index: end + 1, What: fmt.Sprintf("its entries end at %d, but entry %d was stored: the newest are gone", end, last), Err: rest}
	}
	return m, found, nil
}

func checkWALSegment(dir string, s walSegmentInfo, codec uint64, renew bool) (*walFrames, error) {
	path := filepath.Join(dir, s.file())
	flag := os.O_RDONLY
	if renew {
		flag = os.O_RDWR
	}
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		if os.IsNotExist(err) {
			return nil, &DamageError{File: path, Index: s.Min, What: "it is missing, though entries are in it"}
		}
		return nil, err
	}
	defer f.Close()
	var r io.ReaderAt = f
	if renew {
		r = renewer{f}
	}
	w, err := readWALFrames(r, s, codec)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if renew {
		if err := f.Sync(); err != nil {
			return nil, err
		}
	}
	end := s.Base + uint64(len(w.offsets)) // of the next entry, if there is one
	switch {
	case s.sealed() && (end <= s.Max || w.index != s.Index):
		return nil, &DamageError{File: path, Index: min(end, s.Max), What: fmt.Sprintf("its entries end at %d, those up to %d and an index at byte %d were written", end-1, s.Max, s.Index), Err: w.rest}
	case !s.sealed() && w.later:
		return nil, &DamageError{File: path, Index: end, What: "a batch of entries is damaged, and others follow", Err: w.rest}
	}
	return w, nil
}

// openWAL opens what checkWAL has found whole. Only then is anything changed: a batch that a crash has cut off is wiped, and the list is made
// durable.
func openWAL(dir string, id UUID, limit, last uint64) (_ *walStore, err error) {
	m, found, err := checkWAL(dir, id, last, true)
	if err != nil {
		return nil, err
	}
	w := newWALStore(dir, id, limit)
	w.meta, w.nextID, w.spare = m, m.NextID, m.Next
	defer func() {
		if err != nil {
			_ = w.Close()
		}
	}()
	for i, info := range m.Segments {
		s, err := w.openSegment(info, found[i])
		if err != nil {
			return nil, err
		}
		w.segments = append(w.segments, s)
	}
	if w.spare != 0 {
		// It looks empty by its head alone: of a first batch that a power cut has torn the rest may be there.
		if err := wipe(filepath.Join(dir, walSegmentInfo{ID: w.spare}.file()), 0); err != nil {
			return nil, fmt.Errorf("wipe the segment ahead: %w", err)
		}
	}
	w.bounds(found)
	if err := w.meta.write(dir); err != nil {
		return nil, fmt.Errorf("write the list of segments once more: %w", err)
	}
	return w, nil
}

func (w *walStore) openSegment(info walSegmentInfo, found *walFrames) (_ *walSegment, err error) {
	path := filepath.Join(w.dir, info.file())
	s := &walSegment{walSegmentInfo: info, offsets: found.offsets, used: uint64(found.end)}
	if !s.sealed() {
		// Also where there is nothing to be seen: an earlier start may have wiped it in the cache alone.
		if err := wipe(path, found.end); err != nil {
			return nil, fmt.Errorf("wipe an unfinished batch: %w", err)
		}
		if s.tail, err = w.filer.RecoverTail(s.raftWAL(w.codec, w.limit)); err != nil {
			return nil, fmt.Errorf("open %s: %w", path, err)
		}
		want := uint64(0)
		if n := uint64(len(found.offsets)); n > 0 {
			want = info.Base + n - 1
		}
		full, _, err := s.tail.Sealed()
		if got := s.tail.LastIndex(); err != nil || full || got != want {
			return nil, &DamageError{File: path, Index: want, What: fmt.Sprintf("raft-wal finds entries up to %d, sealed: %v", got, full), Err: errors.Join(err, s.tail.Close())}
		}
	}
	if s.f, err = os.Open(path); err != nil {
		if s.tail != nil {
			err = errors.Join(err, s.tail.Close())
		}
		return nil, err
	}
	return s, nil
}

// bounds sets first and last from the segments.
func (w *walStore) bounds(found []*walFrames) {
	for i, s := range w.segments {
		end := s.Max
		if !s.sealed() {
			if end = s.Base + uint64(len(found[i].offsets)) - 1; end < s.Min {
				continue // begun, and nothing written to it
			}
		}
		if w.first.Load() == 0 {
			w.first.Store(s.Min)
		}
		w.last.Store(end)
	}
}

// sweep implements engine: it removes segments that are in no list, dropped, or begun, when the process ended.
func (w *walStore) sweep() error {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return err
	}
	listed := map[string]bool{walMetaFile: true}
	for _, s := range w.segments {
		listed[s.file()] = true
	}
	if w.spare != 0 {
		listed[walSegmentInfo{ID: w.spare}.file()] = true
	}
	for _, e := range entries {
		if name := e.Name(); !listed[name] && (strings.HasSuffix(name, ".wal") || strings.HasSuffix(name, ".tmp")) {
			if err := os.Remove(filepath.Join(w.dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// wipe overwrites a file with zeros from a byte on, durably.
func wipe(path string, from int64) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if from >= st.Size() {
		return nil
	}
	err = allocate(f, unix.FALLOC_FL_ZERO_RANGE, from, st.Size()-from) // without writing them, where the file system can
	if errors.Is(err, unix.EOPNOTSUPP) {
		_, err = io.Copy(io.NewOffsetWriter(f, from), io.LimitReader(zeros{}, st.Size()-from))
	}
	return errors.Join(err, f.Sync())
}

// zeros is a reader of zeros.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// allocated is what a file takes on disk, 0 if that cannot be told.
func allocated(f *os.File) int64 {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0
	}
	return st.Blocks * 512
}
