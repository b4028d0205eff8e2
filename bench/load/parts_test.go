package load

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

func TestGap(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	for _, c := range []struct {
		name          string
		marks         []int // begin at 100, end at 200
		length, after int   // ms
	}{
		{"nothing at all", nil, 100, 0},
		{"in the middle", []int{110, 150, 160, 199}, 40, 10},
		{"at the beginning", []int{160, 190}, 60, 0},
		{"at the end", []int{110, 120}, 80, 20},
		{"out of order", []int{150, 120, 180}, 50, 0},
		{"the first of equals", []int{120, 140, 160, 180}, 20, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var g Gap
			g.Mark(at(1)) // before the beginning: nothing
			g.Begin(at(100))
			for _, m := range c.marks {
				g.Mark(at(m))
			}
			g.End(at(200))
			g.Mark(at(999)) // after the end: nothing
			length, after := g.Longest()
			if length != time.Duration(c.length)*time.Millisecond || after != time.Duration(c.after)*time.Millisecond {
				t.Errorf("%s after %s; want %d ms after %d ms", length, after, c.length, c.after)
			}
		})
	}
}

func TestGapFromManyGoroutines(t *testing.T) {
	var g Gap
	begin := time.UnixMilli(0)
	g.Begin(begin)
	var wg sync.WaitGroup
	for k := range 4 {
		wg.Go(func() {
			for ms := k; ms < 4000; ms += 4 {
				if ms < 1000 || ms >= 1500 {
					g.Mark(begin.Add(time.Duration(ms) * time.Millisecond))
				}
			}
		})
	}
	wg.Wait()
	g.End(begin.Add(4 * time.Second))
	if length, _ := g.Longest(); length < 500*time.Millisecond || length > 504*time.Millisecond {
		t.Errorf("%s; the silence is 500 ms and a goroutine marks every 4 ms", length)
	}
}

func TestBody(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{MinSize, 35, 36, 256, 1024, 70000} {
		if run, seq, err := ReadBody(NewBody(5, 6, size), size); run != 5 || seq != 6 || err != nil {
			t.Errorf("size %d: a new body is of run %d, message %d (%v); 5 and 6 expected", size, run, seq, err)
		}
		b := filler(r, size)
		sum := stamp(b, 77, 12345, 6789)
		seq, due, got, err := readBody(b, 77, size)
		if err != nil || seq != 12345 || due != 6789 || got != sum {
			t.Errorf("size %d: %d, %d, %x, %v", size, seq, due, got, err)
		}
		for range 200 {
			i, bit := r.IntN(size), byte(1)<<r.IntN(8)
			b[i] ^= bit
			if _, _, _, err := readBody(b, 77, size); err == nil {
				t.Errorf("size %d: a changed bit in byte %d passes", size, i)
			}
			b[i] ^= bit
		}
		if _, _, _, err := readBody(b[:size-1], 77, size); err == nil {
			t.Errorf("size %d: a shorter body passes", size)
		}
		if _, _, _, err := readBody(b, 78, size); err == nil {
			t.Errorf("size %d: another run's body passes", size)
		}
	}
}

func TestQuantiles(t *testing.T) {
	a, b := newLatencies(), newLatencies()
	if q := quantiles([]*latencies{a, b}); q != nil {
		t.Errorf("nothing gives %+v", q)
	}
	for i := 1; i <= 1000; i++ {
		l := a
		if i%2 == 0 {
			l = b
		}
		l.record(time.Duration(i) * time.Millisecond)
	}
	q := quantiles([]*latencies{a, b})
	near := func(got, want float64) bool { return got > want*0.998 && got < want*1.002 }
	if !near(q.P50, 500) || !near(q.P99, 990) || !near(q.P999, 999) || !near(q.Max, 1000) {
		t.Errorf("%+v", q)
	}
	a.record(-time.Second)
	a.record(time.Hour)
	if q := quantiles([]*latencies{a}); !near(q.Max, 120_000) {
		t.Errorf("an hour counts as %g ms", q.Max)
	}
}

func TestLedger(t *testing.T) {
	var l ledger
	const n = chunkMessages + 10
	for i := range uint64(n) {
		seq, err := l.open()
		if err != nil || seq != i {
			t.Fatalf("%d, %v", seq, err)
		}
		l.send(seq, uint32(seq))
	}
	for i := range uint64(n) {
		switch {
		case i == 1:
			l.settle(i, outRefused)
		case i == 2 || i == 3:
			l.settle(i, outUnknown)
		case i == 4: // no outcome
		default:
			l.settle(i, outConfirmed)
		}
	}
	for i := range uint64(n) {
		if i == 1 || i == 2 || i == 4 || i == n-1 {
			continue
		}
		if first, err := l.deliver(i, uint32(i)); !first || err != nil {
			t.Fatalf("%d: %t, %v", i, first, err)
		}
		if !l.ack(i) || l.ack(i) {
			t.Fatalf("%d: the first ack is not the first", i)
		}
	}
	if first, err := l.deliver(5, 5); first || err != nil {
		t.Errorf("again: %t, %v", first, err)
	}
	for _, bad := range []struct {
		seq uint64
		sum uint32
	}{{n, 0}, {1 << 60, 0}, {5, 6}, {1, 1}} {
		if _, err := l.deliver(bad.seq, bad.sum); err == nil {
			t.Errorf("delivery of %d with %d passes", bad.seq, bad.sum)
		}
	}
	lost, unanswered, recovered := l.lost()
	if lost != 1 || unanswered != 1 || recovered != 1 {
		t.Errorf("lost %d, unanswered %d, recovered %d", lost, unanswered, recovered)
	}
	if l.duplicates.Load() != 1 || l.unexpectedSeen.Load() != 4 || l.refused.Load() != 1 || l.unknown.Load() != 2 || l.arrived.Load() != n-5 {
		t.Errorf("duplicates %d, unexpected %d, refused %d, unknown %d, arrived %d", l.duplicates.Load(), l.unexpectedSeen.Load(),
			l.refused.Load(), l.unknown.Load(), l.arrived.Load())
	}
	l.next.Store(maxMessages)
	if _, err := l.open(); err == nil {
		t.Error("a full ledger takes more")
	}
}
