package fsm

// Standing is what keeps ready messages of a queue from being leased at an instant. Each reason is judged by itself: several may
// hold at once, and then all of them have to end.
type Standing struct {
	Ready, Leasable int64 // messages in that state; of them those that a lease would find then, or some of these where keys matter
	Paused          bool
	Full            bool  // as many messages are out as max_in_flight allows
	RateUntil       int64 // T at which the queue's rate lets out the next one; 0: it holds nothing back
	Behind          bool  // all that is ready waits behind another of its key or queue, which is out or waits for its retry
	Keys            bool  // what does not wait so is of keys that are at a limit of theirs
	KeysUntil       int64 // then: the first T at which time alone lets one of these keys go on; 0: time does not
	// Due is, where nothing is ready, the first T at which a scheduled or retrying message comes back or expires; 0: there is none.
	Due int64
}

// Standing looks at a queue as it will be at T = at, if nothing but time comes between; zero when it is gone. It takes as long as
// one step of a heap, whatever the queue holds.
func (s *State) Standing(n uint32, at int64) (st Standing) {
	q := s.byNumber(n)
	if q == nil {
		return st
	}
	at = max(at, s.now)
	t, o := s.tallies.Get(q.slot), &q.meta.options
	st.Ready = t.ready
	if t.ready == 0 {
		st.Due, _, _ = q.due.Min()
		return st
	}
	st.Leasable = s.leasableAt(q, at)
	st.Paused = o.Paused
	st.Full = o.Delivery != DeliverAtMostOnce && o.MaxInFlight != 0 && t.leased >= o.MaxInFlight
	if q.meta.rate.room(t.tat, at) == 0 {
		st.RateUntil = q.meta.rate.next(t.tat)
	}
	switch {
	case q.blocked == t.ready:
		st.Behind = true
	case q.meta.keyed && q.offered+s.offeredBy(q, at) == 0:
		st.Keys = true
		st.KeysUntil, _, _ = q.held.Min()
	}
	return st
}
