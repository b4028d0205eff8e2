package transport

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/quorate/quorate/wire"
)

// Messages that no client of ours sends: each is answered with a fault of tag 0 that names what was wrong and a close
// frame of the documented code; a bystander on another connection goes on.
func TestBadMessages(t *testing.T) {
	_, addr := doors(t, Config{MaxMessageBytes: 1024})
	bystander := connect(t, addr)
	frame := func(typ wire.Type, tag uint64, body any) []byte { return wire.AppendFrame(nil, typ, tag, body) }
	hello := frame(wire.TypeHello, 1, &wire.Hello{Versions: []uint16{1}})
	enqueue := frame(wire.TypeEnqueue, 7, &wire.Enqueue{Queue: "q", Messages: []wire.Message{{Body: []byte("x")}}})
	for _, tc := range []struct {
		name    string
		greeted bool
		kind    int // 0: binary
		msg     []byte
		code    int
		says    string
	}{
		{"text message", true, websocket.TextMessage, []byte("hello"), CloseText, "binary"},
		{"bad UTF-8 in a text message", true, websocket.TextMessage, []byte{0xff, 0xfe}, CloseText, "binary"},
		{"empty message", true, 0, nil, CloseBadFrame, "empty message"},
		{"garbage", true, 0, []byte("GET / HTTP/1.1\r\n\r\n"), CloseBadFrame, "array of 3"},
		{"one byte after a frame", true, 0, append(bytes.Clone(enqueue), 0), CloseBadFrame, "array of 3"},
		{"a frame cut short", true, 0, enqueue[:len(enqueue)-3], CloseBadFrame, "are there"},
		{"tag 0 on a request", true, 0, frame(wire.TypeEnqueue, 0, &wire.Enqueue{Queue: "q", Messages: []wire.Message{{}}}), CloseBadFrame, "tag"},
		{"a server's frame", true, 0, frame(wire.TypeOK, 9, &wire.OK{}), CloseBadFrame, "even"},
		{"a second hello", true, 0, hello, CloseBadFrame, "second hello"},
		{"request before hello", false, 0, enqueue, CloseBadFrame, "hello comes first"},
		{"started with a bad token", true, 0, frame(wire.TypeStarted, 0, &wire.Started{Sub: 1, Tokens: []string{"x"}}), CloseBadFrame, "token"},
		{"array of 2^63", true, 0, []byte{0x9b, 0x80, 0, 0, 0, 0, 0, 0, 0}, CloseBadFrame, "array of 3"},
		{"map of 2^63 pairs", true, 0, []byte{0x83, 0x14, 0x02, 0xbb, 0x80, 0, 0, 0, 0, 0, 0, 0}, CloseBadFrame, "at most"},
		{"string of 1 GiB declared", true, 0, []byte{0x83, 0x14, 0x02, 0xa1, 0x01, 0x7a, 0x40, 0, 0, 0}, CloseBadFrame, "only 0 are there"},
		{"nested 10,000 deep", true, 0, append([]byte{0x83, 0x14, 0x02, 0xa1, 0x01}, bytes.Repeat([]byte{0x81}, 10000)...), CloseBadFrame, "nested"},
		{"indefinite length", true, 0, []byte{0x83, 0x14, 0x02, 0xbf, 0xff}, CloseBadFrame, "indefinite"},
		{"duplicate key", true, 0, []byte{0x83, 0x18, 0x36, 0x02, 0xa2, 0x01, 0x61, 'x', 0x01, 0x61, 'y'}, CloseBadFrame, "repeated"},
		{"float for an integer", true, 0, []byte{0x83, 0x18, 0x22, 0x02, 0xa2, 0x01, 0xf9, 0x3c, 0x00, 0x02, 0x01}, CloseBadFrame, "float"},
		{"null for text", true, 0, []byte{0x83, 0x18, 0x38, 0x02, 0xa1, 0x01, 0xf6}, CloseBadFrame, "null"},
		{"bytes for text", true, 0, []byte{0x83, 0x18, 0x38, 0x02, 0xa1, 0x01, 0x41, 'x'}, CloseBadFrame, "byte string"},
		{"text that is not UTF-8", true, 0, []byte{0x83, 0x18, 0x38, 0x02, 0xa1, 0x01, 0x62, 0xff, 0xfe}, CloseBadFrame, "UTF-8"},
		{"tag 2^64 in a longer form", true, 0, []byte{0x83, 0x14, 0x1b, 0, 0, 0, 0, 0, 0, 0, 1, 0xa0}, CloseBadFrame, "shortest"},
		{"longer than a frame may be", true, 0, make([]byte, wire.MaxFrameBytes(1024)+1), CloseTooBig, "max_frame_bytes"},
		{"longer than a frame may be, before hello", false, 0, make([]byte, wire.MaxFrameBytes(1024)+1), CloseTooBig, "max_frame_bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := dial(t, addr)
			if tc.greeted {
				p.sendRaw(hello)
				if f := p.next(); f.Type != wire.TypeWelcome {
					t.Fatalf("got frame %d for hello", f.Type)
				}
			}
			kind := websocket.BinaryMessage
			if tc.kind != 0 {
				kind = tc.kind
			}
			if err := p.ws.WriteMessage(kind, tc.msg); err != nil {
				t.Fatal(err)
			}
			code, text, faults := p.closed()
			if code != tc.code {
				t.Errorf("closed with %d %q, want %d", code, text, tc.code)
			}
			if len(faults) != 1 {
				t.Fatalf("got %d faults of tag 0, want 1", len(faults))
			}
			if !strings.Contains(faults[0].Message, tc.says) {
				t.Errorf("the fault says %q, which does not name %q", faults[0].Message, tc.says)
			}
			var rep wire.Enqueued
			bystander.ask(wire.TypeEnqueue, &wire.Enqueue{Queue: "q", Messages: []wire.Message{{}}}, wire.TypeEnqueued, &rep)
		})
	}
}

// Breaches of RFC 6455 itself, written byte by byte.
func TestBadSocketFrames(t *testing.T) {
	_, addr := doors(t, Config{})
	bystander := connect(t, addr)
	mask := []byte{0, 0, 0, 0}
	masked := func(b0 byte, length []byte, payload ...byte) []byte {
		b := append([]byte{b0}, length...)
		b[1] |= 0x80
		return append(append(b, mask...), payload...)
	}
	for _, tc := range []struct {
		name  string
		bytes []byte
		code  int
	}{
		{"unmasked", []byte{0x82, 0x01, 0x00}, CloseProtocol},
		{"reserved bit 1, as of compression", masked(0xc2, []byte{1}, 0), CloseProtocol},
		{"reserved bit 2", masked(0xa2, []byte{1}, 0), CloseProtocol},
		{"reserved bit 3", masked(0x92, []byte{1}, 0), CloseProtocol},
		{"reserved opcode", masked(0x83, []byte{1}, 0), CloseProtocol},
		{"control frame of 126 bytes", masked(0x89, []byte{126, 0, 126}, make([]byte, 126)...), CloseProtocol},
		{"fragmented ping", masked(0x09, []byte{1}, 0), CloseProtocol},
		{"continuation of nothing", masked(0x80, []byte{1}, 0), CloseProtocol},
		{"new message within a message", append(masked(0x02, []byte{1}, 0), masked(0x82, []byte{1}, 0)...), CloseProtocol},
		{"negative 64-bit length", masked(0x82, []byte{127, 0x80, 0, 0, 0, 0, 0, 0, 0}), CloseTooBig},
		{"huge 64-bit length", append(masked(0x82, []byte{127, 0x7f, 0, 0, 0, 0, 0, 0, 0}), make([]byte, 4<<20)...), CloseTooBig},
		{"close code 1", masked(0x88, []byte{2}, 0, 1), CloseProtocol},
		{"close code 1005", masked(0x88, []byte{2}, 0x03, 0xed), CloseProtocol},
		{"close text that is not UTF-8", masked(0x88, []byte{4}, 0x03, 0xe8, 0xff, 0xfe), CloseProtocol},
		{"ordinary close is echoed", masked(0x88, []byte{2}, 0x03, 0xe8), websocket.CloseNormalClosure},
		{"close without a code", masked(0x88, []byte{0}), websocket.CloseNoStatusReceived},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := connect(t, addr)
			go func() { _, _ = p.ws.NetConn().Write(tc.bytes) }() // the server may stop reading half-way
			code, text, _ := p.closed()
			if code != tc.code {
				t.Errorf("closed with %d %q, want %d", code, text, tc.code)
			}
			var rep wire.Enqueued
			bystander.ask(wire.TypeEnqueue, &wire.Enqueue{Queue: "q", Messages: []wire.Message{{}}}, wire.TypeEnqueued, &rep)
		})
	}
}

func TestHandshake(t *testing.T) {
	_, addr := doors(t, Config{})
	url := "ws://" + addr + "/v1/ws"
	for _, tc := range []struct {
		name   string
		protos []string
		header http.Header
		status int
		says   string
	}{
		{"no subprotocol", nil, nil, 400, "quorate.v1 would be right"},
		{"another subprotocol", []string{"mqtt"}, nil, 400, "mqtt"},
		{"another version", []string{"quorate.v2"}, nil, 400, "quorate.v2"},
		{"one of several", []string{"mqtt", wire.Subprotocol}, nil, 101, ""},
		{"origin of another site", []string{wire.Subprotocol}, http.Header{"Origin": {"https://evil.example"}}, 403, "evil.example"},
		{"origin null", []string{wire.Subprotocol}, http.Header{"Origin": {"null"}}, 403, "null"},
		{"a page whose name resolves to loopback", []string{wire.Subprotocol}, http.Header{"Origin": {"http://evil.example"}, "Host": {"evil.example"}}, 403, "evil.example"},
		{"origin localhost, as is the host", []string{wire.Subprotocol}, http.Header{"Origin": {"http://localhost:1"}, "Host": {"localhost:1"}}, 101, ""},
		{"origin without a host", []string{wire.Subprotocol}, http.Header{"Origin": {"file://"}}, 403, "file"},
		{"origin of this host", []string{wire.Subprotocol}, http.Header{"Origin": {"http://" + addr}}, 101, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := websocket.Dialer{Subprotocols: tc.protos, HandshakeTimeout: patience, EnableCompression: true}
			ws, resp, err := d.Dial(url, tc.header)
			if ws != nil {
				defer func() { _ = ws.Close() }()
			}
			if resp == nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			if resp.StatusCode != tc.status {
				t.Fatalf("status %d, want %d", resp.StatusCode, tc.status)
			}
			if tc.status == 101 {
				if got := resp.Header.Get("Sec-Websocket-Protocol"); got != wire.Subprotocol {
					t.Errorf("subprotocol %q", got)
				}
				if got := resp.Header.Get("Sec-Websocket-Extensions"); got != "" {
					t.Errorf("the offer of compression was taken: %q", got)
				}
				return
			}
			body := make([]byte, 1024)
			n, _ := resp.Body.Read(body)
			if !strings.Contains(string(body[:n]), tc.says) {
				t.Errorf("the answer says %q, which does not name %q", body[:n], tc.says)
			}
		})
	}
	if code, body, _ := get(t, "http://"+addr+"/v1/ws"); code != 400 || !strings.Contains(body, "upgrade") {
		t.Errorf("plain GET: %d %q", code, body)
	}
	if code, body, _ := get(t, "http://"+addr+"/nothing"); code != 404 || !strings.Contains(body, "/v1/openapi.json") {
		t.Errorf("unknown path: %d %q", code, body)
	}
}

func TestTooManyConnections(t *testing.T) {
	_, addr := doors(t, Config{MaxConnections: 1})
	p := connect(t, addr)
	d := websocket.Dialer{Subprotocols: []string{wire.Subprotocol}}
	_, resp, err := d.Dial("ws://"+addr+"/v1/ws", nil)
	if resp != nil {
		_ = resp.Body.Close()
	}
	if err == nil || resp == nil || resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Fatalf("second connection: %v, %+v", err, resp)
	}
	if code, _, _ := get(t, "http://"+addr+"/healthz"); code != 200 {
		t.Errorf("health while full: %d", code)
	}
	var rep wire.Enqueued
	p.ask(wire.TypeEnqueue, &wire.Enqueue{Queue: "q", Messages: []wire.Message{{}}}, wire.TypeEnqueued, &rep)
}

func TestDeadlines(t *testing.T) {
	const late = time.Second // also for what comes in time before: the upgrade, and the hello, which is a message
	for _, tc := range []struct {
		name string
		cfg  Config
		act  func(p *peer)
		code int
		says string
	}{
		{"no hello", Config{HelloTimeout: late}, func(*peer) {}, CloseLate, "hello"},
		{"pings are no hello", Config{HelloTimeout: late}, func(p *peer) {
			go func() {
				for p.ws.WriteControl(websocket.PingMessage, []byte("x"), time.Now().Add(patience)) == nil {
				}
			}()
		}, CloseLate, "hello"},
		{"an unfinished message, pings meanwhile", Config{MessageTimeout: late}, func(p *peer) {
			p.send(wire.TypeHello, 1, &wire.Hello{Versions: []uint16{1}})
			p.next()
			_, _ = p.ws.NetConn().Write([]byte{0x02, 0x81, 0, 0, 0, 0, 0x83})
			go func() {
				for p.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(patience)) == nil {
				}
			}()
		}, CloseLate, "not complete"},
		{"endless empty fragments", Config{MessageTimeout: late}, func(p *peer) {
			p.send(wire.TypeHello, 1, &wire.Hello{Versions: []uint16{1}})
			p.next()
			nc := p.ws.NetConn()
			_, _ = nc.Write([]byte{0x02, 0x80, 0, 0, 0, 0})
			go func() {
				b := bytes.Repeat([]byte{0x00, 0x80, 0, 0, 0, 0}, 1000)
				for {
					if _, err := nc.Write(b); err != nil {
						return
					}
				}
			}()
		}, CloseLate, "not complete"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, addr := doors(t, tc.cfg)
			p := dial(t, addr)
			p.ws.SetPongHandler(func(string) error { return nil })
			tc.act(p)
			code, _, faults := p.closed()
			if code != tc.code || len(faults) != 1 || !strings.Contains(faults[0].Message, tc.says) {
				t.Errorf("closed with %d, faults %v; want %d naming %q", code, faults, tc.code, tc.says)
			}
		})
	}
}

func TestRefuseOffLoopback(t *testing.T) {
	t.Parallel()
	for addr, says := range map[string]string{
		"127.0.0.1:7340": "", "127.0.0.2:1": "", "[::1]:7340": "", "localhost:7340": "",
		":7340":             "every interface",
		"0.0.0.0:7340":      "off loopback",
		"[::]:7340":         "off loopback",
		"198.51.100.1:7340": "off loopback",
		"example.org:1":     "names a host",
		"127.0.0.1":         "host:port",
		"localhost.evil:1":  "names a host",
	} {
		err := RefuseOffLoopback(addr)
		if says == "" && err != nil {
			t.Errorf("%s: %v", addr, err)
		}
		if says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, which does not say %q", addr, err, says)
		}
	}
}
