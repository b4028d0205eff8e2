package load

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/client"
)

// delayed fills a queue with Count messages that come due one after the other at DueRate, in an order that is not the one
// in which they are sent, and receives them. The first is due Lead after the start, by when all must be there: a delayed
// message that is sent late is none.
//
// Lateness is counted from the millisecond that a message was given to the millisecond of this process's wall clock in
// which its consumer gets it. It holds what the cluster's log time differs from that clock, so on several machines it is no
// better than their clocks; the network and the client are part of it. A delivery in an earlier millisecond than was asked
// for is counted as early, and fails the run.
func (r *run) delayed(ctx context.Context) (*Result, error) {
	cfg := &r.cfg
	first := r.origin.Add(cfg.Lead).Round(0)
	stride := coprime(cfg.Count)
	due := func(seq uint64) int64 { // Unix ms
		nth := seq % uint64(cfg.Count) * stride % uint64(cfg.Count)
		return first.UnixMilli() + int64(float64(nth)*1000/cfg.DueRate)
	}
	r.due = func(seq uint64) time.Duration { return time.Duration(due(seq)-r.origin.UnixMilli()) * time.Millisecond }
	r.dress = func(s *slot, m *client.Message) { m.EnqueueAt = time.UnixMilli(due(s.seq)) }
	late := make([]*latencies, cfg.Consumers)
	for i := range late {
		late[i] = newLatencies()
	}
	var early, half atomic.Int64
	disturb := make(chan struct{})
	r.judge = func(c *consumer, seq uint64, _ time.Duration, _ *client.Delivery, now time.Time) {
		ms := now.UnixMilli() - due(seq)
		if ms < 0 {
			early.Add(1)
		}
		late[c.number].record(time.Duration(ms) * time.Millisecond)
		if half.Add(1) == int64(cfg.Count+1)/2 {
			close(disturb)
		}
	}

	rss := cfg.rss()
	cs, err := r.startConsumers(ctx) // from the start: what comes early is to be seen
	if err != nil {
		return nil, err
	}
	defer closeConsumers(cs)
	if err := r.preload(ctx, cfg.Count); err != nil {
		return nil, err
	}
	took := time.Since(r.origin)
	if took > cfg.Lead {
		return nil, fmt.Errorf("%d messages took %s to enqueue and the first was due after %s: give them more time (lead)", cfg.Count,
			took.Round(time.Millisecond), cfg.Lead)
	}
	full := cfg.rss()
	sp := r.begin() // not when the timer wakes: the first may have come by then
	sp.from = first
	cfg.Confirms.Begin(first)
	defer r.progress("measure")()
	if err := r.pause(ctx, time.Until(first), nil); err != nil {
		return nil, err
	}

	var wg sync.WaitGroup
	defer wg.Wait()
	ending, end := context.WithCancel(ctx)
	defer end()
	var disturbed error
	if cfg.Disturb != nil {
		wg.Go(func() {
			select {
			case <-disturb:
				disturbed = cfg.Disturb(ending)
			case <-ending.Done():
			}
		})
	}
	if err := r.await(ctx, r.drained, true); err != nil {
		return nil, err
	}
	res := r.end(sp)
	if half.Load() < int64(cfg.Count+1)/2 {
		end()
	}
	wg.Wait()
	if disturbed != nil {
		return nil, disturbed
	}
	r.close(res)
	res.Early = early.Load()
	res.Lateness = quantiles(late)
	res.FillRate = float64(cfg.Count) / took.Seconds()
	res.memory(rss, full, cfg.Count)
	return res, nil
}

func (c *Config) rss() []int64 {
	if c.ServerRSS == nil {
		return nil
	}
	return c.ServerRSS()
}

// memory notes what each of count messages takes of the node that has grown most.
func (r *Result) memory(before, full []int64, count int) {
	var most int64
	for i := range full {
		most = max(most, full[i]-before[i])
	}
	if most > 0 {
		per := float64(most) / float64(count)
		r.NodeBytes = &per
	}
}

// coprime is a number without a common divisor with n, near n's golden section: its multiples, modulo n, go through all of n
// in an order without runs.
func coprime(n int) uint64 {
	for c := uint64(float64(n)*0.618) | 1; ; c += 2 {
		a, b := c, uint64(n)
		for b != 0 {
			a, b = b, a%b
		}
		if a == 1 {
			return c
		}
	}
}
