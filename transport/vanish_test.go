package transport

import (
	"net"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/quorate/quorate/wire"
)

// TestPeersThatVanish: however a peer goes, its connection is gone from the server's books, and what no handler of it had begun is there for
// others at once, at no cost. (C59)
func TestPeersThatVanish(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	producer, _ := session(t, n.addr)
	other, _ := session(t, n.addr)
	for name, vanish := range map[string]func(p *peer) error{
		"closed without a word": func(p *peer) error { return p.ws.NetConn().Close() },
		"reset": func(p *peer) error {
			c := p.ws.NetConn().(*net.TCPConn)
			if err := c.SetLinger(0); err != nil {
				return err
			}
			return c.Close()
		},
		"in the midst of a message": func(p *peer) error {
			if _, err := p.ws.NetConn().Write([]byte{0x82, 0xfe, 0x10, 0x00, 0, 0, 0, 0, 0x83}); err != nil {
				return err
			}
			return p.ws.NetConn().Close()
		},
		"only one half of it": func(p *peer) error { return p.ws.NetConn().(*net.TCPConn).CloseWrite() },
		"a close frame": func(p *peer) error {
			return p.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(patience))
		},
		"a close frame without a code": func(p *peer) error {
			return p.ws.WriteControl(websocket.CloseMessage, nil, time.Now().Add(patience))
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(n.doors.all())
			p, _ := session(t, n.addr)
			var ok wire.OK
			p.ask(wire.TypeSubscribe, &wire.Subscribe{Sub: 1, Queue: "vanish", Credit: 5}, wire.TypeOK, &ok)
			var rep wire.Enqueued
			producer.ask(wire.TypeEnqueue, &wire.Enqueue{Queue: "vanish", Messages: make([]wire.Message, 5)}, wire.TypeEnqueued, &rep)
			for got := 0; got < 5; {
				f := p.next()
				var d wire.Delivery
				if err := f.Decode(&d); f.Type != wire.TypeDelivery || err != nil {
					t.Fatalf("frame %d, %v", f.Type, err)
				}
				got += len(d.Messages)
			}
			if err := vanish(p); err != nil {
				t.Fatal(err)
			}
			for got := 0; got < 5; {
				var l wire.Leased
				other.ask(wire.TypeLease, &wire.Lease{Queue: "vanish", Max: 5, WaitMillis: patience.Milliseconds()}, wire.TypeLeased, &l)
				if len(l.Messages) == 0 {
					t.Fatalf("%d of 5 came back", got)
				}
				for _, m := range l.Messages {
					if m.Attempt != 1 {
						t.Errorf("a message that no handler had begun comes back at attempt %d", m.Attempt)
					}
					var a wire.Acked
					other.ask(wire.TypeAck, &wire.Ack{Token: m.Token}, wire.TypeAcked, &a)
					got++
				}
			}
			waitFor(t, func() bool { return len(n.doors.all()) == before })
		})
	}
}
