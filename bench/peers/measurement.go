package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/bench/load"
)

// measurement is one workload on one system, once.
type measurement struct {
	System    string        `json:"system"`
	Workload  string        `json:"workload"`
	Repeat    int           `json:"repeat"`
	StartedAt time.Time     `json:"started_at"`
	Took      float64       `json:"took_s"` // all of it, preparing and checking included
	Load      *load.Result  `json:"load,omitempty"`
	Gap       *gapResult    `json:"failover,omitempty"`
	Queued    *queuedResult `json:"queued,omitempty"`
	Faults    []string      `json:"faults,omitempty"` // what was wrong with it; its figures do not count
}

// withoutAcks takes away what a system does not tell: when an ack is done.
func (m *measurement) withoutAcks() {
	if m.Workload == load.W2 {
		m.Load.Confirm = nil
	}
}

// judge notes what the ledger of a load run found.
func (m *measurement) judge() {
	if r := m.Load; !r.OK() {
		m.Faults = append(m.Faults, fmt.Sprintf("lost %d, duplicates %d, unexpected %d, unknown %d, errors %d %s",
			r.Lost, r.Duplicates, r.Unexpected, r.Unknown, r.Errors, strings.Join(r.Samples, "; ")))
	}
}

func (m *measurement) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", m.Workload)
	for i := range metrics {
		if v, ok := metrics[i].of(m); ok {
			fmt.Fprintf(&b, "  %s %s", metrics[i].short, figure(v))
		}
	}
	fmt.Fprintf(&b, "  (%.1f s in all)", m.Took)
	for _, f := range m.Faults {
		b.WriteString("\n    FAULT: " + f)
	}
	return b.String()
}

// metric is one figure of a workload.
type metric struct {
	key      string // in results.json
	workload string
	title    string // in tables
	short    string // in progress lines
	lower    bool   // the lower the better; else the higher
	about    bool   // tells what was done rather than how well: no ratio
	get      func(m *measurement) *float64
}

// of is the figure of a measurement, if it has it.
func (x *metric) of(m *measurement) (float64, bool) {
	if m.Workload != x.workload {
		return 0, false
	}
	v := x.get(m)
	if v == nil {
		return 0, false
	}
	return *v, true
}

// metrics are all figures, in the order of tables.
var metrics = slices.Concat(
	loadMetrics(load.W1, "W1 confirmed enqueue", "confirm"),
	loadMetrics(load.W2, "W2 drain, each acked", "ack"),
	loadMetrics(load.W3, "W3 both at once", "e2e"),
	loadMetrics(load.W4, "W4 paced", "confirm", "e2e"),
	floorMetrics(w4Floor, "W4's floor, raft and log alone at that pace"),
	loadMetrics(load.W5, "W5 one at a time", "confirm"),
	floorMetrics(w5Floor, "W5's floor, raft and log alone"),
	[]metric{
		{key: "W6.gap_ms", workload: w6, title: "W6 kill -9 of the leader: longest gap, ms", short: "gap ms", lower: true,
			get: func(m *measurement) *float64 {
				if m.Gap == nil {
					return nil
				}
				return &m.Gap.LongestGapMS
			}},
		queuedMetric("rss_mb", "resident memory of a node, MB", "RSS MB", func(q *queuedResult) float64 { return mb(slices.Max(q.RSS)) }),
		queuedMetric("restart_s", "all killed, until back, s", "restart s", func(q *queuedResult) float64 { return q.RestartS }),
	},
)

func mb(bytes int64) float64 { return float64(bytes) / 1e6 }

func queuedMetric(key, title, short string, get func(*queuedResult) float64) metric {
	return metric{key: w7 + "." + key, workload: w7, title: "W7 long queue: " + title, short: short, lower: true, get: func(m *measurement) *float64 {
		if m.Queued == nil {
			return nil
		}
		v := get(m.Queued)
		return &v
	}}
}

// floorMetrics are the latencies of a floor.
func floorMetrics(workload, title string) (out []metric) {
	for _, x := range loadMetrics(workload, title, "confirm") {
		if strings.HasSuffix(x.key, "_ms") {
			out = append(out, x)
		}
	}
	return out
}

// loadMetrics are the rate, the server's CPU time and the latencies of a workload of bench/load.
func loadMetrics(workload, title string, latencies ...string) []metric {
	of := func(key, what, short string, lower bool, get func(*load.Result) *float64) metric {
		return metric{key: workload + "." + key, workload: workload, title: title + ": " + what, short: short, lower: lower, get: func(m *measurement) *float64 {
			if m.Load == nil {
				return nil
			}
			return get(m.Load)
		}}
	}
	out := []metric{
		of("msgs_per_s", "messages/s", "msg/s", false, func(r *load.Result) *float64 { return &r.Rate }),
		of("cpu_us", "server CPU, µs a message", "CPU µs", true, func(r *load.Result) *float64 { return r.ServerCPU }),
	}
	if workload == load.W4 {
		out[0].about = true // the rate is given; the latency tells who keeps it
	}
	for _, l := range latencies {
		from := func(r *load.Result) *load.Quantiles { return r.Confirm }
		name := l
		switch l {
		case "e2e":
			from, name = func(r *load.Result) *load.Quantiles { return r.EndToEnd }, "send to receive"
		case "confirm":
			name = "send to confirm"
		}
		for _, q := range []struct {
			key string
			get func(*load.Quantiles) *float64
		}{
			{"p50", func(q *load.Quantiles) *float64 { return &q.P50 }},
			{"p99", func(q *load.Quantiles) *float64 { return &q.P99 }},
		} {
			out = append(out, of(l+"_"+q.key+"_ms", name+" "+q.key+", ms", l+" "+q.key, true, func(r *load.Result) *float64 {
				if all := from(r); all != nil {
					return q.get(all)
				}
				return nil
			}))
		}
	}
	return out
}

// median is the middle value, or the mean of the two in the middle. It does not change vs.
func median(vs []float64) float64 {
	vs = slices.Sorted(slices.Values(vs))
	n := len(vs)
	if n%2 == 1 {
		return vs[n/2]
	}
	return (vs[n/2-1] + vs[n/2]) / 2
}
