package fsm

// session is a client's session: what it did last, and the outcomes that it has not yet said it knows.
type session struct {
	id             ID
	used           int64  // T of the last request
	low            uint64 // numbers below are never executed
	oldest, newest int32  // memos by number
	hint           int32  // local: the memo found last, where the next look-up begins
	count          int32
}

// memo is one remembered outcome: 48 bytes.
type memo struct {
	number     uint64
	id         ID    // Outcome.ID; of a lease: the first position handed out
	amount     int64 // Outcome.Limit of a refusal, else Outcome.Count
	leases     int32 // of a lease: how many
	prev, next int32
	code       Code
	field      Field
	flags      uint8
	used       bool
}

// Flags of a memo. Numbers are part of the snapshot format.
const (
	memoDuplicate uint8 = 1 << iota
	memoDead
	memoResult
	memoLease
)

func (ses *session) end() int64 { return ses.used + SessionIdleMillis }

func (s *State) sessionBytes() int64 {
	return int64(s.sessions.Len())*sessionCost + int64(s.memos.Len())*outcomeCost
}

// findSession is a session that has not ended.
func (s *State) findSession(id ID) (int32, bool) {
	return s.sessionIx.Find(hashID(id), func(v int32) bool {
		ses := s.sessions.Get(v)
		return ses.id == id && ses.end() > s.now
	})
}

func (s *State) openSession() {
	switch {
	case int64(s.sessions.Len()) >= s.lim.sessions:
		s.emit(refuse(Overloaded, FieldSessions, s.lim.sessions))
		return
	case s.sessionBytes()+sessionCost > s.lim.sessionBytes:
		s.emit(refuse(Overloaded, FieldSessions, s.lim.sessionBytes))
		return
	}
	id := s.nextID()
	s.addSession(session{id: id, used: s.now, oldest: none, newest: none, hint: none})
	s.emit(Outcome{ID: id})
}

func (s *State) addSession(ses session) int32 {
	sl := s.sessions.Alloc()
	*s.sessions.Mut(sl) = ses
	s.sessionIx.Insert(hashID(ses.id), sl)
	s.idle.Push(ses.end(), sl)
	return sl
}

func (s *State) dropSession(sl int32) {
	ses := s.sessions.Get(sl)
	for m := ses.oldest; m != none; {
		next := s.memos.Get(m).next
		s.memos.Free(m)
		m = next
	}
	s.sessionIx.Delete(hashID(ses.id), sl)
	s.sessions.Free(sl)
}

func (s *State) touchSession(op *TouchSession) {
	sl, ok := s.findSession(op.Session)
	if !ok {
		s.emit(refuse(SessionExpired, FieldRequest, 0))
		return
	}
	s.sessions.Mut(sl).used = s.now
	s.emit(Outcome{})
}

// noSession stands for an operation that carries no request id, goneSession for one of a session that is not there.
const (
	noSession   = none
	goneSession = none - 1
)

// openRequest finds the session of a request, touches it, and forgets what low has passed.
func (s *State) openRequest(r Request) int32 {
	if r.Session.IsZero() {
		return noSession
	}
	sl, ok := s.findSession(r.Session)
	if !ok {
		return goneSession
	}
	ses := s.sessions.Mut(sl)
	ses.used = s.now
	if r.Low > ses.low {
		ses.low = r.Low
		for ses.oldest != none {
			m := s.memos.Get(ses.oldest)
			if m.number >= ses.low {
				break
			}
			gone := ses.oldest
			ses.oldest = m.next
			ses.count--
			if ses.hint == gone {
				ses.hint = none
			}
			s.memos.Free(gone)
		}
		if ses.oldest == none {
			ses.newest = none
		} else {
			s.memos.Mut(ses.oldest).prev = none
		}
	}
	return sl
}

// admit says whether message i of a request is to be executed. If not, o is its answer: the first one again, or why
// it is never executed.
func (s *State) admit(sl int32, r Request, i uint64, o *Outcome) bool {
	switch sl {
	case noSession:
		return true
	case goneSession:
		*o = refuse(SessionExpired, FieldRequest, 0)
		return false
	}
	n := r.Number + i
	ses := s.sessions.Get(sl)
	switch {
	case n < r.Number || n < ses.low:
		*o = refuse(SessionExpired, FieldRequest, 0)
		return false
	case n-ses.low >= RequestWindow:
		*o = refuse(InvalidArgument, FieldRequest, RequestWindow)
		return false
	}
	if at := s.seek(sl, n); at != none {
		if m := s.memos.Get(at); m.number == n {
			s.recall(m, o)
			if op := s.dec.Op(); op != opLease && op != opPull && m.flags&memoLease != 0 {
				// The number was a lease's, and the client has used it for something else: messages are handed out to nobody by that.
				o.ID, o.LeaseCount = ID{}, 0
			}
			return false
		}
	}
	if s.sessionBytes()+outcomeCost > s.lim.sessionBytes {
		*o = refuse(Overloaded, FieldSessions, s.lim.sessionBytes)
		return false
	}
	return true
}

// seek is the memo with the highest number that is not above n.
func (s *State) seek(sl int32, n uint64) int32 {
	ses := s.sessions.Get(sl)
	if ses.newest == none || s.memos.Get(ses.newest).number <= n {
		return ses.newest
	}
	at := ses.hint
	if at == none {
		at = ses.oldest
	}
	for at != none && s.memos.Get(at).number > n {
		at = s.memos.Get(at).prev
	}
	for at != none {
		next := s.memos.Get(at).next
		if next == none || s.memos.Get(next).number > n {
			break
		}
		at = next
	}
	if at != none && at != ses.hint {
		s.sessions.Mut(sl).hint = at
	}
	return at
}

// remember keeps the outcome of number n until low passes it.
func (s *State) remember(sl int32, n uint64, o *Outcome) {
	if sl < 0 {
		return
	}
	m := memo{number: n, id: o.ID, amount: o.Count, code: o.Code, field: o.Field, used: true}
	if o.Code != OK {
		m.amount = o.Limit
	}
	if o.Duplicate {
		m.flags |= memoDuplicate
	}
	if o.Dead {
		m.flags |= memoDead
	}
	if o.HasResult {
		m.flags |= memoResult
	}
	s.addMemo(sl, m)
}

// rememberLease keeps where a lease's tokens are.
func (s *State) rememberLease(sl int32, n uint64, o *Outcome) {
	if sl < 0 {
		return
	}
	m := memo{number: n, code: o.Code, field: o.Field, amount: o.Limit, flags: memoLease, used: true}
	if o.Code == OK {
		m.id, m.leases, m.amount = o.ID, o.LeaseCount, 0
	}
	s.addMemo(sl, m)
}

func (s *State) addMemo(sl int32, m memo) {
	after := s.seek(sl, m.number)
	at := s.memos.Alloc()
	ses := s.sessions.Mut(sl)
	m.prev, m.next = after, ses.oldest
	if after == none {
		ses.oldest = at
	} else {
		p := s.memos.Mut(after)
		m.next = p.next
		p.next = at
	}
	if m.next == none {
		ses.newest = at
	} else {
		s.memos.Mut(m.next).prev = at
	}
	*s.memos.Mut(at) = m
	ses.count++
}

// recall makes the first answer again from what is remembered of it.
func (s *State) recall(m *memo, o *Outcome) {
	*o = Outcome{Code: m.code, Field: m.field}
	if m.code != OK {
		o.Limit = m.amount
	} else {
		o.Count = m.amount
	}
	if m.flags&memoLease != 0 {
		// The tokens are read again by the caller, which knows the consumer.
		o.ID, o.LeaseCount = m.id, m.leases
		return
	}
	o.ID = m.id
	o.Duplicate = m.flags&memoDuplicate != 0
	o.Dead = m.flags&memoDead != 0
	if m.flags&memoResult != 0 {
		o.HasResult = true
		if o.Task = m.id; !m.id.IsZero() {
			if task, ok := s.resultTask(m.id); ok {
				o.Task = task
			}
		}
	}
}

// leaseAgain answers a repeated lease with those of its tokens that are still leased.
func (s *State) leaseAgain(who Consumer, o *Outcome) {
	first, n := o.ID, o.LeaseCount
	*o = Outcome{LeaseFrom: int32(len(s.fx.Leases))}
	c, ok := s.findConsumer(who)
	if !ok || n == 0 {
		return
	}
	// One operation's leases lie side by side in their consumer's list, which rises by position.
	last := ID{first.Hi, first.Lo + uint64(n-1)}
	sl := s.consumers.Get(c).newest
	for sl != none && s.sides.Get(sl).lease.Compare(first) >= 0 {
		older := s.sides.Get(sl).older
		if older == none || s.sides.Get(older).lease.Compare(first) < 0 {
			break
		}
		sl = older
	}
	for ; sl != none; sl = s.sides.Get(sl).newer {
		sd := s.sides.Get(sl)
		if sd.lease.Compare(last) > 0 {
			break
		}
		if sd.lease.Compare(first) < 0 || s.messages.Get(sd.message).flags&flagCancelled != 0 {
			continue
		}
		s.fx.Leases = append(s.fx.Leases, Leased{
			Token:    Token{Message: s.messages.Get(sd.message).id, Lease: sd.lease},
			Consumer: who, Op: s.opIndex, Slot: sd.message, Attempt: int32(sd.attempts),
		})
		o.LeaseCount++
	}
}

// SessionKnown says whether a session is live at T.
func (s *State) SessionKnown(id ID) bool {
	_, ok := s.findSession(id)
	return ok
}

// Remembered says whether the outcome of a request number is kept.
func (s *State) Remembered(r Request) bool {
	sl, ok := s.findSession(r.Session)
	if !ok {
		return false
	}
	ses := s.sessions.Get(sl)
	if ses.newest == none || s.memos.Get(ses.newest).number < r.Number {
		return false
	}
	for at := ses.newest; at != none; at = s.memos.Get(at).prev {
		if m := s.memos.Get(at); m.number <= r.Number {
			return m.number == r.Number
		}
	}
	return false
}
