package fsm

import (
	"fmt"
	"testing"
)

// What a session remembers of a lease that found nothing: the answer, but for one that waits.
func TestLeaseThatWaits(t *testing.T) {
	for _, waits := range []bool{false, true} {
		r := newRig(t)
		r.queue(QueueOptions{LeaseMillis: 60_000})
		req := Request{Session: r.ok(&OpenSession{}).ID, Number: 1}
		op := &Lease{Request: req, Queue: q0, Consumer: Consumer{Session: req.Session}, Max: 2, Waits: waits}
		must(t, "nothing", r.ok(op).LeaseCount, 0)
		must(t, "remembered", r.s.Remembered(req), !waits)
		r.put(text("x"))
		want := int32(0)
		if waits {
			want = 1
		}
		must(t, "the same request again", r.ok(op).LeaseCount, want)
		must(t, "remembered", r.s.Remembered(req), true)
		r.put(text("y"))
		must(t, "and again", r.ok(op).LeaseCount, want)
		must(t, "leased", r.stats().Leased, int64(want))
		// A refusal is an answer.
		req.Number = 2
		bad := &Lease{Request: req, Queue: []byte("none"), Max: 1, Waits: waits}
		r.refused(bad, NotFound, FieldQueue)
		must(t, "a refusal is remembered", r.s.Remembered(req), true)
		r.everywhere()
	}
}

// TestNumberOfALease: the number of a lease that is used for something else brings the outcome of the lease, without its messages, which are handed
// out to nobody by that; whoever applies the entry has none to look at. With a key it is kept as it is.
func TestNumberOfALease(t *testing.T) {
	r := newRig(t)
	for range 3 {
		r.put(text("x"))
	}
	ses := r.ok(&OpenSession{}).ID
	req := Request{Session: ses, Number: 1}
	lease := &Lease{Request: req, Queue: q0, Consumer: Consumer{Session: ses}, Max: 3, LeaseMillis: 60_000}
	must(t, "leased", r.ok(lease).LeaseCount, 3)
	for i, op := range []Op{
		&DeleteQueue{Request: req, Name: q0}, &DeadRequeue{Request: req, Queue: q0, IDs: []ID{{1, 1}}},
		&Enqueue{Request: req, Queue: q0, Messages: []Message{text("y")}}, &DeadPurge{Request: req, Queue: q0},
	} {
		name := fmt.Sprintf("%T", op)
		first := r.apply(op)
		must(t, name, fmt.Sprint(first), fmt.Sprint([]Outcome{{}}))
		o := under(fmt.Sprint("k", i), op)
		must(t, name+" with a key", fmt.Sprint(r.apply(o)), fmt.Sprint(first))
		r.again(name, first, o)
		must(t, name+": leases", len(r.fx.Leases), 0)
	}
	must(t, "messages out", r.s.Stats(1).Leased, int64(3))
	must(t, "the lease again", r.ok(lease).LeaseCount, 3)
	r.everywhere()
}
