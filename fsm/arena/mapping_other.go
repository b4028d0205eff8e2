//go:build !linux

package arena

// mapping is n bytes of zeroed memory; on this platform from the Go heap.
func mapping(n int) (b []byte, off bool) { return make([]byte, n), false }

func unmapping([]byte) {}
