package fsm

import "bytes"

// kv checks the KV and the hooks.
func (c *checker) kv() {
	s, k := c.s, &c.s.kv
	var live, tombs int64
	refs := map[int32]int32{}
	k.keys.Each(func(i int32, r *kvKey) bool {
		c.blob("KV key", ID{Lo: r.rev}, r.key, owner(ownKVKey, i))
		if at, ok := s.kvFind(s.kvText(i)); !ok || at != i {
			c.bad("KV key at position %d is not found, or not alone", r.rev)
		}
		if !ValidKVKey(s.kvText(i)) || r.rev == 0 || r.rev > k.counts.rev || r.at > s.now {
			c.bad("KV key at position %d of %d has fields out of range", r.rev, k.counts.rev)
		}
		if r.value == none {
			tombs++
			if r.rev <= k.counts.lost {
				c.bad("KV deletion at position %d, those up to %d are lost", r.rev, k.counts.lost)
			}
		} else {
			live++
			refs[r.value]++
		}
		return true
	})
	k.values.Each(func(i int32, v *kvValue) bool {
		c.blob("KV value", v.id, v.blob, owner(ownKVValue, i))
		if v.refs != refs[i] || v.refs == 0 {
			c.bad("KV value of %s counts %d keys, a scan finds %d", v.id, v.refs, refs[i])
		}
		return true
	})
	for _, l := range [...]struct {
		what string
		list list
		want int64
	}{{"living", k.living, live}, {"deleted", k.gone, tombs}} {
		n, prev, rev := int64(0), none, uint64(0)
		for at := l.list.head; at != none && n <= l.want; at = k.keys.Get(at).next {
			r := k.keys.Get(at)
			if r.prev != prev || r.rev <= rev || (r.value == none) != (l.what == "deleted") {
				c.bad("KV key at position %d does not belong in the list of %s ones", r.rev, l.what)
			}
			prev, rev = at, r.rev
			n++
		}
		if n != l.want || l.list.tail != prev {
			c.bad("a walk finds %d %s KV keys, want %d", n, l.what, l.want)
		}
	}
	at := k.byKey.Seek(func(int32) bool { return false })
	for last := none; ; {
		sl, ok := k.byKey.Next(&at)
		if !ok {
			break
		}
		if !k.keys.Live(sl) || k.keys.Get(sl).value == none || last != none && bytes.Compare(s.kvText(last), s.kvText(sl)) >= 0 {
			c.bad("KV keys are out of order at slot %d", sl)
			break
		}
		last = sl
	}
	if int64(k.byKey.Len()) != live || int64(k.byRev.Len()) != live+tombs || k.index.Len() != k.keys.Len() ||
		k.counts.live != live || k.counts.tombs != tombs {
		c.bad("KV has %d keys and %d deletions, %d by key, %d by position, %d indexed; counts say %d and %d",
			live, tombs, k.byKey.Len(), k.byRev.Len(), k.index.Len(), k.counts.live, k.counts.tombs)
	}
	if live+k.reserved > s.lim.kvKeys || tombs > s.lim.kvTombs {
		c.bad("KV holds %d keys, %d reserved and %d deletions, want at most %d and %d", live, k.reserved, tombs, s.lim.kvKeys, s.lim.kvTombs)
	}
	c.hooks()
}

func (c *checker) hooks() {
	s, h := c.s, &c.s.hooks
	var reserved int64
	n, prev := 0, none
	for at := h.all.head; at != none && n <= h.recs.Len(); at = h.recs.Get(at).next {
		r := h.recs.Get(at)
		if r.prev != prev || prev != none && h.recs.Get(prev).id.Compare(r.id) >= 0 {
			c.bad("hook of %s is out of place", r.id)
		}
		c.blob("hook", r.id, r.keys, owner(ownHook, at))
		if got, ok := s.findHook(r.id); !ok || got != at {
			c.bad("hook of %s is not found", r.id)
		}
		if slot, ok := s.find(r.id); !ok && h.sweep.at == none || ok && (s.messages.Get(slot).flags&flagHooked == 0 || s.messages.Get(slot).state == StateDead) {
			c.bad("hook of %s, which does not live", r.id)
		}
		reserved += int64(r.count)
		prev = at
		n++
	}
	if n != h.recs.Len() || n != h.index.Len() || h.all.tail != prev {
		c.bad("%d hooks, %d indexed, a walk finds %d", h.recs.Len(), h.index.Len(), n)
	}
	if reserved != s.kv.reserved {
		c.bad("KV counts %d reserved keys, a scan finds %d", s.kv.reserved, reserved)
	}
	if h.sweep.at != none && !h.recs.Live(h.sweep.at) {
		c.bad("a sweep stands at slot %d, which is free", h.sweep.at)
	}
	s.messages.Each(func(_ int32, m *message) bool {
		if m.flags&flagHooked != 0 && s.alive(m) {
			if _, ok := s.findHook(m.id); !ok {
				c.bad("message %s says it has a hook", m.id)
			}
		}
		return true
	})
}
