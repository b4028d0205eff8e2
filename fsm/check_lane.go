package fsm

import "fmt"

// queueLanes checks what waits in the lanes of a queue and says how many messages that are.
func (c *checker) queueLanes(q *queue) (blocked int64) {
	s, t := c.s, c.s.tallies.Get(q.slot)
	n, older := 0, none
	for r := q.rows.head; r != none; r = s.rows.Get(r).newer {
		if !s.rows.Live(r) || n > s.rows.Len() {
			c.bad("queue %q has a row that is free, or a ring of them", q.meta.name)
			return blocked
		}
		w := s.rows.Get(r)
		if w.older != older || w.queue != q.slot || w.gen != t.liveGen || w.head == none {
			c.bad("queue %q: a row is out of place, or nobody waits in it", q.meta.name)
		}
		n++
		older = r
		if !s.messages.Live(w.holder) {
			c.bad("queue %q: a lane is held by slot %d, which is free", q.meta.name, w.holder)
			continue
		}
		h := s.messages.Get(w.holder)
		key, ordered := s.laneKey(q, h)
		where := fmt.Sprintf("queue %q lane %q", q.meta.name, key)
		if !ordered || h.flags&flagHolds == 0 || s.rowOf(h) != r {
			c.bad("%s is held by message %s, which does not know it", where, h.id)
		}
		last, place, at := none, h.place, w.head
		for ; at != none; at = s.messages.Get(at).next {
			c.link(at, where)
			m := s.messages.Get(at)
			text, _ := s.laneKey(q, m)
			if m.state != StateReady || m.flags&^(flagPushed|flagHooked|flagMoved) != flagBlocked || m.queue != q.slot || m.gen != t.liveGen ||
				m.place <= place || m.priority != DefaultPriority || m.prev != last || s.readyRow(m) != r || string(text) != string(key) {
				c.bad("%s: message %s does not belong (state %d, place %d after %d)", where, m.id, m.state, m.place, place)
				return blocked
			}
			last, place = at, m.place
			if blocked++; blocked > int64(s.messages.Len()) {
				c.bad("%s is a ring", where)
				return blocked
			}
		}
		if found, _, _ := s.lastOf(q, h); found != last {
			c.bad("%s ends with slot %d, the index says %d", where, last, found)
		}
	}
	if q.rows.tail != older {
		c.bad("queue %q: the last row is %d, want %d", q.meta.name, q.rows.tail, older)
	}
	c.inRows += n
	return blocked
}

// lanes checks what is not of one queue: that every message of an ordered queue that can be seen is in a lane, that each has one
// holder, and that no lane is left over.
func (c *checker) lanes() {
	s := c.s
	lanes, purged := 0, 0
	s.messages.Each(func(slot int32, m *message) bool {
		inLane := m.flags & (flagBlocked | flagHolds)
		if m.state == StateDone || !s.alive(m) || m.state == StateDead || m.state == StateScheduled {
			if inLane != 0 {
				purged++
			}
			return true // what was handed over is in no queue, and its queue may be gone
		}
		q := s.queues[m.queue]
		last, _, ordered := s.lastOf(q, m)
		switch {
		case ordered != (inLane == flagBlocked || inLane == flagHolds):
			c.bad("message %s of queue %q is in a lane: %t, want %t (%#x)", m.id, q.meta.name, !ordered, ordered, inLane)
		case inLane == flagHolds && s.rowOf(m) == none && last != slot:
			c.bad("message %s of queue %q is alone in its lane, but the index leads to slot %d", m.id, q.meta.name, last)
		case inLane == flagHolds && s.rowOf(m) != none && (!s.rows.Live(s.rowOf(m)) || s.rows.Get(s.rowOf(m)).holder != slot):
			c.bad("message %s of queue %q holds a lane that another holds", m.id, q.meta.name)
		}
		if inLane == flagHolds {
			lanes++
		}
		return true
	})
	if n := s.laneIx.Len(); n < lanes || n > lanes+purged {
		c.bad("%d lanes in the index, a scan finds %d and %d purged messages", n, lanes, purged)
	}
	purged = 0
	s.rows.Each(func(_ int32, w *row) bool {
		if t := s.tallies.Get(w.queue); t.gone || w.gen != t.liveGen {
			purged++
		}
		return true
	})
	if n := s.rows.Len(); n != c.inRows+purged {
		c.bad("%d rows: queues have %d, purged are %d", n, c.inRows, purged)
	}
}

// victims checks the heap of what may be dropped: everything that may, each at the key that its record says, and nothing where
// nothing is dropped.
func (c *checker) victims(q *queue) {
	s := c.s
	want := 0
	if q.meta.options.Overflow == OverflowDropOldest {
		s.messages.Each(func(slot int32, m *message) bool {
			if m.queue != q.slot || !s.alive(m) {
				return true
			}
			key, ok := s.victimKey(q, m)
			pos, there := s.exposed(q, slot)
			if ok {
				want++
			}
			if ok != there {
				c.bad("queue %q: message %s in state %d can be dropped: %t, want %t", q.meta.name, m.id, m.state, there, ok)
			} else if there {
				if at, _ := q.victims.At(pos); at != key {
					c.bad("queue %q: message %s would be dropped by %d, want %d", q.meta.name, m.id, at, key)
				}
			}
			return true
		})
	}
	if q.victims.Len() != want || q.pending.drops != 0 || q.pending.dropBytes != 0 || len(s.planned) != 0 {
		c.bad("queue %q: %d messages can be dropped, a scan finds %d; %d are planned", q.meta.name, q.victims.Len(), want, len(s.planned))
	}
}
