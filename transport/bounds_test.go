package transport

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/wire"
)

func TestBounds(t *testing.T) {
	b := leading()
	b.hold = true
	_, addr := doors(t, Config{Broker: b, MaxUnderWay: 4, FlushTimeout: 10 * time.Millisecond})
	t.Run("requests under way", func(t *testing.T) {
		p := connect(t, addr)
		for i := range 5 {
			p.send(wire.TypeEnqueue, uint64(i+10), one("x"))
		}
		var f wire.Fault
		p.answer(14, wire.TypeFault, &f)
		if f.Code != wire.CodeOverloaded || f.RetryAfterMillis == 0 || !strings.Contains(f.Message, "4 requests") {
			t.Errorf("got %+v", f)
		}
	})
}

// Reads that wait in vain, as without a majority, take up neither local reads nor more than their connection's share.
func TestStuckReads(t *testing.T) {
	b := leading()
	b.stuck = true
	s, addr := doors(t, Config{Broker: b, MaxSlow: readTurns})
	p, q := connect(t, addr), connect(t, addr)
	for i := range readTurns {
		p.send(wire.TypeQueueShow, uint64(i+10), &wire.QueueRef{Queue: "q"})
	}
	f := p.refused(wire.TypeQueueShow, &wire.QueueRef{Queue: "q"}, wire.CodeOverloaded)
	if f.RetryAfterMillis == 0 {
		t.Errorf("got %+v", f)
	}
	waitFor(t, func() bool { return len(s.turns) == readTurns })
	q.refused(wire.TypeQueueShow, &wire.QueueRef{Queue: "q", Stale: true}, wire.CodeNotFound)
	_ = p.ws.Close() // which ends what waits for it
	waitFor(t, func() bool { return len(s.turns) == 0 && len(s.all()) == 1 })
	b.mu.Lock()
	b.stuck = false
	b.mu.Unlock()
	q.refused(wire.TypeQueueShow, &wire.QueueRef{Queue: "q"}, wire.CodeNotFound)
}

func TestReadsEnd(t *testing.T) {
	b := leading()
	b.stuck = true
	_, addr := doors(t, Config{Broker: b, CallTimeout: 50 * time.Millisecond})
	p := connect(t, addr)
	for typ, req := range map[wire.Type]any{
		wire.TypeQueueShow: &wire.QueueRef{Queue: "q"},
		wire.TypePeek:      &wire.Peek{Queue: "q"},
		wire.TypeTask:      &wire.TaskGet{Task: wire.TaskRef{Queue: "q", TaskID: "t"}},
		wire.TypeResultGet: &wire.ResultGet{Task: wire.TaskRef{Queue: "q", TaskID: "t"}, WaitMillis: 10},
	} {
		if f := p.refused(typ, req, wire.CodeTimeout); f.Unknown {
			t.Errorf("type %d: a read that failed is said to be unknown", typ)
		}
	}
	b.mu.Lock()
	b.hold = true // and an operation that is never answered
	b.mu.Unlock()
	p.refused(wire.TypeOpenSession, &wire.OpenSession{}, wire.CodeTimeout)
}

// A peer that asks and never reads is cut off: when what it is owed passes the bound, and it is told so if it comes back
// to reading in time; or when a write to it does not end.
func TestSlowReader(t *testing.T) {
	for _, tc := range []struct {
		what string
		cfg  Config
		code int // when it reads again; 0: the connection is just gone
	}{
		{"closed", Config{OutBytes: 64 << 10, WriteTimeout: patience}, CloseSlowConsumer},
		{"stalled", Config{OutBytes: 64 << 20, WriteTimeout: time.Second}, 0}, // which holds for the bystander too
	} {
		t.Run(tc.what, func(t *testing.T) {
			b := leading()
			cfg := tc.cfg
			cfg.Broker = b
			s, addr := doors(t, cfg)
			bystander := connect(t, addr)
			p := connect(t, addr)
			if err := p.ws.NetConn().(*net.TCPConn).SetReadBuffer(4096); err != nil {
				t.Fatal(err)
			}
			b.mu.Lock()
			b.refuse = &group.Error{Code: "overloaded", Message: strings.Repeat("x", 1000)} // 1 KB of answer for each request
			b.mu.Unlock()
			asked := make(chan struct{})
			go func() {
				defer close(asked)
				tag := uint64(10)
				for range 1000 {
					var m []byte
					for range 100 {
						tag++
						m = wire.AppendFrame(m, wire.TypeEnqueue, tag, one("x"))
					}
					if p.ws.WriteMessage(websocket.BinaryMessage, m) != nil {
						return
					}
				}
			}()
			waitFor(t, func() bool {
				_, text, _ := get(t, "http://"+addr+"/metrics")
				return strings.Contains(text, `quorate_slow_consumers_total{what="`+tc.what+`"} 1`)
			})
			if tc.code != 0 {
				if code, text, _ := p.closed(); code != tc.code {
					t.Errorf("closed with %d %q", code, text)
				}
			}
			_ = p.ws.Close()
			<-asked
			waitFor(t, func() bool { return len(s.all()) == 1 })
			b.mu.Lock()
			b.refuse = nil
			b.mu.Unlock()
			var rep wire.Enqueued
			bystander.ask(wire.TypeEnqueue, one("x"), wire.TypeEnqueued, &rep)
		})
	}
}
