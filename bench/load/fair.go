package load

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/client"
)

// The kinds of tenants of Fair, as tags and as the first letters of their keys.
const (
	calmTenant = iota
	floodTenant
	tenantKinds
)

// floodCapacity is how much of what the consumers can handle those who flood send together.
const floodCapacity = 10

// fair has Tenants share a queue that is fair by key: by turns all but Flood of them send half of what the consumers can
// handle, and the same while the others send ten times as much as those can handle. It reports how long the messages of
// those who do not flood waited, from when they were due to be sent to when a consumer had them, and by how much the flood has
// made that longer. What a flood leaves behind is drained as fast as it goes before the next turn, and counts for those
// who made it.
func (r *run) fair(ctx context.Context) (*Result, error) {
	cfg := &r.cfg
	work := int64(float64(cfg.Consumers) / cfg.Capacity * float64(time.Second))
	half := belowCapacity * cfg.Capacity
	warm := newStage("warm-up", half, tenantKinds)
	calm, flood := newStage("without the flood", half, tenantKinds), newStage("with the flood", half, tenantKinds)
	var now atomic.Pointer[stage]
	now.Store(warm)
	r.dress = func(s *slot, m *client.Message) {
		name := "tenant-"
		if s.tag >= cfg.Tenants-cfg.Flood {
			name = "flood-"
		}
		s.key = strconv.AppendInt(append(s.key[:0], name...), int64(s.tag), 10)
		m.Key = s.key
	}
	r.judge = func(_ *consumer, _ uint64, due time.Duration, d *client.Delivery, at time.Time) {
		kind := calmTenant
		if len(d.Key) > 0 && d.Key[0] == 'f' {
			kind = floodTenant
		}
		now.Load().record(kind, at.Sub(r.origin)-due)
	}
	ps, _, closing, err := r.openBoth(ctx)
	if err != nil {
		return nil, err
	}
	defer closing()
	polite := func(i int) int { return i % (cfg.Tenants - cfg.Flood) }
	rude := func(i int) int { return cfg.Tenants - cfg.Flood + i%cfg.Flood }
	few := (len(ps) + 1) / 2 // the others are for the flood, so that it holds nobody up before the broker
	turn := func(st *stage, d time.Duration) error {
		defer r.progress(st.name)()
		now.Store(st)
		r.work.Store(work)
		sending, stop := context.WithTimeout(ctx, d)
		defer stop()
		flooded := make(chan struct{})
		go func() {
			defer close(flooded)
			if st == flood {
				r.pace(sending, ps[few:], floodCapacity*cfg.Capacity, rude)
			}
		}()
		r.pace(sending, ps[:few], st.rate, polite)
		<-flooded
		r.phase.Store(phaseDrain)
		r.work.Store(0)
		return r.await(ctx, r.drained, true)
	}
	if err := turn(warm, cfg.WarmUp); err != nil {
		return nil, err
	}
	sp := r.begin()
	for range cfg.Rounds {
		for _, st := range []*stage{calm, flood} {
			r.phase.Store(phaseMeasure)
			if err := turn(st, cfg.For); err != nil {
				return nil, err
			}
		}
	}
	res := r.end(sp)
	r.close(res)
	part := func(name string, st *stage, kind int) *Quantiles {
		q := quantiles(st.waits[kind : kind+1])
		res.Parts = append(res.Parts, Part{Name: name, Messages: st.count[kind].Load(), Wait: q})
		return q
	}
	alone := part("tenants, no flood", calm, calmTenant)
	beside := part("tenants beside a flood", flood, calmTenant)
	part("the flood", flood, floodTenant)
	if alone != nil && beside != nil {
		res.Ratio, res.RatioP99 = beside.P50/alone.P50, beside.P99/alone.P99
	}
	return res, nil
}
