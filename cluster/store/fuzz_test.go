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
