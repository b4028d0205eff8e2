package fsm

import (
	"strconv"
	"testing"
)

// BenchmarkKeys is one message's enqueue, lease and ack over a million keys: unordered; ordered; and ordered with each tenth
// key stuck, its head being out for good and what comes for it waiting behind.
func BenchmarkKeys(b *testing.B) {
	const keys = 1_000_000
	for _, c := range []struct {
		name     string
		ordering Ordering
		stuck    int // one in so many keys
	}{{"unordered", OrderUnordered, 0}, {"per key", OrderPerKey, 0}, {"per key, a tenth stuck", OrderPerKey, 10}} {
		b.Run(c.name, func(b *testing.B) {
			r := newRig(b)
			r.quiet = true
			name := []byte("q")
			r.ok(&CreateQueue{Name: name, Options: QueueOptions{Ordering: c.ordering}})
			op := &Enqueue{Queue: name}
			body := make([]byte, 256)
			for range 200 {
				op.Messages = append(op.Messages, Message{Body: body, Priority: DefaultPriority})
			}
			var data []byte
			apply := func() {
				r.index++
				if err := r.s.Apply(r.index, data, &r.fx); err != nil {
					b.Fatal(err)
				}
			}
			at := 0
			fill := func(step int) {
				for i := range op.Messages {
					op.Messages[i].Key = strconv.AppendInt(op.Messages[i].Key[:0], int64(at%keys), 36)
					at += step
				}
				data = AppendOp(data, op)
			}
			begin := func() { data = AppendEntryHeader(data[:0], r.now, 0) }
			if c.stuck > 0 {
				for at < keys {
					begin()
					fill(c.stuck)
					data = AppendOp(data, &Lease{Queue: name, Consumer: Consumer{Sub: 9}, Worker: []byte("stuck"), Max: 200, LeaseMillis: MaxLeaseMillis})
					apply()
				}
			}
			at = 0
			for range keys / 200 { // one of each key waits, of the stuck ones too
				begin()
				fill(1)
				apply()
			}
			lease := &Lease{Queue: name, Consumer: someone, Worker: []byte("host:1:2"), Max: 200, LeaseMillis: MaxLeaseMillis}
			acks := make([]Ack, 200)
			held, done := 0, 0
			b.ReportAllocs()
			b.ResetTimer()
			from := cpu(b)
			for n := 0; n < b.N; n += 200 {
				r.now++
				begin()
				fill(1)
				data = AppendOp(data, lease)
				for i := range held {
					data = AppendOp(data, &acks[i])
				}
				apply()
				done += held
				held = len(r.fx.Leases)
				for i := range held {
					acks[i].Token = r.fx.Leases[i].Token
				}
			}
			b.ReportMetric((cpu(b)-from)/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(done)/float64(b.N), "done/op")
			m := r.s.Memory()
			b.ReportMetric(float64(m.ArenaHeld+m.TableBytes)/float64(m.Messages), "B/msg")
		})
	}
}
