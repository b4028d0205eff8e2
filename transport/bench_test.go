package transport

import (
	"encoding/binary"
	"fmt"
	"syscall"
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

// BenchmarkCycle is enqueue, delivery and ack of a message of 256 bytes through the doors of one real group in memory, with
// both clients in the same process: what a node without disks and followers costs, and half as much again for the clients.
func BenchmarkCycle(b *testing.B) { benchmarkCycle(b, 0) }

// BenchmarkConnections is BenchmarkCycle beside so many connections that have said hello and no more.
func BenchmarkConnections(b *testing.B) {
	for _, idle := range []int{0, 500, 5000} {
		b.Run(fmt.Sprintf("idle=%d", idle), func(b *testing.B) { benchmarkCycle(b, idle) })
	}
}

func benchmarkCycle(b *testing.B, idle int) {
	n := stations(b, 1, Config{})[0]
	for range idle {
		rawConnect(b, n.addr)
	}
	worker, _ := session(b, n.addr)
	producer := connect(b, n.addr)
	var ok wire.OK
	worker.ask(wire.TypeSubscribe, &wire.Subscribe{Sub: 1, Queue: "q", Credit: 2000}, wire.TypeOK, &ok)
	const frames = 64
	var msg []byte
	for i := range frames {
		msg = wire.AppendFrame(msg, wire.TypeEnqueue, uint64(i+300), &wire.Enqueue{Queue: "q", Messages: []wire.Message{{Body: make(wire.Bytes, 256)}}})
	}
	rounds := b.N/frames + 1
	b.ReportAllocs()
	b.ResetTimer()
	from := processCPU(b)
	defer func() { b.ReportMetric((processCPU(b)-from)/float64(b.N), "cpu-ns/op") }()
	done := make(chan struct{})
	go func() { // the producer: four messages of 64 frames under way
		defer close(done)
		window := make(chan struct{}, 4)
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			for got := 0; got < rounds*frames; {
				_, r, err := producer.ws.ReadMessage()
				if err != nil {
					b.Error(err)
					return
				}
				for len(r) > 0 {
					if _, r, err = wire.Next(r); err != nil {
						b.Error(err)
						return
					}
					if got++; got%frames == 0 {
						<-window
					}
				}
			}
		}()
		for i := range rounds {
			window <- struct{}{}
			for j := range frames { // tags are unique among those under way
				binary.BigEndian.PutUint16(msg[j*len(msg)/frames+3:], uint16(300+(i*frames+j)%5000))
			}
			if err := producer.ws.WriteMessage(websocket.BinaryMessage, msg); err != nil {
				b.Error(err)
				return
			}
		}
		<-answered
	}()
	acked, tag := 0, uint64(300)
	var d wire.Delivery
	var strings wire.Strings
	var out []byte
	for acked < rounds*frames {
		_, r, err := worker.ws.ReadMessage()
		if err != nil {
			b.Fatal(err)
		}
		out = out[:0]
		for len(r) > 0 {
			var f wire.Raw
			if f, r, err = wire.Next(r); err != nil {
				b.Fatal(err)
			}
			if f.Type == wire.TypeAcked {
				acked++
				continue
			}
			if err := f.DecodeWith(&d, &strings); err != nil {
				b.Fatal(err)
			}
			for _, m := range d.Messages {
				tag++
				out = wire.AppendFrame(out, wire.TypeAck, tag, &wire.Ack{Token: m.Token})
			}
		}
		if len(out) > 0 {
			if err := worker.ws.WriteMessage(websocket.BinaryMessage, out); err != nil {
				b.Fatal(err)
			}
		}
	}
	<-done
}

// processCPU is the processor time of this process so far, ns.
func processCPU(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano() + u.Stime.Nano())
}
