package push

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// While an endpoint cannot be connected to, messages stay where they are: knocks find out when it is back, one message is tried, and then
// all go, each in its first attempt.
func TestRestsUntilReached(t *testing.T) {
	t.Parallel()
	addr := vacant(t)
	b, clock, reg := newBroker(Target{Queue: "q", URL: "http://" + addr, Concurrency: 4}), newClock(), prometheus.NewRegistry()
	p, _ := start(t, Config{Broker: b, Allow: loopbacks, Clock: clock, Registry: reg})
	const n = 20
	for i := range n {
		b.queue("q") <- &Message{ID: fmt.Sprint(i), Attempt: 1}
	}
	if o := b.round(t); o.Concurrency != 4 || o.Lease != DefaultTimeout+leaseMargin {
		t.Errorf("consumes %+v", o)
	}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		r := clock.next(t)
		if r.d != want*time.Second {
			t.Fatalf("rests %s, want %ds", r.d, want)
		}
		says(t, p, "q", "rests until "+clock.Now().Add(r.d).Format(time.RFC3339)+": no connection: ")
		if v := series(t, reg, "quorate_push_resting")[`queue="q"`]; v != 1 {
			t.Errorf("resting is %g", v)
		}
		clock.pass(r)
	}
	given := len(b.settled)
	if given < breakAfter || given >= breakAfter+4 {
		t.Errorf("%d messages were given back, want %d, and those on their way at that moment", given, breakAfter)
	}
	r := clock.next(t)
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Skipf("the port has been taken: %v", err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
	clock.pass(r)
	if o := b.round(t); o.Concurrency != 1 {
		t.Errorf("tries %d at once", o.Concurrency)
	}
	if o := b.round(t); o.Concurrency != 4 {
		t.Errorf("goes on with %d at once", o.Concurrency)
	}
	done := map[string]bool{}
	for len(done) < n {
		x := b.next(t)
		switch {
		case x.m.Attempt != 1:
			t.Errorf("message %s in attempt %d", x.m.ID, x.m.Attempt)
		case x.verdict.Do == Ack:
			done[x.m.ID] = true
		case x.verdict.Do != Return:
			t.Errorf("message %s: %+v", x.m.ID, x.verdict)
		}
	}
	says(t, p, "q", "pushing")
	if v := series(t, reg, "quorate_push_resting")[`queue="q"`]; v != 0 {
		t.Errorf("resting is %g", v)
	}
}

// An endpoint that fails gets five requests, and after each rest one.
func TestRestsWhileFailing(t *testing.T) {
	t.Parallel()
	var fails atomic.Bool
	fails.Store(true)
	var hits atomic.Int64
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		if fails.Load() {
			w.WriteHeader(500)
		}
	})
	b, clock := newBroker(Target{Queue: "q", URL: s.URL, Concurrency: 1}), newClock()
	p, _ := start(t, Config{Broker: b, Allow: loopbacks, Clock: clock})
	for i := range 10 {
		b.queue("q") <- &Message{ID: fmt.Sprint(i), Attempt: 1}
	}
	for i, want := range []time.Duration{1, 2, 4} {
		r := clock.next(t)
		if r.d != want*time.Second || hits.Load() != int64(breakAfter+i) {
			t.Errorf("rest %d is %s, after %d requests", i, r.d, hits.Load())
		}
		if i == 2 {
			fails.Store(false)
		}
		clock.pass(r)
	}
	done := map[string]bool{}
	for len(done) < 10 {
		if x := b.next(t); x.verdict.Do == Ack {
			done[x.m.ID] = true
		}
	}
	says(t, p, "q", "pushing")
}

// What the Broker cannot do is tried again after a second.
func TestBrokerFails(t *testing.T) {
	t.Parallel()
	url, got := recorder(t)
	b, clock := newBroker(Target{Queue: "q", URL: url}), newClock()
	b.fail = errors.New("no session")
	p, _ := start(t, Config{Broker: b, Allow: loopbacks, Clock: clock})
	for last := range 3 {
		r := clock.next(t)
		says(t, p, "q", "no messages are to be had: no session")
		if r.d != time.Second {
			t.Errorf("rests %s", r.d)
		}
		if last == 2 {
			b.mu.Lock()
			b.fail = nil
			b.mu.Unlock()
		}
		clock.pass(r)
	}
	b.queue("q") <- &Message{ID: "1"}
	<-got
}

// A node that leads no longer sends nothing more: what runs may end, what does not end is given back, and what was not begun stays.
func TestLeadershipEnds(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}, 10), make(chan struct{})
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		begun <- struct{}{}
		if r.Header.Get("Webhook-Id") == "quick" {
			<-release
			return
		}
		<-r.Context().Done()
	})
	b := newBroker(Target{Queue: "q", URL: s.URL, Concurrency: 2, Timeout: time.Minute})
	reg := prometheus.NewRegistry()
	p, _ := start(t, Config{Broker: b, Allow: loopbacks, Registry: reg})
	for _, id := range []string{"quick", "slow", "waits"} {
		b.queue("q") <- &Message{ID: id}
	}
	<-begun
	<-begun
	p.mu.Lock()
	life := p.runners["q"].life
	p.mu.Unlock()
	b.leads.Store(false)
	<-life.Done()
	close(release)
	ends := map[string]Do{}
	for _, quick := ends["quick"]; !quick || len(ends) < 2; _, quick = ends["quick"] {
		x := b.next(t)
		if x.m.ID == "waits" { // the Broker may bring it yet, and it is not sent
			if x.verdict.Do != Return {
				t.Errorf("what was not begun: %+v", x.verdict)
			}
			continue
		}
		ends[x.m.ID] = x.verdict.Do
	}
	if ends["quick"] != Ack || ends["slow"] != Return {
		t.Errorf("ends are %v", ends)
	}
	deadline := time.After(patience)
	for p.State("q").Does != Unknown { // its runner has ended
		select {
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			t.Fatal("the runner does not end")
		}
	}
	if n := len(begun); n != 0 {
		t.Errorf("%d more requests were made", n)
	}
	for _, name := range []string{"quorate_push_requests_total", "quorate_push_resting"} {
		if s := series(t, reg, name); len(s) != 0 {
			t.Errorf("%s is left with %v", name, s)
		}
	}
}

// Queues beyond the bounds are not pushed and say so; when others go they come.
func TestBounds(t *testing.T) {
	t.Parallel()
	url, _ := recorder(t)
	var all []Target
	for i := range MaxRequests / 256 {
		all = append(all, Target{Queue: fmt.Sprintf("a%03d", i), URL: url, Concurrency: 256})
	}
	all = append(all, Target{Queue: "beyond", URL: url, Concurrency: 1})
	b := newBroker(all...)
	p, _ := start(t, Config{Broker: b, Allow: loopbacks})
	if s := p.State("nobody"); s != (State{}) {
		t.Errorf("a queue that is not known says %q", s.Text)
	}
	says(t, p, "beyond", "2048 requests at once are promised to other queues")
	b.set(all[1:]...)
	says(t, p, "beyond", "pushing")
	var many []Target
	for i := range MaxQueues + 2 {
		many = append(many, Target{Queue: fmt.Sprintf("b%03d", i), URL: url, Concurrency: 1})
	}
	b.set(many...)
	says(t, p, many[MaxQueues].Queue, "not pushed: the first 500 queues by name")
	for _, q := range []string{many[MaxQueues+1].Queue, "z"} { // the listing does not have them, however many they are
		if s := p.State(q); s.Does != Barred || s.Text != tooMany {
			t.Errorf("%s, far beyond the bound, says %+v", q, s)
		}
	}
	says(t, p, many[MaxQueues-1].Queue, "pushing")
	b.set(many[2:]...)
	says(t, p, many[MaxQueues+1].Queue, "pushing")
}

// What a rest says of itself: why and until when, and no time once that has passed, while the endpoint is knocked at.
func TestStateOfARest(t *testing.T) {
	t.Parallel()
	clock := newClock()
	q := &runner{p: &Pusher{cfg: Config{Clock: clock}}}
	for _, tc := range []struct {
		name  string
		until time.Time
		want  State
	}{
		{"none", time.Time{}, State{Does: Pushing, Text: "pushing"}},
		{"under way", theTime.Add(time.Second), State{Does: Resting, Why: "503: full", Until: theTime.Add(time.Second), Text: "rests until 2026-11-28T12:00:01Z: 503: full"}},
		{"over but for a knock", theTime, State{Does: Resting, Why: "503: full", Text: "rests until 2026-11-28T12:00:00Z: 503: full"}},
	} {
		q.until, q.why = tc.until, "503: full"
		if got := q.state(); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

// series are the values of a metric, of a histogram its count, by labels.
func series(t *testing.T, reg *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range all {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			out[strings.Join(labels, ",")] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

// The metrics have the names that doc.go says, with a series for each outcome that was.
func TestMetrics(t *testing.T) {
	t.Parallel()
	url, _ := recorder(t)
	b, reg := newBroker(Target{Queue: "q", URL: url}), prometheus.NewRegistry()
	p, _ := start(t, Config{Broker: b, Allow: loopbacks, Registry: reg})
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() { b.queue("q") <- &Message{ID: fmt.Sprint(i)} })
	}
	wg.Wait()
	for range 5 {
		b.next(t)
	}
	says(t, p, "q", "pushing") // the look that has begun it is over
	for name, want := range map[string]string{
		"quorate_push_requests_total": `map[outcome="delivered",queue="q":5]`, "quorate_push_resting": `map[queue="q":0]`,
		"quorate_push_queues": "map[:1]", "quorate_push_addresses_refused_total": "map[:0]", "quorate_push_seconds": "map[:5]",
	} {
		if got := fmt.Sprint(series(t, reg, name)); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if _, err := New(Config{Broker: b, Registry: reg}); err == nil {
		t.Error("a second pusher has the same metrics")
	}
	if _, err := New(Config{}); err == nil {
		t.Error("a pusher without a Broker is made")
	}
}
