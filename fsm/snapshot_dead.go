package fsm

// writeDead writes what dead-letter queues add to the state.
func (v *View) writeDead(f *frameWriter, queues []int32) {
	of := func(mv *move) *message { return v.messages.Get(mv.message) }
	f.section(sectionMoves)
	eachSorted(v.moves, func(mv *move) bool { return mv.origin != 0 && v.holds(of(mv)) },
		func(mv *move) ID { return of(mv).id }, func(mv *move) bool {
			f.record()
			f.id(of(mv).id)
			f.id(mv.old)
			f.uvarint(uint64(mv.origin))
			f.bytes(v.blob(v.workers.Get(mv.name).text))
			f.u8(uint8(mv.reason))
			f.u8(mv.priority)
			f.varint(mv.failedAt)
			f.varint(mv.ttl)
			f.id(mv.lease)
			if mv.lease.IsZero() {
				return f.err() == nil
			}
			f.varint(mv.cutoff)
			f.u8(uint8(mv.end))
			f.uvarint(uint64(mv.attempts))
			f.bytes(v.blob(mv.history))
			f.bytes(v.blob(v.workers.Get(mv.worker).text))
			return f.err() == nil
		})
	f.section(sectionStays)
	eachSorted(v.messages, func(m *message) bool {
		return v.holds(m) && m.state == StateDead && v.sides.Get(m.side).stay != stayNot
	}, func(m *message) ID { return m.id }, func(m *message) bool {
		f.record()
		f.id(m.id)
		f.u8(uint8(v.sides.Get(m.side).stay))
		return f.err() == nil
	})
	f.section(sectionDeadQueues)
	for _, slot := range queues {
		m, t := v.metas[slot], v.tallies.Get(slot)
		if m.options.DeadLetterQueue == "" && t.movedOut == 0 && t.movedIn == 0 && t.stayed == 0 {
			continue
		}
		f.record()
		f.uvarint(uint64(m.number))
		f.text(m.options.DeadLetterQueue)
		f.varint(t.movedOut)
		f.varint(t.movedIn)
		f.varint(t.stayed)
	}
}

func (rs *restorer) moves() {
	s, f := rs.s, rs.f
	var last ID
	for f.more() {
		id := f.id()
		mv := move{old: f.id(), worker: none}
		origin := f.uvarint()
		name := append([]byte(nil), f.bytes(MaxQueueName)...)
		mv.reason, mv.priority = DeadReason(f.u8()), f.u8()
		mv.failedAt, mv.ttl, mv.lease = rs.instant(), f.varint(), f.id()
		var history, worker []byte
		if !mv.lease.IsZero() {
			mv.cutoff, mv.end = rs.instant(), leaseEnd(f.u8())
			attempts := f.uvarint()
			mv.attempts = uint16(attempts)
			history = append(history, f.bytes(MaxError+MaxHistory*(MaxWorker+MaxAttemptError+64))...)
			worker = append(worker, f.bytes(MaxWorker)...)
			if f.err() == nil && (attempts > 1<<16-1 || mv.end == endNone || mv.end > endReplaced || !ValidText(worker, MaxWorker) ||
				len(history) > 0 && !validHistory(history)) {
				f.fail("move of %s has a lease out of range", id)
			}
		}
		if f.err() != nil {
			return
		}
		slot, ok := s.byID.Find(hashID(id), func(v int32) bool { return s.messages.Get(v).id == id })
		switch {
		case id.Compare(last) <= 0:
			f.fail("move of %s after %s", id, last)
		case !ok || s.messages.Get(slot).flags&flagMoved == 0 || s.messages.Get(slot).bits&(hasTask|hasRedrive) != hasTask|hasRedrive:
			f.fail("move of %s, which is no message that was moved", id)
		case origin == 0 || origin > uint64(s.queueNumbers) || !ValidQueueName(name):
			f.fail("move of %s is from queue %d %q", id, origin, name)
		case mv.old.IsZero() || mv.reason == ReasonNone || mv.reason > ReasonMapping || mv.failedAt > s.now || mv.ttl < 0 || mv.ttl > maxInstant || mv.priority > MaxPriority:
			f.fail("move of %s has fields out of range", id)
		}
		if f.err() != nil {
			return
		}
		last = id
		mv.origin = uint32(origin)
		if q := s.byNumber(mv.origin); q != nil && (q.meta.name != string(name) || q.slot == s.messages.Get(slot).queue) {
			f.fail("move of %s is from queue %q, want another than %q", id, name, q.meta.name)
			return
		}
		mv.name = s.worker(name)
		s.workers.Mut(mv.name).count++
		if !mv.lease.IsZero() {
			mv.worker = s.worker(worker)
			s.workers.Mut(mv.worker).count++
		}
		sl := s.moves.Alloc()
		if len(history) > 0 {
			mv.history = s.arena.PutBytes(owner(ownMove, sl), history)
		}
		*s.moves.Mut(sl) = mv
		s.linkMove(sl, slot)
		m := s.messages.Get(slot)
		if home := s.home(m); home != nil && !rs.unique(home, slot) {
			return
		}
		s.indexTask(slot)
		if m.state != StateDead {
			q := s.queues[m.queue]
			s.indexDead(q, slot, true)
			s.tallies.Mut(q.slot).moved++
		}
	}
	if f.err() == nil && s.moves.Len() != rs.moved {
		f.fail("%d moves of %d messages that were moved", s.moves.Len(), rs.moved)
	}
}

func (rs *restorer) stays() {
	s, f := rs.s, rs.f
	var last ID
	for f.more() {
		id, why := f.id(), stayed(f.u8())
		if f.err() != nil {
			return
		}
		slot, ok := s.byID.Find(hashID(id), func(v int32) bool { return s.messages.Get(v).id == id })
		if !ok || id.Compare(last) <= 0 || s.messages.Get(slot).state != StateDead || why == stayNot || why >= stayEnd {
			f.fail("dead letter %s stays for reason %d after %s", id, why, last)
			return
		}
		last = id
		s.sides.Mut(s.messages.Get(slot).side).stay = why
	}
}

func (rs *restorer) deadQueues() {
	s, f := rs.s, rs.f
	last := uint32(0)
	for f.more() {
		q := rs.queue()
		name := f.str(MaxQueueName)
		out, in, stay := f.varint(), f.varint(), f.varint()
		if f.err() != nil {
			return
		}
		if q.meta.number <= last || name != "" && !ValidQueueName([]byte(name)) || name == q.meta.name || out < 0 || in < 0 || stay < 0 ||
			name == "" && out == 0 && in == 0 && stay == 0 {
			f.fail("queue %q has dead-letter queue %q, or counts out of range", q.meta.name, name)
			return
		}
		last = q.meta.number
		q.meta.options.DeadLetterQueue = name
		s.nameDead(name, 1)
		t := s.tallies.Mut(q.slot)
		t.movedOut, t.movedIn, t.stayed = out, in, stay
	}
}
