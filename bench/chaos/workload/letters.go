package workload

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/bench/chaos/history"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/wire"
)

// Queues of a history that are about something else than their order.
const (
	onceMode     = "at_most_once"
	ratedMode    = "rated"
	redrivenMode = "redriven"
	batchedMode  = "batched"

	movedMode     = "rescheduled"
	emptiedMode   = "emptied"
	keyRatedMode  = "key_rated"
	buriedMode    = "dead_letter_queue"
	lettersMode   = "letters" // the dead-letter queue of the one before; it comes with it
	scheduledMode = "scheduled"
)

// options are those of a workload's queue.
func (w *load) options() client.QueueOptions {
	o := client.QueueOptions{
		Lease: workLease, DedupWindow: workWindow, Retry: &client.RetryPolicy{Kind: "fixed", Initial: workRetry, MaxAttempts: 4},
	}
	switch w.kind {
	case onceMode:
		o.Delivery = "at_most_once"
	case ratedMode: // what the producers send is about as much
		o.Rate, o.Burst = 60, 6
	case batchedMode, movedMode, emptiedMode, scheduledMode:
	case redrivenMode, lettersMode:
		o.Retry.MaxAttempts = 2
	case keyRatedMode:
		o.RatePerKey, o.BurstPerKey = 4, 3
	case buriedMode:
		o.Retry.MaxAttempts, o.DeadLetterQueue = 2, w.deadLetterQueue()
	default:
		o.Ordering = w.kind
	}
	return o
}

// required are the counters that a run with this queue must have moved.
func (w *load) required() []string {
	switch w.kind {
	case onceMode:
		return history.RequiredOnce
	case ratedMode:
		return history.RequiredRated
	case redrivenMode:
		return slices.Concat(history.RequiredLetters, history.RequiredEdits, history.RequiredKeys)
	case batchedMode:
		return history.RequiredBatches
	case movedMode:
		return history.RequiredMoves
	case emptiedMode:
		return history.RequiredEmptied
	case keyRatedMode:
		return history.RequiredKeyRates
	case buriedMode:
		return history.RequiredBuried
	case scheduledMode:
		return history.RequiredSchedules
	}
	return nil
}

// consumed works on what is pushed to it by the SDK and may not be given back, until ctx ends.
func (w *load) consumed(ctx context.Context, cl *client.Client) error {
	n := int(w.people.Add(1))
	err := cl.Consume(ctx, w.queue, client.ConsumeOptions{Concurrency: 4, Prefetch: 16}, func(_ context.Context, d *client.Delivery) (*client.Result, error) {
		w.met(d.ID)
		w.rec.Add(history.Event{
			Kind: history.Deliver, Worker: n, Op: history.Lease, Queue: w.queue, Message: d.ID, Token: d.Token, Attempt: d.Attempt, Body: history.Sum(d.Body),
		})
		return nil, nil
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("consume: %w", err)
	}
	return nil
}

// bury looks for dead letters until ctx ends, and has them come back, once or, as it hopes, twice; deletes some; and now and then all.
func (w *load) bury(ctx context.Context, every time.Duration) {
	l := w.link()
	defer l.drop()
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last string // a letter that has been seen to already
	for due(ctx, tick) {
		call := context.WithoutCancel(ctx)
		a := l.ask(call, wire.TypeDeadList, &wire.DeadList{Queue: w.queue, Limit: 20, Brief: true})
		var got wire.Tasks
		if a.class != history.OK || a.raw.Decode(&got) != nil || len(got.Tasks) == 0 {
			continue
		}
		id := got.Tasks[l.rng.IntN(len(got.Tasks))].ID
		switch p := l.rng.IntN(100); {
		case p < 20:
			w.requeue(call, l, id, 1)
		case p < 40:
			w.edit(call, l, id)
		case p < 55 && w.kind == redrivenMode:
			key := kvKey(l.rng.IntN(kvKeys))
			if w.look(call, l, key); p < 48 {
				w.erase(call, l, key)
			}
		case p < 65: // the same request again
			w.requeue(call, l, id, 2)
		case p < 75: // by another request
			w.requeue(call, l, id, 1)
			w.requeue(call, l, id, 1)
		case p < 80 && last != "": // what came back, or was deleted, before
			w.requeue(call, l, last, 1)
		case p < 95 || w.kind == lettersMode:
			w.remove(call, l, wire.TypeDeadDelete, history.Delete, id)
		default:
			w.remove(call, l, wire.TypeDeadPurge, history.Purge, "")
		}
		last = id
	}
}

// requeue has a dead letter come back; the request is sent so many times.
func (w *load) requeue(ctx context.Context, l *link, id string, times int) {
	req, err := l.request(ctx, 1)
	if err != nil {
		return
	}
	session := l.session
	for range times {
		if l.session != session {
			return
		}
		ev := history.Event{Worker: l.worker, Op: history.Requeue, Queue: w.queue, Message: id, Session: l.session, Number: req.Number}
		ev.Call = l.rec.Call(ev)
		ev.Message = ""
		a := l.ask(ctx, wire.TypeDeadRequeue, &wire.DeadIDs{Queue: w.queue, IDs: []string{id}, Request: req})
		if a.class == history.OK {
			a = l.single(a, func(o *wire.Outcome) { ev.Message = o.ID; w.met(o.ID) })
		}
		l.ended(ev, a)
	}
}

// single takes the one outcome of a request that could have had several.
func (l *link) single(a answer, take func(o *wire.Outcome)) answer {
	var got wire.Enqueued
	if err := a.raw.Decode(&got); err != nil || len(got.Outcomes) != 1 {
		return answer{class: history.Unknown}
	}
	o := &got.Outcomes[0]
	if a = a.part(got.At, o.Fault); o.Fault != nil {
		return a
	}
	take(o)
	return a
}

// remove deletes a dead letter, or all of them.
func (w *load) remove(ctx context.Context, l *link, t wire.Type, op history.Op, id string) {
	req, err := l.request(ctx, 1)
	if err != nil {
		return
	}
	ev := history.Event{Worker: l.worker, Op: op, Queue: w.queue, Message: id, Session: l.session, Number: req.Number}
	ev.Call = l.rec.Call(ev)
	if op == history.Purge {
		a := l.ask(ctx, t, &wire.QueueRef{Queue: w.queue, Request: req})
		if got, ok := understood[wire.Counted](&a); ok {
			a.at, ev.Count = got.At, got.Count
		}
		l.ended(ev, a)
		return
	}
	a := l.ask(ctx, t, &wire.DeadIDs{Queue: w.queue, IDs: []string{id}, Request: req})
	if a.class == history.OK {
		a = l.single(a, func(*wire.Outcome) {})
	}
	l.ended(ev, a)
}
