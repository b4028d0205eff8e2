package fsmtest

import "github.com/quorate/quorate/fsm"

// lane names the ordered group of a message: the whole queue, or its key. ok is false where the message waits for nobody.
func (q *queue) lane(x *message) (name string, ok bool) {
	switch q.options.Ordering {
	case fsm.OrderFIFO:
		return "", true
	case fsm.OrderPerKey:
		return x.key, x.key != ""
	}
	return "", false
}

// lanes are a queue's ordered groups by name, each with the message that has the lowest place of those that are ready, out
// or waiting for their retry. Only that one is served.
func (q *queue) lanes() map[string]*message {
	heads := map[string]*message{}
	for _, x := range q.messages {
		if x.state == fsm.StateScheduled {
			continue
		}
		if lane, ok := q.lane(x); ok {
			if head := heads[lane]; head == nil || x.place < head.place {
				heads[lane] = x
			}
		}
	}
	return heads
}

// unblocked lists the ready messages that wait for no other of their group.
func (q *queue) unblocked() (list []*message) {
	var heads map[string]*message
	if q.options.Ordering != fsm.OrderUnordered {
		heads = q.lanes()
	}
	for _, x := range q.messages {
		if x.state != fsm.StateReady {
			continue
		}
		if lane, ok := q.lane(x); ok && heads[lane] != x {
			continue
		}
		list = append(list, x)
	}
	return list
}

// retryDue makes a message ready whose retry is due: in an ordered group it has kept its place.
func (m *Model) retryDue(q *queue, x *message) {
	if _, ok := q.lane(x); !ok {
		m.makeReady(q, x)
		return
	}
	x.state, x.due = fsm.StateReady, 0
	m.sometimes("order: a retry is due at its old place")
}

// seeOrder notes what waits while a message, or none, is served.
func (m *Model) seeOrder(q *queue, served *message) {
	if q.options.Ordering == fsm.OrderUnordered {
		return
	}
	heads := q.lanes()
	for _, x := range q.messages {
		if x.state != fsm.StateReady || x == served {
			continue
		}
		if q.options.Ordering == fsm.OrderFIFO {
			m.sometimes("order: a fifo message waits")
		} else if x.key != "" && heads[x.key] != x {
			m.sometimes("order: a keyed message waits")
		}
	}
}

// Holder is the queue of a live lease whose message holds others back, of its group, or of its key where as much of that is out as
// may be.
func (m *Model) Holder(t fsm.Token) string {
	for _, q := range m.queues {
		for _, x := range q.messages {
			if x.state != fsm.StateLeased || x.token() != t {
				continue
			}
			if k := q.keys[x.key]; k != nil && k.hold == holdFull {
				return q.name
			}
			lane, ok := q.lane(x)
			for _, y := range q.messages {
				if other, has := q.lane(y); ok && has && y != x && lane == other && y.state != fsm.StateScheduled {
					return q.name
				}
			}
		}
	}
	return ""
}

// Lanes counts the ordered groups of all queues that hold something.
func (m *Model) Lanes() (n int) {
	for _, q := range m.queues {
		n += len(q.lanes())
	}
	return n
}
