package fsm

// The leader may lease on the strength of an end that is yet to come: what follows says of which it may be sure.

// HeldBy names the consumer of a token's lease, while that is live and its worker is heard.
func (s *State) HeldBy(t Token) (who Consumer, ok bool) {
	slot, code := s.held(t)
	if slot == none || code != OK && code != Cancelled {
		return who, false
	}
	m := s.messages.Get(slot)
	if m.state != StateLeased {
		return who, false
	}
	return s.consumers.Get(s.sides.Get(m.side).consumer).who, true
}

// Frees says that once the operation has been applied its token's lease is over, whatever has become of that lease and of all else
// before: one that HeldBy knows. A chain may be refused for the sake of other queues, and what a
// mapping has come to for the sake of another mapping, and leave it live.
func (o *Ack) Frees() bool {
	return o.Mapping == 0 && len(o.Then) == 0 && (!o.HasResult || checkResult(&o.Result).Code == OK)
}

// Frees is as that of Ack.
func (o *Nack) Frees() bool {
	return o.Mapping == 0 && o.DelayMillis >= -1 && o.DelayMillis <= MaxDelayMillis
}
