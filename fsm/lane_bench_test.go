package fsm

import "testing"

// BenchmarkKeys is one message's enqueue, lease and ack over a million keys, one of each waiting before: unordered; ordered; and
// ordered with each tenth key stuck, its head being out for good and what comes for it waiting behind. Messages are
// for keys that are free, or that have one waiting.
func BenchmarkKeys(b *testing.B) {
	const keys = 1_000_000
	for _, c := range []struct {
		name     string
		ordering Ordering
		stuck    int // one in so many keys
	}{{"unordered", OrderUnordered, 0}, {"per key", OrderPerKey, 0}, {"per key, a tenth stuck", OrderPerKey, 10}} {
		for _, w := range []struct {
			name    string
			many    bool
			waiting int // messages before the first turn
		}{{"free keys", false, keys - 2000}, {"keys in use", false, keys + 2000}, {"keys in use, many consumers", true, keys + 2000}} {
			b.Run(c.name+"/"+w.name, func(b *testing.B) {
				t := newTurns(b, QueueOptions{Ordering: c.ordering}, 256)
				if c.stuck > 0 {
					t.dress = func(n int, m *Message) { keysInTurn(keys)(n*c.stuck, m) }
					lease := t.lease
					lease.Consumer = Consumer{Sub: 9}
					for t.n < keys/c.stuck {
						t.begin()
						t.enqueue()
						t.add(&lease)
						t.end()
					}
				}
				t.n = 0
				t.dress = func(n int, m *Message) { keysInTurn(keys)(n%keys*618_033_989%keys, m) } // neighbours apart
				t.fill(w.waiting)
				t.many = w.many
				t.run(b, 1)
				t.reportBytes(b)
			})
		}
	}
}
