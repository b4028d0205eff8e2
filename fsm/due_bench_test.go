package fsm

import "testing"

// BenchmarkDelayed is one message's enqueue, coming due, lease and ack with a million others waiting for their time, twenty
// due each millisecond and enqueued in no order of it.
func BenchmarkDelayed(b *testing.B) {
	const waiting, perMilli, batch = 1_000_000, 20, 200
	r := newRig(b)
	r.quiet = true
	name := []byte("q")
	r.ok(&CreateQueue{Name: name})
	op := &Enqueue{Queue: name}
	body := make([]byte, 64)
	for range batch {
		op.Messages = append(op.Messages, Message{Body: body, Priority: DefaultPriority})
	}
	start := r.now + 1000
	var data []byte
	apply := func() {
		r.index++
		if err := r.s.Apply(r.index, data, &r.fx); err != nil {
			b.Fatal(err)
		}
	}
	at := 0
	fill := func() { // the next batch, each due in a round of all in an order without runs
		for i := range op.Messages {
			round, nth := at/waiting, uint64(at%waiting)*618_033_989%waiting
			op.Messages[i].DueAt = start + int64(round*waiting+int(nth))/perMilli
			at++
		}
		data = AppendOp(data, op)
	}
	for range waiting / batch {
		data = AppendEntryHeader(data[:0], r.now, 0)
		fill()
		apply()
	}
	lease := &Lease{Queue: name, Consumer: someone, Worker: []byte("host:1:2"), Max: batch, LeaseMillis: MaxLeaseMillis}
	acks := make([]Ack, batch)
	held, done := 0, 0
	b.ReportAllocs()
	b.ResetTimer()
	from := cpu(b)
	r.now = start - 1
	for n := 0; n < b.N; n += batch {
		r.now += batch / perMilli
		data = AppendEntryHeader(data[:0], r.now, 0)
		fill()
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
}
