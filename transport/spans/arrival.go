package spans

import (
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Webhooks come from systems that mostly know nothing of traces, so they are the one place where the broker begins some itself: Config.Begin a
// second at most, since a flood of webhooks must not be one of spans.

// Arrive gives the span of a webhook that came now: a child of parent where that is a sampled span, a trace of its own where the sender has said
// nothing (parent is zero) and it is one of those that are begun. Otherwise it is zero, and there is no span.
func (r *Recorder) Arrive(parent trace.SpanContext, now time.Time) (span trace.SpanContext) {
	switch {
	case parent.IsSampled() && parent.IsValid():
		return parent.WithSpanID(randomID()).WithRemote(false)
	case parent.IsValid() || !r.roots.take(now):
		return span
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: randomTrace(), SpanID: randomID(), TraceFlags: trace.FlagsSampled})
}

// Webhook is what became of one.
type Webhook struct {
	Hook, Queue string
	Message     string // its id; "": it is none
	Status      int    // that it was answered with
	Code        string // why it was refused, "" if it was not
	Start       time.Time
}

// Arrived tells of a webhook that has been answered. span is what Arrive gave for it, and parent what Arrive was given.
func (r *Recorder) Arrived(w Webhook, span, parent trace.SpanContext) {
	s := seen{op: "webhook", hook: w.Hook, queue: w.Queue, message: w.Message, status: w.Status, code: w.Code, kind: trace.SpanKindServer,
		id: span.SpanID(), start: w.Start, end: time.Now()}
	if parent.IsValid() {
		s.parent = parent
	} else {
		s.root = span.TraceID()
	}
	r.put(s)
}

// allowance lets so many through a second, and as many at once as come to a second.
type allowance struct {
	rate float64

	mu   sync.Mutex
	left float64   // guarded by mu
	at   time.Time // guarded by mu: when left was right; zero: never
}

func (a *allowance) take(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch passed := now.Sub(a.at).Seconds(); {
	case a.at.IsZero():
		a.left = a.rate
	case passed > 0: // a clock that goes back gives nothing
		a.left = min(a.rate, a.left+passed*a.rate)
	}
	a.at = now
	if a.left < 1 {
		return false
	}
	a.left--
	return true
}
