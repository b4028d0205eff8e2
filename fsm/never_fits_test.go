package fsm

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// TestNeverFits brings a queue of 100 bytes, or of three messages, what it could not take though it were empty, in every way in
// which a message comes in: too_large with the option and its value, nothing stored and nothing dropped, whatever else is full.
// What would just fit in the empty queue is queue_full while it holds anything that stays.
func TestNeverFits(t *testing.T) {
	name, other := []byte("q"), []byte("other")
	body := func(n int) Message { return text(strings.Repeat("x", n)) }
	enqueue := func(ms ...Message) func(*rig) Op {
		return func(*rig) Op { return &Enqueue{Queue: name, Messages: ms} }
	}
	fields := body(90)
	fields.Kind, fields.Headers = []byte("kind"), []Header{{[]byte("n"), []byte("value")}}
	member := body(101)
	chain := func(q []byte, sizes ...int) func(*rig) Op {
		return func(r *rig) Op {
			op := &Ack{Token: r.token}
			for _, n := range sizes {
				op.Then = append(op.Then, ThenMessage{q, body(n)})
			}
			return op
		}
	}
	// leased puts a message of so many bytes in a queue and leases it.
	leased := func(q []byte, n int) func(*rig) {
		return func(r *rig) {
			if r.s.findQueue(q) == nil {
				r.ok(&CreateQueue{Name: q, Options: QueueOptions{}})
			}
			r.ok(&Enqueue{Queue: q, Messages: []Message{body(n)}})
			r.ok(&Lease{Queue: q, Consumer: someone, Worker: []byte("w"), Max: 1, LeaseMillis: 1000})
			r.token = r.fx.Leases[0].Token
		}
	}
	released := func(n int) func(*rig) {
		return func(r *rig) { leased(name, n)(r); r.ok(&Release{Token: r.token}) }
	}
	// died lets a message of 80 bytes die and then lowers the limit below it.
	died := func(r *rig) {
		leased(name, 80)(r)
		r.ok(&Nack{Token: r.token, Permanent: true})
		r.ok(&ChangeQueue{Name: name, Options: QueueOptions{MaxBytes: 50}, Only: only("max_bytes")})
		r.limit = 50
	}
	cases := []struct {
		name   string
		before func(*rig)
		op     func(*rig) Op
		field  Field
	}{ // with "together" it is a chain that is judged link by link: while the queue rejects even the first, it is full
		{"one message", nil, enqueue(body(101)), FieldBytes},
		{"its fields count", nil, enqueue(fields), FieldBytes},
		{"every message of a batch", nil, enqueue(body(101), body(500)), FieldBytes},
		{"a member of a batch", func(r *rig) {
			member.Batch = r.ok(&BatchCreate{Queue: other, AutoCreate: true, Callback: text("done")}).ID
		}, func(*rig) Op { return &Enqueue{Queue: name, Messages: []Message{member}} }, FieldBytes},
		{"a longer body", func(r *rig) {
			m := body(10)
			m.TaskID = []byte("t")
			r.put(m)
		}, func(*rig) Op {
			return &Reschedule{Queue: name, TaskID: []byte("t"), HasBody: true, Body: make([]byte, 99)}
		}, FieldBytes},
		{"a requeued letter", died, func(r *rig) Op { return &DeadRequeue{Queue: name, IDs: []ID{r.token.Message}} }, FieldBytes},
		{"an edited letter", died, func(r *rig) Op {
			return &DeadEdit{Queue: name, ID: r.token.Message, Fields: EditBody, Message: body(51)}
		}, FieldBytes},
		{"a letter that was moved", func(r *rig) {
			r.ok(&CreateQueue{Name: other})
			r.ok(&ChangeQueue{Name: name, Options: QueueOptions{DeadLetterQueue: "other"}, Only: only("dead_letter_queue")})
			died(r)
			r.token.Message = r.info(r.token.Message).ID
		}, func(r *rig) Op { return &DeadRequeue{Queue: other, IDs: []ID{r.token.Message}} }, FieldBytes},
		{"a link of a chain", leased(other, 1), chain(name, 101), FieldBytes},
		{"links of a chain, together", leased(other, 1), chain(name, 50, 51), FieldBytes},
		{"a link beside what is acked", leased(name, 60), chain(name, 41), FieldBytes},
		{"a link beside what is acked late", released(60), chain(name, 41), FieldBytes},
		{"more links than messages fit, together", leased(other, 1), chain(name, 1, 1, 1, 1), FieldDepth},
		{"more links beside what is acked, together", leased(name, 1), chain(name, 1, 1, 1), FieldDepth},
		{"more links beside what is acked late, together", released(1), chain(name, 1, 1, 1), FieldDepth},
	}
	for _, overflow := range []Overflow{OverflowReject, OverflowDropOldest} {
		for _, filled := range []bool{false, true} {
			for _, c := range cases {
				t.Run(fmt.Sprintf("%s/overflow %d, full %t", c.name, overflow, filled), func(t *testing.T) {
					r := limited(t, QueueOptions{MaxBytes: 100, MaxDepth: 3, Overflow: overflow})
					if r.limit = 100; c.field == FieldDepth {
						r.limit = 3
					}
					if c.before != nil {
						c.before(r)
					}
					n, _ := r.s.QueueNumber(name)
					if filled {
						for i := 0; r.s.Stats(n).Ready+r.s.Stats(n).Leased < 3; i++ {
							r.ok(&Enqueue{Queue: name, Messages: []Message{text("")}})
						}
					}
					op, was := c.op(r), r.s.Stats(n)
					code, field := TooLarge, c.field
					if filled && overflow == OverflowReject && strings.Contains(c.name, "together") {
						code, field, r.limit = QueueFull, FieldDepth, 3
					}
					for _, o := range r.apply(op) {
						if o.Code != code || o.Field != field || o.Limit != r.limit {
							t.Fatalf("code %d field %d limit %d, want code %d field %d limit %d", o.Code, o.Field, o.Limit, code, field, r.limit)
						}
					}
					is := r.s.Stats(n)
					is.Refused, is.RefusedBy = was.Refused, was.RefusedBy
					if !reflect.DeepEqual(is, was) {
						t.Fatalf("the queue has %+v, had %+v", is, was)
					}
					r.everywhere()
				})
			}
		}
	}
}

// TestJustFits is the other side of each limit: to the byte and to the message it is taken, and where what is out holds the room, it
// is queue_full.
func TestJustFits(t *testing.T) {
	name := []byte("q")
	for _, overflow := range []Overflow{OverflowReject, OverflowDropOldest} {
		t.Run(fmt.Sprint("overflow ", overflow), func(t *testing.T) {
			r := limited(t, QueueOptions{MaxBytes: 100, MaxDepth: 3, Overflow: overflow})
			r.put(text(strings.Repeat("x", 100)))
			tok := r.lease1()
			r.refused(&Enqueue{Queue: name, Messages: []Message{text(strings.Repeat("y", 100))}}, QueueFull, FieldBytes)
			r.refused(&Ack{Token: tok, Then: []ThenMessage{{name, text("y")}}}, TooLarge, FieldBytes)
			r.ok(&Ack{Token: tok, Then: []ThenMessage{{name, text("")}, {name, text("")}}})
			tok = r.lease1()
			r.ok(&Ack{Token: tok})
			tok = r.lease1()
			r.refused(&Ack{Token: tok, Then: []ThenMessage{{name, text("")}, {name, text("")}, {name, text("")}}}, TooLarge, FieldDepth)
			r.ok(&Ack{Token: tok, Then: []ThenMessage{{name, text(strings.Repeat("a", 60))}, {name, text(strings.Repeat("b", 40))}}})
			must(t, "bytes", r.stats().Bytes, 100)

			// A repeat of what is there is told so, however low the limit has become.
			m := text(strings.Repeat("c", 100))
			m.HasDedup, m.DedupKey, m.DedupContent = true, [16]byte{1}, [16]byte{2}
			r.ok(&PurgeQueue{Name: name})
			id := r.put(m)
			r.ok(&ChangeQueue{Name: name, Options: QueueOptions{MaxBytes: 10}, Only: only("max_bytes")})
			o := r.ok(&Enqueue{Queue: name, Messages: []Message{m}})
			must(t, "duplicate", fmt.Sprint(o.Duplicate, o.ID), fmt.Sprint(true, id))
			// A shorter body is taken too, if still too long.
			r.ok(&Reschedule{Queue: name, TaskID: []byte(id.String()), HasBody: true, Body: make([]byte, 99)})
			r.everywhere()
		})
	}
}

// TestScheduleNeverFits fires a message that its queue cannot take: the step is made, and the schedule says why nothing came.
func TestScheduleNeverFits(t *testing.T) {
	r := newRig(t)
	r.ok(&CreateQueue{Name: []byte("s"), Options: QueueOptions{MaxBytes: 5}})
	r.ok(&CreateSchedule{Schedule: daily("d")})
	r.ok(r.step(FireUnplanned, t0+1000, false))
	r.now = t0 + 1000
	r.ok(r.step(t0+1000, t0+2000, true))
	in := r.schedule("d")
	must(t, "refused", fmt.Sprint(in.Refused, in.Code, in.Field), fmt.Sprint(1, TooLarge, FieldBytes))
	must(t, "messages", r.ready(), 0)
}

// only is the set of one option.
func only(name string) OptionSet {
	set, ok := OptionNamed(name)
	if !ok {
		panic(name + " is no option")
	}
	return set
}
