package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/wire"
)

// nth makes a hook that treats the n-th request of a type (from 1) as v.
func nth(t wire.Type, n int, v verdict) func(*fakeConn, wire.Raw) (verdict, *wire.Fault) {
	seen := 0
	return func(_ *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
		if r.Type == t {
			if seen++; seen == n {
				return v, nil
			}
		}
		return pass, nil
	}
}

// C17: the answer is lost after the message is in the log. The same number is sent again and finds its first outcome.
func TestLostAnswerIsAskedForAgain(t *testing.T) {
	for _, v := range []verdict{hangUp, loseHang} {
		t.Run(fmt.Sprint(v), func(t *testing.T) {
			f := newFake(t, 2)
			f.keepLog = true
			c := open(t, f, Options{})
			f.do(func() { f.hook = nth(wire.TypeEnqueue, 2, v) })
			for i := range 3 {
				enqueueOne(t, c, fmt.Sprint(i))
			}
			f.do(func() {
				if !slices.Equal(f.log, []string{"0", "1", "2"}) {
					t.Errorf("log %q", f.log)
				}
				if !slices.Equal(f.numbers[len(f.numbers)-2:], []uint64{2, 3}) {
					t.Errorf("numbers %v, want 2 and then 3 at the end", f.numbers)
				}
			})
		})
	}
}

// Requests that have lost their answers are sent again in ascending order, before anything new, and each message gets
// into the log once, in the order it was enqueued.
func TestOrderAfterResend(t *testing.T) {
	f := newFake(t, 3)
	f.keepLog = true
	c := open(t, f, Options{})
	var calls int
	rng := rand.New(rand.NewPCG(seed(), 1))
	f.do(func() {
		f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
			if r.Type != wire.TypeEnqueue {
				return pass, nil
			}
			if fc.n.i != f.leader {
				return pass, nil
			}
			calls++
			switch p := rng.IntN(10); {
			case p == 0:
				return loseHang, nil
			case p == 1:
				return hangUp, nil
			case p == 2:
				f.leader = (f.leader + 1) % 3
				fault := wire.NewFault(wire.CodeNotLeader, "moved")
				fault.Leader = f.leaderAddr()
				return pass, fault
			}
			return pass, nil
		}
	})
	const n = 4000
	var wg sync.WaitGroup
	wg.Add(n)
	var failed atomic.Int32
	for i := range n {
		q := "q"
		if err := c.EnqueueAsync(t.Context(), q, Message{Body: fmt.Appendf(nil, "%05d", i)}, func(r Receipt, err error) {
			if err != nil {
				failed.Add(1)
				t.Errorf("%d: %v", i, err)
			}
			wg.Done()
		}); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	f.do(func() {
		if len(f.log) != n {
			t.Errorf("%d messages in the log, want %d", len(f.log), n)
		}
		if !slices.IsSorted(f.log) {
			t.Error("the log is out of order")
		}
		if calls < 10 {
			t.Errorf("only %d requests: the faults did not strike", calls)
		}
	})
}

// A refusal is tried again under a new number, an unknown outcome under the same.
func TestNumbersOfRetries(t *testing.T) {
	for _, tc := range []struct {
		code wire.Code
		want []uint64
	}{
		{wire.CodeOverloaded, []uint64{1, 2}},
		{wire.CodeRateLimited, []uint64{1, 2}},
		{wire.CodeQueueFull, []uint64{1, 2}},
		{wire.CodeTimeout, []uint64{1, 1}},
		{wire.CodeNotLeader, []uint64{1, 1}},
		{wire.CodeNoLeader, []uint64{1, 1}},
	} {
		t.Run(string(tc.code), func(t *testing.T) {
			f := newFake(t, 1)
			f.keepLog = true
			c := open(t, f, Options{})
			var numbers []uint64
			f.do(func() {
				f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
					if r.Type != wire.TypeEnqueue {
						return pass, nil
					}
					numbers = append(numbers, decode[wire.Enqueue](fc, r).Request.Number)
					if len(numbers) == 1 {
						return pass, wire.NewFault(tc.code, "try again")
					}
					return pass, nil
				}
			})
			enqueueOne(t, c, "x")
			f.do(func() {
				if !slices.Equal(numbers, tc.want) || f.seen["x"] != 1 {
					t.Errorf("numbers %v, in the log %d times; want %v, once", numbers, f.seen["x"], tc.want)
				}
			})
		})
	}
}

// A refusal of a number whose first sending may have been applied must not make the client take a new one.
func TestRefusalAfterUnknownKeepsTheNumber(t *testing.T) {
	f := newFake(t, 1)
	f.keepLog = true
	c := open(t, f, Options{})
	var numbers []uint64
	f.do(func() {
		f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
			if r.Type != wire.TypeEnqueue {
				return pass, nil
			}
			numbers = append(numbers, decode[wire.Enqueue](fc, r).Request.Number)
			switch len(numbers) {
			case 1:
				return loseHang, nil
			case 2:
				return pass, wire.NewFault(wire.CodeOverloaded, "the door is busy")
			}
			return pass, nil
		}
	})
	enqueueOne(t, c, "x")
	f.do(func() {
		if !slices.Equal(numbers, []uint64{1, 1, 1}) || f.seen["x"] != 1 {
			t.Errorf("numbers %v, in the log %d times", numbers, f.seen["x"])
		}
	})
}

// One message of a batch is refused for now: only it is tried again.
func TestPartOfABatchIsTriedAgain(t *testing.T) {
	f := newFake(t, 1)
	f.keepLog = true
	c := open(t, f, Options{})
	refusals := 0
	f.do(func() {
		f.onMessage = func(_ *fakeConn, m *wire.Message) *wire.Fault {
			switch {
			case string(m.Body) == "1" && refusals < 2:
				refusals++
				fault := wire.NewFault(wire.CodeQueueFull, "full")
				fault.RetryAfterMillis = 10
				return fault
			case string(m.Body) == "2":
				return wire.Invalid("body", "2 is not liked")
			}
			return nil
		}
	})
	recs, errs := c.EnqueueBatch(t.Context(), "q", []Message{{Body: []byte("0")}, {Body: []byte("1")}, {Body: []byte("2")}, {Body: []byte("3")}})
	if errs[0] != nil || errs[1] != nil || errs[3] != nil || !errors.Is(errs[2], ErrInvalidArgument) {
		t.Fatalf("errors %v", errs)
	}
	if recs[1].ID == "" || recs[0].ID == recs[3].ID {
		t.Errorf("receipts %v", recs)
	}
	f.do(func() {
		if !slices.Equal(f.log, []string{"0", "3", "1"}) {
			t.Errorf("log %q", f.log)
		}
	})
}

func TestRefusalsEndWithTheContext(t *testing.T) {
	for _, fail := range []bool{false, true} {
		t.Run(fmt.Sprintf("FailWhenFull=%v", fail), func(t *testing.T) {
			f := newFake(t, 1)
			c := open(t, f, Options{FailWhenFull: fail})
			f.do(func() {
				f.onMessage = func(*fakeConn, *wire.Message) *wire.Fault { return wire.NewFault(wire.CodeQueueFull, "full") }
			})
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
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
			if took := time.Since(start); took > 2*time.Second {
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

// The session is gone: what was sent is unknown, what was not goes out in a new one.
func TestSessionExpiry(t *testing.T) {
	for _, where := range []string{"at a request", "at the reconnect"} {
		t.Run(where, func(t *testing.T) {
			f := newFake(t, 1)
			f.keepLog = true
			c := open(t, f, Options{})
			enqueueOne(t, c, "a")
			f.do(func() { f.hook = nth(wire.TypeEnqueue, 1, lose) })
			unknown := make(chan error, 1)
			if err := c.EnqueueAsync(t.Context(), "q", Message{Body: []byte("b")}, func(_ Receipt, err error) { unknown <- err }); err != nil {
				t.Fatal(err)
			}
			until(t, "b to be in the log", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.seen["b"] == 1 })
			f.do(func() {
				clear(f.sessions)
				if where == "at the reconnect" {
					f.leader = -1
					for fc := range f.conns {
						_ = fc.ws.UnderlyingConn().Close()
					}
				}
			})
			if where == "at the reconnect" {
				until(t, "the connection to be missed", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.conn == nil })
			}
			answer := make(chan error, 1)
			if err := c.EnqueueAsync(t.Context(), "q", Message{Body: []byte("c")}, func(_ Receipt, err error) { answer <- err }); err != nil {
				t.Fatal(err)
			}
			f.lead(0, false)
			if err := <-answer; err != nil {
				t.Errorf("c: %v", err)
			}
			if err := <-unknown; !errors.Is(err, ErrSessionExpired) || !Unknown(err) {
				t.Errorf("b: %v, want session_expired, unknown", err)
			}
			f.do(func() {
				if !slices.Equal(f.log, []string{"a", "b", "c"}) {
					t.Errorf("log %q", f.log)
				}
				if len(f.sessions) != 1 {
					t.Errorf("%d sessions", len(f.sessions))
				}
			})
		})
	}
}

// A quiet session is touched before it ends.
func TestQuietSessionIsRefreshed(t *testing.T) {
	f := newFake(t, 1)
	c := open(t, f, Options{})
	c.mu.Lock()
	c.sessionUsed -= int64(sessionRefresh)
	c.alarmAt = 0
	c.watchDeadline(c.now())
	c.mu.Unlock()
	until(t, "a touch", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.touched == 1 })
	enqueueOne(t, c, "a")
}

// No more than 4,096 numbers are out, whatever the load; the fake fails the test if one is beyond low + 4,096.
func TestRequestWindow(t *testing.T) {
	f := newFake(t, 1)
	c := open(t, f, Options{})
	f.do(func() { f.hook = nth(wire.TypeEnqueue, 1, ignore) }) // the lowest number stays without an answer
	const n = 10000
	var answered atomic.Int32
	for range n {
		if err := c.EnqueueAsync(t.Context(), "q", Message{}, func(_ Receipt, err error) {
			if err == nil {
				answered.Add(1)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the window to be full", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.stalled && len(c.byTag) == 1 })
	if got := int(answered.Load()); got > wire.MaxRequestSpan || got < wire.MaxRequestSpan-2*batchMessages {
		t.Errorf("%d answered behind the lowest", got)
	}
	f.do(func() {
		for fc := range f.conns {
			_ = fc.ws.UnderlyingConn().Close()
		}
	})
	until(t, "all answers", func() bool { return answered.Load() == n })
}

func TestMaxPendingBlocks(t *testing.T) {
	f := newFake(t, 1)
	c := open(t, f, Options{MaxPending: 3})
	f.do(func() { f.hook = nth(wire.TypeEnqueue, 1, ignore) })
	for range 3 {
		if err := c.EnqueueAsync(t.Context(), "q", Message{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := c.EnqueueAsync(ctx, "q", Message{}, func(Receipt, error) { t.Error("done was called") })
	if !errors.Is(err, context.DeadlineExceeded) || Unknown(err) {
		t.Errorf("error %v", err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := c.Enqueue(t.Context(), "q", Message{})
		done <- err
	}()
	until(t, "a waiter", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.slots) == 1 })
	f.do(func() {
		for fc := range f.conns {
			_ = fc.ws.UnderlyingConn().Close()
		}
	})
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestBadInput(t *testing.T) {
	f := newFake(t, 1)
	f.maxMsg = 1000
	c := open(t, f, Options{})
	for _, tc := range []struct {
		name  string
		queue string
		m     Message
		want  error
		field string
	}{
		{"queue name", "no spaces", Message{}, ErrInvalidArgument, "queue"},
		{"no queue", "", Message{}, ErrInvalidArgument, "queue"},
		{"body", "q", Message{Body: make([]byte, 1001)}, ErrTooLarge, "body"},
		{"priority", "q", Message{Priority: Priority(10)}, ErrInvalidArgument, "priority"},
		{"task id", "q", Message{TaskID: string(make([]byte, 129))}, ErrInvalidArgument, "task_id"},
		{"delay and time", "q", Message{Delay: time.Second, EnqueueAt: time.Now()}, ErrInvalidArgument, ""},
		{"negative ttl", "q", Message{TTL: -time.Second}, ErrInvalidArgument, "ttl_ms"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := c.Enqueue(t.Context(), tc.queue, tc.m)
			var e *Error
			if !errors.Is(err, tc.want) || !errors.As(err, &e) || e.Unknown || (tc.field != "" && e.Field != tc.field) {
				t.Errorf("error %v (field %q)", err, e.Field)
			}
		})
	}
	for name, err := range map[string]error{
		"token":       c.Release(t.Context(), "nonsense"),
		"lease max":   errOf(c.Lease(t.Context(), "q", LeaseOptions{Max: 1001})),
		"credit":      errOf(c.Subscribe(t.Context(), "q", SubscribeOptions{Credit: 10001}, nil)),
		"concurrency": c.Consume(t.Context(), "q", ConsumeOptions{Concurrency: -1}, nil),
		"prefetch":    c.Consume(t.Context(), "q", ConsumeOptions{Concurrency: 4, Prefetch: 3}, nil),
		"handler":     c.Consume(t.Context(), "q", ConsumeOptions{}, nil),
		"extend":      errOf(c.Extend(t.Context(), fmt.Sprintf("%052d", 1), -time.Second)),
	} {
		if !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	enqueueOne(t, c, "still fine")
}

func errOf[T any](_ T, err error) error { return err }

// A pull whose caller has gone gives back what it was granted.
func TestLateLeaseIsReleased(t *testing.T) {
	f := newFake(t, 1)
	c := open(t, f, Options{})
	f.put("q", "a")
	var held *fakeConn
	var frame wire.Raw
	f.do(func() {
		f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
			if r.Type == wire.TypeLease {
				held = fc
				frame = wire.Raw{Type: r.Type, Tag: r.Tag, Body: slices.Clone(r.Body)}
				return ignore, nil
			}
			return pass, nil
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Lease(ctx, "q", LeaseOptions{Wait: time.Minute}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("lease: %v", err)
	}
	f.do(func() {
		f.hook = nil
		held.carryOut(frame)
		held.flush()
	})
	until(t, "the message to be ready again", func() bool { return f.state("q") == "ready 1" })
	ds, err := c.Lease(t.Context(), "q", LeaseOptions{Max: 5})
	if err != nil || len(ds) != 1 || string(ds[0].Body) != "a" || ds[0].Attempt != 1 {
		t.Errorf("leased %+v, %v", ds, err)
	}
}
