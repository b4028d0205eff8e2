package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/wire"
)

// Random faults strike every kind of request, connection and leader while messages are produced in three ways and
// consumed. Afterwards: what was confirmed is in the log once and done, what was refused is not in it, what is unknown is
// in it at most once, no message was acked by two leases, and the client holds nothing any more.
func TestRandomFaults(t *testing.T) {
	for round := range *roundsFlag {
		t.Run(fmt.Sprint(round), func(t *testing.T) { randomFaults(t, seed()+uint64(round)) })
	}
}

func randomFaults(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 2))
	f := newFake(t, 3)
	f.keepLog = true
	f.ping = 250 * time.Millisecond
	c := open(t, f, Options{MaxPending: 500})
	faults := true
	struck := map[string]int{}
	requests := 0
	codes := []wire.Code{wire.CodeOverloaded, wire.CodeRateLimited, wire.CodeTimeout, wire.CodeNoLeader, wire.CodeNoSpace}
	// due draws what strikes next; of what has not struck yet one comes each fifteen requests, so that all do in every run.
	due := func() (p int, code wire.Code) {
		p, code = rng.IntN(1000), codes[rng.IntN(len(codes))]
		if requests++; requests%15 != 0 {
			return p, code
		}
		for i, name := range []string{"lose and hang up", "hang up", "move", "redirect", "mute"} {
			if struck[name] == 0 {
				return []int{0, 5, 10, 12, 14}[i], code
			}
		}
		for _, c := range codes {
			if struck[string(c)] == 0 {
				return 16, c
			}
		}
		return p, code
	}
	f.do(func() {
		f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
			if !faults || fc.n.i != f.leader || r.Type == wire.TypeHello {
				return pass, nil
			}
			switch p, code := due(); {
			case p < 5:
				struck["lose and hang up"]++
				return loseHang, nil
			case p < 10:
				struck["hang up"]++
				return hangUp, nil
			case p < 12:
				struck["move"]++
				f.leader = (f.leader + 1) % 3
				return pass, nil // and the fake answers not_leader
			case p < 14:
				struck["redirect"]++
				fc.push(wire.TypeRedirect, 0, &wire.Redirect{Reason: "stopping"})
				return pass, nil
			case p < 16 && !fc.mute:
				struck["mute"]++
				fc.mute = true
				return pass, nil
			case p < 40 && r.Type != wire.TypeStarted && r.Type != wire.TypeOpenSession:
				struck[string(code)]++
				if code == wire.CodeTimeout && rng.IntN(2) == 0 { // applied after all
					fc.carryOutQuietly(r)
				}
				return pass, wire.NewFault(code, "struck")
			}
			return pass, nil
		}
	})

	const each = 200
	var mu sync.Mutex
	outcome := map[string]error{}
	note := func(body string, err error) {
		mu.Lock()
		defer mu.Unlock()
		if _, twice := outcome[body]; twice {
			t.Errorf("%s has two outcomes", body)
		}
		outcome[body] = err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	var producers sync.WaitGroup
	for p := range 4 { // one by one, some with short patience
		prng := rand.New(rand.NewPCG(seed, uint64(10+p)))
		producers.Add(1)
		go func() {
			defer producers.Done()
			for i := range each / 4 {
				body := fmt.Sprintf("sync %d %d", p, i)
				call := ctx
				if prng.IntN(10) == 0 {
					short, stop := context.WithTimeout(ctx, time.Duration(prng.IntN(20))*time.Millisecond)
					defer stop()
					call = short
				}
				_, err := c.Enqueue(call, "q", Message{Body: []byte(body)})
				note(body, err)
			}
		}()
	}
	producers.Add(2)
	go func() {
		defer producers.Done()
		var answers sync.WaitGroup
		for i := range each {
			body := fmt.Sprintf("async %d", i)
			answers.Add(1)
			if err := c.EnqueueAsync(ctx, "q", Message{Body: []byte(body)}, func(_ Receipt, err error) { note(body, err); answers.Done() }); err != nil {
				note(body, err)
				answers.Done()
			}
		}
		answers.Wait()
	}()
	go func() {
		defer producers.Done()
		for i := range each / 50 {
			ms := make([]Message, 50)
			for k := range ms {
				ms[k].Body = fmt.Appendf(nil, "batch %d %d", i, k)
			}
			_, errs := c.EnqueueBatch(ctx, "q", ms)
			for k := range ms {
				note(string(ms[k].Body), errs[k])
			}
		}
	}()

	runs := map[string]int{}
	stop := consuming(t, c, ConsumeOptions{Concurrency: 8, Prefetch: 40}, func(ctx context.Context, d *Delivery) (*Result, error) {
		mu.Lock()
		defer mu.Unlock()
		runs[string(d.Body)]++
		switch n := runs[string(d.Body)]; {
		case n == 1 && len(runs)%17 == 0:
			return nil, errors.New("once more")
		case n == 1 && len(runs)%19 == 0:
			return nil, ErrRelease
		}
		return &Result{Output: d.Body}, nil
	})
	producers.Wait()
	f.do(func() { faults = false })
	until(t, "the queue to be drained", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, m := range f.byID {
			if m.state != "done" {
				return false
			}
		}
		return true
	})
	if err := stop(); err != nil {
		t.Errorf("consume: %v", err)
	}

	f.do(func() {
		var ok, refused, unknown int
		for body, err := range outcome {
			n := f.seen[body]
			switch {
			case err == nil:
				ok++
				if n != 1 {
					t.Errorf("%s was confirmed and is in the log %d times", body, n)
				}
			case Unknown(err):
				unknown++
				if n > 1 {
					t.Errorf("%s is in the log %d times", body, n)
				}
			default:
				refused++
				if n != 0 {
					t.Errorf("%s was refused (%v) and is in the log %d times", body, err, n)
				}
			}
		}
		if len(outcome) != 3*each || ok < 3*each*8/10 {
			t.Errorf("%d outcomes, %d confirmed, %d refused, %d unknown", len(outcome), ok, refused, unknown)
		}
		for _, m := range f.byID {
			if m.result == nil || string(m.result.Output) != string(m.m.Body) {
				t.Errorf("%s ended with %+v", m.m.Body, m.result)
			}
		}
		t.Logf("seed %d: %d confirmed, %d refused, %d unknown; faults %v; %d connections, %d sessions", seed, ok, refused, unknown, struck, f.hellos, len(f.sessions))
		if len(struck) < 8 {
			t.Errorf("only these faults struck: %v", struck)
		}
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending != 0 || c.acks != 0 || len(c.leases) != 0 || len(c.subs) != 0 || len(c.later) != 0 || c.lowLocked() != c.next {
		t.Errorf("left: %d pending, %d acks, %d leases, %d subscriptions, %d waiting, low %d of %d",
			c.pending, c.acks, len(c.leases), len(c.subs), len(c.later), c.lowLocked(), c.next)
	}
}
