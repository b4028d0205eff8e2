package fsm

import "github.com/quorate/quorate/fsm/table"

// tombstone remembers a task that was done without a result, or cancelled: 64 bytes.
type tombstone struct {
	id, lease ID
	task      [16]byte // hash of (queue, task id); zero where the message id is the task id
	ends      uint64   // T from which on it is forgotten << 8 | outcome
	queue     int32
	next      int32 // the queue's next younger one
}

// Outcomes of a tombstone. Numbers are part of the snapshot format.
const (
	tombDone      = 1
	tombCancelled = 2
	tombTaken     = 4 // done when it was leased: delivered at most once
	tombClosed    = 3 // a dead letter that was acked where it was moved to: found by its token only
	// tombDuplicate is a task whose result was pushed under an id it had before: acked again, it is answered as it was.
	tombDuplicate = 5
)

func (t *tombstone) end() int64 { return int64(t.ends >> 8) }

func (t *tombstone) outcome() uint8 { return uint8(t.ends) }

// addTomb remembers a message that is done or cancelled; the queue's oldest goes if there are too many.
func (s *State) addTomb(q *queue, m *message, lease ID, outcome uint8) {
	t := s.tallies.Mut(q.slot)
	if t.tombs >= s.lim.tombstones {
		s.dropTomb(q)
		t.tombsDropped++
	}
	sl := s.tombs.Alloc()
	tm := tombstone{id: m.id, lease: lease, ends: uint64(s.now+TombstoneMillis)<<8 | uint64(outcome), queue: q.slot}
	if outcome != tombClosed { // which names no task
		tm.task = s.taskHash(q, m)
	}
	*s.tombs.Mut(sl) = tm
	s.linkTomb(q, sl)
}

func (s *State) linkTomb(q *queue, sl int32) {
	tm := s.tombs.Mut(sl)
	tm.next = none
	s.tombID.Insert(hashID(tm.id), sl)
	if tm.task != [16]byte{} {
		s.tombTk.Insert(table.Hash16(&tm.task), sl)
	}
	t := s.tallies.Mut(q.slot)
	t.tombs++
	if t.tombTail != none {
		s.tombs.Mut(t.tombTail).next = sl
		t.tombTail = sl
		return
	}
	t.tombHead, t.tombTail = sl, sl
	s.clockFix(clockTomb, q)
}

// dropTomb removes the queue's oldest tombstone.
func (s *State) dropTomb(q *queue) {
	t := s.tallies.Mut(q.slot)
	sl := t.tombHead
	if t.tombHead = s.tombs.Get(sl).next; t.tombHead == none {
		t.tombTail = none
	}
	t.tombs--
	s.freeTomb(sl)
	s.clockFix(clockTomb, q)
}

func (s *State) freeTomb(sl int32) {
	tm := s.tombs.Get(sl)
	s.tombID.Delete(hashID(tm.id), sl)
	if tm.task != [16]byte{} {
		s.tombTk.Delete(table.Hash16(&tm.task), sl)
	}
	s.tombs.Free(sl)
}

func (s *State) tombThere(t *tombstone) bool { return t.end() > s.now && !s.tallies.Get(t.queue).gone }

func (s *State) findTomb(id ID) (int32, bool) {
	return s.tombID.Find(hashID(id), func(v int32) bool {
		t := s.tombs.Get(v)
		return t.id == id && s.tombThere(t)
	})
}

func (s *State) findTombTask(h *[16]byte) (int32, bool) {
	return s.tombTk.Find(table.Hash16(h), func(v int32) bool {
		t := s.tombs.Get(v)
		return t.task == *h && s.tombThere(t)
	})
}
