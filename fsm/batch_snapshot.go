package fsm

import "github.com/quorate/quorate/fsm/table"

const sectionBatches uint8 = 39 // by id

func (v *View) writeBatches(f *frameWriter) {
	f.section(sectionBatches)
	eachSorted(v.batches, func(r *batch) bool { return !r.id.IsZero() }, func(r *batch) ID { return r.id }, func(r *batch) bool {
		f.record()
		f.id(r.id)
		f.varint(r.created)
		f.varint(r.end)
		f.varint(r.finished)
		f.id(r.callbackID)
		f.bool(r.sealed)
		f.varint(r.added)
		f.varint(r.open)
		for _, n := range r.ends {
			f.varint(n)
		}
		f.bytes(v.blob(r.callback))
		return f.err() == nil
	})
}

func (rs *restorer) batches() {
	s, f := rs.s, rs.f
	var last ID
	for f.more() {
		r := batch{id: f.id(), created: rs.instant(), end: rs.instant(), finished: rs.instant(), callbackID: f.id(), sealed: f.bool()}
		r.added, r.open = f.varint(), f.varint()
		for i := range r.ends {
			r.ends[i] = f.varint()
		}
		blob := f.bytes(MaxCallbackBytes + 64<<10)
		if f.err() == nil && r.id.Compare(last) <= 0 {
			f.fail("batch %s after %s", r.id, last)
		}
		if f.err() != nil {
			return
		}
		if why := s.badBatch(&r, blob); why != "" {
			f.fail("batch %s %s", r.id, why)
			return
		}
		last = r.id
		s.addBatch(r, blob)
	}
	// Members are counted by their hooks.
	var open table.Ints
	for at := s.hooks.all.head; at != none; at = s.hooks.recs.Get(at).next {
		if sl, ok := s.findBatch(s.hooks.recs.Get(at).batch); ok {
			open.Set(sl, open.Get(sl)+1)
		}
	}
	s.batches.recs.Each(func(sl int32, r *batch) bool {
		if n := int64(open.Get(sl)); f.err() == nil && r.there(s.now) && n != r.open {
			f.fail("batch %s counts %d open members, hooks %d", r.id, r.open, n)
		}
		return true
	})
}

// badBatch says what is wrong with a batch and its callback, "" if nothing is.
func (s *State) badBatch(r *batch, blob []byte) string {
	sum := r.open
	for _, n := range r.ends {
		if n < 0 {
			return "has a negative count"
		}
		sum += n
	}
	done := len(blob) == 0
	switch {
	case r.open < 0 || r.added < 0 || r.added > 1<<56 || sum != r.added:
		return "has counts that do not add up"
	case done != (r.finished != 0) || done && (!r.sealed || r.open != 0) || !done && !r.callbackID.IsZero():
		return "is neither done nor open"
	case (r.end == 0) != (r.sealed && !done), r.created > s.now, r.finished > s.now, r.sealed && !done && r.open == 0:
		return "has times that do not fit"
	case done:
		return ""
	}
	queue, rest := chunk(blob)
	d := Decoder{data: rest, op: opBatchCreate}
	var m Message
	d.message(&m)
	_, _, ok := ValidateMessage(&m, 0)
	if d.err != nil || d.pos != len(rest) || !ok || !ValidQueueName(queue) || checkCallback(&m).Code != OK ||
		string(appendMessage(appendChunk(nil, queue), &m)) != string(blob) {
		return "has a damaged callback"
	}
	return ""
}

// batches checks the table of batches against the hooks.
func (c *checker) batches() {
	s, b := c.s, &c.s.batches
	open := map[int32]int64{}
	for at := s.hooks.all.head; at != none; at = s.hooks.recs.Get(at).next {
		if sl, ok := s.findBatch(s.hooks.recs.Get(at).batch); ok {
			open[sl]++
		}
	}
	var bytes int64
	ends := 0
	b.recs.Each(func(sl int32, r *batch) bool {
		c.blob("callback", r.id, r.callback, owner(ownBatch, sl))
		if why := s.badBatch(r, s.blob(r.callback)); why != "" {
			c.bad("batch %s %s", r.id, why)
		}
		if r.there(s.now) && r.open != open[sl] || r.open > s.lim.members {
			c.bad("batch %s counts %d open members, a scan finds %d", r.id, r.open, open[sl])
		}
		if at, ok := b.index.Find(hashID(r.id), func(v int32) bool { return v == sl }); !ok || at != sl {
			c.bad("batch %s is not found", r.id)
		}
		if (r.heapPos != none) != (r.end != 0) {
			c.bad("batch %s ends at %d and stands at %d of the heap", r.id, r.end, r.heapPos)
		} else if r.end != 0 {
			ends++
			if key, at := b.ends.At(r.heapPos); key != r.end || at != sl {
				c.bad("batch %s stands in the heap at %d, want %d", r.id, key, r.end)
			}
		}
		bytes += int64(len(s.blob(r.callback)))
		return true
	})
	if bytes != b.bytes || b.index.Len() != b.recs.Len() || b.ends.Len() != ends || len(b.ripe) != 0 {
		c.bad("%d batches, %d indexed, %d of %d with an end, %d ripe; callbacks have %d bytes, counted %d",
			b.recs.Len(), b.index.Len(), b.ends.Len(), ends, len(b.ripe), bytes, b.bytes)
	}
	if int64(b.recs.Len()) > s.lim.batches || b.bytes > s.lim.callbackBytes {
		c.bad("%d batches with %d bytes of callbacks, want at most %d and %d", b.recs.Len(), b.bytes, s.lim.batches, s.lim.callbackBytes)
	}
}
