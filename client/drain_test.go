package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// C38, C39: stop takes nothing more, gives back what no handler has, lets handlers finish, and ends on time whatever
// they do.
func TestDrain(t *testing.T) {
	const held = 6
	t.Run("handlers finish", func(t *testing.T) {
		f := newFake(t, 1)
		c := open(t, f, Options{})
		f.put("q", numbers(2+held)...)
		running, gate := make(chan bool, 10), make(chan struct{})
		stop := consuming(t, c, ConsumeOptions{Concurrency: 2, Prefetch: 2 + held}, func(ctx context.Context, d *Delivery) (*Result, error) {
			running <- true
			<-gate
			if ctx.Err() != nil {
				t.Errorf("context ended: %v", context.Cause(ctx))
			}
			return nil, nil
		})
		<-running
		<-running
		until(t, "the prefetch", func() bool { return f.state("q") == fmt.Sprintf("leased %d", 2+held) })
		ended := make(chan error, 1)
		go func() { ended <- stop() }()
		until(t, "the hand-back", func() bool { return f.state("q") == fmt.Sprintf("ready %d, leased 2", held) })
		close(gate)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := f.state("q"); got != fmt.Sprintf("ready %d, done 2", held) {
			t.Errorf("state %s", got)
		}
		f.do(func() {
			for _, m := range f.byID {
				if m.state == "ready" && m.attempt != 0 {
					t.Errorf("%s was charged", m.m.Body)
				}
			}
		})
	})
	t.Run("handlers obey the cancel", func(t *testing.T) {
		f := newFake(t, 1)
		c := open(t, f, Options{})
		f.put("q", numbers(2)...)
		running := make(chan bool, 10)
		stop := consuming(t, c, ConsumeOptions{Concurrency: 2, DrainTimeout: 50 * time.Millisecond}, func(ctx context.Context, d *Delivery) (*Result, error) {
			running <- true
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), ErrDraining) {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			return nil, ctx.Err()
		})
		<-running
		<-running
		if err := stop(); err != nil {
			t.Error(err)
		}
		if got := f.state("q"); got != "ready 2" {
			t.Errorf("state %s, want both given back", got)
		}
	})
	t.Run("handlers ignore it", func(t *testing.T) {
		f := newFake(t, 1)
		c := open(t, f, Options{})
		f.put("q", "x")
		running, gate, back := make(chan bool, 10), make(chan struct{}), make(chan bool)
		stop := consuming(t, c, ConsumeOptions{DrainTimeout: -1}, func(context.Context, *Delivery) (*Result, error) {
			running <- true
			<-gate
			defer close(back)
			return &Result{}, nil
		})
		<-running
		start := time.Now()
		err := stop()
		if err == nil || !strings.Contains(err.Error(), "1 handlers did not return") {
			t.Errorf("error %v", err)
		}
		if took := time.Since(start); took > 8*time.Second {
			t.Errorf("took %v", took)
		}
		if got := f.state("q"); got != "ready 1" {
			t.Errorf("state %s", got)
		}
		close(gate)
		<-back // the result is dropped: the message is somebody else's
		enqueueOne(t, c, "y")
		if got := f.state("q"); got != "ready 1" {
			t.Errorf("state %s", got)
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		f := newFake(t, 1)
		c := open(t, f, Options{})
		f.put("q", numbers(3)...)
		running, gate := make(chan bool, 10), make(chan struct{})
		stop := consuming(t, c, ConsumeOptions{DrainTimeout: 100 * time.Millisecond}, func(context.Context, *Delivery) (*Result, error) {
			running <- true
			<-gate
			return nil, nil
		})
		<-running
		f.nodes[0].kill()
		close(gate)
		start := time.Now()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("took %v", took)
		}
	})
}
