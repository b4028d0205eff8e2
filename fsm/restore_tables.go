package fsm

func (rs *restorer) dedups() {
	s, f := rs.s, rs.f
	var last ID
	for f.more() {
		d := dedupKey{id: f.id()}
		q := rs.queue()
		d.key, d.content, d.end = f.hash(), f.hash(), rs.instant()
		if f.err() == nil && d.id.Compare(last) <= 0 {
			f.fail("dedup key of %s after %s", d.id, last)
		}
		if f.err() != nil {
			return
		}
		if _, ok := s.findDedup(q, &d.key); ok && d.end >= s.now {
			f.fail("dedup key of %s is there twice", d.id)
			return
		}
		last = d.id
		d.queue = q.slot
		sl := s.dedups.Alloc()
		*s.dedups.Mut(sl) = d
		s.linkDedup(q, sl)
		s.tallies.Mut(q.slot).dedups++
	}
}

func (rs *restorer) results() {
	s, f := rs.s, rs.f
	var last uint64
	for f.more() {
		r := result{seq: f.uvarint()}
		q := rs.queue()
		r.id, r.lease, r.task = f.id(), f.id(), f.hash()
		r.end, r.at, r.duration = rs.instant(), rs.instant(), rs.instant()
		r.attempts, r.flags = f.u16(), f.u8()
		blob := f.bytes(MaxBodyBytes + 2048)
		if f.err() != nil {
			return
		}
		if r.seq <= last || r.seq > s.resultSeq {
			f.fail("result %d after %d of %d", r.seq, last, s.resultSeq)
			return
		}
		if why := r.check(q, blob); why != "" {
			f.fail("result %d %s", r.seq, why)
			return
		}
		last = r.seq
		r.queue = q.slot
		sl := s.results.Alloc()
		r.blob = s.arena.PutBytes(owner(ownResult, sl), blob)
		*s.results.Mut(sl) = r
		s.linkResult(q, sl)
	}
}

// check says what is wrong with a result from a snapshot, "" if nothing is.
func (r *result) check(q *queue, blob []byte) string {
	var rf resultFields
	rf.parse(blob)
	again := rf.appendMeta(nil)
	if len(again)+len(rf.output) != len(blob) || string(again) != string(blob[:len(again)]) {
		return "has a damaged blob"
	}
	hasTask := len(rf.task) > 0
	switch {
	case !ValidText(rf.task, MaxTaskID) || !ValidText(rf.kind, MaxKind) || !ValidText(rf.contentType, MaxContentType) ||
		!ValidText(rf.worker, MaxWorker) || len(rf.output) > MaxBodyBytes:
		return "has fields out of range"
	case r.flags > resultDuplicate|resultOrigin|resultHasTask || hasTask != (r.flags&resultHasTask != 0):
		return "has flags that do not fit"
	case hasTask && r.task != HashTask(q.meta.name, rf.task), !hasTask && r.id.IsZero(),
		!hasTask && r.task != [16]byte{} && r.task != HashTask(q.meta.name, AppendID(nil, r.id)):
		return "has another task's hash"
	}
	if r.flags&resultOrigin != 0 {
		if _, ok := ParseIDBytes(rf.task); !ok {
			return "has an origin that is no id"
		}
	}
	return ""
}

func (rs *restorer) tombs() {
	s, f := rs.s, rs.f
	var last uint32
	var end int64
	for f.more() {
		q := rs.queue()
		t := tombstone{id: f.id(), lease: f.id(), task: f.hash(), ends: f.uvarint()}
		if f.err() != nil {
			return
		}
		if q.meta.number != last {
			end = 0
		}
		switch {
		case q.meta.number < last || t.end() < end || t.end() > maxInstant:
			f.fail("tombstone of %s is out of order", t.id)
		case t.id.IsZero() || t.outcome() < tombDone || t.outcome() > tombDuplicate || t.outcome() == tombClosed && t.task != [16]byte{}:
			f.fail("tombstone of %s has outcome %d, want %d to %d, and %d without a task", t.id, t.outcome(), tombDone, tombDuplicate, tombClosed)
		}
		if f.err() != nil {
			return
		}
		last, end = q.meta.number, t.end()
		t.queue = q.slot
		sl := s.tombs.Alloc()
		*s.tombs.Mut(sl) = t
		s.linkTomb(q, sl)
	}
}

func (rs *restorer) sessions() {
	s, f := rs.s, rs.f
	var last ID
	for f.more() {
		ses := session{id: f.id(), used: rs.instant(), low: f.uvarint(), oldest: none, newest: none, hint: none}
		n := f.uvarint()
		if f.err() == nil && (ses.id.Compare(last) <= 0 || n > RequestWindow) {
			f.fail("session %s after %s with %d outcomes", ses.id, last, n)
		}
		if f.err() != nil {
			return
		}
		last = ses.id
		sl := s.addSession(ses)
		for i := range n {
			m := memo{number: f.uvarint(), id: f.id(), amount: f.varint(), used: true}
			leases := f.uvarint()
			m.leases, m.code, m.field, m.flags = int32(leases), Code(f.u8()), Field(f.u8()), f.u8()
			if f.err() != nil {
				return
			}
			newest := s.sessions.Get(sl).newest
			if m.number-ses.low >= RequestWindow || leases > MaxLeaseCount ||
				i > 0 && m.number <= s.memos.Get(newest).number || m.flags > memoDuplicate|memoDead|memoResult|memoLease {
				f.fail("session %s has outcome %d out of place", ses.id, m.number)
				return
			}
			s.addMemo(sl, m)
		}
	}
}
