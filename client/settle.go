package client

import (
	"errors"
	"fmt"

	"github.com/quorate/quorate/wire"
)

// settle sends what the handler's return means, and frees the worker.
func (k *consumer) settle(l *lease, r *Result, err error) {
	c := k.c
	c.mu.Lock()
	l.cancel = nil
	k.busy--
	k.idle++
	switch {
	case l.lost != nil || l.state != leaseRunning:
		switch {
		case errors.Is(l.lost, ErrCancelled):
			k.log.Info("result dropped: the task was cancelled", "message", l.d.ID, "attempt", l.d.Attempt)
		case !errors.Is(l.lost, errSettled):
			k.log.Warn("result dropped: the lease was lost", "message", l.d.ID, "attempt", l.d.Attempt, "err", l.lost)
		}
		k.dropLostLocked(l)
	case l.once:
		switch {
		case err != nil:
			k.log.Warn("handler failed; the message was delivered at most once and does not come again", "message", l.d.ID, "err", err)
		case r != nil:
			k.log.Warn("result dropped: the message was done when it was delivered", "message", l.d.ID)
		}
		c.dropLeaseLocked(l)
	case err == nil:
		k.ackLocked(l, r)
	case errors.Is(err, ErrRelease) || k.over:
		k.releaseLocked(l)
	default:
		k.nackLocked(l, err)
	}
	k.pumpLocked()
	k.changedLocked()
	c.mu.Unlock()
}

// settlingLocked marks a lease whose fate is on its way to the server. It is extended while that takes, for Timeout at
// most.
func (k *consumer) settlingLocked(l *lease, cl *call) {
	l.state, l.settle = leaseSettling, cl
	l.settleBy = k.c.now() + int64(k.c.o.Timeout)
	if k.c.closed {
		k.c.dropLeaseLocked(l)
		return
	}
	if cl.ackDone != nil {
		k.c.acks++
	}
	k.c.queueLocked(cl)
}

func (k *consumer) ackLocked(l *lease, r *Result) {
	cl := ackCalls.Get().(*call)
	if err := k.c.prepareAck(cl, l.d.Token, AckOptions{Result: r}); err != nil {
		k.nackLocked(l, fmt.Errorf("the result cannot be recorded: %w", err))
		return
	}
	cl.ackDone = func(_ Acked, err error) {
		var e *Error
		k.c.mu.Lock()
		l.settle = nil
		// Also where an earlier ack may have been applied: a nack of what is acked is refused and changes nothing.
		if err != nil && l.lost == nil && !k.c.closed && errors.As(err, &e) &&
			(e.Code == wire.CodeInvalidArgument || e.Code == wire.CodeTooLarge || e.Code == wire.CodeQueueFull) {
			k.nackLocked(l, fmt.Errorf("the result cannot be recorded: %w", err))
			k.c.mu.Unlock()
			return
		}
		k.settledLocked(l, "ack", err)
		k.c.mu.Unlock()
	}
	cl.lease = l
	k.settlingLocked(l, cl)
}

func (k *consumer) nackLocked(l *lease, err error) {
	o := NackOptions{Error: err.Error()}
	var after retryAfterError
	if errors.As(err, &after) {
		o.Delay = &after.after
	}
	var permanent permanentError
	o.Permanent = errors.As(err, &permanent)
	cl, _, nerr := k.c.nackCall(l.d.Token, o)
	if nerr != nil { // a delay out of range: let the policy choose
		o.Delay = nil
		if cl, _, nerr = k.c.nackCall(l.d.Token, o); nerr != nil {
			k.settledLocked(l, "nack", nerr)
			return
		}
	}
	cl.settles = ""
	cl.notify = func(err error) { k.settled(l, "nack", err) }
	k.settlingLocked(l, cl)
}

func (k *consumer) releaseLocked(l *lease) {
	cl := &call{typ: wire.TypeRelease, body: &wire.Release{Token: l.d.Token}, size: 128}
	cl.notify = func(err error) { k.settled(l, "release", err) }
	k.settlingLocked(l, cl)
}

func (k *consumer) settled(l *lease, how string, err error) {
	k.c.mu.Lock()
	k.settledLocked(l, how, err)
	k.c.mu.Unlock()
}

func (k *consumer) settledLocked(l *lease, how string, err error) {
	l.settle = nil
	if err != nil && !errors.Is(err, ErrCancelled) {
		k.log.Warn("not settled", "op", how, "message", l.d.ID, "attempt", l.d.Attempt, "err", err)
	}
	k.c.dropLeaseLocked(l)
	k.changedLocked()
}
