package fsmtest

import "github.com/quorate/quorate/fsm"

// maxVictims is how many messages one that is enqueued may push out.
const maxVictims = 16

// spares says whether a message is not to be pushed out: it is out, is doomed already, is a link of the chain in hand, or
// waits for its retry at the head of an ordered group.
func (m *Model) spares(q *queue, x *message) bool {
	if x.state == fsm.StateLeased || x.doomed || x.link {
		return true
	}
	_, ordered := q.lane(x)
	return ordered && x.state == fsm.StateRetrying
}

// worseThan is the order in which messages are pushed out: ready ones by priority and place, then those that wait for their
// retry, then those that wait for their time.
func (x *message) worseThan(y *message) bool {
	rank := map[fsm.MessageState]int{fsm.StateReady: 0, fsm.StateRetrying: 1, fsm.StateScheduled: 2}
	switch a, b := rank[x.state], rank[y.state]; {
	case a != b:
		return a < b
	case x.state != fsm.StateReady:
		return x.due < y.due || x.due == y.due && x.id.Compare(y.id) < 0
	case x.priority != y.priority:
		return x.priority < y.priority
	}
	return x.place < y.place
}

// doom chooses what dies to make room for a message of the given size, and says whether that is enough.
func (m *Model) doom(q *queue, size int64) bool {
	var doomed []*message
	for q.deep().Code != fsm.OK || q.large(size).Code != fsm.OK {
		var next *message
		for _, x := range q.messages {
			if !m.spares(q, x) && (next == nil || x.worseThan(next)) {
				next = x
			}
		}
		if next == nil || len(doomed) == maxVictims {
			m.sometimes("overflow: no room even so")
			for _, x := range doomed {
				x.doomed = false
			}
			return false
		}
		m.sometimes("overflow: drops " + map[fsm.MessageState]string{fsm.StateReady: "a ready one", fsm.StateRetrying: "a retrying one", fsm.StateScheduled: "a scheduled one"}[next.state])
		next.doomed = true
		doomed = append(doomed, next)
	}
	m.doomed = append(m.doomed, doomed...)
	return true
}

// spare lets those live after all that were doomed after the first n.
func (m *Model) spare(n int) {
	for _, x := range m.doomed[n:] {
		x.doomed = false
	}
	m.doomed = m.doomed[:n]
}

// dropDoomed lets those die that were to make room, once that is taken.
func (m *Model) dropDoomed() {
	list := m.doomed
	m.doomed = nil
	for _, x := range list {
		q := m.placeOf(x)
		x.doomed = false
		q.stats.Overflowed++
		m.die(q, x, fsm.ReasonOverflow)
		m.settleAll()
	}
}
