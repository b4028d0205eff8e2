package fsm

import "github.com/quorate/quorate/fsm/mutant"

// nack ends a lease with failure. Its repeat gets the first answer as long as the message is not leased again.
func (s *State) nack(op *Nack) Outcome {
	slot, code := s.held(op.Token)
	if code == NotFound { // it may have died by this, and been moved
		end, millis, c := s.heldMoved(op.Token)
		if c == OK && (end == endNack || end == endNackDead) && op.DelayMillis >= -1 && op.DelayMillis <= MaxDelayMillis {
			return Outcome{Dead: end == endNackDead, Millis: millis}
		}
		code = lostIfKnown(c)
	}
	switch code {
	case OK:
	case Cancelled:
		return s.answerCancelled(slot, true)
	default:
		return refuse(code, FieldToken, 0)
	}
	if op.DelayMillis < -1 || op.DelayMillis > MaxDelayMillis {
		return refuse(InvalidArgument, FieldDelay, MaxDelayMillis)
	}
	m := s.messages.Get(slot)
	if m.state != StateLeased {
		sd := s.sides.Get(m.side)
		if sd.end != endNack && sd.end != endNackDead {
			return refuse(LeaseLost, FieldToken, 0)
		}
		return nackAnswer(sd)
	}
	q := s.queues[m.queue]
	if staleMapping(q, op.Mapping) {
		return refuse(FailedPrecondition, FieldMapping, 0)
	}
	why := ReasonNone
	switch {
	case op.Mapping != 0:
		why = ReasonMapping
	case op.Permanent:
		why = ReasonPermanent
	}
	s.tallies.Mut(q.slot).nacked++
	sl := m.side
	s.unlease(q, slot, endNack)
	if s.failed(q, slot, op.Error, op.DelayMillis, why) {
		s.endedDead(op.Token.Message, endNackDead)
		return Outcome{Dead: true}
	}
	sd := s.sides.Mut(sl)
	sd.cutoff = sd.due
	return nackAnswer(sd)
}

// lostIfKnown is the answer to a token of a message that was moved, where its operation has no other: NotFound stays so.
func lostIfKnown(c Code) Code {
	if c == OK {
		return LeaseLost
	}
	return c
}

func nackAnswer(sd *side) Outcome {
	return Outcome{Dead: sd.end == endNackDead, Millis: sd.cutoff}
}

// failed decides what becomes of a message whose attempt failed: retrying, or dead of age, of the worker's word, or of
// its last attempt. The message is off the books of leases. delay −1: by the retry policy. why is the reason to die at once, if there is
// one. It says whether the message died: then the slot is another's where it was moved.
func (s *State) failed(q *queue, slot int32, text []byte, delay int64, why DeadReason) (died bool) {
	m := s.messages.Mut(slot)
	sd := s.sides.Mut(m.side)
	sd.free = 0
	s.addFailure(m.side, text)
	switch {
	case sd.expires != 0 && sd.expires <= s.now:
		s.die(q, slot, ReasonExpired)
		return true
	case why != ReasonNone:
		s.die(q, slot, why)
		return true
	}
	p := s.policy(q, m)
	n := int32(sd.attempts)
	if n >= p.Attempts() {
		s.die(q, slot, ReasonMaxAttempts)
		return true
	}
	if delay < 0 {
		delay = p.Delay(m.id, n)
	}
	if mutant.GroupOrderBrokenOnNack {
		s.leaveLane(q, slot)
	}
	t := s.tallies.Mut(q.slot)
	t.retrying++
	m.state, m.gen = StateRetrying, t.liveGen
	sd.due = s.now + delay
	s.duePush(q, m.side)
	s.expose(q, slot)
	return false
}

// extend sets a live lease's deadline to so much from now, never beyond the attempt's timeout.
func (s *State) extend(op *Extend) Outcome {
	slot, code := s.heldOrMoved(op.Token)
	if mutant.TokenNotCheckedOnExtend && code == LeaseLost && slot != none {
		code = OK
	}
	switch code {
	case OK:
	case Cancelled:
		return s.answerCancelled(slot, false)
	default:
		return refuse(code, FieldToken, 0)
	}
	m := s.messages.Get(slot)
	switch {
	case op.LeaseMillis != 0 && op.LeaseMillis < MinLeaseMillis:
		return refuse(InvalidArgument, FieldLease, MinLeaseMillis)
	case op.LeaseMillis > MaxLeaseMillis:
		return refuse(InvalidArgument, FieldLease, MaxLeaseMillis)
	case m.state != StateLeased:
		return refuse(LeaseLost, FieldToken, 0)
	}
	q := s.queues[m.queue]
	length := op.LeaseMillis
	if length == 0 {
		length = q.meta.options.LeaseMillis
	}
	sd := s.sides.Mut(m.side)
	sd.due = s.leaseTime() + length
	if sd.cutoff != 0 {
		sd.due = min(sd.due, sd.cutoff)
	}
	q.leases.Fix(sd.heapPos, sd.due)
	s.clockFix(clockLease, q)
	return Outcome{Millis: max(0, sd.due-s.leaseTime())}
}

// release gives a message back to its old place. It costs no attempt, but for those beyond a number of returns in a row.
// opReleaseSpent is a Release that costs the attempt. Its fields are those of opRelease.
const opReleaseSpent uint8 = 20

func (o *Release) opNumber() uint8 {
	if o.Spent {
		return opReleaseSpent
	}
	return opRelease
}

func (s *State) release(op *Release) Outcome {
	slot, code := s.held(op.Token)
	if code == NotFound {
		end, _, c := s.heldMoved(op.Token)
		if c == OK && (end == endRelease || end == endReleaseDead) { // released, it died later or by that
			return Outcome{Dead: end == endReleaseDead}
		}
		code = lostIfKnown(c)
	}
	switch code {
	case OK:
	case Cancelled:
		return s.answerCancelled(slot, true)
	default:
		return refuse(code, FieldToken, 0)
	}
	m := s.messages.Get(slot)
	if m.state != StateLeased {
		sd := s.sides.Get(m.side)
		if sd.end != endRelease && sd.end != endReleaseDead {
			return refuse(LeaseLost, FieldToken, 0)
		}
		return Outcome{Dead: sd.end == endReleaseDead}
	}
	q := s.queues[m.queue]
	sl := m.side
	s.unlease(q, slot, endRelease)
	m = s.messages.Get(slot)
	sd := s.sides.Mut(sl)
	free := !op.Spent && int(sd.free) < s.lim.freeReturns
	switch {
	case free:
		sd.free++
		sd.attempts--
	case op.Spent:
		sd.free = 0
		s.addFailure(sl, errStreamClosed)
	default:
		s.addFailure(sl, errReleased)
	}
	switch {
	case sd.expires != 0 && sd.expires <= s.now:
		s.die(q, slot, ReasonExpired)
	case !free && int32(sd.attempts) >= s.policy(q, m).Attempts():
		s.die(q, slot, ReasonMaxAttempts)
	default:
		s.returnReady(q, slot)
		return Outcome{}
	}
	s.endedDead(op.Token.Message, endReleaseDead)
	return Outcome{Dead: true}
}
