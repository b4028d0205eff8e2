package workload

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/bench/chaos/history"
	"github.com/quorate/quorate/wire"
)

// deadLetterQueue is where the dead letters of the queue go.
func (w *load) deadLetterQueue() string { return w.queue + ".letters" }

// renames says whether ids of this queue come to name other messages, or none, so that what is done by them says little.
func (w *load) renames() bool {
	switch w.kind {
	case redrivenMode, emptiedMode, buriedMode, lettersMode:
		return true
	}
	return false
}

// firing is the task id of what a schedule made, which names the schedule and the time; "" of anything else.
func firing(taskID string) string {
	if strings.Contains(taskID, "@") {
		return taskID
	}
	return ""
}

// asks is a call under a request of its own whose answer tells nothing but success, or what take finds in it.
func (w *load) asks(ctx context.Context, l *link, t wire.Type, ev history.Event, body func(wire.Request) any, take func(a *answer, ev *history.Event) error) answer {
	req, err := l.request(ctx, 1)
	if err != nil {
		return answer{class: history.Refused, code: "unsent"}
	}
	ev.Worker, ev.Session, ev.Number = l.worker, l.session, req.Number
	if ev.Queue == "" {
		ev.Queue = w.queue
	}
	ev.Call = l.rec.Call(ev)
	a := l.ask(ctx, t, body(req))
	if a.class == history.OK {
		if take(&a, &ev) != nil {
			a = answer{class: history.Unknown}
		}
	}
	l.ended(ev, a)
	return a
}

// success takes an answer that has no more to say.
func success(a *answer, _ *history.Event) error {
	var got wire.OK
	err := a.raw.Decode(&got)
	a.at = got.At
	return err
}

// move gives tasks that have just been enqueued, be they waiting, out or done, another time, another body, or both, until ctx ends.
func (w *load) move(ctx context.Context, every time.Duration) {
	l := w.link()
	defer l.drop()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for due(ctx, tick) {
		if id := w.recent(l.rng); id != "" {
			w.reschedule(context.WithoutCancel(ctx), l, id)
		}
	}
}

// reschedule gives a task another time, another body, or both.
func (w *load) reschedule(ctx context.Context, l *link, id string) {
	body := &wire.TaskReschedule{Task: wire.TaskRef{TaskID: id}}
	ev := history.Event{Op: history.Move, Message: id}
	switch p := l.rng.IntN(100); {
	case p < 40:
		ms := l.rng.Int64N(800)
		body.DelayMillis = &ms
	case p < 60: // a debounce, which has an end
		ms := 200 + l.rng.Int64N(800)
		body.DelayMillis, body.MaxWaitMillis = &ms, 500
	case p < 70:
		body.EnqueueAt = time.Now().Add(time.Duration(l.rng.Int64N(int64(time.Second)))).UnixMilli()
	}
	if body.DelayMillis == nil && body.EnqueueAt == 0 || l.rng.IntN(4) == 0 {
		b := fmt.Appendf(nil, "%s replaced by %d, %x", w.queue, l.worker, l.rng.Uint64())
		body.Replace, ev.Body = &wire.Replacement{Body: b}, history.Sum(b)
	}
	w.asks(ctx, l, wire.TypeTaskReschedule, ev, func(r wire.Request) any { body.Request = r; return body }, func(a *answer, ev *history.Event) error {
		var got wire.TaskScheduled
		err := a.raw.Decode(&got)
		a.at, ev.Millis = got.At, got.DueAt
		return err
	})
}

// empty purges the queue, and now and then deletes it and makes it anew, until ctx ends.
func (w *load) empty(ctx context.Context, every time.Duration) {
	l := w.link()
	defer l.drop()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		call := context.WithoutCancel(ctx)
		if l.rng.IntN(4) > 0 {
			w.asks(call, l, wire.TypeQueuePurge, history.Event{Op: history.Empty}, func(r wire.Request) any {
				return &wire.QueueRef{Queue: w.queue, Request: r}
			}, func(a *answer, ev *history.Event) error {
				var got wire.Counted
				err := a.raw.Decode(&got)
				a.at, ev.Count = got.At, got.Count
				return err
			})
			continue
		}
		for range remakes {
			w.asks(call, l, wire.TypeQueueDelete, history.Event{Op: history.Drop}, func(r wire.Request) any {
				return &wire.QueueRef{Queue: w.queue, Request: r}
			}, success)
			if w.remake(call, l) {
				break
			}
		}
	}
}

// remakes is how often a queue is deleted again because somebody's enqueue had made it with other options before it could be made.
const remakes = 20

// remake makes the queue again as it was, and says whether it is there so.
func (w *load) remake(ctx context.Context, l *link) bool {
	for range remakes { // what came of it may be unknown
		req, err := l.request(ctx, 1)
		if err != nil {
			return false
		}
		o := w.options()
		a := l.ask(ctx, wire.TypeQueueCreate, &wire.QueueWrite{Queue: w.queue, Request: req, Options: wire.QueueOptions{
			LeaseMillis: o.Lease.Milliseconds(), DedupWindowMillis: o.DedupWindow.Milliseconds(),
			Retry: &wire.RetryPolicy{Kind: o.Retry.Kind, InitialMillis: o.Retry.Initial.Milliseconds(), MaxAttempts: int32(o.Retry.MaxAttempts)},
		}})
		switch {
		case a.class == history.OK:
			return true
		case a.class == history.Refused && a.code == string(wire.CodeAlreadyExists):
			return false
		}
	}
	return false
}

// edit has a dead letter come back with some of its fields set anew.
func (w *load) edit(ctx context.Context, l *link, id string) {
	body := &wire.DeadEdit{Queue: w.queue, ID: id}
	ev := history.Event{Op: history.Edit, Message: id}
	if l.rng.IntN(2) == 0 {
		b := fmt.Appendf(nil, "%s edited %d of %s", w.queue, l.number, id)
		body.Fields, body.Set.Body, ev.Body = append(body.Fields, "body"), b, history.Sum(b)
	}
	if l.rng.IntN(3) == 0 {
		p := uint8(l.rng.IntN(10))
		body.Fields, body.Set.Priority = append(body.Fields, "priority"), &p
	}
	switch l.rng.IntN(4) {
	case 0:
		body.Fields, body.Set.DelayMillis = append(body.Fields, "delay"), 1+l.rng.Int64N(500)
	case 1:
		body.Fields, body.Set.TTLMillis = append(body.Fields, "ttl_ms"), 100+l.rng.Int64N(1500)
	case 2:
		body.Fields, body.Set.Retry = append(body.Fields, "retry"), &wire.RetryPolicy{
			Kind: "fixed", InitialMillis: workRetry.Milliseconds(), MaxAttempts: 1 + l.rng.Int32N(3),
		}
	default:
		body.Fields, body.Set.TimeoutMillis = append(body.Fields, "timeout_ms"), 300+l.rng.Int64N(600)
	}
	w.asks(ctx, l, wire.TypeDeadEdit, ev, func(r wire.Request) any { body.Request = r; return body }, func(a *answer, ev *history.Event) error {
		ev.Message = ""
		*a = l.single(*a, func(o *wire.Outcome) { ev.Message = o.ID; w.met(o.ID) })
		return nil
	})
}

// kvKeys is how many keys of the KV messages name that are to leave something where they die.
const kvKeys = 6

func kvKey(n int) []string { return []string{"undelivered", fmt.Sprint(n)} }

// look reads a key of the KV.
func (w *load) look(ctx context.Context, l *link, key []string) {
	ev := history.Event{Worker: l.worker, Op: history.Look, Name: history.KeyName(key)}
	ev.Call = l.rec.Call(ev)
	a := l.ask(ctx, wire.TypeKVGet, &wire.KVGet{Key: key})
	if got, ok := understood[wire.KVIs](&a); ok {
		a.at, ev.Body, ev.Message = got.At, history.Sum(got.Entry.Value), got.Entry.MessageID
	}
	l.ended(ev, a)
}

// erase deletes a key of the KV.
func (w *load) erase(ctx context.Context, l *link, key []string) {
	w.asks(ctx, l, wire.TypeKVDelete, history.Event{Op: history.Erase, Name: history.KeyName(key)}, func(r wire.Request) any {
		return &wire.KVDelete{Key: key, Request: r}
	}, success)
}
