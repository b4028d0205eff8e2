package fsm

import (
	"fmt"
	"strings"
	"testing"
)

// once is a rig whose queue q delivers at most once.
func once(t testing.TB, o QueueOptions) *rig {
	o.Delivery = DeliverAtMostOnce
	return limited(t, o)
}

// TestAtMostOnce hands a message over: it is done then, its token is good for an ack that changes nothing and for nothing else.
func TestAtMostOnce(t *testing.T) {
	name := []byte("q")
	r := once(t, QueueOptions{})
	m := text("body")
	m.TaskID, m.Kind, m.Key, m.Headers = []byte("task"), []byte("kind"), []byte("key"), []Header{{[]byte("h"), []byte("v")}}
	id := r.put(m)
	tok := r.lease1()
	must(t, "the message", tok.Message, id)
	var d Delivery
	l := r.fx.Leases[0]
	must(t, "once", l.Once, true)
	must(t, "delivered", r.s.Deliver(l, &d), true)
	must(t, "delivery", fmt.Sprintf("%s %s %s %s %s %s %d %t %d %d", d.Queue, d.TaskID, d.Kind, d.Key, d.Body, d.Headers[0].Value, d.Attempt, d.Once, d.LeaseLeft, d.Deadline),
		"q task kind key body v 1 true 0 0")
	must(t, "task ends", len(r.fx.Tasks), 1)
	s := r.stats()
	must(t, "counts", fmt.Sprint(s.Ready, s.Leased, s.Acked, s.Bytes, s.Tombstones, s.Results), "0 0 1 0 1 0")
	r.wantState(id, StateDone)
	must(t, "no lease", r.s.Lease(tok, &d), false)
	var in Info
	must(t, "found by its task id", r.s.Task("q", []byte("task"), &in), true)
	must(t, "token", in.Token, tok)

	for range 2 {
		must(t, "ack", r.ok(&Ack{Token: tok}).Duplicate, false)
	}
	r.refused(&Ack{Token: tok, HasResult: true}, AlreadyExists, FieldResult)
	r.refused(&Ack{Token: tok, Then: []ThenMessage{{name, text("next")}}}, FailedPrecondition, FieldThen)
	r.refused(&Nack{Token: tok, DelayMillis: -1}, LeaseLost, FieldToken)
	r.refused(&Extend{Token: tok}, LeaseLost, FieldToken)
	r.refused(&Release{Token: tok}, LeaseLost, FieldToken)
	r.refused(&Ack{Token: Token{id, ID{tok.Lease.Hi, tok.Lease.Lo + 1}}}, LeaseLost, FieldToken)
	r.refused(&Cancel{Queue: name, TaskID: []byte("task")}, FailedPrecondition, FieldTaskID)
	r.refused(&Enqueue{Queue: name, Messages: []Message{m}}, AlreadyExists, FieldTaskID)
	must(t, "delivered a second time", len(r.lease(9)), 0)
	must(t, "a result pushed later is a duplicate", r.ok(&PushResult{Queue: name, TaskID: []byte("task")}).Duplicate, true)
	r.tick(TombstoneMillis)
	r.refused(&Ack{Token: tok}, NotFound, FieldToken)
	r.everywhere()
}

// TestAtMostOnceRepeated answers a repeated request with nothing: the messages are with whoever was answered first, or lost.
func TestAtMostOnceRepeated(t *testing.T) {
	r := once(t, QueueOptions{})
	ses := r.ok(&OpenSession{}).ID
	for range 3 {
		r.put(text("x"))
	}
	op := &Lease{Request: Request{Session: ses, Number: 1}, Queue: []byte("q"), Consumer: Consumer{Session: ses}, Max: 2}
	must(t, "leased", r.ok(op).LeaseCount, 2)
	must(t, "again", r.ok(op).LeaseCount, 0)
	must(t, "effects", len(r.fx.Leases), 0)
	must(t, "left", r.stats().Ready, 1)
	r.everywhere()
}

// TestAtMostOnceLimits lets max_in_flight alone, since nothing is out, and counts the rate.
func TestAtMostOnceLimits(t *testing.T) {
	r := once(t, QueueOptions{MaxInFlight: 1, RateMilli: 1000, Burst: 3})
	for range 9 {
		r.put(text("x"))
	}
	must(t, "leasable", r.leasable(), 3)
	must(t, "the burst", len(r.lease(9)), 3)
	must(t, "none", len(r.lease(9)), 0)
	r.tick(2000)
	must(t, "two seconds", len(r.lease(9)), 2)
	r.ok(&SetQueue{Name: []byte("q"), Options: QueueOptions{Delivery: DeliverAtMostOnce, Paused: true}})
	must(t, "paused", len(r.lease(9)), 0)
	r.everywhere()
}

// TestAtMostOnceOrder hands ordered messages over by place, as many as are asked for: the one before is done, not out.
func TestAtMostOnceOrder(t *testing.T) {
	for _, ordering := range []Ordering{OrderFIFO, OrderPerKey} {
		r := once(t, QueueOptions{Ordering: ordering})
		for _, b := range []string{"a1", "a2", "b1", "a3", "b2"} {
			r.put(withKey(b, b[:1]))
		}
		var got []string
		for _, n := range []int32{3, 9} {
			r.lease(n)
			for _, l := range r.fx.Leases {
				var d Delivery
				must(t, "delivered", r.s.Deliver(l, &d), true)
				got = append(got, string(d.Body))
			}
		}
		must(t, "order", strings.Join(got, " "), "a1 a2 b1 a3 b2")
		r.everywhere()
	}
}

// TestAtMostOnceSwitched changes the mode only while nothing is live.
func TestAtMostOnceSwitched(t *testing.T) {
	name := []byte("q")
	r := once(t, QueueOptions{})
	r.put(text("x"))
	set := func(m DeliveryMode) *SetQueue { return &SetQueue{Name: name, Options: QueueOptions{Delivery: m}} }
	r.refused(set(DeliverAtLeastOnce), FailedPrecondition, FieldDelivery)
	r.ok(set(DeliverAtMostOnce))
	r.lease1()
	r.ok(set(DeliverAtLeastOnce))
	r.put(text("y"))
	tok := r.lease1()
	r.refused(set(DeliverAtMostOnce), FailedPrecondition, FieldDelivery)
	r.ok(&Ack{Token: tok})
	r.ok(set(DeliverAtMostOnce))
	r.refused(&CreateQueue{Name: []byte("r"), Options: QueueOptions{Delivery: deliverEnd}}, InvalidArgument, FieldDelivery)
	r.refused(&CreateQueue{Name: []byte("r"), Options: QueueOptions{Overflow: overflowEnd}}, InvalidArgument, FieldOverflow)
	r.everywhere()
}

// TestAtMostOnceEnds tells batches, hooks and dead-letter queues of the end, by what they are.
func TestAtMostOnceEnds(t *testing.T) {
	name := []byte("q")
	t.Run("a member is done", func(t *testing.T) {
		r := once(t, QueueOptions{})
		b := r.ok(&BatchCreate{Queue: []byte("after"), AutoCreate: true, Callback: text("callback")}).ID
		m := text("member")
		m.Batch, m.Keys = b, [][]byte{AppendKVKey(nil, "k")}
		r.put(m)
		r.ok(&BatchSeal{Batch: b})
		r.lease1()
		var in BatchInfo
		must(t, "there", r.s.Batch(b, &in), true)
		must(t, "counts", fmt.Sprint(in.Open, in.Succeeded, in.Callback.IsZero()), "0 1 false")
		var e KVEntry
		must(t, "no key was written", r.s.KVGet(AppendKVKey(nil, "k"), &e), false)
		r.everywhere()
	})
	t.Run("a dead letter that was moved here is closed", func(t *testing.T) {
		r := newRig(t)
		r.ok(&CreateQueue{Name: name, Options: QueueOptions{Delivery: DeliverAtMostOnce}})
		r.ok(&CreateQueue{Name: []byte("origin"), Options: QueueOptions{DeadLetterQueue: "q"}})
		m := text("x")
		m.TaskID = []byte("task")
		r.ok(&Enqueue{Queue: []byte("origin"), Messages: []Message{m}})
		r.ok(&Lease{Queue: []byte("origin"), Consumer: someone, Max: 1})
		first := r.fx.Leases[0].Token
		r.ok(&Nack{Token: first, Permanent: true})
		tok := r.lease1()
		r.ok(&Ack{Token: tok, HasResult: true}) // no result of a closed letter counts
		var in Info
		must(t, "its task is over", r.s.Task("origin", []byte("task"), &in), false)
		must(t, "none are here", r.stats().Moved, 0)
		r.everywhere()
	})
	t.Run("a result was pushed for what was dead", func(t *testing.T) {
		r := once(t, QueueOptions{MaxDepth: 1, Overflow: OverflowDropOldest})
		m := text("x")
		m.TaskID = []byte("task")
		dead := r.put(m)
		r.put(text("y"))
		r.wantDropped("x")
		r.ok(&PushResult{Queue: name, TaskID: []byte("task"), Result: Result{Output: []byte("pushed")}})
		r.lease1()
		r.ok(&DeadRequeue{Queue: name, IDs: []ID{dead}})
		tok := r.lease1()
		r.ok(&Ack{Token: tok})
		var res RecordedResult
		_, has := r.s.Result("q", []byte("task"), &res)
		must(t, "result", fmt.Sprintf("%t %s", has, res.Output), "true pushed")
		r.everywhere()
	})
	t.Run("ttl", func(t *testing.T) {
		r := once(t, QueueOptions{MaxAgeMillis: 100})
		id := r.put(text("x"))
		r.tick(100)
		must(t, "leased", len(r.lease(1)), 0)
		r.wantState(id, StateDead)
		r.everywhere()
	})
}

// TestAtMostOnceInOneEntry reads what was handed over after an entry that went on to purge or delete the queue, and takes
// pictures while it is parked: it is in none, and gone with the next entry.
func TestAtMostOnceInOneEntry(t *testing.T) {
	name := []byte("q")
	lease := &Lease{Queue: name, Consumer: someone, Max: 9}
	for _, c := range []struct {
		what   string
		then   Op
		there  bool
		purges int  // before, each of which counts the queue's generation up
		slow   bool // what is gone is given back later, and the queue with it
	}{
		{"nothing", &Checkpoint{}, true, 0, false},
		{"purge", &PurgeQueue{Name: name}, true, 0, false},
		{"purge of more than one entry gives back", &PurgeQueue{Name: name}, true, 0, true},
		{"delete", &DeleteQueue{Name: name}, false, 0, false},
		{"delete, purged before", &DeleteQueue{Name: name}, false, 1, false},
		{"delete, purged twice before", &DeleteQueue{Name: name}, false, 2, false},
		{"delete of more than one entry gives back", &DeleteQueue{Name: name}, false, 0, true},
	} {
		r := once(t, QueueOptions{})
		for range c.purges {
			r.put(text("purged"))
			r.ok(&PurgeQueue{Name: name})
		}
		for i := range 3 {
			m := text(fmt.Sprint("body ", i))
			m.TTLMillis = 1000 // each has a side
			r.put(m)
		}
		garbage := r.s.lim.garbage
		if c.slow {
			r.s.lim.garbage = 0
		}
		r.apply(lease, c.then)
		must(t, c.what+": leases", len(r.fx.Leases), 3)
		for i, l := range r.fx.Leases {
			var d Delivery
			if ok := r.s.Deliver(l, &d); ok != c.there || ok && string(d.Body) != fmt.Sprint("body ", i) {
				t.Errorf("%s: delivery %d: %t %q", c.what, i, ok, d.Body)
			}
		}
		must(t, "parked", len(r.s.parked), 3)
		must(t, c.what+": check", r.s.Check(), nil)
		b := restored(t, snapshot(t, r.s))
		must(t, "restored", b.messages.Len(), 0)
		b.Close()
		r.s.lim.garbage = garbage
		r.apply()
		must(t, "parked", len(r.s.parked), 0)
		must(t, "messages", r.s.messages.Len(), 0)
		must(t, "sides", r.s.sides.Len(), 0)
		r.everywhere()
	}
}

// TestAtMostOnceFrame counts a message's fields against an operation's bytes: what is handed over must fit into one frame.
func TestAtMostOnceFrame(t *testing.T) {
	r := once(t, QueueOptions{})
	m := text("x")
	m.Headers = []Header{{[]byte("h"), []byte(strings.Repeat("v", 1000))}}
	for range 4 {
		r.put(m)
	}
	r.ok(&Lease{Queue: []byte("q"), Consumer: someone, Max: 9, MaxBytes: 2500})
	must(t, "leased", len(r.fx.Leases), 2)
	r.ok(&Lease{Queue: []byte("q"), Consumer: someone, Max: 9, MaxBytes: 1})
	must(t, "one at least", len(r.fx.Leases), 1)
	r.everywhere()
}
