package transport

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/fsm"
)

// queueCollector exports the queues' numbers, straight from the state and by the leader alone, so that a series goes
// when its queue does and is there once in a cluster. There is no kind label: the state counts by queue, not by kind.
// Beyond MetricQueues queues, in name order, none has series of its own; quorate_queues_unexported says how many.
type queueCollector struct {
	s                                            *Server
	pending, leased, scheduled, retrying, dead   *prometheus.Desc
	bytes, oldest, results, resultBytes, dedup   *prometheus.Desc
	enqueued, acked, nacked, died, expired, dups *prometheus.Desc
	redriven, refused, deadDropped               *prometheus.Desc
	cancelled, rescheduled                       *prometheus.Desc
	moved, movedOut, movedIn, stayed             *prometheus.Desc
	overflowed, limit, paused, parked, debts     *prometheus.Desc
	queues, unexported, memory, records          *prometheus.Desc
	leading, fired                               *prometheus.Desc
}

func newQueueCollector(s *Server) *queueCollector {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("quorate_"+name, help, labels, nil)
	}
	return &queueCollector{
		s:           s,
		pending:     d("queue_pending_total", "Messages ready to be leased (a gauge).", "queue"),
		leased:      d("queue_leased", "Messages that are out.", "queue"),
		scheduled:   d("queue_scheduled", "Messages whose delay is not over.", "queue"),
		retrying:    d("queue_retrying", "Messages that wait for their next attempt.", "queue"),
		dead:        d("queue_dead", "Dead letters.", "queue"),
		bytes:       d("queue_bytes", "Bytes of live messages.", "queue"),
		oldest:      d("queue_oldest_message_age_seconds", "Age of the oldest live message, in log time.", "queue"),
		results:     d("queue_results", "Results kept.", "queue"),
		resultBytes: d("queue_result_bytes", "Bytes of results kept.", "queue"),
		dedup:       d("queue_dedup_keys", "Dedup keys remembered.", "queue"),
		enqueued:    d("queue_enqueued_total", "Messages accepted.", "queue"),
		acked:       d("queue_ack_total", "Messages acknowledged.", "queue"),
		nacked:      d("queue_nack_total", "Attempts that ended in a nack.", "queue"),
		died:        d("queue_dead_total", "Messages that died.", "queue", "reason"),
		expired:     d("queue_lease_expired_total", "Leases that ran out.", "queue"),
		dups:        d("queue_duplicates_total", "Enqueues answered with an earlier message.", "queue"),
		redriven:    d("queue_redriven_total", "Dead letters made live again.", "queue"),
		refused:     d("queue_refused_total", "Messages that the queue was not given, by the limit or field that kept them out. No series: none.", "queue", "reason"),
		deadDropped: d("queue_dead_dropped_total", "Dead letters dropped because the table was full.", "queue"),
		cancelled:   d("queue_cancelled_total", "Tasks that were cancelled.", "queue"),
		rescheduled: d("queue_rescheduled_total", "Times that a waiting task was given another time or body.", "queue"),
		moved:       d("queue_dead_moved_here", "Live messages that are dead letters of other queues.", "queue"),
		movedOut:    d("queue_dead_moved_total", "Messages that died and were moved to the dead-letter queue.", "queue"),
		movedIn:     d("queue_dead_received_total", "Dead letters of other queues moved here.", "queue"),
		stayed:      d("queue_dead_stayed_total", "Messages that died and stayed, as the dead-letter queue was missing or full.", "queue"),
		overflowed:  d("queue_overflowed_total", "Messages dropped to make room for others (overflow drop_oldest).", "queue"),
		limit:       d("queue_limit", "A limit of the queue: max_depth, max_bytes, max_in_flight, max_in_flight_per_key, or rate and rate_per_key in deliveries a second. No series: no limit.", "queue", "limit"),
		parked:      d("queue_parked", "Ready messages whose keys are held back by a limit of theirs.", "queue"),
		debts:       d("queue_key_debts", "Keys that have used some of their rate and not yet won it back.", "queue"),
		paused:      d("queue_paused", "1 while nothing of the queue is leased.", "queue"),
		queues:      d("queues", "Queues that exist."),
		unexported:  d("queues_unexported", "Queues without series of their own, because there are too many."),
		memory:      d("state_bytes", "Bytes held by the replicated state, on this node.", "part"),
		records:     d("state_records", "Records in the replicated state, on this node.", "table"),
		fired:       d("schedule_firings", "Fire times of the schedules there are, by what became of them: fired, skipped, refused.", "outcome"),
		leading:     d("leading", "1 where this node leads the group and serves."),
	}
}

// Describe sends the descriptions.
func (q *queueCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		q.pending, q.leased, q.scheduled, q.retrying, q.dead, q.bytes, q.oldest, q.results, q.resultBytes, q.dedup,
		q.enqueued, q.acked, q.nacked, q.died, q.expired, q.dups, q.redriven, q.refused, q.deadDropped, q.cancelled, q.rescheduled,
		q.moved, q.movedOut, q.movedIn, q.stayed, q.overflowed, q.limit, q.paused, q.parked, q.debts,
		q.queues, q.unexported, q.memory, q.records, q.leading, q.fired,
	} {
		ch <- d
	}
}

// Collect reads the state, pageTasksHold queues in a hold.
func (q *queueCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	g := q.s.group("")
	var mem fsm.Memory
	if _, err := g.Read(ctx, true, func(st *fsm.State) { mem = st.Memory() }); err != nil {
		return // no state to read: a node that starts or stops
	}
	for part, n := range map[string]int64{"live": mem.ArenaLive, "held": mem.ArenaHeld, "tables": mem.TableBytes, "sessions": mem.SessionBytes, "schedules": mem.ScheduleBytes} {
		ch <- prometheus.MustNewConstMetric(q.memory, prometheus.GaugeValue, float64(n), part)
	}
	for table, n := range map[string]int64{
		"messages": mem.Messages, "dead": mem.Dead, "results": mem.Results, "tombstones": mem.Tombstones,
		"dedup_keys": mem.DedupKeys, "sessions": mem.Sessions, "requests": mem.RequestOutcomes, "queues": mem.Queues,
		"kv_keys": mem.KVKeys, "kv_deletions": mem.KVDeletions, "hooks": mem.Hooks, "batches": mem.Batches,
		"schedules": mem.Schedules,
	} {
		ch <- prometheus.MustNewConstMetric(q.records, prometheus.GaugeValue, float64(n), table)
	}
	status := g.Status()
	if !status.Leader || !status.Ready {
		ch <- prometheus.MustNewConstMetric(q.leading, prometheus.GaugeValue, 0)
		return
	}
	ch <- prometheus.MustNewConstMetric(q.leading, prometheus.GaugeValue, 1)
	ch <- prometheus.MustNewConstMetric(q.queues, prometheus.GaugeValue, float64(mem.Queues))
	q.schedules(ctx, g, ch)
	exported := 0
	after, more := "", true
	for more && exported < q.s.cfg.MetricQueues {
		var stats []fsm.QueueStats
		var t int64
		_, err := g.Read(ctx, true, func(st *fsm.State) {
			more = false
			t = st.Time()
			st.Queues(after, func(n uint32, name string) bool {
				if len(stats) == pageTasksHold || exported+len(stats) == q.s.cfg.MetricQueues {
					more = true
					return false
				}
				stats = append(stats, st.Stats(n))
				after = name
				return true
			})
		})
		if err != nil {
			break
		}
		for i := range stats {
			q.queue(ch, &stats[i], t)
		}
		exported += len(stats)
	}
	ch <- prometheus.MustNewConstMetric(q.unexported, prometheus.GaugeValue, float64(max(0, mem.Queues-int64(exported))))
}

func (q *queueCollector) queue(ch chan<- prometheus.Metric, s *fsm.QueueStats, t int64) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, append([]string{s.Name}, labels...)...)
	}
	oldest := 0.0
	if s.OldestEnqueuedAt > 0 {
		oldest = float64(max(0, t-s.OldestEnqueuedAt)) / 1000
	}
	for _, g := range []struct {
		d *prometheus.Desc
		v float64
	}{
		{q.pending, float64(s.Ready)}, {q.leased, float64(s.Leased)}, {q.scheduled, float64(s.Scheduled)},
		{q.retrying, float64(s.Retrying)}, {q.dead, float64(s.Dead)}, {q.bytes, float64(s.Bytes)}, {q.oldest, oldest},
		{q.results, float64(s.Results)}, {q.resultBytes, float64(s.ResultBytes)}, {q.dedup, float64(s.DedupKeys)},
		{q.moved, float64(s.Moved)}, {q.parked, float64(s.Parked)}, {q.debts, float64(s.KeyDebts)},
	} {
		send(g.d, prometheus.GaugeValue, g.v)
	}
	for _, c := range []struct {
		d *prometheus.Desc
		v int64
	}{
		{q.enqueued, s.Enqueued}, {q.acked, s.Acked}, {q.nacked, s.Nacked}, {q.expired, s.Expired}, {q.dups, s.Duplicates},
		{q.redriven, s.Redriven}, {q.deadDropped, s.DeadDropped},
		{q.cancelled, s.Cancelled}, {q.rescheduled, s.Rescheduled},
		{q.movedOut, s.MovedOut}, {q.movedIn, s.MovedIn}, {q.stayed, s.Stayed}, {q.overflowed, s.Overflowed},
	} {
		send(c.d, prometheus.CounterValue, float64(c.v))
	}
	paused := 0.0
	if s.Options.Paused {
		paused = 1
	}
	send(q.paused, prometheus.GaugeValue, paused)
	for _, l := range []struct {
		name string
		v    float64
	}{
		{"max_depth", float64(s.Options.MaxDepth)}, {"max_bytes", float64(s.Options.MaxBytes)},
		{"max_in_flight", float64(s.Options.MaxInFlight)}, {"rate", float64(s.Options.RateMilli) / 1000},
		{"max_in_flight_per_key", float64(s.Options.MaxInFlightPerKey)}, {"rate_per_key", float64(s.Options.RatePerKeyMilli) / 1000},
	} {
		if l.v != 0 {
			send(q.limit, prometheus.GaugeValue, l.v, l.name)
		}
	}
	for kind, name := range refusals {
		if n := s.RefusedBy[kind]; n != 0 {
			send(q.refused, prometheus.CounterValue, float64(n), name)
		}
	}
	for reason, name := range reasons {
		send(q.died, prometheus.CounterValue, float64(s.DiedByReason[reason]), name)
	}
}
