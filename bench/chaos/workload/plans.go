package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/bench/chaos/history"
	"github.com/quorate/quorate/wire"
)

// schedules are those of a queue, one for each policy of what is missed.
var schedules = []string{wire.MissedSkip, wire.MissedOnce, wire.MissedAll}

// scheduled is the schedule of a policy, whose times are so many seconds apart.
func (w *load) scheduled(missed string, seconds int) wire.Schedule {
	name := w.queue + "." + missed
	return wire.Schedule{
		Name: name, Queue: w.queue, Cron: fmt.Sprintf("*/%d * * * * *", seconds), Missed: missed,
		Message: wire.Message{Body: fmt.Appendf(nil, "of %s, every %d seconds", name, seconds)},
	}
}

// plan declares schedules and changes, deletes and declares them again, until ctx ends. They go on.
func (w *load) plan(ctx context.Context, every time.Duration) {
	l := w.link()
	defer l.drop()
	call := context.WithoutCancel(ctx)
	for i, missed := range schedules {
		w.declare(call, l, wire.TypeScheduleCreate, w.scheduled(missed, 1+i))
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		s := w.scheduled(schedules[l.rng.IntN(len(schedules))], 1+l.rng.IntN(3))
		switch p := l.rng.IntN(100); {
		case p < 30:
			w.declare(call, l, wire.TypeScheduleSet, s)
		case p < 45: // there is one, and be it another
			w.declare(call, l, wire.TypeScheduleCreate, s)
		case p < 60:
			w.forget(call, l, s.Name)
			w.declare(call, l, wire.TypeScheduleCreate, s)
		}
	}
}

// settle is how long schedules go on once faults have ended, so that they show whether they do.
const settle = 2500 * time.Millisecond

// unplan lets schedules go on for a while, and deletes them.
func (w *load) unplan(ctx context.Context) {
	if linger(ctx, settle) != nil {
		return
	}
	l := w.link()
	defer l.drop()
	for _, missed := range schedules {
		for range remakes { // until it is known to be gone
			a := w.forget(ctx, l, w.scheduled(missed, 1).Name)
			if a.class == history.OK || a.class == history.Refused && a.code == string(wire.CodeNotFound) {
				break
			}
		}
	}
}

func (w *load) declare(ctx context.Context, l *link, t wire.Type, s wire.Schedule) {
	w.asks(ctx, l, t, history.Event{Op: history.Plan, Name: s.Name, Body: history.Sum(s.Message.Body)}, func(r wire.Request) any {
		return &wire.ScheduleWrite{Schedule: s, Request: r}
	}, success)
}

func (w *load) forget(ctx context.Context, l *link, name string) answer {
	return w.asks(ctx, l, wire.TypeScheduleDelete, history.Event{Op: history.Unplan, Name: name}, func(r wire.Request) any {
		return &wire.ScheduleRef{Name: name, Request: r}
	}, success)
}
