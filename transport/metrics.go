package transport

import (
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/transport/httpapi"
	"github.com/quorate/quorate/wire"
)

// Names of the metrics of the doors. Those of queues are in queue_metrics.go, those of the state in collector.go.
const (
	metricConnections   = "quorate_connections"
	metricRefused       = "quorate_connections_refused_total"
	metricSilent        = "quorate_connections_silent_total"
	metricFrames        = "quorate_frames_total"
	metricBytes         = "quorate_bytes_total"
	metricFaults        = "quorate_faults_total"
	metricSlowConsumers = "quorate_slow_consumers_total"
	metricProposed      = "quorate_proposed_batch_size"
	metricUnsent        = "quorate_leases_returned_unsent_total"
	metricCommit        = "quorate_enqueue_commit_seconds"
	metricToLease       = "quorate_enqueue_to_lease_seconds"
	metricToAck         = "quorate_lease_to_ack_seconds"
	metricRequests      = "quorate_http_requests_total"
	metricRequestTime   = "quorate_http_request_seconds"
	metricUnderWay      = "quorate_http_requests_under_way"
	metricStreams       = "quorate_http_streams"
	metricReplayed      = "quorate_http_replayed_total"
)

type metrics struct {
	reg prometheus.Registerer
	all []prometheus.Collector

	connections               prometheus.Gauge
	refused, silent, unsent   prometheus.Counter
	replayed                  prometheus.Counter
	framesIn, framesOut       prometheus.Counter
	bytesIn, bytesOut         prometheus.Counter
	faults                    *prometheus.CounterVec
	slowConsumers             *prometheus.CounterVec
	requests                  *prometheus.CounterVec
	requestTime               *prometheus.HistogramVec
	proposed                  prometheus.Histogram
	commit, toLease, leaseAck prometheus.Histogram
}

func newMetrics(s *Server) (*metrics, error) {
	m := &metrics{
		connections: prometheus.NewGauge(prometheus.GaugeOpts{Name: metricConnections, Help: "WebSocket connections open now."}),
		refused:     prometheus.NewCounter(prometheus.CounterOpts{Name: metricRefused, Help: "Connections refused because there were too many."}),
		silent:      prometheus.NewCounter(prometheus.CounterOpts{Name: metricSilent, Help: "Connections dropped because the client had gone silent."}),
		unsent:      prometheus.NewCounter(prometheus.CounterOpts{Name: metricUnsent, Help: "Pulled leases given back because they could not be sent."}),
		replayed:    prometheus.NewCounter(prometheus.CounterOpts{Name: metricReplayed, Help: "Operations by HTTP that were answered from their idempotency key, and not carried out."}),
		faults:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricFaults, Help: "Errors answered to clients, by code."}, []string{"code"}),
		slowConsumers: prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricSlowConsumers,
			Help: "Clients that read too slowly: deliveries declined, connections closed over their bound, writes that stalled."}, []string{"what"}),
		proposed: prometheus.NewHistogram(prometheus.HistogramOpts{Name: metricProposed, Help: "Operations proposed together, from one WebSocket message.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 11)}),
		commit: prometheus.NewHistogram(prometheus.HistogramOpts{Name: metricCommit, Help: "From an enqueue request's arrival to its commit.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 16)}),
		toLease: prometheus.NewHistogram(prometheus.HistogramOpts{Name: metricToLease, Help: "From a message's enqueue to its lease, delays included, in log time.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 13)}),
		leaseAck: prometheus.NewHistogram(prometheus.HistogramOpts{Name: metricToAck, Help: "From handing a message out to the ack that ended it, by log time.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 13)}),
	}
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricRequests, Help: "Requests of the HTTP API, by route and status."}, []string{"route", "status"})
	m.requestTime = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: metricRequestTime, Help: "From a request's head to the end of its answer, its own wait included, by route.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 10)}, []string{"route"})
	frames := prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricFrames, Help: "Protocol frames."}, []string{"direction"})
	bytes := prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricBytes, Help: "Bytes of WebSocket messages."}, []string{"direction"})
	m.framesIn, m.framesOut = frames.WithLabelValues("in"), frames.WithLabelValues("out")
	m.bytesIn, m.bytesOut = bytes.WithLabelValues("in"), bytes.WithLabelValues("out")
	for _, what := range []string{"declined", "closed", "stalled"} {
		m.slowConsumers.WithLabelValues(what)
	}
	m.reg = s.cfg.Registry
	for _, c := range []prometheus.Collector{
		m.connections, m.refused, m.silent, m.unsent, m.replayed, m.faults, m.slowConsumers, m.proposed, m.commit, m.toLease, m.leaseAck,
		m.requests, m.requestTime,
		frames, bytes, newStateCollector(s),
	} {
		if err := m.reg.Register(c); err != nil {
			m.unregister()
			return nil, fmt.Errorf("transport: register metrics: %w", err)
		}
		m.all = append(m.all, c)
	}
	return m, nil
}

// unregister lets another Server use the registry.
func (m *metrics) unregister() {
	for _, c := range m.all {
		m.reg.Unregister(c)
	}
}

func (m *metrics) received(n int) { m.bytesIn.Add(float64(n)) }

func (m *metrics) sent(n, frames int) {
	m.bytesOut.Add(float64(n))
	m.framesOut.Add(float64(frames))
}

func (m *metrics) fault(f *wire.Fault) { m.faults.WithLabelValues(string(f.Code)).Inc() }

// watch shows how many requests the HTTP API is answering, and how many streams are open.
func (m *metrics) watch(a *httpapi.API) error {
	for _, g := range []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: metricUnderWay, Help: "Requests of the HTTP API being answered, those that wait included and streams not."},
			func() float64 { return float64(a.UnderWay()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: metricStreams, Help: "Streams of Server-Sent Events open now, those sent on to the leader included."},
			func() float64 { return float64(a.Streams()) }),
	} {
		if err := m.reg.Register(g); err != nil {
			m.unregister()
			return fmt.Errorf("transport: register metrics: %w", err)
		}
		m.all = append(m.all, g)
	}
	return nil
}

// requested counts a request of the HTTP API.
func (m *metrics) requested(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.requestTime.WithLabelValues(route).Observe(took.Seconds())
}

func (m *metrics) committed(start time.Time) { m.commit.Observe(time.Since(start).Seconds()) }

func (m *metrics) leased(millis int64) { m.toLease.Observe(float64(max(0, millis)) / 1000) }

// acked measures how long a message was out. Done before, it says nothing.
func (m *metrics) acked(o *fsm.Outcome) {
	if !o.Duplicate && !o.Replayed && o.Millis >= 0 {
		m.leaseAck.Observe(float64(o.Millis) / 1000)
	}
}
