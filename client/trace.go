package client

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorate/quorate/wire"
)

// Traces go with messages as W3C Trace Context does with requests: in the headers traceparent and tracestate.

// tracerName is the instrumentation scope of the client's spans.
const tracerName = "github.com/quorate/quorate/client"

// headers are a message's as a propagator sees them.
type headers struct{ list []Header }

// Get is of propagation.TextMapCarrier.
func (h *headers) Get(name string) string {
	for i := range h.list {
		if h.list[i].Name == name {
			return h.list[i].Value
		}
	}
	return ""
}

// Set is of propagation.TextMapCarrier.
func (h *headers) Set(name, value string) { h.list = append(h.list, Header{name, value}) }

// Keys is of propagation.TextMapCarrier.
func (h *headers) Keys() (names []string) {
	for i := range h.list {
		names = append(names, h.list[i].Name)
	}
	return names
}

// TraceContext is ctx with the span that the message's headers say it comes from, for workers that make spans of their own. Without such
// headers it is ctx. Handlers of Consume have it in their context where Options.TracerProvider is set.
func (d *Delivery) TraceContext(ctx context.Context) context.Context {
	return propagation.TraceContext{}.Extract(ctx, &headers{d.Headers})
}

// sending starts the span of a message that is about to be sent, and has its headers lead to it.
func (c *Client) sending(ctx context.Context, queue string, m *Message) trace.Span {
	ctx, span := c.tracer.Start(ctx, "send "+queue, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		attribute.String("messaging.system", "quorate"), attribute.String("messaging.operation.name", "send"), attribute.String("messaging.destination.name", queue)))
	carry(ctx, m)
	return span
}

// carry has a message's headers lead to the span that ctx is in, if it is in one and unless they lead elsewhere or there are as many as may be.
func carry(ctx context.Context, m *Message) {
	own := headers{m.Headers}
	var add headers
	propagation.TraceContext{}.Inject(ctx, &add)
	if len(add.list) == 0 || own.Get("traceparent") != "" {
		return
	}
	all := slices.Concat(m.Headers, add.list)
	bytes := 0
	for i := range all {
		bytes += len(all[i].Name) + len(all[i].Value)
	}
	if len(all) <= wire.MaxHeaders && bytes <= wire.MaxHeadersBytes {
		m.Headers = all
	}
}

// carryThen is what an ack enqueues, with the trace that ctx is in: the ack and they are one operation, and have no spans of their own.
func (c *Client) carryThen(ctx context.Context, then []Then) []Then {
	if c.tracer == nil || len(then) == 0 {
		return then
	}
	then = slices.Clone(then)
	for i := range then {
		carry(ctx, &then[i].Message)
	}
	return then
}

// sent ends the span of a message that has been sent.
func sent(span trace.Span, r Receipt, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	} else {
		span.SetAttributes(attribute.String("messaging.message.id", r.ID))
		if r.Duplicate {
			span.SetAttributes(attribute.Bool("quorate.duplicate", true))
		}
	}
	span.End()
}

// traced is call with a span, a child of the one that the message comes from.
func (k *consumer) traced(ctx context.Context, d *Delivery) (*Result, error) {
	opts := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attribute.String("messaging.system", "quorate"), attribute.String("messaging.operation.name", "process"), attribute.String("messaging.destination.name", d.Queue),
		attribute.String("messaging.message.id", d.ID), attribute.Int("quorate.attempt", d.Attempt))}
	if own := (&headers{d.Headers}); own.Get("traceparent") == "" {
		opts = append(opts, trace.WithNewRoot()) // and not a part of what has called Consume, which goes on for ever
	}
	ctx, span := k.c.tracer.Start(d.TraceContext(ctx), "process "+d.Queue, opts...)
	defer span.End()
	r, err := k.call(ctx, d)
	if err != nil && !errors.Is(err, ErrRelease) {
		span.SetStatus(codes.Error, err.Error())
	}
	return r, err
}
