package fsm

import (
	"cmp"
	"slices"

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

// idems reads the keys. What is twice is found by sorting, once a key's answers are there and once all keys are, and not by looking it up as it
// comes: a snapshot by somebody's hand would make each look-up as long as all before it.
func (rs *restorer) idems() {
	s, f := rs.s, rs.f
	t := &s.idems
	var last int64
	var firsts []uint32
	for f.more() {
		r := idemKey{key: f.hash(), print: f.hash(), end: rs.instant()}
		n := f.uvarint()
		if f.err() != nil {
			return
		}
		switch {
		case r.end < last || r.end > s.now+IdempotencyMillis:
			f.fail("idempotency key %x ends at %d after %d, T is %d", r.key, r.end, last, s.now)
		case n == 0:
			f.fail("idempotency key %x has no answer", r.key)
		}
		if f.err() != nil {
			return
		}
		last = r.end
		sl := s.listIdem(r)
		firsts = firsts[:0]
		for ; n > 0; n-- {
			if firsts = rs.idemAnswer(sl, firsts); f.err() != nil {
				return
			}
			if b := t.accounted(); b > s.lim.idemBytes {
				f.fail("%d bytes of idempotency keys and more, want at most %d", b, s.lim.idemBytes)
				return
			}
		}
		slices.Sort(firsts)
		for i := 1; i < len(firsts); i++ {
			if firsts[i] == firsts[i-1] {
				f.fail("idempotency key %x: part %d is in two places", r.key, firsts[i])
				return
			}
		}
		if n := int64(t.keys.Len()); n > s.lim.idemKeys {
			f.fail("%d idempotency keys and more, want at most %d", n, s.lim.idemKeys)
			return
		}
	}
	switch {
	case f.err() != nil:
	case t.keys.Len() == 0:
		f.fail("a section of idempotency keys without one")
	default:
		rs.indexIdems()
	}
}

// idemAnswer reads the next answer of a key. firsts are the parts that its answers so far begin with.
func (rs *restorer) idemAnswer(sl int32, firsts []uint32) []uint32 {
	s, f := rs.s, rs.f
	t := &s.idems
	a := idemAnswer{next: none}
	part := f.uvarint()
	a.code, a.field, a.flags = Code(f.u8()), Field(f.u8()), f.u8()
	a.id, a.task, a.amount = f.id(), f.id(), f.varint()
	count, leases := f.uvarint(), f.uvarint()
	note := f.bytes(MaxIdempotencyNote)
	if f.err() != nil {
		return nil
	}
	r := t.keys.Get(sl)
	a.part, a.count, a.leases = uint32(part), int32(count), int32(leases)
	if part > 1<<32-1 || count > idemRun || leases > MaxLeaseCount {
		f.fail("idempotency key %x has an answer out of range", r.key)
		return nil
	}
	first := r.newest == none || t.answers.Get(r.newest).part != a.part
	switch why := a.wrong(); {
	case why != "":
		f.fail("idempotency key %x, part %d: an answer %s", r.key, part, why)
		return nil
	case !first && len(note) > 0:
		f.fail("idempotency key %x, part %d: a note that is not the first answer's", r.key, part)
		return nil
	}
	if first {
		firsts = append(firsts, a.part)
	}
	at := s.addAnswer(sl, a)
	if len(note) > 0 {
		t.answers.Mut(at).note = s.arena.PutBytes(owner(ownIdemNote, at), note)
		t.notes += int64(len(note))
	}
	return firsts
}

// idemAlike is how many keys may be alike to the index: hashes of keys that are not the same hardly ever are, and of one key there are those that
// have ended and are not reclaimed, one an hour.
const idemAlike = 256

// indexIdems enters the keys that were read into the index. A key may stand beside those of its name that had ended when it came, so that there
// is an hour between their ends.
func (rs *restorer) indexIdems() {
	s, f := rs.s, rs.f
	t := &s.idems
	type place struct {
		fold uint32 // what the index tells hashes by
		slot int32
	}
	all := make([]place, 0, t.keys.Len())
	for sl := t.all.head; sl != none; sl = t.keys.Get(sl).newer {
		h := table.Hash16(&t.keys.Get(sl).key)
		all = append(all, place{uint32(h>>32) ^ uint32(h), sl})
	}
	slices.SortStableFunc(all, func(a, b place) int { return cmp.Compare(a.fold, b.fold) }) // alike ones stay in the order of their ends
	for from := 0; from < len(all); {
		to := from + 1
		for to < len(all) && all[to].fold == all[from].fold {
			r := t.keys.Get(all[to].slot)
			if to-from >= idemAlike {
				f.fail("idempotency key %x is alike to %d others, which cannot be", r.key, to-from)
				return
			}
			for i := to - 1; i >= from; i-- {
				if was := t.keys.Get(all[i].slot); was.key == r.key {
					if r.end-was.end < IdempotencyMillis {
						f.fail("idempotency key %x is there twice", r.key)
						return
					}
					break
				}
			}
			to++
		}
		from = to
	}
	for sl := t.all.head; sl != none; sl = t.keys.Get(sl).newer {
		t.index.Insert(table.Hash16(&t.keys.Get(sl).key), sl)
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
