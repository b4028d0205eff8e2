package fsm

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
)

// deepest is how many messages the longest queue of these benchmarks has. Ten million take about 4 GB.
var deepest = flag.Int("depth", 1_000_000, "messages in the longest queue of BenchmarkOperations, BenchmarkSnapshot and BenchmarkWriting")

// depths are queue lengths from a thousand to the flag, ten times as many each.
func depths(b *testing.B, f func(b *testing.B, n int)) {
	for n := 1000; n <= *deepest; n *= 10 {
		b.Run(fmt.Sprintf("depth=%d", n), func(b *testing.B) { f(b, n) })
	}
}

// stopwatch collects the time of entries of one kind. The median stands for them: on a machine with neighbours a mean is
// theirs as much as ours.
type stopwatch struct {
	name string
	took []float64 // ns an operation
}

func (w *stopwatch) report(b *testing.B) {
	slices.Sort(w.took)
	b.ReportMetric(w.took[len(w.took)/2], w.name+"-ns")
}

// BenchmarkOperations is the cost of each of the common operations on 256 B messages, in entries of 200, in a queue that stays as
// long as it is: what a thousand times the messages add to it is cache misses and the steps of a heap.
func BenchmarkOperations(b *testing.B) {
	depths(b, func(b *testing.B, n int) {
		c := newRounds(b, n)
		ws := make(map[string]*stopwatch)
		for _, n := range operations {
			ws[n] = &stopwatch{name: n}
		}
		c.step = func(name string, apply func()) {
			from := time.Now()
			apply()
			w := ws[name]
			w.took = append(w.took, float64(time.Since(from).Nanoseconds())/perEntry)
		}
		for b.Loop() {
			c.round()
		}
		for _, n := range operations {
			ws[n].report(b)
		}
		b.ReportMetric(0, "ns/op") // of a round: no figure of interest
	})
}

// BenchmarkSnapshot is what a queue of 256 B messages takes in memory; how long Apply is held when a snapshot of it begins (the
// longest of ten); and hashing it, writing it to a file and restoring it, for each message.
func BenchmarkSnapshot(b *testing.B) {
	depths(b, func(b *testing.B, n int) {
		for b.Loop() {
			before := heapAlloc()
			r, op := filled(b, n)
			m := r.s.Memory()
			b.ReportMetric(float64(heapAlloc()-before+m.ArenaHeld)/float64(n), "B/msg")
			var hold time.Duration
			for range 10 {
				from := time.Now()
				v := r.s.View()
				hold = max(hold, time.Since(from))
				// Once more with pages to copy.
				r.index++
				if err := r.s.Apply(r.index, r.entry(0, op), &r.fx); err != nil {
					b.Fatal(err)
				}
				v.Release()
			}
			b.ReportMetric(float64(hold.Microseconds()), "hold-µs")
			n := float64(r.s.Memory().Messages)
			v := r.s.View()
			from := time.Now()
			v.Digest()
			b.ReportMetric(float64(time.Since(from).Nanoseconds())/n, "digest-ns/msg")
			path := filepath.Join(b.TempDir(), "snapshot")
			from = time.Now()
			writeFile(b, v, path)
			b.ReportMetric(float64(time.Since(from).Nanoseconds())/n, "write-ns/msg")
			v.Release()
			r.s.Close()
			r.s = New(3)
			runtime.GC()
			f, err := os.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			from = time.Now()
			s, err := Restore(3, f)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(time.Since(from).Nanoseconds())/n, "restore-ns/msg")
			_ = f.Close() // only read
			s.Close()
			_ = os.Remove(path) // so is the folder, in the end
		}
		b.ReportMetric(0, "ns/op")
	})
}

func heapAlloc() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func writeFile(b *testing.B, v *View, path string) {
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 128<<10)
	if _, err := v.WriteTo(w); err != nil {
		b.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkWriting is the enqueue, lease and ack of a message of a long queue: alone, and while snapshots of it are written one after
// the other.
func BenchmarkWriting(b *testing.B) {
	depths(b, func(b *testing.B, n int) {
		r, op := filled(b, n)
		for _, c := range []struct {
			name    string
			writing bool
		}{{"alone", false}, {"while a snapshot is written", true}} {
			b.Run(c.name, func(b *testing.B) {
				done := make(chan struct{})
				views := make(chan *View, 1)
				go func() {
					defer close(done)
					for v := range views {
						_, _ = v.WriteTo(io.Discard) // never fails
						v.Release()
					}
				}()
				lease := &Lease{Queue: op.Queue, Consumer: someone, Worker: []byte("host:1:2"), Max: 200}
				var acks [200]Ack
				held := 0
				w := stopwatch{name: "cycle"}
				var data []byte
				b.ReportAllocs()
				b.ResetTimer()
				for b.Loop() {
					if c.writing && len(views) == 0 {
						views <- r.s.View()
					}
					r.now++
					data = AppendOp(AppendEntryHeader(data[:0], r.now, 0), op)
					data = AppendOp(data, lease)
					for i := range held {
						data = AppendOp(data, &acks[i])
					}
					r.index++
					from := time.Now()
					if err := r.s.Apply(r.index, data, &r.fx); err != nil {
						b.Fatal(err)
					}
					w.took = append(w.took, float64(time.Since(from).Nanoseconds())/200)
					held = len(r.fx.Leases)
					for i := range held {
						acks[i].Token = r.fx.Leases[i].Token
					}
				}
				b.StopTimer()
				var sum float64
				for _, t := range w.took {
					sum += t
				}
				b.ReportMetric(sum/float64(len(w.took)), "mean-ns")
				w.report(b)
				b.ReportMetric(0, "ns/op")
				close(views)
				<-done
				for i := range held { // the next one begins with none out
					r.apply(&acks[i])
				}
			})
		}
	})
}

// BenchmarkQueues is one message's enqueue, lease and ack, each an operation of its own, over as many queues by turns, each of which
// has ten messages.
func BenchmarkQueues(b *testing.B) {
	for _, queues := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("queues=%d", queues), func(b *testing.B) {
			r, _ := filled(b, 0)
			body := make([]byte, 256)
			names := make([][]byte, queues)
			for i := range names {
				names[i] = fmt.Appendf(nil, "queue-%d", i)
				op := &Enqueue{Queue: names[i], AutoCreate: true}
				for range max(10, 1000/queues) {
					op.Messages = append(op.Messages, Message{Body: body, Priority: DefaultPriority})
				}
				r.index++
				if err := r.s.Apply(r.index, r.entry(0, op), &r.fx); err != nil {
					b.Fatal(err)
				}
			}
			w := stopwatch{name: "cycle"}
			var acks [perEntry]Ack
			held, at := 0, 0
			var data []byte
			enqueue := &Enqueue{Messages: []Message{{Body: body, Priority: DefaultPriority}}}
			lease := &Lease{Consumer: someone, Worker: []byte("host:1:2"), Max: 1}
			for b.Loop() {
				r.now++
				data = AppendEntryHeader(data[:0], r.now, 0)
				for range perEntry {
					enqueue.Queue, lease.Queue = names[at], names[at]
					data = AppendOp(AppendOp(data, enqueue), lease)
					at = (at + 1) % queues
				}
				for i := range held {
					data = AppendOp(data, &acks[i])
				}
				r.index++
				from := time.Now()
				if err := r.s.Apply(r.index, data, &r.fx); err != nil {
					b.Fatal(err)
				}
				w.took = append(w.took, float64(time.Since(from).Nanoseconds())/perEntry)
				if held = len(r.fx.Leases); held != perEntry {
					b.Fatalf("%d leased, want %d", held, perEntry)
				}
				for i := range held {
					acks[i].Token = r.fx.Leases[i].Token
				}
			}
			w.report(b)
			b.ReportMetric(0, "ns/op")
		})
	}
}
