package spans

import (
	"encoding/hex"
	"net/http"

	"go.opentelemetry.io/otel/trace"
)

// The headers of W3C Trace Context, in HTTP in any case and in messages as here.
const (
	HeaderTraceparent = "traceparent"
	HeaderTracestate  = "tracestate"
)

// parentBytes is the length of a traceparent of version 00: version, trace id, span id and flags, in hex and with dashes between.
const parentBytes = 2 + 1 + 32 + 1 + 16 + 1 + 2

// Parse reads a traceparent (W3C Trace Context, section 3.2). Later versions are read as far as this one goes.
func Parse(s string) (sc trace.SpanContext, ok bool) {
	if len(s) < parentBytes || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return sc, false
	}
	version, flags := s[:2], s[53:55]
	if !lowerHex(version) || !lowerHex(flags) || version == "ff" || version == "00" && len(s) != parentBytes || len(s) > parentBytes && s[parentBytes] != '-' {
		return sc, false
	}
	id, err := trace.TraceIDFromHex(s[3:35])
	if err != nil {
		return sc, false
	}
	span, err := trace.SpanIDFromHex(s[36:52])
	if err != nil {
		return sc, false
	}
	f, err := hex.DecodeString(flags)
	if err != nil {
		return sc, false
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: trace.TraceFlags(f[0]), Remote: true}), true
}

// FromRequest reads a request's trace context. What is none is nothing: parent is then zero, and state is empty where it is no tracestate or there is
// no parent.
func FromRequest(h http.Header) (parent trace.SpanContext, state string) {
	parent, ok := Parse(h.Get(HeaderTraceparent))
	if !ok {
		return trace.SpanContext{}, ""
	}
	if state = h.Get(HeaderTracestate); state != "" {
		if _, err := trace.ParseTraceState(state); err != nil {
			state = ""
		}
	}
	return parent, state
}

func lowerHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Traceparent writes one, of version 00.
func Traceparent(sc trace.SpanContext) string {
	id, span := sc.TraceID(), sc.SpanID()
	b := make([]byte, 0, parentBytes)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, id[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, span[:])
	b = append(b, '-')
	return string(hex.AppendEncode(b, []byte{byte(sc.TraceFlags())}))
}
