package transport

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

func leading() *fakeBroker {
	b := &fakeBroker{ready: true}
	b.status = group.Status{Leader: true, Ready: true, LeaderAddr: "127.0.0.1:7340"}
	return b
}

func one(body string) *wire.Enqueue {
	return &wire.Enqueue{Queue: "q", Messages: []wire.Message{{Body: wire.Bytes(body)}}}
}

func TestHello(t *testing.T) {
	b := leading()
	b.status.Leader = false
	_, addr := doors(t, Config{Broker: b, Version: "v0", MaxMessageBytes: 2048})
	t.Run("welcome", func(t *testing.T) {
		p := dial(t, addr)
		p.send(wire.TypeHello, 3, &wire.Hello{Versions: []uint16{9, 1}})
		var w wire.Welcome
		p.answer(3, wire.TypeWelcome, &w)
		want := wire.Welcome{
			Version: 1, Node: "n1", Cluster: b.Cluster(), Leader: "127.0.0.1:7340", MaxMessageBytes: 2048,
			MaxFrameBytes: wire.MaxFrameBytes(2048), MaxBatch: 1000, PingMillis: 3000, Server: "v0",
		}
		if w != want {
			t.Errorf("got %+v, want %+v", w, want)
		}
	})
	t.Run("no common version", func(t *testing.T) {
		p := dial(t, addr)
		p.send(wire.TypeHello, 3, &wire.Hello{Versions: []uint16{2, 3}})
		var f wire.Fault
		p.answer(3, wire.TypeFault, &f)
		if f.Code != wire.CodeUnsupportedVersion || !strings.Contains(f.Message, "speaks version 1") {
			t.Errorf("got %v", &f)
		}
		if code, _, _ := p.closed(); code != CloseVersion {
			t.Errorf("closed with %d", code)
		}
	})
}

func TestTags(t *testing.T) {
	b := leading()
	_, addr := doors(t, Config{Broker: b})
	t.Run("used again after its answer", func(t *testing.T) {
		p := connect(t, addr)
		for range 3 {
			var rep wire.Enqueued
			p.send(wire.TypeEnqueue, 5, one("x"))
			p.answer(5, wire.TypeEnqueued, &rep)
		}
	})
	t.Run("twice under way", func(t *testing.T) {
		p := connect(t, addr)
		b.mu.Lock()
		b.hold = true
		b.mu.Unlock()
		t.Cleanup(func() {
			b.mu.Lock()
			b.hold = false
			b.mu.Unlock()
		})
		m := wire.AppendFrame(nil, wire.TypeEnqueue, 5, one("x"))
		p.sendRaw(wire.AppendFrame(m, wire.TypeEnqueue, 5, one("y")))
		code, _, faults := p.closed()
		if code != CloseBadFrame || len(faults) != 1 || !strings.Contains(faults[0].Message, "tag 5") {
			t.Errorf("closed with %d, %v", code, faults)
		}
	})
}

func TestUnknownRequest(t *testing.T) {
	_, addr := doors(t, Config{})
	p := connect(t, addr)
	m := []byte{0x83, 0x19, 0x03, 0xe8, 0x18, 0x63, 0xa0} // type 1000, tag 99, {}
	p.sendRaw(m)
	var f wire.Fault
	p.answer(99, wire.TypeFault, &f)
	if f.Code != wire.CodeUnsupportedVersion || !strings.Contains(f.Message, "1000") {
		t.Errorf("got %v", &f)
	}
	var rep wire.Enqueued
	p.ask(wire.TypeEnqueue, one("x"), wire.TypeEnqueued, &rep)
}

// One bad message is refused alone; the others keep their places and their request numbers.
func TestBatchWithBadMessages(t *testing.T) {
	b := leading()
	_, addr := doors(t, Config{Broker: b, MaxMessageBytes: 2 << 20})
	p, _ := session(t, addr)
	high := uint8(10)
	req := &wire.Enqueue{Queue: "q", Request: wire.Request{Number: 40, Low: 30}, Messages: []wire.Message{
		{Body: wire.Bytes("0")},
		{Body: wire.Bytes("1"), TaskID: "t1"},
		{Body: wire.Bytes("2"), Priority: &high},
		{Body: make(wire.Bytes, 2<<20+1)},
		{Body: wire.Bytes("4")},
		{Body: wire.Bytes("5"), DelayMillis: 1, EnqueueAt: 1},
		{Body: wire.Bytes("6")},
	}}
	var rep wire.Enqueued
	p.ask(wire.TypeEnqueue, req, wire.TypeEnqueued, &rep)
	if len(rep.Outcomes) != len(req.Messages) {
		t.Fatalf("%d outcomes", len(rep.Outcomes))
	}
	for i, says := range []string{"", "", "priority", "body", "", "delay_ms", ""} {
		o := rep.Outcomes[i]
		if says == "" && (o.Fault != nil || len(o.ID) != wire.IDBytes) || says != "" && (o.Fault == nil || !strings.Contains(o.Fault.Message, says)) {
			t.Errorf("outcome %d: %+v %v, want %q", i, o, o.Fault, says)
		}
	}
	if rep.Outcomes[3].Fault.Code != wire.CodeTooLarge || rep.Outcomes[1].TaskID != "t1" || rep.Outcomes[0].TaskID != "" {
		t.Errorf("got %+v", rep.Outcomes)
	}
	var got []string
	var numbers []uint64
	for _, op := range b.ops {
		if e, ok := op.(*fsm.Enqueue); ok {
			if e.Request.Session.IsZero() || e.Request.Low != 30 || !e.AutoCreate {
				t.Errorf("proposed %+v", e.Request)
			}
			numbers = append(numbers, e.Request.Number)
			s := ""
			for _, m := range e.Messages {
				s += string(m.Body)
			}
			got = append(got, s)
		}
	}
	if strings.Join(got, ",") != "01,4,6" || len(numbers) != 3 || numbers[0] != 40 || numbers[1] != 44 || numbers[2] != 46 {
		t.Errorf("proposed %q with numbers %d", got, numbers)
	}
	t.Run("all bad", func(t *testing.T) {
		p.ask(wire.TypeEnqueue, &wire.Enqueue{Queue: "q", Messages: req.Messages[2:4]}, wire.TypeEnqueued, &rep)
		if len(rep.Outcomes) != 2 || rep.Outcomes[0].Fault == nil || rep.Outcomes[1].Fault == nil {
			t.Errorf("got %+v", rep.Outcomes)
		}
	})
	t.Run("too many bytes that are good each", func(t *testing.T) {
		f := p.refused(wire.TypeEnqueue, &wire.Enqueue{Queue: "q", Messages: []wire.Message{
			{Body: make(wire.Bytes, 1<<20)}, {Body: make(wire.Bytes, 1<<20)}, {Body: wire.Bytes("x")},
		}}, wire.CodeTooLarge)
		if f.Unknown {
			t.Error("unknown")
		}
	})
}

// A message of many frames: answered in order, in few messages, and proposed together.
func TestManyFramesInOneMessage(t *testing.T) {
	_, addr := doors(t, Config{})
	p := connect(t, addr)
	var m []byte
	for i := range 300 {
		m = wire.AppendFrame(m, wire.TypeEnqueue, uint64(i+10), one("x"))
	}
	p.sendRaw(m)
	for i := range 300 {
		var rep wire.Enqueued
		p.answer(uint64(i+10), wire.TypeEnqueued, &rep)
	}
}

func TestGroupErrors(t *testing.T) {
	b := leading()
	_, addr := doors(t, Config{Broker: b})
	p := connect(t, addr)
	for _, tc := range []struct {
		name string
		err  group.Error
		want wire.Fault
	}{
		{"not leader", group.Error{Code: "not_leader", Message: "m", Leader: "127.0.0.1:9"},
			wire.Fault{Code: wire.CodeNotLeader, Message: "m", Retry: true, Leader: "127.0.0.1:9"}},
		{"no leader", group.Error{Code: "no_leader", Message: "m", RetryAfter: 100 * time.Millisecond},
			wire.Fault{Code: wire.CodeNoLeader, Message: "m", Retry: true, RetryAfterMillis: 100}},
		{"no leader, no hint", group.Error{Code: "no_leader", Message: "m"},
			wire.Fault{Code: wire.CodeNoLeader, Message: "m", Retry: true, RetryAfterMillis: 250}},
		{"overloaded", group.Error{Code: "overloaded", Message: "m", RetryAfter: 50 * time.Millisecond},
			wire.Fault{Code: wire.CodeOverloaded, Message: "m", Retry: true, RetryAfterMillis: 50}},
		{"leadership lost after proposing", group.Error{Code: "timeout", Message: "m", Unknown: true},
			wire.Fault{Code: wire.CodeTimeout, Message: "m", Retry: true, Unknown: true}},
		{"refused though the code is often unknown", group.Error{Code: "internal", Message: "m"},
			wire.Fault{Code: wire.CodeInternal, Message: "m"}},
		{"a code of the future", group.Error{Code: "odd", Message: "m", Unknown: true},
			wire.Fault{Code: wire.CodeInternal, Message: "m", Unknown: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b.mu.Lock()
			b.refuse = &tc.err
			b.mu.Unlock()
			if f := p.refused(wire.TypeEnqueue, one("x"), tc.want.Code); *f != tc.want {
				t.Errorf("got %+v, want %+v", *f, tc.want)
			}
			if f := p.refused(wire.TypeOpenSession, &wire.OpenSession{}, tc.want.Code); *f != tc.want {
				t.Errorf("open session got %+v, want %+v", *f, tc.want)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	b := leading()
	_, addr := doors(t, Config{Broker: b})
	p, _ := session(t, addr)
	id := fsm.MakeID(1, 0, 7, 0)
	token := fsm.Token{Message: id, Lease: id}.String()
	ack := &wire.Ack{Token: token}
	replace := &wire.TaskReschedule{Task: wire.TaskRef{Queue: "q", TaskID: "t"}, Replace: &wire.Replacement{}}
	push := &wire.ResultPush{Task: wire.TaskRef{Queue: "q", TaskID: "t"}}
	for _, tc := range []struct {
		name string
		typ  wire.Type
		req  any
		out  fsm.Outcome
		code wire.Code
		says string
	}{
		{"ack, lease lost", wire.TypeAck, ack, fsm.Outcome{Code: fsm.LeaseLost, Field: fsm.FieldToken}, wire.CodeLeaseLost, "token"},
		{"ack, not found", wire.TypeAck, ack, fsm.Outcome{Code: fsm.NotFound}, wire.CodeNotFound, "token"},
		{"ack, queue of then missing", wire.TypeAck, ack, fsm.Outcome{Code: fsm.NotFound, Field: fsm.FieldThen}, wire.CodeNotFound, "then"},
		{"ack, other result", wire.TypeAck, ack, fsm.Outcome{Code: fsm.AlreadyExists, Field: fsm.FieldResult, ID: id}, wire.CodeAlreadyExists, "first"},
		{"ack, results full", wire.TypeAck, ack, fsm.Outcome{Code: fsm.QueueFull, Field: fsm.FieldResults, Limit: 77}, wire.CodeQueueFull, "77 bytes"},
		{"ack, a chain of more messages than fit", wire.TypeAck, ack, fsm.Outcome{Code: fsm.TooLarge, Field: fsm.FieldDepth, Limit: 3}, wire.CodeTooLarge, "max_depth: a queue of then may hold 3 messages"},
		{"ack, a chain of more bytes than fit", wire.TypeAck, ack, fsm.Outcome{Code: fsm.TooLarge, Field: fsm.FieldBytes, Limit: 4}, wire.CodeTooLarge, "max_bytes: a queue of then may hold 4 bytes"},
		{"replace, too large for its queue", wire.TypeTaskReschedule, replace, fsm.Outcome{Code: fsm.TooLarge, Field: fsm.FieldBytes, Limit: 5}, wire.CodeTooLarge, "may hold 5 bytes"},
		{"nack, cancelled", wire.TypeNack, &wire.Nack{Token: token}, fsm.Outcome{Code: fsm.Cancelled}, wire.CodeCancelled, "cancelled"},
		{"extend, out of range", wire.TypeExtend, &wire.Extend{Token: token}, fsm.Outcome{Code: fsm.InvalidArgument, Field: fsm.FieldLease, Limit: 43200000}, wire.CodeInvalidArgument, "lease_ms: outside its limits: at most 43200000"},
		{"push, unknown task", wire.TypeResultPush, push, fsm.Outcome{Code: fsm.NotFound, Field: fsm.FieldTaskID}, wire.CodeNotFound, "task"},
		{"push, session gone", wire.TypeResultPush, push, fsm.Outcome{Code: fsm.SessionExpired, Field: fsm.FieldRequest}, wire.CodeSessionExpired, "session"},
		{"push, far above low", wire.TypeResultPush, push, fsm.Outcome{Code: fsm.InvalidArgument, Field: fsm.FieldRequest, Limit: 4096}, wire.CodeInvalidArgument, "4096"},
		{"create, exists", wire.TypeQueueCreate, &wire.QueueWrite{Queue: "q"}, fsm.Outcome{Code: fsm.AlreadyExists, Field: fsm.FieldOptions}, wire.CodeAlreadyExists, "other options"},
		{"create, too many", wire.TypeQueueCreate, &wire.QueueWrite{Queue: "q"}, fsm.Outcome{Code: fsm.Overloaded, Field: fsm.FieldQueues, Limit: 5}, wire.CodeOverloaded, "5 queues"},
		{"delete, missing", wire.TypeQueueDelete, &wire.QueueRef{Queue: "q"}, fsm.Outcome{Code: fsm.NotFound, Field: fsm.FieldQueue}, wire.CodeNotFound, `queue "q"`},
		{"a code of the future", wire.TypeQueueDelete, &wire.QueueRef{Queue: "q"}, fsm.Outcome{Code: 99}, wire.CodeInternal, "99"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b.mu.Lock()
			b.outcome = func(fsm.Op) []fsm.Outcome { return []fsm.Outcome{tc.out} }
			b.mu.Unlock()
			f := p.refused(tc.typ, tc.req, tc.code)
			if !strings.Contains(f.Message, tc.says) {
				t.Errorf("says %q, which does not name %q", f.Message, tc.says)
			}
			if f.At == nil || f.At.Index == 0 {
				t.Error("a refusal of the state carries no index")
			}
		})
	}
	for _, tc := range []struct {
		name string
		out  fsm.Outcome
		code wire.Code
		says string
		id   string
	}{
		{"task id taken", fsm.Outcome{Code: fsm.AlreadyExists, Field: fsm.FieldTaskID, ID: id}, wire.CodeAlreadyExists, "task_id", id.String()},
		{"dedup key with another body", fsm.Outcome{Code: fsm.AlreadyExists, Field: fsm.FieldDedupKey, ID: id}, wire.CodeAlreadyExists, "dedup_key", id.String()},
		{"dead letters full", fsm.Outcome{Code: fsm.QueueFull, Field: fsm.FieldDead, Limit: 12}, wire.CodeQueueFull, "12 dead letters", ""},
		{"dedup keys full", fsm.Outcome{Code: fsm.QueueFull, Field: fsm.FieldDedup, Limit: 13}, wire.CodeQueueFull, "13 dedup keys", ""},
		{"messages full", fsm.Outcome{Code: fsm.QueueFull, Field: fsm.FieldTasks, Limit: 14}, wire.CodeQueueFull, "14 messages", ""},
		{"no such queue", fsm.Outcome{Code: fsm.NotFound, Field: fsm.FieldQueue}, wire.CodeNotFound, `queue "q"`, ""},
		{"too large", fsm.Outcome{Code: fsm.TooLarge, Field: fsm.FieldBody, Limit: 15}, wire.CodeTooLarge, "15 bytes", ""},
		{"too large for the queue", fsm.Outcome{Code: fsm.TooLarge, Field: fsm.FieldBytes, Limit: 16}, wire.CodeTooLarge, `max_bytes: queue "q" may hold 16 bytes`, ""},
	} {
		t.Run("enqueue, "+tc.name, func(t *testing.T) {
			b.mu.Lock()
			b.outcome = func(fsm.Op) []fsm.Outcome { return []fsm.Outcome{tc.out} }
			b.mu.Unlock()
			var rep wire.Enqueued
			p.ask(wire.TypeEnqueue, one("x"), wire.TypeEnqueued, &rep)
			f := rep.Outcomes[0].Fault
			if f == nil || f.Code != tc.code || !strings.Contains(f.Message, tc.says) || f.ID != tc.id {
				t.Errorf("got %+v", f)
			}
			if f != nil && f.Code == wire.CodeTooLarge && (f.Retry || f.Unknown || f.RetryAfterMillis != 0 || f.Field == "") {
				t.Errorf("flags of %+v", f)
			}
			if f != nil && f.Code == wire.CodeQueueFull && (f.RetryAfterMillis == 0 || !f.Retry || f.Unknown) {
				t.Errorf("flags of %+v", f)
			}
		})
	}
}

func TestSessionIsNeeded(t *testing.T) {
	_, addr := doors(t, Config{})
	p := connect(t, addr)
	e := one("x")
	e.Request = wire.Request{Number: 1, Low: 1}
	p.refused(wire.TypeEnqueue, e, wire.CodeFailedPrecondition)
	p.refused(wire.TypeSubscribe, &wire.Subscribe{Sub: 1, Queue: "q", Credit: 1}, wire.CodeFailedPrecondition)
	p.refused(wire.TypeLease, &wire.Lease{Queue: "q", Max: 1}, wire.CodeFailedPrecondition)
	p.refused(wire.TypeResume, &wire.Resume{Subscribe: wire.Subscribe{Sub: 1, Queue: "q", Credit: 1}}, wire.CodeFailedPrecondition)
	var rep wire.Enqueued
	p.ask(wire.TypeEnqueue, one("x"), wire.TypeEnqueued, &rep) // without a request id none is needed
	var o wire.SessionOpened
	p.ask(wire.TypeOpenSession, &wire.OpenSession{}, wire.TypeSessionOpened, &o)
	p.ask(wire.TypeOpenSession, &wire.OpenSession{Session: o.Session}, wire.TypeSessionOpened, &o) // refreshes it
	p.refused(wire.TypeOpenSession, &wire.OpenSession{}, wire.CodeFailedPrecondition)
	p.refused(wire.TypeOpenSession, &wire.OpenSession{Session: "x"}, wire.CodeInvalidArgument)
	var ok wire.OK
	p.ask(wire.TypeSubscribe, &wire.Subscribe{Sub: 1, Queue: "q", Credit: 1}, wire.TypeOK, &ok)
}

func TestPingPong(t *testing.T) {
	t.Run("a peer that answers stays, and one lost pong is nothing", func(t *testing.T) {
		_, addr := doors(t, Config{PingEvery: 300 * time.Millisecond, PongTimeout: 2 * time.Second})
		p := connect(t, addr)
		pings := 0
		p.ws.SetPingHandler(func(data string) error {
			pings++
			if pings == 2 {
				return nil
			}
			return p.ws.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(patience))
		})
		_ = p.ws.SetReadDeadline(time.Now().Add(5 * time.Second)) // more than two pong time-outs
		if _, _, err := p.ws.ReadMessage(); !strings.Contains(err.Error(), "timeout") {
			t.Errorf("got %v", err)
		}
		if pings < 5 {
			t.Errorf("%d pings", pings)
		}
	})
	t.Run("a silent peer is dropped", func(t *testing.T) {
		s, addr := doors(t, Config{PingEvery: 200 * time.Millisecond, PongTimeout: time.Second}) // long enough to say hello on a busy machine
		p := connect(t, addr)
		p.ws.SetPingHandler(func(string) error { return nil })
		if _, err := p.read(); err == nil {
			t.Error("a frame")
		}
		waitFor(t, func() bool { return len(s.all()) == 0 })
	})
	t.Run("pings are answered, the last of a flood at least", func(t *testing.T) {
		_, addr := doors(t, Config{})
		p := connect(t, addr)
		last := ""
		p.ws.SetPongHandler(func(data string) error { last = data; return nil })
		for i := range 1000 {
			data := "ping"
			if i == 999 {
				data = "last"
			}
			if err := p.ws.WriteControl(websocket.PingMessage, []byte(data), time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
		}
		var rep wire.Enqueued
		for last != "last" {
			p.ask(wire.TypeEnqueue, one("x"), wire.TypeEnqueued, &rep)
		}
	})
}

func TestReadiness(t *testing.T) {
	b := leading()
	s, addr := doors(t, Config{Broker: b})
	check := func(code int, want health) {
		t.Helper()
		got, body, h := get(t, "http://"+addr+"/readyz")
		var is health
		if err := json.Unmarshal([]byte(body), &is); err != nil || got != code || is != want || h.Get("Content-Type") != "application/json" {
			t.Errorf("got %d %s (%v), want %d %+v", got, body, err, code, want)
		}
	}
	check(200, health{Ready: true, Leader: true})
	b.status.Leader = false
	check(200, health{Ready: true})
	b.ready, b.reason = false, "no leader"
	check(503, health{Reason: "no leader"})
	b.ready, b.reason = true, "little room on disk"
	check(200, health{Ready: true, Reason: "little room on disk"})
	p := connect(t, addr)
	s.Drain()
	s.Drain()
	check(503, health{Reason: "stopping"})
	if code, body, _ := get(t, "http://"+addr+"/healthz"); code != 200 || body != "alive\n" {
		t.Errorf("health: %d %q", code, body)
	}
	if code, body, _ := get(t, "http://"+addr+"/v1/ws"); code != 503 || !strings.Contains(body, "stopping") {
		t.Errorf("upgrade while draining: %d %q", code, body)
	}
	var r wire.Redirect
	p.answer(0, wire.TypeRedirect, &r)
	if r != (wire.Redirect{Leader: "127.0.0.1:7340", Reason: "stopping"}) {
		t.Errorf("got %+v", r)
	}
	f := p.refused(wire.TypeOpenSession, &wire.OpenSession{}, wire.CodeNotLeader)
	if f.Leader != "127.0.0.1:7340" {
		t.Errorf("got %+v", f)
	}
	var rep wire.Enqueued // what is connected is served to the end
	p.ask(wire.TypeEnqueue, one("x"), wire.TypeEnqueued, &rep)
}

// Stop lets out the answers of what is under way, says 1001, and ends everything it started.
func TestStop(t *testing.T) {
	b := leading()
	s, addr := doors(t, Config{Broker: b})
	idle, busy := connect(t, addr), connect(t, addr)
	b.mu.Lock()
	b.hold = true
	b.mu.Unlock()
	busy.send(wire.TypeEnqueue, 5, one("x"))
	waitFor(t, func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.held) == 1 })
	stopped := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		stopped <- s.Stop(ctx)
	}()
	var r wire.Redirect
	busy.answer(0, wire.TypeRedirect, &r)
	b.mu.Lock()
	p := b.held[0]
	done := p.Done // the proposal is its owner's again within Complete
	done.Complete(p, nil, group.Stamp{Index: 9, Time: 9}, []fsm.Outcome{{ID: fsm.MakeID(1, 0, 9, 0)}}, nil, nil)
	done.(group.Flusher).Flush()
	b.mu.Unlock()
	var rep wire.Enqueued
	busy.answer(5, wire.TypeEnqueued, &rep)
	for _, p := range []*peer{idle, busy} {
		if code, text, _ := p.closed(); code != CloseStopping || !strings.Contains(text, "stopping") {
			t.Errorf("closed with %d %q", code, text)
		}
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// Stop does not wait for a peer that neither reads nor goes.
func TestStopIsBounded(t *testing.T) {
	b := leading()
	b.hold = true
	s, addr := doors(t, Config{Broker: b, FlushTimeout: 20 * time.Millisecond, Linger: 20 * time.Millisecond})
	p := connect(t, addr)
	p.send(wire.TypeEnqueue, 5, one("x"))
	waitFor(t, func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.held) == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	// The group answers after all: nobody is there, nothing happens.
	b.held[0].Done.Complete(b.held[0], nil, group.Stamp{}, nil, nil, &group.Error{Code: "timeout", Unknown: true})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		cfg  Config
		says string
	}{
		{"no broker", Config{}, "Broker"},
		{"body limit", Config{Broker: leading(), MaxMessageBytes: 17 << 20}, "max_message_bytes"},
		{"pong within a ping", Config{Broker: leading(), PingEvery: time.Minute}, "PongTimeout"},
		{"negative time", Config{Broker: leading(), WriteTimeout: -1}, "WriteTimeout"},
		{"negative bound", Config{Broker: leading(), MaxSlow: -1}, "MaxSlow"},
	} {
		if _, err := New(tc.cfg); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
