package client

import (
	"context"
	"time"

	"github.com/quorate/quorate/wire"
)

// Cancelled answers Cancel.
type Cancelled struct {
	ID        string // of the task's message
	Out       bool   // a worker has it: it is told, and its slot stays taken until it has answered or its lease has ended
	Duplicate bool   // it was cancelled before
	Index     uint64 // log position of the answer
	Time      int64  // log time of the answer, Unix ms
}

// Cancel ends a task, also one that a worker has: it is cancelled at once, its result is never recorded, and whoever waits
// for it gets ErrCancelled. A task that is done or dead is ErrFailedPrecondition. Queue may be empty where the task id is a
// broker id. Cancelling again is the same success.
func (c *Client) Cancel(ctx context.Context, queue, taskID string) (out Cancelled, err error) {
	b := &wire.TaskCancel{Task: wire.TaskRef{Queue: queue, TaskID: taskID}, Request: firstRequest}
	if f := b.Validate(); f != nil {
		return Cancelled{}, errorOf(f)
	}
	err = sendRequest(ctx, c, wire.TypeTaskCancel, b, &b.Request, 1, 512, func(v *wire.TaskCancelled) error {
		out = Cancelled{ID: v.ID, Out: v.Out, Duplicate: v.Duplicate, Index: v.At.Index, Time: v.At.Time}
		return nil
	})
	return out, err
}

// RescheduleOptions say when a task is due: exactly one of Delay and At.
type RescheduleOptions struct {
	Delay *time.Duration // so long from now, 0 is now; see After
	At    time.Time      // then; in the past means now
	// MaxWait makes it a debounce: with Delay, the task is never due later than so long after its enqueue, however often it is
	// put off. 0: no such bound.
	MaxWait time.Duration
}

// After makes the value for RescheduleOptions.Delay and ReplaceOptions.Delay.
func After(d time.Duration) *time.Duration { return &d }

// Rescheduled answers Reschedule and Replace.
type Rescheduled struct {
	ID    string    // of the task's message
	DueAt time.Time // zero: it is pending now
	Index uint64    // log position of the answer
	Time  int64     // log time of the answer, Unix ms
}

// Reschedule gives a task that waits (scheduled, pending or retrying) another time. One that is out or has ended is
// ErrFailedPrecondition. It keeps its id, body, attempts and ttl, and gets a new place in its queue. Queue may be empty where
// the task id is a broker id.
func (c *Client) Reschedule(ctx context.Context, queue, taskID string, o RescheduleOptions) (Rescheduled, error) {
	return c.change(ctx, queue, taskID, o, nil)
}

// ReplaceOptions are what a task gets instead of what it has. Without a time it keeps its own, and one that is pending goes
// to the end of its queue.
type ReplaceOptions struct {
	Body        []byte
	ContentType string // empty: stays
	RescheduleOptions
}

// Replace gives a task that waits another body and, if wanted, another time, as Reschedule does. Nothing that a worker had
// of it before counts any more.
func (c *Client) Replace(ctx context.Context, queue, taskID string, o ReplaceOptions) (Rescheduled, error) {
	return c.change(ctx, queue, taskID, o.RescheduleOptions, &wire.Replacement{Body: o.Body, ContentType: o.ContentType})
}

func (c *Client) change(ctx context.Context, queue, taskID string, o RescheduleOptions, r *wire.Replacement) (out Rescheduled, err error) {
	b := &wire.TaskReschedule{
		Task: wire.TaskRef{Queue: queue, TaskID: taskID}, EnqueueAt: unixMillis(o.At), MaxWaitMillis: millis(o.MaxWait), Replace: r,
		Request: firstRequest,
	}
	if o.Delay != nil {
		ms := millis(*o.Delay)
		b.DelayMillis = &ms
	}
	if f := b.Validate(c.maxMessage.Load()); f != nil {
		return Rescheduled{}, errorOf(f)
	}
	size := 512
	if r != nil {
		size += len(r.Body)
	}
	err = sendRequest(ctx, c, wire.TypeTaskReschedule, b, &b.Request, 1, size, func(v *wire.TaskScheduled) error {
		out = Rescheduled{ID: v.ID, DueAt: timeOf(v.DueAt), Index: v.At.Index, Time: v.At.Time}
		return nil
	})
	return out, err
}
