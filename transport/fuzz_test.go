package transport

import (
	"net/http"
	"testing"

	"github.com/quorate/quorate/wire"
)

// unwired makes a connection without a socket: what it would send stays in its outbox.
func unwired(s *Server) *conn {
	c := newConn(s, &http.Request{RemoteAddr: "test"})
	c.greeted = true
	return c
}

func unserved(t testing.TB, cfg Config) *Server {
	t.Helper()
	cfg.Broker = leading()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.cancel)
	return s
}

// FuzzMessage feeds a connection whatever bytes there are as one WebSocket message: it must not panic, and what it answers
// must be frames that a client can read.
func FuzzMessage(f *testing.F) {
	var all []byte
	for _, typ := range wire.Types() {
		b := wire.AppendFrame(nil, typ, uint64(typ)+1, wire.NewBody(typ))
		f.Add(b, true)
		f.Add(b, false)
		if typ%2 == 0 && typ != wire.TypeHello {
			all = append(all, b...)
		}
	}
	f.Add(all, true)
	full := wire.AppendFrame(nil, wire.TypeEnqueue, 1, &wire.Enqueue{Queue: "q", Request: wire.Request{Number: 3, Low: 1}, Messages: []wire.Message{
		{Body: wire.Bytes("x"), TaskID: "t", Headers: []wire.Header{{Name: "a", Value: "b"}}, DedupKey: wire.Bytes("k"), Retry: &wire.RetryPolicy{Kind: "fixed"}},
		{Body: make(wire.Bytes, 2000)},
	}})
	f.Add(full, true)
	s := unserved(f, Config{MaxMessageBytes: 1024, MaxUnderWay: 8, MaxSlow: 2})
	f.Fuzz(func(t *testing.T, msg []byte, greeted bool) {
		c := unwired(s)
		c.greeted = greeted
		alive := c.message(msg)
		c.cancel()
		c.slow.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		if !alive && !c.closing {
			t.Error("the reader ends and the connection does not close")
		}
		for out := c.out; len(out) > 0; {
			raw, rest, err := wire.Next(out)
			if err != nil {
				t.Fatalf("the server sent what is no frame: %v", err)
			}
			body := wire.NewBody(raw.Type)
			if body == nil || raw.Type%2 == 0 {
				t.Fatalf("the server sent a frame of type %d", raw.Type)
			}
			if err := raw.Decode(body); err != nil {
				t.Fatalf("the server sent a body that is none: %v", err)
			}
			out = rest
		}
	})
}

// Answers are packed into WebSocket messages of at most max_frame_bytes, but for a frame that is longer by itself.
func TestPacking(t *testing.T) {
	c := unwired(unserved(t, Config{}))
	c.maxFrame = 1000
	sizes := []int{100, 300, 500, 200, 2000, 100, 900, 100}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range sizes {
		c.appendFrame(wire.TypeFault, 0, &wire.Fault{Code: "x", Message: string(make([]byte, n))})
	}
	start, frames := 0, 0
	for _, end := range append(c.cuts, len(c.out)) {
		msg := c.out[start:end]
		n := 0
		for rest := msg; len(rest) > 0; n++ {
			var err error
			if _, rest, err = wire.Next(rest); err != nil {
				t.Fatal(err)
			}
		}
		if len(msg) > 1000 && n > 1 || n == 0 {
			t.Errorf("a message of %d bytes, %d frames", len(msg), n)
		}
		frames += n
		start = end
	}
	if frames != len(sizes) || frames != c.frames || len(c.cuts) != 5 {
		t.Errorf("%d frames counted as %d in messages cut at %d", frames, c.frames, c.cuts)
	}
}
