package arena

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is what a page table's last level but one maps in one piece, on the processors that matter here.
const hugePage = 2 << 20

// mapping is n bytes of zeroed memory outside the Go heap, faulted in with one call: touching fresh pages one by one
// costs ten times as much. Where n is whole huge pages it asks for those, which the kernel gives only at their boundaries. off is false
// where it came from the heap after all.
func mapping(n int) (b []byte, off bool) {
	b, err := anonymous(n)
	if err != nil {
		return make([]byte, n), false
	}
	if n%hugePage == 0 {
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // only a matter of speed, like the next: where there are none the pages are small
	}
	_ = unix.Madvise(b, unix.MADV_POPULATE_WRITE) // kernels before 5.14 do not know it
	return b, true
}

// anonymous maps n bytes, at a huge page's boundary where they are whole ones.
func anonymous(n int) ([]byte, error) {
	p, err := mapped(n)
	if err != nil {
		return nil, err
	}
	if n%hugePage != 0 || uintptr(p)%hugePage == 0 { // kernels since 6.7 mind the boundary by themselves
		return unsafe.Slice((*byte)(p), n), nil
	}
	if err := unix.MunmapPtr(p, uintptr(n)); err != nil {
		return nil, err
	}
	return trimmed(n)
}

func mapped(n int) (unsafe.Pointer, error) {
	return unix.MmapPtr(-1, 0, nil, uintptr(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

// trimmed maps a huge page more than n bytes and gives back what lies before the first boundary and behind the end.
func trimmed(n int) ([]byte, error) {
	p, err := mapped(n + hugePage)
	if err != nil {
		return nil, err
	}
	before := hugePage - uintptr(p)%hugePage // at most a huge page: then nothing is behind
	if err := unix.MunmapPtr(p, before); err != nil {
		return nil, err
	}
	p = unsafe.Add(p, before)
	if behind := hugePage - before; behind > 0 {
		if err := unix.MunmapPtr(unsafe.Add(p, n), behind); err != nil {
			return nil, err
		}
	}
	return unsafe.Slice((*byte)(p), n), nil
}

func unmapping(b []byte) {
	if err := unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b))); err != nil {
		panic("arena: unmap: " + err.Error()) // not a mapping of ours: memory is not what we think it is
	}
}
