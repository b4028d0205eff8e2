package load

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/wire"
)

const (
	levels    = wire.MaxPriority + 1
	maxPlaced = 4 << 20 // deliveries whose order a run keeps for judging, of all consumers together

	belowCapacity = 0.5
	overCapacity  = 2
)

// placed is one delivery as the log has it: where its message was enqueued and where it was leased.
type placed struct {
	enqueued, leased position
	priority         uint8
}

// stage is one of the paces of a run, with the waits of its messages by tag.
type stage struct {
	name  string
	rate  float64
	waits []*latencies
	count []atomic.Int64
}

func newStage(name string, rate float64, tags int) *stage {
	st := &stage{name: name, rate: rate, count: make([]atomic.Int64, tags)}
	for range tags {
		st.waits = append(st.waits, newLatencies())
	}
	return st
}

func (st *stage) record(tag int, wait time.Duration) {
	st.waits[tag].record(wait)
	st.count[tag].Add(1)
}

// priorities sends messages of all ten priorities by turns, first at half of what the consumers can handle, then at twice,
// and reports how long those of each priority waited, from when they were due to be sent to when a consumer had them. A
// consumer acknowledges at its part of the capacity, one message after the other, so what it has out beyond that waits with
// it, in the order in which it came. What is left of a pace at its end is handled at the same capacity, and counts.
//
// Order is judged by the log: a delivery is out of order when a message of a higher priority, or an earlier one of the same,
// had been enqueued in an entry before the one in which it was leased, and was leased later.
func (r *run) priorities(ctx context.Context) (*Result, error) {
	cfg := &r.cfg
	r.work.Store(int64(float64(cfg.Consumers) / cfg.Capacity * float64(time.Second)))
	warm := newStage("warm-up", belowCapacity*cfg.Capacity, levels)
	stages := []*stage{newStage("below", belowCapacity*cfg.Capacity, levels), newStage("over", overCapacity*cfg.Capacity, levels)}
	var now atomic.Pointer[stage]
	now.Store(warm)
	r.dress = func(s *slot, m *client.Message) { m.Priority = client.Priority(s.tag) }
	r.judge = func(c *consumer, _ uint64, due time.Duration, d *client.Delivery, at time.Time) {
		now.Load().record(d.Priority, at.Sub(r.origin)-due)
		e, ok1 := positionOf(d.ID)
		l, ok2 := leasePosition(d.Token)
		if ok1 && ok2 && len(c.places) < maxPlaced/cfg.Consumers {
			c.places = append(c.places, placed{enqueued: e, leased: l, priority: uint8(d.Priority)})
		}
	}
	ps, cs, closing, err := r.openBoth(ctx)
	if err != nil {
		return nil, err
	}
	defer closing()
	tag := func(i int) int { return i * 7 % levels } // every ten messages all of them, neighbours apart
	if err := r.stage(ctx, ps, warm, cfg.WarmUp, tag); err != nil {
		return nil, err
	}
	sp := r.begin()
	for _, st := range stages {
		now.Store(st)
		r.phase.Store(phaseMeasure)
		if err := r.stage(ctx, ps, st, cfg.For, tag); err != nil {
			return nil, err
		}
	}
	res := r.end(sp)
	r.close(res)
	var all []placed
	for _, c := range cs {
		all = append(all, c.places...)
	}
	res.OutOfOrder = outOfOrder(all)
	res.Judged = int64(len(all))
	for _, st := range stages {
		for p := levels - 1; p >= 0; p-- {
			res.Parts = append(res.Parts, Part{
				Name: fmt.Sprintf("%s capacity, priority %d", st.name, p), Messages: st.count[p].Load(), Wait: quantiles(st.waits[p : p+1]),
			})
		}
	}
	return res, nil
}

// stage sends at a stage's pace for d and waits until all has been received.
func (r *run) stage(ctx context.Context, ps []*producer, st *stage, d time.Duration, tag func(i int) int) error {
	defer r.progress(st.name)()
	sending, stop := context.WithTimeout(ctx, d)
	defer stop()
	r.pace(sending, ps, st.rate, tag)
	r.phase.Store(phaseDrain)
	return r.await(ctx, r.drained, true)
}

// outOfOrder counts the deliveries that took the place of another, as priorities says. It sorts all.
func outOfOrder(all []placed) (n int64) {
	slices.SortFunc(all, func(a, b placed) int { return a.leased.compare(b.leased) })
	// From the last lease to the first: the earliest enqueue, by priority, of what is leased later.
	var later [levels]position
	for i := range later {
		later[i] = position{index: math.MaxUint64}
	}
	for i := len(all) - 1; i >= 0; i-- {
		a := &all[i]
		// Of its own priority what was enqueued before it had to go first; of higher ones what was there at its lease.
		bad := later[a.priority].compare(a.enqueued) < 0
		for p := int(a.priority) + 1; p < levels && !bad; p++ {
			bad = later[p].index < a.leased.index
		}
		if bad {
			n++
		}
		if a.enqueued.compare(later[a.priority]) < 0 {
			later[a.priority] = a.enqueued
		}
	}
	return n
}
