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
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		until(t, "the pull to be there", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return held != nil })
	}()
	if _, err := c.Lease(ctx, "q", LeaseOptions{Wait: time.Minute}); !errors.Is(err, context.Canceled) {
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
