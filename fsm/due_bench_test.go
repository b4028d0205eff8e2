package fsm

import "testing"

// BenchmarkDelayed is one message's enqueue, coming due, lease and ack with a million others waiting for their time, twenty
// due each millisecond and enqueued in no order of it.
func BenchmarkDelayed(b *testing.B) {
	const waiting, perMilli = 1_000_000, 20
	t := newTurns(b, QueueOptions{}, 64)
	start := t.now + 1000
	t.dress = func(n int, m *Message) { // each is due in a round of all, in an order without runs
		round, nth := n/waiting, uint64(n%waiting)*618_033_989%waiting
		m.DueAt = start + int64(round*waiting+int(nth))/perMilli
	}
	t.fill(waiting)
	t.now = start - 1
	t.run(b, turnBatch/perMilli)
	t.reportBytes(b)
}
