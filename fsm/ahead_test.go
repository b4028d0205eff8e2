package fsm

import "testing"

// A look ahead is at live records alone, whatever an entry names: messages that are gone or never were, the same one twice, more
// than are looked at, and due ones that an earlier move of the entry takes away.
func TestLookAhead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	name := []byte("q")
	r.ok(&CreateQueue{Name: name})
	op := &Enqueue{Queue: name}
	for i := range 2 * aheadMost {
		m := Message{Body: []byte("body"), Priority: DefaultPriority, DelayMillis: int64(1 + i%7)}
		if i%3 == 0 {
			m.TTLMillis = 5 // some die as they come due
		}
		op.Messages = append(op.Messages, m)
		if len(op.Messages) == MaxBatch || i == 2*aheadMost-1 {
			for _, o := range r.apply(op) {
				if o.Code != OK {
					t.Fatalf("enqueue: %v", o.Code)
				}
			}
			op.Messages = op.Messages[:0]
		}
	}
	r.now += 10
	var acks []Op
	leased := r.apply(&Lease{Queue: name, Consumer: someone, Worker: []byte("w"), Max: MaxLeaseCount, LeaseMillis: MaxLeaseMillis})
	if n := int(leased[0].LeaseCount); n <= aheadMost {
		t.Fatalf("%d are leased, want more than are looked at", n)
	}
	for i := range r.fx.Leases {
		acks = append(acks, &Ack{Token: r.fx.Leases[i].Token})
	}
	acks = append(acks, acks[0], &Ack{Token: Token{Message: MakeID(7, 3, 1<<40, 1), Lease: MakeID(7, 3, 1<<40, 2)}})
	out := r.apply(acks...)
	for i := range out[:len(out)-1] {
		if out[i].Code != OK {
			t.Fatalf("ack %d: %v", i, out[i].Code)
		}
	}
	if c := out[len(out)-1].Code; c != NotFound {
		t.Errorf("an ack of nothing: %v, want %v", c, NotFound)
	}
	if n := len(r.s.ahead.acks); n != aheadMost {
		t.Errorf("%d acks are looked at, want %d", n, aheadMost)
	}
	again := r.apply(acks[:aheadLeast]...) // all of them are gone
	for i := range again {
		if again[i].Code != OK {
			t.Errorf("ack %d again: %v", i, again[i].Code)
		}
	}
}
