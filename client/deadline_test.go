package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/wire"
)

func TestRefusalsEndWithTheContext(t *testing.T) {
	for _, fail := range []bool{false, true} {
		t.Run(fmt.Sprintf("FailWhenFull=%v", fail), func(t *testing.T) {
			f := newFake(t, 1)
			c := open(t, f, Options{FailWhenFull: fail})
			f.do(func() {
				f.onMessage = func(*fakeConn, *wire.Message) *wire.Fault { return wire.NewFault(wire.CodeQueueFull, "full") }
			})
			limit := 3 * time.Second
			if fail { // at once, so it need not be short
				limit = 20 * time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, err := c.Enqueue(ctx, "q", Message{})
			if !errors.Is(err, ErrQueueFull) || Unknown(err) {
				t.Errorf("error %v, want a definite queue_full", err)
			}
			if errors.Is(err, context.DeadlineExceeded) == fail {
				t.Errorf("error %v, context %v", err, ctx.Err())
			}
			var e *Error
			if !errors.As(err, &e) || !e.Retry {
				t.Errorf("error %#v", err)
			}
		})
	}
}

// The context ends in each phase of a call; the error says what may be concluded.
func TestContextEndsInEveryPhase(t *testing.T) {
	cause := errors.New("enough")
	for _, tc := range []struct {
		name    string
		prepare func(f *fake, c *Client)
		reached func(f *fake, c *Client) bool // when to cancel
		unknown bool
		unavail bool
	}{
		{"before", nil, nil, false, false},
		{"no leader to send it to", func(f *fake, c *Client) {
			f.nodes[0].kill()
			until(t, "the connection to be missed", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.conn == nil })
		},
			func(_ *fake, c *Client) bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return c.conn == nil && c.fresh.len() > 0
			}, false, true},
		{"sent, no answer", func(f *fake, _ *Client) {
			f.do(func() {
				f.hook = func(_ *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
					if r.Type == wire.TypeEnqueue || r.Type == wire.TypeQueueCreate {
						return lose, nil
					}
					return pass, nil
				}
			})
		}, func(f *fake, c *Client) bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.byTag) > 0 }, true, false},
		{"refused, waiting", func(f *fake, _ *Client) {
			f.do(func() {
				f.hook = func(_ *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
					fault := wire.NewFault(wire.CodeOverloaded, "busy")
					fault.RetryAfterMillis = 5000
					if r.Type == wire.TypeEnqueue || r.Type == wire.TypeQueueCreate {
						return pass, fault
					}
					return pass, nil
				}
			})
		}, func(_ *fake, c *Client) bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.later) > 0 }, false, false},
		{"unknown, waiting", func(f *fake, _ *Client) {
			f.do(func() {
				f.hook = func(_ *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
					fault := wire.NewFault(wire.CodeTimeout, "lost it")
					fault.RetryAfterMillis = 5000
					if r.Type == wire.TypeEnqueue || r.Type == wire.TypeQueueCreate {
						return pass, fault
					}
					return pass, nil
				}
			})
		}, func(_ *fake, c *Client) bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.later) > 0 }, true, false},
	} {
		for _, kind := range []string{"enqueue", "call"} {
			t.Run(tc.name+"/"+kind, func(t *testing.T) {
				f := newFake(t, 1)
				c := open(t, f, Options{})
				if tc.prepare != nil {
					tc.prepare(f, c)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				if tc.reached == nil {
					cancel(cause)
				} else {
					go func() {
						until(t, tc.name, func() bool { return tc.reached(f, c) })
						cancel(cause)
					}()
				}
				var err error
				if kind == "enqueue" {
					_, err = c.Enqueue(ctx, "q", Message{Body: []byte("x")})
				} else {
					err = c.CreateQueue(ctx, "q", QueueOptions{})
				}
				if !errors.Is(err, cause) {
					t.Errorf("error %v does not wrap the cause", err)
				}
				if Unknown(err) != tc.unknown {
					t.Errorf("error %v: unknown %v, want %v", err, Unknown(err), tc.unknown)
				}
				if errors.Is(err, ErrUnavailable) != tc.unavail {
					t.Errorf("error %v: unavailable, want %v", err, tc.unavail)
				}
				cancel(nil)
				c.mu.Lock()
				if c.pending != 0 || c.lowLocked() != c.next {
					t.Errorf("pending %d, low %d of %d", c.pending, c.lowLocked(), c.next)
				}
				c.mu.Unlock()
			})
		}
	}
}

// The default time-out bounds calls without a deadline, of each kind.
func TestDefaultTimeout(t *testing.T) {
	f := newFake(t, 1)
	c := open(t, f, Options{Timeout: 150 * time.Millisecond})
	f.do(func() {
		f.hook = func(_ *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
			if r.Type == wire.TypeHello || r.Type == wire.TypeOpenSession {
				return pass, nil
			}
			return ignore, nil
		}
	})
	tok := fmt.Sprintf("%052d", 1)
	async := make(chan error, 2)
	calls := map[string]func() error{
		"enqueue": func() error { _, err := c.Enqueue(context.Background(), "q", Message{}); return err },
		"batch": func() error {
			_, errs := c.EnqueueBatch(context.Background(), "q", make([]Message, 300))
			for _, err := range errs {
				if !errors.Is(err, context.DeadlineExceeded) {
					return err
				}
			}
			return errs[0]
		},
		"enqueue async": func() error {
			_ = c.EnqueueAsync(context.Background(), "q", Message{}, func(_ Receipt, err error) { async <- err })
			return <-async
		},
		"ack async": func() error {
			_ = c.AckAsync(context.Background(), tok, AckOptions{}, func(_ Acked, err error) { async <- err })
			return <-async
		},
		"ack":         func() error { _, err := c.Ack(context.Background(), tok, AckOptions{}); return err },
		"nack":        func() error { _, err := c.Nack(context.Background(), tok, NackOptions{}); return err },
		"extend":      func() error { _, err := c.Extend(context.Background(), tok, time.Second); return err },
		"release":     func() error { return c.Release(context.Background(), tok) },
		"lease":       func() error { _, err := c.Lease(context.Background(), "q", LeaseOptions{}); return err },
		"queue":       func() error { _, err := c.Queue(context.Background(), "q"); return err },
		"wait result": func() error { _, err := c.WaitResult(context.Background(), "q", "t"); return err },
		"subscribe": func() error {
			_, err := c.Subscribe(context.Background(), "q", SubscribeOptions{}, func(*Delivery) {})
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			if err := call(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v", err)
			}
			if took := time.Since(start); took > 8*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
	until(t, "the rest to end", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.pending == 0 && c.acks == 0 && len(c.byTag) <= 2 // the pull's late answer and the subscription's are waited for
	})
}

// What callers have given up is not sent again after a reconnect, and its number is not used again.
func TestGivenUpMessagesAreNotSentAgain(t *testing.T) {
	f := newFake(t, 1)
	f.keepLog = true
	c := open(t, f, Options{})
	f.nodes[0].kill() // so that all six share one batch
	until(t, "the connection to be missed", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.conn == nil })
	f.hook = nth(wire.TypeEnqueue, 1, ignore)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			callCtx := t.Context()
			if i%3 == 1 {
				callCtx = ctx
			}
			_, err := c.Enqueue(callCtx, "q", Message{Body: fmt.Append(nil, i)})
			if i%3 == 1 && !Unknown(err) || i%3 != 1 && err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}()
	}
	until(t, "all to be pending", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.pending == 6 })
	f.nodes[0].listen(f.nodes[0].addr)
	until(t, "all to be sent", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.numbers) == 0 && c.sent() == 1 })
	cancel()
	until(t, "two to be given up", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.pending <= 4 })
	f.do(func() {
		f.hook = nil
		for fc := range f.conns {
			_ = fc.ws.UnderlyingConn().Close()
		}
	})
	wg.Wait()
	f.do(func() {
		slices.Sort(f.log)
		if len(f.log) != 4 {
			t.Errorf("log %q, want the four that were waited for", f.log)
		}
		for _, b := range f.log {
			if b == "1" || b == "4" {
				t.Errorf("message %s was sent again: %q", b, f.log)
			}
		}
	})
}

func (c *Client) sent() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byTag)
}
