package fsm

import (
	"fmt"
	"strings"
	"testing"
)

func limited(t testing.TB, o QueueOptions) *rig {
	r := newRig(t)
	if o.Retry.Kind == RetryDefault {
		o.Retry = RetryPolicy{Kind: RetryFixed, InitialMillis: 100, MaxAttempts: 3}
	}
	r.ok(&CreateQueue{Name: []byte("q"), Options: o})
	return r
}

// TestMaxDepth fills a queue in every state a message can have, in a batch, through a chain and by requeue: never one more.
func TestMaxDepth(t *testing.T) {
	name := []byte("q")
	r := limited(t, QueueOptions{MaxDepth: 4})
	one := func() *Enqueue { return &Enqueue{Queue: name, Messages: []Message{text("x")}} }
	full := func() {
		t.Helper()
		must(t, "limit", r.refused(one(), QueueFull, FieldDepth).Limit, 4)
		must(t, "held", r.stats().Ready+r.stats().Scheduled+r.stats().Retrying+r.stats().Leased, 4)
	}
	var batch []Message
	for range 5 {
		batch = append(batch, text("x"))
	}
	batch[0].DelayMillis = 5000
	out := r.apply(&Enqueue{Queue: name, Messages: batch})
	for i, o := range out {
		must(t, fmt.Sprint("message ", i), o.Code == QueueFull, i == 4)
	}
	full()
	tok := r.lease1()
	full()
	r.ok(&Nack{Token: tok, DelayMillis: 5000})
	full()
	dead := r.lease1()
	r.ok(&Nack{Token: dead, Permanent: true})
	r.ok(one())
	must(t, "requeue", r.refused(&DeadRequeue{Queue: name, IDs: []ID{dead.Message}}, QueueFull, FieldDepth).Limit, 4)
	must(t, "the letter stays", r.stats().Dead, 1)
	tok = r.lease1()
	then := func(n int) *Ack {
		op := &Ack{Token: tok}
		for range n {
			op.Then = append(op.Then, ThenMessage{Queue: name, Message: text("x")})
		}
		return op
	}
	r.refused(then(1), QueueFull, FieldDepth) // what is acked counts until it is
	r.wantState(tok.Message, StateLeased)
	r.ok(then(0))
	tok = r.lease1()
	r.refused(then(2), QueueFull, FieldDepth)
	r.ok(then(1))
	r.ok(one())
	full()
	r.everywhere()
	// A lower limit takes nothing away; a higher one lets more in.
	r.ok(&SetQueue{Name: name, Options: QueueOptions{MaxDepth: 2}})
	must(t, "limit", r.refused(one(), QueueFull, FieldDepth).Limit, 2)
	r.ok(&SetQueue{Name: name, Options: QueueOptions{MaxDepth: 5}})
	r.ok(one())
	r.refused(one(), QueueFull, FieldDepth)
	r.ok(&PurgeQueue{Name: name})
	for range 5 {
		r.ok(one())
	}
	r.refused(one(), QueueFull, FieldDepth)
	r.everywhere()
}

func TestMaxBytes(t *testing.T) {
	name := []byte("q")
	r := limited(t, QueueOptions{MaxBytes: 100})
	m := text(strings.Repeat("x", 40))
	m.TaskID = []byte("t")
	r.put(m) // 40 and the task id with its length
	must(t, "bytes", r.stats().Bytes, 42)
	m = text(strings.Repeat("x", 58))
	out := r.apply(&Enqueue{Queue: name, Messages: []Message{text(strings.Repeat("x", 59)), m, text("y"), text("")}})
	must(t, "codes", fmt.Sprint(out[0].Code, out[1].Code, out[2].Code, out[3].Code), fmt.Sprint(QueueFull, OK, QueueFull, OK))
	must(t, "field", out[2].Field, FieldBytes)
	must(t, "bytes", r.stats().Bytes, 100)
	r.refused(&Reschedule{Queue: name, TaskID: []byte("t"), HasBody: true, Body: make([]byte, 41)}, QueueFull, FieldBytes)
	r.ok(&Reschedule{Queue: name, TaskID: []byte("t"), HasBody: true, Body: make([]byte, 39)})
	must(t, "bytes", r.stats().Bytes, 99)
	ts := r.lease(9)
	must(t, "out", len(ts), 3)
	must(t, "what is out counts", r.refused(&Enqueue{Queue: name, Messages: []Message{text("yy")}}, QueueFull, FieldBytes).Limit, 100)
	r.refused(&Ack{Token: ts[0], Then: []ThenMessage{{name, text("")}, {name, text("y")}, {name, text("y")}}}, QueueFull, FieldBytes)
	r.ok(&Ack{Token: ts[0], Then: []ThenMessage{{name, text("")}, {name, text("y")}}})
	r.ok(&Nack{Token: ts[1], Permanent: true})
	r.everywhere()
	r.put(text(strings.Repeat("z", int(100-r.stats().Bytes))))
	must(t, "full to the byte", r.stats().Bytes, 100)
	r.refused(&DeadRequeue{Queue: name, IDs: []ID{ts[1].Message}}, QueueFull, FieldBytes)
	r.everywhere()
}

// TestMaxInFlight holds to the limit whatever way a lease ends, and what waits for its retry does not count. (C30)
func TestMaxInFlight(t *testing.T) {
	r := limited(t, QueueOptions{MaxInFlight: 2})
	for range 9 {
		r.put(text("x"))
	}
	must(t, "leasable", r.leasable(), 2)
	ts := r.lease(9)
	must(t, "out", len(ts), 2)
	must(t, "leasable", r.leasable(), 0)
	must(t, "none more", len(r.lease(9)), 0)
	for _, end := range []func(){
		func() { r.ok(&Ack{Token: ts[0]}) },
		func() { r.ok(&Nack{Token: ts[0], DelayMillis: 3_600_000}) },
		func() { r.ok(&Nack{Token: ts[0], Permanent: true}) },
		func() { r.ok(&Release{Token: ts[0]}) },
		func() { r.tick(1000) },
	} {
		end()
		must(t, "told", len(r.fx.Ready), 1)
		more := r.lease(9)
		must(t, "out", r.stats().Leased, 2)
		if len(more) == 1 {
			ts = append(ts[1:], more...)
		} else { // the first of the two had expired with it
			ts = more
		}
		r.everywhere()
	}
	r.ok(&SetQueue{Name: []byte("q"), Options: QueueOptions{MaxInFlight: 1}})
	must(t, "none below", r.leasable(), 0)
	r.ok(&SetQueue{Name: []byte("q"), Options: QueueOptions{MaxInFlight: 3}})
	must(t, "told", len(r.fx.Ready), 1)
	must(t, "one more", len(r.lease(9)), 1)
	r.everywhere()
}

func TestPause(t *testing.T) {
	name := []byte("q")
	r := limited(t, QueueOptions{})
	r.put(text("a"))
	r.put(text("b"))
	tok := r.lease1()
	r.ok(&SetQueue{Name: name, Options: QueueOptions{Paused: true}})
	must(t, "leasable", r.leasable(), 0)
	must(t, "nothing is leased", len(r.lease(9)), 0)
	r.put(text("c"))
	r.ok(&Extend{Token: tok})
	r.ok(&Nack{Token: tok, DelayMillis: 0})
	r.tick(0)
	must(t, "pending", r.stats().Ready, 3)
	r.everywhere()
	r.ok(&SetQueue{Name: name})
	must(t, "told", len(r.fx.Ready), 1)
	must(t, "all", len(r.lease(9)), 3)
}

// TestMaxAge fixes the ttl into a message when it is enqueued; its own goes first.
func TestMaxAge(t *testing.T) {
	name := []byte("q")
	r := limited(t, QueueOptions{MaxAgeMillis: 1000})
	a := r.put(text("a"))
	m := text("b")
	m.TTLMillis = 3000
	b := r.put(m)
	r.ok(&SetQueue{Name: name, Options: QueueOptions{MaxAgeMillis: 5000}})
	c := r.put(text("c"))
	r.ok(&SetQueue{Name: name})
	d := r.put(text("d"))
	r.everywhere()
	for _, step := range []struct {
		wait int64
		dead ID
	}{{999, ID{}}, {1, a}, {2000, b}, {1999, ID{}}, {1, c}} {
		before := r.stats().Dead
		r.tick(step.wait)
		if step.dead.IsZero() {
			must(t, "died", r.stats().Dead, before)
			continue
		}
		in := r.info(step.dead)
		must(t, "state", in.State, StateDead)
		must(t, "reason", in.Reason, ReasonExpired)
	}
	r.tick(MaxDelayMillis / 12)
	r.wantState(d, StateReady)
}

func TestLimitOptions(t *testing.T) {
	for _, c := range []struct {
		o QueueOptions
		f Field
	}{
		{QueueOptions{MaxDepth: -1}, FieldDepth}, {QueueOptions{MaxDepth: MaxQueueMessages + 1}, FieldDepth},
		{QueueOptions{MaxBytes: -1}, FieldBytes}, {QueueOptions{MaxBytes: LimitMaxBytes + 1}, FieldBytes},
		{QueueOptions{MaxInFlight: -1}, FieldInFlight}, {QueueOptions{MaxInFlight: LimitMaxInFlight + 1}, FieldInFlight},
		{QueueOptions{MaxAgeMillis: -1}, FieldAge}, {QueueOptions{MaxAgeMillis: MaxDelayMillis + 1}, FieldAge},
	} {
		r := newRig(t)
		r.refused(&CreateQueue{Name: []byte("q"), Options: c.o}, InvalidArgument, c.f)
	}
	r := limited(t, QueueOptions{MaxDepth: MaxQueueMessages, MaxBytes: LimitMaxBytes, MaxInFlight: LimitMaxInFlight, MaxAgeMillis: MaxDelayMillis})
	r.put(text("x"))
	r.everywhere()
}
