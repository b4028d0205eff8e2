package transport

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// manyQueues makes a node with so many queues, a message of one of three kinds in each.
func manyQueues(t testing.TB, n int) *station {
	s := stations(t, 1, Config{Registry: prometheus.NewRegistry()})[0]
	p, _ := session(t, s.addr)
	for i := range n {
		var rep wire.Enqueued
		p.ask(wire.TypeEnqueue, &wire.Enqueue{Queue: fmt.Sprintf("queue-%05d", i), Messages: []wire.Message{{Kind: fmt.Sprintf("kind-%d", i%3)}}}, wire.TypeEnqueued, &rep)
	}
	return s
}

// discard is a client that counts what it is sent.
type discard struct {
	header       http.Header
	status, size int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(b []byte) (int, error) { d.size += len(b); return len(b), nil }

// BenchmarkScrape is what a scrape of a node with so many queues costs the node, before it is sent.
func BenchmarkScrape(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprintf("queues=%d", n), func(b *testing.B) {
			s := manyQueues(b, n)
			handler := s.doors.http.Handler
			var w discard
			b.ReportAllocs()
			b.ResetTimer()
			from := processCPU(b)
			for range b.N {
				w = discard{header: http.Header{}}
				handler.ServeHTTP(&w, httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/metrics", nil))
				if w.status > http.StatusOK {
					b.Fatal(w.status)
				}
			}
			b.ReportMetric((processCPU(b)-from)/float64(b.N)/1e6, "cpu-ms/op")
			b.ReportMetric(float64(w.size), "B/scrape")
		})
	}
}

// scraped is what a scraper reads of /metrics, as Prometheus' own parser has it.
func scraped(t *testing.T, addr string) map[string]*dto.MetricFamily {
	t.Helper()
	_, text, _ := get(t, "http://"+addr+"/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("metrics are not in the text format: %v", err)
	}
	return families
}

// labelsOf are a series' labels.
func labelsOf(m *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, l := range m.Label {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

// Whatever clients call their kinds, the text can be read and gives them back.
func TestMetricsOfAnyKind(t *testing.T) {
	n := stations(t, 1, Config{Registry: prometheus.NewRegistry()})[0]
	p, _ := session(t, n.addr)
	kinds := []string{"", `quote " and \ back`, "line\nbreak", "tab\tand ünïcödé ✓", "{}=,", "other", `\n`}
	want := map[string]bool{}
	for _, k := range kinds {
		p.enqueue("q-1.x:y", wire.Message{Kind: k})
		want[k] = true
	}
	for _, m := range scraped(t, n.addr)["quorate_queue_pending_total"].GetMetric() {
		l := labelsOf(m)
		if l["queue"] != "q-1.x:y" || !want[l["kind"]] || m.GetGauge().GetValue() != 1 {
			t.Errorf("unexpected series %v", m)
		}
		delete(want, l["kind"])
	}
	if len(want) > 0 {
		t.Errorf("kinds without a series: %v", want)
	}
}

// A queue with more kinds than are counted apart has a series for those, one for the rest and one for what has none; labels are
// those that are documented, so that nothing a client numbers makes series.
func TestMetricsAreBounded(t *testing.T) {
	n := stations(t, 1, Config{Registry: prometheus.NewRegistry()})[0]
	p, _ := session(t, n.addr)
	for i := range fsm.MaxKinds + 50 {
		p.enqueue("q", wire.Message{Kind: fmt.Sprintf("kind %d", i), TaskID: fmt.Sprintf("task-%d", i), Key: wire.Bytes("k")})
	}
	for range 5 {
		d := p.pull("q")
		var acked wire.Acked
		p.ask(wire.TypeAck, &wire.Ack{Token: d.Token}, wire.TypeAcked, &acked)
	}
	families := scraped(t, n.addr)
	pending := families["quorate_queue_pending_total"].GetMetric()
	if len(pending) != fsm.MaxKinds+2 {
		t.Errorf("%d series of pending messages, want %d", len(pending), fsm.MaxKinds+2)
	}
	sum := 0.0
	for _, m := range pending {
		sum += m.GetGauge().GetValue()
		if k := labelsOf(m)["kind"]; k == fsm.KindOther && m.GetGauge().GetValue() != 50 {
			t.Errorf("%v others, want 50", m.GetGauge().GetValue())
		}
	}
	if sum != fsm.MaxKinds+45 {
		t.Errorf("series of pending messages sum up to %v, want %d", sum, fsm.MaxKinds+45)
	}
	allowed := map[string]bool{"queue": true, "kind": true, "reason": true, "limit": true, "part": true, "table": true, "outcome": true, "code": true,
		"direction": true, "what": true, "node": true, "cluster": true, "version": true}
	for name, f := range families {
		if !strings.HasPrefix(name, "quorate_") {
			t.Errorf("%s has not the prefix", name)
		}
		if total := strings.HasSuffix(name, "_total"); total != (f.GetType() == dto.MetricType_COUNTER) && name != "quorate_queue_pending_total" {
			t.Errorf("%s is a %s", name, f.GetType())
		}
		for _, m := range f.GetMetric() {
			for l := range labelsOf(m) {
				if !allowed[l] {
					t.Errorf("%s has label %s", name, l)
				}
			}
		}
	}
}

// What could not be answered at once is refused, and says so.
func TestScrapesAtOnce(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	for range scrapesAtOnce {
		n.doors.scrapes <- struct{}{}
	}
	if code, text, _ := get(t, "http://"+n.addr+"/metrics"); code != http.StatusServiceUnavailable || !strings.Contains(text, "scrapes") {
		t.Errorf("got %d %q", code, text)
	}
	<-n.doors.scrapes
	if code, _, _ := get(t, "http://"+n.addr+"/metrics"); code != http.StatusOK {
		t.Errorf("got %d", code)
	}
}
