package spans

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Config is what a Recorder needs. Zero values mean the default in every field that names one.
type Config struct {
	Endpoint string                // URL that OTLP requests are posted to, such as http://127.0.0.1:4318/v1/traces; required
	Node     string                // label, an attribute of all spans
	Version  string                // of the binary
	Logger   *slog.Logger          // nil: silent
	Registry prometheus.Registerer // nil: no metrics
	Every    time.Duration         // at most this long from a span to its request; default 5 s
	Queue    int                   // spans that wait to be made; default 8,192
	Timeout  time.Duration         // of a request; default 10 s
	Begin    int                   // traces that Arrive begins a second, at most; default 100
}

// Recorder takes in what the doors have seen and makes spans of it. Make it with New; end it with Close. Its methods do not block and are safe
// for concurrent use.
type Recorder struct {
	tracer  trace.Tracer
	made    made // the goroutine's
	export  *exporter
	every   time.Duration
	seen    chan seen
	roots   allowance
	metrics *counts
	stop    chan struct{}
	once    sync.Once
	ctx     context.Context // of requests; ended when Close has no more time
	cancel  context.CancelFunc
	ended   chan struct{}
}

// made are spans that wait to be sent. It is a sdktrace.SpanProcessor, called by the goroutine that ends the spans.
type made struct{ spans []sdktrace.ReadOnlySpan }

// OnStart is of sdktrace.SpanProcessor.
func (*made) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd is of sdktrace.SpanProcessor.
func (m *made) OnEnd(s sdktrace.ReadOnlySpan) { m.spans = append(m.spans, s) }

// Shutdown is of sdktrace.SpanProcessor.
func (*made) Shutdown(context.Context) error { return nil }

// ForceFlush is of sdktrace.SpanProcessor.
func (*made) ForceFlush(context.Context) error { return nil }

// batchSpans is how many spans a request carries at most.
const batchSpans = 512

// seen is a span to be made.
type seen struct {
	op, queue, message, code string
	hook                     string // that it came by; "": none
	kind                     trace.SpanKind
	parent                   trace.SpanContext
	root                     trace.TraceID // of a span without a parent; zero: it has one
	id, link                 trace.SpanID  // zero: any, none
	start, end               time.Time
	attempt                  int32 // 0: none
	status                   int   // of an answer; 0: none
}

// CheckEndpoint says what is wrong with an endpoint.
func CheckEndpoint(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%.200q is no URL that spans can be posted to; such as http://127.0.0.1:4318/v1/traces would be right", s)
	}
	return nil
}

// New makes a Recorder that sends what it is told until Close.
func New(cfg Config) (*Recorder, error) {
	if err := CheckEndpoint(cfg.Endpoint); err != nil {
		return nil, fmt.Errorf("spans: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Every == 0 {
		cfg.Every = 5 * time.Second
	}
	if cfg.Queue == 0 {
		cfg.Queue = 8192
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Begin == 0 {
		cfg.Begin = 100
	}
	m, err := newCounts(cfg.Registry)
	if err != nil {
		return nil, err
	}
	e := &exporter{
		url: cfg.Endpoint, metrics: m, log: cfg.Logger.With("component", "spans"),
		client: &http.Client{
			Timeout:       cfg.Timeout,
			Transport:     &http.Transport{MaxIdleConns: 1, IdleConnTimeout: 30 * time.Second, Proxy: http.ProxyFromEnvironment},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	r := &Recorder{metrics: m, export: e, every: cfg.Every, seen: make(chan seen, cfg.Queue), roots: allowance{rate: float64(cfg.Begin)}, stop: make(chan struct{}), ended: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.ParentBased(begun{})), // the producer's decision, and Arrive's
		sdktrace.WithIDGenerator(chosen{}),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "quorate"), attribute.String("service.version", cfg.Version), attribute.String("service.instance.id", cfg.Node))),
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{AttributeValueLengthLimit: -1, AttributeCountLimit: 32, EventCountLimit: 8, LinkCountLimit: 8,
			AttributePerEventCountLimit: 8, AttributePerLinkCountLimit: 8}),
		sdktrace.WithSpanProcessor(&r.made),
	)
	r.tracer = provider.Tracer("github.com/quorate/quorate", trace.WithInstrumentationVersion(cfg.Version))
	go r.keep()
	return r, nil
}

// Close sends what is left, until ctx ends. Twice is fine. The error says that ctx ended first: spans are lost.
func (r *Recorder) Close(ctx context.Context) error {
	r.once.Do(func() { close(r.stop) })
	defer context.AfterFunc(ctx, r.cancel)()
	<-r.ended
	r.cancel()
	r.metrics.unregister()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("send the last spans: %w", err)
	}
	return nil
}

// Enqueued tells of a message that a producer has sent, from its arrival to now. code is why it was refused, "" if it was not.
func (r *Recorder) Enqueued(queue, message, code string, parent trace.SpanContext, start time.Time) {
	r.put(seen{op: "enqueue", queue: queue, message: message, code: code, kind: trace.SpanKindServer, parent: parent, start: start, end: time.Now()})
}

// Delivered tells of a message that is handed to a worker now, and gives the traceparent that he is to go on from. message is its id, enqueued
// Unix ms of its enqueue: of a first attempt the span covers the time since.
func (r *Recorder) Delivered(queue, message string, attempt int32, parent trace.SpanContext, enqueued int64, now time.Time) (traceparent string) {
	s := seen{op: "deliver", queue: queue, message: message, kind: trace.SpanKindProducer, parent: parent, id: deliveryID(message, attempt), attempt: attempt, start: now, end: now}
	if attempt > 1 {
		s.link = deliveryID(message, attempt-1)
	} else if at := time.UnixMilli(enqueued); at.Before(now) {
		s.start = at
	}
	r.put(s)
	return Traceparent(parent.WithSpanID(s.id))
}

// deliveryID is the id of the span of a message's attempt, on whichever node it is handed out.
func deliveryID(message string, attempt int32) (id trace.SpanID) {
	b := make([]byte, 0, 64)
	b = binary.BigEndian.AppendUint32(append(b, message...), uint32(attempt))
	sum := sha256.Sum256(b)
	copy(id[:], sum[:])
	id[0] |= 1 // zero is no id
	return id
}

func (r *Recorder) put(s seen) {
	select {
	case r.seen <- s:
	default:
		r.metrics.lost.Inc()
	}
}

// keep makes spans and sends them, until Close and what has come by then.
func (r *Recorder) keep() {
	defer close(r.ended)
	defer r.export.client.CloseIdleConnections()
	tick := time.NewTicker(r.every)
	defer tick.Stop()
	for {
		select {
		case s := <-r.seen:
			r.make(s)
		case <-tick.C:
			r.send()
		case <-r.stop:
			for len(r.seen) > 0 {
				r.make(<-r.seen)
			}
			r.send()
			return
		}
	}
}

// send sends the spans that have been made.
func (r *Recorder) send() {
	if len(r.made.spans) > 0 {
		r.export.send(r.ctx, r.made.spans)
		clear(r.made.spans)
		r.made.spans = r.made.spans[:0]
	}
}

func (r *Recorder) make(s seen) {
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), s.parent)
	if s.id.IsValid() {
		ctx = context.WithValue(ctx, chosenKey{}, ids{s.root, s.id})
	}
	attrs := []attribute.KeyValue{attribute.String("messaging.system", "quorate"), attribute.String("messaging.operation.name", s.op),
		attribute.String("messaging.destination.name", s.queue)}
	if s.message != "" {
		attrs = append(attrs, attribute.String("messaging.message.id", s.message))
	}
	if s.attempt > 0 {
		attrs = append(attrs, attribute.Int("quorate.attempt", int(s.attempt)))
	}
	name := s.op + " " + s.queue
	if s.hook != "" {
		name = s.op + " " + s.hook
		attrs = append(attrs, attribute.String("quorate.hook", s.hook), attribute.Int("http.response.status_code", s.status))
	}
	opts := []trace.SpanStartOption{trace.WithTimestamp(s.start), trace.WithSpanKind(s.kind), trace.WithAttributes(attrs...)}
	if s.link.IsValid() {
		opts = append(opts, trace.WithLinks(trace.Link{
			SpanContext: s.parent.WithSpanID(s.link),
			Attributes:  []attribute.KeyValue{attribute.Int("quorate.attempt", int(s.attempt-1))},
		}))
	}
	_, span := r.tracer.Start(ctx, name, opts...)
	if s.code != "" {
		span.SetStatus(codes.Error, s.code)
	}
	span.End(trace.WithTimestamp(s.end))
	if len(r.made.spans) >= batchSpans {
		r.send()
	}
}
