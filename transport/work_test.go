package transport

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// A message's way through, with every field, in and out by the socket alone.
func TestMessageByPull(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	p, _ := session(t, n.addr)
	nine := uint8(9)
	in := wire.Message{
		Body: wire.Bytes{0xff, 0xfe, 0x00}, TaskID: "task 1", Kind: "navigate_extract", ContentType: "application/x-odd",
		Headers:  []wire.Header{{Name: "traceparent", Value: "00-1"}, {Name: "empty", Value: ""}, {Name: "unicode", Value: "日本"}},
		Priority: &nine, Key: wire.Bytes{0, 1}, TTLMillis: 3600_000, TimeoutMillis: 60_000,
		Retry: &wire.RetryPolicy{Kind: wire.RetryFixed, InitialMillis: 1, MaxAttempts: 2},
	}
	var enq wire.Enqueued
	p.ask(wire.TypeEnqueue, &wire.Enqueue{Queue: "q", Messages: []wire.Message{in}, Request: wire.Request{Number: 1, Low: 1}}, wire.TypeEnqueued, &enq)
	o := enq.Outcomes[0]
	if o.Fault != nil || o.TaskID != "task 1" || o.Duplicate || len(o.ID) != wire.IDBytes || enq.At.Index == 0 || enq.At.Time == 0 {
		t.Fatalf("got %+v at %+v", o, enq.At)
	}
	t.Run("the same request again", func(t *testing.T) {
		var again wire.Enqueued
		p.ask(wire.TypeEnqueue, &wire.Enqueue{Queue: "q", Messages: []wire.Message{in}, Request: wire.Request{Number: 1, Low: 1}}, wire.TypeEnqueued, &again)
		if a := again.Outcomes[0]; a.ID != o.ID || a.Fault != nil || a.TaskID != "task 1" {
			t.Errorf("got %+v", a)
		}
	})
	t.Run("the task id is taken", func(t *testing.T) {
		var again wire.Enqueued
		p.ask(wire.TypeEnqueue, &wire.Enqueue{Queue: "q", Messages: []wire.Message{in}}, wire.TypeEnqueued, &again)
		if f := again.Outcomes[0].Fault; f == nil || f.Code != wire.CodeAlreadyExists || f.ID != o.ID || !strings.Contains(f.Message, "task_id") {
			t.Errorf("got %+v", f)
		}
	})
	var task wire.TaskIs
	p.ask(wire.TypeTask, &wire.TaskGet{Task: wire.TaskRef{Queue: "q", TaskID: "task 1"}}, wire.TypeTaskIs, &task)
	if task.Task.Status != wire.StatusPending || task.Task.ID != o.ID || !bytes.Equal(task.Task.Body, in.Body) || task.Task.MaxAttempts != 2 {
		t.Errorf("task is %+v", task.Task)
	}
	var peeked wire.Tasks
	p.ask(wire.TypePeek, &wire.Peek{Queue: "q"}, wire.TypeTasks, &peeked)
	if len(peeked.Tasks) != 1 || peeked.Tasks[0].ID != o.ID || peeked.Next != "" {
		t.Errorf("peeked %+v", peeked)
	}
	d := p.pull("q")
	if d.ID != o.ID || d.Attempt != 1 || !bytes.Equal(d.Body, in.Body) || d.TaskID != "task 1" || d.Kind != in.Kind ||
		d.ContentType != in.ContentType || !slices.Equal(d.Headers, in.Headers) || d.Priority != 9 || !bytes.Equal(d.Key, in.Key) ||
		d.TimeoutMillis != 60_000 || d.LeaseLeftMillis < 25_000 || d.EnqueuedAt == 0 || !strings.HasPrefix(d.Token, d.ID) {
		t.Errorf("delivered %+v", d)
	}
	var ext wire.Extended
	p.ask(wire.TypeExtend, &wire.Extend{Token: d.Token, LeaseMillis: 50_000}, wire.TypeExtended, &ext)
	if ext.LeaseLeftMillis < 45_000 {
		t.Errorf("extended %+v", ext)
	}
	var nacked wire.Nacked
	zero := int64(0)
	p.ask(wire.TypeNack, &wire.Nack{Token: d.Token, Error: "boom", DelayMillis: &zero}, wire.TypeNacked, &nacked)
	if nacked.Dead || nacked.DueAt == 0 {
		t.Errorf("nacked %+v", nacked)
	}
	d2 := p.pull("q")
	if d2.ID != d.ID || d2.Attempt != 2 || d2.Token <= d.Token {
		t.Errorf("delivered %+v after %+v", d2, d)
	}
	p.refused(wire.TypeAck, &wire.Ack{Token: d.Token}, wire.CodeLeaseLost)
	var released wire.OK
	p.ask(wire.TypeRelease, &wire.Release{Token: d2.Token}, wire.TypeOK, &released)
	d3 := p.pull("q")
	if d3.Attempt != 2 { // a release is free
		t.Errorf("delivered %+v", d3)
	}
	p.refused(wire.TypeResultGet, &wire.ResultGet{Task: wire.TaskRef{TaskID: o.ID}}, wire.CodeTimeout)
	p.refused(wire.TypeResultGet, &wire.ResultGet{Task: wire.TaskRef{TaskID: o.ID}, WaitMillis: 30}, wire.CodeTimeout)

	waiter := connect(t, n.addr)
	waiter.send(wire.TypeResultGet, 7, &wire.ResultGet{Task: wire.TaskRef{Queue: "q", TaskID: "task 1"}, WaitMillis: 10_000})
	var acked wire.Acked
	ack := &wire.Ack{
		Token: d3.Token, Result: &wire.Result{Output: wire.Bytes("out"), ContentType: "text/plain"},
		Then: []wire.Then{{Queue: "next", Message: wire.Message{Body: wire.Bytes("then"), TaskID: "t2"}}},
	}
	p.ask(wire.TypeAck, ack, wire.TypeAcked, &acked)
	if acked.Duplicate || acked.At.Index == 0 {
		t.Errorf("acked %+v", acked)
	}
	var again wire.Acked
	p.ask(wire.TypeAck, ack, wire.TypeAcked, &again)
	ack.Result.Output = wire.Bytes("other")
	f := p.refused(wire.TypeAck, ack, wire.CodeAlreadyExists)
	if f.Result == nil || string(f.Result.Output) != "out" {
		t.Errorf("got %+v", f)
	}
	var is wire.ResultIs
	waiter.answer(7, wire.TypeResultIs, &is)
	if is.Status != wire.StatusSucceeded || !is.HasOutput || string(is.Result.Output) != "out" || is.Result.ContentType != "text/plain" ||
		is.Result.TaskID != "task 1" || is.Result.Queue != "q" || is.Result.Kind != in.Kind || is.Result.Attempts != 2 ||
		is.Result.Worker != "w" || is.Result.MessageID != o.ID || is.At.Index < acked.At.Index {
		t.Errorf("result is %+v %+v", is, is.Result)
	}
	if then := p.pull("next"); string(then.Body) != "then" || then.TaskID != "t2" {
		t.Errorf("then is %+v", then)
	}
	p.refused(wire.TypeTask, &wire.TaskGet{Task: wire.TaskRef{Queue: "q", TaskID: "nope"}}, wire.CodeNotFound)
	p.refused(wire.TypeResultGet, &wire.ResultGet{Task: wire.TaskRef{Queue: "q", TaskID: "nope"}, WaitMillis: 1000}, wire.CodeNotFound)
	p.refused(wire.TypeResultGet, &wire.ResultGet{Task: wire.TaskRef{TaskID: "nope"}}, wire.CodeInvalidArgument)
}

func TestDedup(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	p, _ := session(t, n.addr)
	enq := func(m wire.Message) wire.Outcome {
		t.Helper()
		var rep wire.Enqueued
		p.ask(wire.TypeEnqueue, &wire.Enqueue{Queue: "q", Messages: []wire.Message{m}}, wire.TypeEnqueued, &rep)
		return rep.Outcomes[0]
	}
	key := wire.Bytes("k")
	first := enq(wire.Message{Body: wire.Bytes("a"), DedupKey: key, TaskID: "t"})
	second := enq(wire.Message{Body: wire.Bytes("a"), DedupKey: key, TaskID: "u"})
	if second.ID != first.ID || !second.Duplicate || second.TaskID != "t" || second.Result != nil {
		t.Errorf("got %+v after %+v", second, first)
	}
	other := enq(wire.Message{Body: wire.Bytes("b"), DedupKey: key})
	if other.Fault == nil || other.Fault.Code != wire.CodeAlreadyExists || other.Fault.ID != first.ID || !strings.Contains(other.Fault.Message, "dedup_key") {
		t.Errorf("got %+v", other.Fault)
	}
	d := p.pull("q")
	var acked wire.Acked
	p.ask(wire.TypeAck, &wire.Ack{Token: d.Token, Result: &wire.Result{Output: wire.Bytes("r")}}, wire.TypeAcked, &acked)
	third := enq(wire.Message{Body: wire.Bytes("a"), DedupKey: key})
	if !third.Duplicate || third.Result == nil || string(third.Result.Output) != "r" || third.TaskID != "t" {
		t.Errorf("got %+v", third)
	}
}

func TestResultPush(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	p, _ := session(t, n.addr)
	p.enqueue("q", wire.Message{Body: wire.Bytes("x"), TaskID: "live"})
	push := func(task, out string) wire.Acked {
		t.Helper()
		var rep wire.Acked
		p.ask(wire.TypeResultPush, &wire.ResultPush{Task: wire.TaskRef{Queue: "q", TaskID: task}, Kind: "k", Result: wire.Result{Output: wire.Bytes(out)}}, wire.TypeAcked, &rep)
		return rep
	}
	if a := push("never seen", "1"); a.Duplicate {
		t.Errorf("got %+v", a)
	}
	if a := push("never seen", "2"); !a.Duplicate || a.Result == nil || string(a.Result.Output) != "1" {
		t.Errorf("got %+v %+v", a, a.Result)
	}
	var task wire.TaskIs
	p.ask(wire.TypeTask, &wire.TaskGet{Task: wire.TaskRef{Queue: "q", TaskID: "never seen"}}, wire.TypeTaskIs, &task)
	if task.Task.Status != wire.StatusSucceeded || task.Task.ID != "" || task.Task.TaskID != "never seen" {
		t.Errorf("task is %+v", task.Task)
	}
	d := p.pull("q")
	push("live", "pushed")
	var acked wire.Acked
	p.ask(wire.TypeAck, &wire.Ack{Token: d.Token, Result: &wire.Result{Output: wire.Bytes("worker's")}}, wire.TypeAcked, &acked)
	if !acked.Duplicate || acked.Result == nil || string(acked.Result.Output) != "pushed" {
		t.Errorf("got %+v %+v", acked, acked.Result)
	}
}

func TestSubscription(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	p, sid := session(t, n.addr)
	producer := connect(t, n.addr)
	var ok wire.OK
	p.ask(wire.TypeSubscribe, &wire.Subscribe{Sub: 1, Queue: "q", Credit: 2, Worker: "w"}, wire.TypeOK, &ok)
	for i := range 4 {
		producer.enqueue("q", wire.Message{Body: wire.Bytes(fmt.Sprint(i))})
	}
	got := p.deliveries(1, 2)
	p.send(wire.TypeStarted, 0, &wire.Started{Sub: 1, Tokens: []string{got[0].Token}})
	more := func(typ wire.Type, body any, answer wire.Type, want int) { // the room that is made may be filled before the answer comes
		t.Helper()
		p.tag++
		p.send(typ, p.tag, body)
		for answered := false; len(got) < want || !answered; {
			f := p.next()
			switch f.Type {
			case answer:
				answered = true
			case wire.TypeDelivery:
				var d wire.Delivery
				if err := f.Decode(&d); err != nil {
					t.Fatal(err)
				}
				got = append(got, d.Messages...)
			default:
				t.Fatalf("frame %d", f.Type)
			}
		}
	}
	more(wire.TypeCredit, &wire.Credit{Sub: 1, Credit: 3}, wire.TypeOK, 3)
	more(wire.TypeAck, &wire.Ack{Token: got[0].Token}, wire.TypeAcked, 4)
	for i, d := range got {
		if string(d.Body) != fmt.Sprint(i) {
			t.Errorf("message %d is %q", i, d.Body)
		}
	}
	p.refused(wire.TypeCredit, &wire.Credit{Sub: 9, Credit: 3}, wire.CodeNotFound)

	// The connection dies with one started lease, one held and one that is said to be neither: the state says which live.
	p.send(wire.TypeStarted, 0, &wire.Started{Sub: 1, Tokens: []string{got[1].Token}})
	p.ask(wire.TypeCredit, &wire.Credit{Sub: 1, Credit: 3}, wire.TypeOK, &ok) // the reader has seen it
	_ = p.ws.Close()
	waitFor(t, func() bool {
		var is wire.QueueIs
		producer.ask(wire.TypeQueueShow, &wire.QueueRef{Queue: "q"}, wire.TypeQueueIs, &is)
		return is.Queue.Pending == 2 && is.Queue.Processing == 1
	})
	p = connect(t, n.addr)
	var so wire.SessionOpened
	p.ask(wire.TypeOpenSession, &wire.OpenSession{Session: sid}, wire.TypeSessionOpened, &so)
	p.tag++
	p.send(wire.TypeResume, p.tag, &wire.Resume{
		Subscribe: wire.Subscribe{Sub: 1, Queue: "q", Credit: 3, Worker: "w"}, Started: []string{got[1].Token}, Held: []string{got[2].Token, got[3].Token},
	})
	var again []wire.Delivered
	for resumed := false; len(again) < 2 || !resumed; { // deliveries may overtake the answer
		f := p.next()
		switch f.Type {
		case wire.TypeResumed:
			var r wire.Resumed
			if err := f.Decode(&r); err != nil || !slices.Equal(r.Lost, []string{got[2].Token, got[3].Token}) {
				t.Errorf("lost %v, %v", r.Lost, err)
			}
			resumed = true
		case wire.TypeDelivery:
			var d wire.Delivery
			if err := f.Decode(&d); err != nil {
				t.Fatal(err)
			}
			again = append(again, d.Messages...)
		default:
			t.Fatalf("frame %d", f.Type)
		}
	}
	if again[0].Attempt != 1 || again[1].Attempt != 1 { // giving back untouched ones was free
		t.Errorf("got %+v", again)
	}
	p.tag++
	p.send(wire.TypeUnsubscribe, p.tag, &wire.Unsubscribe{Sub: 1})
	p.answer(p.tag, wire.TypeOK, &ok)
}

// deliveries takes n messages of a subscription off the socket.
func (p *peer) deliveries(sub uint32, n int) []wire.Delivered {
	p.t.Helper()
	var got []wire.Delivered
	for len(got) < n {
		var d wire.Delivery
		f := p.next()
		if f.Type != wire.TypeDelivery || f.Tag != 0 {
			p.t.Fatalf("frame %d tag %d instead of a delivery", f.Type, f.Tag)
		}
		if err := f.Decode(&d); err != nil {
			p.t.Fatal(err)
		}
		if d.Sub != sub {
			p.t.Fatalf("a delivery of subscription %d", d.Sub)
		}
		got = append(got, d.Messages...)
	}
	if len(got) > n {
		p.t.Fatalf("%d messages delivered, window %d", len(got), n)
	}
	return got
}

func TestLeaseGone(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	p, _ := session(t, n.addr)
	var ok wire.OK
	p.ask(wire.TypeSubscribe, &wire.Subscribe{Sub: 3, Queue: "q", Credit: 1, LeaseMillis: 100}, wire.TypeOK, &ok)
	p.tag++
	p.send(wire.TypeEnqueue, p.tag, &wire.Enqueue{Queue: "q", Messages: []wire.Message{{Body: wire.Bytes("x")}}})
	token := ""
	for gone := false; !gone; {
		f := p.next()
		switch f.Type {
		case wire.TypeEnqueued:
		case wire.TypeDelivery:
			var d wire.Delivery
			if err := f.Decode(&d); err != nil {
				t.Fatal(err)
			}
			token = d.Messages[0].Token
		case wire.TypeLeaseGone:
			var g wire.LeaseGone
			if err := f.Decode(&g); err != nil || g.Sub != 3 || len(g.Tokens) != 1 || g.Tokens[0] != token {
				t.Fatalf("gone %+v %v, leased %s", g, err, token)
			}
			gone = true
		default:
			t.Fatalf("frame %d", f.Type)
		}
	}
}

// Ten acks in one message, one of a token that was never given and one twice: each gets its own answer, and the whole may
// be sent again.
func TestAcksTogether(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	p, _ := session(t, n.addr)
	var tokens []string
	for range 8 {
		p.enqueue("q", wire.Message{})
		tokens = append(tokens, p.pull("q").Token)
	}
	unknown := fsm.Token{Message: fsm.MakeID(1, 0, 1<<40, 0), Lease: fsm.MakeID(1, 0, 1<<40, 1)}.String()
	tokens = append(tokens[:4:4], append([]string{unknown, tokens[0]}, tokens[4:]...)...)
	for round := range 2 {
		var m []byte
		for i, token := range tokens {
			m = wire.AppendFrame(m, wire.TypeAck, uint64(100+i), &wire.Ack{Token: token})
		}
		p.sendRaw(m)
		for i := range tokens {
			if i == 4 {
				var f wire.Fault
				p.answer(104, wire.TypeFault, &f)
				if f.Code != wire.CodeNotFound {
					t.Errorf("round %d: %v", round, &f)
				}
				continue
			}
			var a wire.Acked
			p.answer(uint64(100+i), wire.TypeAcked, &a)
		}
	}
	var is wire.QueueIs
	p.ask(wire.TypeQueueShow, &wire.QueueRef{Queue: "q"}, wire.TypeQueueIs, &is)
	if is.Queue.Totals["acked"] != 8 || is.Queue.Processing != 0 {
		t.Errorf("got %+v", is.Queue)
	}
}

// A pull whose connection goes: the message comes to the next one, and it cost nothing.
func TestPullOfTheGone(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	q, _ := session(t, n.addr)
	q.enqueue("q", wire.Message{Body: wire.Bytes("first")})
	first := q.pull("q")
	p, _ := session(t, n.addr)
	p.send(wire.TypeLease, 100, &wire.Lease{Queue: "q", Max: 1, WaitMillis: 60_000})
	p.refused(wire.TypeTask, &wire.TaskGet{Task: wire.TaskRef{Queue: "q", TaskID: "nope"}}, wire.CodeNotFound) // the pull has been read
	_ = p.ws.Close()
	waitFor(t, func() bool { return len(n.doors.all()) == 1 })
	q.enqueue("q", wire.Message{Body: wire.Bytes("second")})
	if d := q.pull("q"); string(d.Body) != "second" || d.Attempt != 1 {
		t.Errorf("got %+v", d)
	}
	var acked wire.Acked
	q.ask(wire.TypeAck, &wire.Ack{Token: first.Token}, wire.TypeAcked, &acked)
}

func TestPullWaits(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	p, _ := session(t, n.addr)
	q := connect(t, n.addr)
	p.refused(wire.TypeLease, &wire.Lease{Queue: "none", Max: 1}, wire.CodeNotFound)
	q.enqueue("q", wire.Message{Body: wire.Bytes("x")})
	d := p.pull("q")
	start := time.Now()
	var rep wire.Leased
	p.ask(wire.TypeLease, &wire.Lease{Queue: "q", Max: 1, WaitMillis: 50}, wire.TypeLeased, &rep)
	if took := time.Since(start); len(rep.Messages) != 0 || took < 50*time.Millisecond || rep.At.Index == 0 {
		t.Errorf("got %+v after %s", rep, took)
	}
	p.send(wire.TypeLease, 100, &wire.Lease{Queue: "q", Max: 10, WaitMillis: 5000})
	p.send(wire.TypeRelease, 101, &wire.Release{Token: d.Token})
	for range 2 {
		f := p.next()
		if f.Tag == 100 {
			if err := f.Decode(&rep); err != nil || len(rep.Messages) != 1 || rep.Messages[0].ID != d.ID {
				t.Errorf("got %+v %v", rep, err)
			}
		}
	}
}
