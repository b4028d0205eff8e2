package transport

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// giveUpAfter has the kernel end a connection whose peer has acknowledged nothing of what was sent for so long.
func giveUpAfter(nc net.Conn, d time.Duration) {
	tc, ok := nc.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tc.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { // without it the kernel's own time holds
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
}
