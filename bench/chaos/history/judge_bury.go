package history

import "cmp"

// bury moves what has died in a queue that names a dead-letter queue there, in the entry of its death: as a new message that is live in that
// queue, while its task is dead. It says whether the dead letter has gone there; where the other queue is missing, or what died is in a
// dead-letter queue already, it stays.
func (j *judge) bury(m *message) bool {
	if m.letter != nil { // its status tells of this death now
		m.letter.reason, m.letter.lastWord, m.letter.most = m.reason, m.lastWord, m.most
		j.r.count("moved dead letter died again")
	}
	to := j.queues[m.q.opt.Dead]
	if to == nil || m.letter != nil || j.takesLetters(m.q.name) {
		return false
	}
	e := j.announcedMoves[m.id]
	if e == nil {
		j.blame("G6", m, nil, "message %s died in entry %d, and the log does not move it to %s", m.id, j.index, to.name)
		return false
	}
	delete(j.announcedMoves, m.id)
	if e.Queue != to.name || e.Origin != m.q.name {
		j.blame("G6", m, e, "dead letter %s of %s is moved to %s, with %s as its origin, want %s", m.id, m.q.name, e.Queue, e.Origin, to.name)
	}
	if e.Reason != m.reason {
		j.blame("G10", m, e, "dead letter %s died of %q where it was moved to; it was %q", m.id, e.Reason, m.reason)
	}
	if e.Body != m.body {
		j.blame("G2", m, e, "dead letter %s was moved with another body", m.id)
	}
	as := Effect{Op: Bury, Index: e.Index, Queue: to.name, Message: e.Made, Body: m.body, Priority: m.priority, Key: m.key, Timeout: m.timeout, Retry: m.own}
	if to.opt.Mode != "unordered" {
		as.Priority = 4
	}
	there := j.create(to, &as)
	if there == nil {
		return false
	}
	there.letter, m.moved = m, there
	j.r.count("dead letter moved")
	return true
}

// takesLetters says whether any queue names this one for what dies there: what dies here stays.
func (j *judge) takesLetters(name string) bool {
	for _, q := range j.queues {
		if q.opt.Dead == name {
			return true
		}
	}
	return false
}

// withdraw takes a moved dead letter out of the queue where it stands, live or dead.
func (j *judge) withdraw(m *message) {
	j.standUp(m)
	delete(m.q.live, m)
	delete(m.q.dead, m)
	m.state, m.gone = dead, j.index
	m.endIndex, m.endTime = cmp.Or(m.endIndex, j.index), j.time
	m.gen++
}

// unexplainedMoves reports moves to dead-letter queues of what did not die.
func (j *judge) unexplainedMoves() {
	for id, e := range j.announcedMoves {
		j.blame("G6", j.all[id], e, "message %s is moved to %s in entry %d, where it did not die", id, e.Queue, j.index)
	}
	clear(j.announcedMoves)
}
