package client

import (
	"context"
	"time"

	"github.com/quorate/quorate/wire"
)

// BatchInfo is what is known of a batch.
type BatchInfo struct {
	ID         string
	Sealed     bool
	Members    int64 // added
	Open       int64 // not yet ended
	Succeeded  int64
	Dead       int64 // also those that were brought back since
	Cancelled  int64 // purged and deleted ones included
	CreatedAt  time.Time
	FinishedAt time.Time // when the callback was enqueued; zero: not yet
	EndsAt     time.Time // when the batch is forgotten; zero: it is sealed and not done
	Queue      string    // of the callback that is to come
	CallbackID string    // message id of the callback that has come
}

// CreateBatch makes a batch and returns its id. Members are messages enqueued with it in Message.Batch, in calls and in the
// Then of acks, to any queues. Once SealBatch has closed it and every member has ended (done, dead or cancelled), the callback
// is enqueued to its queue, exactly once, in the log entry that ends the last one. It has the counts in the headers batch_id,
// batch_members, batch_succeeded, batch_dead and batch_cancelled. A batch that is not sealed within a week ends without.
//
// The callback's body is at most 64 KiB, and it has no task id, dedup key, KV keys or batch. It gets through whatever becomes
// of its queue.
func (c *Client) CreateBatch(ctx context.Context, queue string, callback Message) (id string, err error) {
	b := &wire.BatchCreate{Queue: queue, Request: firstRequest}
	if err := callback.wire(&b.Callback); err != nil {
		return "", err
	}
	if f := b.Validate(c.maxMessage.Load()); f != nil {
		return "", errorOf(f)
	}
	err = sendRequest(ctx, c, wire.TypeBatchCreate, b, &b.Request, 1, messageSize(&b.Callback), func(v *wire.BatchCreated) error {
		id = v.Batch
		return nil
	})
	return id, err
}

// SealBatch closes a batch: no more members. To seal it again is success.
func (c *Client) SealBatch(ctx context.Context, id string) error {
	b := &wire.BatchSeal{Batch: id, Request: firstRequest}
	if f := b.Validate(); f != nil {
		return errorOf(f)
	}
	return sendRequest[wire.OK](ctx, c, wire.TypeBatchSeal, b, &b.Request, 1, 0, nil)
}

// Batch reads the counts of a batch. One that is done is known for an hour.
func (c *Client) Batch(ctx context.Context, id string) (in BatchInfo, err error) {
	b := &wire.BatchShow{Batch: id}
	if f := b.Validate(); f != nil {
		return BatchInfo{}, errorOf(f)
	}
	err = ask(ctx, c, wire.TypeBatchShow, b, func(v *wire.BatchIs) error {
		in = BatchInfo{
			ID: v.Batch, Sealed: v.Sealed, Members: v.Members, Open: v.Open, Succeeded: v.Succeeded, Dead: v.Dead,
			Cancelled: v.Cancelled, CreatedAt: timeOf(v.CreatedAt), FinishedAt: timeOf(v.FinishedAt), EndsAt: timeOf(v.EndsAt),
			Queue: v.Queue, CallbackID: v.CallbackID,
		}
		return nil
	})
	return in, err
}
