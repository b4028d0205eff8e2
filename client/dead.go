package client

import (
	"context"
	"time"

	"github.com/quorate/quorate/wire"
)

// DeadOptions choose which dead letters are listed, in the order in which they died. Reason, kind and times are looked up;
// text and headers are looked for in pages, so that a page may be short or empty and yet not the last.
type DeadOptions struct {
	Limit   int       // letters of a page, 1–1000; 0: 100
	After   string    // cursor
	Reason  string    // max_attempts, permanent, expired, overflow or mapping; empty: any
	Kind    string    // empty: any
	Since   time.Time // died at this time or later; zero: any
	Until   time.Time // died at this time or earlier; zero: any
	Text    string    // is in the error, the task id or the body, to the letter; ≤ 256 bytes
	Headers []Header  // has each of these; an empty value stands for any. ≤ 8
	Brief   bool      // without body, headers and history
}

func (o *DeadOptions) wire(queue string) *wire.DeadList {
	b := &wire.DeadList{
		Queue: queue, Limit: int32of(o.Limit), After: o.After, Reason: o.Reason, Kind: o.Kind, Since: unixMillis(o.Since),
		Until: unixMillis(o.Until), Text: o.Text, Brief: o.Brief,
	}
	for _, h := range o.Headers {
		b.Headers = append(b.Headers, wire.Header{Name: h.Name, Value: h.Value})
	}
	return b
}

// DeadLetters lists a queue's dead letters, its own and those that were moved to it. next is the cursor for more, empty at the
// end.
func (c *Client) DeadLetters(ctx context.Context, queue string, o DeadOptions) (ts []Task, next string, err error) {
	b := o.wire(queue)
	if f := b.Validate(); f != nil {
		return nil, "", errorOf(f)
	}
	return c.tasks(ctx, wire.TypeDeadList, b)
}

// DeadLetter reads one dead letter.
func (c *Client) DeadLetter(ctx context.Context, queue, id string) (t *Task, err error) {
	b := &wire.DeadGet{Queue: queue, ID: id}
	if f := b.Validate(); f != nil {
		return nil, errorOf(f)
	}
	err = ask(ctx, c, wire.TypeDeadGet, b, func(v *wire.TaskIs) error { t = taskOf(&v.Task); return nil })
	return t, err
}

// Requeue makes dead letters live again, at the end of their queue and with all attempts. It returns an outcome for each
// id, whose receipt carries the new message id. Any number is taken, 1,000 a request.
func (c *Client) Requeue(ctx context.Context, queue string, ids ...string) ([]Receipt, []error) {
	return c.deadIDs(ctx, wire.TypeDeadRequeue, queue, ids)
}

// DeleteDead removes dead letters for good; an error for each id, nil where it is gone.
func (c *Client) DeleteDead(ctx context.Context, queue string, ids ...string) []error {
	_, errs := c.deadIDs(ctx, wire.TypeDeadDelete, queue, ids)
	return errs
}

func (c *Client) deadIDs(ctx context.Context, t wire.Type, queue string, ids []string) ([]Receipt, []error) {
	recs, errs := make([]Receipt, len(ids)), make([]error, len(ids))
	for from := 0; from < len(ids); from += wire.MaxBatch {
		part := ids[from:min(from+wire.MaxBatch, len(ids))]
		b := &wire.DeadIDs{Queue: queue, IDs: part, Request: firstRequest}
		var err error
		if f := b.Validate(); f != nil {
			err = errorOf(f)
		} else {
			err = sendRequest(ctx, c, t, b, &b.Request, len(part), 32*len(part), func(v *wire.Enqueued) error {
				if len(v.Outcomes) != len(part) {
					return protocolError("%d outcomes answer %d ids", len(v.Outcomes), len(part))
				}
				for i := range v.Outcomes {
					recs[from+i], errs[from+i] = receiptOf(&v.Outcomes[i], v.At)
				}
				return nil
			})
		}
		if err != nil {
			for i := range part {
				errs[from+i] = err
			}
		}
	}
	return recs, errs
}

// PurgeDead removes all dead letters of a queue's own dead set at once, and tells how many. What was moved to it stays: EmptyDead
// takes that too.
func (c *Client) PurgeDead(ctx context.Context, queue string) (int64, error) {
	return c.purge(ctx, wire.TypeDeadPurge, queue)
}

// EmptyDead removes all dead letters of a queue, and tells how many: its own dead set at once, then those that were moved to it,
// 1,000 at a time, but for those that a worker has.
func (c *Client) EmptyDead(ctx context.Context, queue string) (int64, error) {
	n, err := c.PurgeDead(ctx, queue)
	if err != nil {
		return n, err
	}
	r, err := c.DeleteDeadWhere(ctx, queue, BulkOptions{})
	return n + r.Done, err
}
