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
