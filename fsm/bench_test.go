package fsm

import (
	"syscall"
	"testing"
)

// cpu is the processor time of the process so far, ns: on a busy machine the clock on the wall says little.
func cpu(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano() + u.Stime.Nano())
}

// filled is a state with n queued messages of 256 bytes.
func filled(b testing.TB, n int) (*rig, *Enqueue) {
	r := newRig(b)
	r.quiet = true
	r.log = nil
	op := &Enqueue{Queue: []byte("q"), AutoCreate: true}
	body := make([]byte, 256)
	for range 200 {
		op.Messages = append(op.Messages, Message{Body: body, Priority: DefaultPriority})
	}
	for done := 0; done < n; done += len(op.Messages) {
		r.now++
		r.index++
		if err := r.s.Apply(r.index, r.entry(0, op), &r.fx); err != nil {
			b.Fatal(err)
		}
	}
	return r, op
}

// BenchmarkEnqueue is the cost of one 256 B message in entries of 200, with a request id each.
func BenchmarkEnqueue(b *testing.B) {
	r, op := filled(b, 0)
	op.Request = Request{Session: r.ok(&OpenSession{}).ID}
	var data []byte
	b.ReportAllocs()
	b.ResetTimer()
	from := cpu(b)
	defer func() { b.ReportMetric((cpu(b)-from)/float64(b.N), "cpu-ns/op") }()
	for n := 0; n < b.N; n += len(op.Messages) {
		op.Request.Number += uint64(len(op.Messages))
		op.Request.Low = op.Request.Number
		data = AppendOp(AppendEntryHeader(data[:0], r.now, 0), op)
		r.index++
		if err := r.s.Apply(r.index, data, &r.fx); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCycle is one message's enqueue, lease and ack, in entries of 200 of each, with 100,000 others queued before it.
func BenchmarkCycle(b *testing.B) {
	r, op := filled(b, 100_000)
	op.Request = Request{Session: r.ok(&OpenSession{}).ID}
	lease := &Lease{Queue: []byte("q"), Consumer: someone, Worker: []byte("host:1:2"), Max: 200}
	acks := make([]Ack, 200)
	held := 0
	var data []byte
	b.ReportAllocs()
	b.ResetTimer()
	from := cpu(b)
	defer func() { b.ReportMetric((cpu(b)-from)/float64(b.N), "cpu-ns/op") }()
	for n := 0; n < b.N; n += len(op.Messages) {
		op.Request.Number += uint64(len(op.Messages))
		op.Request.Low = op.Request.Number
		r.now++
		data = AppendOp(AppendEntryHeader(data[:0], r.now, 0), op)
		data = AppendOp(data, lease)
		for i := range held {
			data = AppendOp(data, &acks[i])
		}
		r.index++
		if err := r.s.Apply(r.index, data, &r.fx); err != nil {
			b.Fatal(err)
		}
		held = len(r.fx.Leases)
		for i := range held {
			acks[i].Token = r.fx.Leases[i].Token
		}
	}
}

// BenchmarkRestore is the cost of restoring 200,000 messages, for each.
func BenchmarkRestore(b *testing.B) {
	r, _ := filled(b, 200_000)
	snap := snapshot(b, r.s)
	b.ResetTimer()
	from := cpu(b)
	for b.Loop() {
		restoredOnly(b, snap).Close()
	}
	b.ReportMetric((cpu(b)-from)/float64(b.N)/200_000, "cpu-ns/msg")
}
