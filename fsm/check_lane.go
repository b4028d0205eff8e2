package fsm

import "fmt"

// queueLanes checks the lanes of a queue and says how many messages wait in them.
func (c *checker) queueLanes(q *queue) (blocked int64) {
	s, t := c.s, c.s.tallies.Get(q.slot)
	n, older := 0, none
	for ln := q.lanes.head; ln != none; ln = s.lanes.Get(ln).newer {
		if !s.lanes.Live(ln) || n > s.lanes.Len() {
			c.bad("queue %q has a lane that is free, or a ring of them", q.meta.name)
			return blocked
		}
		l := s.lanes.Get(ln)
		if older != none && l.head == none && s.lanes.Get(older).head != none {
			c.bad("queue %q: a lane stands behind one in which messages wait", q.meta.name)
		}
		n++
		if !s.messages.Live(l.holder) {
			c.bad("queue %q: a lane is held by slot %d, which is free", q.meta.name, l.holder)
			older = ln
			continue
		}
		key := s.laneText(q, l)
		where := fmt.Sprintf("queue %q lane %q", q.meta.name, key)
		if at, ok := s.findLane(q, l.hash, key); !ok || at != ln || l.hash != s.hashLane(q, key) || l.queue != q.slot || l.gen != t.liveGen ||
			l.older != older {
			c.bad("%s is not found, not alone or out of place", where)
		}
		older = ln
		h := s.messages.Get(l.holder)
		if at, _, ordered := s.laneOf(q, h); !ordered || at != ln || h.queue != q.slot || !s.alive(h) || h.flags&flagBlocked != 0 ||
			h.state != StateReady && h.state != StateLeased && h.state != StateRetrying {
			c.bad("%s is held by message %s in state %d", where, h.id, h.state)
		}
		last := h.place
		blocked += c.walk(list{l.head, l.tail}, where, func(m *message) {
			if m.state != StateReady || m.flags&^(flagPushed|flagHooked|flagMoved) != flagBlocked || m.queue != q.slot || m.gen != t.liveGen ||
				m.place <= last || m.priority != DefaultPriority {
				c.bad("%s: message %s does not belong (state %d, place %d after %d)", where, m.id, m.state, m.place, last)
			}
			if at, _, _ := s.laneOf(q, m); at != ln {
				c.bad("%s: message %s is of another", where, m.id)
			}
			last = m.place
		})
	}
	if q.lanes.tail != older {
		c.bad("queue %q: the last lane is %d, want %d", q.meta.name, q.lanes.tail, older)
	}
	c.inLanes += n
	return blocked
}

// lanes checks what is not of one queue: that every message of an ordered queue that can be seen has its lane, and that no
// lane is left over.
func (c *checker) lanes() {
	s := c.s
	s.messages.Each(func(slot int32, m *message) bool {
		if m.state == StateDone || !s.alive(m) || m.state == StateDead || m.state == StateScheduled {
			return true // what was handed over is in no queue, and its queue may be gone
		}
		q := s.queues[m.queue]
		ln, _, ordered := s.laneOf(q, m)
		blocked := m.flags&flagBlocked != 0
		switch {
		case !ordered && blocked:
			c.bad("message %s waits in a lane that it does not belong to", m.id)
		case ordered && (ln == none || blocked == (s.lanes.Get(ln).holder == slot)):
			c.bad("message %s of queue %q has no lane, or not its place there", m.id, q.meta.name)
		}
		return true
	})
	purged := 0
	s.lanes.Each(func(_ int32, l *lane) bool {
		if t := s.tallies.Get(l.queue); t.gone || l.gen != t.liveGen {
			purged++
		}
		return true
	})
	if n := s.lanes.Len(); n != c.inLanes+purged || s.laneIx.Len() != n {
		c.bad("%d lanes, %d indexed: queues have %d, purged are %d", n, s.laneIx.Len(), c.inLanes, purged)
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
