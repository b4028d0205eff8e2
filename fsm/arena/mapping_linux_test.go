package arena

import (
	"testing"
	"unsafe"
)

func TestMapping(t *testing.T) {
	for _, c := range []struct {
		name    string
		n       int
		aligned bool
		make    func(int) ([]byte, error)
	}{
		{"a chunk", chunkSize, true, anonymous},
		{"huge pages", 3 * hugePage, true, anonymous},
		{"a large blob", 5 * largeRound, false, anonymous},
		{"trimmed chunk", chunkSize, true, trimmed},
		{"trimmed huge pages", 3 * hugePage, true, trimmed},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all [][]byte
			for range 8 { // neighbours must not overlap, nor be cut by each other's trimming
				b, err := c.make(c.n)
				if err != nil {
					t.Fatal(err)
				}
				if at := uintptr(unsafe.Pointer(&b[0])); len(b) != c.n || c.aligned && at%hugePage != 0 {
					t.Fatalf("%d bytes at %#x, want %d at a multiple of %#x", len(b), at, c.n, hugePage)
				}
				for i := 0; i < c.n; i += 4096 {
					if b[i] != 0 {
						t.Fatalf("byte %d is %d, want 0", i, b[i])
					}
					b[i] = 1
				}
				b[c.n-1] = 1
				all = append(all, b)
			}
			for _, b := range all {
				unmapping(b)
			}
		})
	}
}
