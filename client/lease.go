package client

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/wire"
)

// maxAcks bounds AckAsync calls without an answer.
const maxAcks = 1 << 16

// Delivery is a leased message. It belongs to the receiver; Body, Key and Headers may be kept and share memory with those
// of other messages that came in the same frame.
type Delivery struct {
	ID          string
	Token       string // proves the lease; ack, nack, extend and release name it
	TaskID      string
	Queue       string
	Kind        string
	ContentType string
	Body        []byte
	Headers     []Header
	Priority    int
	Key         []byte
	Attempt     int // 1 for the first
	Redrives    int // how often it came back from the dead letters
	EnqueuedAt  time.Time
	// Deadline is when the lease must be taken as lost unless it is extended: a little early, since the cluster's clock
	// may run up to 5 % faster than this one. It carries the monotonic clock. Consume moves the lease on, not this field.
	Deadline time.Time
	Timeout  time.Duration // how long the attempt may run in all; 0: no limit
	// AtMostOnce says that the message was done when it was delivered: there is no lease and no Deadline, an ack changes nothing, and
	// nack, extend and release answer ErrLeaseLost. It never comes again.
	AtMostOnce bool
}

// leaseEnd is the safe local end of a lease that had left to run at from.
func leaseEnd(from int64, left time.Duration) int64 {
	return from + int64(max(left*94/100-50*time.Millisecond, left/2))
}

// LeaseOptions are those of one pull.
type LeaseOptions struct {
	Max    int           // 1–1000 messages; default 1
	Wait   time.Duration // for the first message, at most 10 minutes; 0: only what is ready now
	Lease  time.Duration // 100 ms–12 h; 0: the queue's
	Worker string        // default Options.Worker
}

// Lease pulls up to Max messages. It returns none and no error when none came within Wait. A lease that was granted
// after the context had ended is released; from a queue that delivers at most once such messages are lost. Extend and the end of a lease tell whether its task was cancelled: ErrCancelled.
func (c *Client) Lease(ctx context.Context, queue string, o LeaseOptions) ([]*Delivery, error) {
	if o.Max == 0 {
		o.Max = 1
	}
	if o.Worker == "" {
		o.Worker = c.o.worker(0)
	}
	body := &wire.Lease{
		Queue: queue, Max: int32of(o.Max), WaitMillis: millis(o.Wait), LeaseMillis: millis(o.Lease), Worker: o.Worker,
	}
	body.Request = wire.Request{Number: 1, Low: 1} // for the check; the real one comes with sending
	if f := body.Validate(); f != nil {
		return nil, errorOf(f)
	}
	var out []*Delivery
	cl := &call{
		typ: wire.TypeLease, body: body, req: &body.Request, count: 1, size: 512, keepLate: true,
		answer: func(raw wire.Raw) error {
			var l wire.Leased
			if err := raw.Decode(&l); err != nil {
				return err
			}
			out = deliveries(nil, queue, l.Messages, c.now(), time.Now())
			return nil
		},
		late: func(raw wire.Raw) {
			var l wire.Leased
			if raw.Decode(&l) != nil {
				return // what it granted ends by itself
			}
			for i := range l.Messages {
				if !l.Messages[i].AtMostOnce {
					c.releaseSoon(l.Messages[i].Token)
				}
			}
		},
	}
	if err := c.do(ctx, cl, o.Wait); err != nil {
		return nil, err
	}
	return out, nil
}

// releaseSoon gives a lease back without waiting for the answer.
func (c *Client) releaseSoon(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.releaseLocked(token, func(error) {})
	}
}

func (c *Client) releaseLocked(token string, notify func(error)) {
	c.queueLocked(&call{
		typ: wire.TypeRelease, body: &wire.Release{Token: token}, size: 128,
		deadline: c.now() + int64(c.o.Timeout), notify: notify,
	})
}

// deliveries copies messages out of a frame: one allocation for the structs, one for all bodies and keys.
func deliveries(out []*Delivery, queue string, ms []wire.Delivered, now int64, wall time.Time) []*Delivery {
	n := 0
	for i := range ms {
		n += len(ms[i].Body) + len(ms[i].Key)
	}
	all := make([]Delivery, len(ms))
	bytes := make([]byte, 0, n)
	keep := func(b wire.Bytes) []byte {
		if b == nil {
			return nil
		}
		from := len(bytes)
		bytes = append(bytes, b...)
		return bytes[from:len(bytes):len(bytes)]
	}
	for i := range ms {
		m, d := &ms[i], &all[i]
		left := leaseEnd(now, time.Duration(m.LeaseLeftMillis)*time.Millisecond) - now
		*d = Delivery{
			ID: m.ID, Token: m.Token, TaskID: m.TaskID, Queue: queue, Kind: m.Kind, ContentType: m.ContentType,
			Body: keep(m.Body), Priority: int(m.Priority), Key: keep(m.Key),
			Attempt: int(m.Attempt), Redrives: int(m.Redrives), EnqueuedAt: time.UnixMilli(m.EnqueuedAt),
			Deadline: wall.Add(time.Duration(left)), Timeout: time.Duration(m.TimeoutMillis) * time.Millisecond,
			AtMostOnce: m.AtMostOnce,
		}
		if d.AtMostOnce {
			d.Deadline = time.Time{}
		}
		if d.TaskID == "" {
			d.TaskID = d.ID
		}
		if len(m.Headers) > 0 {
			d.Headers = headersOf(m.Headers)
		}
		out = append(out, d)
	}
	return out
}

// Then is a message that an ack enqueues in the same log entry.
type Then struct {
	Queue   string
	Message Message
}

// AckOptions are what an ack carries beside its token.
type AckOptions struct {
	Result *Result // Output and ContentType; nil: done without a result
	Then   []Then  // enqueued with the ack or not at all
	// Mapping is for who evaluates the queue's MapTo: the generation of the mapping that Then comes of. Where the queue has another one by now
	// the ack is refused (ErrFailedPrecondition, Field "mapping") and the lease stays. 0: Then comes of none.
	Mapping uint64
}

// Acked answers an ack or a pushed result.
type Acked struct {
	Duplicate bool    // done before; Result is the one that was recorded first, if any
	Result    *Result // with Duplicate only
	Index     uint64
	Time      int64
}

func (o *AckOptions) fill(a *wire.Ack, token string) (size int, err error) {
	a.Token, a.Result, a.Then, a.Mapping = token, o.Result.wire(), nil, o.Mapping
	size = 128
	if o.Result != nil {
		size += len(o.Result.Output) + len(o.Result.ContentType) + 16
	}
	if len(o.Then) > 0 {
		a.Then = make([]wire.Then, len(o.Then))
		for i := range o.Then {
			a.Then[i].Queue = o.Then[i].Queue
			if err := o.Then[i].Message.wire(&a.Then[i].Message); err != nil {
				return 0, err
			}
			size += len(o.Then[i].Queue) + messageSize(&a.Then[i].Message)
		}
	}
	return size, nil
}

func (c *Client) prepareAck(cl *call, token string, o AckOptions) error {
	cl.typ = wire.TypeAck
	size, err := o.fill(&cl.ack, token)
	if err != nil {
		return err
	}
	cl.size = size
	if f := cl.ack.Validate(c.maxMessage.Load()); f != nil {
		return errorOf(f)
	}
	return nil
}

// Ack ends a lease with success, recording a result if one is given. Repeating it is safe.
func (c *Client) Ack(ctx context.Context, token string, o AckOptions) (Acked, error) {
	cl := new(call)
	o.Then = c.carryThen(ctx, o.Then)
	if err := c.prepareAck(cl, token, o); err != nil {
		return Acked{}, err
	}
	var out Acked
	cl.ackDone = func(a Acked, err error) {
		out, cl.err = a, err
		close(cl.done)
	}
	err := c.do(ctx, cl, 0)
	return out, err
}

var ackCalls = sync.Pool{New: func() any { return new(call) }}

// AckAsync is Ack without waiting: done gets the outcome, exactly once, unless an error is returned. It never blocks; with
// 65,536 acks without an answer it refuses with an overloaded error. done runs on a goroutine of the client,
// mostly the one that reads the connection, and must be short. The result's output must not be changed before done has run. The context's deadline (or
// Options.Timeout) bounds it.
func (c *Client) AckAsync(ctx context.Context, token string, o AckOptions, done func(Acked, error)) error {
	if err := ctx.Err(); err != nil {
		return ended(context.Cause(ctx), false, true, nil, nil)
	}
	if done == nil {
		done = func(Acked, error) {}
	}
	cl := ackCalls.Get().(*call)
	o.Then = c.carryThen(ctx, o.Then)
	if err := c.prepareAck(cl, token, o); err != nil {
		return err
	}
	cl.ackDone = done
	cl.deadline = c.now()
	if t, ok := ctx.Deadline(); ok {
		cl.deadline += max(int64(time.Until(t)), 1)
	} else {
		cl.deadline += int64(c.o.Timeout)
	}
	return c.submit(cl)
}

// acked handles the answer to an ack; runs on the reader's goroutine.
func (c *Client) acked(cn *conn, cl *call, raw wire.Raw) error {
	a := &cn.ackedFrame
	if err := raw.Decode(a); err != nil {
		c.fail(cl, err)
		return err
	}
	out := Acked{Duplicate: a.Duplicate, Index: a.At.Index, Time: a.At.Time}
	if a.Result != nil {
		out.Result = resultOf(a.Result)
	}
	c.mu.Lock()
	cl.state = callDone
	c.acks--
	c.ackSettledLocked(cl, nil)
	c.idleLocked()
	c.mu.Unlock()
	cl.ackDone(out, nil)
	if cl.done == nil { // only now: until ackDone has run, a lease may point to the call
		*cl = call{}
		ackCalls.Put(cl)
	}
	return nil
}

// NackOptions say how a failure is to be taken.
type NackOptions struct {
	Error     string         // kept with the message; its first 4 KiB
	Delay     *time.Duration // until the next attempt; nil: by the retry policy
	Permanent bool           // dead at once
	Mapping   uint64         // as in AckOptions, where it cannot be evaluated: dead at once, reason mapping
}

// Nacked answers a nack.
type Nacked struct {
	Dead  bool
	DueAt time.Time // of the next attempt, unless Dead
}

// Nack ends a lease with failure. Repeating it is safe.
func (c *Client) Nack(ctx context.Context, token string, o NackOptions) (Nacked, error) {
	cl, out, err := c.nackCall(token, o)
	if err != nil {
		return Nacked{}, err
	}
	err = c.do(ctx, cl, 0)
	if err != nil {
		return Nacked{}, err
	}
	return *out, nil
}

func (c *Client) nackCall(token string, o NackOptions) (*call, *Nacked, error) {
	body := &wire.Nack{Token: token, Error: wire.CutText(o.Error, wire.MaxErrorBytes), Permanent: o.Permanent, Mapping: o.Mapping}
	if o.Delay != nil {
		ms := millis(*o.Delay)
		body.DelayMillis = &ms
	}
	if f := body.Validate(); f != nil {
		return nil, nil, errorOf(f)
	}
	out := new(Nacked)
	return &call{
		typ: wire.TypeNack, body: body, size: 128 + len(body.Error), settles: token,
		answer: func(raw wire.Raw) error {
			var n wire.Nacked
			if err := raw.Decode(&n); err != nil {
				return err
			}
			*out = Nacked{Dead: n.Dead, DueAt: timeOf(n.DueAt)}
			return nil
		},
	}, out, nil
}

// Extended answers an extension.
type Extended struct {
	Left time.Duration // of the lease, when the server answered
}

// Extend makes a lease end d from now (0: the queue's lease length), never beyond the message's timeout.
func (c *Client) Extend(ctx context.Context, token string, d time.Duration) (Extended, error) {
	body := &wire.Extend{Token: token, LeaseMillis: millis(d)}
	if f := body.Validate(); f != nil {
		return Extended{}, errorOf(f)
	}
	var out Extended
	err := c.do(ctx, &call{
		typ: wire.TypeExtend, body: body, size: 128,
		answer: func(raw wire.Raw) error {
			var e wire.Extended
			if err := raw.Decode(&e); err != nil {
				return err
			}
			out = Extended{Left: time.Duration(e.LeaseLeftMillis) * time.Millisecond}
			return nil
		},
	}, 0)
	if err != nil {
		return Extended{}, err
	}
	return out, nil
}

// Release gives a message back to its old place; the attempt does not count. Repeating it is safe.
func (c *Client) Release(ctx context.Context, token string) error {
	body := &wire.Release{Token: token}
	if f := body.Validate(); f != nil {
		return errorOf(f)
	}
	return c.do(ctx, &call{typ: wire.TypeRelease, body: body, size: 128, settles: token}, 0)
}
