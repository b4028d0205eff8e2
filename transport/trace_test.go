package transport

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/transport/spans"
	"github.com/quorate/quorate/transport/spans/spanstest"
	"github.com/quorate/quorate/wire"
)

// collected starts a collector on loopback and a recorder that sends to it. What it has taken in comes once the recorder is closed.
func collected(t *testing.T) (r *spans.Recorder, all func() []spanstest.Span) {
	t.Helper()
	c := spanstest.Start(t)
	r, err := spans.New(spans.Config{Endpoint: c.URL, Every: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	return r, func() []spanstest.Span {
		if err := r.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		return c.Spans()
	}
}

const (
	tracedID   = "0af7651916cd43dd8448eb211c80319c"
	tracedBy   = "00-" + tracedID + "-b7ad6b7169203331-01"
	untracedBy = "00-" + tracedID + "-b7ad6b7169203331-00"
)

// A request's trace context goes with its messages, and where the broker makes spans a worker goes on from that of the delivery.
func TestTraceOverHTTP(t *testing.T) {
	r, all := collected(t)
	n := stations(t, 1, Config{Spans: r})[0]
	plainNode := stations(t, 1, Config{})[0]
	b, p := browse(t, n.addr), browse(t, plainNode.addr)
	with := func(tp string) map[string]string {
		return map[string]string{"Traceparent": tp, "Tracestate": "vendor=1", "Content-Type": "application/json"}
	}
	for _, tc := range []struct {
		name, path, body, queue, parent string
		broker                          *browser
		want                            string // traceparent that the worker gets; "spanned": of a span of the broker
		state                           string
	}{
		{"traced", "/v1/queues/a/messages", `{"body":1}`, "a", tracedBy, b, "spanned", "vendor=1"},
		{"traced, in a batch", "/v1/queues/b/messages", `{"messages":[{"body":1}]}`, "b", tracedBy, b, "spanned", "vendor=1"},
		{"traced, by the one-queue API", "/queue/enqueue?queue=c", `{"value":1}`, "c", tracedBy, b, "spanned", "vendor=1"},
		{"not sampled", "/v1/queues/d/messages", `{"body":1}`, "d", untracedBy, b, untracedBy, "vendor=1"},
		{"no trace context", "/v1/queues/e/messages", `{"body":1}`, "e", "what", b, "", ""},
		{"of the message's own", "/v1/queues/f/messages", `{"body":1,"headers":{"traceparent":"` + untracedBy + `"}}`, "f", tracedBy, b, untracedBy, ""},
		{"no spans here", "/v1/queues/g/messages", `{"body":1}`, "g", tracedBy, p, tracedBy, "vendor=1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.broker.t = t
			if a := tc.broker.plain("POST", tc.path, tc.body, with(tc.parent)); a.status/100 != 2 {
				t.Fatalf("%d %s", a.status, a.body)
			}
			m := tc.broker.takeOne(tc.queue)
			got := m.Headers["traceparent"]
			if tc.want == "spanned" {
				if !strings.HasPrefix(got, "00-"+tracedID+"-") || got == tracedBy || !strings.HasSuffix(got, "-01") {
					t.Errorf("the worker goes on from %q", got)
				}
			} else if got != tc.want {
				t.Errorf("the worker goes on from %q, want %q", got, tc.want)
			}
			if m.Headers["tracestate"] != tc.state {
				t.Errorf("with %q, want %q", m.Headers["tracestate"], tc.state)
			}
		})
	}
	full := map[string]string{}
	for i := range wire.MaxHeaders {
		full["h"+string(rune('a'+i%26))+string(rune('a'+i/26))] = "v"
	}
	j, _ := json.Marshal(map[string]any{"body": 1, "headers": full})
	if a := b.plain("POST", "/v1/queues/full/messages", string(j), with(tracedBy)); a.status != 201 {
		t.Errorf("a message that has no room for more headers: %d %s", a.status, a.body)
	}
	if m := b.takeOne("full"); len(m.Headers) != wire.MaxHeaders || m.Headers["traceparent"] != "" {
		t.Errorf("it has %d headers", len(m.Headers))
	}
	got := all()
	if len(got) != 6 {
		t.Errorf("%d spans, want an enqueue and a delivery of three messages: %+v", len(got), got)
	}
	for _, s := range got {
		if s.TraceID != tracedID || s.Parent != "b7ad6b7169203331" || s.Failed {
			t.Errorf("%+v", s)
		}
	}
}

// An enqueue that is refused says why in its span.
func TestTraceOfRefused(t *testing.T) {
	r, all := collected(t)
	n := stations(t, 1, Config{Spans: r})[0]
	p, _ := session(t, n.addr)
	var ok wire.OK
	p.ask(wire.TypeQueueCreate, &wire.QueueWrite{Queue: "q", Options: wire.QueueOptions{MaxDepth: 1}}, wire.TypeOK, &ok)
	traced := wire.Message{Headers: []wire.Header{{Name: "traceparent", Value: tracedBy}}}
	bad := wire.Message{Kind: strings.Repeat("k", 1000)}
	var rep wire.Enqueued
	p.ask(wire.TypeEnqueue, &wire.Enqueue{Queue: "q", Messages: []wire.Message{bad, traced, {}, traced}}, wire.TypeEnqueued, &rep)
	got := all()
	if len(got) != 2 || got[0].Failed || !got[1].Failed || got[1].Why != string(wire.CodeQueueFull) {
		t.Errorf("%+v", got)
	}
}
