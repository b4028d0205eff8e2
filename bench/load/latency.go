package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latencies is a histogram of durations: 1 µs to two minutes with three digits, longer ones counted as two minutes.
type latencies struct {
	mu sync.Mutex
	h  *hdrhistogram.Histogram // µs; guarded by mu
}

const longestLatency = 2 * time.Minute

func newLatencies() *latencies {
	return &latencies{h: hdrhistogram.New(1, longestLatency.Microseconds(), 3)}
}

func (l *latencies) record(d time.Duration) {
	us := min(max(d.Microseconds(), 1), longestLatency.Microseconds())
	l.mu.Lock()
	_ = l.h.RecordValue(us) // within its range by the line above
	l.mu.Unlock()
}

// Quantiles of latencies, in milliseconds.
type Quantiles struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// quantiles puts histograms together. Nil when they hold nothing.
func quantiles(ls []*latencies) *Quantiles {
	all := hdrhistogram.New(1, longestLatency.Microseconds(), 3)
	for _, l := range ls {
		l.mu.Lock()
		all.Merge(l.h)
		l.mu.Unlock()
	}
	if all.TotalCount() == 0 {
		return nil
	}
	ms := func(us int64) float64 { return float64(us) / 1000 }
	return &Quantiles{
		P50: ms(all.ValueAtQuantile(50)), P99: ms(all.ValueAtQuantile(99)), P999: ms(all.ValueAtQuantile(99.9)), Max: ms(all.Max()),
	}
}
