package mapper

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/transport/mapping"
)

// metrics are this process's numbers. Series of a queue go when its mapping ends here.
type metrics struct {
	messages *prometheus.CounterVec
	queues   prometheus.Gauge
	bytes    prometheus.GaugeFunc
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "quorate_mapped_messages_total",
			Help: "Messages that map_to, or the map of a push, was evaluated for, by queue and outcome: mapped, nothing, failed, late, stale."}, []string{"queue", "outcome"}),
		queues: prometheus.NewGauge(prometheus.GaugeOpts{Name: "quorate_mapped_queues", Help: "Queues with map_to that this node maps."}),
		bytes: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "quorate_mapping_bytes",
			Help: "What the expressions take, about, that this node keeps ready to evaluate, for map_to and for pushes."}, func() float64 {
			_, bytes := mapping.Held()
			return float64(bytes)
		}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.messages, m.queues, m.bytes} {
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
