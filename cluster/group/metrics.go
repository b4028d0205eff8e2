package group

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are a group's own: of the way from proposal to answer. Those of queues are read from the state by who exports
// them. A nil *Metrics counts nothing.
type Metrics struct {
	Leading       prometheus.Gauge // 1 while this node leads and serves
	LeaderChanges prometheus.Counter
	Entries       prometheus.Counter
	EntryOps      prometheus.Histogram
	EntryBytes    prometheus.Histogram
	Commit        prometheus.Histogram
	Apply         prometheus.Histogram
	Refused       *prometheus.CounterVec // code
	Unknown       prometheus.Counter
	Delivered     prometheus.Counter
	Lost          prometheus.Counter
	Snapshots     prometheus.Histogram
	SnapshotHold  prometheus.Histogram
	Waiting       prometheus.Gauge
	WaitingBytes  prometheus.Gauge
	InFlight      prometheus.Gauge
	InFlightBytes prometheus.Gauge
	Sessions      prometheus.Gauge
	Subscriptions prometheus.Gauge
}

// NewMetrics makes the metrics of a group, each with the given constant labels; nothing is registered.
func NewMetrics(labels prometheus.Labels) *Metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "quorate_group_" + name, Help: help, ConstLabels: labels})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "quorate_group_" + name, Help: help, ConstLabels: labels})
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "quorate_group_" + name, Help: help, ConstLabels: labels, Buckets: buckets,
		})
	}
	seconds := prometheus.ExponentialBuckets(0.00025, 2, 16) // to 8 s
	return &Metrics{
		Leading:       gauge("leading", "1 while this node leads the group and serves."),
		LeaderChanges: counter("leader_changes_total", "Times this node began or ceased to lead."),
		Entries:       counter("entries_total", "Log entries proposed by this node."),
		EntryOps:      histogram("entry_operations", "Operations packed into an entry.", prometheus.ExponentialBuckets(1, 2, 11)),
		EntryBytes:    histogram("entry_bytes", "Size of an entry.", prometheus.ExponentialBuckets(64, 4, 10)),
		Commit:        histogram("commit_seconds", "From the proposal of an entry to its application.", seconds),
		Apply:         histogram("apply_seconds", "Application of an entry, answers included.", seconds),
		Refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_group_refused_total", Help: "Operations refused before they were proposed, by code.", ConstLabels: labels,
		}, []string{"code"}),
		Unknown:   counter("unknown_total", "Operations whose fate could not be told to their caller."),
		Delivered: counter("delivered_total", "Messages delivered to subscriptions."),
		Lost:      counter("once_lost_total", "At-most-once deliveries that were committed and reached no connection."),
		Snapshots: histogram("snapshot_seconds", "Duration of a snapshot.", prometheus.ExponentialBuckets(0.01, 2, 14)),
		SnapshotHold: histogram("snapshot_hold_seconds", "How long no entry was applied when a snapshot began.",
			prometheus.ExponentialBuckets(0.00001, 2, 16)), // to 0.3 s
		Waiting:       gauge("waiting_operations", "Operations that wait to be proposed."),
		WaitingBytes:  gauge("waiting_bytes", "Their bytes."),
		InFlight:      gauge("inflight_entries", "Entries proposed and not yet applied."),
		InFlightBytes: gauge("inflight_bytes", "Their bytes."),
		Sessions:      gauge("sessions", "Client sessions attached to this leader."),
		Subscriptions: gauge("subscriptions", "Subscriptions on this leader."),
	}
}

// Collectors are all of them, to be registered.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.Leading, m.LeaderChanges, m.Entries, m.EntryOps, m.EntryBytes, m.Commit, m.Apply, m.Refused, m.Unknown, m.Delivered, m.Lost,
		m.Snapshots, m.SnapshotHold, m.Waiting, m.WaitingBytes, m.InFlight, m.InFlightBytes, m.Sessions, m.Subscriptions,
	}
}

func (m *Metrics) packed(f *flight) {
	if m == nil {
		return
	}
	m.Entries.Inc()
	m.EntryOps.Observe(float64(len(f.ops)))
	m.EntryBytes.Observe(float64(len(f.data)))
}

func (m *Metrics) committed(took time.Duration) {
	if m != nil {
		m.Commit.Observe(took.Seconds())
	}
}

func (m *Metrics) applied(took time.Duration) {
	if m != nil {
		m.Apply.Observe(took.Seconds())
	}
}

func (m *Metrics) delivered(n int) {
	if m != nil {
		m.Delivered.Add(float64(n))
	}
}

func (m *Metrics) lost(n int) {
	if m != nil {
		m.Lost.Add(float64(n))
	}
}

func (m *Metrics) refused(err *Error) {
	switch {
	case m == nil:
	case err.Unknown:
		m.Unknown.Inc()
	default:
		m.Refused.WithLabelValues(err.Code).Inc()
	}
}

func (m *Metrics) leader(yes bool) {
	if m == nil {
		return
	}
	m.LeaderChanges.Inc()
	m.Leading.Set(0)
	if yes {
		m.Leading.Set(1)
	}
}

func (m *Metrics) snapshot(took time.Duration) {
	if m != nil {
		m.Snapshots.Observe(took.Seconds())
	}
}

func (m *Metrics) held(took time.Duration) {
	if m != nil {
		m.SnapshotHold.Observe(took.Seconds())
	}
}

func (m *Metrics) gauge(g *Group) {
	if m == nil {
		return
	}
	count, bytes := g.intake.size()
	m.Waiting.Set(float64(count))
	m.WaitingBytes.Set(float64(bytes))
	m.InFlight.Set(float64(g.inFlight.Load()))
	m.InFlightBytes.Set(float64(g.inFlightBytes.Load()))
	g.mu.Lock()
	sessions, subs := len(g.dispatch.sessions), len(g.dispatch.subs)
	g.mu.Unlock()
	m.Sessions.Set(float64(sessions))
	m.Subscriptions.Set(float64(subs))
}
