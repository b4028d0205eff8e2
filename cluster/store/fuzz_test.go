package store

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
)

// FuzzBoltTree: whatever a file holds, walking it ends, without a panic.
func FuzzBoltTree(f *testing.F) {
	page := os.Getpagesize()
	dir := f.TempDir()
	path := filepath.Join(dir, "raft.db")
	b, err := openBolt(path)
	if err != nil {
		f.Fatal(err)
	}
	for i := uint64(1); i < 40; i++ {
		if err := b.StoreLog(entry(i, 1, "some data of an entry, long enough to fill pages")); err != nil {
			f.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	whole = whole[:min(len(whole), 12*page)]
	for root := byte(2); root < 8; root++ {
		f.Add(whole, root, true)
		f.Add(whole, root, false)
	}
	f.Fuzz(func(t *testing.T, b []byte, root byte, top bool) {
		x := newBoltTree(bytes.NewReader(b), int64(page), uint64(len(b)/page))
		_ = x.check(uint64(root), top)
	})
}

// FuzzVerify: an entry passes only with the envelope that it was given.
func FuzzVerify(f *testing.F) {
	f.Add(uint64(1), uint64(2), byte(0), []byte("data"), []byte{1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, index, term uint64, kind byte, data, ext []byte) {
		l := &raft.Log{Index: index, Term: term, Type: raft.LogType(kind), Data: data, Extensions: ext}
		given := &raft.Log{Index: index, Term: term, Type: raft.LogType(kind), Data: data}
		h := NewHalt(func(error) {})
		if err := NewLog(raft.NewInmemStore(), h, LogOptions{}).StoreLog(given); err != nil {
			t.Fatal(err)
		}
		if err := Verify(given); err != nil {
			t.Fatal(err)
		}
		if (Verify(l) == nil) != bytes.Equal(ext, given.Extensions) {
			t.Errorf("envelope %x of an entry that has %x", ext, given.Extensions)
		}
	})
}

// FuzzWALFrames: whatever a segment's file holds, reading it ends, without a panic, and what it gives can be found in the file.
func FuzzWALFrames(f *testing.F) {
	id := UUID{1}
	dir := filepath.Join(f.TempDir(), WALDir)
	w, err := createWAL(dir, id, 4096)
	if err != nil {
		f.Fatal(err)
	}
	for i := uint64(1); i < 12; i++ {
		if err := w.StoreLog(entry(i, 1, "some data of an entry, long enough to fill a segment with a few")); err != nil {
			f.Fatal(err)
		}
	}
	info := w.segments[0].walSegmentInfo
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, info.file()))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:200])
	f.Add(make([]byte, 64))
	f.Fuzz(func(t *testing.T, b []byte) {
		found, err := readWALFrames(bytes.NewReader(b), info, walCodec(id))
		if err != nil {
			t.Fatal(err)
		}
		if found.end > int64(len(b)) || found.index > uint64(found.end) {
			t.Errorf("%d bytes: end %d, index at %d", len(b), found.end, found.index)
		}
		for _, at := range found.offsets {
			if int64(at)+walFrameHead > found.end || b[at] != walEntry {
				t.Errorf("an entry at %d of %d", at, found.end)
			}
		}
	})
}
