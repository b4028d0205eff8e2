package client

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/wire"
)

// A number that the wire could not hold is refused like any that is out of range, and never wraps round to one that is not.
func TestNumbersBeyondTheWire(t *testing.T) {
	f := newFake(t, 1)
	c := open(t, f, Options{})
	f.do(func() {
		f.hook = func(_ *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
			if r.Type != wire.TypeHello && r.Type != wire.TypeOpenSession {
				t.Errorf("a frame of type %d was sent", r.Type)
			}
			return pass, nil
		}
	})
	ctx := t.Context()
	for name, call := range map[string]func(n int) error{
		"limit/queues":    func(n int) error { _, _, err := c.Queues(ctx, "", n); return err },
		"limit/peek":      func(n int) error { _, _, err := c.Peek(ctx, "q", PeekOptions{Limit: n}); return err },
		"limit/dead":      func(n int) error { _, _, err := c.DeadLetters(ctx, "q", DeadOptions{Limit: n}); return err },
		"limit/results":   func(n int) error { _, _, _, err := c.ListResults(ctx, "q", ResultsOptions{Limit: n}); return err },
		"limit/keys":      func(n int) error { _, err := c.KVList(ctx, nil, KVListOptions{Limit: n}); return err },
		"limit/schedules": func(n int) error { _, _, err := c.Schedules(ctx, "", n); return err },
		"max/lease":       func(n int) error { _, err := c.Lease(ctx, "q", LeaseOptions{Max: n}); return err },
		"credit/subscribe": func(n int) error {
			_, err := c.Subscribe(ctx, "q", SubscribeOptions{Credit: n}, func(*Delivery) {})
			return err
		},
		"messages[0].retry.max_attempts/enqueue": func(n int) error {
			_, err := c.Enqueue(ctx, "q", Message{Retry: &RetryPolicy{Kind: "fixed", MaxAttempts: n}})
			return err
		},
	} {
		for _, n := range []int{-1, -1 << 31, -1 << 32, -1<<32 + 5, -1 << 62, 1 << 31, 1 << 32, 1<<32 + 5, 1 << 62} {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				if err := call(n); err == nil {
					t.Error("it was taken")
				}
			})
		}
	}
}
