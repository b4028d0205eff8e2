package history

import "slices"

// move judges another time, another body, or both, for what waits: never for what is out or has ended. It takes a new place, and keeps all
// else; a new body voids the token of an earlier lease, since its work would not be the one that is wanted.
func (j *judge) move(e *Effect) {
	if j.repeated(e) {
		return
	}
	m := j.task(e.Message)
	if m == nil || j.forgotten(m) || m.gone != 0 || e.Code == "not_found" && m.nameless(j.all[e.Message]) {
		if e.Code == "" {
			j.blame("G14", m, e, "a task is moved that is not there")
		}
		return
	}
	if m.state == leased || m.ended() || m.hasResult {
		if e.Code != "failed_precondition" {
			j.verdict("G14", m, e, "failed_precondition", "its message is "+m.state.String())
		}
		if m.state == leased {
			j.r.count("move of what is out refused")
		}
		return
	}
	if !j.verdict("G14", m, e, "", "the task waits") {
		return
	}
	due := m.due
	switch e.When {
	case After:
		due = j.time + e.Delay
		if longest := m.since + e.Wait; e.Wait > 0 && due > longest {
			due = longest
			j.r.count("debounce at its longest wait")
		}
	case AtTime:
		due = e.Due
	case KeepTime:
		if m.state == ready {
			due = 0
		}
	}
	if e.Body != "" {
		j.r.count("body replaced")
		m.body, m.replaced, m.void = e.Body, true, m.token != ""
		j.bodies[request{e.Session, e.Number}] = e.Body
	}
	j.r.count("moved from being " + m.state.String())
	j.standUp(m)
	if m.due = due; due > j.time {
		j.change(m, scheduled)
	} else {
		due = 0
		j.ready(m, true)
	}
	if e.Millis != due {
		j.blame("G14", m, e, "message %s is moved to T %d by the answer, want %d (0: at once)", m.id, e.Millis, due)
	}
}

// standUp takes a message that waits out of its place.
func (j *judge) standUp(m *message) {
	l := m.lane
	if l == nil || m.place == 0 {
		return
	}
	held := l.holder() == m
	if at := slices.Index(l.members, m); at >= 0 {
		l.members = slices.Delete(l.members, at, at+1)
	}
	m.place = 0
	if next := l.holder(); held && next != nil && next.state == ready {
		j.offer(next)
	}
}
