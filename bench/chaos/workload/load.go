package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/bench/chaos/history"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/wire"
)

// Lengths that the queues of a campaign have. A lease is short, so that slow workers lose it; a wait between attempts is
// long enough for a late ack to come into it.
const (
	workLease  = 500 * time.Millisecond
	workRetry  = 200 * time.Millisecond
	workWindow = 1500 * time.Millisecond
	pullWait   = 300 * time.Millisecond // for a message, where Config.Wait does not say
)

// load is everything that is done to one queue, and what its parts share.
type load struct {
	queue              string
	kind               string // an ordering mode, or what else the queue is about
	mode               string // the ordering mode
	addrs              []string
	dial               func(ctx context.Context, addr string) (net.Conn, error) // nil: TCP
	rec                *history.Recorder
	seed               uint64
	every              time.Duration // between two requests of a producer
	producers, pullers int
	people             *atomic.Int64 // of all loads: the last number that a client was given
	gate               *gate         // of all loads: workers stand still at it
	wait               time.Duration // of a pull for a message
	calm               time.Duration // between two tries to reach a node, at most
	healthy            atomic.Bool   // workers do no harm any more

	mu  sync.Mutex
	ids map[string]bool // guarded by mu: messages that were confirmed or seen
	row []string        // guarded by mu: them, in order
}

func (w *load) link() *link {
	n := int(w.people.Add(1))
	return &link{addrs: w.addrs, dial: w.dial, rec: w.rec, worker: n, most: w.calm, rng: rand.New(rand.NewPCG(w.seed, uint64(n)))}
}

// met remembers a message.
func (w *load) met(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if id != "" && !w.ids[id] {
		w.ids[id] = true
		w.row = append(w.row, id)
	}
}

// recent draws one of the last messages, "" where there is none.
func (w *load) recent(rng *rand.Rand) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.row) == 0 {
		return ""
	}
	last := w.row[max(0, len(w.row)-12):]
	return last[rng.IntN(len(last))]
}

// produce enqueues until ctx ends: batches and single messages with all sorts of options, requests sent twice, requests
// whose sender is gone before the answer.
func (w *load) produce(ctx context.Context) {
	l := w.link()
	defer l.drop()
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for n := 0; due(ctx, tick); n++ {
		count := 1
		if l.rng.IntN(4) == 0 {
			count += l.rng.IntN(4)
		}
		body := &wire.Enqueue{Queue: w.queue}
		for i := range count {
			body.Messages = append(body.Messages, w.message(l.rng, fmt.Sprintf("%s %d/%d/%d", w.queue, l.worker, n, i)))
		}
		var err error
		if body.Request, err = l.request(ctx, count); err != nil {
			continue
		}
		calls := w.calls(l, body)
		// What is under way is seen to its end.
		call := context.WithoutCancel(ctx)
		switch p := l.rng.IntN(100); {
		case p < 3:
			l.abandon(call, wire.TypeEnqueue, body, false)
			w.enqueued(l, body, calls, answer{class: history.Unknown})
		case p < 5:
			l.abandon(call, wire.TypeEnqueue, body, true)
			w.enqueued(l, body, calls, answer{class: history.Unknown})
		default:
			session := l.session
			w.enqueued(l, body, calls, l.ask(call, wire.TypeEnqueue, body))
			if p < 15 && l.session == session {
				calls = w.calls(l, body)
				w.enqueued(l, body, calls, l.ask(call, wire.TypeEnqueue, body))
			}
		}
	}
}

// message draws a message.
func (w *load) message(rng *rand.Rand, text string) wire.Message {
	m := wire.Message{Body: []byte(text)}
	if w.mode == "unordered" && rng.IntN(2) == 0 {
		p := uint8(rng.IntN(10))
		m.Priority = &p
	}
	if w.mode != "unordered" && rng.IntN(5) > 0 {
		m.Key = []byte(fmt.Sprintf("key %d", rng.IntN(6)))
	}
	switch {
	case w.kind == keyRatedMode && rng.IntN(6) > 0:
		m.Key = fmt.Appendf(nil, "key %d", rng.IntN(6))
	case w.kind == movedMode && rng.IntN(3) == 0:
		m.DelayMillis = 1 + rng.Int64N(1200)
	case w.kind == redrivenMode && rng.IntN(3) == 0:
		m.KeysIfUndelivered = [][]string{kvKey(rng.IntN(kvKeys))}
	}
	switch p := rng.IntN(100); {
	case p < 20: // few keys, so that they come again within the window and after it
		n := rng.IntN(8)
		m.DedupKey = []byte(fmt.Sprintf("%s dedup %d", w.queue, n))
		m.Body = []byte(fmt.Sprintf("%s the same %d", w.queue, n))
		if rng.IntN(5) == 0 {
			m.Body = append(m.Body, " but not quite"...)
		}
	case p < 30:
		m.DelayMillis = 1 + rng.Int64N(1200)
	case p < 35:
		m.TTLMillis = 100 + rng.Int64N(1500)
	case p < 45:
		m.Retry = &wire.RetryPolicy{Kind: "fixed", InitialMillis: workRetry.Milliseconds(), MaxAttempts: 1 + rng.Int32N(3), JitterMillis: 40}
	case p < 48:
		m.TimeoutMillis = 300 + rng.Int64N(600)
	}
	return m
}

// calls notes that the messages of a request are about to be sent.
func (w *load) calls(l *link, body *wire.Enqueue) []uint64 {
	calls := make([]uint64, len(body.Messages))
	for i := range body.Messages {
		calls[i] = l.rec.Call(history.Event{
			Worker: l.worker, Op: history.Enqueue, Queue: w.queue, Session: l.session, Number: body.Request.Number + uint64(i),
			Body: history.Sum(body.Messages[i].Body),
		})
	}
	return calls
}

// enqueued notes what became of them.
func (w *load) enqueued(l *link, body *wire.Enqueue, calls []uint64, a answer) {
	var e wire.Enqueued
	if a.class == history.OK {
		if err := a.raw.Decode(&e); err != nil || len(e.Outcomes) != len(calls) {
			a = answer{class: history.Unknown, code: fmt.Sprintf("answer not understood: %v", err)}
		}
	}
	for i, c := range calls {
		ev := history.Event{Call: c, Worker: l.worker, Op: history.Enqueue, Queue: w.queue}
		if a.class != history.OK {
			l.ended(ev, a)
			continue
		}
		o := &e.Outcomes[i]
		one := a.part(e.At, o.Fault)
		if f := o.Fault; f != nil {
			ev.Message = f.ID
		} else {
			ev.Message, ev.Duplicate = o.ID, o.Duplicate
			w.met(o.ID)
		}
		l.ended(ev, one)
	}
}

// pull works on what it pulls until ctx ends, well or badly.
func (w *load) pull(ctx context.Context) {
	l := w.link()
	defer l.drop()
	for ctx.Err() == nil {
		req, err := l.request(ctx, 1)
		if err != nil {
			continue
		}
		most := int32(1)
		if l.rng.IntN(3) == 0 {
			most = 3
		}
		ev := history.Event{Worker: l.worker, Op: history.Lease, Queue: w.queue, Session: l.session, Number: req.Number}
		ev.Call = l.rec.Call(ev)
		body := &wire.Lease{Queue: w.queue, Max: most, WaitMillis: w.wait.Milliseconds(), Worker: fmt.Sprintf("puller %d", l.worker), Request: req}
		a := l.ask(context.WithoutCancel(ctx), wire.TypeLease, body)
		got, _ := understood[wire.Leased](&a)
		a.at = got.At
		for i := range got.Messages {
			d := &got.Messages[i]
			w.met(d.ID)
			l.rec.Add(history.Event{
				Kind: history.Deliver, Call: ev.Call, Worker: l.worker, Op: history.Lease, Queue: w.queue,
				Message: d.ID, Token: d.Token, Attempt: int(d.Attempt), Body: history.Sum(d.Body), Firing: firing(d.TaskID),
			})
		}
		l.ended(ev, a)
		if a.class != history.OK && l.backOff(ctx) != nil {
			return
		}
		for i := range got.Messages {
			w.gate.pass(ctx)
			if w.kind == movedMode && l.rng.IntN(8) == 0 && !w.healthy.Load() { // what is out is not moved
				w.reschedule(context.WithoutCancel(ctx), l, got.Messages[i].ID)
			}
			w.handle(ctx, l, got.Messages[i].Token)
		}
	}
}

// mortal is from which draw of a hundred to 90 a worker fails what else it would have done.
func (w *load) mortal() int {
	switch w.kind {
	case redrivenMode:
		return 70
	case buriedMode: // some of those that die are to die once more
		return 55
	case lettersMode:
		return 40
	}
	return 100
}

// handle does what a worker may do with a lease, and what it should not.
func (w *load) handle(ctx context.Context, l *link, token string) {
	result := []byte("result of " + token)
	p := l.rng.IntN(100)
	if w.healthy.Load() {
		p = 99
	}
	soon := time.Duration(l.rng.Int64N(int64(workRetry / 2)))
	if p > w.mortal() && p < 90 { // more to be buried
		w.nack(ctx, l, token, p < 80)
		return
	}
	switch {
	case p < 6: // twice
		w.ack(ctx, l, token, result)
		w.ack(ctx, l, token, result)
	case p < 9: // and once more with something else
		w.ack(ctx, l, token, result)
		w.ack(ctx, l, token, []byte("another result"))
	case p < 20:
		w.nack(ctx, l, token, false)
	case p < 22: // twice, and then it is too late to be done after all
		w.nack(ctx, l, token, false)
		w.nack(ctx, l, token, false)
		w.ack(ctx, l, token, result)
	case p < 24:
		w.nack(ctx, l, token, true)
	case p < 30:
		w.release(ctx, l, token)
	case p < 32: // done after all, while nobody else has it
		w.release(ctx, l, token)
		w.ack(ctx, l, token, result)
	case p < 38:
		w.extend(ctx, l, token)
		w.ack(ctx, l, token, result)
	case p < 42: // too slow by a little
		if linger(ctx, workLease+soon) == nil {
			w.ack(ctx, l, token, result)
		}
	case p < 45: // too slow by much: somebody else has it
		if linger(ctx, workLease+workRetry+workLease/2+soon) == nil {
			w.extend(ctx, l, token)
			w.nack(ctx, l, token, false)
			w.ack(ctx, l, token, result)
		}
	case p < 48: // never heard of again
	case p < 52:
		w.ack(ctx, l, token, nil)
	case p < 60: // and something to be done next, in the same entry; twice, to be sure
		w.ackThen(ctx, l, token, result, []byte("carried by "+token))
		if p < 54 {
			w.ackThen(ctx, l, token, result, []byte("carried by "+token))
		}
	default:
		w.ack(ctx, l, token, result)
	}
}

func (w *load) event(l *link, op history.Op, token string) history.Event {
	return history.Event{Worker: l.worker, Op: op, Queue: w.queue, Token: token}
}

// ack sends an ack; result nil: without one.
func (w *load) ack(ctx context.Context, l *link, token string, result []byte) {
	w.ackThen(ctx, l, token, result, nil)
}

// ackThen sends an ack that enqueues a message, where then is its body.
func (w *load) ackThen(ctx context.Context, l *link, token string, result, then []byte) {
	body := &wire.Ack{Token: token}
	ev := w.event(l, history.Ack, token)
	if then != nil {
		body.Then = []wire.Then{{Queue: w.queue, Message: wire.Message{Body: then}}}
		ev.Body = history.Sum(then)
	}
	if result != nil {
		body.Result = &wire.Result{Output: result}
		ev.Result = history.Sum(result)
	}
	ev.Call = l.rec.Call(ev)
	a := l.ask(context.WithoutCancel(ctx), wire.TypeAck, body)
	if got, ok := understood[wire.Acked](&a); ok {
		a.at, ev.Duplicate = got.At, got.Duplicate
	}
	l.ended(ev, a)
}

func (w *load) nack(ctx context.Context, l *link, token string, permanent bool) {
	body := &wire.Nack{Token: token, Error: "failed on purpose", Permanent: permanent}
	if l.rng.IntN(3) == 0 {
		ms := l.rng.Int64N(300)
		body.DelayMillis = &ms
	}
	ev := w.event(l, history.Nack, token)
	ev.Call = l.rec.Call(ev)
	a := l.ask(context.WithoutCancel(ctx), wire.TypeNack, body)
	if got, ok := understood[wire.Nacked](&a); ok {
		a.at, ev.Dead, ev.Millis = got.At, got.Dead, got.DueAt
	}
	l.ended(ev, a)
}

func (w *load) extend(ctx context.Context, l *link, token string) {
	ev := w.event(l, history.Extend, token)
	ev.Call = l.rec.Call(ev)
	a := l.ask(context.WithoutCancel(ctx), wire.TypeExtend, &wire.Extend{Token: token, LeaseMillis: workLease.Milliseconds()})
	if got, ok := understood[wire.Extended](&a); ok {
		a.at, ev.Millis = got.At, got.LeaseLeftMillis
	}
	l.ended(ev, a)
}

func (w *load) release(ctx context.Context, l *link, token string) {
	ev := w.event(l, history.Release, token)
	ev.Call = l.rec.Call(ev)
	a := l.ask(context.WithoutCancel(ctx), wire.TypeRelease, &wire.Release{Token: token})
	if got, ok := understood[wire.OK](&a); ok {
		a.at = got.At
	}
	l.ended(ev, a)
}

// meddle reads, cancels and pushes results of what has just been enqueued, until ctx ends.
func (w *load) meddle(ctx context.Context, every time.Duration) {
	l := w.link()
	defer l.drop()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for due(ctx, tick) {
		id := w.recent(l.rng)
		if id == "" {
			continue
		}
		call := context.WithoutCancel(ctx)
		switch p := l.rng.IntN(100); {
		case p < 40:
			w.status(call, l, id, history.Read)
		case p < 80:
			w.result(call, l, id)
		case w.renames():
		case p < 90:
			w.cancel(call, l, id)
		default:
			w.push(call, l, id)
		}
	}
}

// status reads where a task stands.
func (w *load) status(ctx context.Context, l *link, id string, op history.Op) answer {
	ev := history.Event{Worker: l.worker, Op: op, Queue: w.queue, Message: id, Note: history.StatusOnly}
	ev.Call = l.rec.Call(ev)
	ev.Note = ""
	a := l.ask(ctx, wire.TypeTask, &wire.TaskGet{Task: wire.TaskRef{TaskID: id}})
	if got, ok := understood[wire.TaskIs](&a); ok {
		a.at = got.At
		switch got.Task.Status {
		case "succeeded", "dead", "cancelled":
			ev.Status = got.Task.Status
		}
		ev.Queue, ev.Origin = got.Task.Queue, got.Task.Origin
		ev.Reason, ev.Attempt, ev.Note = got.Task.Reason, int(got.Task.Attempts), got.Task.Error
	}
	l.ended(ev, a)
	return a
}

// result reads a task's result. What has not ended, or was cancelled, is answered with a fault.
func (w *load) result(ctx context.Context, l *link, id string) {
	ev := history.Event{Worker: l.worker, Op: history.Read, Queue: w.queue, Message: id}
	ev.Call = l.rec.Call(ev)
	a := l.ask(ctx, wire.TypeResultGet, &wire.ResultGet{Task: wire.TaskRef{TaskID: id}})
	got, ok := understood[wire.ResultIs](&a)
	switch {
	case ok:
		a.at, ev.Status = got.At, got.Status
		if got.HasOutput {
			ev.Result = history.Sum(got.Result.Output)
		}
	case a.class == history.Refused && a.code == "cancelled":
		a.class, ev.Status = history.OK, "cancelled"
	}
	l.ended(ev, a)
}

func (w *load) cancel(ctx context.Context, l *link, id string) {
	req, err := l.request(ctx, 1)
	if err != nil {
		return
	}
	ev := history.Event{Worker: l.worker, Op: history.Cancel, Queue: w.queue, Message: id, Session: l.session, Number: req.Number}
	ev.Call = l.rec.Call(ev)
	a := l.ask(ctx, wire.TypeTaskCancel, &wire.TaskCancel{Task: wire.TaskRef{TaskID: id}, Request: req})
	if got, ok := understood[wire.TaskCancelled](&a); ok {
		a.at, ev.Duplicate = got.At, got.Duplicate
	}
	l.ended(ev, a)
}

func (w *load) push(ctx context.Context, l *link, id string) {
	req, err := l.request(ctx, 1)
	if err != nil {
		return
	}
	output := []byte("pushed for " + id)
	ev := history.Event{
		Worker: l.worker, Op: history.Push, Queue: w.queue, Message: id, Session: l.session, Number: req.Number, Result: history.Sum(output),
	}
	ev.Call = l.rec.Call(ev)
	body := &wire.ResultPush{Task: wire.TaskRef{Queue: w.queue, TaskID: id}, Result: wire.Result{Output: output}, Request: req}
	a := l.ask(ctx, wire.TypeResultPush, body)
	if got, ok := understood[wire.Acked](&a); ok {
		a.at, ev.Duplicate = got.At, got.Duplicate
	}
	l.ended(ev, a)
}

// subscribed works on what is pushed to it by the SDK, until ctx ends. Of its calls the history has the acks.
func (w *load) subscribed(ctx context.Context, cl *client.Client) error {
	n := int(w.people.Add(1))
	rng := rand.New(rand.NewPCG(w.seed, uint64(n)))
	got := make(chan *client.Delivery, 16)
	sub, err := cl.Subscribe(ctx, w.queue, client.SubscribeOptions{Credit: cap(got), Worker: fmt.Sprintf("subscriber %d", n)}, func(d *client.Delivery) {
		w.met(d.ID)
		w.rec.Add(history.Event{
			Kind: history.Deliver, Worker: n, Op: history.Lease, Queue: w.queue,
			Message: d.ID, Token: d.Token, Attempt: d.Attempt, Body: history.Sum(d.Body), Firing: firing(d.TaskID),
		})
		select { // never full: the window is as large, but for leases that were lost
		case got <- d:
		default:
		}
	})
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	defer func() { _ = sub.Close(context.WithoutCancel(ctx)) }()
	for {
		var d *client.Delivery
		select {
		case d = <-got:
		case <-sub.Done():
			return fmt.Errorf("subscription ended: %w", sub.Err())
		case <-ctx.Done():
			return nil
		}
		w.gate.pass(ctx)
		p := rng.IntN(100)
		if w.healthy.Load() {
			p = 99
		}
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), linkCall)
		switch {
		case p < 8:
			delay := workRetry
			_, _ = cl.Nack(call, d.Token, client.NackOptions{Error: "failed on purpose", Delay: &delay})
		case p < 16:
			_ = cl.Release(call, d.Token)
		case p < 20: // forgotten
		default:
			w.sdkAck(call, cl, n, d)
		}
		cancel()
	}
}

func (w *load) sdkAck(ctx context.Context, cl *client.Client, n int, d *client.Delivery) {
	output := []byte("result of " + d.Token)
	ev := history.Event{Worker: n, Op: history.Ack, Queue: w.queue, Token: d.Token, Result: history.Sum(output)}
	ev.Call = w.rec.Call(ev)
	a, err := cl.Ack(ctx, d.Token, client.AckOptions{Result: &client.Result{Output: output}})
	ev.Kind, ev.Class = history.Return, history.OK
	var e *client.Error
	switch {
	case err == nil:
		ev.Index, ev.Time, ev.Duplicate = a.Index, a.Time, a.Duplicate
	case client.Unknown(err) || !errors.As(err, &e):
		ev.Class = history.Unknown
	default:
		ev.Class, ev.Code = history.Refused, string(e.Code)
	}
	w.rec.Add(ev)
}
