package fsm

import (
	"math/rand/v2"
	"strconv"
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

// turns drives the loop that most benchmarks here are made of: entries that enqueue a batch into queue q, lease as many, and
// acknowledge what was leased before.
type turns struct {
	*rig
	op    Enqueue
	lease Lease
	// dress sets what the n-th message of all has beside its body; nil: nothing.
	dress func(n int, m *Message)
	// many: instead of one consumer that acknowledges all that the entry before has leased there are several, with a thousand
	// leases out, each of which acknowledges in its order, but not in step with the others.
	many bool
	rnd  *rand.Rand

	n    int                    // messages made
	out  [turnConsumers][]Token // by consumer
	outs int
	done int
	ack  Ack
	data []byte
}

const (
	turnBatch     = 200 // operations of each kind in an entry
	turnConsumers = 4   // if many
	turnOut       = 1000
)

// newTurns makes them for a queue with these options and bodies of so many bytes.
func newTurns(b testing.TB, o QueueOptions, size int) *turns {
	t := &turns{rig: newRig(b), rnd: rand.New(rand.NewPCG(1, 2))}
	t.quiet = true
	name := []byte("q")
	t.ok(&CreateQueue{Name: name, Options: o})
	t.log = nil
	t.op.Queue = name
	body := make([]byte, size)
	for range turnBatch {
		t.op.Messages = append(t.op.Messages, Message{Body: body, Priority: DefaultPriority})
	}
	t.lease = Lease{Queue: name, Consumer: someone, Worker: []byte("host:1:2"), Max: turnBatch, LeaseMillis: MaxLeaseMillis}
	return t
}

// begin begins an entry.
func (t *turns) begin() { t.data = AppendEntryHeader(t.data[:0], t.now, 0) }

func (t *turns) add(op Op) { t.data = AppendOp(t.data, op) }

// enqueue adds the next batch to the entry.
func (t *turns) enqueue() {
	for i := range t.op.Messages {
		if t.dress != nil {
			t.dress(t.n, &t.op.Messages[i])
		}
		t.n++
	}
	if t.op.Request.Number != 0 {
		t.op.Request.Number += turnBatch
		t.op.Request.Low = t.op.Request.Number
	}
	t.add(&t.op)
}

// end applies the entry.
func (t *turns) end() {
	t.index++
	if err := t.s.Apply(t.index, t.data, &t.fx); err != nil {
		t.t.Fatal(err)
	}
}

// fill enqueues so many messages that stay.
func (t *turns) fill(n int) {
	for ; n > 0; n -= turnBatch {
		t.begin()
		t.enqueue()
		t.end()
	}
}

// acks adds the acknowledgements of an entry.
func (t *turns) acks() {
	from := &t.out[0]
	for n := t.outs; t.outs > 0 && (!t.many || n-t.outs < turnBatch && n > turnOut); t.outs-- {
		for t.many {
			if from = &t.out[t.rnd.IntN(turnConsumers)]; len(*from) > 0 {
				break
			}
		}
		t.ack.Token = (*from)[0]
		*from = (*from)[1:]
		t.add(&t.ack)
		t.done++
	}
}

// turn is one entry of the loop.
func (t *turns) turn() {
	t.begin()
	t.enqueue()
	t.add(&t.lease)
	t.acks()
	t.end()
	n := len(t.fx.Leases)
	for i := range n {
		to := &t.out[0]
		if t.many { // a share each
			to = &t.out[i*turnConsumers/n]
		}
		*to = append(*to, t.fx.Leases[i].Token)
	}
	t.outs += n
}

// run is b.N messages' turns, an entry each so many ms, with what a message costs and how many of them were done.
func (t *turns) run(b *testing.B, millis int64) {
	for t.many && t.outs <= turnOut {
		t.turn()
	}
	t.done = 0
	b.ReportAllocs()
	b.ResetTimer()
	from := cpu(b)
	for n := 0; n < b.N; n += turnBatch {
		t.now += millis
		t.turn()
	}
	b.ReportMetric((cpu(b)-from)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(t.done)/float64(b.N), "done/op")
}

// reportBytes reports what a message takes.
func (t *turns) reportBytes(b *testing.B) {
	m := t.s.Memory()
	b.ReportMetric(float64(m.ArenaHeld+m.TableBytes)/float64(m.Messages), "B/msg")
}

// keysInTurn gives the n-th message one of so many keys, all in turn.
func keysInTurn(keys int) func(n int, m *Message) {
	return func(n int, m *Message) { m.Key = strconv.AppendInt(m.Key[:0], int64(n%keys), 36) }
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
	t := newTurns(b, QueueOptions{}, 256)
	t.fill(100_000)
	t.op.Request = Request{Session: t.ok(&OpenSession{}).ID, Number: 1}
	t.run(b, 1)
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
