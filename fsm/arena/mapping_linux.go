package arena

import "golang.org/x/sys/unix"

// mapping is n bytes of zeroed memory outside the Go heap, faulted in with one call: touching fresh pages one by one
// costs ten times as much. off is false where it came from the heap after all.
func mapping(n int) (b []byte, off bool) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return make([]byte, n), false
	}
	_ = unix.Madvise(b, unix.MADV_POPULATE_WRITE) // only a matter of speed: kernels before 5.14 do not know it
	return b, true
}

func unmapping(b []byte) {
	if err := unix.Munmap(b); err != nil {
		panic("arena: unmap: " + err.Error()) // not a mapping of ours: memory is not what we think it is
	}
}
