package fsmtest

import "github.com/quorate/quorate/fsm"

// handed is a delivery of the entry in hand, with the number of its queue.
type handed struct {
	fsm.Delivery
	queue uint64
}

// handOver gives a message to a worker that need not answer: it is done.
func (m *Model) handOver(q *queue, x *message) {
	m.sometimes("once: done when it is leased")
	d := m.delivery(q, x)
	d.Once, d.LeaseLeft, d.Deadline = true, 0, 0
	m.parked = append(m.parked, handed{d, q.number})
	m.fx.Leases = append(m.fx.Leases, fsm.Leased{Token: x.token(), Consumer: x.consumer, Op: m.op, Attempt: x.attempts, Once: true})
	q.messages = remove(q.messages, x)
	q.stats.Acked++
	if x.moved != nil {
		m.closeMoved(q, x)
		return
	}
	m.remember(q, &record{message: x.id, original: x.original, lease: x.lease, task: x.task, taken: true})
	m.settle(x.id, settledDone, nil)
}

// Handed is a message that was delivered at most once in the last entry, as its worker gets it.
func (m *Model) Handed(t fsm.Token) (fsm.Delivery, bool) {
	for _, d := range m.parked {
		if d.Token == t {
			return d.Delivery, m.queueNumbered(d.queue) != nil // not where the same entry has deleted its queue
		}
	}
	return fsm.Delivery{}, false
}
