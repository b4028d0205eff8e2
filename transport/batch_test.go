package transport

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/wire"
)

// A batch through the doors of a real node: made, filled by enqueues and an ack's then, sealed, and its callback.
func TestBatch(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	p, _ := session(t, n.addr)
	number := uint64(100)
	request := func() wire.Request { number++; return wire.Request{Number: number, Low: 100} }

	create := &wire.BatchCreate{Queue: "done", Callback: wire.Message{Body: wire.Bytes("all"), Kind: "report", Headers: []wire.Header{{Name: "own", Value: "1"}}}, Request: request()}
	var made, again wire.BatchCreated
	p.ask(wire.TypeBatchCreate, create, wire.TypeBatchCreated, &made)
	p.ask(wire.TypeBatchCreate, create, wire.TypeBatchCreated, &again)
	if !wire.IsID(made.Batch) || again.Batch != made.Batch {
		t.Fatalf("made %+v, and again %+v", made, again)
	}
	b := made.Batch
	p.enqueue("work", wire.Message{Body: wire.Bytes("1"), Batch: b})
	d := p.pull("work")
	var acked wire.Acked
	p.ask(wire.TypeAck, &wire.Ack{Token: d.Token, Then: []wire.Then{{Queue: "work", Message: wire.Message{Body: wire.Bytes("2"), Batch: b}}}}, wire.TypeAcked, &acked)
	var is wire.BatchIs
	p.ask(wire.TypeBatchShow, &wire.BatchShow{Batch: b}, wire.TypeBatchIs, &is)
	if is.Members != 2 || is.Open != 1 || is.Succeeded != 1 || is.Sealed || is.Queue != "done" || is.CallbackID != "" || is.EndsAt-is.CreatedAt != 7*24*3600*1000 {
		t.Errorf("open: %+v", is)
	}
	var ok wire.OK
	p.ask(wire.TypeBatchSeal, &wire.BatchSeal{Batch: b, Request: request()}, wire.TypeOK, &ok)
	p.ask(wire.TypeBatchSeal, &wire.BatchSeal{Batch: b, Request: request()}, wire.TypeOK, &ok)
	if !ok.Duplicate {
		t.Error("sealed twice, and not said")
	}
	var enq wire.Enqueued
	p.ask(wire.TypeEnqueue, &wire.Enqueue{Queue: "work", Messages: []wire.Message{{Batch: b}, {Batch: "00000G0000000000G000000002"}, {Batch: "x"}}}, wire.TypeEnqueued, &enq)
	for i, want := range []struct {
		code wire.Code
		says string
	}{
		{wire.CodeFailedPrecondition, "batch: it is sealed"},
		{wire.CodeNotFound, "batch: no such batch"},
		{wire.CodeInvalidArgument, `batch: "x" is no id`},
	} {
		if f := enq.Outcomes[i].Fault; f == nil || f.Code != want.code || !strings.HasPrefix(f.Message, want.says) {
			t.Errorf("message %d: %+v, want %s, %q", i, f, want.code, want.says)
		}
	}
	d = p.pull("work")
	var nacked wire.Nacked
	p.ask(wire.TypeNack, &wire.Nack{Token: d.Token, Permanent: true}, wire.TypeNacked, &nacked)
	d = p.pull("done")
	headers := map[string]string{}
	for _, h := range d.Headers {
		headers[h.Name] = h.Value
	}
	for name, want := range map[string]string{
		"own": "1", "batch_id": b, "batch_members": "2", "batch_succeeded": "1", "batch_dead": "1", "batch_cancelled": "0",
	} {
		if headers[name] != want {
			t.Errorf("header %s is %q, want %q", name, headers[name], want)
		}
	}
	if string(d.Body) != "all" || d.Kind != "report" {
		t.Errorf("callback: %+v", d)
	}
	p.ask(wire.TypeBatchShow, &wire.BatchShow{Batch: b, Stale: true}, wire.TypeBatchIs, &is)
	if is.CallbackID != d.ID || is.Open != 0 || is.Dead != 1 || !is.Sealed || is.FinishedAt == 0 || is.Queue != "" {
		t.Errorf("done: %+v", is)
	}
	none := "00000G0000000000G000000002"
	p.refused(wire.TypeBatchShow, &wire.BatchShow{Batch: none}, wire.CodeNotFound)
	p.refused(wire.TypeBatchSeal, &wire.BatchSeal{Batch: none, Request: request()}, wire.CodeNotFound)
	p.refused(wire.TypeBatchCreate, &wire.BatchCreate{Queue: "done", Callback: wire.Message{TaskID: "t"}, Request: request()}, wire.CodeInvalidArgument)
	_, metrics, _ := get(t, "http://"+n.addr+"/metrics")
	if !strings.Contains(metrics, `{table="batches"} 1`) {
		t.Error("metrics do not count the batch")
	}
}

// Where queues are not made by themselves, a batch's callback needs one that is there.
func TestBatchNeedsItsQueue(t *testing.T) {
	n := stations(t, 1, Config{NoAutoCreate: true})[0]
	p, _ := session(t, n.addr)
	f := p.refused(wire.TypeBatchCreate, &wire.BatchCreate{Queue: "missing", Request: wire.Request{Number: 1, Low: 1}}, wire.CodeNotFound)
	if !strings.Contains(f.Message, `"missing"`) {
		t.Errorf("refused: %s", f.Message)
	}
}
