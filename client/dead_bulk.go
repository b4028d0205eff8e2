package client

import (
	"context"
	"errors"
	"time"

	"github.com/quorate/quorate/wire"
)

// BulkOptions say which dead letters a bulk operation takes, and how fast.
type BulkOptions struct {
	Filter DeadOptions // Limit, After and Brief have no effect
	Rate   int         // letters a second, 1 to 1,000,000; 0: as fast as it goes
	Max    int64       // at most so many; 0: all
	DryRun bool        // only look
	// Each, where set, is called for every letter: with a receipt, with the error that kept it where it was, or in a dry run with
	// neither. An error that it returns ends the operation.
	Each func(t *Task, r Receipt, err error) error
}

// BulkResult counts what a bulk operation did.
type BulkResult struct {
	Matched int64 // letters that passed the filter
	Done    int64 // requeued or deleted
	Gone    int64 // requeued or deleted by somebody else in the meantime
	Failed  int64 // all others
	First   error // the first failure
}

const maxBulkRate = 1_000_000

// RequeueWhere requeues all dead letters that pass a filter and had died when it began: one that dies again is not taken
// twice. It walks the filter and proposes 1,000 ids at a time, fewer at a low rate; between two of these others go on. A
// leader change is waited out. Where a whole batch is refused since the queue is full, it stops with ErrQueueFull. The
// result counts what was done, also with an error.
func (c *Client) RequeueWhere(ctx context.Context, queue string, o BulkOptions) (BulkResult, error) {
	return c.bulk(ctx, queue, &o, func(ids []string) ([]Receipt, []error) { return c.Requeue(ctx, queue, ids...) })
}

// DeleteDeadWhere deletes all dead letters that pass a filter and had died when it began, as RequeueWhere requeues them.
func (c *Client) DeleteDeadWhere(ctx context.Context, queue string, o BulkOptions) (BulkResult, error) {
	return c.bulk(ctx, queue, &o, func(ids []string) ([]Receipt, []error) {
		return make([]Receipt, len(ids)), c.DeleteDead(ctx, queue, ids...)
	})
}

func (c *Client) bulk(ctx context.Context, queue string, o *BulkOptions, run func(ids []string) ([]Receipt, []error)) (r BulkResult, err error) {
	if o.Rate < 0 || o.Rate > maxBulkRate {
		return r, invalid("rate", "%d letters a second; 1 to %d are allowed, or 0 for no limit", o.Rate, maxBulkRate)
	}
	if o.Max < 0 {
		return r, invalid("max", "%d letters; 1 or more are allowed, or 0 for all", o.Max)
	}
	batch := wire.MaxBatch
	if o.Rate > 0 { // about ten batches a second
		batch = min(batch, max(1, o.Rate/10))
	}
	pace := pacer{rate: o.Rate, start: time.Now()}
	defer pace.stop()
	filter := o.Filter
	filter.Limit, filter.After, filter.Brief = wire.MaxBatch, "", true
	ids := make([]string, 0, batch)
	_, err = c.eachPage(ctx, queue, filter, func(ts []Task) (bool, error) {
		for len(ts) > 0 {
			if o.Max > 0 && r.Matched == o.Max {
				return false, nil
			}
			n := min(len(ts), batch)
			if o.Max > 0 {
				n = int(min(int64(n), o.Max-r.Matched))
			}
			part := ts[:n]
			ts = ts[n:]
			r.Matched += int64(n)
			if o.DryRun {
				for i := range part {
					if o.Each != nil {
						if err := o.Each(&part[i], Receipt{}, nil); err != nil {
							return false, err
						}
					}
				}
				continue
			}
			if err := pace.wait(ctx, n); err != nil {
				return false, err
			}
			ids = ids[:0]
			for i := range part {
				ids = append(ids, part[i].ID)
			}
			recs, errs := run(ids)
			if err := r.count(o, part, recs, errs); err != nil {
				return false, err
			}
		}
		return true, nil
	})
	return r, err
}

// count takes in the outcomes of a batch. An error ends the walk.
func (r *BulkResult) count(o *BulkOptions, ts []Task, recs []Receipt, errs []error) error {
	full := 0
	for i := range ts {
		switch err := errs[i]; {
		case err == nil:
			r.Done++
		case errors.Is(err, ErrNotFound) && !isOriginGone(&ts[i], err):
			r.Gone++
		default:
			r.Failed++
			if r.First == nil {
				r.First = err
			}
			if errors.Is(err, ErrQueueFull) {
				full++
			}
		}
		if o.Each != nil {
			if err := o.Each(&ts[i], recs[i], errs[i]); err != nil {
				return err
			}
		}
	}
	var e *Error
	switch {
	case full == len(ts):
		return errs[0]
	case errors.As(errs[0], &e) && e.Unknown || errors.Is(errs[0], ErrUnavailable) || errors.Is(errs[0], ErrClosed) || errors.Is(errs[0], context.Canceled):
		return errs[0] // nobody to talk to: the rest would go the same way
	}
	return nil
}

// isOriginGone tells a dead letter that has nowhere to go back to from one that is gone itself.
func isOriginGone(t *Task, err error) bool {
	var e *Error
	return t.Origin != "" && errors.As(err, &e) && e.Field == "origin"
}

// EachDead calls f for every dead letter that passes the filter and had died when it began, a page at a time, whatever goes or
// comes in the meantime. Limit is the page's. An error of f ends it.
func (c *Client) EachDead(ctx context.Context, queue string, o DeadOptions, f func(*Task) error) error {
	if o.Limit == 0 {
		o.Limit = wire.MaxBatch
	}
	_, err := c.eachPage(ctx, queue, o, func(ts []Task) (bool, error) {
		for i := range ts {
			if err := f(&ts[i]); err != nil {
				return false, err
			}
		}
		return true, nil
	})
	return err
}

// deadPage is a page of a listing.
type deadPage struct {
	ts   []Task
	next string // cursor of the page after it; "": there is none
	at   int64  // T
	err  error
}

func (c *Client) deadPage(ctx context.Context, b *wire.DeadList) (p deadPage) {
	if f := b.Validate(); f != nil {
		return deadPage{err: errorOf(f)}
	}
	p.err = ask(ctx, c, wire.TypeDeadList, b, func(v *wire.Tasks) error {
		p.ts, p.next, p.at = make([]Task, len(v.Tasks)), v.Next, v.At.Time
		for i := range v.Tasks {
			p.ts[i] = *taskOf(&v.Tasks[i])
		}
		return nil
	})
	return p
}

// eachPage walks a listing up to the log time at which it began. While f has a page the next one is on its way: cursors are
// places, which nothing that f does can move.
func (c *Client) eachPage(ctx context.Context, queue string, o DeadOptions, f func([]Task) (bool, error)) (pages int, err error) {
	b := o.wire(queue)
	p := c.deadPage(ctx, b)
	if p.err != nil {
		return 0, p.err
	}
	if b.Until == 0 {
		b.Until = max(p.at, b.Since, 1)
		for len(p.ts) > 0 && p.ts[len(p.ts)-1].EndedAt.UnixMilli() > b.Until {
			p.ts, p.next = p.ts[:len(p.ts)-1], ""
		}
	}
	ahead := make(chan deadPage, 1)
	fetching, stop := context.WithCancel(ctx)
	waiting := false
	defer func() {
		stop()
		if waiting {
			<-ahead
		}
	}()
	for {
		pages++
		if waiting = p.next != ""; waiting {
			b.After = p.next
			go func() { ahead <- c.deadPage(fetching, b) }()
		}
		if on, err := f(p.ts); err != nil || !on || !waiting {
			return pages, err
		}
		p = <-ahead
		waiting = false
		if p.err != nil {
			return pages, p.err
		}
	}
}

// pacer spreads work over time at a rate.
type pacer struct {
	rate  int
	start time.Time
	sent  int64
	timer *time.Timer
}

// wait waits until n more may go.
func (p *pacer) wait(ctx context.Context, n int) error {
	if p.rate == 0 {
		return ctx.Err()
	}
	due := p.start.Add(time.Duration(p.sent * int64(time.Second) / int64(p.rate)))
	p.sent += int64(n)
	d := time.Until(due)
	if d < -time.Second { // what was held up is not made up for in a burst
		p.start, p.sent, d = time.Now(), int64(n), 0
	}
	if d <= 0 {
		return ctx.Err()
	}
	if p.timer == nil {
		p.timer = time.NewTimer(d)
	} else {
		p.timer.Reset(d)
	}
	select {
	case <-p.timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pacer) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

// Fields of a dead letter that can be set anew when it is requeued.
const (
	EditBody        = wire.EditBody
	EditHeaders     = wire.EditHeaders
	EditPriority    = wire.EditPriority
	EditContentType = wire.EditContentType
	EditKind        = wire.EditKind
	EditKey         = wire.EditKey
	EditTTL         = wire.EditTTL
	EditTimeout     = wire.EditTimeout
	EditRetry       = wire.EditRetry
	EditDelay       = wire.EditDelay // Delay or EnqueueAt
)

// RequeueEdited requeues one dead letter with the named fields taken from m: what is named and zero in m is taken away, what is
// not named stays. It is all or nothing.
func (c *Client) RequeueEdited(ctx context.Context, queue, id string, m Message, fields ...string) (r Receipt, err error) {
	b := &wire.DeadEdit{Queue: queue, ID: id, Fields: fields, Request: firstRequest}
	if err := m.wire(&b.Set); err != nil {
		return r, err
	}
	if f := b.Validate(c.maxMessage.Load()); f != nil {
		return r, errorOf(f)
	}
	var refused error // an answer like any other: an error of its reading would be one of the connection's
	err = sendRequest(ctx, c, wire.TypeDeadEdit, b, &b.Request, 1, messageSize(&b.Set), func(v *wire.Enqueued) error {
		if len(v.Outcomes) != 1 {
			return protocolError("%d outcomes answer one id", len(v.Outcomes))
		}
		r, refused = receiptOf(&v.Outcomes[0], v.At)
		return nil
	})
	if err == nil {
		err = refused
	}
	return r, err
}
