package transport

import (
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/transport/spans"
	"github.com/quorate/quorate/wire"
)

// traced is a message of an enqueue whose producer traces it.
type traced struct {
	at     int // its place in the call
	parent trace.SpanContext
}

// parentOf finds the span that a message's headers say it comes from, and where they say so; false where there is none, or it is not sampled.
func parentOf(hs []wire.Header) (sc trace.SpanContext, at int, ok bool) {
	for i := range hs {
		if hs[i].Name == spans.HeaderTraceparent {
			sc, ok = spans.Parse(hs[i].Value)
			return sc, i, ok && sc.IsSampled()
		}
	}
	return sc, 0, false
}

// trace notes which messages of a call are traced.
func (k *call) trace(ms []wire.Message) {
	for i := range ms {
		if sc, _, ok := parentOf(ms[i].Headers); ok {
			k.traced = append(k.traced, traced{i, sc})
		}
	}
}

// tellEnqueued makes spans of an enqueue that is being answered.
func (c *conn) tellEnqueued(k *call, st *fsm.State, out []fsm.Outcome, err *group.Error) {
	for _, t := range k.traced {
		id, code := "", ""
		switch {
		case err != nil:
			code = err.Code
		case t.at >= len(out):
			code = string(wire.CodeInternal)
		case out[t.at].Code != fsm.OK:
			code = string(refusal(k, st, &out[t.at]).Code)
		default:
			id = out[t.at].ID.String()
		}
		c.srv.cfg.Spans.Enqueued(k.queue, id, code, t.parent, k.start)
	}
}

// traceDelivery makes a span of the message that was added last, and has its headers lead to that. mu is held.
func (c *conn) traceDelivery(now time.Time) {
	m := &c.msgs[len(c.msgs)-1]
	parent, at, ok := parentOf(m.Headers)
	if !ok {
		return
	}
	d := &c.lease
	m.Headers[at].Value = c.srv.cfg.Spans.Delivered(d.Queue, strings.Clone(m.ID), d.Attempt, parent, d.EnqueuedAt, now)
}
