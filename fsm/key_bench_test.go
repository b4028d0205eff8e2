package fsm

import (
	"strconv"
	"testing"
	"time"
)

// BenchmarkFlows is one message's enqueue, lease and ack over a hundred thousand keys with one waiting in each: in the ways that
// keys can matter, and with a flood of a million more messages parked behind one key.
func BenchmarkFlows(b *testing.B) {
	const keys = 100_000
	for _, c := range []struct {
		name  string
		o     QueueOptions
		flood int
	}{
		{"keys do not matter", QueueOptions{}, 0},
		{"in flight", QueueOptions{MaxInFlightPerKey: 1}, 0},
		{"in flight, a flood parked", QueueOptions{MaxInFlightPerKey: 1}, 1_000_000},
		{"rate", QueueOptions{RatePerKeyMilli: 1_000_000}, 0},
		{"fair", QueueOptions{FairBy: FairByKey}, 0},
		{"fair, in flight, rate", QueueOptions{FairBy: FairByKey, MaxInFlightPerKey: 1, RatePerKeyMilli: 1_000_000}, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			t := newTurns(b, c.o, 256)
			if c.flood > 0 {
				t.dress = func(_ int, m *Message) { m.Key = append(m.Key[:0], "flood"...) }
				t.fill(turnBatch)
				lease := t.lease
				lease.Consumer, lease.Max = Consumer{Sub: 9}, 1
				t.ok(&lease)
				t.fill(c.flood - turnBatch)
			}
			t.dress = keysInTurn(keys)
			t.fill(keys)
			t.run(b, 1)
		})
	}
}

// BenchmarkKeyOptions is what it takes to have keys matter, or no more, for a million ready messages: of one key, of a thousand,
// and of a million.
func BenchmarkKeyOptions(b *testing.B) {
	for _, keys := range []int{1, 1000, 1_000_000} {
		b.Run(strconv.Itoa(keys), func(b *testing.B) {
			for b.Loop() {
				r := newRig(b)
				r.quiet = true
				r.ok(&CreateQueue{Name: []byte("q")})
				op := &Enqueue{Queue: []byte("q")}
				for n := range 1_000_000 {
					op.Messages = append(op.Messages, Message{Key: strconv.AppendInt(nil, int64(n%keys), 36), Body: make([]byte, 64), Priority: DefaultPriority})
					if len(op.Messages) == MaxBatch {
						r.apply(op)
						r.log = nil
						op.Messages = op.Messages[:0]
					}
				}
				set := func(what string, o QueueOptions) {
					at := time.Now()
					from := cpu(b)
					r.ok(&SetQueue{Name: []byte("q"), Options: o})
					b.ReportMetric(float64(time.Since(at).Milliseconds()), what+"-ms")
					b.ReportMetric((cpu(b)-from)/1e6, what+"-cpu-ms")
				}
				set("on", QueueOptions{MaxInFlightPerKey: 1})
				m := r.s.Memory()
				b.ReportMetric(float64(r.s.keys.Bytes()+r.s.flows.Bytes()+r.s.keyIx.Bytes()+r.s.queues[0].heads.Bytes())/float64(m.Keys), "B/key")
				set("fair", QueueOptions{FairBy: FairByKey})
				set("off", QueueOptions{})
				r.s.Close()
			}
		})
	}
}
