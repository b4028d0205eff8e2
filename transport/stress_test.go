package transport

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/quorate/quorate/wire"
)

// A worker that takes deliveries and does not read them: what it is owed stays within the bound, its leases come back
// free, other workers do all the work.
func TestSlowConsumer(t *testing.T) {
	n := stations(t, 1, Config{OutBytes: 1 << 20, WriteTimeout: time.Minute, PongTimeout: time.Minute})[0]
	producer := connect(t, n.addr)
	slow, _ := session(t, n.addr)
	if err := slow.ws.NetConn().(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	var ok wire.OK
	slow.ask(wire.TypeSubscribe, &wire.Subscribe{Sub: 1, Queue: "q", Credit: 10_000}, wire.TypeOK, &ok)
	body := make(wire.Bytes, 64<<10)
	const total = 240 // 15 MiB: more than the sockets' buffers and the bound together
	for range total / 10 {
		var rep wire.Enqueued
		producer.ask(wire.TypeEnqueue, &wire.Enqueue{Queue: "q", Messages: []wire.Message{
			{Body: body}, {Body: body}, {Body: body}, {Body: body}, {Body: body}, {Body: body}, {Body: body}, {Body: body}, {Body: body}, {Body: body},
		}}, wire.TypeEnqueued, &rep)
	}
	// What the slow one's sockets and outbox hold is a part; the rest is there for others.
	fast, _ := session(t, n.addr)
	got := 0
	for got < 50 {
		var l wire.Leased
		fast.ask(wire.TypeLease, &wire.Lease{Queue: "q", Max: 25, WaitMillis: 5000}, wire.TypeLeased, &l)
		for _, m := range l.Messages {
			if m.Attempt != 1 {
				t.Errorf("attempt %d of a message that nobody started", m.Attempt)
			}
			var a wire.Acked
			fast.ask(wire.TypeAck, &wire.Ack{Token: m.Token}, wire.TypeAcked, &a)
			got++
		}
	}
	conns := n.doors.all()
	for _, c := range conns {
		c.mu.Lock()
		const bound = 2 * (1<<20 + 2*wire.MaxLeaseBytes + 100*frameOverhead)
		if owed := len(c.out) + c.taken; owed > bound {
			t.Errorf("%d bytes owed, bound %d", owed, bound)
		}
		c.mu.Unlock()
	}
	if len(conns) != 3 {
		t.Errorf("%d connections: declined deliveries close none", len(conns))
	}
}

// Everything at once, for the race detector: producers, workers, a reader that does not read, pings from both sides,
// sessions that are stolen, consumers that come and go, listings and scrapes, and a stop in the middle. (C55)
func TestEverythingAtOnce(t *testing.T) {
	n := stations(t, 1, Config{PingEvery: 5 * time.Millisecond, PongTimeout: 5 * time.Second, OutBytes: 1 << 20, FlushTimeout: 200 * time.Millisecond})[0]
	var wg sync.WaitGroup
	var acked atomic.Int64
	enough := int64(2000)
	if racing {
		enough = 500
	}
	half := make(chan struct{})
	var once sync.Once
	run := func(f func(p *peer) error) {
		p, _ := session(t, n.addr)
		wg.Go(func() {
			for f(p) == nil {
			}
			_ = p.ws.Close()
		})
	}
	write := func(p *peer, typ wire.Type, body any) error {
		p.tag++
		return p.ws.WriteMessage(websocket.BinaryMessage, wire.AppendFrame(nil, typ, p.tag, body))
	}
	for i := range 3 {
		run(func(p *peer) error { // producers
			if err := write(p, wire.TypeEnqueue, &wire.Enqueue{Queue: fmt.Sprint("q", i%2), Messages: []wire.Message{{Body: make(wire.Bytes, 300)}, {Body: make(wire.Bytes, 30), TaskID: ""}}}); err != nil {
				return err
			}
			_, err := p.read()
			return err
		})
	}
	credit := int64(0)
	run(func(p *peer) error { // a consumer that comes and goes, and whose queue does
		credit++
		switch credit % 4 {
		case 0:
			return write(p, wire.TypeUnsubscribe, &wire.Unsubscribe{Sub: 1})
		case 1:
			return write(p, wire.TypeSubscribe, &wire.Subscribe{Sub: 1, Queue: "comes", Credit: 5})
		case 2:
			return write(p, wire.TypeEnqueue, &wire.Enqueue{Queue: "comes", Messages: make([]wire.Message, 3)})
		default:
			if err := write(p, wire.TypeQueueDelete, &wire.QueueRef{Queue: "comes"}); err != nil {
				return err
			}
		}
		for { // to the answer of the last, deliveries on the way
			if f, err := p.read(); err != nil || f.Tag == p.tag {
				return err
			}
		}
	})
	for i := range 3 {
		subscribed := false
		run(func(p *peer) error { // workers
			if !subscribed {
				subscribed = true
				return write(p, wire.TypeSubscribe, &wire.Subscribe{Sub: 1, Queue: fmt.Sprint("q", i%2), Credit: 50})
			}
			f, err := p.read()
			if err != nil || f.Type != wire.TypeDelivery {
				return err
			}
			var d wire.Delivery
			if err := f.Decode(&d); err != nil {
				t.Error(err)
			}
			for _, m := range d.Messages {
				if err := write(p, wire.TypeAck, &wire.Ack{Token: m.Token}); err != nil {
					return err
				}
				if acked.Add(1) == enough {
					once.Do(func() { close(half) })
				}
			}
			return nil
		})
	}
	run(func(p *peer) error { // pings
		return p.ws.WriteControl(websocket.PingMessage, []byte("x"), time.Now().Add(patience))
	})
	deaf, sid := session(t, n.addr) // asks and does not read
	wg.Go(func() {
		for write(deaf, wire.TypeQueueList, &wire.QueueList{}) == nil {
		}
	})
	wg.Go(func() { // steals the session
		for {
			d := websocket.Dialer{Subprotocols: []string{wire.Subprotocol}}
			ws, resp, err := d.Dial("ws://"+n.addr+"/v1/ws", nil)
			if resp != nil {
				_ = resp.Body.Close()
			}
			if err != nil {
				return
			}
			b := wire.AppendFrame(nil, wire.TypeHello, 1, &wire.Hello{Versions: []uint16{1}})
			b = wire.AppendFrame(b, wire.TypeOpenSession, 2, &wire.OpenSession{Session: sid})
			b = wire.AppendFrame(b, wire.TypeSubscribe, 3, &wire.Subscribe{Sub: 1, Queue: "q0", Credit: 5})
			_ = ws.WriteMessage(websocket.BinaryMessage, b)
			_, _, _ = ws.ReadMessage()
			_ = ws.Close()
		}
	})
	scraped := make(chan struct{})
	wg.Go(func() {
		defer close(scraped)
		for {
			select {
			case <-half:
				return
			default:
				get(t, "http://"+n.addr+"/metrics")
			}
		}
	})
	select {
	case <-half:
	case <-time.After(6 * patience):
		t.Fatalf("only %d acks", acked.Load())
	}
	<-scraped // a scrape that finds no doors any more would fail the test
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.doors.Stop(ctx); err != nil {
		t.Error(err)
	}
	wg.Wait()
}
