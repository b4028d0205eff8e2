package fsm

// Where a queue's overflow is drop_oldest, what waits in it stands in one more heap, by who goes first when room is made: the
// ready ones by priority, the lowest first, and place; then the retrying ones, but for those that hold a lane, and then the
// scheduled ones, both by the time they are due and their id. It is derived from states, places and times alone, so it is in no
// view and no snapshot, and it knows nothing of the lists and lanes in which the same messages are served.
//
//	enqueue ── room ── makeRoom: takes the first out of the heap until the new one would fit ── insert ── dropPlanned: they die
//	               └── refused, by this or anything after: unplan puts them back
//
// The victims are picked before anything changes and die when all is in that the operation brings, so that an operation that is
// refused drops nothing, and what dies can neither take the room that was promised nor be what came.

// Classes of victims, above every priority and place.
const (
	victimRetrying  = int64(1) << 60
	victimScheduled = int64(1) << 61
)

// victimKey is where a live message stands among those that may be dropped; false where it never is: out, or holding a lane.
func (s *State) victimKey(q *queue, m *message) (key int64, ok bool) {
	switch m.state {
	case StateReady:
		return int64(m.priority)<<56 | int64(m.place), true
	case StateScheduled:
		return victimScheduled + s.sides.Get(m.side).due, true
	case StateRetrying:
		if _, ordered := s.laneKey(q, m); ordered {
			return 0, false
		}
		return victimRetrying + s.sides.Get(m.side).due, true
	}
	return 0, false
}

// exposed says whether a message stands in its queue's heap of victims. The column of positions may hold that of a time before a
// purge, so the heap has the last word.
func (s *State) exposed(q *queue, slot int32) (pos int32, ok bool) {
	pos = s.victimAt.Get(slot) - 1
	if pos < 0 || int(pos) >= q.victims.Len() {
		return none, false
	}
	_, at := q.victims.At(pos)
	return pos, at == slot
}

// expose lets a message that has begun to wait be dropped. Its state, place and times are set.
func (s *State) expose(q *queue, slot int32) {
	if q.meta.options.Overflow != OverflowDropOldest {
		return
	}
	if key, ok := s.victimKey(q, s.messages.Get(slot)); ok {
		q.victims.Push(key, slot)
	}
}

// shelter takes a message that ceases to wait out of reach.
func (s *State) shelter(q *queue, slot int32) {
	if q.victims.Len() == 0 {
		return
	}
	if pos, ok := s.exposed(q, slot); ok {
		q.victims.Remove(pos)
	}
}

// exposeAll fills the heap of a queue that has just been told to drop; off empties it. It is the one pass over all messages
// that changing the option costs.
func (s *State) exposeAll(q *queue) {
	s.messages.Each(func(slot int32, m *message) bool {
		if m.queue == q.slot && s.alive(m) {
			s.expose(q, slot)
		}
		return true
	})
}

func (s *State) shelterAll(q *queue) {
	for i := range int32(q.victims.Len()) {
		_, slot := q.victims.At(i)
		s.victimAt.Set(slot, 0)
	}
	s.emptyVictims(q)
}

// excess says by how much a queue would pass its limits with one more message of so many bytes, beside what is planned.
func (s *State) excess(q *queue, size int64) (depth, bytes int64) {
	t, o, p := s.tallies.Get(q.slot), &q.meta.options, &q.pending
	if o.MaxDepth != 0 {
		depth = t.live() + p.messages - p.drops + 1 - o.MaxDepth
	}
	if o.MaxBytes != 0 {
		bytes = t.bytes + p.bytes - p.dropBytes + size - o.MaxBytes
	}
	return max(depth, 0), max(bytes, 0)
}

// makeRoom plans whom to drop so that a message of so many bytes fits, which it can (neverFits). A refusal leaves a plan that unplan must undo.
func (s *State) makeRoom(q *queue, size int64) Outcome {
	o := &q.meta.options
	for n := int64(0); ; n++ {
		depth, bytes := s.excess(q, size)
		if depth == 0 && bytes == 0 {
			return Outcome{}
		}
		can := min(MaxVictims-n, int64(q.victims.Len()))
		switch { // it names what would be passed still when all that may go had gone
		case depth > can:
			return refuse(QueueFull, FieldDepth, o.MaxDepth)
		case can == 0:
			return refuse(QueueFull, FieldBytes, o.MaxBytes)
		}
		_, slot, _ := q.victims.Pop()
		s.planned = append(s.planned, slot)
		q.pending.drops++
		q.pending.dropBytes += int64(s.arena.Size(s.messages.Get(slot).body))
	}
}

// unplan spares whom makeRoom had picked.
func (s *State) unplan() {
	s.settlePlan()
	for _, slot := range s.planned {
		s.expose(s.queues[s.messages.Get(slot).queue], slot)
	}
	s.planned = s.planned[:0]
}

// dropPlanned has those die whom makeRoom picked, in that order. Where they are moved to, they find what is there then: the
// operation's own messages are in, and those of other queues that are yet to be dropped are too.
func (s *State) dropPlanned() {
	s.settlePlan()
	for _, slot := range s.planned {
		q := s.queues[s.messages.Get(slot).queue]
		s.detach(q, slot, endNone)
		s.die(q, slot, ReasonOverflow)
	}
	s.planned = s.planned[:0]
}

// settlePlan ends the counting of planned drops as room.
func (s *State) settlePlan() {
	for _, slot := range s.planned {
		p := &s.queues[s.messages.Get(slot).queue].pending
		p.drops, p.dropBytes = 0, 0
	}
}
