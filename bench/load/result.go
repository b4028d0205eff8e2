package load

import (
	"fmt"
	"strings"
)

// Result is what a run found. Figures are of the measured time alone; counts of what went wrong are of the whole run.
type Result struct {
	Workload string  `json:"workload"`
	Size     int     `json:"size"`     // of a body, bytes
	Nodes    int     `json:"nodes"`    // of the cluster
	Messages int64   `json:"messages"` // confirmed (W1, W5), or received and their ack confirmed (W2, W3, W4)
	Seconds  float64 `json:"seconds"`
	Rate     float64 `json:"msgs_per_s"`
	// Confirm is the latency from sending to confirmation, of enqueues (W2: of acks; W4: from when the message was due).
	Confirm *Quantiles `json:"confirm_ms"`
	// EndToEnd is the latency from sending (W4: from when it was due) to receiving. Null without consumers, and for W2.
	EndToEnd  *Quantiles `json:"e2e_ms"`
	ServerCPU *float64   `json:"server_cpu_us_per_msg"`     // user and system of all server processes; null when not known
	ServerGC  *float64   `json:"server_gc_share,omitempty"` // of that, what went into collecting garbage, 0 to 1; nil when not known
	Errors    int64      `json:"errors"`                    // enqueues and acks that failed

	Confirmed    int64      `json:"confirmed,omitempty"`    // enqueues of the whole run, warm-up and preload included
	Unknown      int64      `json:"unknown"`                // enqueues whose outcome stayed unknown
	Recovered    int64      `json:"recovered"`              // of them, received all the same
	Lost         int64      `json:"lost"`                   // confirmed and never received (with consumers), or never answered at all
	Duplicates   int64      `json:"duplicates"`             // received again
	Unexpected   int64      `json:"unexpected"`             // received with other bytes, or never sent, or refused; or answered twice
	Early        int64      `json:"early,omitempty"`        // Delayed: received before they were due
	OutOfOrder   int64      `json:"out_of_order,omitempty"` // Priorities, Keys: received before one that had to be first, or beside it
	Judged       int64      `json:"judged,omitempty"`       // Priorities: deliveries whose order was judged
	LongestGapMS float64    `json:"longest_gap_ms"`         // between two confirmations
	GapAfterS    float64    `json:"gap_after_s"`            // when it began, from the start of measuring
	Late         *Quantiles `json:"late_ms,omitempty"`
	// Lateness, of Delayed, is from when a message was due to when its consumer had it.
	Lateness  *Quantiles    `json:"lateness_ms,omitempty"`
	FillRate  float64       `json:"fill_msgs_per_s,omitempty"` // Delayed: messages enqueued a second before the first was due
	NodeBytes *float64      `json:"node_bytes_per_msg,omitempty"`
	Parts     []Part        `json:"parts,omitempty"`
	Queued    *QueuedResult `json:"queued,omitempty"`
	// Ratio is, of Keys, the ordered queue's rate with stuck keys to the unordered one's; of Fair, the waits with to those without
	// the flood, of the medians and of the 99th percentiles; of Flat, the rate with what stands beside it to that without.
	Ratio    float64 `json:"ratio,omitempty"`
	RatioP99 float64 `json:"ratio_p99,omitempty"`
	// RatioCPU is, of Flat, the CPU of all servers a message with what stands beside it to that without.
	RatioCPU float64 `json:"ratio_server_cpu,omitempty"`
	// RatioSent is, of Keys, the ordered queue's rate of confirmed enqueues, those for stuck keys among them, to the unordered one's.
	RatioSent float64 `json:"ratio_sent,omitempty"`

	sent float64 // enqueues confirmed a second
	left int64   // queued at the end of the measured time

	Runs    []float64 `json:"runs,omitempty"`          // msgs_per_s of all runs of which this is the median
	Samples []string  `json:"error_samples,omitempty"` // the first few error texts
}

// Part is one of several things that a run compares.
type Part struct {
	Name     string     `json:"name"`
	Messages int64      `json:"messages"`
	Rate     float64    `json:"msgs_per_s,omitempty"`
	Wait     *Quantiles `json:"wait_ms,omitempty"`               // from when a message was due to be sent to when its consumer had it
	Runs     []float64  `json:"runs,omitempty"`                  // rates of all rounds
	CPU      []float64  `json:"server_cpu_us_per_msg,omitempty"` // Flat: of all rounds
	Left     []int64    `json:"queued_at_end,omitempty"`         // Flat: messages at the end of each round's measured time
	Sent     float64    `json:"sent_per_s,omitempty"`            // Keys: enqueues confirmed a second, the median of the rounds
}

// OK reports whether nothing went wrong: every message confirmed once and, with consumers, received with the bytes it
// was sent with, once.
func (r *Result) OK() bool {
	return r.Errors == 0 && r.Unknown == 0 && r.Lost == 0 && r.Duplicates == 0 && r.Unexpected == 0 && r.Early == 0 && r.OutOfOrder == 0
}

// Safe reports whether nothing was lost or invented, which must hold under faults too.
func (r *Result) Safe() bool {
	return r.Lost == 0 && r.Unexpected == 0 && r.Early == 0 && r.OutOfOrder == 0
}

// add puts what went wrong in another run to this one's.
func (r *Result) add(o *Result) {
	r.Errors += o.Errors
	r.Unknown += o.Unknown
	r.Recovered += o.Recovered
	r.Lost += o.Lost
	r.Duplicates += o.Duplicates
	r.Unexpected += o.Unexpected
	r.Early += o.Early
	r.OutOfOrder += o.OutOfOrder
	r.Samples = append(r.Samples, o.Samples...)
	r.Samples = r.Samples[:min(len(r.Samples), maxSamples)]
}

// Header and String make a table's lines.
func Header() string {
	return fmt.Sprintf("%-8s %7s %5s %9s %7s %9s  %-26s %-26s %9s %5s %6s", "", "bytes", "nodes", "messages", "s", "msgs/s",
		"confirm ms p50/p99/p99.9", "e2e ms p50/p99/p99.9", "CPU us/msg", "GC %", "errors")
}

func (r *Result) String() string {
	q := func(q *Quantiles) string {
		if q == nil {
			return "-"
		}
		return fmt.Sprintf("%.2f / %.2f / %.2f", q.P50, q.P99, q.P999)
	}
	cpu, gc := "-", "-"
	if r.ServerCPU != nil {
		cpu = fmt.Sprintf("%.1f", *r.ServerCPU)
	}
	if r.ServerGC != nil {
		gc = fmt.Sprintf("%.1f", *r.ServerGC*100)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-8s %7d %5d %9d %7.2f %9.0f  %-26s %-26s %9s %5s %6d", r.Workload, r.Size, r.Nodes, r.Messages, r.Seconds, r.Rate,
		q(r.Confirm), q(r.EndToEnd), cpu, gc, r.Errors)
	if !r.OK() {
		fmt.Fprintf(&b, "\n     lost %d, duplicates %d, unexpected %d, unknown %d (recovered %d), early %d, out of order %d", r.Lost,
			r.Duplicates, r.Unexpected, r.Unknown, r.Recovered, r.Early, r.OutOfOrder)
	}
	if l := r.Lateness; l != nil {
		fmt.Fprintf(&b, "\n     lateness ms p50 %.0f, p99 %.0f, p99.9 %.0f, max %.0f; enqueued at %.0f/s; longest gap %.0f ms", l.P50, l.P99, l.P999,
			l.Max, r.FillRate, r.LongestGapMS)
	}
	if r.NodeBytes != nil {
		fmt.Fprintf(&b, "; %.0f B of memory a message a node", *r.NodeBytes)
	}
	if r.Queued != nil {
		r.Queued.print(&b)
	}
	for _, p := range r.Parts {
		fmt.Fprintf(&b, "\n     %-24s %9d messages", p.Name, p.Messages)
		if p.Rate > 0 {
			fmt.Fprintf(&b, " %9.0f/s", p.Rate)
		}
		if p.Sent > 0 {
			fmt.Fprintf(&b, ", sent %.0f/s", p.Sent)
		}
		if p.Wait != nil {
			fmt.Fprintf(&b, "   wait ms %s", q(p.Wait))
		}
		if len(p.Runs) > 0 {
			fmt.Fprintf(&b, "   rounds %.0f", p.Runs)
		}
		if len(p.CPU) > 0 {
			fmt.Fprintf(&b, "   CPU us/msg %.1f", p.CPU)
		}
		if len(p.Left) > 0 {
			fmt.Fprintf(&b, "   queued at the end %d", p.Left)
		}
	}
	if r.Ratio > 0 {
		fmt.Fprintf(&b, "\n     ratio %.2f", r.Ratio)
	}
	if r.RatioSent > 0 {
		fmt.Fprintf(&b, ", of what was sent %.2f", r.RatioSent)
	}
	if r.RatioP99 > 0 {
		fmt.Fprintf(&b, ", of p99 %.2f", r.RatioP99)
	}
	if r.RatioCPU > 0 {
		fmt.Fprintf(&b, ", of the servers' CPU a message %.2f", r.RatioCPU)
	}
	for _, s := range r.Samples {
		b.WriteString("\n     " + s)
	}
	return b.String()
}
