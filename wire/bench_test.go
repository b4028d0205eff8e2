package wire

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

// Figures: go test ./wire -bench . -benchtime 1s. ns/msg is for one message of a frame of n.

func benchEnqueue(n, size int) *Enqueue {
	v := &Enqueue{Queue: "orders", Request: Request{Number: 70000, Low: 69000}}
	for i := range n {
		v.Messages = append(v.Messages, Message{Body: bytes.Repeat([]byte{byte(i)}, size)})
	}
	return v
}

const benchID = "0000G000000000K6ZS00000001"

func benchDelivery(n, size int) *Delivery {
	v := &Delivery{Sub: 1}
	for i := range n {
		v.Messages = append(v.Messages, Delivered{ID: benchID, Token: benchID + benchID, Attempt: 1,
			LeaseLeftMillis: 30000, Body: bytes.Repeat([]byte{byte(i)}, size), Priority: 4, EnqueuedAt: 1795000000000})
	}
	return v
}

func benchEnqueued(n int) *Enqueued {
	v := &Enqueued{At: At{Index: 12345678, Time: 1795000000000}}
	for range n {
		v.Outcomes = append(v.Outcomes, Outcome{ID: benchID})
	}
	return v
}

type benchCase struct {
	name string
	typ  Type
	n    int
	body any
}

func benchCases() []benchCase {
	return []benchCase{
		{"enqueue/256B/1", TypeEnqueue, 1, benchEnqueue(1, 256)},
		{"enqueue/256B/64", TypeEnqueue, 64, benchEnqueue(64, 256)},
		{"delivery/256B/1", TypeDelivery, 1, benchDelivery(1, 256)},
		{"delivery/256B/64", TypeDelivery, 64, benchDelivery(64, 256)},
		{"enqueued/64", TypeEnqueued, 64, benchEnqueued(64)},
		{"ack", TypeAck, 1, &Ack{Token: benchID + benchID}},
		{"ack_batch/64", TypeAckBatch, 64, &AckBatch{Tokens: slices.Repeat([]string{benchID + benchID}, 64)}},
		{"acked_batch/64", TypeAckedBatch, 64, &AckedBatch{At: At{Index: 12345678, Time: 1795000000000}}},
		{"acked", TypeAcked, 1, &Acked{At: At{Index: 12345678, Time: 1795000000000}}},
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, c := range benchCases() {
		b.Run(c.name, func(b *testing.B) {
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				buf = AppendFrame(buf[:0], c.typ, 77777, c.body)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.n), "ns/msg")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, c := range benchCases() {
		b.Run(c.name, func(b *testing.B) {
			msg := AppendFrame(nil, c.typ, 77777, c.body)
			dst := NewBody(c.typ)
			var memory Strings
			b.ReportAllocs()
			for b.Loop() {
				f, _, err := Next(msg)
				if err == nil {
					err = f.DecodeWith(dst, &memory)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.n), "ns/msg")
		})
	}
}

// The library on the same frames, for comparison.
func BenchmarkLibrary(b *testing.B) {
	for _, c := range benchCases()[:3] {
		var lib bytes.Buffer
		if err := libEnc.MarshalToBuffer(c.body, &lib); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("decode/%s", c.name), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := libDec.Unmarshal(lib.Bytes(), NewBody(c.typ)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.n), "ns/msg")
		})
	}
}
