package spans

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorate/quorate/bench/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

const (
	patience = 10 * time.Second
	sampled  = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
)

// collector is an OTLP endpoint on loopback. Each request it takes comes out of bodies.
func collector(t *testing.T, answer func(http.ResponseWriter, *http.Request)) (url string, bodies chan otlpRequest) {
	t.Helper()
	bodies = make(chan otlpRequest, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer != nil {
			answer(w, r)
			return
		}
		var b otlpRequest
		if r.URL.Path != "/v1/traces" || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s of %s", r.Method, r.URL, r.Header.Get("Content-Type"))
		}
		d := json.NewDecoder(r.Body)
		d.DisallowUnknownFields()
		if err := d.Decode(&b); err != nil {
			t.Error(err)
		}
		bodies <- b
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1/traces", bodies
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
	url, bodies := collector(t, nil)
	reg := prometheus.NewRegistry()
	r := recorder(t, Config{Endpoint: url, Node: "n1", Version: "v9", Registry: reg, Every: time.Hour})
	start := time.UnixMilli(1_795_824_000_000)
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
	body := <-bodies
	text, _ := json.Marshal(body)
	res := body.ResourceSpans[0]
	if got := values(res.Resource.Attributes); got["service.name"] != "quorate" || got["service.version"] != "v9" || got["service.instance.id"] != "n1" {
		t.Errorf("the resource is %v", got)
	}
	spans := res.ScopeSpans[0].Spans
	if len(spans) != 4 || res.ScopeSpans[0].Scope.Name == "" {
		t.Fatalf("%s", text)
	}
	for i, s := range spans {
		if s.TraceID != "0af7651916cd43dd8448eb211c80319c" || s.ParentSpanID != "b7ad6b7169203331" || len(s.SpanID) != 16 || s.Flags != 1|otlpHasRemote|otlpRemote {
			t.Errorf("span %d: %+v", i, s)
		}
		a := values(s.Attributes)
		if a["messaging.system"] != "quorate" || a["messaging.destination.name"] != "orders" || s.Name != a["messaging.operation.name"]+" orders" {
			t.Errorf("span %d, %s: %v", i, s.Name, a)
		}
	}
	if s := spans[0]; s.Name != "enqueue orders" || s.Kind != 2 || s.Start != "1795824000000000000" || s.Status != nil || values(s.Attributes)["messaging.message.id"] != "MESSAGE" {
		t.Errorf("enqueue: %+v", s)
	}
	if s := spans[1]; s.Status == nil || s.Status.Code != 2 || s.Status.Message != "queue_full" {
		t.Errorf("a refused enqueue: %+v", s)
	}
	d1, d2 := spans[2], spans[3]
	if d1.Name != "deliver orders" || d1.Kind != 4 || d1.Start != "1795824000000000000" || d1.End != "1795824001000000000" || len(d1.Links) != 0 ||
		values(d1.Attributes)["quorate.attempt"] != "1" {
		t.Errorf("the first delivery: %+v", d1)
	}
	if d2.Start != d2.End || len(d2.Links) != 1 || d2.Links[0].SpanID != d1.SpanID || d2.Links[0].TraceID != d1.TraceID || values(d2.Links[0].Attributes)["quorate.attempt"] != "1" {
		t.Errorf("the second delivery: %+v", d2)
	}
	for i, tp := range []string{first, second} {
		if want := "00-0af7651916cd43dd8448eb211c80319c-" + spans[2+i].SpanID + "-01"; tp != want {
			t.Errorf("the worker goes on from %s, want %s", tp, want)
		}
	}
}

func values(as []otlpAttribute) map[string]string {
	m := map[string]string{}
	for _, a := range as {
		switch {
		case a.Value.String != nil:
			m[a.Key] = *a.Value.String
		case a.Value.Int != nil:
			m[a.Key] = *a.Value.Int
		}
	}
	return m
}

// A collector that is not there, refuses or hangs holds up nobody: what it does not take is counted.
func TestCollectorThatTakesNothing(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	refusing, _ := collector(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	away, _ := collector(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
	})
	hanging, _ := collector(t, func(_ http.ResponseWriter, r *http.Request) {
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
