package fsmtest

import (
	"maps"

	"github.com/quorate/quorate/fsm"
)

// session is a client's session: what it asked for and how each request ended.
type session struct {
	id       fsm.ID
	touched  int64 // T of the last use
	low      uint64
	outcomes map[uint64]remembered
}

// remembered is the outcome of a request; a lease's tokens are read again by position.
type remembered struct {
	outcome    fsm.Outcome
	first      fsm.ID // of the lease's positions
	leaseTotal int32
	wrong      []fsm.Field // what a refusal is for, where it is several fields
}

// copyOutcomes makes what a session remembers its own.
func (s *session) copyOutcomes() { s.outcomes = maps.Clone(s.outcomes) }

func (m *Model) sessionEnded(s *session) bool { return m.ended(s.touched + sessionIdle) }

// session finds a session that has not ended.
func (m *Model) session(id fsm.ID) *session {
	for _, s := range m.sessions {
		if s.id == id && !m.sessionEnded(s) {
			return s
		}
	}
	return nil
}

func (m *Model) openSession() fsm.Outcome {
	if len(m.sessions) >= maxSessions {
		return fsm.Outcome{Code: fsm.Overloaded, Field: fsm.FieldSessions, Limit: maxSessions}
	}
	s := &session{id: m.newID(), touched: m.t, outcomes: map[uint64]remembered{}}
	m.sessions = append(m.sessions, s)
	return fsm.Outcome{ID: s.id}
}

func (m *Model) touchSession(id fsm.ID) fsm.Outcome {
	s := m.session(id)
	if s == nil {
		return refuse(fsm.SessionExpired, fsm.FieldRequest)
	}
	s.touched = m.t
	return fsm.Outcome{}
}

// requested runs n numbered parts of an operation, or answers them from memory. lease is nil for all others. That a client uses a number again for an operation of another kind is not
// foreseen.
func (m *Model) requested(r fsm.Request, n int, lease *fsm.Lease, run func(i int) fsm.Outcome) []fsm.Outcome {
	var out []fsm.Outcome
	if r.Session.IsZero() {
		for i := 0; i < n; i++ {
			out = append(out, run(i))
		}
		return out
	}
	s := m.session(r.Session)
	if s == nil {
		for i := 0; i < n; i++ {
			out = append(out, refuse(fsm.SessionExpired, fsm.FieldRequest))
		}
		return out
	}
	s.touched = m.t
	if r.Low > s.low {
		s.low = r.Low
		for number := range s.outcomes {
			if number < s.low {
				delete(s.outcomes, number)
			}
		}
	}
	for i := 0; i < n; i++ {
		number := r.Number + uint64(i)
		if number < s.low {
			out = append(out, refuse(fsm.SessionExpired, fsm.FieldRequest))
			continue
		}
		if number >= s.low+requestWindow {
			out = append(out, fsm.Outcome{Code: fsm.InvalidArgument, Field: fsm.FieldRequest, Limit: requestWindow})
			continue
		}
		if was, ok := s.outcomes[number]; ok {
			out = append(out, m.again(was, lease))
			continue
		}
		before := m.offset
		m.wrong = nil
		o := run(i)
		was := remembered{outcome: o, wrong: m.wrong}
		if o.HasResult {
			was.outcome.Task = o.ID // an outcome is remembered with one id, which finds the result too
		}
		if o.Code == fsm.OK && o.LeaseCount > 0 {
			was.first = fsm.MakeID(m.epoch, m.group, m.index, before)
			was.leaseTotal = o.LeaseCount
		}
		if lease != nil && lease.Waits && o.Code == fsm.OK && o.LeaseCount == 0 {
			m.sometimes("lease: one that waits finds nothing")
		} else {
			s.outcomes[number] = was
		}
		out = append(out, o)
	}
	return out
}

// again answers a repeated request with its first outcome; the tokens of a lease are those that still live.
func (m *Model) again(was remembered, lease *fsm.Lease) fsm.Outcome {
	if len(was.wrong) > 0 { // the implementation has named one of them, and remembers that
		return m.refuseAny(was.wrong)
	}
	o := was.outcome
	if o.HasResult {
		o.Task = m.resultNamed(o.ID)
	}
	o.LeaseFrom, o.LeaseCount = int32(len(m.fx.Leases)), 0
	if lease == nil { // something else bears the lease's number
		return o
	}
	for i := range uint64(was.leaseTotal) {
		position := fsm.ID{Hi: was.first.Hi, Lo: was.first.Lo + i}
		for _, q := range m.queues {
			for _, x := range q.messages {
				if x.state == fsm.StateLeased && x.lease == position && x.consumer == lease.Consumer && !x.cancelled {
					m.handOut(x)
					o.LeaseCount++
				}
			}
		}
	}
	return o
}

// resultNamed is the message under which the result is found that an outcome remembers by one id: that one, or the redriven
// message whose task has it for its first id.
func (m *Model) resultNamed(id fsm.ID) fsm.ID {
	found := id
	for _, q := range m.queues {
		for _, r := range q.records {
			switch {
			case !r.hasResult || m.ended(r.end):
			case r.message == id:
				return id
			case r.original == id && r.task == idText(id):
				found = r.message
			}
		}
	}
	return found
}

// SessionKnown says whether a session lives at T.
func (m *Model) SessionKnown(id fsm.ID) bool { return m.session(id) != nil }

// Remembered says whether the outcome of a request is kept.
func (m *Model) Remembered(r fsm.Request) bool {
	s := m.session(r.Session)
	if s == nil {
		return false
	}
	_, ok := s.outcomes[r.Number]
	return ok
}
