package cluster

import (
	"fmt"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/cluster/group"
)

// meters are a node's metrics: the group's, those of its log store, and a reading of raft at each scrape.
type meters struct {
	reg   prometheus.Registerer // nil: nobody counts
	group *group.Metrics
	n     *Node

	store        prometheus.Histogram
	storeEntries prometheus.Histogram
	storeBytes   prometheus.Counter

	registered []prometheus.Collector
}

var (
	descTerm      = prometheus.NewDesc("quorate_raft_term", "Current term.", nil, nil)
	descLastIndex = prometheus.NewDesc("quorate_raft_last_index", "Index of the last entry in the log.", nil, nil)
	descCommit    = prometheus.NewDesc("quorate_raft_commit_index", "Index of the last entry known to be committed.", nil, nil)
	descApplied   = prometheus.NewDesc("quorate_raft_applied_index", "Index of the last entry applied to the state.", nil, nil)
	descLeader    = prometheus.NewDesc("quorate_raft_leader", "1 while raft on this node leads.", nil, nil)
	descVoters    = prometheus.NewDesc("quorate_raft_voters", "Voters in the latest configuration.", nil, nil)
	descLogBytes  = prometheus.NewDesc("quorate_raft_log_store_bytes", "What the log takes on disk.", nil, nil)
	descLogStore  = prometheus.NewDesc("quorate_raft_log_store_info", "1; the label says which log store the node has.", []string{"log_store"}, nil)
	descDiskFree  = prometheus.NewDesc("quorate_disk_free_bytes", "Space that is left where the data directory is.", nil, nil)
	descDiskLow   = prometheus.NewDesc("quorate_disk_low", "1 while less is left there than limits.disk_free_bytes, so that enqueues are refused.", nil, nil)
	descReady     = prometheus.NewDesc("quorate_ready", "1 while this node can serve.", nil, nil)
	descPeers     = prometheus.NewDesc("quorate_gossip_peers_alive", "Other nodes that gossip sees alive.", nil, nil)
)

// startMeters makes and registers what does not need the group yet.
func (n *Node) startMeters() error {
	m := &meters{reg: n.cfg.Registry, n: n}
	n.meters = m
	if m.reg == nil {
		return nil
	}
	m.group = group.NewMetrics(nil)
	m.store = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "quorate_raft_log_fsync_seconds", Help: "Durable write of a batch of log entries, fsync included.",
		Buckets: prometheus.ExponentialBuckets(0.00025, 2, 14),
	})
	m.storeEntries = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "quorate_raft_log_batch_entries", Help: "Log entries in one durable write.", Buckets: prometheus.ExponentialBuckets(1, 2, 8),
	})
	m.storeBytes = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "quorate_raft_log_written_bytes_total", Help: "Bytes of entries written to the log.",
	})
	for _, c := range append(m.group.Collectors(), m.store, m.storeEntries, m.storeBytes, m) {
		if err := m.reg.Register(c); err != nil {
			n.stopMeters()
			return fmt.Errorf("register metrics: %w", err)
		}
		m.registered = append(m.registered, c)
	}
	return nil
}

// stopMeters takes them off the registry.
func (n *Node) stopMeters() {
	if n.meters == nil {
		return
	}
	for _, c := range n.meters.registered {
		n.meters.reg.Unregister(c)
	}
	n.meters.registered = nil
}

// stored is the log store's observer.
func (m *meters) stored(entries, bytes int, took time.Duration) {
	if m.store == nil {
		return
	}
	m.store.Observe(took.Seconds())
	m.storeEntries.Observe(float64(entries))
	m.storeBytes.Add(float64(bytes))
}

// Describe implements prometheus.Collector.
func (m *meters) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descTerm, descLastIndex, descCommit, descApplied, descLeader, descVoters, descLogBytes, descLogStore, descDiskFree, descDiskLow, descReady, descPeers} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *meters) Collect(ch chan<- prometheus.Metric) {
	n := m.n
	gauge := func(d *prometheus.Desc, v float64) { ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	flag := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	if !n.up.Load() {
		return // still starting: there is no group to ask
	}
	s := n.group.Status()
	gauge(descTerm, float64(s.Term))
	gauge(descLastIndex, float64(s.LastLog))
	gauge(descCommit, float64(s.Commit))
	gauge(descApplied, float64(s.Applied))
	gauge(descLeader, flag(n.group.Raft().State() == raft.Leader))
	voters := 0
	if servers, err := n.servers(); err == nil {
		for _, v := range servers {
			if v.Suffrage == raft.Voter {
				voters++
			}
		}
	}
	gauge(descVoters, float64(voters))
	if n.disk != nil {
		gauge(descLogBytes, float64(n.disk.Bytes()))
		ch <- prometheus.MustNewConstMetric(descLogStore, prometheus.GaugeValue, 1, string(n.disk.Kind()))
		if free, _, err := n.space(); err == nil {
			gauge(descDiskFree, float64(free))
		}
		gauge(descDiskLow, flag(n.lowSpace.Load()))
	}
	ready, _ := n.Ready()
	gauge(descReady, flag(ready))
	alive := 0
	for _, p := range n.peers.list() {
		if p.Alive {
			alive++
		}
	}
	gauge(descPeers, float64(alive))
}
