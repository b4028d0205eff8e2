package spans

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// The body of an OTLP request in JSON: the mapping of opentelemetry-proto's trace.proto, in which ids are hex, 64-bit numbers strings and enums
// numbers.
type (
	otlpRequest struct {
		ResourceSpans []otlpResource `json:"resourceSpans"`
	}
	otlpResource struct {
		Resource   otlpAttributes `json:"resource"`
		ScopeSpans []otlpScope    `json:"scopeSpans"`
	}
	otlpAttributes struct {
		Attributes []otlpAttribute `json:"attributes"`
	}
	otlpScope struct {
		Scope struct {
			Name    string `json:"name"`
			Version string `json:"version,omitempty"`
		} `json:"scope"`
		Spans []otlpSpan `json:"spans"`
	}
	otlpSpan struct {
		TraceID      string          `json:"traceId"`
		SpanID       string          `json:"spanId"`
		ParentSpanID string          `json:"parentSpanId,omitempty"`
		Flags        uint32          `json:"flags"`
		Name         string          `json:"name"`
		Kind         int             `json:"kind"`
		Start        string          `json:"startTimeUnixNano"`
		End          string          `json:"endTimeUnixNano"`
		Attributes   []otlpAttribute `json:"attributes,omitempty"`
		Links        []otlpLink      `json:"links,omitempty"`
		Status       *otlpStatus     `json:"status,omitempty"`
	}
	otlpLink struct {
		TraceID    string          `json:"traceId"`
		SpanID     string          `json:"spanId"`
		Attributes []otlpAttribute `json:"attributes,omitempty"`
		Flags      uint32          `json:"flags"`
	}
	otlpStatus struct {
		Code    int    `json:"code"`
		Message string `json:"message,omitempty"`
	}
	otlpAttribute struct {
		Key   string    `json:"key"`
		Value otlpValue `json:"value"`
	}
	otlpValue struct {
		String *string `json:"stringValue,omitempty"`
		Int    *string `json:"intValue,omitempty"`
	}
)

// Numbers of the enums.
const (
	otlpKindServer, otlpKindProducer = 2, 4
	otlpStatusError                  = 2
	otlpHasRemote, otlpRemote        = 1 << 8, 1 << 9 // of flags: the parent is known to be remote or not; and is
)

var otlpKinds = map[trace.SpanKind]int{trace.SpanKindServer: otlpKindServer, trace.SpanKindProducer: otlpKindProducer}

func attributesOf(kvs []attribute.KeyValue) (out []otlpAttribute) {
	for _, kv := range kvs {
		a := otlpAttribute{Key: string(kv.Key)}
		if kv.Value.Type() == attribute.INT64 {
			n := strconv.FormatInt(kv.Value.AsInt64(), 10)
			a.Value.Int = &n
		} else {
			s := kv.Value.String()
			a.Value.String = &s
		}
		out = append(out, a)
	}
	return out
}

func spanOf(s sdktrace.ReadOnlySpan) otlpSpan {
	sc, parent := s.SpanContext(), s.Parent()
	o := otlpSpan{
		TraceID: sc.TraceID().String(), SpanID: sc.SpanID().String(), Flags: uint32(sc.TraceFlags()) | otlpHasRemote, Name: s.Name(), Kind: otlpKinds[s.SpanKind()],
		Start: strconv.FormatInt(s.StartTime().UnixNano(), 10), End: strconv.FormatInt(s.EndTime().UnixNano(), 10), Attributes: attributesOf(s.Attributes()),
	}
	if parent.IsValid() {
		o.ParentSpanID = parent.SpanID().String()
		if parent.IsRemote() {
			o.Flags |= otlpRemote
		}
	}
	for _, l := range s.Links() {
		o.Links = append(o.Links, otlpLink{TraceID: l.SpanContext.TraceID().String(), SpanID: l.SpanContext.SpanID().String(),
			Attributes: attributesOf(l.Attributes), Flags: uint32(l.SpanContext.TraceFlags())})
	}
	if st := s.Status(); st.Code == codes.Error {
		o.Status = &otlpStatus{Code: otlpStatusError, Message: st.Description}
	}
	return o
}

// requestOf is the request with spans of one Recorder, which have a resource and a scope in common.
func requestOf(spans []sdktrace.ReadOnlySpan) otlpRequest {
	var r otlpResource
	var sc otlpScope
	for i, s := range spans {
		if i == 0 {
			r.Resource.Attributes = attributesOf(s.Resource().Attributes())
			sc.Scope.Name, sc.Scope.Version = s.InstrumentationScope().Name, s.InstrumentationScope().Version
		}
		sc.Spans = append(sc.Spans, spanOf(s))
	}
	r.ScopeSpans = []otlpScope{sc}
	return otlpRequest{ResourceSpans: []otlpResource{r}}
}

// exporter posts spans to a collector. What it does not take is lost, and counted: spans are not worth keeping memory for. One goroutine uses it.
type exporter struct {
	url     string
	client  *http.Client
	metrics *counts
	log     *slog.Logger
	said    time.Time // when a failure was last logged
}

// sayEvery is how often a collector that takes nothing is complained about.
const sayEvery = time.Minute

// send posts spans, once.
func (e *exporter) send(ctx context.Context, spans []sdktrace.ReadOnlySpan) {
	err := e.post(ctx, spans)
	if err == nil {
		e.metrics.sent.Add(float64(len(spans)))
		return
	}
	e.metrics.failed.Add(float64(len(spans)))
	if now := time.Now(); e.said.IsZero() || now.Sub(e.said) >= sayEvery {
		e.said = now
		e.log.Warn("spans lost: the collector did not take them", "addr", e.url, "count", len(spans), "err", err)
	}
}

func (e *exporter) post(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	b, err := json.Marshal(requestOf(spans))
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection is used again
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("status %s", resp.Status)
	}
	return nil
}

// counts are the metrics of spans.
type counts struct {
	reg                prometheus.Registerer
	all                *prometheus.CounterVec
	sent, failed, lost prometheus.Counter
}

func newCounts(reg prometheus.Registerer) (*counts, error) {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "quorate_spans_total",
		Help: "Spans of traces: sent to the collector, failed there, or lost because too many were waiting."}, []string{"outcome"})
	c := &counts{reg: reg, all: v, sent: v.WithLabelValues("sent"), failed: v.WithLabelValues("failed"), lost: v.WithLabelValues("lost")}
	if reg != nil {
		if err := reg.Register(v); err != nil {
			return nil, fmt.Errorf("spans: register metrics: %w", err)
		}
	}
	return c, nil
}

func (c *counts) unregister() {
	if c.reg != nil {
		c.reg.Unregister(c.all)
	}
}
