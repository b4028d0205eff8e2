package client

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestWaitResult(t *testing.T) {
	f := newFake(t, 1)
	c := open(t, f, Options{})
	ids := f.put("q", "x")
	if _, err := c.Result(t.Context(), "q", ids[0]); !errors.Is(err, ErrTimeout) {
		t.Errorf("result of what has not ended: %v", err)
	}
	if _, err := c.Result(t.Context(), "q", "nobody"); !errors.Is(err, ErrNotFound) {
		t.Errorf("result of nothing: %v", err)
	}
	done := make(chan *TaskResult, 1)
	go func() {
		r, err := c.WaitResult(t.Context(), "q", ids[0])
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	if err := c.Consume(t.Context(), "q", ConsumeOptions{StopWhenEmpty: true}, func(context.Context, *Delivery) (*Result, error) {
		return &Result{Output: []byte("42")}, nil
	}); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r == nil || r.Status != "succeeded" || string(r.Result.Output) != "42" {
		t.Errorf("result %+v", r)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	never := f.put("q2", "y")
	if _, err := c.WaitResult(ctx, "q2", never[0]); !errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) || Unknown(err) {
		t.Errorf("wait that ran out: %v", err)
	}
}
