package client

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/wire"
)

// A numbered call that waits for another try is sent at once on a new connection. Refused there before the clock has looked at it, it
// waits again, once: it ends once, whoever ends it.
func TestCallThatWaitsStandsInOnePlace(t *testing.T) {
	for _, kind := range []string{"a call", "a batch"} {
		t.Run(kind, func(t *testing.T) {
			f := newFake(t, 1)
			c := open(t, f, Options{Timeout: time.Minute})
			f.do(func() {
				f.hook = func(_ *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
					if r.Type != wire.TypeEnqueue && r.Type != wire.TypeQueueCreate {
						return pass, nil
					}
					late := wire.NewFault(wire.CodeTimeout, "late")
					late.RetryAfterMillis = retryAfter.Milliseconds() // the clock does not look before that
					return pass, late
				}
			})
			ends := make(chan error, 2)
			go func() {
				if kind == "a batch" {
					_, err := c.Enqueue(t.Context(), "q", Message{})
					ends <- err
					return
				}
				ends <- c.CreateQueue(t.Context(), "q", QueueOptions{})
			}()
			for tries := 1; tries <= 3; tries++ {
				until(t, fmt.Sprintf("refusal %d", tries), func() bool {
					c.mu.Lock()
					defer c.mu.Unlock()
					return len(c.later) > 0 && c.later[0].tries == tries && c.later[0].state == callWaiting
				})
				c.mu.Lock()
				waits, live := len(c.later), len(c.liveLocked())
				c.mu.Unlock()
				if waits != 1 || live != 1 {
					t.Fatalf("refused %d times, it waits %d times and is live %d times", tries, waits, live)
				}
				f.do(func() {
					for fc := range f.conns {
						_ = fc.ws.UnderlyingConn().Close()
					}
				})
			}
			closing, cancel := cancelled(t)
			cancel()
			_ = c.Close(closing)
			if err := <-ends; !errors.Is(err, ErrClosed) || !Unknown(err) {
				t.Errorf("ended with %v, want closed, unknown", err)
			}
		})
	}
}

// What is not there to be tried again any more, or is to be sent in the next session, does not wait.
func TestNothingWaitsOfASessionThatHasEnded(t *testing.T) {
	c := &Client{next: 3, sessionGone: true, epoch: time.Now()}
	ended := 0
	notify := func(error) { ended++ }
	body := &wire.QueueWrite{}
	unknown := &call{state: callWaiting, number: 1, unresolved: 1, req: &body.Request, notify: notify}
	never := &call{state: callWaiting, number: 2, req: &body.Request, notify: notify}
	plain := &call{state: callWaiting, notify: notify}
	c.ring, c.later = []*call{unknown, never}, []*call{unknown, never, plain}
	runAll(c.dropSessionLocked())
	if ended != 1 || unknown.state != callDone || never.state != callQueued || never.number != 0 {
		t.Errorf("%d ended; states %d and %d, number %d", ended, unknown.state, never.state, never.number)
	}
	if len(c.later) != 1 || c.later[0] != plain {
		t.Errorf("%d wait, want the one that has no number", len(c.later))
	}
	if live := c.liveLocked(); len(live) != 2 {
		t.Errorf("%d are live, want 2", len(live))
	}
}
