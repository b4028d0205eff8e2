package transport

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// event is one Server-Sent Event, read by the rules of the WHATWG.
type event struct {
	name, id, data string
}

func (e event) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(e.data), v); err != nil {
		t.Fatalf("%q: %v", e.data, err)
	}
}

// listener is a client of Server-Sent Events that knows nothing of this server.
type listener struct {
	t      testing.TB
	status int
	header http.Header
	body   string // of what is no stream
	events chan event
	cancel context.CancelFunc
	read   chan struct{} // closed when the stream has ended
	err    error         // how it ended, once read is closed; nil: in order
}

// listen opens a stream. What is answered with another status than 200 has no events.
func listen(t testing.TB, addr, path string, header map[string]string) *listener {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	tr := &http.Transport{ResponseHeaderTimeout: 3 * patience, DisableKeepAlives: true}
	l := &listener{t: t, events: make(chan event, 100_000), cancel: cancel, read: make(chan struct{})}
	t.Cleanup(l.close)
	answered := make(chan error, 1)
	go func() {
		defer close(l.read)
		resp, err := tr.RoundTrip(req)
		if err != nil {
			answered <- err
			return
		}
		defer resp.Body.Close()
		l.status, l.header = resp.StatusCode, resp.Header
		if l.header.Get("Content-Type") != "text/event-stream" {
			b, err := io.ReadAll(resp.Body)
			l.body = string(b)
			answered <- err
			return
		}
		answered <- nil
		l.err = l.parse(bufio.NewReader(resp.Body))
	}()
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	return l
}

// parse reads events. One that is not ended by an empty line is none.
func (l *listener) parse(r *bufio.Reader) error {
	var e event
	var data []string
	id := ""
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			if line != "" || e.name != "" || data != nil {
				return err
			}
			if err.Error() == "EOF" {
				return nil
			}
			return err
		}
		line = strings.TrimSuffix(line, "\n")
		if strings.Contains(line, "\r") {
			l.t.Errorf("a carriage return in %q", line)
		}
		name, v, _ := strings.Cut(line, ":")
		v = strings.TrimPrefix(v, " ")
		switch name {
		case "":
			if line != "" {
				continue // a comment
			}
			if e.id = id; len(data) > 0 {
				e.data = strings.Join(data, "\n")
				l.events <- e
			} else if e.name != "" {
				l.t.Errorf("event %q has no data, and no browser would hand it over", e.name)
			}
			e, data = event{}, nil
		case "event":
			e.name = v
		case "data":
			data = append(data, v)
		case "id":
			id = v
		case "retry":
		default:
			l.t.Errorf("a field that is none in %q", line)
		}
	}
}

// next gives the next event beside pings.
func (l *listener) next(name string) event {
	l.t.Helper()
	end := time.After(patience)
	for {
		select {
		case e := <-l.events:
			if e.name == "ping" && name != "ping" {
				continue
			}
			if e.name != name {
				l.t.Fatalf("event %q: %s, want %q", e.name, e.data, name)
			}
			return e
		case <-end:
			l.t.Fatalf("no event %q came", name)
		}
	}
}

// message gives the next message.
func (l *listener) message() leasedJSON {
	l.t.Helper()
	var m leasedJSON
	e := l.next("message")
	e.into(l.t, &m)
	if e.id != m.ID || m.ID == "" {
		l.t.Fatalf("event id %q of message %q", e.id, m.ID)
	}
	return m
}

// quiet says that nothing but pings has come.
func (l *listener) quiet() {
	l.t.Helper()
	for {
		select {
		case e := <-l.events:
			if e.name != "ping" {
				l.t.Fatalf("event %q: %s, want none", e.name, e.data)
			}
		default:
			return
		}
	}
}

// over waits for the end of the stream.
func (l *listener) over() {
	l.t.Helper()
	select {
	case <-l.read:
	case <-time.After(patience):
		l.t.Fatal("the stream goes on")
	}
}

// close goes, as a browser's window does.
func (l *listener) close() {
	l.cancel()
	<-l.read
}

// rawListen opens a stream on a socket of its own, with a small buffer if asked for, and reads its head.
func rawListen(t testing.TB, addr, path string, buffer int) *net.TCPConn {
	t.Helper()
	d := net.Dialer{Timeout: patience}
	nc, err := d.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	tc := nc.(*net.TCPConn)
	t.Cleanup(func() { _ = tc.Close() })
	if buffer > 0 {
		if err := tc.SetReadBuffer(buffer); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tc.Write([]byte("GET " + path + " HTTP/1.1\r\nHost: " + addr + "\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	head := ""
	if err := tc.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	for !strings.HasSuffix(head, "\r\n\r\n") {
		if _, err := tc.Read(b); err != nil {
			t.Fatalf("%v after %q", err, head)
		}
		head += string(b)
	}
	if !strings.HasPrefix(head, "HTTP/1.1 200 ") {
		t.Fatalf("answered %q", head)
	}
	return tc
}
