package client

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/wire"
)

// rawFake makes the fake cheap: enqueues are answered without being kept.
func rawFake(b *testing.B) *fake {
	f := newFake(b, 1)
	var ids [wire.MaxBatch]wire.Outcome
	for i := range ids {
		ids[i].ID = fmt.Sprintf("%026d", i)
	}
	var e wire.Enqueue
	f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
		if r.Type != wire.TypeEnqueue {
			return pass, nil
		}
		if err := r.Decode(&e); err != nil {
			b.Error(err)
		}
		fc.push(wire.TypeEnqueued, r.Tag, &wire.Enqueued{Outcomes: ids[:len(e.Messages)]})
		return ignore, nil
	}
	return f
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkEnqueueAsync keeps 2048 messages of 256 B outstanding; with turns, 25 are sent and then all answers awaited, as a producer's share
// of each entry is when four keep three nodes busy. cpu-us/op counts the client and the fake server.
func BenchmarkEnqueueAsync(b *testing.B) {
	b.Run("outstanding=2048", func(b *testing.B) { enqueueAsync(b, 2048, false) })
	b.Run("turns=25", func(b *testing.B) { enqueueAsync(b, 25, true) })
}

func enqueueAsync(b *testing.B, outstanding int, turns bool) {
	f := rawFake(b)
	c := open(b, f, Options{})
	body := make([]byte, 256)
	tokens := make(chan struct{}, outstanding)
	var wg, turn sync.WaitGroup
	wg.Add(b.N)
	b.ReportAllocs()
	start := cpu()
	b.ResetTimer()
	for i := range b.N {
		if turns && i%outstanding == 0 {
			turn.Wait()
			turn.Add(min(outstanding, b.N-i))
		}
		tokens <- struct{}{}
		if err := c.EnqueueAsync(context.Background(), "q", Message{Body: body}, func(_ Receipt, err error) {
			if err != nil {
				b.Error(err)
			}
			<-tokens
			if turns {
				turn.Done()
			}
			wg.Done()
		}); err != nil {
			b.Fatal(err)
		}
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((cpu()-start).Microseconds())/float64(b.N), "cpu-us/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
}

// BenchmarkEnqueue has 256 goroutines that each wait for their answer.
func BenchmarkEnqueue(b *testing.B) {
	f := rawFake(b)
	c := open(b, f, Options{})
	body := make([]byte, 256)
	b.SetParallelism(256 / runtime.GOMAXPROCS(0))
	b.ReportAllocs()
	start := cpu()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.Enqueue(context.Background(), "q", Message{Body: body}); err != nil {
				b.Error(err)
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64((cpu()-start).Microseconds())/float64(b.N), "cpu-us/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
}

// BenchmarkEnqueueOne is one enqueue at a time: the latency the SDK adds over loopback.
func BenchmarkEnqueueOne(b *testing.B) {
	f := rawFake(b)
	c := open(b, f, Options{})
	body := make([]byte, 256)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, err := c.Enqueue(context.Background(), "q", Message{Body: body}); err != nil {
			b.Fatal(err)
		}
	}
}

// deliverFake sends deliveries as fast as acks come back, when half of the window is free; with turns, when all of it is.
func deliverFake(b *testing.B, total int, turns bool) *fake {
	f := newFake(b, 1)
	body := make([]byte, 256)
	var window, sent, out int
	var sub uint32
	var a wire.Ack
	var batch wire.AckBatch
	more := func(fc *fakeConn) {
		d := wire.Delivery{Sub: sub}
		for out < window && sent < total && len(d.Messages) < 256 {
			d.Messages = append(d.Messages, wire.Delivered{
				ID: fmt.Sprintf("%026d", sent), Token: fmt.Sprintf("%052d", sent), Attempt: 1, LeaseLeftMillis: 30000, Body: body,
				Priority: 4, EnqueuedAt: 1_700_000_000_000,
			})
			sent++
			out++
		}
		if len(d.Messages) > 0 {
			fc.push(wire.TypeDelivery, 0, &d)
		}
	}
	f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
		switch r.Type {
		case wire.TypeSubscribe:
			s := decode[wire.Subscribe](fc, r)
			sub, window = s.Sub, int(s.Credit)
			fc.push(wire.TypeOK, r.Tag, &wire.OK{})
			more(fc)
		case wire.TypeAck:
			if err := r.Decode(&a); err != nil {
				b.Error(err)
			}
			fc.push(wire.TypeAcked, r.Tag, &wire.Acked{})
			if out--; out == 0 || !turns && (out < window/2 || sent == total) {
				more(fc)
			}
		case wire.TypeAckBatch:
			if err := r.Decode(&batch); err != nil {
				b.Error(err)
			}
			fc.push(wire.TypeAckedBatch, r.Tag, &wire.AckedBatch{})
			if out -= len(batch.Tokens); out == 0 || !turns && (out < window/2 || sent == total) {
				more(fc)
			}
		default:
			return pass, nil
		}
		return ignore, nil
	}
	return f
}

// BenchmarkSubscribeAck acks each delivery; with turns, 25 are delivered and all their acks awaited: see BenchmarkEnqueueAsync.
func BenchmarkSubscribeAck(b *testing.B) {
	b.Run("credit=1000", func(b *testing.B) { subscribeAck(b, 1000, false) })
	b.Run("turns=25", func(b *testing.B) { subscribeAck(b, 25, true) })
}

func subscribeAck(b *testing.B, credit int, turns bool) {
	f := deliverFake(b, b.N, turns)
	c := open(b, f, Options{})
	var wg sync.WaitGroup
	wg.Add(b.N)
	b.ReportAllocs()
	start := cpu()
	b.ResetTimer()
	if _, err := c.Subscribe(context.Background(), "q", SubscribeOptions{Credit: credit}, func(d *Delivery) {
		if err := c.AckAsync(context.Background(), d.Token, AckOptions{}, func(_ Acked, err error) {
			if err != nil {
				b.Error(err)
			}
			wg.Done()
		}); err != nil {
			b.Error(err)
		}
	}); err != nil {
		b.Fatal(err)
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((cpu()-start).Microseconds())/float64(b.N), "cpu-us/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
}

func BenchmarkConsume(b *testing.B) {
	for _, n := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("handlers=%d", n), func(b *testing.B) {
			f := deliverFake(b, b.N, false)
			c := open(b, f, Options{})
			ctx, cancel := context.WithCancel(context.Background())
			var did atomic.Int64
			b.ReportAllocs()
			start := cpu()
			b.ResetTimer()
			err := c.Consume(ctx, "q", ConsumeOptions{Concurrency: n, Prefetch: max(4*n, 200)}, func(context.Context, *Delivery) (*Result, error) {
				if did.Add(1) == int64(b.N) {
					cancel()
				}
				return nil, nil
			})
			b.StopTimer()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64((cpu()-start).Microseconds())/float64(b.N), "cpu-us/op")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
		})
	}
}
