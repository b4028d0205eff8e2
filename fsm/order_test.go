package fsm

import (
	"fmt"
	"testing"
)

func bodies(r *rig) (out string) {
	for _, l := range r.fx.Leases {
		var d Delivery
		if !r.s.Deliver(l, &d) {
			r.t.Fatalf("no delivery of %v", l)
		}
		out += string(d.Body)
	}
	return out
}

func TestServingOrder(t *testing.T) {
	r := newRig(t)
	for i, p := range []uint8{4, 9, 4, 0, 9, 5} {
		r.put(Message{Body: []byte{'a' + byte(i)}, Priority: p})
	}
	ts := r.lease(4)
	must(t, "priority, then place", bodies(r), "befa")
	// Released ones return to their old places, in whatever order they come back.
	r.apply(&Release{Token: ts[3]}, &Release{Token: ts[1]}, &Release{Token: ts[0]})
	r.put(Message{Body: []byte("g"), Priority: 9})
	r.everywhere()
	r.lease(9)
	must(t, "old places", bodies(r), "begacd")
}

func TestRetriesAndDelaysTakeANewPlace(t *testing.T) {
	r := newRig(t)
	r.put(text("a"))
	r.put(Message{Body: []byte("b"), Priority: 4, DelayMillis: 100})
	r.ok(&Nack{Token: r.lease1(), DelayMillis: 50})
	r.put(text("c"))
	r.tick(50)
	r.put(text("d"))
	r.tick(50)
	r.put(text("e"))
	r.lease(9)
	must(t, "order", bodies(r), "cadbe")
}

// TestDueOrder puts one of each kind of move on the same millisecond, in two queues, and cuts the moves one an entry: the
// order is (due, kind of move, message id) over all queues, and lease deadlines count with the shift.
func TestDueOrder(t *testing.T) {
	r := newRig(t)
	put := func(queue string, m Message) ID {
		return r.ok(&Enqueue{Queue: []byte(queue), AutoCreate: true, Messages: []Message{m}}).ID
	}
	lease := func(queue string) Token {
		r.ok(&Lease{Queue: []byte(queue), Max: 1, LeaseMillis: 1000})
		return r.fx.Leases[0].Token
	}
	at := int64(t0 + 1000)
	var want []ID
	ttl1 := put("q", Message{Priority: 0, TTLMillis: 1000})
	ttl2 := put("p", Message{Priority: 0, TTLMillis: 1000})
	r1, r2 := put("p", text("r1")), put("q", text("r2"))
	l1, l2 := put("q", text("l1")), put("p", text("l2"))
	d1, d2 := put("p", Message{Priority: 1, DueAt: at}), put("q", Message{Priority: 1, DueAt: at})
	early := put("q", Message{Priority: 1, DueAt: at - 1})
	r.ok(&Nack{Token: lease("p"), DelayMillis: 1000})
	r.ok(&Nack{Token: lease("q"), DelayMillis: 1000})
	must(t, "l1", lease("q").Message, l1)
	must(t, "l2", lease("p").Message, l2)
	want = append(want, early, d1, d2, r1, r2, l1, l2, ttl1, ttl2)

	r.s.lim.dueMoves = 1
	r.everywhere()
	state := map[ID]MessageState{}
	for _, id := range want {
		state[id] = r.info(id).State
	}
	r.now = at
	for i, id := range want {
		r.apply()
		for _, other := range want {
			now := r.info(other).State
			if (now != state[other]) != (other == id) {
				t.Fatalf("move %d: message %s went from %d to %d, want only %s to move", i, other, state[other], now, id)
			}
			state[other] = now
		}
		must(t, fmt.Sprint("more after ", i), r.fx.More, i < len(want)-1)
	}
	_, ok := r.s.NextDue()
	must(t, "next due", ok, true) // the retries of the expired leases
}

func TestDueMovesAreBounded(t *testing.T) {
	r := newRig(t)
	r.quiet = true
	n := 2*MaxDueMoves + 7
	for left := n; left > 0; {
		op := &Enqueue{Queue: []byte("q"), AutoCreate: true}
		for range min(left, MaxBatch) {
			op.Messages = append(op.Messages, Message{DelayMillis: 500})
		}
		left -= len(op.Messages)
		r.apply(op)
	}
	q, _ := r.s.QueueNumber([]byte("q"))
	r.tick(499)
	must(t, "ready", r.s.Ready(q), 0)
	r.tick(1)
	must(t, "ready", r.s.Ready(q), MaxDueMoves)
	must(t, "more", r.fx.More, true)
	r.tick(0)
	must(t, "ready", r.s.Ready(q), 2*MaxDueMoves)
	r.tick(0)
	must(t, "ready", r.s.Ready(q), n)
	must(t, "more", r.fx.More, false)
	if err := r.s.Check(); err != nil {
		t.Fatal(err)
	}
}

// TestReclaimIsBounded ends more records than an entry reclaims, over several tables: the order is by table.
func TestReclaimIsBounded(t *testing.T) {
	r := newRig(t)
	r.s.lim.reclaim = 2
	r.ok(&CreateQueue{Name: []byte("q"), Options: QueueOptions{
		DedupWindowMillis: 1000, ResultTTLMillis: 1001, DeadRetentionMillis: 1001,
	}})
	for i := range 3 {
		m := text("x")
		m.HasDedup, m.DedupKey = true, HashDedup([]byte{byte(i)})
		r.put(m)
	}
	for _, tok := range r.lease(1) {
		r.ok(&Nack{Token: tok, Permanent: true})
	}
	for _, tok := range r.lease(2) {
		r.ok(&Ack{Token: tok, HasResult: true})
	}
	n, _ := r.s.QueueNumber([]byte("q"))
	count := func() string {
		st := r.s.Stats(n)
		return fmt.Sprint(st.DedupKeys, st.Results, st.Dead)
	}
	must(t, "before", count(), "3 2 1")
	r.tick(1001)
	must(t, "dedup keys first", count(), "1 2 1")
	r.everywhere()
	r.tick(0)
	must(t, "then results", count(), "0 1 1")
	r.tick(0)
	must(t, "then dead letters", count(), "0 0 0")
	r.everywhere()
}
