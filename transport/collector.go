package transport

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/fsm"
)

// stateCollector exports the size of the state on this node and, by the leader alone, how many queues and what fire times there
// are. What is told queue by queue is in queue_metrics.go.
type stateCollector struct {
	s                          *Server
	queues, unexported, memory *prometheus.Desc
	records, leading, fired    *prometheus.Desc
	info                       *prometheus.Desc
}

func newStateCollector(s *Server) *stateCollector {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("quorate_"+name, help, labels, nil)
	}
	return &stateCollector{
		s:          s,
		queues:     d("queues", "Queues that exist."),
		unexported: d("queues_unexported", "Queues without series of their own, because there are too many: those last by name."),
		memory:     d("state_bytes", "Bytes held by the replicated state, on this node.", "part"),
		records:    d("state_records", "Records in the replicated state, on this node.", "table"),
		fired:      d("schedule_firings", "Fire times of the schedules there are, by what became of them: fired, skipped, refused.", "outcome"),
		leading:    d("leading", "1 where this node leads the group and serves."),
		info:       d("node_info", "1; the labels say which node this is: join on instance to name what has no node label.", "node", "cluster", "version"),
	}
}

// Describe sends the descriptions.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.queues, c.unexported, c.memory, c.records, c.leading, c.fired, c.info} {
		ch <- d
	}
}

// Collect reads the state, pageHold queues in a hold.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	b := c.s.cfg.Broker
	gauge(c.info, 1, b.Label(), b.Cluster(), c.s.cfg.Version)
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	g := c.s.group("")
	var mem fsm.Memory
	after := ""
	for more := true; more; {
		if _, err := g.Read(ctx, true, func(st *fsm.State) {
			if after == "" {
				mem = st.MemoryOfTables()
			}
			after, more = st.AddQueues(&mem, after, pageHold)
		}); err != nil {
			return // no state to read: a node that starts or stops
		}
	}
	for part, n := range map[string]int64{"live": mem.ArenaLive, "held": mem.ArenaHeld, "tables": mem.TableBytes, "sessions": mem.SessionBytes, "schedules": mem.ScheduleBytes,
		"idempotency": mem.IdempotencyBytes, "mappings": mem.MappingBytes} {
		gauge(c.memory, n, part)
	}
	for table, n := range map[string]int64{
		"messages": mem.Messages, "dead": mem.Dead, "results": mem.Results, "tombstones": mem.Tombstones,
		"dedup_keys": mem.DedupKeys, "sessions": mem.Sessions, "requests": mem.RequestOutcomes, "queues": mem.Queues,
		"kv_keys": mem.KVKeys, "kv_deletions": mem.KVDeletions, "hooks": mem.Hooks, "batches": mem.Batches,
		"schedules": mem.Schedules, "idempotency_keys": mem.IdempotencyKeys,
	} {
		gauge(c.records, n, table)
	}
	if status := g.Status(); !status.Leader || !status.Ready {
		gauge(c.leading, 0)
		return
	}
	gauge(c.leading, 1)
	gauge(c.queues, mem.Queues)
	gauge(c.unexported, max(0, mem.Queues-int64(c.s.cfg.MetricQueues)))
	c.schedules(ctx, g, ch)
}
