package client

import (
	"context"
	"errors"
	"time"

	"github.com/quorate/quorate/wire"
)

// Recorded is a result with its position in the order of recording.
type Recorded struct {
	Position uint64 // rises; go on behind it with ResultsOptions.After
	Result   Result
	EndsAt   time.Time // kept until then
}

// ResultsOptions choose results of a queue.
type ResultsOptions struct {
	Kind  string // empty: any
	After uint64 // those behind this position; 0, and a position older than what is kept, are the beginning
	New   bool   // only what is recorded from now on; then without After
	Limit int    // of one page, 1–1000; 0: 100
}

// ListResults lists a queue's results in the order of recording, a page at a time. next is the position to go on from; more
// says that there may be further ones already.
func (c *Client) ListResults(ctx context.Context, queue string, o ResultsOptions) (rs []Recorded, next uint64, more bool, err error) {
	return c.listResults(ctx, queue, o, 0)
}

func (c *Client) listResults(ctx context.Context, queue string, o ResultsOptions, wait time.Duration) (rs []Recorded, next uint64, more bool, err error) {
	b := &wire.ResultList{
		Queue: queue, Kind: o.Kind, After: o.After, Last: o.New, Limit: int32of(o.Limit), WaitMillis: millis(wait),
	}
	if f := b.Validate(); f != nil {
		return nil, 0, false, errorOf(f)
	}
	err = c.do(ctx, &call{
		typ: wire.TypeResultList, body: b, size: 512, noWait: true,
		answer: func(raw wire.Raw) error {
			var v wire.Results
			if err := raw.Decode(&v); err != nil {
				return err
			}
			rs, next, more = make([]Recorded, len(v.Results)), v.Next, v.More
			for i := range v.Results {
				r := &v.Results[i]
				rs[i] = Recorded{Position: r.Position, Result: *resultOf(&r.Result), EndsAt: timeOf(r.EndsAt)}
			}
			return nil
		},
	}, wait)
	return rs, next, more, err
}

// StreamResults calls f for a queue's results in the order of recording, those that are there and those that come, until ctx
// ends, f returns an error, or the queue is refused. It goes on through reconnects and leader changes, misses none and
// repeats none; what ends by its retention while nobody reads it is gone. It returns f's error, or the context's. To go on
// later keep the last Position that f was given.
func (c *Client) StreamResults(ctx context.Context, queue string, o ResultsOptions, f func(Recorded) error) error {
	for try := 0; ; {
		rs, next, more, err := c.streamPage(ctx, queue, o)
		switch {
		case err == nil:
			try = 0
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, ErrUnavailable) || errors.Is(err, ErrTimeout) || Unknown(err):
			try++
			select { // whoever answers at once must not be asked in a loop
			case <-time.After(c.jit.wait(try, retryBase, retryMax, 0)):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		default:
			return err
		}
		for _, r := range rs {
			if err := f(r); err != nil {
				return err
			}
		}
		o.After, o.New = next, false
		if !more && ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// streamPage waits for the next page; New first finds its position, which no wait may hide from a reconnect.
func (c *Client) streamPage(ctx context.Context, queue string, o ResultsOptions) ([]Recorded, uint64, bool, error) {
	if o.New {
		return c.listResults(ctx, queue, o, 0)
	}
	ctx, cancel := context.WithTimeout(ctx, resultWait+c.o.Timeout)
	defer cancel()
	return c.listResults(ctx, queue, o, resultWait)
}
