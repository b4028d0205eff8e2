package client

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/quorate/quorate/wire"
)

// FuzzServer has a server answer with anything at all, after an honest welcome, while calls of every kind are under way.
// The client must neither panic nor hang: each call ends by its time.
func FuzzServer(f *testing.F) {
	tok := "0000000000000000000000000000000000000000000000000001"
	id := tok[:26]
	for _, body := range []struct {
		t    wire.Type
		tag  uint64
		body any
	}{
		{wire.TypeEnqueued, 3, &wire.Enqueued{Outcomes: []wire.Outcome{{ID: id}, {Fault: wire.NewFault(wire.CodeQueueFull, "full")}}}},
		{wire.TypeDelivery, 0, &wire.Delivery{Sub: 1, Messages: []wire.Delivered{{ID: id, Token: id + id, Attempt: 1, LeaseLeftMillis: 100, TimeoutMillis: 1}}}},
		{wire.TypeLeaseGone, 0, &wire.LeaseGone{Sub: 1, Tokens: []string{tok}}},
		{wire.TypeRedirect, 0, &wire.Redirect{Reason: "stopping"}},
		{wire.TypeFault, 0, wire.NewFault(wire.CodeInternal, "oh")},
		{wire.TypeFault, 2, wire.NewFault(wire.CodeSessionExpired, "oh")},
		{wire.TypeFault, 4, wire.NewFault(wire.CodeOverloaded, "oh")},
		{wire.TypeOK, 1, &wire.OK{}},
		{wire.TypeResumed, 1, &wire.Resumed{Lost: []string{tok}}},
		{wire.TypeAcked, 4, &wire.Acked{}},
		{wire.TypeAckedBatch, 4, &wire.AckedBatch{Others: []wire.AckOutcome{{Index: 1, Again: true}}}},
		{wire.TypeAckedBatch, 3, &wire.AckedBatch{Others: []wire.AckOutcome{{Fault: wire.NewFault(wire.CodeOverloaded, "oh")}, {Index: 1, Duplicate: true}}}},
		{wire.TypeLeased, 5, &wire.Leased{}},
		{wire.TypeWelcome, 1, &wire.Welcome{}},
	} {
		f.Add(wire.AppendFrame(nil, body.t, body.tag, body.body))
	}
	two := wire.AppendFrame(nil, wire.TypeOK, 1, &wire.OK{})
	f.Add(wire.AppendFrame(two, wire.TypeEnqueued, 2, &wire.Enqueued{Outcomes: []wire.Outcome{{ID: id}}}))
	f.Add([]byte("\x83\x05"))

	answers := make(chan []byte, 1)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = ws.Close() }()
		send := func(b []byte) { _ = ws.WriteMessage(websocket.BinaryMessage, b) }
		if _, _, err := ws.ReadMessage(); err != nil {
			return
		}
		send(wire.AppendFrame(nil, wire.TypeWelcome, 1, &wire.Welcome{Version: 1, IsLeader: true, MaxMessageBytes: 1 << 20, MaxFrameBytes: 3 << 20, PingMillis: 5000}))
		if _, _, err := ws.ReadMessage(); err != nil {
			return
		}
		send(wire.AppendFrame(nil, wire.TypeSessionOpened, 1, &wire.SessionOpened{Session: id}))
		for n := 0; ; n++ {
			if _, _, err := ws.ReadMessage(); err != nil {
				return
			}
			if n == 0 {
				select {
				case b := <-answers:
					send(b)
				default:
				}
			}
		}
	})}
	go func() { _ = srv.Serve(ln) }()
	f.Cleanup(func() { _ = srv.Close() })

	f.Fuzz(func(t *testing.T, msg []byte) {
		select { // of the last input, if it was not fetched
		case <-answers:
		default:
		}
		answers <- msg
		c, err := Open(t.Context(), Options{Addrs: []string{ln.Addr().String()}, Timeout: 30 * time.Millisecond, Seed: 1})
		if errors.Is(err, context.DeadlineExceeded) {
			return // a busy machine
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		ended := make(chan string, 8)
		go func() {
			_ = c.Consume(ctx, "q", ConsumeOptions{DrainTimeout: -1}, func(ctx context.Context, d *Delivery) (*Result, error) { return nil, io.EOF })
			ended <- "consume"
		}()
		go func() { _, _ = c.EnqueueBatch(ctx, "q", make([]Message, 2)); ended <- "batch" }()
		go func() { _, _ = c.Enqueue(ctx, "q", Message{}); ended <- "enqueue" }()
		go func() { _, _ = c.Lease(ctx, "q", LeaseOptions{}); ended <- "lease" }()
		go func() { _, _ = c.Queue(ctx, "q"); ended <- "queue" }()
		for range 2 { // which mostly go together
			if err := c.AckAsync(ctx, tok, AckOptions{}, func(Acked, error) { ended <- "ack" }); err != nil {
				if ctx.Err() == nil {
					t.Fatal(err)
				}
				ended <- "ack" // a busy machine: its time was over before it began
			}
		}
		late := time.NewTimer(20 * time.Second)
		defer late.Stop()
		for range 7 {
			select {
			case <-ended:
			case <-late.C:
				t.Fatal("a call does not end")
			}
		}
		_ = c.Close(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.pending != 0 || c.acks != 0 {
			t.Errorf("left: %d pending, %d acks", c.pending, c.acks)
		}
	})
}
