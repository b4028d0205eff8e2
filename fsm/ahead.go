package fsm

import "github.com/quorate/quorate/fsm/arena"

// What an entry is about to work on is mostly in no cache where millions of messages wait: each of its records is a wait for
// memory, one after the other. So the records of the next steps are looked at beforehand, in loops whose loads do not depend on
// each other and therefore wait together. It changes nothing and decides nothing; what is looked at in vain is only slower.

// aheadMost is for how many messages at once: more would push each other out of the cache again.
const aheadMost = 512

// aheadDue is how many due moves are made between two looks ahead.
const aheadDue = 128

// aheadLeast is from how many on it is worth it.
const aheadLeast = 4

// ahead is what a look ahead works with.
type ahead struct {
	acks  []ID // messages that the entry acknowledges, at most aheadMost
	slots []int32
	// hashes are of lanes that messages to be enqueued belong to.
	hashes []uint64
	sides  []int32
	blobs  []arena.Ref
	seen   uint64 // keeps the loads from being left out
}

// readAhead says whether every byte of an entry is understood, and notes what it is about.
func (s *State) readAhead(data []byte) error {
	d, a := &s.dec, &s.ahead
	if err := d.Reset(data); err != nil {
		return err
	}
	a.acks = a.acks[:0]
	for d.Next() {
		d.Skip()
		if op := d.Op(); (op == opAck || op == opAckMapped) && len(a.acks) < aheadMost {
			a.acks = append(a.acks, d.scratch.ack.Token.Message)
		}
	}
	return d.Err()
}

// lookAtAcks looks at what the entry's acks will need.
func (s *State) lookAtAcks() {
	a := &s.ahead
	if len(a.acks) < aheadLeast {
		return
	}
	a.slots = a.slots[:0]
	for i := range a.acks {
		h := hashID(a.acks[i])
		if slot, ok := s.byID.Peek(h); ok {
			a.slots = append(a.slots, slot)
		}
		slot, _ := s.tombID.Peek(h) // the tombstone's place
		a.seen += uint64(slot)
	}
	s.lookAt(a.slots)
	s.lookAtEnds(a.slots)
}

// lookAtEnds looks at what the ends of leases lead to: their places in the queue's heap, and who holds their lanes next.
func (s *State) lookAtEnds(slots []int32) {
	a := &s.ahead
	next := slots[:0]
	for _, slot := range slots {
		m := s.messages.Get(slot)
		if m.state != StateLeased {
			continue
		}
		q := s.queues[m.queue]
		if pos := s.sides.Get(m.side).heapPos; pos >= 0 && int(pos) < q.leases.Len() {
			at, _ := q.leases.At(pos)
			a.seen += uint64(at)
		}
		switch {
		case m.flags&flagHolds == 0:
		case m.next != none:
			next = append(next, s.rows.Get(m.next).head)
		default:
			key, _ := s.laneKey(q, m)
			last, _ := s.laneIx.Peek(s.hashLane(q, key))
			a.seen += uint64(last)
		}
	}
	for _, slot := range next {
		a.seen += s.messages.Get(slot).place
	}
}

// lookAtKeys looks at the lanes that messages to be enqueued belong to.
func (s *State) lookAtKeys(q *queue, ms []Message) {
	if q.meta.options.Ordering != OrderPerKey || len(ms) < aheadLeast {
		return
	}
	a := &s.ahead
	a.hashes, a.slots, a.blobs = a.hashes[:0], a.slots[:0], a.blobs[:0]
	for i := range ms {
		if key := ms[i].Key; len(key) > 0 {
			a.hashes = append(a.hashes, s.hashLane(q, key))
		}
	}
	for _, h := range a.hashes {
		if slot, ok := s.laneIx.Peek(h); ok {
			a.slots = append(a.slots, slot)
		}
	}
	for _, slot := range a.slots {
		a.blobs = append(a.blobs, s.messages.Get(slot).body)
	}
	for _, r := range a.blobs {
		a.seen += uint64(s.arena.Size(r))
	}
}

// lookAtDue looks at the next messages of a queue that are due.
func (s *State) lookAtDue(q *queue) {
	a := &s.ahead
	a.sides = q.due.Ahead(s.now, aheadMost/2, a.sides[:0])
	if len(a.sides) < aheadLeast {
		return
	}
	a.slots = a.slots[:0]
	for _, sl := range a.sides {
		a.slots = append(a.slots, s.sides.Get(sl).message)
	}
	s.lookAt(a.slots)
}

// lookAt looks at messages, their sides and their blobs.
func (s *State) lookAt(slots []int32) {
	a := &s.ahead
	a.sides, a.blobs = a.sides[:0], a.blobs[:0]
	for _, slot := range slots {
		m := s.messages.Get(slot)
		a.blobs = append(a.blobs, m.body)
		if m.hasSide() {
			a.sides = append(a.sides, m.side)
		}
	}
	for _, sl := range a.sides {
		sd := s.sides.Get(sl)
		a.seen += sd.lease.Lo + uint64(sd.end)
	}
	for _, r := range a.blobs {
		if r != 0 {
			a.seen += uint64(s.arena.Size(r))
		}
	}
}
