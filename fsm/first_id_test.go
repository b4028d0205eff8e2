package fsm

import "testing"

// TestTextOfAnothersID: a task id that is the text of another message's id names a task of its own, in its queue alone, also
// when both messages have been redriven, in either order.
func TestTextOfAnothersID(t *testing.T) {
	for _, c := range []struct {
		name       string
		othersLast bool
	}{{"the message with the id is redriven first", true}, {"the one with its text is redriven first", false}} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			die := func(queue string, m Message) ID {
				id := r.ok(&Enqueue{Queue: []byte(queue), AutoCreate: true, Messages: []Message{m}}).ID
				r.ok(&Lease{Queue: []byte(queue), Worker: []byte("w"), Max: 1, MaxBytes: 1})
				r.ok(&Nack{Token: r.fx.Leases[0].Token, Permanent: true, DelayMillis: -1})
				return id
			}
			own := die("own", text("own"))
			other := text("other")
			other.TaskID = []byte(own.String())
			others := die("other", other)
			redrive := func(queue string, id ID) ID {
				return r.ok(&DeadRequeue{Queue: []byte(queue), IDs: []ID{id}}).ID
			}
			var newOwn, newOther ID
			if c.othersLast {
				newOwn, newOther = redrive("own", own), redrive("other", others)
			} else {
				newOther = redrive("other", others)
				newOwn = redrive("own", own)
			}
			r.everywhere()
			named := func(queue string) ID {
				var in Info
				if !r.s.Task(queue, []byte(own.String()), &in) {
					t.Fatalf("task %s of %q is not found", own, queue)
				}
				return in.ID
			}
			must(t, "the id alone", named(""), newOwn)
			must(t, "in its queue", named("own"), newOwn)
			must(t, "in the other queue", named("other"), newOther)

			// Nor does it get the other's result.
			r.ok(&PushResult{Queue: []byte("own"), TaskID: []byte(own.String()), Result: Result{Output: []byte("of own")}})
			r.ok(&Lease{Queue: []byte("other"), Worker: []byte("w"), Max: 1, MaxBytes: 1})
			o := r.ok(&Ack{Token: r.fx.Leases[0].Token, HasResult: true, Result: Result{Output: []byte("of other")}})
			must(t, "duplicate", o.Duplicate, false)
			var res RecordedResult
			_, has := r.s.Result("other", []byte(own.String()), &res)
			must(t, "recorded", has, true)
			must(t, "output", string(res.Output), "of other")
			r.everywhere()

			// Gone is gone: the text of the id leads to nobody else.
			r.ok(&DeleteQueue{Name: []byte("own")})
			var in Info
			must(t, "found by the id of what was deleted", r.s.Task("", []byte(own.String()), &in), false)
		})
	}
}
