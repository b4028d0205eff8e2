package nemesis

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/quorate/quorate/bench/chaos/history"
)

// A history in which acks succeed every 100 ms, but for a second and a half from 2.05 s on, and one of them is sent before a fault is healed
// and answered after it.
func told() (es []history.Event) {
	call := uint64(0)
	add := func(sent, back int64, op history.Op, class history.Class) {
		call++
		es = append(es,
			history.Event{Kind: history.Call, Call: call, At: sent * 1000, Op: op},
			history.Event{Kind: history.Return, Call: call, At: back * 1000, Op: op, Class: class})
	}
	for at := int64(0); at < 5000; at += 100 {
		switch {
		case at == 2100:
			add(at, 3550, history.Ack, history.OK)
		case at > 2100 && at < 3600:
			add(at, at+50, history.Ack, history.Refused)
			add(at, at+50, history.Read, history.OK) // changes nothing
		default:
			add(at, at+10, history.Ack, history.OK)
		}
	}
	return es
}

func TestMeasure(t *testing.T) {
	m := measure(told(), 0, 5_000_000)
	if n := len(m.points); n != 10 {
		t.Fatalf("%d points of half a second, want 10", n)
	}
	if p := m.points[0]; p.OK != 5 || p.Refused != 0 || p.Median != 10 || p.P99 != 10 {
		t.Errorf("the first half second: %+v", p)
	}
	if p := m.points[5]; p.Refused != 5 || p.Median != 0 {
		t.Errorf("half a second without a success: %+v", p)
	}
	if len(m.silences) != 1 || m.silences[0] != (Silence{2.01, 3.55}) {
		t.Errorf("silences %+v, want one from 2.01 to 3.55 s", m.silences)
	}
	if l := m.latency; l.Median != 10 || l.Most != 1450 {
		t.Errorf("latency %+v", l)
	}
	for name, c := range map[string]struct{ began, healed, gap, recovery float64 }{
		"around it":      {1.5, 3.2, 1.54, 0.41}, // what was answered first had been sent before it was healed
		"before it":      {0.5, 1.0, 0.10, 0.01},
		"until the end":  {4.0, 4.95, 0.10, -1},
		"begun in it":    {2.5, 2.6, 1.05, 1.01},
		"never answered": {4.99, 4.99, 0, -1},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Strike{Began: c.began, Healed: c.healed}
			m.served(s, 0)
			if d := s.Gap - c.gap; d > 0.0001 || d < -0.0001 {
				t.Errorf("gap %.3f s, want %.3f", s.Gap, c.gap)
			}
			if d := s.Recovery - c.recovery; d > 0.0001 || d < -0.0001 {
				t.Errorf("recovery %.3f s, want %.3f", s.Recovery, c.recovery)
			}
		})
	}
}

// A run that has not met what it is about fails, as does one with a violation or a problem.
func TestResultErr(t *testing.T) {
	run := func() *Result {
		r := &Result{Schedule: &Schedule{Kind: "kill"}, Elections: 4, Installs: 2, Sometimes: map[string]int{"leader killed": 3}}
		for range demanding {
			r.Schedule.Faults = append(r.Schedule.Faults, Fault{Kind: "kill"})
			r.Faults = append(r.Faults, &Strike{Fault: Fault{Kind: "kill"}})
		}
		return r
	}
	for name, c := range map[string]struct {
		change func(*Result)
		want   string
	}{
		"good":        {func(*Result) {}, ""},
		"violation":   {func(r *Result) { r.Broken = 2 }, "2 violations"},
		"problem":     {func(r *Result) { r.Problems = []string{"node n1 ended\nby itself"} }, "node n1 ended"},
		"no election": {func(r *Result) { r.Elections = 1 }, "leader elected again"},
		"no install":  {func(r *Result) { r.Installs = 0 }, "snapshot installed"},
		"no leader":   {func(r *Result) { r.Sometimes = map[string]int{} }, "leader killed"},
		"all skipped": {func(r *Result) {
			for _, s := range r.Faults {
				s.Skipped = "taken"
			}
		}, "fault kill"},
		"said already": {func(r *Result) { r.Vacuous = []string{"stale token refused"} }, "stale token refused"},
		"never refused": {func(r *Result) {
			r.Schedule.Faults[0].Kind, r.Faults[0].Kind = "wiped", "wiped"
		}, "wiped node refused"},
		"refused": {func(r *Result) {
			r.Schedule.Faults[0].Kind, r.Faults[0].Kind, r.Faults[0].Note = "wiped", "wiped", wipedRefused
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := run()
			c.change(r)
			r.count()
			err := r.Err()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// sample is a result with something of everything.
func sample() *Result {
	m := measure(told(), 0, 5_000_000)
	r := &Result{
		Schedule: &Schedule{Kind: Mixed, Seed: 7, Nodes: 3, For: 5e9}, Commit: "abc", Date: "2026-11-28T12:00:00Z", Worked: 5, Operations: 1234567,
		Modes:     map[string]*history.Counts{"fifo": {Enqueued: 10, Dead: 1, Deleted: 2}},
		Sometimes: map[string]int{"stale token refused": 3},
		Timeline:  m.points, Silences: m.silences, Latency: m.latency,
		Faults: []*Strike{
			{Fault: Fault{Kind: "kill", Target: "leader"}, On: []string{"n2"}, Led: "n2", Began: 1.5, Healed: 3.2, Over: 3.4},
			{Fault: Fault{Kind: "shape", Net: &NetShape{Loss: 30, Kbit: 1000}}, Began: 4, Healed: 4.5, Over: 4.5},
			{Fault: Fault{Kind: "disk_eio", Target: "leader"}, Skipped: "no leader could be had"},
			{Fault: Fault{Kind: "clock_jump", Target: "all", Skew: -5e9}, On: []string{"n1", "n2", "n3"}, Began: 2, Healed: 2.001},
			{Fault: Fault{Kind: "replace", Target: "follower"}, On: []string{"n3"}, Began: 3.3, Healed: 4},
		},
	}
	for _, s := range r.Faults {
		m.served(s, 0)
	}
	return r
}

// The page needs nothing but itself, shows what is wrong before anything else, and lets nothing that it shows become a part of itself.
func TestPage(t *testing.T) {
	good, bad := sample(), sample()
	bad.Broken, bad.Violations = 1, []Violation{{Guarantee: "G4", Mode: "fifo", What: "<script>alert(1)</script>", Events: []string{`{"k":"call"}`}}}
	bad.Problems = []string{"node n1 ended by itself"}
	var b strings.Builder
	if err := Page(&b, []*Result{good, bad}); err != nil {
		t.Fatal(err)
	}
	html := b.String()
	if outside := regexp.MustCompile(`(?i)(src|href)\s*=\s*"[^#]|@import|url\(|<script`).FindString(html); outside != "" {
		t.Errorf("it has %q", outside)
	}
	violation, first := strings.Index(html, "G4"), strings.Index(html, "<svg")
	if violation < 0 || first < 0 || violation > first {
		t.Errorf("the violation is at %d, the first timeline at %d", violation, first)
	}
	for _, want := range []string{
		"1 of 2 runs failed", "1\u202f234\u202f567", "node n1 ended by itself", "kill of leader (n2), 1.50 to 3.20 s", "30 % lost, 1000 kbit/s", "by -5s",
		"no leader could be had", `class="silence"`, "stale token refused",
	} {
		if !strings.Contains(html, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if n := strings.Count(html, "<svg"); n != 2 {
		t.Errorf("%d timelines, want 2", n)
	}
}

func TestLedger(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "ledger.jsonl")
	for range 2 {
		if err := AppendLedger(file, sample()); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	var l line
	if err := json.Unmarshal([]byte(lines[1]), &l); err != nil || len(lines) != 2 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	if want := (line{"2026-11-28T12:00:00Z", "abc", 7, Mixed, 3, 0.08, 1234567, 4, 0, 0, 0, 0}); l != want {
		t.Errorf("%+v, want %+v", l, want)
	}
}
