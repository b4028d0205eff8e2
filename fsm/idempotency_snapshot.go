package fsm

import (
	"github.com/quorate/quorate/fsm/mutant"
	"github.com/quorate/quorate/fsm/table"
)

// sectionIdems are the idempotency keys in the order of their ends, each with its answers. Where there are none, there is no such section: a
// snapshot is then what it was before there were keys.
const sectionIdems uint8 = 52

func (v *View) writeIdems(f *frameWriter) {
	if v.idemFirst == none || mutant.KeysNotInSnapshot {
		return
	}
	f.section(sectionIdems)
	for sl := v.idemFirst; sl != none && f.err() == nil; {
		r := v.idemKeys.Get(sl)
		f.record()
		f.hash(&r.key)
		f.hash(&r.print)
		f.varint(r.end)
		f.uvarint(uint64(r.count))
		for at := r.oldest; at != none; {
			a := v.idemAns.Get(at)
			f.uvarint(uint64(a.part))
			f.u8(uint8(a.code))
			f.u8(uint8(a.field))
			f.u8(a.flags)
			f.id(a.id)
			f.id(a.task)
			f.varint(a.amount)
			f.uvarint(uint64(a.count))
			f.uvarint(uint64(a.leases))
			f.bytes(v.blob(a.note))
			at = a.next
		}
		sl = r.newer
	}
}

func (rs *restorer) idems() {
	s, f := rs.s, rs.f
	t := &s.idems
	var last int64
	for f.more() {
		r := idemKey{key: f.hash(), print: f.hash(), end: rs.instant()}
		n := f.uvarint()
		if f.err() != nil {
			return
		}
		_, twice := s.findIdem(&r.key)
		switch {
		case r.end < last || r.end > s.now+IdempotencyMillis:
			f.fail("idempotency key %x ends at %d after %d, T is %d", r.key, r.end, last, s.now)
		case twice && r.end > s.now:
			f.fail("idempotency key %x is there twice", r.key)
		case n == 0:
			f.fail("idempotency key %x has no answer", r.key)
		}
		if f.err() != nil {
			return
		}
		last = r.end
		sl := s.addIdem(r)
		for ; n > 0; n-- {
			a := idemAnswer{next: none}
			part := f.uvarint()
			a.code, a.field, a.flags = Code(f.u8()), Field(f.u8()), f.u8()
			a.id, a.task, a.amount = f.id(), f.id(), f.varint()
			count, leases := f.uvarint(), f.uvarint()
			note := f.bytes(MaxIdempotencyNote)
			if f.err() != nil {
				return
			}
			a.part, a.count, a.leases = uint32(part), int32(count), int32(leases)
			if part > 1<<32-1 || count > idemRun || leases > MaxLeaseCount {
				f.fail("idempotency key %x has an answer out of range", r.key)
				return
			}
			newest := t.keys.Get(sl).newest
			first := newest == none || t.answers.Get(newest).part != a.part
			switch why := a.wrong(); {
			case why != "":
				f.fail("idempotency key %x, part %d: an answer %s", r.key, part, why)
			case first && s.idemPart(sl, a.part) != none:
				f.fail("idempotency key %x: part %d is in two places", r.key, part)
			case !first && len(note) > 0:
				f.fail("idempotency key %x, part %d: a note that is not the first answer's", r.key, part)
			}
			if f.err() != nil {
				return
			}
			at := s.addAnswer(sl, a)
			if len(note) > 0 {
				t.answers.Mut(at).note = s.arena.PutBytes(owner(ownIdemNote, at), note)
				t.notes += int64(len(note))
			}
		}
	}
	switch n, b := int64(t.keys.Len()), t.accounted(); {
	case f.err() != nil:
	case n == 0:
		f.fail("a section of idempotency keys without one")
	case n > s.lim.idemKeys || b > s.lim.idemBytes:
		f.fail("%d idempotency keys with %d bytes, want at most %d and %d", n, b, s.lim.idemKeys, s.lim.idemBytes)
	}
}

// wrong says what is wrong with an answer by itself, "" if nothing is.
func (a *idemAnswer) wrong() string {
	leased := a.flags&idemLease != 0
	switch {
	case a.count < 1 || a.count > idemRun:
		return "stands for no outcome, or too many"
	case a.code > TooLarge || a.flags >= idemEnd || a.code != OK && a.flags&(idemLease|idemMillis) != 0:
		return "has a code or flags that do not fit"
	case leased != (a.leases > 0) || a.leases < 0 || a.leases > MaxLeaseCount || leased && (a.count != 1 || uint64(a.amount) > 1<<32-1):
		return "has leases that do not fit"
	}
	return ""
}

// idems checks the idempotency keys and their answers.
func (c *checker) idems() {
	s, t := c.s, &c.s.idems
	keys, answers, notes, last, prev := 0, 0, int64(0), int64(0), none
	for sl := t.all.head; sl != none; sl = t.keys.Get(sl).newer {
		if keys++; keys > t.keys.Len() {
			c.bad("the list of idempotency keys is a ring")
			return
		}
		r := t.keys.Get(sl)
		if at, ok := t.index.Find(table.Hash16(&r.key), func(v int32) bool { return v == sl }); !ok || at != sl {
			c.bad("idempotency key %x is not found", r.key)
		}
		if at, ok := s.findIdem(&r.key); r.end > s.now && (!ok || at != sl) {
			c.bad("idempotency key %x is there twice", r.key)
		}
		if r.end < last || r.end > s.now+IdempotencyMillis {
			c.bad("idempotency key %x ends at %d after %d, T is %d", r.key, r.end, last, s.now)
		}
		last, prev = r.end, sl
		n := c.idemAnswers(r, &notes)
		answers += n
	}
	if prev != t.all.tail || keys != t.keys.Len() || keys != t.index.Len() || answers != t.answers.Len() || notes != t.notes {
		c.bad("%d idempotency keys (%d listed, %d indexed), %d answers of %d, notes of %d bytes, counted %d",
			t.keys.Len(), keys, t.index.Len(), answers, t.answers.Len(), notes, t.notes)
	}
	if n, b := int64(keys), t.accounted(); n > s.lim.idemKeys || b > s.lim.idemBytes {
		c.bad("%d idempotency keys with %d bytes, want at most %d and %d", n, b, s.lim.idemKeys, s.lim.idemBytes)
	}
}

// idemAnswers checks the answers of one key and says how many there are.
func (c *checker) idemAnswers(r *idemKey, notes *int64) (n int) {
	t := &c.s.idems
	newest, parts, hint := none, int64(0), r.hint == none
	seen := map[uint32]bool{}
	for at := r.oldest; at != none; at = t.answers.Get(at).next {
		a := t.answers.Get(at)
		first := newest == none || t.answers.Get(newest).part != a.part
		switch why := a.wrong(); {
		case why != "":
			c.bad("idempotency key %x, part %d: an answer %s", r.key, a.part, why)
		case first && seen[a.part]:
			c.bad("idempotency key %x: part %d is in two places", r.key, a.part)
		case !first && a.note != 0:
			c.bad("idempotency key %x, part %d: a note that is not the first answer's", r.key, a.part)
		}
		seen[a.part] = true
		if a.note != 0 {
			c.blob("note", ID{}, a.note, owner(ownIdemNote, at))
			*notes += int64(len(c.s.arena.Get(a.note)))
		}
		newest, parts, hint = at, max(parts, int64(a.part)+1), hint || at == r.hint
		if n++; n > t.answers.Len() {
			break
		}
	}
	if n == 0 || int32(n) != r.count || newest != r.newest || parts != r.parts || !hint {
		c.bad("idempotency key %x counts %d answers below part %d, a walk finds %d below %d", r.key, r.count, r.parts, n, parts)
	}
	return n
}
