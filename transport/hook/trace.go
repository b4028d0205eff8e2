package hook

import (
	"net/http"

	"github.com/quorate/quorate/transport/spans"
	"github.com/quorate/quorate/wire"
)

// The names of a trace context as keep_headers has them.
var (
	keptTraceparent = http.CanonicalHeaderKey(spans.HeaderTraceparent)
	keptTracestate  = http.CanonicalHeaderKey(spans.HeaderTracestate)
)

// trace finds out in which trace a webhook is whose signature holds.
func (v *visit) trace() {
	v.parent, v.state = spans.FromRequest(v.r.Header)
	if v.s.cfg.Spans != nil {
		v.span = v.s.cfg.Spans.Arrive(v.parent, v.began)
	}
}

// carry gives the message the trace context that its worker is to go on from: the webhook's span, where there is one, else what the sender says. A
// message that has no room for it goes without.
func (v *visit) carry(m *wire.Message) {
	from := v.span
	if !from.IsValid() {
		from = v.parent
	}
	if !from.IsValid() {
		return
	}
	was := m.Headers
	m.Headers = append(was[:len(was):len(was)], wire.Header{Name: spans.HeaderTraceparent, Value: spans.Traceparent(from)})
	if v.state != "" {
		m.Headers = append(m.Headers, wire.Header{Name: spans.HeaderTracestate, Value: v.state})
	}
	if m.Validate(v.s.cfg.MaxMessageBytes) != nil {
		m.Headers = was
	}
}

// tell makes a span of a webhook that is being answered, where it is one.
func (v *visit) tell(status int) {
	if v.span.IsValid() {
		v.s.cfg.Spans.Arrived(spans.Webhook{Hook: v.h.Name, Queue: v.h.Queue, Message: v.id, Status: status, Code: v.code, Start: v.began}, v.span, v.parent)
	}
}
