package transport

import (
	"runtime"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// A confirmed operation through the doors, in and out again, costs the server a few allocations that do not depend on how many come in a
// message. Not parallel: it counts the process's. The client writes what was made before and does not decode.
func TestDoorAllocations(t *testing.T) {
	if racing {
		t.Log("the race detector allocates too: figures without judgement")
	}
	id := fsm.MakeID(1, 0, 7, 0)
	for _, c := range []struct {
		name string
		typ  wire.Type
		body any
		most float64
	}{
		{"enqueue", wire.TypeEnqueue, &wire.Enqueue{Queue: "q", Messages: []wire.Message{{Body: make(wire.Bytes, 256)}}}, 0.25},
		{"ack", wire.TypeAck, &wire.Ack{Token: fsm.Token{Message: id, Lease: id}.String()}, 0.25},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := New(Config{Broker: &quickBroker{}})
			if err != nil {
				t.Fatal(err)
			}
			p := connect(t, serveFor(t, s))
			const frames, rounds = 64, 200
			var msg []byte
			for i := range frames {
				msg = wire.AppendFrame(msg, c.typ, uint64(i+10), c.body)
			}
			run := func() {
				for range rounds {
					if err := p.ws.WriteMessage(websocket.BinaryMessage, msg); err != nil {
						t.Fatal(err)
					}
					if _, _, err := p.ws.NextReader(); err != nil {
						t.Fatal(err)
					}
				}
			}
			run() // buffers and pools fill
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			run()
			runtime.ReadMemStats(&after)
			each := float64(after.Mallocs-before.Mallocs) / (frames * rounds)
			t.Logf("%.3f allocations an operation", each)
			if each > c.most && !racing {
				t.Errorf("%.3f allocations an operation, want at most %.2f", each, c.most)
			}
		})
	}
}
