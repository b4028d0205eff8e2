package fsm

import (
	"github.com/quorate/quorate/fsm/arena"
	"github.com/quorate/quorate/fsm/table"
)

// idemKey is an idempotency key that has been used, with the answers that are kept under it.
type idemKey struct {
	key, print     [16]byte
	end            int64
	oldest, newest int32 // answers, in the order in which they came; a part's lie side by side
	hint           int32 // local: where the next look-up begins
	newer          int32 // the list by end
	count          int32 // answers; 0: the record is free
	parts          int64 // one above the highest part of them
}

// idemAnswer is an outcome, or several of one operation that are alike but for ids that rise by one, as those of a batch mostly are.
type idemAnswer struct {
	id, task ID        // Outcome.ID, Outcome.Task; of a lease: its first position, the consumer's session
	amount   int64     // Outcome.Limit of a refusal, else Millis or Count; of a lease: the consumer's subscription
	note     arena.Ref // of the first answer of a part
	part     uint32
	count    int32 // of outcomes; 0: the record is free
	leases   int32 // of a lease: how many
	next     int32
	code     Code
	field    Field
	flags    uint8
}

// Flags of an idemAnswer. Numbers are part of the snapshot format.
const (
	idemDuplicate uint8 = 1 << iota
	idemDead
	idemResult
	idemLease
	idemMillis
	idemEnd
)

// idems is the table of idempotency keys.
type idems struct {
	keys    table.Pages[idemKey]
	answers table.Pages[idemAnswer]
	index   table.Index // by key; one that has ended and is not yet reclaimed may stand beside its successor
	all     list        // keys by end, which is the order in which they came
	notes   int64       // bytes of notes
}

func (t *idems) bytes() int64 { return t.keys.Bytes() + t.answers.Bytes() + t.index.Bytes() }

// accounted is what counts against MaxIdempotencyBytes.
func (t *idems) accounted() int64 {
	return int64(t.keys.Len())*idemKeyCost + int64(t.answers.Len())*idemAnswerCost + t.notes
}

// findIdem is a key that has not ended.
func (s *State) findIdem(key *[16]byte) (int32, bool) {
	t := &s.idems
	return t.index.Find(table.Hash16(key), func(v int32) bool {
		r := t.keys.Get(v)
		return r.key == *key && r.end > s.now
	})
}

// idemPart is the first answer of a part, none if there is none. Parts are asked for in the order in which they came, mostly.
func (s *State) idemPart(sl int32, part uint32) int32 {
	t := &s.idems
	r := t.keys.Get(sl)
	if int64(part) >= r.parts {
		return none
	}
	find := func(at, until int32) int32 {
		for at != until && t.answers.Get(at).part != part {
			at = t.answers.Get(at).next
		}
		return at
	}
	at := none
	if r.hint != none {
		at = find(r.hint, none)
	}
	if at == none {
		if at = find(r.oldest, r.hint); at == r.hint {
			return none
		}
	}
	return at
}

// applyIdempotent carries out the operation at hand, which has an idempotency key, unless it has been carried out.
func (s *State) applyIdempotent() {
	t, k := &s.idems, s.dec.key
	sl, known := s.findIdem(&k.Key)
	if known {
		if t.keys.Get(sl).print != k.Print {
			s.dec.Skip()
			s.emit(refuse(AlreadyExists, FieldIdempotency, 0))
			return
		}
		if at := s.idemPart(sl, k.Part); at != none {
			t.keys.Mut(sl).hint = at
			s.dec.Skip()
			s.replay(at)
			return
		}
	}
	switch {
	case !known && int64(t.keys.Len()) >= s.lim.idemKeys:
		s.dec.Skip()
		s.emit(refuse(Overloaded, FieldIdempotency, s.lim.idemKeys))
		return
	case t.accounted()+idemRoom > s.lim.idemBytes:
		s.dec.Skip()
		s.emit(refuse(Overloaded, FieldIdempotency, s.lim.idemBytes))
		return
	}
	number := s.dec.Op()
	from, waits, acks := len(s.fx.Outcomes), number == opPull, number == opAck || number == opAckMapped
	s.applyOp()
	out := s.fx.Outcomes[from:]
	if !lasts(out, waits) {
		return
	}
	if !known {
		sl = s.addIdem(idemKey{key: k.Key, print: k.Print, end: s.now + IdempotencyMillis})
	}
	first := none
	for i := range out {
		o := out[i]
		if acks { // how long the message was out is said once
			o.Millis = 0
		}
		if at := s.keep(sl, k.Part, &o, first != none); first == none {
			first = at
		}
	}
	if len(k.note) > 0 {
		t.answers.Mut(first).note = s.arena.PutBytes(owner(ownIdemNote, first), k.note)
		t.notes += int64(len(k.note))
	}
}

// lasts says whether outcomes are an answer for good. They are not where nothing happened and the answer is to try again: the key would stand in the
// way of that.
func lasts(out []Outcome, waits bool) bool {
	for i := range out {
		if c := out[i].Code; c != QueueFull && c != Overloaded {
			return !waits || c != OK || out[i].LeaseCount > 0
		}
	}
	return false
}

// addIdem enters a key without answers, which the caller adds at once.
func (s *State) addIdem(r idemKey) int32 {
	sl := s.listIdem(r)
	s.idems.index.Insert(table.Hash16(&r.key), sl)
	return sl
}

// listIdem is addIdem without the index.
func (s *State) listIdem(r idemKey) int32 {
	t := &s.idems
	sl := t.keys.Alloc()
	r.oldest, r.newest, r.hint, r.newer = none, none, none, none
	*t.keys.Mut(sl) = r
	if t.all.tail != none {
		t.keys.Mut(t.all.tail).newer = sl
	} else {
		t.all.head = sl
	}
	t.all.tail = sl
	return sl
}

// keep adds an outcome to the answers of a key, and says where it is. more: the newest answer is of the same operation.
func (s *State) keep(sl int32, part uint32, o *Outcome, more bool) int32 {
	t := &s.idems
	a := idemAnswer{id: o.ID, task: o.Task, amount: o.Count, part: part, count: 1, next: none, code: o.Code, field: o.Field}
	switch {
	case o.Code != OK:
		a.amount = o.Limit
	case o.LeaseCount > 0:
		l := &s.fx.Leases[o.LeaseFrom]
		a.id, a.task, a.amount, a.leases = l.Token.Lease, l.Consumer.Session, int64(l.Consumer.Sub), o.LeaseCount
		a.flags |= idemLease
	case o.Millis != 0:
		a.amount = o.Millis
		a.flags |= idemMillis
	}
	for _, f := range [...]struct {
		set bool
		bit uint8
	}{{o.Duplicate, idemDuplicate}, {o.Dead, idemDead}, {o.HasResult, idemResult}} {
		if f.set {
			a.flags |= f.bit
		}
	}
	if r := t.keys.Get(sl); more && t.answers.Get(r.newest).goesOn(&a) {
		t.answers.Mut(r.newest).count++
		return r.newest
	}
	return s.addAnswer(sl, a)
}

// goesOn says whether b is what the next outcome of a run would be.
func (a *idemAnswer) goesOn(b *idemAnswer) bool {
	next := *a
	next.note, next.count, next.next = 0, b.count, b.next
	if next.id = a.idAt(a.count); a.count == 1<<31-1 || a.flags&idemLease != 0 {
		return false
	}
	return next == *b
}

// idAt is the id of the i-th outcome of a run.
func (a *idemAnswer) idAt(i int32) ID {
	if a.id.IsZero() {
		return ID{}
	}
	return ID{a.id.Hi, a.id.Lo + uint64(i)}
}

func (s *State) addAnswer(sl int32, a idemAnswer) int32 {
	t := &s.idems
	at := t.answers.Alloc()
	*t.answers.Mut(at) = a
	r := t.keys.Mut(sl)
	if r.newest == none {
		r.oldest = at
	} else {
		t.answers.Mut(r.newest).next = at
	}
	r.newest = at
	r.count++
	r.parts = max(r.parts, int64(a.part)+1)
	return at
}

// replay emits the outcomes of a part again.
func (s *State) replay(at int32) {
	t := &s.idems
	for part := t.answers.Get(at).part; at != none; {
		a := t.answers.Get(at)
		if a.part != part {
			break
		}
		for i := range a.count {
			o := a.outcome(i)
			if a.flags&idemLease != 0 {
				s.leaseAgain(Consumer{Session: a.task, Sub: uint32(a.amount)}, &o)
			}
			o.Replayed = true
			s.emit(o)
		}
		at = a.next
	}
}

// outcome is the i-th of a run. That of a lease is what leaseAgain begins with.
func (a *idemAnswer) outcome(i int32) Outcome {
	o := Outcome{
		Code: a.code, Field: a.field, ID: a.idAt(i), Duplicate: a.flags&idemDuplicate != 0, Dead: a.flags&idemDead != 0,
		HasResult: a.flags&idemResult != 0,
	}
	switch {
	case a.flags&idemLease != 0:
		o.LeaseCount = a.leases
		return o
	case a.code != OK:
		o.Limit = a.amount
	case a.flags&idemMillis != 0:
		o.Millis = a.amount
	default:
		o.Count = a.amount
	}
	o.Task = a.task
	return o
}

// dropIdem forgets the oldest key.
func (s *State) dropIdem() {
	t := &s.idems
	sl := t.all.head
	r := t.keys.Get(sl)
	for at := r.oldest; at != none; {
		a := t.answers.Get(at)
		next := a.next
		if a.note != 0 {
			t.notes -= int64(len(s.arena.Get(a.note)))
			s.arena.Free(a.note)
		}
		t.answers.Free(at)
		at = next
	}
	if t.all.head = r.newer; t.all.head == none {
		t.all.tail = none
	}
	t.index.Delete(table.Hash16(&r.key), sl)
	t.keys.Free(sl)
}

// idemEnds says whether the oldest key has ended at T = now.
func (s *State) idemEnds(now int64) bool {
	t := &s.idems
	return t.all.head != none && t.keys.Get(t.all.head).end <= now
}

func (s *State) reclaimIdems(left int) int {
	for ; left > 0 && s.idemEnds(s.now); left-- {
		s.dropIdem()
	}
	return left
}

// Kept says whether the outcomes of an operation with this key are kept, for this very request, and what note came with it. The note
// aliases the state.
func (s *State) Kept(k *IdempotencyKey) (note []byte, kept bool) {
	sl, ok := s.findIdem(&k.Key)
	if !ok || s.idems.keys.Get(sl).print != k.Print {
		return nil, false
	}
	at := s.idemPart(sl, k.Part)
	if at == none {
		return nil, false
	}
	if r := s.idems.answers.Get(at).note; r != 0 {
		note = s.arena.Get(r)
	}
	return note, true
}
