package fsm

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// under is an operation with a key, of a request that has no other.
func under(key string, op Op) *Idempotent {
	return &Idempotent{IdempotencyKey: IdempotencyKey{Key: HashIdempotencyKey([]byte(key)), Print: HashContent(nil, []byte(key))}, Op: op}
}

// part is another operation of the same request.
func part(key string, n uint32, op Op) *Idempotent {
	o := under(key, op)
	o.Part = n
	return o
}

// again wants the same outcomes a second time, as repeats, and no other change of the state than an empty entry makes.
func (r *rig) again(name string, first []Outcome, op Op) {
	r.t.Helper()
	out := r.apply(op)
	if len(out) != len(first) {
		r.t.Fatalf("%s: %d outcomes the second time, %d the first", name, len(out), len(first))
	}
	for i := range out {
		want := first[i]
		want.Replayed = true
		must(r.t, fmt.Sprintf("%s: outcome %d again", name, i), out[i], want)
	}
}

// TestIdempotent has every operation that HTTP proposes, done twice under its key: the second answer is the first, and nothing is done.
func TestIdempotent(t *testing.T) {
	r := newRig(t)
	n := 0
	twice := func(name string, op Op) []Outcome {
		t.Helper()
		n++
		o := under(fmt.Sprint(name, n), op)
		first := r.apply(o)
		for i := range first {
			must(t, name+" the first time", first[i].Replayed, false)
		}
		before := r.s.Stats(1)
		r.tick(7) // what is answered in time from now would be another answer
		r.again(name, first, o)
		after := r.s.Stats(1)
		must(t, name+": enqueued", after.Enqueued, before.Enqueued)
		must(t, name+": acked, nacked", [2]int64{after.Acked, after.Nacked}, [2]int64{before.Acked, before.Nacked})
		must(t, name+": redriven, cancelled", [2]int64{after.Redriven, after.Cancelled}, [2]int64{before.Redriven, before.Cancelled})
		return first
	}
	ok := func(name string, op Op) Outcome {
		t.Helper()
		out := twice(name, op)
		must(t, name, out[0].Code, OK)
		return out[0]
	}
	ok("create", &CreateQueue{Name: q0, Options: QueueOptions{LeaseMillis: 60_000}})
	r.put(keyed("v", "k"))
	r.kill()
	ok("delete a key", &KVDelete{Key: kvk("k")})
	ok("set", &SetQueue{Name: q0, Options: QueueOptions{LeaseMillis: 50_000}})
	ok("change", &ChangeQueue{Name: q0, Only: 1 << 25})
	ok("enqueue", one(text("a")))
	twice("batch", &Enqueue{Queue: q0, Messages: []Message{text("b"), {Priority: 200}, {Priority: 200}, text("c"), named(1), named(1), text("d")}})
	must(t, "messages", r.mem().Messages, 5)
	twice("a queue that is not there", &PurgeQueue{Name: []byte("none")})
	tok := r.lease1()
	ok("extend", &Extend{Token: tok, LeaseMillis: 40_000})
	must(t, "nack", ok("nack", &Nack{Token: tok, DelayMillis: 5000}).Millis > 0, true)
	ok("release", &Release{Token: r.lease1()})
	tok = r.lease1()
	ok("ack", &Ack{Token: tok, HasResult: true, Result: Result{Output: []byte("x")}, Then: []ThenMessage{{Queue: []byte("next"), Message: text("then")}}, ThenAutoCreate: true})
	r.tick(TombstoneMillis)
	dead := r.lease1()
	must(t, "dead", ok("nack for good", &Nack{Token: dead, Permanent: true}).Dead, true)
	ok("requeue", &DeadRequeue{Queue: q0, IDs: []ID{dead.Message}})
	dead = r.lease1()
	r.ok(&Nack{Token: dead, Permanent: true})
	ok("edit", &DeadEdit{Queue: q0, ID: dead.Message, Fields: EditBody, Message: text("edited")})
	ok("push a result", &PushResult{Queue: q0, TaskID: []byte("pushed"), Result: Result{Output: []byte("o")}})
	must(t, "a result that was there", ok("push another", &PushResult{Queue: q0, TaskID: []byte("pushed"), Result: Result{Output: []byte("o")}}).Duplicate, true)
	ok("cancel", &Cancel{Queue: q0, TaskID: []byte("task-1")})
	m := named(5)
	m.DelayMillis = 1000
	r.put(m)
	ok("reschedule", &Reschedule{Queue: q0, TaskID: []byte("task-5"), When: AfterDelay, Time: 70})
	ok("batch", &BatchCreate{Queue: []byte("cb"), AutoCreate: true, Callback: text("done")})
	b := r.newBatch()
	ok("seal", &BatchSeal{Batch: b})
	ok("create a schedule", &CreateSchedule{Schedule: daily("s")})
	ok("delete a schedule", &DeleteSchedule{Name: []byte("s")})
	twice("delete dead letters", &DeadDelete{Queue: q0, IDs: []ID{{1, 1}, {1, 2}, {1, 3}}})
	ok("purge dead letters", &DeadPurge{Queue: q0})
	ok("purge", &PurgeQueue{Name: q0})
	ok("nothing", &Nothing{})
	must(t, "keys", r.mem().IdempotencyKeys, int64(n))
	r.everywhere()
	r.tick(IdempotencyMillis)
	must(t, "keys", r.mem().IdempotencyKeys, 0)
	must(t, "bytes", r.mem().IdempotencyBytes, 0)
}

// TestIdempotentNothing: a request that found nothing is answered so as long as its key is kept, whatever it would find by then, and the other way
// round; nothing changes by it, with or without a key.
func TestIdempotentNothing(t *testing.T) {
	r := newRig(t)
	r.put(text("a"))
	r.kill()
	data := snapshot(t, r.s)
	with, without := restoredOnly(t, data), restoredOnly(t, data)
	defer func() { with.Close(); without.Close() }()
	var fx Effects
	for s, entry := range map[*State][]byte{with: AppendOp(AppendEntryHeader(nil, r.s.Time()+1, 0), &Nothing{}), without: AppendEntryHeader(nil, r.s.Time()+1, 0)} {
		if err := s.Apply(r.s.Index()+1, entry, &fx); err != nil {
			t.Fatal(err)
		}
	}
	must(t, "the state", quietDigest(with) == quietDigest(without), true)
	must(t, "without a key", fmt.Sprint(r.apply(&Nothing{})), fmt.Sprint([]Outcome{{}}))

	nothing := under("k", &Nothing{})
	nothing.Note = []byte{0}
	first := r.apply(nothing)
	must(t, "the first time", fmt.Sprint(first), fmt.Sprint([]Outcome{{}}))
	purge := under("k", &DeadPurge{Queue: q0})
	r.again("what finds something by then", first, purge)
	must(t, "dead letters", r.s.Stats(1).Dead, int64(1))
	note, kept := r.s.Kept(&nothing.IdempotencyKey)
	must(t, "the note", fmt.Sprint(note, kept), fmt.Sprint([]byte{0}, true))
	r.everywhere()

	purge = under("other", &DeadPurge{Queue: q0})
	first = r.apply(purge)
	must(t, "purged", first[0].Count, int64(1))
	r.again("what finds nothing by then", first, under("other", &Nothing{}))

	r.tick(IdempotencyMillis)
	must(t, "behind its end", r.apply(nothing)[0].Replayed, false)
}

// TestIdempotentAck: how long the message was out is told by the first answer alone, and is not kept.
func TestIdempotentAck(t *testing.T) {
	for name, mapping := range map[string]uint64{"plain": 0, "of a mapping": 1} {
		r := newRig(t)
		r.put(text("a"))
		if mapping != 0 {
			r.ok(&SetQueue{Name: q0, Options: QueueOptions{LeaseMillis: 60_000, Map: "m"}})
			mapping = r.s.Index()
		}
		tok := r.lease1()
		r.tick(1000)
		o := under("k", &Ack{Token: tok, Mapping: mapping})
		must(t, name+", the first time", fmt.Sprint(r.apply(o)), fmt.Sprint([]Outcome{{Millis: 1000}}))
		must(t, name+", again", fmt.Sprint(r.apply(o)), fmt.Sprint([]Outcome{{Replayed: true}}))
		r.everywhere()
	}
}

// TestIdempotentLease: the repeat of a lease has those of its messages that are still out, whoever asks.
func TestIdempotentLease(t *testing.T) {
	r := newRig(t)
	for range 5 {
		r.put(text("x"))
	}
	op := under("l", &Lease{Queue: q0, Consumer: someone, Worker: []byte("w"), Max: 3, LeaseMillis: 60_000})
	must(t, "leased", r.ok(op).LeaseCount, 3)
	first := append([]Leased(nil), r.fx.Leases...)
	r.ok(&Ack{Token: first[1].Token})
	again := *op
	again.Op = &Lease{Queue: q0, Consumer: Consumer{Session: ID{9, 9}}, Max: 3} // through another node
	o := r.ok(&again)
	must(t, "again", o.LeaseCount, 2)
	must(t, "a repeat", o.Replayed, true)
	for i, at := range []int{0, 2} {
		l := r.fx.Leases[i]
		must(t, "token", l.Token, first[at].Token)
		must(t, "consumer", l.Consumer, someone)
	}
	must(t, "leased in all", r.stats().Leased, 2)
	r.ok(&Ack{Token: first[0].Token})
	r.ok(&Release{Token: first[2].Token})
	o = r.ok(&again)
	must(t, "none is out", o.LeaseCount, 0)
	must(t, "a repeat", o.Replayed, true)

	// One that waits and finds nothing has no answer yet.
	pull := under("p", &Lease{Queue: []byte("later"), Consumer: someone, Max: 1, Waits: true})
	r.ok(&CreateQueue{Name: []byte("later")})
	must(t, "nothing", r.ok(pull).LeaseCount, 0)
	must(t, "keys", r.mem().IdempotencyKeys, 1)
	r.ok(&Enqueue{Queue: []byte("later"), Messages: []Message{text("y")}})
	o = r.ok(pull)
	must(t, "found", o.LeaseCount, 1)
	must(t, "the first time", o.Replayed, false)
	must(t, "again", r.ok(pull).Replayed, true)

	// One that does not wait has.
	must(t, "empty", r.ok(under("e", &Lease{Queue: []byte("later"), Consumer: someone, Max: 1})).LeaseCount, 0)
	r.ok(&Enqueue{Queue: []byte("later"), Messages: []Message{text("z")}})
	must(t, "empty again", r.ok(under("e", &Lease{Queue: []byte("later"), Consumer: someone, Max: 1})).LeaseCount, 0)

	// What is delivered at most once was, or was not: it is not there again.
	r.ok(&CreateQueue{Name: []byte("once"), Options: QueueOptions{Delivery: DeliverAtMostOnce}})
	r.ok(&Enqueue{Queue: []byte("once"), Messages: []Message{text("1")}})
	op = under("o", &Lease{Queue: []byte("once"), Consumer: someone, Max: 1})
	must(t, "delivered", r.ok(op).LeaseCount, 1)
	must(t, "delivered again", r.ok(op).LeaseCount, 0)
	r.everywhere()
}

func TestIdempotentOtherRequest(t *testing.T) {
	r := newRig(t)
	r.ok(under("k", one(text("x"))))
	other := under("k", &Enqueue{Queue: q0, Messages: []Message{text("a"), text("b")}})
	other.Print[15]++
	r.refused(other, AlreadyExists, FieldIdempotency) // one outcome, whatever the operation has
	other.Part = 3
	r.refused(other, AlreadyExists, FieldIdempotency)
	must(t, "messages", r.mem().Messages, 1)
	if _, kept := r.s.Kept(&other.IdempotencyKey); kept {
		t.Error("kept for a request that it is not for")
	}

	r.tick(IdempotencyMillis - 1)
	r.refused(other, AlreadyExists, FieldIdempotency)
	r.now++ // the hour is over, and nothing reclaimed yet when the operation comes
	out := r.apply(other)
	must(t, "carried out", len(out), 2)
	must(t, "carried out", out[0].Code, OK)
	must(t, "keys", r.mem().IdempotencyKeys, 1)
	r.everywhere()
}

// TestIdempotentParts: a request's operations are known by their numbers, in whatever order they come.
func TestIdempotentParts(t *testing.T) {
	r := newRig(t)
	r.quiet = true
	const parts = 50
	ids := map[uint32]ID{}
	for i := range uint32(parts) {
		n := i * 7 % parts
		ids[n] = r.ok(part("k", n, one(text("x")))).ID
		if n%3 == 0 {
			must(t, "again at once", r.ok(part("k", n, one(text("x")))).ID, ids[n])
		}
	}
	for n := range uint32(parts) {
		must(t, "again", r.ok(part("k", n, one(text("x")))).ID, ids[n])
		must(t, "again, backwards", r.ok(part("k", parts-1-n, one(text("x")))).ID, ids[parts-1-n])
	}
	must(t, "messages", r.mem().Messages, parts)
	must(t, "keys", r.mem().IdempotencyKeys, 1)
	first := r.apply(part("k", parts, &Enqueue{Queue: q0, Messages: []Message{text("a"), text("b"), text("c")}}))
	r.again("a batch beside them", first, part("k", parts, &Enqueue{Queue: q0}))
	must(t, "greatest", r.ok(part("k", 1<<32-1, one(text("x")))).Replayed, false)
	must(t, "greatest again", r.ok(part("k", 1<<32-1, one(text("x")))).Replayed, true)
	if err := r.s.Check(); err != nil {
		t.Fatal(err)
	}
	r.everywhere()
}

// TestIdempotentTryAgain: an answer that says to try again, after which nothing has happened, does not stand in the way of that.
func TestIdempotentTryAgain(t *testing.T) {
	r := newRig(t)
	r.queue(QueueOptions{MaxDepth: 1})
	id := r.put(text("x"))
	op := under("k", one(text("y")))
	r.refused(op, QueueFull, FieldDepth)
	must(t, "keys", r.mem().IdempotencyKeys, 0)
	r.ok(&Ack{Token: r.lease1()})
	must(t, "another message", r.ok(op).ID != id, true)
	must(t, "kept", r.ok(op).Replayed, true)

	// Some of a batch went in: that is its answer.
	batch := under("b", &Enqueue{Queue: q0, Messages: []Message{text("1"), text("2"), text("3")}})
	r.ok(&Ack{Token: r.lease1()})
	first := r.apply(batch)
	must(t, "went in", first[0].Code, OK)
	must(t, "did not", [2]Code{first[1].Code, first[2].Code}, [2]Code{QueueFull, QueueFull})
	r.ok(&PurgeQueue{Name: q0})
	r.again("partly refused", first, batch)
	r.everywhere()
}

// TestIdempotentRuns: a batch is kept as one record where its outcomes are alike.
func TestIdempotentRuns(t *testing.T) {
	r := newRig(t)
	r.quiet = true
	batch := &Enqueue{Queue: q0, AutoCreate: true, Messages: make([]Message, MaxBatch)}
	first := r.apply(under("b", batch))
	must(t, "records", r.s.idems.answers.Len(), 1)
	r.again("a thousand", first, under("b", batch))

	for i := range batch.Messages {
		batch.Messages[i].Priority = uint8(i % 2 * 200) // every second is refused
	}
	first = r.apply(under("m", batch))
	must(t, "records", r.s.idems.answers.Len(), 1+MaxBatch)
	r.again("half of them", first, under("m", batch))

	over := &Enqueue{Queue: q0, Messages: make([]Message, formatMessages)}
	first = r.apply(under("o", over))
	must(t, "records", r.s.idems.answers.Len(), 2+MaxBatch)
	r.again("too many", first, under("o", over))
	if err := r.s.Check(); err != nil {
		t.Fatal(err)
	}
	restored(t, snapshot(t, r.s)).Close()
}

func TestIdempotentNote(t *testing.T) {
	r := newRig(t)
	op := under("k", &Enqueue{Queue: q0, AutoCreate: true, Messages: []Message{text("a"), {Priority: 200}}})
	op.Note = bytes.Repeat([]byte("n"), MaxIdempotencyNote)
	r.apply(op)
	k := op.IdempotencyKey
	note, kept := r.s.Kept(&k)
	must(t, "kept", kept, true)
	must(t, "note", string(note), string(op.Note))
	op.Note = []byte("another")
	r.apply(op)
	note, _ = r.s.Kept(&k)
	must(t, "the first note", len(note), MaxIdempotencyNote)
	k.Part = 1
	_, kept = r.s.Kept(&k)
	must(t, "another part", kept, false)
	r.everywhere()
	// Notes move when chunks of the arena are given back.
	r.quiet = true
	r.s.lim.compact = formatBounds().compact
	for i := range 3000 {
		r.put(named(i))
	}
	r.ok(&PurgeQueue{Name: q0})
	for range 200 {
		r.tick(1)
	}
	if err := r.s.Check(); err != nil {
		t.Fatal(err)
	}
	k.Part = 0
	note, _ = r.s.Kept(&k)
	must(t, "the first note still", strings.Trim(string(note), "n"), "")
	r.tick(IdempotencyMillis)
	must(t, "bytes", r.mem().IdempotencyBytes, 0)
}

// TestIdempotentFull: where there is no room to keep the answer, nothing is carried out; what is kept already is answered.
func TestIdempotentFull(t *testing.T) {
	r := newRig(t)
	r.ok(under("a", one(text("x"))))
	r.s.lim.idemKeys = 1
	o := r.refused(under("b", &Enqueue{Queue: q0, Messages: []Message{text("x"), text("y")}}), Overloaded, FieldIdempotency)
	must(t, "limit", o.Limit, 1)
	must(t, "kept", r.ok(under("a", one(text("x")))).Replayed, true)
	must(t, "a part more of it", r.ok(part("a", 1, one(text("x")))).Replayed, false)
	r.s.lim.idemKeys, r.s.lim.idemBytes = 9, r.mem().IdempotencyBytes+idemRoom-1
	o = r.refused(under("b", one(text("x"))), Overloaded, FieldIdempotency)
	must(t, "limit", o.Limit, r.s.lim.idemBytes)
	r.refused(part("a", 2, one(text("x"))), Overloaded, FieldIdempotency)
	must(t, "messages", r.mem().Messages, 2)
	must(t, "without a key", r.ok(one(text("x"))).Code, OK)
	r.s.lim.idemBytes++
	r.ok(under("b", one(text("x"))))
}

func TestOpNumber(t *testing.T) {
	for _, v := range vectors() {
		b := AppendOp(nil, v.op)
		want := v.op.opNumber()
		if o, ok := v.op.(*Idempotent); ok {
			want = o.Op.opNumber()
			for n := range len(b) {
				if got := OpNumber(b[:n]); got != 0 && got != want {
					t.Errorf("%s cut to %d bytes: %d, want %d or none", v.name, n, got, want)
				}
			}
		}
		must(t, v.name, OpNumber(b), want)
	}
	must(t, "nothing", OpNumber(nil), 0)
}
