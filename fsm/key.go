package fsm

import (
	"github.com/quorate/quorate/fsm/arena"
	"github.com/quorate/quorate/fsm/table"
)

// keyRec is what a queue whose keys matter (max_in_flight_per_key, rate_per_key, fair_by = key) knows of one of them: 80 bytes. It
// exists while something of the key is ready or out, or its rate is in debt. The messages without a key have one as well,
// which knows no limits.
type keyRec struct {
	text         arena.Ref // 0: no key
	tat          int64     // of its rate, ns; 0: no debt
	until        int64     // held: the T at which its rate lets it serve
	queue        int32     // slot
	gen          uint32    // the queue's liveGen that what follows of ready messages is of: not equal means purged
	flows        int32     // first of its flows, by sibling
	ready        int32     // messages in them
	offer        int32     // how many of them can be leased at once, by T when that was last looked at
	out          int32     // live leases
	records      int32     // flows that point here, purged ones included
	debtPos      int32     // in the queue's debts
	heldPos      int32     // in the queue's held
	older, newer int32     // keys of the queue
	state        keyState
}

// keyState says whether what is ready of a key can be leased.
type keyState uint8

const (
	keyIdle keyState = iota // nothing is ready
	keyOpen                 // yes
	keyFull                 // no: as much of it is out as may be
	keyHeld                 // no: its rate holds it, until its time is noticed
)

func (k keyState) parked() bool { return k == keyFull || k == keyHeld }

// keyText is the key of a message, nil where it has none.
func (s *State) keyText(m *message) []byte {
	if m.bits&hasKey == 0 {
		return nil
	}
	return blobKey(m.bits, s.arena.Get(m.body))
}

func (s *State) findKey(q *queue, text []byte) (int32, bool) {
	return s.keyIx.Find(s.hashLane(q, text), func(v int32) bool {
		k := s.keys.Get(v)
		return k.queue == q.slot && string(s.blob(k.text)) == string(text)
	})
}

// key is the record of a key, made if need be. The caller puts something into it or calls dropKey.
func (s *State) key(q *queue, text []byte) int32 {
	ki, ok := s.findKey(q, text)
	if ok {
		s.freshKey(q, ki)
		return ki
	}
	ki = s.keys.Alloc()
	*s.keys.Mut(ki) = keyRec{
		queue: q.slot, gen: s.tallies.Get(q.slot).liveGen, flows: none, debtPos: none, heldPos: none, older: q.keys.tail, newer: none,
	}
	if len(text) > 0 {
		s.keys.Mut(ki).text = s.arena.PutBytes(owner(ownKey, ki), text)
	}
	s.keyIx.Insert(s.hashLane(q, text), ki)
	if q.keys.tail != none {
		s.keys.Mut(q.keys.tail).newer = ki
	} else {
		q.keys.head = ki
	}
	q.keys.tail = ki
	return ki
}

// freshKey forgets what a purge has taken from a key.
func (s *State) freshKey(q *queue, ki int32) {
	if gen := s.tallies.Get(q.slot).liveGen; s.keys.Get(ki).gen != gen {
		k := s.keys.Mut(ki)
		k.gen, k.flows, k.ready, k.offer, k.until, k.heldPos, k.state = gen, none, 0, 0, 0, none, keyIdle
	}
}

// dropKey removes the record of a key of which there is nothing any more.
func (s *State) dropKey(q *queue, ki int32) {
	k := s.keys.Get(ki)
	if k.records != 0 || k.out != 0 || k.tat != 0 {
		return
	}
	if k.older != none {
		s.keys.Mut(k.older).newer = k.newer
	} else {
		q.keys.head = k.newer
	}
	if k.newer != none {
		s.keys.Mut(k.newer).older = k.older
	} else {
		q.keys.tail = k.older
	}
	s.freeKey(q, ki)
}

// freeKey gives back the record of a key that is linked nowhere.
func (s *State) freeKey(q *queue, ki int32) {
	k := s.keys.Get(ki)
	s.keyIx.Delete(s.hashLane(q, s.blob(k.text)), ki)
	s.arena.Free(k.text)
	s.keys.Free(ki)
}

// keyLess orders keys by their bytes, none first, and those of different queues by queue.
func (s *State) keyLess(a, b int32) bool {
	ka, kb := s.keys.Get(a), s.keys.Get(b)
	if x, y := string(s.blob(ka.text)), string(s.blob(kb.text)); x != y {
		return x < y
	}
	return s.queues[ka.queue].meta.number < s.queues[kb.queue].meta.number
}

// setDebt notes a key's instant and puts it among the debts, or takes it out where it is none.
func (s *State) setDebt(q *queue, ki int32, tat int64) {
	pos := s.keys.Get(ki).debtPos
	s.keys.Mut(ki).tat = tat
	switch {
	case tat == 0 && pos != none:
		q.debts.Remove(pos)
	case tat != 0 && pos == none:
		q.debts.Push(tat, ki)
	case tat != 0:
		q.debts.Fix(pos, tat)
	}
	s.clockFix(clockDebt, q)
}

// keyOut counts a message of a key that is out (+1) or no more (−1). What it lets out again is leased in its turn.
func (s *State) keyOut(q *queue, text []byte, n int32) {
	ki := s.key(q, text)
	k := s.keys.Mut(ki)
	if k.out += n; k.state == keyFull {
		s.judge(q, ki)
	}
	s.offerKey(q, ki)
	s.dropKey(q, ki)
}

// keyRoom is how many more messages of a key may go out now.
func (s *State) keyRoom(q *queue, k *keyRec, at int64) int64 {
	n := int64(1<<63 - 1)
	if k.text == 0 {
		return n
	}
	if most := q.meta.options.MaxInFlightPerKey; most != 0 {
		n = max(0, most-int64(k.out))
	}
	return min(n, q.meta.keyRate.room(k.tat, at))
}

// judge decides whether a key's ready messages can be leased, as it stands at T, and parks or opens its flows. It is called
// when its first message becomes ready, when one of them is leased, and when what it was parked for may be over.
func (s *State) judge(q *queue, ki int32) {
	k := s.keys.Get(ki)
	was := k.state
	want, until := s.verdict(q, k)
	s.setKey(q, ki, want, until)
	if want == keyHeld && (was == keyIdle || was == keyFull) {
		s.tellReady(q) // the leader waits for rates by itself, where it knows of something
	}
	if (was == keyOpen) == (want == keyOpen) {
		return
	}
	for fi := k.flows; fi != none; fi = s.flows.Get(fi).sibling {
		if want == keyOpen {
			s.enterFlow(q, fi)
		} else {
			s.exitFlow(q, fi)
		}
	}
	if want == keyOpen {
		s.tellReady(q)
	}
}

// verdict is how a key stands at T, and if its rate holds it, until when.
func (s *State) verdict(q *queue, k *keyRec) (want keyState, until int64) {
	switch {
	case k.ready == 0:
		return keyIdle, 0
	case k.text == 0:
	case s.full(q, k):
		return keyFull, 0
	case q.meta.keyRate.room(k.tat, s.now) == 0:
		return keyHeld, q.meta.keyRate.next(k.tat)
	}
	return keyOpen, 0
}

// full says whether as much of a key is out as may be.
func (s *State) full(q *queue, k *keyRec) bool {
	most := q.meta.options.MaxInFlightPerKey
	return most != 0 && k.text != 0 && int64(k.out) >= most
}

// setKey writes down how a key stands. Its flows are the caller's to open or close.
func (s *State) setKey(q *queue, ki int32, want keyState, until int64) {
	k := s.keys.Mut(ki)
	was := k.state
	if was == want && k.until == until {
		return
	}
	k.state, k.until = want, until
	switch {
	case want.parked() && !was.parked():
		q.parked += int64(k.ready)
	case was.parked() && !want.parked():
		q.parked -= int64(k.ready)
	}
	if was == keyHeld {
		q.held.Remove(k.heldPos)
	}
	if want == keyHeld {
		q.held.Push(until, ki)
	}
}

// offerKey books how many of a key's messages can be leased at once, and how many wait parked, after either has changed.
func (s *State) offerKey(q *queue, ki int32) {
	k := s.keys.Get(ki)
	n := int32(0)
	if k.state == keyOpen {
		n = int32(min(int64(k.ready), s.keyRoom(q, k, s.now)))
	}
	if n != k.offer {
		q.offered += int64(n - k.offer)
		s.keys.Mut(ki).offer = n
	}
}

// unpark opens the keys whose time has come, at most the format's number of them. It begins every operation that leases.
func (s *State) unpark(q *queue) {
	for range s.lim.unparks {
		at, ki, ok := q.held.Min()
		if !ok || at > s.now {
			return
		}
		s.judge(q, ki)
		s.offerKey(q, ki)
	}
}

// reclaimDebt ends a key's debt that time has paid.
func (s *State) reclaimDebt(q *queue) {
	_, ki, _ := q.debts.Min()
	s.setDebt(q, ki, 0)
	s.dropKey(q, ki)
}

// keyedHeaps gives a queue empty heaps of its keys and flows.
func (s *State) keyedHeaps(q *queue) {
	q.heads = table.Heap{Moved: s.moved.head}
	q.held = table.Heap{Less: s.cmpLess[clockDebt], Moved: s.moved.held}
	q.offered, q.parked, q.rings = 0, 0, 0
	for p := range q.ready {
		s.tallies.Mut(q.slot).rings[p] = none
	}
}
