package chaos

import (
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/wire"
)

// peer is a client of one node, made of the WebSocket library and the wire package alone.
type peer struct {
	t    *testing.T
	ws   *websocket.Conn
	rest []byte
	tag  uint64
}

// dial connects to one node and says hello.
func dial(t *testing.T, n *proc.Node) *peer {
	t.Helper()
	d := websocket.Dialer{Subprotocols: []string{wire.Subprotocol}, HandshakeTimeout: 20 * time.Second}
	ws, resp, err := d.Dial("ws://"+n.ClientAddr+"/v1/ws", nil)
	if resp != nil {
		_ = resp.Body.Close() // the library has read it
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	p := &peer{t: t, ws: ws}
	p.send(wire.TypeHello, &wire.Hello{Versions: []uint16{wire.Version}, Client: "chaos"})
	if f, err := p.next(); err != nil || f.Type != wire.TypeWelcome {
		t.Fatalf("hello is answered by frame %d, %v", f.Type, err)
	}
	return p
}

func (p *peer) send(typ wire.Type, body any) {
	p.t.Helper()
	p.tag++
	if err := p.ws.WriteMessage(websocket.BinaryMessage, wire.AppendFrame(nil, typ, p.tag, body)); err != nil {
		p.t.Fatal(err)
	}
}

// next is the next frame, or how the connection ended.
func (p *peer) next() (wire.Raw, error) {
	if err := p.ws.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return wire.Raw{}, err
	}
	for len(p.rest) == 0 {
		_, b, err := p.ws.ReadMessage()
		if err != nil {
			return wire.Raw{}, err
		}
		p.rest = b
	}
	f, rest, err := wire.Next(p.rest)
	p.rest = rest
	return f, err
}

// A leader that was frozen while another was elected gives no lease and confirms no ack when it wakes; it says who leads.
// (C19; C24: meanwhile the client has noticed within seconds that its leader hangs)
func deposedLeader(t *testing.T, c *proc.Cluster, cl *client.Client) {
	put(t, cl, "deposed", client.Message{})
	d := take(t, cl, "deposed", time.Minute)
	put(t, cl, "deposed", client.Message{})
	old := leader(t, c)
	p := dial(t, old)
	p.send(wire.TypeOpenSession, &wire.OpenSession{})
	if f, err := p.next(); err != nil || f.Type != wire.TypeSessionOpened {
		t.Fatalf("frame %d, %v", f.Type, err)
	}
	thaw := freeze(t, old)
	// Sent while it cannot know: it reads them when it wakes, before any word of another leader.
	p.send(wire.TypeLease, &wire.Lease{Queue: "deposed", Max: 1, Request: wire.Request{Number: 1, Low: 1}})
	p.send(wire.TypeAck, &wire.Ack{Token: d.Token})
	p.send(wire.TypePeek, &wire.Peek{Queue: "deposed"})
	p.send(wire.TypeResume, &wire.Resume{Subscribe: wire.Subscribe{Sub: 1, Queue: "deposed"}})
	begin := time.Now()
	acked := ack(t, cl, d, "at the new leader")
	if since := time.Since(begin); since > 10*time.Second {
		t.Errorf("a call was held up for %s by a leader that hangs, want less than 10 s (G7)", since)
	}
	other := take(t, cl, "deposed", time.Minute)
	if now := leader(t, c); now == old {
		t.Fatal("nobody else leads")
	}
	thaw()
	for range 4 {
		f, err := p.next()
		if err != nil {
			break // told to go elsewhere
		}
		switch f.Type {
		case wire.TypeRedirect, wire.TypeFault:
		case wire.TypeLeased:
			var v wire.Leased
			if err := f.Decode(&v); err != nil || len(v.Messages) > 0 {
				t.Fatalf("the deposed leader handed out %+v, %v", v, err)
			}
		case wire.TypeTasks: // where the node leads again by then, as on a crowded machine it may: of what it knows now
			var v wire.Tasks
			if err := f.Decode(&v); err != nil || v.At.Index < acked.Index {
				t.Fatalf("the deposed leader reads entry %d, before the ack of entry %d: %+v, %v", v.At.Index, acked.Index, v.Tasks, err)
			}
		case wire.TypeResumed: // likewise
			var v wire.Resumed
			if err := f.Decode(&v); err != nil || v.At.Index < acked.Index {
				t.Fatalf("the deposed leader says what is leased at entry %d, before the ack of entry %d: %+v, %v", v.At.Index, acked.Index, v, err)
			}
		default:
			t.Fatalf("the deposed leader answers with frame %d, want a fault", f.Type)
		}
	}
	ack(t, cl, other, "")
	counts(t, cl, "deposed", [5]int64{})
	whole(t, cl, 3)
}
