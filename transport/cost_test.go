package transport

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/wire"
)

// rawConnect opens a WebSocket by hand and says hello, with next to no memory on the client's side.
func rawConnect(t testing.TB, addr string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	hello := wire.AppendFrame(nil, wire.TypeHello, 1, &wire.Hello{Versions: []uint16{1}})
	head := "GET /v1/ws HTTP/1.1\r\nHost: " + addr + "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: " + wire.Subprotocol + "\r\n\r\n"
	if _, err := nc.Write([]byte(head)); err != nil {
		t.Fatal(err)
	}
	_ = nc.SetReadDeadline(time.Now().Add(patience))
	br := bufio.NewReaderSize(nc, 512)
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(err, resp)
	}
	_ = resp.Body.Close()
	if _, err := nc.Write(append([]byte{0x82, 0x80 | byte(len(hello)), 0, 0, 0, 0}, hello...)); err != nil {
		t.Fatal(err)
	}
	if _, err := br.ReadByte(); err != nil { // welcome
		t.Fatal(err)
	}
	return nc
}

var racing bool // built with the race detector

// A thousand idle connections: not parallel, it measures the process.
func TestIdleConnectionsAreCheap(t *testing.T) {
	s, addr := doors(t, Config{})
	used := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	rawConnect(t, addr)
	before := used()
	const n = 1000
	for range n {
		rawConnect(t, addr)
	}
	each := (used() - before) / n
	if open := len(s.all()); open != n+1 {
		t.Fatalf("%d connections", open)
	}
	t.Logf("%d bytes a connection, both ends", each)
	if each > 32<<10 && !racing {
		t.Errorf("%d bytes a connection, more than 32 KiB", each)
	}
	p := connect(t, addr)
	var rep wire.Enqueued
	p.ask(wire.TypeEnqueue, one("x"), wire.TypeEnqueued, &rep)
}

func TestSlowHead(t *testing.T) {
	_, addr := doors(t, Config{HelloTimeout: 50 * time.Millisecond})
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	_, _ = nc.Write([]byte("GET /v1/ws HTTP/1.1\r\nHost: x\r\nX-Slow:"))
	_ = nc.SetReadDeadline(time.Now().Add(patience))
	b := make([]byte, 4096)
	for {
		if _, err = nc.Read(b); err != nil {
			break
		}
	}
	if ne, ok := err.(net.Error); ok && ne.Timeout() { //nolint:errorlint // straight from Read
		t.Error("a head that never ends is waited for")
	}
}

// TCP connections that never become WebSockets are bounded apart from those that do.
func TestTooManyPlainConnections(t *testing.T) {
	const most = httpReserve + 8
	s, addr := doors(t, Config{MaxRequests: 4, MaxStreams: 4})
	p := connect(t, addr)
	var open []net.Conn
	for range most + 20 {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, nc)
	}
	waitFor(t, func() bool { return s.plain.Load() == most })
	over := open[len(open)-1]
	_ = over.SetReadDeadline(time.Now().Add(patience))
	if b, err := io.ReadAll(over); err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 503 ") || !strings.Contains(string(b), "\r\nRetry-After: ") {
		t.Errorf("one too many is told %q, %v", b, err)
	}
	var rep wire.Enqueued
	p.ask(wire.TypeEnqueue, one("x"), wire.TypeEnqueued, &rep)
	for _, nc := range open {
		_ = nc.Close()
	}
	waitFor(t, func() bool { return s.plain.Load() == 0 })
	if code, _, _ := get(t, "http://"+addr+"/healthz"); code != 200 {
		t.Errorf("health afterwards: %d", code)
	}
}

// A node with hooks takes in more connections, and answers below /hook/ alone with what it was given.
func TestHooksAreMounted(t *testing.T) {
	hooks := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { plainText(w, http.StatusTeapot, r.URL.Path) })
	s, addr := doors(t, Config{Hooks: hooks, MaxRequests: 4, MaxStreams: 4})
	for path, want := range map[string]int{"/hook/a": http.StatusTeapot, "/hook/a/b": http.StatusTeapot, "/hooks": http.StatusNotFound, "/healthz": http.StatusOK} {
		if code, body, _ := get(t, "http://"+addr+path); code != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if n := s.plainBound(); n != httpReserve+8+hookReserve {
		t.Errorf("%d connections", n)
	}
	if s, addr := doors(t, Config{MaxRequests: 4, MaxStreams: 4}); s.plainBound() != httpReserve+8 {
		t.Errorf("%d connections without hooks", s.plainBound())
	} else if code, _, _ := get(t, "http://"+addr+"/hook/a"); code != http.StatusNotFound {
		t.Errorf("/hook/a without hooks: %d", code)
	}
}
