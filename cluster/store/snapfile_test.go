package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// What is written is what is there, to the byte, whatever sizes it came in and however it went to the disk, and also where a file
// system changes its mind about the page cache in the middle.
func TestSnapFile(t *testing.T) {
	t.Parallel()
	whole := make([]byte, 3*snapPiece+snapBlock+7)
	for i := range whole {
		whole[i] = byte(i ^ i>>8 ^ i>>16)
	}
	for _, way := range []struct {
		name   string
		direct bool // at the beginning, where the file system lets it
		turn   int  // from so many bytes on through the page cache
	}{
		{"as the file system lets it", true, -1},
		{"through the page cache", false, -1},
		{"through the page cache after a piece", true, snapPiece},
	} {
		for _, size := range []int{0, 1, snapBlock - 1, snapBlock, snapBlock + 1, snapPiece - 1, snapPiece, snapPiece + 1, 2 * snapPiece, len(whole)} {
			for _, at := range []int{1000, 64<<10 + 9, len(whole)} {
				t.Run(fmt.Sprintf("%s/%d bytes by %d", way.name, size, at), func(t *testing.T) {
					path := filepath.Join(t.TempDir(), "state")
					w, err := createSnapFile(path)
					if err != nil {
						t.Fatal(err)
					}
					toCache := func() {
						if w.direct {
							if err := useCache(w.f); err != nil {
								t.Fatal(err)
							}
							w.direct = false
						}
					}
					if !way.direct {
						toCache()
					}
					for rest := whole[:size]; len(rest) > 0; rest = rest[min(at, len(rest)):] {
						if way.turn >= 0 && size-len(rest) >= way.turn {
							toCache()
						}
						if n, err := w.Write(rest[:min(at, len(rest))]); err != nil || n != min(at, len(rest)) {
							t.Fatalf("%d of %d written: %v", n, min(at, len(rest)), err)
						}
					}
					if err := w.Close(); err != nil {
						t.Fatal(err)
					}
					got, err := os.ReadFile(path)
					if err != nil || !bytes.Equal(got, whole[:size]) {
						t.Errorf("%d bytes, %v: not the %d that were written", len(got), err, size)
					}
				})
			}
		}
	}
}

// A file is never written over, and one that cannot be made says so.
func TestSnapFileIsNew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := createSnapFile(path); !os.IsExist(err) {
		t.Errorf("over another: %v", err)
	}
	if _, err := createSnapFile(filepath.Join(dir, "none", "state")); !os.IsNotExist(err) {
		t.Errorf("in no folder: %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "x" {
		t.Errorf("the other is %q now, %v", b, err)
	}
}
