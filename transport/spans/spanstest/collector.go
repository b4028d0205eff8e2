package spanstest

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// Bounds of a collector.
const (
	maxBody  = 16 << 20
	maxSpans = 100_000
)

// Span is one that has been collected.
type Span struct {
	TraceID, SpanID string // hex
	Parent          string // hex of its parent's id; "": it is a root
	Flags           uint32
	Name            string
	Kind            int // as the protocol numbers them: 2 is a server, 4 a producer
	Start, End      time.Time
	Attributes      map[string]string // whole numbers in decimal
	Links           []Link
	Failed          bool   // its status is an error
	Why             string // what the status says
	Resource        map[string]string
	Scope           string
}

// Link is a span's link to another one.
type Link struct {
	TraceID, SpanID string
	Attributes      map[string]string
}

// Collector is an OTLP endpoint. Make it with Start. Its methods are safe for concurrent use.
type Collector struct {
	URL string // that spans are posted to

	mu    sync.Mutex
	spans []Span        // guarded by mu
	more  chan struct{} // guarded by mu: closed when there are more
}

// Start starts a collector that ends with the test.
func Start(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{more: make(chan struct{})}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.take(w, r); err != nil {
			t.Errorf("spans that are no OTLP: %v", err)
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}))
	t.Cleanup(s.Close)
	c.URL = s.URL + "/v1/traces"
	return c
}

// Spans is all that has come so far, in the order of arrival.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Named is what has come of a name.
func (c *Collector) Named(name string) []Span { return Named(c.Spans(), name) }

// Named are those spans that have a name.
func Named(all []Span, name string) (some []Span) {
	for _, s := range all {
		if s.Name == name {
			some = append(some, s)
		}
	}
	return some
}

// Await waits until enough says that what has come is enough, or ctx ends, which is an error.
func (c *Collector) Await(ctx context.Context, enough func(all []Span) bool) error {
	for {
		c.mu.Lock()
		all, more := slices.Clone(c.spans), c.more
		c.mu.Unlock()
		if enough(all) {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return fmt.Errorf("%d spans have come, which are not those: %w", len(all), ctx.Err())
		}
	}
}

func (c *Collector) take(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Path != "/v1/traces" || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		return fmt.Errorf("%s %s of %q; POST /v1/traces of application/json would be right", r.Method, r.URL, r.Header.Get("Content-Type"))
	}
	var b request
	if err := json.UnmarshalRead(http.MaxBytesReader(w, r.Body, maxBody), &b, json.RejectUnknownMembers(true)); err != nil {
		return err
	}
	got, err := b.spans()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.spans)+len(got) > maxSpans {
		return fmt.Errorf("more than %d spans", maxSpans)
	}
	c.spans = append(c.spans, got...)
	close(c.more)
	c.more = make(chan struct{})
	return nil
}

// What a request holds: opentelemetry-proto's ExportTraceServiceRequest, as far as it is used.
type (
	request struct {
		ResourceSpans []struct {
			Resource   attributed `json:"resource"`
			ScopeSpans []struct {
				Scope struct {
					Name    string `json:"name"`
					Version string `json:"version"`
				} `json:"scope"`
				Spans []rawSpan `json:"spans"`
			} `json:"scopeSpans"`
		} `json:"resourceSpans"`
	}
	attributed struct {
		Attributes []attribute `json:"attributes"`
	}
	attribute struct {
		Key   string `json:"key"`
		Value struct {
			String *string `json:"stringValue"`
			Int    *string `json:"intValue"`
		} `json:"value"`
	}
	rawSpan struct {
		TraceID    string      `json:"traceId"`
		SpanID     string      `json:"spanId"`
		Parent     string      `json:"parentSpanId"`
		Flags      uint32      `json:"flags"`
		Name       string      `json:"name"`
		Kind       int         `json:"kind"`
		Start      string      `json:"startTimeUnixNano"`
		End        string      `json:"endTimeUnixNano"`
		Attributes []attribute `json:"attributes"`
		Links      []rawLink   `json:"links"`
		Status     struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"status"`
	}
	rawLink struct {
		TraceID    string      `json:"traceId"`
		SpanID     string      `json:"spanId"`
		Attributes []attribute `json:"attributes"`
		Flags      uint32      `json:"flags"`
	}
)

// statusError is the number of a status that is an error.
const statusError = 2

func (b *request) spans() (all []Span, err error) {
	for i := range b.ResourceSpans {
		rs := &b.ResourceSpans[i]
		resource, err := valuesOf(rs.Resource.Attributes)
		if err != nil {
			return nil, err
		}
		for j := range rs.ScopeSpans {
			ss := &rs.ScopeSpans[j]
			for k := range ss.Spans {
				s, err := ss.Spans[k].span()
				if err != nil {
					return nil, fmt.Errorf("span %q: %w", ss.Spans[k].Name, err)
				}
				s.Resource, s.Scope = resource, ss.Scope.Name
				all = append(all, s)
			}
		}
	}
	return all, nil
}

func (r *rawSpan) span() (s Span, err error) {
	s = Span{TraceID: r.TraceID, SpanID: r.SpanID, Parent: r.Parent, Flags: r.Flags, Name: r.Name, Kind: r.Kind,
		Failed: r.Status.Code == statusError, Why: r.Status.Message}
	if s.Name == "" {
		return s, errors.New("it has no name")
	}
	if err := errors.Join(checkID(s.TraceID, 16), checkID(s.SpanID, 8)); err != nil {
		return s, err
	}
	if s.Parent != "" {
		if err := checkID(s.Parent, 8); err != nil {
			return s, err
		}
	}
	start, err1 := strconv.ParseInt(r.Start, 10, 64)
	end, err2 := strconv.ParseInt(r.End, 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return s, err
	}
	s.Start, s.End = time.Unix(0, start), time.Unix(0, end)
	if end < start {
		return s, fmt.Errorf("it ends %s before it begins", s.Start.Sub(s.End))
	}
	if s.Attributes, err = valuesOf(r.Attributes); err != nil {
		return s, err
	}
	for _, l := range r.Links {
		if err := errors.Join(checkID(l.TraceID, 16), checkID(l.SpanID, 8)); err != nil {
			return s, fmt.Errorf("a link: %w", err)
		}
		values, err := valuesOf(l.Attributes)
		if err != nil {
			return s, err
		}
		s.Links = append(s.Links, Link{TraceID: l.TraceID, SpanID: l.SpanID, Attributes: values})
	}
	return s, nil
}

// checkID judges an id of so many bytes.
func checkID(id string, bytes int) error {
	b, err := hex.DecodeString(id)
	if err != nil || len(b) != bytes || slices.Max(b) == 0 {
		return fmt.Errorf("%q is no id of %d bytes in hex", id, bytes)
	}
	return nil
}

func valuesOf(as []attribute) (map[string]string, error) {
	m := make(map[string]string, len(as))
	for _, a := range as {
		if _, ok := m[a.Key]; ok || a.Key == "" {
			return nil, fmt.Errorf("attribute %q is there twice, or has no name", a.Key)
		}
		switch v := a.Value; {
		case v.String != nil && v.Int == nil:
			m[a.Key] = *v.String
		case v.Int != nil && v.String == nil:
			if _, err := strconv.ParseInt(*v.Int, 10, 64); err != nil {
				return nil, err
			}
			m[a.Key] = *v.Int
		default:
			return nil, fmt.Errorf("attribute %q has not one value", a.Key)
		}
	}
	return m, nil
}
