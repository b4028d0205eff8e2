package mapper

import "github.com/prometheus/client_golang/prometheus"

// metrics are this process's numbers. Series of a queue go when its mapping ends here.
type metrics struct {
	messages *prometheus.CounterVec
	queues   prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "quorate_mapped_messages_total",
			Help: "Messages that map_to, or the map of a push, was evaluated for, by queue and outcome: mapped, nothing, failed, late, stale."}, []string{"queue", "outcome"}),
		queues: prometheus.NewGauge(prometheus.GaugeOpts{Name: "quorate_mapped_queues", Help: "Queues with map_to that this node maps."}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.messages, m.queues} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) count(queue, outcome string) { m.messages.WithLabelValues(queue, outcome).Inc() }

func (m *metrics) forget(queue string) {
	m.messages.DeletePartialMatch(prometheus.Labels{"queue": queue})
}
