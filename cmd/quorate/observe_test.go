package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/transport/spans/spanstest"
)

// observed runs a node that sends its spans to a collector on loopback, with more of a configuration if need be. stop ends it and gives what the
// collector has got.
func observed(t *testing.T, more string) (addr string, log *safeBuffer, stop func() []spanstest.Span) {
	t.Helper()
	collector := spanstest.Start(t)
	file := filepath.Join(t.TempDir(), "quorate.toml")
	text := "node_id = \"n1\"\n[trace]\nendpoint = \"" + collector.URL + "\"\n" + more
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ports := freePorts(t)
	log, end := serveWith(t, file, ports)
	return ports[0], log, func() []spanstest.Span {
		end()
		if strings.Contains(log.String(), "spans lost") {
			t.Errorf("spans are lost: %s", log)
		}
		return collector.Spans()
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
	if got := stop(); len(spanstest.Named(got, "enqueue q")) == 0 {
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
	enqueued, delivered := spanstest.Named(broker, "enqueue q"), spanstest.Named(broker, "deliver q")
	if len(enqueued) != 1 || len(delivered) != 2 || len(broker) != 3 {
		t.Fatalf("the broker made %+v", broker)
	}
	from := send[0].SpanContext().SpanID().String()
	if send[0].Parent().SpanID() != root.SpanContext().SpanID() || send[0].SpanKind() != trace.SpanKindProducer {
		t.Errorf("sent: %v", send[0])
	}
	for _, s := range broker {
		if s.TraceID != id || s.Parent != from {
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

// A webhook's trace goes on through the queue to a worker that fails once: the sender's, or where he says nothing one that the webhook begins. The
// webhook's span is the parent of enqueue and deliveries, each attempt a child of its own delivery, the second delivery linked to the first.
func TestTraceOfWebhook(t *testing.T) {
	const secret = "what signs them"
	t.Setenv("TRACED_SECRET", secret)
	const traceID, sender = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	addr, _, end := observed(t, `[[queue]]
name = "q"
[queue.retry]
kind         = "fixed"
initial_ms   = 1
max_attempts = 3
[[hook]]
name   = "gh"
queue  = "q"
verify = { scheme = "github", secret_env = "TRACED_SECRET" }
`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	post := func(body, parent string, want int) {
		t.Helper()
		m := hmac.New(sha256.New, []byte(secret))
		m.Write([]byte(body))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/hook/gh", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(m.Sum(nil)))
		if parent != "" {
			req.Header.Set("Traceparent", parent)
			req.Header.Set("Tracestate", "vendor=1")
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Fatalf("%s: %d, want %d", body, resp.StatusCode, want)
		}
	}
	post("traced", "00-"+traceID+"-"+sender+"-01", 202)
	post("new", "", 202)
	post("not sampled", "00-"+traceID+"-"+sender+"-00", 202)

	rec := tracetest.NewSpanRecorder()
	c, err := client.Open(ctx, client.Options{Addrs: []string{addr}, TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }() // a second one is fine
	work, stop := context.WithCancel(ctx)
	done := 0
	from := map[string]string{} // traceparent that the worker got last, by body
	state := map[string]string{}
	err = c.Consume(work, "q", client.ConsumeOptions{Concurrency: 1}, func(_ context.Context, d *client.Delivery) (*client.Result, error) {
		for _, h := range d.Headers {
			switch h.Name {
			case "traceparent":
				from[string(d.Body)] = h.Value
			case "tracestate":
				state[string(d.Body)] = h.Value
			}
		}
		if d.Attempt == 1 {
			return nil, errors.New("not yet")
		}
		if done++; done == 3 {
			stop()
		}
		return nil, nil
	})
	stop()
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close(ctx)
	all := end()
	if state["traced"] != "vendor=1" || state["not sampled"] != "vendor=1" || state["new"] != "" {
		t.Errorf("tracestates are %v", state)
	}
	if from["not sampled"] != "00-"+traceID+"-"+sender+"-00" {
		t.Errorf("of one that is not sampled the worker gets %s", from["not sampled"])
	}
	hooks := spanstest.Named(all, "webhook gh")
	if len(hooks) != 2 || len(all) != 8 {
		t.Fatalf("%d spans, want a webhook, an enqueue and two deliveries of each of two: %+v", len(all), all)
	}
	for i, body := range []string{"traced", "new"} {
		root := hooks[i]
		switch {
		case body == "traced" && (root.TraceID != traceID || root.Parent != sender):
			t.Errorf("the webhook is not the sender's: %+v", root)
		case body == "new" && (root.TraceID == traceID || root.Parent != ""):
			t.Errorf("the webhook begins no trace: %+v", root)
		}
		var enqueued, delivered []spanstest.Span
		for _, s := range all {
			switch {
			case s.TraceID != root.TraceID || s.SpanID == root.SpanID:
			case s.Parent != root.SpanID:
				t.Errorf("%s: %+v is no child of the webhook", body, s)
			case s.Name == "enqueue q":
				enqueued = append(enqueued, s)
			case s.Name == "deliver q":
				delivered = append(delivered, s)
			}
		}
		if len(enqueued) != 1 || len(delivered) != 2 {
			t.Fatalf("%s: %d enqueued, %d delivered", body, len(enqueued), len(delivered))
		}
		if enqueued[0].Attributes["messaging.message.id"] != root.Attributes["messaging.message.id"] || root.Attributes["http.response.status_code"] != "202" {
			t.Errorf("%s: %v of %v", body, enqueued[0].Attributes, root.Attributes)
		}
		if len(delivered[0].Links) != 0 || len(delivered[1].Links) != 1 || delivered[1].Links[0].SpanID != delivered[0].SpanID {
			t.Errorf("%s: the second delivery is not linked to the first: %+v", body, delivered)
		}
		var process []string
		for _, s := range rec.Ended() {
			if s.SpanContext().TraceID().String() == root.TraceID {
				process = append(process, s.Parent().SpanID().String())
			}
		}
		if want := []string{delivered[0].SpanID, delivered[1].SpanID}; !slices.Equal(process, want) {
			t.Errorf("%s: the attempts are children of %v, want %v", body, process, want)
		}
		if from[body] != "00-"+root.TraceID+"-"+delivered[1].SpanID+"-01" {
			t.Errorf("%s: the worker goes on from %s", body, from[body])
		}
	}
}
