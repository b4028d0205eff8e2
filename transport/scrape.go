package transport

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/prometheus/common/expfmt"
)

// scrapeTimeout bounds the reading of the state for a scrape.
const scrapeTimeout = 5 * time.Second

// serveMetrics answers a scrape in Prometheus' text format: the registry's metrics, then those of queues.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) {
	select {
	case s.scrapes <- struct{}{}:
		defer func() { <-s.scrapes }()
	default:
		plainText(w, http.StatusServiceUnavailable, "too many scrapes at once: one every few seconds would be right\n")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), scrapeTimeout)
	defer cancel()
	families, err := s.cfg.Registry.Gather()
	if err != nil {
		s.log.Warn("metrics cannot be gathered", "err", err)
		plainText(w, http.StatusInternalServerError, "metrics cannot be gathered: "+err.Error()+"\n")
		return
	}
	var head bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&head, f); err != nil {
			s.log.Warn("a metric cannot be written", "metric", f.GetName(), "err", err)
		}
	}
	queues := queueTexts.Get().(*queueText)
	defer queues.free()
	s.readQueues(ctx, queues)
	w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	w.Header().Set("Cache-Control", "no-store")
	if _, err := w.Write(head.Bytes()); err == nil {
		_ = queues.writeTo(w) // a scraper that has gone is none of our concern
	}
}
