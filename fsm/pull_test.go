package fsm

import "testing"

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
