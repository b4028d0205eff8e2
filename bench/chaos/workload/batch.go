package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/bench/chaos/history"
	"github.com/quorate/quorate/wire"
)

// gather makes batches until ctx ends: with a few members or none, sealed once, twice or never, and now and then with a member that comes too
// late.
func (w *load) gather(ctx context.Context, every time.Duration) {
	l := w.link()
	defer l.drop()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 0; due(ctx, tick); n++ {
		call := context.WithoutCancel(ctx)
		id := w.makeBatch(call, l, fmt.Sprintf("%s callback %d/%d", w.queue, l.worker, n))
		if id == "" {
			continue
		}
		member := func(i int) bool {
			body := &wire.Enqueue{Queue: w.queue, Messages: []wire.Message{w.message(l.rng, fmt.Sprintf("%s %d/%d member %d", w.queue, l.worker, n, i))}}
			body.Messages[0].Batch = id
			var err error
			if body.Request, err = l.request(call, 1); err != nil {
				return false
			}
			calls := w.calls(l, body)
			w.enqueued(l, body, calls, l.ask(call, wire.TypeEnqueue, body))
			return true
		}
		whole := true
		for i := range l.rng.IntN(5) {
			whole = whole && member(i)
		}
		if !whole { // there is nobody who would take the rest
			continue
		}
		p := l.rng.IntN(100)
		if p < 4 { // its members go on without it
			continue
		}
		w.seal(call, l, id)
		if p < 20 {
			w.seal(call, l, id)
		}
		if p > 85 {
			member(99)
		}
	}
}

// makeBatch makes a batch whose callback comes to the queue, "" where it could not or does not know.
func (w *load) makeBatch(ctx context.Context, l *link, callback string) (id string) {
	req, err := l.request(ctx, 1)
	if err != nil {
		return ""
	}
	body := &wire.BatchCreate{Queue: w.queue, Callback: wire.Message{Body: []byte(callback)}, Request: req}
	ev := history.Event{Worker: l.worker, Op: history.Batch, Queue: w.queue, Session: l.session, Number: req.Number, Body: history.Sum(body.Callback.Body)}
	ev.Call = l.rec.Call(ev)
	a := l.ask(ctx, wire.TypeBatchCreate, body)
	if got, ok := understood[wire.BatchCreated](&a); ok {
		a.at, ev.Message = got.At, got.Batch
	}
	l.ended(ev, a)
	return ev.Message
}

func (w *load) seal(ctx context.Context, l *link, id string) {
	req, err := l.request(ctx, 1)
	if err != nil {
		return
	}
	ev := history.Event{Worker: l.worker, Op: history.Seal, Queue: w.queue, Message: id, Session: l.session, Number: req.Number}
	ev.Call = l.rec.Call(ev)
	a := l.ask(ctx, wire.TypeBatchSeal, &wire.BatchSeal{Batch: id, Request: req})
	if got, ok := understood[wire.OK](&a); ok {
		a.at = got.At
	}
	l.ended(ev, a)
}
