package transport

import (
	"testing"

	"github.com/gorilla/websocket"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// quickGroup completes what is proposed at once, with as little work of its own as can be.
type quickGroup struct {
	fakeGroup
	n   uint64
	out [1]fsm.Outcome
}

func (g *quickGroup) Propose(ps ...*group.Proposal) {
	var done group.Completer
	for _, p := range ps {
		g.n++
		g.out[0] = fsm.Outcome{ID: fsm.MakeID(1, 0, g.n, 0)}
		done = p.Done
		done.Complete(p, nil, group.Stamp{Index: g.n, Time: 1}, g.out[:], nil, nil)
	}
	done.(group.Flusher).Flush()
}

type quickBroker struct {
	fakeBroker
	g quickGroup
}

func (b *quickBroker) Group(uint16) Group { return &b.g }

// BenchmarkDoor is the doors' own cost of a confirmed operation, both ways through a real socket, 64 frames a message.
// The client's side, in the same process, writes messages made before and does not decode.
func BenchmarkDoor(b *testing.B) {
	id := fsm.MakeID(1, 0, 7, 0)
	for _, bc := range []struct {
		name string
		typ  wire.Type
		body any
	}{
		{"enqueue", wire.TypeEnqueue, &wire.Enqueue{Queue: "q", Messages: []wire.Message{{Body: make(wire.Bytes, 256)}}}},
		{"ack", wire.TypeAck, &wire.Ack{Token: fsm.Token{Message: id, Lease: id}.String()}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			broker := &quickBroker{}
			s, err := New(Config{Broker: broker})
			if err != nil {
				b.Fatal(err)
			}
			addr := serveFor(b, s)
			p := connect(b, addr)
			var msg []byte
			const frames = 64
			for i := range frames {
				msg = wire.AppendFrame(msg, bc.typ, uint64(i+10), bc.body)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N/frames + 1 {
				if err := p.ws.WriteMessage(websocket.BinaryMessage, msg); err != nil {
					b.Fatal(err)
				}
				if _, _, err := p.ws.NextReader(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
