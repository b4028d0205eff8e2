package hook

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/transport/spans"
	"github.com/quorate/quorate/transport/spans/spanstest"
	"github.com/quorate/quorate/wire"
)

const (
	traceID   = "0af7651916cd43dd8448eb211c80319c"
	sampled   = "00-" + traceID + "-b7ad6b7169203331-01"
	unsampled = "00-" + traceID + "-b7ad6b7169203331-00"
)

// traceOf are the trace headers of a message.
func traceOf(t *testing.T, m *wire.Message) (parent, state string) {
	t.Helper()
	for _, h := range m.Headers {
		switch h.Name {
		case spans.HeaderTraceparent:
			if parent != "" {
				t.Errorf("two traceparents: %v", m.Headers)
			}
			parent = h.Value
		case spans.HeaderTracestate:
			state = h.Value
		}
	}
	return parent, state
}

// A trace context goes along, with and without spans of this node, and whatever is kept by configuration; what is none does not.
func TestTraceContext(t *testing.T) {
	t.Parallel()
	keeps := githubHook("keeps")
	keeps.KeepHeaders = append(keeps.KeepHeaders, "traceparent", "Tracestate")
	full := githubHook("full")
	full.KeepHeaders = nil
	for i := range maxKeepHeaders {
		full.KeepHeaders = append(full.KeepHeaders, fmt.Sprint("X-H", i))
	}
	for _, spanned := range []bool{false, true} {
		t.Run(fmt.Sprint("spans: ", spanned), func(t *testing.T) {
			t.Parallel()
			c := spanstest.Start(t)
			var cfg Config
			if spanned {
				r, err := spans.New(spans.Config{Endpoint: c.URL, Every: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = r.Close(t.Context()) }) // a second one is fine
				cfg.Spans = r
			}
			s := serveHooks(t, cfg, githubHook("gh"), keeps, full)
			made := 0
			for _, tc := range []struct {
				name, hook, parent, state string
				goes                      string // traceparent where there are no spans
				spans                     bool   // there is one, where they are made
				stays                     string // traceparent where they are made and this is none
				stateGoes                 string
			}{
				{"sampled", "gh", sampled, "a=1", sampled, true, "", "a=1"},
				{"sampled, and kept", "keeps", sampled, "a=1", sampled, true, "", "a=1"},
				{"not sampled", "gh", unsampled, "a=1", unsampled, false, unsampled, "a=1"},
				{"none", "gh", "", "a=1", "", true, "", ""},
				{"none, and kept", "keeps", "", "", "", true, "", ""},
				{"no trace context, and kept", "keeps", "what", "a=1", "", true, "", ""},
				{"no tracestate", "gh", sampled, "what", sampled, true, "", ""},
			} {
				n := len(s.log.got)
				pairs := signed(tc.name, "X-GitHub-Delivery", tc.name)
				if tc.parent != "" {
					pairs = append(pairs, "Traceparent", tc.parent)
				}
				if tc.state != "" {
					pairs = append(pairs, "Tracestate", tc.state)
				}
				if resp, v := s.post("/hook/"+tc.hook, tc.name, pairs...); resp.StatusCode != 202 {
					t.Fatalf("%s: %d %v", tc.name, resp.StatusCode, v)
				}
				got, state := traceOf(t, &s.log.got[n])
				switch {
				case spanned && tc.spans:
					made++
					sc, ok := spans.Parse(got)
					if !ok || !sc.IsSampled() || got == tc.parent || (sc.TraceID().String() == traceID) != (tc.parent == sampled) {
						t.Errorf("%s: the worker goes on from %q", tc.name, got)
					}
				case spanned && got != tc.stays, !spanned && got != tc.goes:
					t.Errorf("%s: the worker goes on from %q", tc.name, got)
				}
				if state != tc.stateGoes {
					t.Errorf("%s: with %q, want %q", tc.name, state, tc.stateGoes)
				}
			}
			// Headers that leave no room for a trace context are all there, and it is not.
			pairs := signed("full", "X-GitHub-Delivery", "full", "Traceparent", sampled)
			for _, name := range full.KeepHeaders {
				pairs = append(pairs, name, strings.Repeat("v", 504))
			}
			n := len(s.log.got)
			if resp, v := s.post("/hook/full", "full", pairs...); resp.StatusCode != 202 {
				t.Fatalf("full: %d %v", resp.StatusCode, v)
			}
			if got, _ := traceOf(t, &s.log.got[n]); got != "" || len(s.log.got[n].Headers) != maxKeepHeaders+3 {
				t.Errorf("full: %q in %d headers", got, len(s.log.got[n].Headers))
			}
			if !spanned {
				return
			}
			// What does not hold its signature is no span, what is refused for another reason is one that says why.
			s.post("/hook/gh", "unsigned", "Traceparent", sampled)
			s.post("/hook/gh", "no key", signed("no key")...)
			if err := cfg.Spans.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			all := c.Spans()
			if want := made + 2; len(all) != want {
				t.Fatalf("%d spans, want %d: %+v", len(all), want, all)
			}
			if last := all[len(all)-1]; !last.Failed || last.Why != "invalid_argument" || last.Attributes["http.response.status_code"] != "400" || last.Parent != "" {
				t.Errorf("a refused one: %+v", last)
			}
			if first := all[0]; first.Name != "webhook gh" || first.TraceID != traceID || first.Parent != "b7ad6b7169203331" || first.Attributes["messaging.message.id"] != "id-1" ||
				first.Attributes["messaging.destination.name"] != "q-gh" {
				t.Errorf("the first one: %+v", first)
			}
			if got, _ := traceOf(t, &s.log.got[0]); got != "00-"+traceID+"-"+all[0].SpanID+"-01" {
				t.Errorf("the first one's worker goes on from %s, and its span is %s", got, all[0].SpanID)
			}
		})
	}
}
