package push

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are this process's numbers. Series of a queue go when its push ends here.
type metrics struct {
	requests *prometheus.CounterVec
	took     prometheus.Histogram
	resting  *prometheus.GaugeVec
	queues   prometheus.Gauge
	guarded  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "quorate_push_requests_total",
			Help: "Requests to endpoints by queue and outcome: delivered, rejected, failed, throttled, unreached, stopped."}, []string{"queue", "outcome"}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "quorate_push_seconds",
			Help: "From the beginning of a request to its answer, or to its failure.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 20)}),
		resting: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "quorate_push_resting",
			Help: "1 while a queue's push rests after failures, or because the endpoint has asked for it."}, []string{"queue"}),
		queues:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "quorate_push_queues", Help: "Queues that this node pushes."}),
		guarded: prometheus.NewCounter(prometheus.CounterOpts{Name: "quorate_push_addresses_refused_total", Help: "Connections not made since push.allow does not permit their address."}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.requests, m.took, m.resting, m.queues, m.guarded} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) request(queue string, o outcome, took time.Duration) {
	m.requests.WithLabelValues(queue, outcomeNames[o]).Inc()
	m.took.Observe(took.Seconds())
}

func (m *metrics) forget(queue string) {
	m.requests.DeletePartialMatch(prometheus.Labels{"queue": queue})
	m.resting.DeleteLabelValues(queue)
}
