package fsm

// A clock is a heap of queues by the earliest thing of one kind in each. Two levels, so that a purge or a deletion drops a
// queue's own heap whole instead of picking a million members out of a shared one.
const (
	clockDue    = iota // delays, retries and ttls, by T
	clockLease         // lease deadlines, by lease time
	clockDedup         // ends of dedup keys
	clockResult        // ends of results
	clockTomb          // ends of tombstones
	clockDead          // ends of dead letters, as the option stands
	clockDebt          // instants of keys' rates, ns
	clocks
)

// head is the earliest thing of kind k in a queue: its time, its slot, and the kind of move it makes.
func (s *State) head(k int, q *queue) (at int64, slot int32, kind moveKind, ok bool) {
	switch k {
	case clockDue:
		at, slot, ok = q.due.Min()
		if ok {
			_, kind = s.nextMove(slot)
		}
	case clockLease:
		at, slot, ok = q.leases.Min()
	case clockDedup:
		at, slot, ok = q.dedups.Min()
	case clockResult:
		at, slot, ok = q.results.Min()
	case clockDebt:
		at, slot, ok = q.debts.Min()
	case clockTomb:
		if slot = s.tallies.Get(q.slot).tombHead; slot != none {
			at, ok = s.tombs.Get(slot).end(), true
		}
	case clockDead:
		if slot = q.dead.head; slot != none {
			at, ok = s.sides.Get(s.messages.Get(slot).side).due, true
			if at >= s.tallies.Get(q.slot).deadCut {
				at += q.meta.options.DeadRetentionMillis
			}
		}
	}
	return at, slot, kind, ok
}

// clockFix puts the queue where it belongs in clock k. Call it after every change of the queue's own heap or list.
func (s *State) clockFix(k int, q *queue) {
	at, slot, kind, ok := s.head(k, q)
	pos := q.clockPos[k]
	switch h := &q.clockHead[k]; {
	case !ok:
		if pos >= 0 {
			s.clocks[k].Remove(pos)
			q.clockPos[k] = none
		}
		*h = clockHead{slot: none}
	case pos < 0:
		*h = clockHead{at: at, slot: slot, kind: kind}
		s.clocks[k].Push(at, q.slot)
	case h.at != at || h.slot != slot || h.kind != kind:
		*h = clockHead{at: at, slot: slot, kind: kind}
		s.clocks[k].Fix(pos, at)
	}
}

type clockHead struct {
	at   int64
	slot int32
	kind moveKind
}

// clockLess orders two queues whose earliest things fall on the same millisecond, by (kind, position).
func (s *State) clockLess(k int, a, b int32) bool {
	ha, hb := &s.queues[a].clockHead[k], &s.queues[b].clockHead[k]
	if ha.kind != hb.kind {
		return ha.kind < hb.kind
	}
	switch k {
	case clockTomb: // tombstones of one millisecond: the message's id
		return s.tombs.Get(ha.slot).id.Compare(s.tombs.Get(hb.slot).id) < 0
	case clockDead:
		return s.messages.Get(ha.slot).id.Compare(s.messages.Get(hb.slot).id) < 0
	}
	return s.cmpLess[k](ha.slot, hb.slot)
}

// advance moves T to the entry's time, never back, and takes its shift as far as T moved.
func (s *State) advance(now, shift int64) {
	t := min(max(s.now, now), MaxTime)
	s.shift += min(max(shift, 0), t-s.now)
	s.now = t
}
