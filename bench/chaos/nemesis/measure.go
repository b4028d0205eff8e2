package nemesis

import (
	"math"
	"slices"

	"github.com/quorate/quorate/bench/chaos/history"
)

// bucketSeconds is how much time one point of a timeline stands for.
const bucketSeconds = 0.5

// Point is what clients saw in one stretch of a run.
type Point struct {
	At      float64 `json:"at"` // where it begins, seconds since clients began
	OK      int     `json:"ok"` // answers, by class
	Refused int     `json:"refused"`
	Unknown int     `json:"unknown"`
	Median  float64 `json:"median_ms"` // of requests that changed something and succeeded, from their first sending to the answer
	P99     float64 `json:"p99_ms"`
}

// Silence is a time in which no request that changes something succeeded, seconds since clients began.
type Silence struct {
	From float64 `json:"from"`
	To   float64 `json:"to"`
}

// shownSilence is the shortest that is kept, in seconds.
const shownSilence = 0.25

// Latency is that of requests that changed something and succeeded, in ms.
type Latency struct {
	Median float64 `json:"median_ms"`
	P99    float64 `json:"p99_ms"`
	Most   float64 `json:"most_ms"`
}

// success is a request that changed something, µs by the history's clock.
type success struct{ called, returned int64 }

// changes says whether an operation changes something, so that it needs a majority that goes on.
func changes(op history.Op) bool {
	return op != history.Lease && op != history.Read && op != history.Final
}

// measured is what a history tells of how well clients were served.
type measured struct {
	points    []Point
	silences  []Silence
	latency   Latency
	successes []success
}

// measure looks at what clients saw between two moments, in µs.
func measure(es []history.Event, from, to int64) (m measured) {
	calls := map[uint64]int64{}
	n := int(math.Ceil(float64(to-from) / 1e6 / bucketSeconds))
	m.points = make([]Point, n)
	spans := make([][]float64, n)
	var all []float64
	for i := range m.points {
		m.points[i].At = float64(i) * bucketSeconds
	}
	last := from
	for i := range es {
		e := &es[i]
		if e.Kind == history.Call {
			calls[e.Call] = e.At
		}
		if e.Kind != history.Return || e.At < from || e.At >= to {
			continue
		}
		b := int(float64(e.At-from) / 1e6 / bucketSeconds)
		p := &m.points[b]
		switch e.Class {
		case history.OK:
			p.OK++
		case history.Refused:
			p.Refused++
		default:
			p.Unknown++
		}
		called, ok := calls[e.Call]
		if !ok || e.Class != history.OK || !changes(e.Op) {
			continue
		}
		took := float64(e.At-called) / 1e3
		spans[b] = append(spans[b], took)
		all = append(all, took)
		m.successes = append(m.successes, success{called, e.At})
		m.silent(last, e.At, from)
		last = e.At
	}
	m.silent(last, to, from)
	for i, s := range spans {
		slices.Sort(s)
		m.points[i].Median, m.points[i].P99 = quantile(s, 0.5), quantile(s, 0.99)
	}
	slices.Sort(all)
	m.latency = Latency{quantile(all, 0.5), quantile(all, 0.99), quantile(all, 1)}
	return m
}

func (m *measured) silent(from, to, zero int64) {
	if s := (Silence{float64(from-zero) / 1e6, float64(to-zero) / 1e6}); s.To-s.From >= shownSilence {
		m.silences = append(m.silences, s)
	}
}

// quantile is one of a sorted list, 0 of none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// served fills in what clients saw of a fault: the longest time without a success, from when it began until a request that was sent after
// it was healed has succeeded, and how long the latter took.
func (m *measured) served(s *Strike, zero int64) {
	began, healed := zero+int64(s.Began*1e6), zero+int64(s.Healed*1e6)
	i, _ := slices.BinarySearchFunc(m.successes, began, func(x success, t int64) int {
		if x.returned < t {
			return -1
		}
		return 1
	})
	last := began
	s.Recovery = -1
	var gap int64
	for _, x := range m.successes[i:] {
		gap = max(gap, x.returned-last)
		last = x.returned
		if x.called >= healed {
			s.Recovery = float64(x.returned-healed) / 1e6
			break
		}
	}
	s.Gap = float64(gap) / 1e6
}
