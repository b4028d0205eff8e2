package fsm

// QueueRef is a queue that a reader has looked up and comes back to, without its name being hashed and compared each time. It stays
// good over entries; where its queue has been deleted, or is of another State, it is a queue that does not exist, as the zero value is.
// A queue made anew under the same name is another one. Readers that use it share the State with Apply, under one lock.
type QueueRef struct {
	s *State
	q *queue
}

// Lookup is the queue of a name, zero if there is none.
func (s *State) Lookup(name []byte) QueueRef {
	if q := s.findQueueRead(name); q != nil {
		return QueueRef{s, q}
	}
	return QueueRef{}
}

// Holds says whether the queue still exists in this state.
func (s *State) Holds(r QueueRef) bool { return s.of(r) != nil }

func (s *State) of(r QueueRef) *queue {
	if r.s != s || r.q.gone {
		return nil
	}
	return r.q
}

// Number is the queue's, 0 of none.
func (r QueueRef) Number() uint32 {
	if r.q == nil {
		return 0
	}
	return r.q.meta.number
}

// QueueOrdering is the ordering of a queue, unordered when it is gone.
func (s *State) QueueOrdering(r QueueRef) Ordering {
	if q := s.of(r); q != nil {
		return q.meta.options.Ordering
	}
	return OrderUnordered
}

// Throttled says whether a queue's ready messages may not be leased for reasons of its options: it is paused; or fewer than are
// enqueued may come to be leasable: it has a limit on what is out or on the rate, keys matter in it, or it drops what waits to
// make room.
func (s *State) Throttled(r QueueRef) (paused, limited bool) {
	if q := s.of(r); q != nil {
		o := &q.meta.options
		return o.Paused, o.MaxInFlight != 0 || o.RateMilli != 0 || o.Overflow == OverflowDropOldest || q.meta.keyed
	}
	return false, false
}

// KeysMatter says whether what is leased of a queue depends on keys beyond their order.
func (s *State) KeysMatter(r QueueRef) bool {
	q := s.of(r)
	return q != nil && q.meta.keyed
}

// AtMostOnce says whether a queue delivers at most once.
func (s *State) AtMostOnce(r QueueRef) bool {
	q := s.of(r)
	return q != nil && q.meta.options.Delivery == DeliverAtMostOnce
}

// KeyParked says whether a message that becomes ready in a queue would have to wait for others of its key or for its rate. It
// does not allocate.
func (s *State) KeyParked(r QueueRef, key []byte) bool {
	q := s.of(r)
	if q == nil || !q.meta.keyed {
		return false
	}
	ki, ok := s.findKey(q, key)
	if !ok {
		return false
	}
	k := s.keys.Get(ki)
	return k.state.parked() && k.gen == s.tallies.Get(q.slot).liveGen || s.full(q, k)
}
