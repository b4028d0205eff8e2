package httpapi

import (
	"math"

	"github.com/quorate/quorate/transport/spans"
	"github.com/quorate/quorate/wire"
)

// carry gives messages the trace context of the request that brings them (W3C Trace Context), as the headers that workers find it in. A message
// with a traceparent of its own keeps that; one that has no room for more headers goes without, and so does what is no trace context.
func (x *exchange) carry(ms []wire.Message) {
	parent, state := spans.FromRequest(x.r.Header)
	if !parent.IsValid() {
		return
	}
	add := []wire.Header{{Name: spans.HeaderTraceparent, Value: x.r.Header.Get(spans.HeaderTraceparent)}}
	if state != "" {
		add = append(add, wire.Header{Name: spans.HeaderTracestate, Value: state})
	}
next:
	for i := range ms {
		was := ms[i].Headers
		for j := range was {
			if was[j].Name == spans.HeaderTraceparent || was[j].Name == spans.HeaderTracestate {
				continue next
			}
		}
		ms[i].Headers = append(was[:len(was):len(was)], add...)
		if ms[i].Validate(math.MaxInt64) != nil {
			ms[i].Headers = was
		}
	}
}
