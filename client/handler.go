package client

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/quorate/quorate/wire"
)

// Why a handler's context was cancelled (context.Cause).
var (
	// ErrTaskTimeout says that the message's timeout for one attempt is over.
	ErrTaskTimeout = errors.New("client: the attempt's timeout is over")
	// ErrDraining says that Consume stops and DrainTimeout is over.
	ErrDraining = errors.New("client: draining")

	errExpired = &Error{Code: wire.CodeLeaseLost, Message: "not extended before its end"}
	errLost    = &Error{Code: wire.CodeLeaseLost, Message: "the cluster ended the lease"}
	errSettled = errors.New("client: acked, nacked or released by hand")
)

// ErrRelease is what a handler returns to give the message back at no cost of an attempt.
var ErrRelease = errors.New("client: release")

type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Permanent makes a handler's error one that no retry cures: the message goes to the dead letters at once.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanentError{err}
}

type retryAfterError struct {
	error
	after time.Duration
}

func (e retryAfterError) Unwrap() error { return e.error }

// RetryAfter makes a handler's error choose the wait before the next attempt, instead of the retry policy.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return retryAfterError{err, d}
}

// Handler does the work of one message. Nil acks, with the result if there is one; an error nacks, as Permanent,
// RetryAfter and ErrRelease say; a panic nacks with its text. The context ends before the lease does, at the message's
// timeout, when the task is cancelled (ErrCancelled is its cause), and when a drain runs out of time; whatever the handler returns after the lease was lost is ignored, since the
// message may be with someone else by then.
type Handler func(ctx context.Context, d *Delivery) (*Result, error)

// work is one worker.
func (k *consumer) work() {
	defer k.wg.Done()
	for l := range k.run {
		ctx, cancel := context.WithCancelCause(k.base)
		c := k.c
		c.mu.Lock()
		l.cancel = cancel
		lost := l.lost
		if lost == nil && k.over {
			lost = ErrDraining
		}
		c.mu.Unlock()
		if lost != nil {
			cancel(lost)
		}
		var r *Result
		var err error
		if c.tracer != nil {
			r, err = k.traced(ctx, l.d)
		} else {
			r, err = k.call(ctx, l.d)
		}
		cancel(nil)
		k.settle(l, r, err)
	}
}

// call runs the handler and turns a panic into an error.
func (k *consumer) call(ctx context.Context, d *Delivery) (r *Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			k.log.Error("handler panicked", "message", d.ID, "attempt", d.Attempt, "err", p, "stack", string(debug.Stack()))
			r, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	return k.h(ctx, d)
}
