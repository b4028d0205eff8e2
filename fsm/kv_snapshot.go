package fsm

// Sections of the KV and of hooks.
const (
	sectionKV       uint8 = 35 // one record of counters
	sectionKVValues uint8 = 36 // by message id
	sectionKVKeys   uint8 = 37 // living keys and deletions, by position
	sectionHooks    uint8 = 38 // by message id
)

func (c *kvCounts) totals() [4]*int64 {
	return [...]*int64{&c.written, &c.deleted, &c.expired, &c.dropped}
}

func (v *View) writeKV(f *frameWriter) {
	f.section(sectionKV)
	f.record()
	c := v.kvCounts
	f.uvarint(c.rev)
	f.uvarint(c.lost)
	for _, n := range c.totals() {
		f.varint(*n)
	}
	f.bool(v.sweep.at != none)
	if v.sweep.at != none {
		f.id(v.hooks.Get(v.sweep.at).id)
		f.id(v.sweep.until)
		f.bool(v.sweep.again)
	}
	f.section(sectionKVValues)
	eachSorted(v.kvValues, func(r *kvValue) bool { return r.refs > 0 }, func(r *kvValue) ID { return r.id }, func(r *kvValue) bool {
		f.record()
		f.id(r.id)
		f.bytes(v.blob(r.blob))
		return f.err() == nil
	})
	f.section(sectionKVKeys)
	eachSorted(v.kvKeys, func(r *kvKey) bool { return r.rev != 0 }, func(r *kvKey) ID { return ID{Lo: r.rev} }, func(r *kvKey) bool {
		f.record()
		f.uvarint(r.rev)
		f.varint(r.at)
		f.bytes(v.blob(r.key))
		f.bool(r.value != none)
		if r.value != none {
			f.id(v.kvValues.Get(r.value).id)
		} else {
			f.bool(r.ended)
		}
		return f.err() == nil
	})
	f.section(sectionHooks)
	eachSorted(v.hooks, func(r *hook) bool { return !r.id.IsZero() }, func(r *hook) ID { return r.id }, func(r *hook) bool {
		f.record()
		f.id(r.id)
		f.id(r.batch)
		f.bytes(v.blob(r.keys))
		return f.err() == nil
	})
}

func (rs *restorer) kv() {
	s, f := rs.s, rs.f
	n := 0
	for f.more() {
		c := &s.kv.counts
		c.rev, c.lost = f.uvarint(), f.uvarint()
		for _, t := range c.totals() {
			if *t = f.varint(); *t < 0 {
				f.fail("a total of the KV is negative")
			}
		}
		if rs.sweep.on = f.bool(); rs.sweep.on {
			rs.sweep.at, rs.sweep.until, rs.sweep.again = f.id(), f.id(), f.bool()
		}
		if f.err() == nil && (c.lost > c.rev || c.rev >= 1<<56) {
			f.fail("KV at position %d has lost those up to %d", c.rev, c.lost)
		}
		n++
	}
	if f.err() == nil && n != 1 {
		f.fail("%d records of KV counters, want 1", n)
	}
}

func (rs *restorer) kvValues() {
	s, f := rs.s, rs.f
	var last ID
	for f.more() {
		id := f.id()
		blob := f.bytes(MaxBodyBytes)
		if f.err() == nil && id.Compare(last) <= 0 {
			f.fail("KV value of %s after %s", id, last)
		}
		if f.err() != nil {
			return
		}
		last = id
		sl := s.kv.values.Alloc()
		*s.kv.values.Mut(sl) = kvValue{id: id, blob: s.arena.PutBytes(owner(ownKVValue, sl), blob)}
		rs.valueOf.Insert(hashID(id), sl)
	}
}

func (rs *restorer) kvKeys() {
	s, f := rs.s, rs.f
	var last uint64
	var at int64
	for f.more() {
		r := kvKey{rev: f.uvarint(), at: rs.instant(), value: none}
		key := f.bytes(maxKVEncoded)
		var id ID
		live := f.bool()
		if f.err() != nil {
			return
		}
		switch {
		case r.rev <= last || r.rev > s.kv.counts.rev:
			f.fail("KV key at position %d after %d of %d", r.rev, last, s.kv.counts.rev)
		case r.at < at || r.at > s.now:
			f.fail("KV key at position %d is of %d after %d, T is %d", r.rev, r.at, at, s.now)
		case !ValidKVKey(key):
			f.fail("KV key at position %d is malformed", r.rev)
		}
		if f.err() != nil {
			return
		}
		if _, ok := s.kvFind(key); ok {
			f.fail("KV key at position %d is there twice", r.rev)
			return
		}
		last, at = r.rev, r.at
		sl := s.kv.keys.Alloc()
		r.key = s.arena.PutBytes(owner(ownKVKey, sl), key)
		if live {
			id = f.id()
			var ok bool
			if r.value, ok = rs.valueOf.Find(hashID(id), func(v int32) bool { return s.kv.values.Get(v).id == id }); !ok {
				r.value = none
				f.fail("KV key at position %d has the value of %s, which is not there", r.rev, id)
			}
		} else if r.ended = f.bool(); f.err() == nil && r.rev <= s.kv.counts.lost {
			f.fail("KV deletion at position %d, want none up to %d", r.rev, s.kv.counts.lost)
		}
		if f.err() != nil {
			s.arena.Free(r.key)
			s.kv.keys.Free(sl)
			return
		}
		*s.kv.keys.Mut(sl) = r
		s.kv.index.Insert(s.hashText(s.kvText(sl)), sl)
		s.kvLink(sl)
	}
	s.kv.values.Each(func(_ int32, v *kvValue) bool {
		if f.err() == nil && v.refs == 0 {
			f.fail("KV value of %s has no key", v.id)
		}
		return true
	})
}

func (rs *restorer) hooks() {
	s, f := rs.s, rs.f
	var last ID
	for f.more() {
		r := hook{id: f.id(), batch: f.id()}
		keys := f.bytes(MaxKVKeys * (maxKVEncoded + 4))
		if f.err() != nil {
			return
		}
		n, ok := validHook(keys)
		if r.id.Compare(last) <= 0 || !ok || n == 0 && r.batch.IsZero() {
			f.fail("hook of %s after %s is malformed", r.id, last)
			return
		}
		last, r.count = r.id, n
		slot, ok := s.find(r.id)
		switch {
		case ok && s.messages.Get(slot).state == StateDead, !ok && !rs.sweep.on:
			f.fail("hook of %s, which does not live", r.id)
			return
		case ok:
			s.messages.Mut(slot).flags |= flagHooked
		}
		s.addHook(r, keys)
	}
	if f.err() != nil || !rs.sweep.on {
		return
	}
	at, ok := s.findHook(rs.sweep.at)
	if !ok {
		f.fail("sweep stands at %s, which has no hook", rs.sweep.at)
		return
	}
	s.hooks.sweep = sweep{at: at, until: rs.sweep.until, again: rs.sweep.again}
}

// validHook judges the keys of a hook, and says how many.
func validHook(blob []byte) (n uint8, ok bool) {
	var keys [][]byte
	var again []byte
	for rest := blob; len(rest) > 0; {
		var k []byte
		k, rest = chunk(rest)
		if k == nil || len(keys) == MaxKVKeys {
			return 0, false
		}
		keys = append(keys, k)
		again = appendChunk(again, k)
	}
	_, ok = validKeys(keys)
	return uint8(len(keys)), ok && string(again) == string(blob)
}
