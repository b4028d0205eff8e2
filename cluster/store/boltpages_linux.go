package store

import "golang.org/x/sys/unix"

// forgetPages takes n bytes of a file's map at addr out of the resident memory. They stay readable.
func forgetPages(addr uintptr, n int64) {
	if n > 0 {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, addr, uintptr(n), unix.MADV_DONTNEED) // only a matter of memory
	}
}
