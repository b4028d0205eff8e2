package history

import "slices"

// verdict compares an outcome with the one that the contract demands. It says whether both are success.
func (j *judge) verdict(g string, m *message, e *Effect, want, why string) bool {
	if e.Code == want {
		return want == ""
	}
	name := func(code string) string {
		if code == "" {
			return "success"
		}
		return code
	}
	if want == "lease_lost" {
		g = "G4"
	}
	j.blame(g, m, e, "%s with %s is answered %s, want %s: %s", e.Op, e.Token, name(e.Code), name(want), why)
	return false
}

// standing says what a token is worth, where that does not depend on what is asked.
func (j *judge) standing(m *message, e *Effect) (code, why string, decided bool) {
	switch {
	case m == nil:
		return "not_found", "the message was never enqueued", true
	case m.dropped != 0 || m.state == purged:
		return "not_found", "it was purged, or its queue was deleted", true
	case m.token != e.Token:
		return "lease_lost", "the last token is " + m.token, true
	case m.gone != 0:
		return "not_found", "it was a dead letter, and was requeued or deleted", true
	case m.out, m.state == cancelled:
		return "cancelled", "its task was cancelled", true
	case m.void:
		return "lease_lost", "its body was replaced since", true
	}
	return "", "", false
}

// tokenOf is the message whose last token an operation bears, for it to judge by where the message stands; nil where the token alone has
// decided, and that has been judged.
func (j *judge) tokenOf(e *Effect) *message {
	m := j.named(e.Token)
	if j.forgotten(m) && e.Code == "not_found" {
		return nil
	}
	if m != nil && m.gone != 0 && m.token == e.Token && e.Op == Ack && e.Code == "" && e.Duplicate && m.hasResult && m.end != byNack {
		j.r.count("late ack of a letter that is gone met a pushed result")
		return nil
	}
	if m != nil && m.gone != 0 && m.dropped == 0 && (m.state != purged || m.taskHasResult()) && (e.Code == "not_found" || e.Code == "lease_lost") {
		j.r.count("token of a dead letter that is gone refused")
		return nil
	}
	code, why, decided := j.standing(m, e)
	if !decided {
		return m
	}
	j.verdict("G4", m, e, code, why)
	j.stale(m, e)
	return nil
}

// forgotten says whether the broker need not remember a message any more.
func (j *judge) forgotten(m *message) bool { return j.forgottenBy(m, j.time) }

func (j *judge) forgottenBy(m *message, t int64) bool {
	return m != nil && m.ended() && m.state != dead && !m.hasResult && t >= m.endTime+tombstone
}

// timeAt is T after an entry, or after the last one before it: the log has entries of raft's own too.
func (j *judge) timeAt(index uint64) int64 {
	n, found := slices.BinarySearch(j.indexes, index)
	if !found {
		n--
	}
	if n < 0 {
		return 0
	}
	return j.times[j.indexes[n]]
}

func (j *judge) ack(e *Effect) {
	m := j.tokenOf(e)
	if m == nil {
		return
	}
	switch {
	case m.state == leased, (m.state == ready || m.state == retrying || m.state == scheduled) && m.end != byNack:
		if j.staleMapping(m, e) {
			return
		}
		if j.verdict("G4", m, e, "", "the lease is live, or ended by expiry or release while nobody else has the message") {
			if e.Generation != 0 {
				j.mapped[e.Token] = m.q.opt.MapTo
			}
			if m.state != leased {
				j.r.count("late ack accepted")
			}
			j.acked(m, e)
		}
	case m.state == done && (m.doneBy == e.Token || m.told):
		j.ackAgain(m, e)
	default:
		j.verdict("G4", m, e, "lease_lost", "the message is "+m.state.String()+" and its lease was ended otherwise")
		j.stale(m, e)
	}
}

// staleMapping judges what speaks of a mapping that is not the queue's: it is refused, and nothing changes.
func (j *judge) staleMapping(m *message, e *Effect) bool {
	if e.Generation == 0 || e.Generation == m.q.mapping {
		return false
	}
	if e.Code == "failed_precondition" {
		j.r.count("stale mapping refused")
	} else {
		j.verdict("G6", m, e, "failed_precondition", "it speaks of another mapping than the queue has")
	}
	return true
}

// acked makes a task done by the ack of its lease.
func (j *judge) acked(m *message, e *Effect) {
	if m.letter != nil { // it is closed, and nothing is recorded
		j.r.count("moved dead letter closed")
		if e.Duplicate {
			j.blame("G6", m, e, "the ack of the moved dead letter %s is called a duplicate", m.id)
		}
		m.doneBy = e.Token
		j.finish(m, done)
		m.letter.gone = j.index
		j.chaining, j.chains = e.Token, e.Chained
		return
	}
	if m.pushed {
		if !e.Duplicate {
			j.blame("G6", m, e, "the ack of message %s is not told that its task has a result already", m.id)
		}
		j.r.count("ack met a pushed result")
		m.told = true
	} else if e.Duplicate {
		j.blame("G6", m, e, "the first ack of message %s is called a duplicate", m.id)
	}
	if e.Result != "" && !m.pushed {
		m.result, m.hasResult, m.resultAt = e.Result, true, j.index
	}
	m.doneBy = e.Token
	j.finish(m, done)
	j.chaining, j.chains = e.Token, e.Chained
}

// ackAgain judges the repeat of the ack that made a task done.
func (j *judge) ackAgain(m *message, e *Effect) {
	switch {
	case m.letter != nil:
		j.verdict("G5", m, e, "", "it was a moved dead letter, and is closed")
	case m.taken && e.Result != "":
		j.verdict("G5", m, e, "already_exists", "it was done when it was delivered, without a result")
	case m.taken && e.Chained > 0:
		j.verdict("G6", m, e, "failed_precondition", "it was done when it was delivered, without what the ack carries")
	case m.taken:
		j.verdict("G5", m, e, "", "it was done when it was delivered, and the ack says so")
	case m.told: // of a pushed result: told again, whatever it brings
		if j.verdict("G5", m, e, "", "its task has a pushed result, which every ack of this lease is told") && !e.Duplicate {
			j.blame("G5", m, e, "the ack of message %s is not told again that its task has a result", m.id)
		}
	case e.Result == m.result:
		if j.verdict("G5", m, e, "", "the same result again") {
			j.r.count("ack repeated")
		}
	default:
		j.verdict("G5", m, e, "already_exists", "the recorded result is "+m.result)
		j.r.count("second result refused")
	}
}

// stale counts a token that was refused; a cancelled task's lease ends with it.
func (j *judge) stale(m *message, e *Effect) {
	switch e.Code {
	case "lease_lost":
		j.r.count("stale token refused")
	case "cancelled":
		j.r.count("worker told of a cancelled task")
		if m != nil && m.out && m.token == e.Token && e.Op != Extend {
			j.free(m)
		}
	}
}

func (j *judge) nack(e *Effect) {
	m := j.tokenOf(e)
	if m == nil {
		return
	}
	switch {
	case m.state == leased:
		if j.staleMapping(m, e) || !j.verdict("G4", m, e, "", "the lease is live") {
			return
		}
		m.end, m.lastWord = byNack, ""
		why := ""
		switch {
		case e.Generation != 0:
			why = "mapping"
			j.r.count("message died of its mapping")
		case e.Permanent:
			why = "permanent"
		}
		j.failed(m, e.Delay, why)
		m.nackDead, m.nackDue = m.state == dead, 0
		if !m.nackDead {
			m.nackDue = m.due
		}
		if e.Dead != m.nackDead || e.Millis != m.nackDue {
			j.blame("G10", m, e, "after attempt %d of %d message %s is dead: %v, due at %d; want %v, %d",
				m.attempts, m.retry.Attempts(), m.id, e.Dead, e.Millis, m.nackDead, m.nackDue)
		}
	case m.end == byNack && m.state != done:
		if j.verdict("G4", m, e, "", "the same nack again") && (e.Dead != m.nackDead || e.Millis != m.nackDue) {
			j.blame("G10", m, e, "a nack repeated is answered dead: %v, due at %d; it was %v, %d", e.Dead, e.Millis, m.nackDead, m.nackDue)
		}
		j.r.count("nack repeated")
	default:
		j.verdict("G4", m, e, "lease_lost", "the lease has ended")
		j.stale(m, e)
	}
}

func (j *judge) extend(e *Effect) {
	m := j.tokenOf(e)
	switch {
	case m == nil:
		return
	case m.state != leased:
		j.verdict("G4", m, e, "lease_lost", "the lease has ended")
		j.stale(m, e)
		return
	}
	if !j.verdict("G4", m, e, "", "the lease is live") {
		return
	}
	length := e.Length
	if length == 0 {
		length = m.q.opt.Lease
	}
	m.deadline, m.length = j.time-j.shift+length, 0
	if m.cutoff != 0 {
		m.deadline = min(m.deadline, m.cutoff)
	}
	if left := max(0, m.deadline-(j.time-j.shift)); e.Millis != left {
		j.blame("G3", m, e, "an extension leaves %d ms, want %d", e.Millis, left)
	}
	j.change(m, leased)
	j.r.count("lease extended")
}

func (j *judge) release(e *Effect) {
	m := j.tokenOf(e)
	if m == nil {
		return
	}
	switch {
	case m.state == leased:
		if !j.verdict("G4", m, e, "", "the lease is live") {
			return
		}
		m.end = byRelease
		cost, why := e.Spent || m.free >= freeReturns, "released too often"
		switch {
		case e.Spent:
			m.free, why = 0, "stream closed"
		case !cost:
			m.free++
			m.attempts--
		}
		switch {
		case m.expires != 0 && m.expires <= j.time:
			j.die(m, "expired")
		case cost && m.attempts >= int(m.retry.Attempts()):
			m.lastWord = why
			j.die(m, "max_attempts")
		default:
			j.ready(m, false)
		}
		if e.Dead != (m.state == dead) {
			j.blame("G10", m, e, "a release answers dead: %v, want %v", e.Dead, m.state == dead)
		}
	case m.end == byRelease && m.state != done:
		j.verdict("G4", m, e, "", "the same release again")
	default:
		j.verdict("G4", m, e, "lease_lost", "the lease has ended")
		j.stale(m, e)
	}
}
