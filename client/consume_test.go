package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
