package spans

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorate/quorate/bench/leaks"
	"github.com/quorate/quorate/transport/spans/spanstest"
)

func TestMain(m *testing.M) { leaks.Main(m) }

const (
	patience = 10 * time.Second
	sampled  = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
)

// failing is a collector on loopback that takes nothing.
func failing(t *testing.T, answer http.HandlerFunc) (url string) {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL + "/v1/traces"
}

func recorder(t *testing.T, cfg Config) *Recorder {
	t.Helper()
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(t.Context()) })
	return r
}

// count is what a counter has come to.
func count(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

func parent(t *testing.T) trace.SpanContext {
	t.Helper()
	sc, ok := Parse(sampled)
	if !ok {
		t.Fatal("the example is no traceparent")
	}
	return sc
}

// What the doors tell comes to the collector as OTLP has it.
func TestSpansReachTheCollector(t *testing.T) {
	t.Parallel()
	c := spanstest.Start(t)
	reg := prometheus.NewRegistry()
	r := recorder(t, Config{Endpoint: c.URL, Node: "n1", Version: "v9", Registry: reg, Every: time.Hour})
	start := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	r.Enqueued("orders", "MESSAGE", "", parent(t), start)
	r.Enqueued("orders", "", "queue_full", parent(t), start)
	first := r.Delivered("orders", "MESSAGE", 1, parent(t), start.UnixMilli(), start.Add(time.Second))
	second := r.Delivered("orders", "MESSAGE", 2, parent(t), start.UnixMilli(), start.Add(2*time.Second))
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := count(t, r.metrics.sent); n != 4 {
		t.Errorf("%v spans sent, want 4", n)
	}
	spans := c.Spans()
	if len(spans) != 4 {
		t.Fatalf("%+v", spans)
	}
	for i, s := range spans {
		if s.TraceID != "0af7651916cd43dd8448eb211c80319c" || s.Parent != "b7ad6b7169203331" || s.Flags != 1|otlpHasRemote|otlpRemote || s.Scope == "" {
			t.Errorf("span %d: %+v", i, s)
		}
		if s.Resource["service.name"] != "quorate" || s.Resource["service.version"] != "v9" || s.Resource["service.instance.id"] != "n1" {
			t.Errorf("span %d: the resource is %v", i, s.Resource)
		}
		a := s.Attributes
		if a["messaging.system"] != "quorate" || a["messaging.destination.name"] != "orders" || s.Name != a["messaging.operation.name"]+" orders" {
			t.Errorf("span %d, %s: %v", i, s.Name, a)
		}
	}
	if s := spans[0]; s.Name != "enqueue orders" || s.Kind != 2 || !s.Start.Equal(start) || s.Failed || s.Attributes["messaging.message.id"] != "MESSAGE" {
		t.Errorf("enqueue: %+v", s)
	}
	if s := spans[1]; !s.Failed || s.Why != "queue_full" {
		t.Errorf("a refused enqueue: %+v", s)
	}
	d1, d2 := spans[2], spans[3]
	if d1.Name != "deliver orders" || d1.Kind != 4 || !d1.Start.Equal(start) || !d1.End.Equal(start.Add(time.Second)) || len(d1.Links) != 0 || d1.Attributes["quorate.attempt"] != "1" {
		t.Errorf("the first delivery: %+v", d1)
	}
	if !d2.Start.Equal(d2.End) || len(d2.Links) != 1 || d2.Links[0].SpanID != d1.SpanID || d2.Links[0].TraceID != d1.TraceID || d2.Links[0].Attributes["quorate.attempt"] != "1" {
		t.Errorf("the second delivery: %+v", d2)
	}
	for i, tp := range []string{first, second} {
		if want := "00-0af7651916cd43dd8448eb211c80319c-" + spans[2+i].SpanID + "-01"; tp != want {
			t.Errorf("the worker goes on from %s, want %s", tp, want)
		}
	}
}

// A webhook is a span of its sender's trace where he has one that is sampled, of one that begins with it where he says nothing, and else none.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	c := spanstest.Start(t)
	r := recorder(t, Config{Endpoint: c.URL, Every: time.Hour})
	now := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	sent := parent(t)
	unsampled := sent.WithTraceFlags(0)
	of := r.Arrive(sent, now)
	if of.TraceID() != sent.TraceID() || of.SpanID() == sent.SpanID() || !of.IsSampled() || !of.IsValid() {
		t.Errorf("of a traced one: %v", of)
	}
	if none := r.Arrive(unsampled, now); none.IsValid() {
		t.Errorf("of one that is not sampled: %v", none)
	}
	root := r.Arrive(trace.SpanContext{}, now)
	if !root.IsValid() || !root.IsSampled() || root.TraceID() == sent.TraceID() {
		t.Fatalf("of one without a trace: %v", root)
	}
	if other := r.Arrive(trace.SpanContext{}, now); other.TraceID() == root.TraceID() || other.SpanID() == root.SpanID() {
		t.Errorf("two webhooks are one trace: %v", other)
	}
	r.Arrived(Webhook{Hook: "gh", Queue: "q", Message: "M", Status: 202, Start: now}, of, sent)
	r.Arrived(Webhook{Hook: "gh", Queue: "q", Status: 400, Code: "invalid_argument", Start: now}, root, trace.SpanContext{})
	r.Enqueued("q", "M2", "", root, now) // what comes of it is of its trace
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := c.Spans()
	if len(all) != 3 {
		t.Fatalf("%+v", all)
	}
	a := all[0].Attributes
	if s := all[0]; s.Name != "webhook gh" || s.TraceID != sent.TraceID().String() || s.Parent != sent.SpanID().String() || s.SpanID != of.SpanID().String() || s.Kind != 2 || s.Failed ||
		!s.Start.Equal(now) || a["quorate.hook"] != "gh" || a["messaging.destination.name"] != "q" || a["messaging.message.id"] != "M" || a["http.response.status_code"] != "202" {
		t.Errorf("of the sender's trace: %+v", s)
	}
	if s := all[1]; s.TraceID != root.TraceID().String() || s.Parent != "" || s.SpanID != root.SpanID().String() || !s.Failed || s.Why != "invalid_argument" || s.Attributes["http.response.status_code"] != "400" {
		t.Errorf("of a trace that it begins: %+v", s)
	}
	if s := all[2]; s.TraceID != root.TraceID().String() || s.Parent != root.SpanID().String() {
		t.Errorf("its enqueue: %+v", s)
	}
}

// A flood of webhooks begins so many traces a second and no more; those that are traced already are not counted.
func TestTracesBegunAreBounded(t *testing.T) {
	t.Parallel()
	r := recorder(t, Config{Endpoint: "http://127.0.0.1:1/v1/traces", Begin: 10})
	now := time.UnixMilli(1_795_824_000_000)
	begun := func(n int, at time.Time) (some int) {
		for range n {
			if r.Arrive(trace.SpanContext{}, at).IsValid() {
				some++
			}
			if !r.Arrive(parent(t), at).IsValid() {
				t.Error("a traced one is not")
			}
		}
		return some
	}
	for _, tc := range []struct {
		name  string
		after time.Duration // since the first
		want  int
	}{
		{"at once", 0, 10}, {"at the same time", 0, 0}, {"a tenth of a second later", 100 * time.Millisecond, 1}, {"a second later", 1100 * time.Millisecond, 10},
		{"before that, by a clock that was set back", 0, 0}, {"a second after that", time.Second, 10}, {"an hour later", time.Hour, 10},
	} {
		if n := begun(100, now.Add(tc.after)); n != tc.want {
			t.Errorf("%s: %d begun, want %d", tc.name, n, tc.want)
		}
	}
}

// A collector that is not there, refuses or hangs holds up nobody: what it does not take is counted.
func TestCollectorThatTakesNothing(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	refusing := failing(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	away := failing(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
	})
	hanging := failing(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-free:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(free) })
	for _, tc := range []struct {
		name, url string
		left      bool // there is no time to wait for it
	}{
		{"not there", "http://127.0.0.1:1/v1/traces", false}, {"refuses", refusing, false}, {"sends elsewhere", away, false}, {"hangs", hanging, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := recorder(t, Config{Endpoint: tc.url, Every: time.Millisecond, Queue: 16})
			const n = 10_000
			began := time.Now()
			for range n {
				r.Enqueued("q", "m", "", parent(t), began)
			}
			if took := time.Since(began); took > patience {
				t.Errorf("%d spans took %v of their tellers", n, took)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			if !tc.left {
				cancel()
				ctx, cancel = context.WithTimeout(t.Context(), patience)
			}
			defer cancel()
			began = time.Now()
			err := r.Close(ctx)
			if took := time.Since(began); took > patience {
				t.Errorf("Close took %v", took)
			}
			failed, lost, sent := count(t, r.metrics.failed), count(t, r.metrics.lost), count(t, r.metrics.sent)
			if sent != 0 || failed+lost != n || failed == 0 || (err != nil) != tc.left {
				t.Errorf("%v failed, %v lost, %v sent, and Close says %v", failed, lost, sent, err)
			}
		})
	}
}

func TestTraceparent(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, s     string
		ok, sampled bool
	}{
		{"sampled", sampled, true, true},
		{"not sampled", strings.TrimSuffix(sampled, "1") + "0", true, false},
		{"other flags", strings.TrimSuffix(sampled, "01") + "03", true, true},
		{"a later version", "cc" + sampled[2:], true, true},
		{"a later version, with more", "cc" + sampled[2:] + "-what", true, true},
		{"a later version, with more and no dash", "cc" + sampled[2:] + "what", false, false},
		{"version 00 with more", sampled + "-what", false, false},
		{"version ff", "ff" + sampled[2:], false, false},
		{"upper case", strings.ToUpper(sampled), false, false},
		{"no trace", "00-00000000000000000000000000000000-b7ad6b7169203331-01", false, false},
		{"no span", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false, false},
		{"short", sampled[:54], false, false},
		{"empty", "", false, false},
		{"no hex", strings.Replace(sampled, "0af", "0ag", 1), false, false},
		{"no hex in the flags", strings.TrimSuffix(sampled, "1") + "x", false, false},
		{"other dashes", strings.ReplaceAll(sampled, "-", "_"), false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sc, ok := Parse(tc.s)
			if ok != tc.ok || sc.IsSampled() != tc.sampled {
				t.Errorf("%q: %v, sampled %v", tc.s, ok, sc.IsSampled())
			}
			if ok && strings.HasPrefix(tc.s, "00") && Traceparent(sc) != tc.s {
				t.Errorf("%q is written as %q", tc.s, Traceparent(sc))
			}
		})
	}
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	for s, ok := range map[string]bool{
		"http://127.0.0.1:4318/v1/traces": true, "https://collector.example/v1/traces": true,
		"": false, "127.0.0.1:4318": false, "ftp://h/x": false, "http://": false, "http://u:secret@h/v1/traces": false, "http://h/v1?key=secret": false, "http://h/#x": false, "::": false,
	} {
		if err := CheckEndpoint(s); (err == nil) != ok {
			t.Errorf("%q: %v", s, err)
		}
		if ok {
			continue
		}
		if _, err := New(Config{Endpoint: s}); err == nil {
			t.Errorf("a recorder for %q", s)
		}
	}
}

// A request's trace context is read as far as it is one.
func TestFromRequest(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, parent, state string
		valid               bool
		want                string
	}{
		{"both", sampled, "vendor=1,other=2", true, "vendor=1,other=2"},
		{"no state", sampled, "", true, ""},
		{"a state that is none", sampled, "what", true, ""},
		{"a state alone", "", "vendor=1", false, ""},
		{"a parent that is none", "what", "vendor=1", false, ""},
		{"nothing", "", "", false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := http.Header{}
			h.Set("traceparent", tc.parent)
			h.Set("tracestate", tc.state)
			if p, state := FromRequest(h); p.IsValid() != tc.valid || state != tc.want {
				t.Errorf("%v and %q", p, state)
			}
		})
	}
}
