package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorate/quorate/wire"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// Every way to enqueue has the span of its sending in the message's headers, and ends it with what became of it.
func TestEnqueuesAreTraced(t *testing.T) {
	f := newFake(t, 1)
	got := map[string][]wire.Header{} // by body; guarded by f.mu
	f.onMessage = func(_ *fakeConn, m *wire.Message) *wire.Fault {
		got[string(m.Body)] = append([]wire.Header(nil), m.Headers...)
		if strings.HasPrefix(string(m.Body), "refused") {
			return wire.NewFault(wire.CodeInvalidArgument, "no")
		}
		return nil
	}
	rec := tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec))
	c := open(t, f, Options{TracerProvider: tp})
	ctx, root := tp.Tracer("test").Start(t.Context(), "root")
	defer root.End()
	crowd := make([]Header, wire.MaxHeaders)
	for i := range crowd {
		crowd[i] = Header{Name: fmt.Sprint("h", i), Value: "v"}
	}
	own := []Header{{Name: "a", Value: "b"}}
	if _, err := c.Enqueue(ctx, "q", Message{Body: []byte("one"), Headers: own}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Enqueue(ctx, "q", Message{Body: []byte("refused one")}); err == nil {
		t.Fatal("it was not refused")
	}
	if _, errs := c.EnqueueBatch(ctx, "q", []Message{{Body: []byte("first")}, {Body: []byte("refused second")}, {Body: []byte("bad"), Kind: strings.Repeat("k", 1000)}}); errs[0] != nil || errs[1] == nil || errs[2] == nil {
		t.Fatal(errs)
	}
	done := make(chan error, 1)
	if err := c.EnqueueAsync(ctx, "q", Message{Body: []byte("async")}, func(_ Receipt, err error) { done <- err }); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := c.EnqueueAsync(ctx, "", Message{}, func(Receipt, error) { t.Error("called") }); err == nil {
		t.Fatal("a queue without a name")
	}
	for body, headers := range map[string][]Header{"elsewhere": {{Name: "traceparent", Value: traceparent}}, "crowded": crowd} {
		if _, err := c.Enqueue(ctx, "q", Message{Body: []byte(body), Headers: headers}); err != nil {
			t.Fatal(err)
		}
	}
	if len(own) != 1 || len(own[:cap(own)]) != 1 {
		t.Error("the caller's headers were written to")
	}
	spans := rec.Ended()
	byParent := map[string]sdktrace.ReadOnlySpan{}
	failed := 0
	for _, s := range spans {
		if s.Parent().SpanID() != root.SpanContext().SpanID() || s.SpanKind() != trace.SpanKindProducer {
			t.Errorf("%s: %v", s.Name(), s.Parent())
		}
		sc := s.SpanContext()
		byParent["00-"+sc.TraceID().String()+"-"+sc.SpanID().String()+"-01"] = s
		if s.Status().Description != "" {
			failed++
		}
	}
	if len(spans) != 9 || failed != 4 {
		t.Errorf("%d spans, %d of which failed", len(spans), failed)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for body, hs := range got {
		tp := ""
		for _, h := range hs {
			if h.Name == "traceparent" {
				tp = h.Value
			}
		}
		switch body {
		case "elsewhere":
			if tp != traceparent {
				t.Errorf("%s: %v", body, hs)
			}
		case "crowded":
			if tp != "" || len(hs) != wire.MaxHeaders {
				t.Errorf("%s: %d headers", body, len(hs))
			}
		default:
			s := byParent[tp]
			if s == nil || (s.Status().Description != "") != strings.HasPrefix(body, "refused") {
				t.Errorf("%s: %v is of no span, or of another's", body, hs)
			}
		}
	}
	if len(got["one"]) != 2 || got["one"][0].Name != "a" {
		t.Errorf("headers of its own: %v", got["one"])
	}
}

// What an ack enqueues goes on in the trace of the ack's context; without one, or with one of its own, it is as it was given.
func TestChainsAreTraced(t *testing.T) {
	tp := sdktrace.NewTracerProvider()
	ctx, span := tp.Tracer("test").Start(t.Context(), "handler")
	defer span.End()
	c := &Client{tracer: tp.Tracer(tracerName)}
	given := []Then{{Queue: "a"}, {Queue: "b", Message: Message{Headers: []Header{{Name: "traceparent", Value: traceparent}}}}}
	got := c.carryThen(ctx, given)
	if hs := got[0].Message.Headers; len(hs) != 1 || hs[0].Name != "traceparent" || !strings.Contains(hs[0].Value, span.SpanContext().SpanID().String()) {
		t.Errorf("carried %v", hs)
	}
	if hs := got[1].Message.Headers; len(hs) != 1 || hs[0].Value != traceparent {
		t.Errorf("of its own: %v", hs)
	}
	if len(given[0].Message.Headers) != 0 {
		t.Error("the caller's messages were written to")
	}
	if got := c.carryThen(t.Context(), given); len(got[0].Message.Headers) != 0 {
		t.Errorf("from no trace: %v", got[0].Message.Headers)
	}
	if got := (&Client{}).carryThen(ctx, given); len(got[0].Message.Headers) != 0 {
		t.Errorf("untraced: %v", got[0].Message.Headers)
	}
}

// A message that comes from no trace begins one, whatever the caller of Consume is in; one that does goes on in it, also by hand.
func TestDeliveriesAreTraced(t *testing.T) {
	f := newFake(t, 1)
	f.keepLog = true
	rec := tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec))
	plain := open(t, f, Options{})
	for _, m := range []Message{{Body: []byte("none")}, {Body: []byte("traced"), Headers: []Header{{Name: "traceparent", Value: traceparent}}}} {
		if _, err := plain.Enqueue(t.Context(), "q", m); err != nil {
			t.Fatal(err)
		}
	}
	c := open(t, f, Options{TracerProvider: tp})
	outer, root := tp.Tracer("test").Start(t.Context(), "root")
	ctx, stop := context.WithCancel(outer)
	defer stop()
	seen := 0
	err := c.Consume(ctx, "q", ConsumeOptions{}, func(ctx context.Context, d *Delivery) (*Result, error) {
		here := trace.SpanContextFromContext(ctx)
		switch string(d.Body) {
		case "none":
			if here.TraceID() == root.SpanContext().TraceID() || trace.SpanContextFromContext(d.TraceContext(context.Background())).IsValid() {
				t.Error("a message without a trace is in one")
			}
		case "traced":
			if here.TraceID().String() != traceparent[3:35] || trace.SpanContextFromContext(d.TraceContext(context.Background())).SpanID().String() != traceparent[36:52] {
				t.Errorf("a traced message is in %v", here)
			}
		}
		if seen++; seen == 2 {
			stop()
		}
		return nil, ErrRelease
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	root.End()
	for _, s := range rec.Ended() {
		if s.Name() == "process q" && s.Status().Description != "" {
			t.Errorf("what was given back has failed: %v", s.Status())
		}
	}
}

// Without a TracerProvider an enqueue does no more than before: it allocates nothing on its way to its batch.
func TestNoTracingCostsNothing(t *testing.T) {
	f := newFake(t, 1)
	c := open(t, f, Options{})
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := Message{Body: []byte("x")}
	done := func(Receipt, error) {}
	ctx := context.Background()
	if n := testing.AllocsPerRun(100, func() {
		if err := c.EnqueueAsync(ctx, "q", m, done); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
