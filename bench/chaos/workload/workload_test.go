package workload

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Workers stand still while they are held, those that come meanwhile too; two holds follow one another.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var holds sync.WaitGroup
		for range 2 {
			holds.Go(func() {
				if err := w.Hold(t.Context(), time.Second); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		w.gate.pass(t.Context()) // through the first; the second may have closed it again by then, or not
		if d := time.Since(began); d < time.Second {
			t.Errorf("a worker went on after %s", d)
		}
		holds.Wait()
		if d := time.Since(began); d != 2*time.Second {
			t.Errorf("two holds of a second took %s", d)
		}
		w.gate.pass(t.Context())
		if d := time.Since(began); d != 2*time.Second {
			t.Errorf("the gate is open, and a worker went on after %s", d)
		}
	})
}

// The end of a run ends a hold, a worker that stands still, and who waits for the hold before its own.
func TestHoldEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				if err := w.Hold(ctx, time.Hour); !errors.Is(err, context.Canceled) {
					t.Errorf("%v, want that the run has ended", err)
				}
			})
		}
		synctest.Wait()
		all.Go(func() { w.gate.pass(ctx) })
		synctest.Wait()
		stop()
		all.Wait()
	})
}

// What a queue cannot be about is refused, with what it can.
func TestUnknownMode(t *testing.T) {
	if _, err := New(Config{Modes: []string{"fifo", "lifo"}}); err == nil {
		t.Error("no error")
	}
}
