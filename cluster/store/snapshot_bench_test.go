package store

import (
	"io"
	"testing"

	"github.com/hashicorp/raft"
)

// BenchmarkSnapshot is the writing of 256 MiB of state into the snapshot store, sync included, and reading it back.
func BenchmarkSnapshot(b *testing.B) {
	d, err := OpenDir(b.TempDir(), "n1")
	if err != nil {
		b.Fatal(err)
	}
	s, err := OpenSnapshots(d, NewHalt(func(err error) { b.Error(err) }))
	if err != nil {
		b.Fatal(err)
	}
	piece := make([]byte, 128<<10)
	for i := range piece {
		piece[i] = byte(i * i)
	}
	const pieces = 2048
	b.Run("write", func(b *testing.B) {
		b.SetBytes(pieces * int64(len(piece)))
		for b.Loop() {
			k, err := s.Create(raft.SnapshotVersionMax, 7, 1, raft.Configuration{}, 1, nil)
			if err != nil {
				b.Fatal(err)
			}
			for range pieces {
				if _, err := k.Write(piece); err != nil {
					b.Fatal(err)
				}
			}
			if err := k.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.SetBytes(pieces * int64(len(piece)))
		for b.Loop() {
			list, err := s.List()
			if err != nil {
				b.Fatal(err)
			}
			_, r, err := s.Open(list[0].ID)
			if err != nil {
				b.Fatal(err)
			}
			buf := make([]byte, 256<<10)
			for {
				if _, err := r.Read(buf); err == io.EOF {
					break
				} else if err != nil {
					b.Fatal(err)
				}
			}
			if err := r.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
