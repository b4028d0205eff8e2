package fsm

// held finds the message of a token. code is OK when the token is that of the message's last lease; Cancelled when it is and
// the task was cancelled, the message being out still or none; else NotFound or LeaseLost, which is the answer.
func (s *State) held(t Token) (slot int32, code Code) {
	slot, ok := s.find(t.Message)
	if !ok {
		// A dead letter comes before a result that was pushed under its id, also one that was moved.
		if _, moved := s.findMoved(t.Message); moved {
			return none, NotFound
		}
		if sl, ok := s.findTomb(t.Message); ok && !t.Lease.IsZero() {
			if tm := s.tombs.Get(sl); tm.outcome() == tombCancelled && tm.lease == t.Lease {
				return none, Cancelled
			}
		}
		if s.remembered(t.Message) {
			return none, LeaseLost
		}
		return none, NotFound
	}
	m := s.messages.Get(slot)
	if !m.hasSide() {
		return slot, LeaseLost
	}
	sd := s.sides.Get(m.side)
	if sd.lease.IsZero() || sd.lease != t.Lease || t.Lease.Epoch() < s.epoch {
		return slot, LeaseLost
	}
	if m.flags&flagCancelled != 0 {
		return slot, Cancelled
	}
	return slot, OK
}

// heldOrMoved is held for an operation to which a dead letter is one like any other.
func (s *State) heldOrMoved(t Token) (slot int32, code Code) {
	if slot, code = s.held(t); code == NotFound {
		_, _, c := s.heldMoved(t)
		code = lostIfKnown(c)
	}
	return slot, code
}

// remembered says whether the task of a message that is gone is.
func (s *State) remembered(id ID) bool {
	if _, ok := s.findResult(id); ok {
		return true
	}
	_, ok := s.findTomb(id)
	return ok
}
