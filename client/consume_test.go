package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/wire"
)

// consuming runs Consume until its stop is called, which returns what Consume returned.
func consuming(t *testing.T, c *Client, o ConsumeOptions, h Handler) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Consume(ctx, "q", o, h) }()
	return func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(20 * time.Second):
			t.Fatal("Consume does not end")
			return nil
		}
	}
}

func nop(context.Context, *Delivery) (*Result, error) { return nil, nil }

func numbers(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%04d", i)
	}
	return out
}

func TestConsume(t *testing.T) {
	f := newFake(t, 1)
	c := open(t, f, Options{})
	f.put("q", numbers(300)...)
	var mu sync.Mutex
	seen := map[string]int{}
	var atOnce, most atomic.Int32
	err := c.Consume(t.Context(), "q", ConsumeOptions{Concurrency: 8, Prefetch: 50, StopWhenEmpty: true},
		func(ctx context.Context, d *Delivery) (*Result, error) {
			n := atOnce.Add(1)
			defer atOnce.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			if d.Queue != "q" || d.Attempt != 1 || d.TaskID != d.ID || time.Until(d.Deadline) < 20*time.Second || time.Until(d.Deadline) > 30*time.Second {
				t.Errorf("delivery %+v", d)
			}
			mu.Lock()
			seen[string(d.Body)]++
			mu.Unlock()
			return &Result{Output: []byte("did " + string(d.Body))}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) != 300 {
		t.Errorf("%d messages seen", len(seen))
	}
	if m := most.Load(); m > 8 {
		t.Errorf("%d handlers at once", m)
	}
	if got := f.state("q"); got != "done 300" {
		t.Errorf("state %s", got)
	}
	f.do(func() {
		for _, m := range f.byID {
			if want := "did " + string(m.m.Body); string(m.result.Output) != want {
				t.Errorf("result %q, want %q", m.result.Output, want)
			}
		}
	})
}

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

// The started frame is on the wire before the handler is called: when the handler runs, the server can be told nothing
// that makes it take the message back as untouched.
func TestStartedBeforeHandler(t *testing.T) {
	f := newFake(t, 1)
	c := open(t, f, Options{})
	f.put("q", numbers(50)...)
	var order []string // started tokens as they arrive, and handler calls
	f.do(func() {
		f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
			if r.Type == wire.TypeStarted {
				order = append(order, decode[wire.Started](fc, r).Tokens...)
			}
			return pass, nil
		}
	})
	err := c.Consume(t.Context(), "q", ConsumeOptions{Concurrency: 4, StopWhenEmpty: true}, func(_ context.Context, d *Delivery) (*Result, error) {
		// It was written: it arrives without the client doing anything more.
		until(t, "the started frame", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return slices.Contains(order, d.Token) })
		return nil, nil
	})
	if err != nil || len(order) != 50 {
		t.Fatalf("%v, %d started", err, len(order))
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

// C25, C33: the connection breaks and leaders change while handlers run. What runs goes on and is acked, once.
func TestResume(t *testing.T) {
	for _, how := range []string{"connection lost", "redirect", "killed"} {
		t.Run(how, func(t *testing.T) {
			f := newFake(t, 3)
			c := open(t, f, Options{})
			f.put("q", numbers(6)...)
			running := make(chan string, 100)
			gate := make(chan struct{})
			runs := map[string]int{}
			var mu sync.Mutex
			stop := consuming(t, c, ConsumeOptions{Concurrency: 2, Prefetch: 4}, func(ctx context.Context, d *Delivery) (*Result, error) {
				mu.Lock()
				runs[string(d.Body)]++
				mu.Unlock()
				running <- string(d.Body)
				select {
				case <-gate:
				case <-ctx.Done():
					t.Errorf("%s cancelled: %v", d.Body, context.Cause(ctx))
				}
				return nil, nil
			})
			<-running
			<-running
			until(t, "the started frame to arrive", func() bool {
				f.mu.Lock()
				defer f.mu.Unlock()
				n := 0
				for _, s := range f.sessions {
					for _, sub := range s.subs {
						n += len(sub.started)
					}
				}
				return n == 2
			})
			attaches := 0
			f.do(func() { attaches = f.attaches })
			switch how {
			case "connection lost":
				f.do(func() {
					for fc := range f.conns {
						_ = fc.ws.UnderlyingConn().Close()
					}
				})
			case "redirect":
				f.lead(1, true)
			case "killed":
				f.lead(1, false)
				f.nodes[0].kill()
			}
			until(t, "the reconnect", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.attaches > attaches })
			close(gate)
			until(t, "all to be done", func() bool { return f.state("q") == "done 6" })
			f.put("q", "later") // C33: deliveries go on after the change
			until(t, "the later one", func() bool { return f.state("q") == "done 7" })
			if err := stop(); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for b, n := range runs {
				if n != 1 {
					t.Errorf("%s ran %d times", b, n)
				}
			}
			f.do(func() {
				for _, m := range f.byID {
					if m.attempt != 1 {
						t.Errorf("%s took %d attempts", m.m.Body, m.attempt)
					}
				}
			})
		})
	}
}

// An ack whose answer is lost is sent again with its token, though the resumed server calls its lease lost: it was the
// ack that ended it. Nobody is told of a lost lease.
func TestLostAck(t *testing.T) {
	f := newFake(t, 1)
	var logged bytes.Buffer
	c := open(t, f, Options{Logger: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	defer func() {
		_ = c.Close(t.Context())
		if logged.Len() > 0 {
			t.Errorf("logged %s", &logged)
		}
	}()
	f.do(func() { f.hook = nth(wire.TypeAck, 2, loseHang) })
	f.put("q", numbers(5)...)
	if err := c.Consume(t.Context(), "q", ConsumeOptions{Concurrency: 2, StopWhenEmpty: true}, func(context.Context, *Delivery) (*Result, error) {
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := f.state("q"); got != "done 5" {
		t.Errorf("state %s", got)
	}
}

// Consume ends with the reason when its subscription is refused or the client is closed.
func TestConsumeEnds(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		f := newFake(t, 1)
		c := open(t, f, Options{})
		f.do(func() {
			f.hook = func(_ *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
				if r.Type == wire.TypeSubscribe {
					return pass, wire.NewFault(wire.CodeNotFound, "no queue q")
				}
				return pass, nil
			}
		})
		if err := c.Consume(t.Context(), "q", ConsumeOptions{}, nop); !errors.Is(err, ErrNotFound) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("busy at first", func(t *testing.T) {
		f := newFake(t, 1)
		c := open(t, f, Options{})
		n := 0
		f.do(func() {
			f.hook = func(_ *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
				if r.Type == wire.TypeSubscribe {
					if n++; n < 3 {
						return pass, wire.NewFault(wire.CodeOverloaded, "busy")
					}
				}
				return pass, nil
			}
		})
		f.put("q", "x")
		if err := c.Consume(t.Context(), "q", ConsumeOptions{StopWhenEmpty: true}, func(context.Context, *Delivery) (*Result, error) { return nil, nil }); err != nil {
			t.Errorf("error %v", err)
		}
	})
	t.Run("client closed", func(t *testing.T) {
		f := newFake(t, 1)
		c := open(t, f, Options{})
		f.put("q", "x")
		running := make(chan bool, 1)
		done := make(chan error, 1)
		go func() {
			done <- c.Consume(t.Context(), "q", ConsumeOptions{DrainTimeout: -1}, func(ctx context.Context, _ *Delivery) (*Result, error) {
				running <- true
				<-ctx.Done()
				return nil, ctx.Err()
			})
		}()
		<-running
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, ErrClosed) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("queue deleted before it began", func(t *testing.T) {
		f := newFake(t, 1)
		c := open(t, f, Options{})
		if err := c.Consume(t.Context(), "q", ConsumeOptions{StopWhenEmpty: true}, nop); err != nil {
			t.Errorf("an absent queue is empty: %v", err)
		}
	})
}

// StopWhenEmpty waits for what other workers have: it may come back.
func TestStopWhenEmptyWaitsForOthers(t *testing.T) {
	f := newFake(t, 1)
	c, other := open(t, f, Options{}), open(t, f, Options{})
	f.put("q", "x")
	ds, err := other.Lease(t.Context(), "q", LeaseOptions{})
	if err != nil || len(ds) != 1 {
		t.Fatalf("%v, %v", ds, err)
	}
	asked := 0
	f.do(func() {
		f.hook = func(_ *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
			if r.Type == wire.TypeQueueShow {
				asked++
			}
			return pass, nil
		}
	})
	done := make(chan error, 1)
	got := make(chan string, 1)
	go func() {
		done <- c.Consume(t.Context(), "q", ConsumeOptions{StopWhenEmpty: true}, func(_ context.Context, d *Delivery) (*Result, error) {
			got <- string(d.Body)
			return nil, nil
		})
	}()
	until(t, "some questions", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return asked > 2 })
	if err := other.Release(t.Context(), ds[0].Token); err != nil {
		t.Fatal(err)
	}
	if b := <-got; b != "x" {
		t.Errorf("got %s", b)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestWaitResult(t *testing.T) {
	f := newFake(t, 1)
	c := open(t, f, Options{})
	ids := f.put("q", "x")
	if _, err := c.Result(t.Context(), "q", ids[0]); !errors.Is(err, ErrTimeout) {
		t.Errorf("result of what has not ended: %v", err)
	}
	if _, err := c.Result(t.Context(), "q", "nobody"); !errors.Is(err, ErrNotFound) {
		t.Errorf("result of nothing: %v", err)
	}
	done := make(chan *TaskResult, 1)
	go func() {
		r, err := c.WaitResult(t.Context(), "q", ids[0])
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	if err := c.Consume(t.Context(), "q", ConsumeOptions{StopWhenEmpty: true}, func(context.Context, *Delivery) (*Result, error) {
		return &Result{Output: []byte("42")}, nil
	}); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r == nil || r.Status != "succeeded" || string(r.Result.Output) != "42" {
		t.Errorf("result %+v", r)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	never := f.put("q2", "y")
	if _, err := c.WaitResult(ctx, "q2", never[0]); !errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) || Unknown(err) {
		t.Errorf("wait that ran out: %v", err)
	}
}
