package client

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/quorate/quorate/wire"
)

// Key names a value of the KV: 1 to 16 strings of at most 256 bytes. Keys are ordered string by string.
type Key []string

// KVEntry is a key and its value, or its last change.
type KVEntry struct {
	Key        Key
	Value      []byte // the body of the message that died; absent in listings without values
	ValueBytes int64
	MessageID  string // of that message
	Position   uint64 // of the change; positions rise
	ChangedAt  time.Time
	EndsAt     time.Time // then the key goes
	Deleted    bool      // in changes: the key is gone
	Expired    bool      // with Deleted: since its time was over
}

// ErrGone says that a watch cannot go on from its position: deletions behind it are not kept any more. List again, and watch
// from the position of the list.
var ErrGone = errors.New("client: changes from this position are not kept any more")

func entryOf(w *wire.KVEntry) KVEntry {
	return KVEntry{
		Key: w.Key, Value: clone(w.Value), ValueBytes: w.ValueBytes, MessageID: w.MessageID, Position: w.Position,
		ChangedAt: timeOf(w.ChangedAt), EndsAt: timeOf(w.EndsAt), Deleted: w.Deleted, Expired: w.Expired,
	}
}

func entriesOf(ws []wire.KVEntry) []KVEntry {
	es := make([]KVEntry, len(ws))
	for i := range ws {
		es[i] = entryOf(&ws[i])
	}
	return es
}

// KVGet reads the body that a message left under a key when it died.
func (c *Client) KVGet(ctx context.Context, key Key) (e KVEntry, err error) {
	b := &wire.KVGet{Key: key}
	if f := b.Validate(); f != nil {
		return KVEntry{}, errorOf(f)
	}
	err = ask(ctx, c, wire.TypeKVGet, b, func(v *wire.KVIs) error { e = entryOf(&v.Entry); return nil })
	return e, err
}

// KVListOptions choose a page of keys.
type KVListOptions struct {
	Limit  int  // 1–1000; 0: 100
	After  Key  // next of the page before
	Values bool // with values; a page then ends at 4 MiB of them
}

// KVPage is a page of keys.
type KVPage struct {
	Entries  []KVEntry
	Next     Key    // for the next page; nil at the end
	Position uint64 // when the page was begun: watch from the first page's to miss nothing
}

// KVList lists the keys that begin with prefix (nil: all), in their order.
func (c *Client) KVList(ctx context.Context, prefix Key, o KVListOptions) (p KVPage, err error) {
	b := &wire.KVList{Prefix: prefix, After: o.After, Limit: int32of(o.Limit), Values: o.Values}
	if f := b.Validate(); f != nil {
		return KVPage{}, errorOf(f)
	}
	err = ask(ctx, c, wire.TypeKVList, b, func(v *wire.KVEntries) error {
		p = KVPage{Entries: entriesOf(v.Entries), Next: v.Next, Position: v.Position}
		return nil
	})
	return p, err
}

// KVDelete removes a key; ErrNotFound if there is none.
func (c *Client) KVDelete(ctx context.Context, key Key) error {
	b := &wire.KVDelete{Key: key, Request: firstRequest}
	if f := b.Validate(); f != nil {
		return errorOf(f)
	}
	return sendRequest[wire.OK](ctx, c, wire.TypeKVDelete, b, &b.Request, 1, 16<<10, nil)
}

// KVWatchNow as a position watches what changes from now on.
const KVWatchNow = ^uint64(0)

// watchWait is how long one request of KVWatch waits at the server before it is asked again.
const watchWait = 30 * time.Second

// KVChanges reads what has changed under prefix behind a position, and waits up to wait (at most 10 minutes) for it. next is
// the position to go on from. A key that was changed more than once shows its last change alone. ErrGone: list again.
func (c *Client) KVChanges(ctx context.Context, prefix Key, from uint64, wait time.Duration) (es []KVEntry, next uint64, err error) {
	b := &wire.KVWatch{Prefix: prefix, From: from, WaitMillis: millis(wait)}
	if from == KVWatchNow {
		b.From, b.Now = 0, true
	}
	if f := b.Validate(); f != nil {
		return nil, from, errorOf(f)
	}
	next = from
	err = c.do(ctx, &call{
		typ: wire.TypeKVWatch, body: b, size: 16 << 10, noWait: true,
		answer: func(raw wire.Raw) error {
			var v wire.KVChanges
			if err := raw.Decode(&v); err != nil {
				return err
			}
			es, next = entriesOf(v.Entries), v.Position
			return nil
		},
	}, wait)
	var e *Error
	if errors.As(err, &e) && e.Code == wire.CodeFailedPrecondition && e.Field == "from" {
		err = errors.Join(ErrGone, err)
	}
	return es, next, err
}

// KVWatch yields the changes under prefix (nil: all) behind a position, in their order, through reconnects and leader
// changes, until ctx ends or an error comes, which is the last thing it yields. To go on later, begin at the Position of the
// last entry that was seen. The position comes from KVList, or is 0 for all that is there, or KVWatchNow.
func (c *Client) KVWatch(ctx context.Context, prefix Key, from uint64) iter.Seq2[KVEntry, error] {
	return func(yield func(KVEntry, error) bool) {
		if from == KVWatchNow { // once: a wait that fails must not skip what came meanwhile
			_, next, err := c.KVChanges(ctx, prefix, from, 0)
			if err != nil {
				yield(KVEntry{}, err)
				return
			}
			from = next
		}
		for try := 1; ctx.Err() == nil; {
			start := time.Now()
			es, next, err := c.KVChanges(ctx, prefix, from, watchWait)
			switch {
			case err == nil:
				from, try = next, 1
			case ctx.Err() != nil || !errors.Is(err, ErrTimeout) && !errors.Is(err, ErrUnavailable):
				yield(KVEntry{}, err)
				return
			case time.Since(start) < time.Second: // what fails at once must not be asked in a loop
				select {
				case <-time.After(c.jit.wait(try, retryBase, retryMax, 0)):
				case <-ctx.Done():
				}
				try++
			}
			for _, e := range es {
				if !yield(e, nil) {
					return
				}
			}
		}
		yield(KVEntry{}, &Error{Code: wire.CodeTimeout, Message: "the watch was ended", cause: context.Cause(ctx)})
	}
}
