package fsm

import "github.com/quorate/quorate/fsm/table"

// garbageJob is a set that a purge or a deletion has swapped out: nobody can see it, and its records are given back a few an
// entry. How far that has come is local and shows nowhere.
type garbageJob struct {
	kind garbageKind
	head int32 // list or slot
	heap table.Heap
	due  *table.Calendar
	pos  int32
}

type garbageKind uint8

const (
	garbageWaiting  garbageKind = iota // sides under the clock: scheduled and retrying messages are given back, ready ones are in a list too
	garbageReleased                    // messages
	garbageList                        // messages, by next
	garbageRows                        // by newer, with the messages that wait in them
	garbageLeased                      // sides
	garbageFlows                       // by newer, with the messages in them
	garbageKeys                        // by newer
	garbageDedups
	garbageResults
	garbageTombs // by next
	garbageQueue // the last of a queue: its slot
)

// collect works on the garbage, and on chunks of the arena that are mostly dead.
func (s *State) collect() {
	for left := s.lim.garbage; left > 0 && len(s.garbage) > 0; {
		j := &s.garbage[0]
		done := false
		left, done = s.collectJob(j, left)
		if done {
			*j = garbageJob{}
			if s.garbage = s.garbage[1:]; len(s.garbage) == 0 {
				s.garbage = nil
			}
		}
	}
	if s.lim.compact > 0 {
		s.arena.Compact(s.lim.compact+2*int(s.offset), s.ownerHolds, s.ownerMoved)
	}
}

func (s *State) collectJob(j *garbageJob, left int) (int, bool) {
	switch j.kind {
	case garbageList:
		for ; left > 0 && j.head != none; left-- {
			slot := j.head
			j.head = s.messages.Get(slot).next
			s.dropMessage(slot)
		}
		return left, j.head == none
	case garbageRows:
		for left > 0 && j.head != none {
			r := j.head
			for ; left > 0 && s.rows.Get(r).head != none; left-- {
				slot := s.rows.Get(r).head
				s.rows.Mut(r).head = s.messages.Get(slot).next
				s.dropMessage(slot)
			}
			if left > 0 {
				left--
				j.head = s.rows.Get(r).newer
				s.rows.Free(r)
			}
		}
		return left, j.head == none
	case garbageFlows:
		for left > 0 && j.head != none {
			left = s.collectFlow(j, left)
		}
		return left, j.head == none
	case garbageKeys:
		for ; left > 0 && j.head != none; left-- {
			ki := j.head
			k := s.keys.Get(ki)
			j.head = k.newer
			s.freeKey(s.queues[k.queue], ki)
		}
		return left, j.head == none
	case garbageTombs:
		for ; left > 0 && j.head != none; left-- {
			sl := j.head
			j.head = s.tombs.Get(sl).next
			s.freeTomb(sl)
		}
		return left, j.head == none
	case garbageWaiting:
		for ; left > 0 && j.pos != none; left-- {
			_, sl := j.due.At(j.pos)
			j.pos = j.due.After(j.pos)
			if slot := s.sides.Get(sl).message; s.messages.Get(slot).state != StateReady {
				s.dropMessage(slot)
			}
		}
		return left, j.pos == none
	case garbageQueue:
		s.tallies.Free(j.head)
		s.queues[j.head] = nil
		return left - 1, true
	}
	for ; left > 0 && int(j.pos) < j.heap.Len(); left-- {
		_, sl := j.heap.At(j.pos)
		j.pos++
		switch j.kind {
		case garbageReleased:
			s.dropMessage(sl)
		case garbageLeased:
			s.dropMessage(s.sides.Get(sl).message)
		case garbageDedups:
			s.dropDedup(s.queues[s.dedups.Get(sl).queue], sl)
		case garbageResults:
			s.dropResult(sl)
		}
	}
	return left, int(j.pos) >= j.heap.Len()
}

// ownerHolds says whether a blob is still what its owner's record points at.
func (s *State) ownerHolds(o uint64, r ref) bool {
	p := s.ownerRef(o, false)
	return p != nil && *p == r
}

func (s *State) ownerMoved(o uint64, _, to ref) { *s.ownerRef(o, true) = to }
