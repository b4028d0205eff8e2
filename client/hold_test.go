package client

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/quorate/quorate/wire"
)

// After a refusal on an ordered queue what was not sent yet waits until the refused message is in; other queues and
// unordered ones go on.
func TestRefusalHoldsBackAnOrderedQueue(t *testing.T) {
	for _, ordered := range []bool{true, false} {
		t.Run(fmt.Sprintf("ordered=%v", ordered), func(t *testing.T) {
			f := newFake(t, 1)
			f.keepLog, f.ordered = true, ordered
			c := open(t, f, Options{})
			if _, err := c.Enqueue(t.Context(), "q", Message{Body: []byte("learn")}); err != nil {
				t.Fatal(err)
			}
			full, refused := true, make(chan struct{}, 100)
			f.do(func() {
				f.log = nil
				f.onMessage = func(_ *fakeConn, m *wire.Message) *wire.Fault {
					if full && string(m.Body) == "000" {
						refused <- struct{}{}
						return wire.NewFault(wire.CodeQueueFull, "full")
					}
					return nil
				}
			})
			var wg sync.WaitGroup
			add := func(queue, body string) {
				wg.Add(1)
				if err := c.EnqueueAsync(t.Context(), queue, Message{Body: []byte(body)}, func(_ Receipt, err error) {
					if err != nil {
						t.Errorf("%s: %v", body, err)
					}
					wg.Done()
				}); err != nil {
					t.Fatal(err)
				}
			}
			add("q", "000")
			<-refused
			<-refused // the first refusal has been read: the second sending came of it
			var want []string
			for i := range 2*batchMessages + 10 {
				want = append(want, fmt.Sprintf("%03d", i))
				if i > 0 {
					add("q", want[i])
				}
			}
			if _, err := c.Enqueue(t.Context(), "other", Message{Body: []byte("o")}); err != nil {
				t.Fatal(err) // a queue of its own is not held
			}
			<-refused
			f.do(func() { full = false })
			wg.Wait()
			f.do(func() {
				f.log = slices.DeleteFunc(f.log, func(b string) bool { return b == "o" })
				if slices.Equal(f.log, want) != ordered {
					t.Errorf("%d messages in the log, in the order of their calls: %t; first %q", len(f.log), !ordered, f.log[:min(3, len(f.log))])
				}
			})
			c.mu.Lock()
			defer c.mu.Unlock()
			if len(c.held) != 0 {
				t.Errorf("%d queues are still held", len(c.held))
			}
		})
	}
}

// What is held back ends with its caller, and closing ends it too.
func TestHeldMessagesEnd(t *testing.T) {
	f := newFake(t, 1)
	f.ordered = true
	c := open(t, f, Options{})
	if _, err := c.Enqueue(t.Context(), "q", Message{}); err != nil {
		t.Fatal(err)
	}
	refused := make(chan struct{}, 100)
	f.do(func() {
		f.onMessage = func(*fakeConn, *wire.Message) *wire.Fault {
			select {
			case refused <- struct{}{}:
			default:
			}
			return wire.NewFault(wire.CodeQueueFull, "full")
		}
	})
	ended := make(chan error, 300)
	add := func(n int) {
		for range n {
			if err := c.EnqueueAsync(t.Context(), "q", Message{}, func(_ Receipt, err error) { ended <- err }); err != nil {
				t.Fatal(err)
			}
		}
	}
	add(1)
	<-refused
	<-refused
	add(200)
	ctx, cancel := cancelled(t)
	done := make(chan error)
	go func() {
		_, err := c.Enqueue(ctx, "q", Message{})
		done <- err
	}()
	until(t, "held", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.pending == 202 && c.heldLocked() > 0
	})
	cancel()
	if err := <-done; err == nil || Unknown(err) {
		t.Errorf("a held message ended with %v, want a definite error", err)
	}
	ctx, cancel = cancelled(t)
	cancel()
	_ = c.Close(ctx)
	for range 201 {
		if err := <-ended; err == nil || Unknown(err) {
			t.Fatalf("ended with %v, want a definite error", err)
		}
	}
}

func cancelled(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

// What is known of a queue, and who refuses, decide whether later messages may overtake: only a queue that the log has called unordered is not held,
// and an answer of which the log has judged nothing says nothing of that.
func TestNothingOvertakesWhatIsRefused(t *testing.T) {
	whole := func(fc *fakeConn, r wire.Raw, _ int) (verdict, *wire.Fault) {
		return pass, wire.NewFault(wire.CodeOverloaded, "busy")
	}
	each := func(fc *fakeConn, r wire.Raw, n int) (verdict, *wire.Fault) {
		a := wire.Enqueued{}
		for range n {
			a.Outcomes = append(a.Outcomes, wire.Outcome{Fault: wire.NewFault(wire.CodeOverloaded, "busy")})
		}
		fc.push(wire.TypeEnqueued, r.Tag, &a)
		return ignore, nil
	}
	for _, tc := range []struct {
		name           string
		known, ordered bool
		refuse         func(*fakeConn, wire.Raw, int) (verdict, *wire.Fault)
		kept           bool
	}{
		{"nothing is known of the queue", false, true, whole, true},
		{"nothing is known, message by message", false, true, each, true},
		{"nothing is known of an unordered queue", false, false, whole, true},
		{"it is ordered", true, true, whole, true},
		{"it is ordered, message by message", true, true, each, true},
		{"it is unordered", true, false, whole, false},
		{"it is unordered, message by message", true, false, each, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(t, 1)
			f.keepLog, f.ordered = true, tc.ordered
			c := open(t, f, Options{})
			if tc.known {
				enqueueOne(t, c, "learn")
			}
			busy, refused := true, make(chan struct{}, 1000)
			f.do(func() {
				f.log = nil
				f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
					if r.Type != wire.TypeEnqueue {
						return pass, nil
					}
					e := decode[wire.Enqueue](fc, r)
					if !busy || string(e.Messages[0].Body) != "00" {
						return pass, nil
					}
					refused <- struct{}{}
					return tc.refuse(fc, r, len(e.Messages))
				}
			})
			var wg sync.WaitGroup
			var want []string
			for i := range 20 {
				body := fmt.Sprintf("%02d", i)
				want = append(want, body)
				wg.Add(1)
				if err := c.EnqueueAsync(t.Context(), "q", Message{Body: []byte(body)}, func(_ Receipt, err error) {
					if err != nil {
						t.Errorf("%s: %v", body, err)
					}
					wg.Done()
				}); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					<-refused
					<-refused // the first refusal has been read: the second sending came of it
				}
			}
			if tc.kept {
				<-refused
			} else {
				until(t, "the others to overtake", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.log) == 19 })
			}
			f.do(func() { busy = false })
			wg.Wait()
			f.do(func() {
				if slices.Equal(f.log, want) != tc.kept {
					t.Errorf("the log has %q", f.log)
				}
			})
			c.mu.Lock()
			defer c.mu.Unlock()
			if len(c.held) != 0 {
				t.Errorf("%d queues are still held", len(c.held))
			}
		})
	}
}

// A queue that turns out to be unordered is held no longer, though what was refused waits on; and a later hold of the same queue is another.
func TestHoldIsLetGoWhenTheQueueIsUnordered(t *testing.T) {
	c := &Client{ordered: map[string]bool{}, held: map[string]*hold{}, lanes: map[string]*call{}}
	refused, later := newBatchCall("q"), newBatchCall("q")
	refused.retryAt = 1
	c.holdLocked(refused)
	c.startLocked(later)
	if c.heldLocked() != 1 || c.fresh.len() != 0 {
		t.Fatalf("%d are kept back and %d are not, of a queue that may be ordered", c.heldLocked(), c.fresh.len())
	}
	c.learnLocked("q", false)
	if c.heldLocked() != 0 || c.fresh.len() != 1 || len(c.held) != 0 {
		t.Fatalf("%d are kept back and %d are not, of a queue that is unordered", c.heldLocked(), c.fresh.len())
	}
	c.fresh.pop()
	c.learnLocked("q", true) // made anew
	c.holdLocked(refused)
	c.startLocked(later)
	if c.heldLocked() != 1 || c.held["q"].waiting != 1 {
		t.Fatalf("%d are kept back for %d that wait", c.heldLocked(), c.held["q"].waiting)
	}
	c.unholdLocked(refused, "q")
	if len(c.held) != 0 || c.fresh.len() != 1 {
		t.Errorf("%d queues are held and %d messages are not", len(c.held), c.fresh.len())
	}
	for i := range maxOrdered + 1 {
		c.learnLocked(fmt.Sprint(i), i%2 == 0)
	}
	if n := len(c.ordered); n == 0 || n > maxOrdered {
		t.Errorf("%d queues are remembered, want %d at most", n, maxOrdered)
	}
}
