package transport

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A stream's connection is ended by the kernel when its peer acknowledges nothing for as long as a WebSocket may be silent (C57).
func TestGiveUpAfter(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	s, _ := doors(t, Config{PongTimeout: 12 * time.Second})
	r := (&http.Request{}).WithContext(context.WithValue(t.Context(), tcpKey{}, nc))
	s.streams(r)
	raw, err := nc.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	if cerr := raw.Control(func(fd uintptr) { got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) }); cerr != nil || err != nil || got != 12000 {
		t.Errorf("%d ms, %v %v", got, cerr, err)
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	giveUpAfter(a, time.Second) // nothing to set
	s.streams(&http.Request{})
}
