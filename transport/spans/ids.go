package spans

import (
	"context"
	"encoding/binary"
	"math/rand/v2"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// chosen gives a span the ids that have been chosen for it, or a random one.
type chosen struct{}

type chosenKey struct{}

// ids are what is chosen for a span.
type ids struct {
	root trace.TraceID // of a trace that it begins; zero: it begins none
	span trace.SpanID
}

// NewIDs is of sdktrace.IDGenerator: for roots, of which there are none but those that Arrive has begun.
func (chosen) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if c, ok := ctx.Value(chosenKey{}).(ids); ok && c.root.IsValid() {
		return c.root, c.span
	}
	return randomTrace(), randomID()
}

// NewSpanID is of sdktrace.IDGenerator.
func (chosen) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if c, ok := ctx.Value(chosenKey{}).(ids); ok {
		return c.span
	}
	return randomID()
}

// begun samples the roots that Arrive has begun, and no others.
type begun struct{}

// ShouldSample is of sdktrace.Sampler.
func (begun) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if c, ok := p.ParentContext.Value(chosenKey{}).(ids); ok && c.root.IsValid() {
		return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
	}
	return sdktrace.SamplingResult{Decision: sdktrace.Drop}
}

// Description is of sdktrace.Sampler.
func (begun) Description() string { return "Begun" }

func randomID() (id trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64())
	id[0] |= 1 // zero is no id
	return id
}

func randomTrace() (id trace.TraceID) {
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	id[0] |= 1 // zero is no id
	return id
}
