package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/wire"
)

func TestHandlerOutcomes(t *testing.T) {
	for _, tc := range []struct {
		name  string
		h     Handler
		state string
		err   string
	}{
		{"ack", func(context.Context, *Delivery) (*Result, error) { return nil, nil }, "done 1", ""},
		{"permanent", func(context.Context, *Delivery) (*Result, error) { return nil, Permanent(errors.New("no use")) }, "dead 1", "no use"},
		{"wrapped permanent", func(context.Context, *Delivery) (*Result, error) {
			return nil, fmt.Errorf("at step 3: %w", Permanent(errors.New("no use")))
		}, "dead 1", "at step 3: no use"},
		{"permanent of a panic", func(_ context.Context, d *Delivery) (*Result, error) {
			if d.Attempt > 1 {
				return nil, Permanent(errors.New("seen the panic"))
			}
			panic("oh no")
		}, "dead 1", "seen the panic"},
		{"result too large", func(_ context.Context, d *Delivery) (*Result, error) {
			if d.Attempt > 1 {
				return nil, nil
			}
			return &Result{Output: make([]byte, 2<<20)}, nil
		}, "done 1", "the result cannot be recorded: too_large"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(t, 1)
			c := open(t, f, Options{})
			ids := f.put("q", "x")
			if err := c.Consume(t.Context(), "q", ConsumeOptions{StopWhenEmpty: true}, tc.h); err != nil {
				t.Fatal(err)
			}
			if got := f.state("q"); got != tc.state {
				t.Errorf("state %s, want %s", got, tc.state)
			}
			f.do(func() {
				if e := f.byID[ids[0]].err; !strings.HasPrefix(e, tc.err) {
					t.Errorf("error text %q, want %q", e, tc.err)
				}
			})
		})
	}
}

func TestPanicTextAndRetryAfter(t *testing.T) {
	f := newFake(t, 1)
	c := open(t, f, Options{})
	var nacks []wire.Nack
	f.do(func() {
		f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
			if r.Type == wire.TypeNack {
				nacks = append(nacks, *decode[wire.Nack](fc, r))
			}
			return pass, nil
		}
	})
	f.put("q", "x")
	err := c.Consume(t.Context(), "q", ConsumeOptions{StopWhenEmpty: true}, func(_ context.Context, d *Delivery) (*Result, error) {
		switch d.Attempt {
		case 1:
			panic(fmt.Errorf("index 7"))
		case 2:
			return nil, RetryAfter(errors.New("later"), 1500*time.Millisecond)
		case 3:
			return nil, RetryAfter(errors.New("much later"), 1000*24*time.Hour) // out of range: by the policy
		}
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(nacks) != 3 || nacks[0].Error != "panic: index 7" || nacks[0].DelayMillis != nil ||
		nacks[1].DelayMillis == nil || *nacks[1].DelayMillis != 1500 || nacks[2].DelayMillis != nil {
		t.Errorf("nacks %+v", nacks)
	}
}

// C40: a job of many leases is extended and runs once.
func TestExtension(t *testing.T) {
	t.Parallel() // with time to spare: the machine may be busy for a moment
	f := newFake(t, 1)
	f.lease = 3 * time.Second
	c := open(t, f, Options{})
	ids := f.put("q", "long", "held")
	var extends = map[string]int{}
	enough := make(chan struct{})
	var once sync.Once
	f.do(func() {
		f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
			if r.Type == wire.TypeExtend {
				m := f.msgs[decode[wire.Extend](fc, r).Token]
				extends[m.id]++
				if extends[ids[0]] >= 8 && extends[ids[1]] >= 8 {
					once.Do(func() { close(enough) })
				}
			}
			return pass, nil
		}
	})
	err := c.Consume(t.Context(), "q", ConsumeOptions{StopWhenEmpty: true}, func(ctx context.Context, d *Delivery) (*Result, error) {
		if string(d.Body) == "long" {
			select {
			case <-enough:
			case <-ctx.Done():
				t.Errorf("cancelled: %v", context.Cause(ctx))
			}
		}
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := f.state("q"); got != "done 2" {
		t.Errorf("state %s", got)
	}
	f.do(func() {
		if n := f.byID[ids[0]].leases; n != 1 {
			t.Errorf("leased %d times", n)
		}
	})
}

// C27: the lease ends while the handler runs: its context ends before, and nothing is acked after. How long before is 6 % of it, which is
// what the machine may be busy for.
func TestLostLease(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		cause error
		lose  func(f *fake, tok string)
	}{
		{"told by the server", ErrLeaseLost, func(f *fake, tok string) { f.expire(tok) }},
		{"no answer to extensions", ErrLeaseLost, func(f *fake, _ string) {
			f.do(func() {
				f.hook = func(_ *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
					if r.Type == wire.TypeExtend {
						return ignore, nil
					}
					return pass, nil
				}
			})
		}},
		{"extension refused", ErrLeaseLost, func(f *fake, _ string) {
			f.do(func() {
				f.hook = func(_ *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
					if r.Type == wire.TypeExtend {
						return pass, wire.NewFault(wire.CodeLeaseLost, "gone")
					}
					return pass, nil
				}
			})
		}},
		{"task cancelled", ErrCancelled, func(f *fake, _ string) {
			f.do(func() {
				f.hook = func(_ *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
					if r.Type == wire.TypeExtend {
						return pass, wire.NewFault(wire.CodeCancelled, "cancelled")
					}
					return pass, nil
				}
			})
		}},
		{"no server any more", ErrLeaseLost, func(f *fake, _ string) { f.nodes[0].kill() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, 1)
			f.lease = 12 * time.Second
			c := open(t, f, Options{Timeout: 2 * time.Second})
			f.put("q", "x")
			settled := 0
			result := make(chan error, 1)
			var first atomic.Bool
			stop := consuming(t, c, ConsumeOptions{DrainTimeout: time.Second}, func(ctx context.Context, d *Delivery) (*Result, error) {
				if !first.CompareAndSwap(false, true) {
					<-ctx.Done()
					return nil, ErrRelease
				}
				start := time.Now()
				tc.lose(f, d.Token)
				f.do(func() {
					h := f.hook
					f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
						if r.Type == wire.TypeAck || r.Type == wire.TypeNack {
							settled++
						}
						if h != nil {
							return h(fc, r)
						}
						return pass, nil
					}
				})
				select {
				case <-ctx.Done():
					if took := time.Since(start); took > f.lease {
						t.Errorf("told after %v, when the lease of %v was over", took, f.lease)
					}
					result <- context.Cause(ctx)
				case <-time.After(2 * f.lease):
					result <- errors.New("the context did not end")
				}
				return &Result{Output: []byte("too late")}, nil
			})
			if err := <-result; !errors.Is(err, tc.cause) {
				t.Errorf("cause %v, want %v", err, tc.cause)
			}
			if err := stop(); err != nil {
				t.Errorf("consume: %v", err)
			}
			f.do(func() {
				if settled != 0 {
					t.Errorf("%d acks or nacks after the lease was lost", settled)
				}
			})
		})
	}
}

// C40 (c): a handler that outlives the message's timeout is told, and what it returns is not acked.
func TestTaskTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 12 * time.Second // 6 % of which the machine may be busy for
	f := newFake(t, 1)
	c := open(t, f, Options{})
	f.do(func() {
		m := &fakeMsg{id: f.id(), queue: "q", m: wire.Message{Body: []byte("x"), TimeoutMillis: timeout.Milliseconds()}, state: "ready"}
		f.byID[m.id] = m
		f.queue("q").ready = append(f.queue("q").ready, m)
	})
	cause := make(chan error, 1)
	stop := consuming(t, c, ConsumeOptions{}, func(ctx context.Context, d *Delivery) (*Result, error) {
		start := time.Now()
		<-ctx.Done()
		if took := time.Since(start); took > timeout {
			t.Errorf("told after %v, want %v at most", took, timeout)
		}
		cause <- context.Cause(ctx)
		return nil, nil
	})
	if err := <-cause; !errors.Is(err, ErrTaskTimeout) {
		t.Errorf("cause %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := f.state("q"); got != "leased 1" {
		t.Errorf("state %s, want it leased until its end", got)
	}
}
