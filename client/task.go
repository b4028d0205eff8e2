package client

import (
	"context"
	"errors"
	"time"

	"github.com/quorate/quorate/wire"
)

// Task is all that is known of a message, a task or a dead letter. Times are zero where they do not apply.
type Task struct {
	ID                 string
	OriginalID         string // of a dead letter that was moved or requeued
	TaskID             string
	Queue              string
	Kind               string
	Status             string // scheduled, pending, processing, retrying, succeeded, dead or cancelled
	Priority           int
	Attempts           int // of a dead letter: those that it died of, in Origin if it was moved
	MaxAttempts        int // by the policies as they are; 0: not known any more
	EnqueuedAt         time.Time
	DueAt              time.Time
	LeaseEndsAt        time.Time
	ExpiresAt          time.Time
	EndedAt            time.Time // of a dead letter: when it died
	Worker             string
	Error              string // the last one
	History            []Attempt
	Reason             string // why it is dead
	Redrives           int
	OriginalEnqueuedAt time.Time
	ContentType        string
	Headers            []Header
	Key                []byte
	Body               []byte // absent in listings
	BodyBytes          int64
	Origin             string // of a dead letter that was moved to Queue: the queue where it died, which names the task
	Held               string // of one that was moved: where it stands as a message of Queue, as Status names it
	HeldAttempts       int    // of one that was moved and lives on: its attempts in Queue
	HeldMaxAttempts    int    // and the most that it has there
	Stay               string // of a dead letter whose queue has a dead-letter queue: why it is not there
}

// Attempt is one failed attempt.
type Attempt struct {
	At     time.Time
	Number int
	Worker string
	Error  string
}

func taskOf(w *wire.Task) *Task {
	t := &Task{
		ID: w.ID, OriginalID: w.OriginalID, TaskID: w.TaskID, Queue: w.Queue, Kind: w.Kind, Status: w.Status,
		Priority: int(w.Priority), Attempts: int(w.Attempts), MaxAttempts: int(w.MaxAttempts),
		EnqueuedAt: timeOf(w.EnqueuedAt), DueAt: timeOf(w.DueAt), LeaseEndsAt: timeOf(w.LeaseEndsAt),
		ExpiresAt: timeOf(w.ExpiresAt), EndedAt: timeOf(w.EndedAt), Worker: w.Worker, Error: w.Error, Reason: w.Reason,
		Redrives: int(w.Redrives), OriginalEnqueuedAt: timeOf(w.OriginalEnqueuedAt), ContentType: w.ContentType,
		Headers: headersOf(w.Headers), Key: clone(w.Key), Body: clone(w.Body), BodyBytes: w.BodyBytes,
		Origin: w.Origin, Held: w.Held, HeldAttempts: int(w.HeldAttempts), HeldMaxAttempts: int(w.HeldMaxAttempts), Stay: w.Stay,
	}
	if t.TaskID == "" {
		t.TaskID = t.ID
	}
	for _, a := range w.History {
		t.History = append(t.History, Attempt{At: timeOf(a.At), Number: int(a.Number), Worker: a.Worker, Error: a.Error})
	}
	return t
}

// Task tells where a task stands. Queue may be empty where the task id is a broker id. Live tasks and dead letters come with
// all that is known, their last eight failed attempts too. Of one that succeeded only its ids, end, attempts and last worker
// are kept, as long as its result, or ten minutes without one; of one that was cancelled its ids and end, for ten minutes.
func (c *Client) Task(ctx context.Context, queue, taskID string) (t *Task, err error) {
	b := &wire.TaskGet{Task: wire.TaskRef{Queue: queue, TaskID: taskID}}
	if f := b.Validate(); f != nil {
		return nil, errorOf(f)
	}
	err = ask(ctx, c, wire.TypeTask, b, func(v *wire.TaskIs) error { t = taskOf(&v.Task); return nil })
	return t, err
}

// TaskResult is how a task ended.
type TaskResult struct {
	Status    string  // "succeeded" or "dead"
	Result    *Result // of one that succeeded
	HasOutput bool    // false: it was acked without a result, or the result is no longer kept
	Dead      *Task   // of one that died
}

func taskResultOf(w *wire.ResultIs) *TaskResult {
	r := &TaskResult{Status: w.Status, Result: resultOf(w.Result), HasOutput: w.HasOutput}
	if w.Dead != nil {
		r.Dead = taskOf(w.Dead)
	}
	return r
}

// Result reads how a task ended: ErrTimeout while it has not, ErrNotFound when it is not known (any more). Queue may be
// empty where the task id is a broker id.
func (c *Client) Result(ctx context.Context, queue, taskID string) (*TaskResult, error) {
	return c.result(ctx, queue, taskID, 0)
}

func (c *Client) result(ctx context.Context, queue, taskID string, wait time.Duration) (r *TaskResult, err error) {
	b := &wire.ResultGet{Task: wire.TaskRef{Queue: queue, TaskID: taskID}, WaitMillis: millis(wait)}
	if f := b.Validate(); f != nil {
		return nil, errorOf(f)
	}
	err = c.do(ctx, &call{
		typ: wire.TypeResultGet, body: b, size: 512, noWait: true,
		answer: func(raw wire.Raw) error {
			var v wire.ResultIs
			if err := raw.Decode(&v); err != nil {
				return err
			}
			r = taskResultOf(&v)
			return nil
		},
	}, wait)
	return r, err
}

// resultWait is how long one request of WaitResult waits at the server before it is asked again.
const resultWait = 30 * time.Second

// WaitResult waits until a task has ended, through reconnects and leader changes, until ctx ends (or Options.Timeout).
func (c *Client) WaitResult(ctx context.Context, queue, taskID string) (*TaskResult, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.o.Timeout, errCallTimeout)
		defer cancel()
	}
	for try := 1; ; try++ {
		start := time.Now()
		r, err := c.result(ctx, queue, taskID, resultWait)
		if !errors.Is(err, ErrTimeout) {
			return r, err
		}
		if ctx.Err() != nil {
			return nil, &Error{Code: wire.CodeTimeout, Message: "the task has not ended", Retry: true, cause: context.Cause(ctx)}
		}
		if time.Since(start) > time.Second {
			try = 1
		}
		select { // a server that answers at once must not be asked in a loop
		case <-time.After(c.jit.wait(try, retryBase, retryMax, 0)):
		case <-ctx.Done():
		}
	}
}

// PushResult records a result without a lease, also for a task the broker never saw. The first result of a task wins: a
// later one gets it back, marked as duplicate.
func (c *Client) PushResult(ctx context.Context, queue, taskID, kind string, r Result) (out Acked, err error) {
	b := &wire.ResultPush{
		Task: wire.TaskRef{Queue: queue, TaskID: taskID}, Kind: kind,
		Result: wire.Result{Output: r.Output, ContentType: r.ContentType}, Request: firstRequest,
	}
	if f := b.Validate(c.maxMessage.Load()); f != nil {
		return Acked{}, errorOf(f)
	}
	err = sendRequest(ctx, c, wire.TypeResultPush, b, &b.Request, 1, len(r.Output)+512, func(v *wire.Acked) error {
		out = Acked{Duplicate: v.Duplicate, Result: resultOf(v.Result), Index: v.At.Index, Time: v.At.Time}
		return nil
	})
	return out, err
}
