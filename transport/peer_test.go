package transport

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/quorate/quorate/bench/leaks"
	"github.com/quorate/quorate/wire"
)

func TestMain(m *testing.M) { leaks.Main(m) }

const patience = 10 * time.Second // how long a test waits for what must come

// doors starts a Server on loopback; it is stopped, and must stop cleanly, when the test ends.
func doors(t *testing.T, cfg Config) (*Server, string) {
	t.Helper()
	if cfg.Broker == nil {
		b := &fakeBroker{ready: true}
		b.status.Leader, b.status.Ready, b.status.LeaderAddr = true, true, "127.0.0.1:7340"
		cfg.Broker = b
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s, serveFor(t, s)
}

// serveFor serves on loopback until the test ends, and then stops.
func serveFor(t testing.TB, s *Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return l.Addr().String()
}

// peer is a client made of the WebSocket library and the wire package alone.
type peer struct {
	t    testing.TB
	ws   *websocket.Conn
	rest []byte // of the last message
	tag  uint64
	came []wire.Raw // deliveries that came before an answer
}

func dial(t testing.TB, addr string) *peer {
	t.Helper()
	d := websocket.Dialer{Subprotocols: []string{wire.Subprotocol}, HandshakeTimeout: patience}
	ws, resp, err := d.Dial("ws://"+addr+"/v1/ws", nil)
	if resp != nil {
		_ = resp.Body.Close() // the library has read it
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	return &peer{t: t, ws: ws}
}

// connect dials and says hello.
func connect(t testing.TB, addr string) *peer {
	t.Helper()
	p := dial(t, addr)
	p.send(wire.TypeHello, 1, &wire.Hello{Versions: []uint16{wire.Version}, Client: "test"})
	if f := p.next(); f.Type != wire.TypeWelcome || f.Tag != 1 {
		t.Fatalf("got frame %d tag %d for hello", f.Type, f.Tag)
	}
	p.tag = 1
	return p
}

// session connects and opens a session.
func session(t testing.TB, addr string) (*peer, string) {
	t.Helper()
	p := connect(t, addr)
	var o wire.SessionOpened
	p.ask(wire.TypeOpenSession, &wire.OpenSession{}, wire.TypeSessionOpened, &o)
	return p, o.Session
}

func (p *peer) sendRaw(b []byte) {
	p.t.Helper()
	if err := p.ws.WriteMessage(websocket.BinaryMessage, b); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) send(typ wire.Type, tag uint64, body any) {
	p.t.Helper()
	p.sendRaw(wire.AppendFrame(nil, typ, tag, body))
}

// next gives the next frame.
func (p *peer) next() wire.Raw {
	p.t.Helper()
	f, err := p.read()
	if err != nil {
		p.t.Fatal(err)
	}
	return f
}

func (p *peer) read() (wire.Raw, error) {
	if len(p.came) > 0 {
		f := p.came[0]
		p.came = p.came[1:]
		return f, nil
	}
	return p.readOn()
}

// readOn gives the next frame that has not been read yet.
func (p *peer) readOn() (wire.Raw, error) {
	if len(p.rest) == 0 {
		_ = p.ws.SetReadDeadline(time.Now().Add(patience))
		kind, msg, err := p.ws.ReadMessage()
		if err != nil {
			return wire.Raw{}, err
		}
		if kind != websocket.BinaryMessage {
			p.t.Fatalf("a message of kind %d", kind)
		}
		p.rest = msg
	}
	f, rest, err := wire.Next(p.rest)
	if err != nil {
		p.t.Fatal(err)
	}
	p.rest = rest
	return f, nil
}

// ask sends a request and decodes its answer, which must be of the type given, and the next frame but for deliveries: a subscription to a queue with
// messages may be given them before it is answered.
func (p *peer) ask(typ wire.Type, req any, want wire.Type, rep any) {
	p.t.Helper()
	p.tag++
	p.send(typ, p.tag, req)
	p.answer(p.tag, want, rep)
}

func (p *peer) answer(tag uint64, want wire.Type, rep any) {
	p.t.Helper()
	f, err := p.readOn()
	for err == nil && f.Type == wire.TypeDelivery && f.Tag == 0 {
		p.came = append(p.came, f)
		f, err = p.readOn()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	if f.Type != want || f.Tag != tag {
		if f.Type == wire.TypeFault {
			var fault wire.Fault
			_ = f.Decode(&fault)
			p.t.Fatalf("got fault %v tag %d, want frame %d tag %d", &fault, f.Tag, want, tag)
		}
		p.t.Fatalf("got frame %d tag %d, want %d tag %d", f.Type, f.Tag, want, tag)
	}
	if err := f.Decode(rep); err != nil {
		p.t.Fatal(err)
	}
}

// refused sends a request that must be answered with a fault of the code.
func (p *peer) refused(typ wire.Type, req any, want wire.Code) *wire.Fault {
	p.t.Helper()
	f := new(wire.Fault)
	p.ask(typ, req, wire.TypeFault, f)
	if f.Code != want {
		p.t.Fatalf("got %v, want %s", f, want)
	}
	return f
}

// closed reads to the end and gives the close code and the faults of tag 0 that came before.
func (p *peer) closed() (code int, text string, faults []wire.Fault) {
	p.t.Helper()
	for {
		f, err := p.read()
		var ce *websocket.CloseError
		switch {
		case errors.As(err, &ce):
			return ce.Code, ce.Text, faults
		case err != nil:
			p.t.Fatalf("the connection ended without a close frame: %v", err)
		case f.Type == wire.TypeFault && f.Tag == 0:
			var fault wire.Fault
			if err := f.Decode(&fault); err != nil {
				p.t.Fatal(err)
			}
			faults = append(faults, fault)
		}
	}
}

func get(t testing.TB, url string) (int, string, http.Header) {
	t.Helper()
	c := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	var b [65536]byte
	n := 0
	for {
		m, err := r.Body.Read(b[n:])
		n += m
		if err != nil || n == len(b) {
			return r.StatusCode, string(b[:n]), r.Header
		}
	}
}

// waitFor polls a condition that nothing signals.
func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("it never came")
		}
	}
}
