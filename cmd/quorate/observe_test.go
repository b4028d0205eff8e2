package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorate/quorate/client"
)

// sentSpan is one that has come to a collector.
type sentSpan struct {
	TraceID, SpanID, ParentSpanID, Name string
	Links                               []struct{ TraceID, SpanID string }
}

// spansOf are those of a name.
func spansOf(all []sentSpan, name string) (some []sentSpan) {
	for _, s := range all {
		if s.Name == name {
			some = append(some, s)
		}
	}
	return some
}

// observed runs a node that sends its spans to a collector on loopback, with more of a configuration if need be. stop ends it and gives what the
// collector has got.
func observed(t *testing.T, more string) (addr string, log *safeBuffer, stop func() []sentSpan) {
	t.Helper()
	var mu sync.Mutex
	var got []sentSpan
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var b struct {
			ResourceSpans []struct{ ScopeSpans []struct{ Spans []sentSpan } }
		}
		if err := json.NewDecoder(r.Body).Decode(&b); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, rs := range b.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				got = append(got, ss.Spans...)
			}
		}
	}))
	t.Cleanup(collector.Close)
	file := filepath.Join(t.TempDir(), "quorate.toml")
	text := "node_id = \"n1\"\n" + more + "[trace]\nendpoint = \"" + collector.URL + "/v1/traces\"\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ports := freePorts(t)
	log, end := serveWith(t, file, ports)
	return ports[0], log, func() []sentSpan {
		end()
		if strings.Contains(log.String(), "spans lost") {
			t.Errorf("spans are lost: %s", log)
		}
		mu.Lock()
		defer mu.Unlock()
		return got
	}
}

// What the configuration turns on is on: the access log, the log of slow operations, and spans that come to a collector.
func TestObservabilityIsConfigured(t *testing.T) {
	t.Parallel()
	addr, log, stop := observed(t, "[log]\naccess = true\nslow_ms = 1\n")
	body := `{"body":"` + strings.Repeat("x", 512<<10) + `"}` // which takes a millisecond to be written
	await(t, "all in the log", func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/v1/queues/q/messages", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return strings.Contains(log.String(), "component=access method=POST route=/v1/queues/{q}/messages code=201") &&
			strings.Contains(log.String(), `msg="slow operation" component=transport op=enqueue queue=q`)
	}, log)
	if got := stop(); len(spansOf(got, "enqueue q")) == 0 {
		t.Errorf("the collector got %+v", got)
	}
}

// One trace from a producer by the SDK through the broker to a worker that fails once: each attempt is a child of its own delivery, and the
// second delivery is linked to the first.
func TestTraceFromProducerToWorker(t *testing.T) {
	t.Parallel()
	addr, _, end := observed(t, "")
	rec := tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := client.Open(ctx, client.Options{Addrs: []string{addr}, TracerProvider: tp})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }() // a second one is fine
	if err := c.CreateQueue(ctx, "q", client.QueueOptions{Retry: &client.RetryPolicy{Kind: "fixed", Initial: time.Millisecond, MaxAttempts: 3}}); err != nil {
		t.Fatal(err)
	}
	outer, root := tp.Tracer("test").Start(ctx, "outer")
	receipt, err := c.Enqueue(outer, "q", client.Message{Headers: []client.Header{{Name: "x", Value: "y"}}})
	if err != nil {
		t.Fatal(err)
	}
	var within []trace.SpanContext // spans that the handler finds itself in
	work, stop := context.WithCancel(ctx)
	err = c.Consume(work, "q", client.ConsumeOptions{}, func(ctx context.Context, d *client.Delivery) (*client.Result, error) {
		within = append(within, trace.SpanContextFromContext(ctx))
		if !slices.Contains(d.Headers, client.Header{Name: "x", Value: "y"}) {
			t.Errorf("headers: %v", d.Headers)
		}
		if d.Attempt == 1 {
			return nil, errors.New("not yet")
		}
		defer stop()
		return nil, nil
	})
	stop()
	if err != nil {
		t.Fatal(err)
	}
	root.End()

	var send, process []sdktrace.ReadOnlySpan
	for _, s := range rec.Ended() {
		switch s.Name() {
		case "send q":
			send = append(send, s)
		case "process q":
			process = append(process, s)
		}
	}
	if len(send) != 1 || len(process) != 2 || len(within) != 2 {
		t.Fatalf("%d sent, %d processed, %d handled", len(send), len(process), len(within))
	}
	id := root.SpanContext().TraceID().String()
	_ = c.Close(ctx)
	broker := end()
	enqueued, delivered := spansOf(broker, "enqueue q"), spansOf(broker, "deliver q")
	if len(enqueued) != 1 || len(delivered) != 2 || len(broker) != 3 {
		t.Fatalf("the broker made %+v", broker)
	}
	from := send[0].SpanContext().SpanID().String()
	if send[0].Parent().SpanID() != root.SpanContext().SpanID() || send[0].SpanKind() != trace.SpanKindProducer {
		t.Errorf("sent: %v", send[0])
	}
	for _, s := range broker {
		if s.TraceID != id || s.ParentSpanID != from {
			t.Errorf("%+v is not of trace %s and span %s", s, id, from)
		}
	}
	if len(delivered[0].Links) != 0 || len(delivered[1].Links) != 1 || delivered[1].Links[0].SpanID != delivered[0].SpanID || delivered[1].Links[0].TraceID != id {
		t.Errorf("the second delivery is not linked to the first: %+v", delivered)
	}
	for i, s := range process {
		if s.SpanContext().TraceID().String() != id || s.Parent().SpanID().String() != delivered[i].SpanID || !s.Parent().IsRemote() || s.SpanKind() != trace.SpanKindConsumer {
			t.Errorf("attempt %d: parent %v, want the delivery's %s", i+1, s.Parent(), delivered[i].SpanID)
		}
		if !within[i].Equal(s.SpanContext()) {
			t.Errorf("attempt %d: the handler finds itself in %v", i+1, within[i])
		}
	}
	if process[0].Status().Description != "not yet" || process[1].Status().Description != "" {
		t.Errorf("status: %v, %v", process[0].Status(), process[1].Status())
	}
	for _, kv := range send[0].Attributes() {
		if kv.Key == "messaging.message.id" && kv.Value.AsString() != receipt.ID {
			t.Errorf("the span names message %s, want %s", kv.Value.AsString(), receipt.ID)
		}
	}
}
