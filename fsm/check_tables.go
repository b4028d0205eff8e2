package fsm

import "github.com/quorate/quorate/fsm/table"

// tables checks dedup keys, results and tombstones.
func (c *checker) tables() {
	s := c.s
	dedups, results, tombs := map[int32]int64{}, map[int32]int64{}, map[int32]int64{}
	s.dedups.Each(func(i int32, d *dedupKey) bool {
		dedups[d.queue]++
		if _, ok := s.dedupIdx.Find(s.queues[d.queue].hash16(&d.key), func(v int32) bool { return v == i }); !ok {
			c.bad("dedup key of %s is not found", d.id)
		}
		return true
	})
	bytes := map[int32]int64{}
	ids, tasks, origins := 0, 0, 0
	s.results.Each(func(i int32, r *result) bool {
		results[r.queue]++
		bytes[r.queue] += s.resultCost(r)
		c.blob("result", r.id, r.blob, owner(ownResult, i))
		if why := r.check(s.queues[r.queue], s.blob(r.blob)); why != "" {
			c.bad("result %d %s", r.seq, why)
		}
		s.eachResultKey(r, func(x *table.Index, h uint64) {
			switch x {
			case &s.resultID:
				ids++
			case &s.resultTk:
				tasks++
			default:
				origins++
			}
			if _, ok := x.Find(h, func(v int32) bool { return v == i }); !ok {
				c.bad("result %d is not found", r.seq)
			}
		})
		if r.seq > s.resultSeq {
			c.bad("result %d is past %d", r.seq, s.resultSeq)
		}
		return true
	})
	explicit := 0
	s.tombs.Each(func(i int32, t *tombstone) bool {
		tombs[t.queue]++
		if _, ok := s.tombID.Find(hashID(t.id), func(v int32) bool { return v == i }); !ok {
			c.bad("tombstone of %s is not found", t.id)
		}
		if t.task != [16]byte{} {
			explicit++
		}
		return true
	})
	for _, slot := range s.names {
		q, t := s.queues[slot], s.tallies.Get(slot)
		if t.dedups != dedups[slot] || t.results != results[slot] || t.tombs != tombs[slot] || t.resultBytes != bytes[slot] {
			c.bad("queue %q counts %d dedup keys, %d results of %d bytes, %d tombstones; a scan finds %d, %d of %d, %d", q.meta.name,
				t.dedups, t.results, t.resultBytes, t.tombs, dedups[slot], results[slot], bytes[slot], tombs[slot])
		}
		listed, place := int64(0), uint64(0)
		q.order.after(0, func(seq uint64, at int32) bool {
			if seq <= place || !s.results.Live(at) || s.results.Get(at).seq != seq || s.results.Get(at).queue != slot {
				c.bad("queue %q lists result %d after %d, which is not its own", q.meta.name, seq, place)
			}
			place = seq
			listed++
			return true
		})
		if listed != t.results {
			c.bad("queue %q lists %d results of %d", q.meta.name, listed, t.results)
		}
		if t.tombs > s.lim.tombstones {
			c.bad("queue %q has %d tombstones, want at most %d", q.meta.name, t.tombs, s.lim.tombstones)
		}
		n, last, end := int64(0), none, int64(0)
		for sl := t.tombHead; sl != none && n <= t.tombs; sl = s.tombs.Get(sl).next {
			if e := s.tombs.Get(sl).end(); e < end {
				c.bad("queue %q: tombstone of %s is out of order", q.meta.name, s.tombs.Get(sl).id)
			} else {
				end = e
			}
			last = sl
			n++
		}
		if n != t.tombs || last != t.tombTail {
			c.bad("queue %q: a walk finds %d tombstones of %d", q.meta.name, n, t.tombs)
		}
	}
	for _, n := range [...]struct {
		what      string
		have, got int
	}{
		{"dedup keys", s.dedupIdx.Len(), s.dedups.Len()},
		{"results by id", s.resultID.Len(), ids},
		{"results by task", s.resultTk.Len(), tasks},
		{"results by origin", s.resultOr.Len(), origins},
		{"tombstones", s.tombID.Len(), s.tombs.Len()},
		{"tombstones by task", s.tombTk.Len(), explicit},
	} {
		if n.have != n.got {
			c.bad("%d %s indexed, a scan finds %d", n.have, n.what, n.got)
		}
	}
}

// sessions checks the sessions and what they remember.
func (c *checker) sessions() {
	s := c.s
	memos := 0
	s.sessions.Each(func(i int32, ses *session) bool {
		if at, ok := s.sessionIx.Find(hashID(ses.id), func(v int32) bool { return v == i }); !ok || at != i {
			c.bad("session %s is not found", ses.id)
		}
		n, prev := int32(0), none
		for at := ses.oldest; at != none; at = s.memos.Get(at).next {
			m := s.memos.Get(at)
			if m.prev != prev || m.number-ses.low >= RequestWindow || prev != none && s.memos.Get(prev).number >= m.number {
				c.bad("session %s: outcome %d is out of place", ses.id, m.number)
			}
			prev = at
			if n++; n > RequestWindow {
				break
			}
		}
		if n != ses.count || prev != ses.newest {
			c.bad("session %s counts %d outcomes, a walk finds %d", ses.id, ses.count, n)
		}
		memos += int(n)
		return true
	})
	if memos != s.memos.Len() || s.sessionIx.Len() != s.sessions.Len() || s.idle.Len() != s.sessions.Len() {
		c.bad("%d outcomes of %d, %d sessions of which %d indexed, %d timed", memos, s.memos.Len(), s.sessions.Len(),
			s.sessionIx.Len(), s.idle.Len())
	}
	if b := s.sessionBytes(); b > s.lim.sessionBytes {
		c.bad("sessions hold %d bytes, want at most %d", b, s.lim.sessionBytes)
	}
}
