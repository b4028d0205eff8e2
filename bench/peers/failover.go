package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/bench/load"
	"github.com/quorate/quorate/client"
)

// W6: a thousand messages a second, each tried again until it is confirmed; the queue's leader is killed.
const (
	failoverRate       = 1000
	failoverPublishers = 4
	failoverEach       = 64      // messages of a publisher that are under way at once
	failoverMessages   = 200_000 // more than can be sent in all the time that it may take
	retryPause         = 20 * time.Millisecond
)

// gapResult is what W6 finds.
type gapResult struct {
	LongestGapMS float64 `json:"longest_gap_ms"` // between two confirmations
	GapFromKillS float64 `json:"gap_from_kill_s"`
	Confirmed    int64   `json:"confirmed"`
	Failed       int64   `json:"failed_attempts"`
	Duplicates   int64   `json:"duplicates"` // stored twice, since an attempt of unknown outcome was repeated
	Killed       string  `json:"killed"`
}

// failing is one run of W6.
type failing struct {
	b         *bench
	run       uint64
	size      int
	gap       load.Gap
	killed    atomic.Bool
	confirmed []atomic.Bool // by sequence number
	count     atomic.Int64
	after     atomic.Int64 // confirmations since the kill
	failed    atomic.Int64
	last      atomic.Pointer[error] // of the failed attempts
	enough    chan struct{}         // closed when there are enough
	once      sync.Once
}

func (b *bench) failover(ctx context.Context, t target, m *measurement) (err error) {
	queue := fmt.Sprintf("bench.W6.%d", m.Repeat)
	conn, err := t.connect(ctx, "bench-admin")
	if err != nil {
		return err
	}
	err = conn.CreateQueue(ctx, queue, client.QueueOptions{})
	closeConn(conn)
	if err != nil {
		return err
	}
	f := &failing{b: b, run: rand.Uint64(), size: b.o.size, confirmed: make([]atomic.Bool, failoverMessages), enough: make(chan struct{})}
	var pubs []publisher
	defer func() {
		for _, p := range pubs {
			p.close()
		}
	}()
	for range failoverPublishers {
		p, err := t.publisher(ctx, queue)
		if err != nil {
			return err
		}
		pubs = append(pubs, p)
	}
	m.Gap, err = f.disturb(ctx, t, queue, pubs)
	if err != nil {
		return err
	}
	// What was confirmed is there.
	in := &inspection{size: b.o.size, run: f.run, seen: make(map[uint64]bool), many: true}
	if err := b.readBack(ctx, t, queue, load.DefaultWindow, func() bool { return f.missing(in) == 0 }, in); err != nil {
		return fmt.Errorf("%d confirmed messages are missing: %w", f.missing(in), err)
	}
	m.Gap.Duplicates = in.twos
	return nil
}

// missing counts the confirmed messages that were not read back. It is cheap while there are clearly too few.
func (f *failing) missing(in *inspection) (n int64) {
	if n = f.count.Load() - int64(len(in.seen)); n > 0 {
		return n
	}
	n = 0
	for seq := range f.confirmed {
		if f.confirmed[seq].Load() && !in.seen[uint64(seq)] {
			n++
		}
	}
	return n
}

// disturb publishes, kills the leader, and goes on until the service is back.
func (f *failing) disturb(ctx context.Context, t target, queue string, pubs []publisher) (*gapResult, error) {
	seqs := make(chan uint64)
	sending, stopSending := context.WithCancel(ctx)
	defer stopSending()
	// Messages that are under way when sending ends are tried for a while yet.
	trying, stopTrying := context.WithCancel(ctx)
	defer stopTrying()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stopTrying()
	defer stopSending()
	for _, p := range pubs {
		for range failoverEach {
			wg.Go(func() { f.publish(trying, p, seqs) })
		}
	}
	wg.Go(func() { pace(sending, seqs, failoverMessages) })
	f.gap.Begin(time.Now())
	if err := pause(ctx, f.b.within.before); err != nil {
		return nil, err
	}
	if f.count.Load() == 0 {
		return nil, errors.New("nothing was confirmed before the leader was to be killed")
	}
	victim, err := t.leader(ctx, queue)
	if err != nil {
		return nil, err
	}
	f.gap.Begin(time.Now()) // what asking for the leader may have disturbed does not count
	begun := time.Now()
	if err := pause(ctx, 200*time.Millisecond); err != nil {
		return nil, err
	}
	f.killed.Store(true)
	at := time.Now()
	victim.Kill()
	timeout := time.NewTimer(f.b.within.back)
	defer timeout.Stop()
	select {
	case <-f.enough:
	case <-timeout.C:
		return nil, fmt.Errorf("%d messages were confirmed within %s of the kill of %s, %d expected; last failure: %w",
			f.after.Load(), f.b.within.back, victim.Name, f.b.within.after, f.lastFailure())
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	f.gap.End(time.Now())
	stopSending()
	idle := time.AfterFunc(10*time.Second, stopTrying)
	defer idle.Stop()
	wg.Wait()
	length, from := f.gap.Longest()
	return &gapResult{
		LongestGapMS: float64(length.Microseconds()) / 1000, GapFromKillS: begun.Add(from).Sub(at).Seconds(),
		Confirmed: f.count.Load(), Failed: f.failed.Load(), Killed: victim.Name,
	}, nil
}

// pace hands out sequence numbers at the rate. What finds no publisher free is late, and is not made up for: after a gap
// the load is what it was before.
func pace(ctx context.Context, seqs chan<- uint64, most uint64) {
	defer close(seqs)
	const interval = time.Second / failoverRate
	next := time.Now()
	for seq := uint64(0); seq < most; {
		if d := time.Until(next); d > 0 {
			if pause(ctx, d) != nil {
				return
			}
			continue
		}
		select {
		case seqs <- seq:
			seq++
		case <-ctx.Done():
			return
		}
		next = next.Add(interval)
		if late := time.Now().Add(-20 * interval); next.Before(late) {
			next = late
		}
	}
}

// publish sends what it is handed, each message until it is confirmed.
func (f *failing) publish(ctx context.Context, p publisher, seqs <-chan uint64) {
	for seq := range seqs {
		body := load.NewBody(f.run, seq, f.size)
		id := fmt.Sprintf("%x-%d", f.run, seq)
		for {
			err := p.publish(ctx, id, body)
			if err == nil {
				f.confirm(seq)
				break
			}
			f.failed.Add(1)
			f.last.Store(&err)
			if pause(ctx, retryPause) != nil {
				return
			}
		}
	}
}

func (f *failing) lastFailure() error {
	if err := f.last.Load(); err != nil {
		return *err
	}
	return errors.New("none")
}

func (f *failing) confirm(seq uint64) {
	f.gap.Mark(time.Now())
	f.confirmed[seq].Store(true)
	f.count.Add(1)
	if f.killed.Load() && f.after.Add(1) == f.b.within.after {
		f.once.Do(func() { close(f.enough) })
	}
}
