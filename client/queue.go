package client

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/quorate/quorate/wire"
)

// QueueOptions are a queue's settings; zero values mean the broker's defaults.
type QueueOptions struct {
	Lease           time.Duration // default 30 s
	Retry           *RetryPolicy
	MaxDead         int64         // dead letters kept; default 1,000,000
	DeadOverflow    string        // "refuse" (default) or "drop_oldest"
	DeadRetention   time.Duration // default 30 days
	DedupWindow     time.Duration // default 24 h
	DedupMaxKeys    int64         // default 1,000,000
	ResultTTL       time.Duration // default 24 h
	MaxResultsBytes int64         // default 256 MiB
	DeadLetterQueue string        // another queue, to which what dies here is moved; "": it stays here

	// Ordering is "unordered" (default), "fifo" (one message at a time is out, the next one when that is done or dead) or
	// "per_key" (the same for each message key). It changes only while the queue holds no live message.
	Ordering string

	// Limits, 0 for none. MaxDepth and MaxBytes are over all live messages, delayed, retrying and leased ones included:
	// beyond, enqueues get ErrQueueFull. MaxInFlight is of messages leased at once, over all consumers. MaxAge is the TTL of
	// messages that come without one.
	MaxDepth, MaxBytes, MaxInFlight int64
	MaxAge                          time.Duration
	// Overflow is what an enqueue does beyond MaxDepth and MaxBytes: "reject" (default) refuses it; "drop_oldest" has messages that
	// wait die with the reason overflow, at most 16 for one, of the lowest priority the oldest first, never one that is leased.
	Overflow string
	// Delivery is "at_least_once" (default) or "at_most_once": a message is done when it is delivered, and lost if its worker does not
	// get it or dies with it. It changes only while the queue holds no live message.
	Delivery string
	Paused   bool // nothing is leased; enqueues, acks and nacks go on

	// Rate is how many deliveries there may be a second: 0.001 to 1,000,000 in steps of 0.001, 0 for no limit. Burst is how many of
	// them at once: 1 to 1,000,000, 0 for one second's worth and at least 1. What is delivered again counts again.
	Rate  float64
	Burst int64

	// Of the messages that have a key, MaxInFlightPerKey is how many of one key are leased at once (1 to 10,000,000, 0 for no limit;
	// not in an ordered queue), and RatePerKey and BurstPerKey are each key's Rate and Burst (not in a fifo queue).
	MaxInFlightPerKey int64
	RatePerKey        float64
	BurstPerKey       int64
	// FairBy "key" has the keys take turns within a priority, the messages without one being one key; "none" is the default.
	// FairWeights is how many messages the turn of a key is, 1 to 100, for at most 1,000 keys; 1 for the others.
	FairBy      string
	FairWeights map[string]int

	// PushURL has the node that leads send the messages there by POST ("": it does not): http or https, at most 2,048 bytes. PushConcurrency
	// is how many at once (1 to 256, 0 for 8), PushTimeout how long one may take (100 ms to 10 min, 0 for 10 s). PushSecrets are names of at
	// most 4 secrets, of which the nodes' configurations know the values; each signs, so that one can be replaced. PushPermanent are the
	// statuses after which a message is dead at once: 400 to 499 but 429, at most 32, none for 400, 404, 410, 413 and 422. PushHeaders are
	// headers of a message that go along, at most 16.
	PushURL         string
	PushConcurrency int64
	PushTimeout     time.Duration
	PushSecrets     []string
	PushPermanent   []int64
	PushHeaders     []string

	// Schema is a JSON Schema that the bodies of messages have to fit, at most 64 KiB ("": anything is taken). Map is an expression that makes
	// the body of a push of a message, at most 4 KiB ("": it is sent as it is). MapTo has the node that leads make messages for another queue
	// of each message, and ack it (zero: it does not): not in a queue that is pushed or delivers at most once, nor so that what is mapped
	// comes back.
	Schema string
	Map    string
	MapTo  MapTo
}

// MapTo says where messages are mapped to, and by what expression, of at most 4 KiB. Zero: nowhere.
type MapTo struct{ Queue, Expression string }

func (m MapTo) wire() *wire.MapTo {
	if m == (MapTo{}) {
		return nil
	}
	return &wire.MapTo{Queue: m.Queue, Expression: m.Expression}
}

func mapToOf(w *wire.MapTo) MapTo {
	if w == nil {
		return MapTo{}
	}
	return MapTo{Queue: w.Queue, Expression: w.Expression}
}

func (o *QueueOptions) wire() wire.QueueOptions {
	return wire.QueueOptions{
		LeaseMillis: millis(o.Lease), Retry: o.Retry.wire(), MaxDead: o.MaxDead, DeadOverflow: o.DeadOverflow,
		DeadRetentionMillis: millis(o.DeadRetention), DedupWindowMillis: millis(o.DedupWindow), DedupMaxKeys: o.DedupMaxKeys,
		ResultTTLMillis: millis(o.ResultTTL), MaxResultsBytes: o.MaxResultsBytes,
		Ordering: o.Ordering, MaxDepth: o.MaxDepth, MaxBytes: o.MaxBytes, MaxInFlight: o.MaxInFlight, MaxAgeMillis: millis(o.MaxAge),
		Paused: o.Paused, DeadLetterQueue: o.DeadLetterQueue, RateMilli: rateMilli(o.Rate), Burst: o.Burst,
		Overflow: o.Overflow, Delivery: o.Delivery,
		MaxInFlightPerKey: o.MaxInFlightPerKey, RatePerKeyMilli: rateMilli(o.RatePerKey), BurstPerKey: o.BurstPerKey,
		FairBy: o.FairBy, FairWeights: wireWeights(o.FairWeights),
		PushURL: o.PushURL, PushConcurrency: o.PushConcurrency, PushTimeoutMillis: millis(o.PushTimeout), PushSecrets: o.PushSecrets,
		PushPermanent: o.PushPermanent, PushHeaders: o.PushHeaders,
		Schema: o.Schema, Map: o.Map, MapTo: o.MapTo.wire(),
	}
}

// wireWeights are in the order of their keys.
func wireWeights(m map[string]int) (ws []wire.FairWeight) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		ws = append(ws, wire.FairWeight{Key: wire.Bytes(k), Weight: int64(m[k])})
	}
	return ws
}

func weightsOf(ws []wire.FairWeight) map[string]int {
	if len(ws) == 0 {
		return nil
	}
	m := make(map[string]int, len(ws))
	for _, w := range ws {
		m[string(w.Key)] = int(w.Weight)
	}
	return m
}

// rateMilli is a rate in thousandths. What is no rate becomes one that is refused, and never none.
func rateMilli(rate float64) int64 {
	milli := math.Round(rate * 1000)
	switch {
	case rate == 0:
		return 0
	case rate > 0 && milli >= 1 && milli <= 1e15:
		return int64(milli)
	}
	return -1
}

// checkRate says what is wrong with a rate in the caller's own number.
func checkRate(field string, rate float64) error {
	if rateMilli(rate) < 0 {
		return errorOf(wire.Invalid(field, "%v deliveries a second; 0.001 to 1000000 are allowed, or 0 for no limit", rate))
	}
	return nil
}

// QueueInfo is a queue's options and counters.
type QueueInfo struct {
	Name          string
	Options       QueueOptions
	Pending       int64 // ready, those included that wait behind another of their key or queue
	Blocked       int64 // of Pending, those that wait so
	Parked        int64 // of Pending, those whose key is at MaxInFlightPerKey or held by RatePerKey
	KeyDebts      int64 // keys that RatePerKey counts deliveries of; at 1,000,000 messages with a key are refused
	Processing    int64 // leased
	Scheduled     int64
	Retrying      int64
	Dead          int64
	Bytes         int64
	Results       int64
	ResultBytes   int64
	DedupKeys     int64
	Tombstones    int64
	Moved         int64 // of the live messages: dead letters of other queues that were moved here
	OldestAge     time.Duration
	AvgProcessing time.Duration
	Totals        map[string]int64 // since the queue was made: enqueued, acked, nacked, …
	Push          string           // of a queue with PushURL: how its push stands, and why it rests if it does
	Mapping       string           // of a queue with MapTo: how its mapping stands, and why it waits if it does

	PerMinute int64    // messages accepted in the last minute, as far as the leader has run so long
	Status    string   // "moving", "held", "waiting", "working" or "empty"
	Why       []Holdup // of "held" and "waiting": what keeps the messages back, all of it
	Consumers int64    // subscriptions
	Idle      int64    // who would be given a message now: subscriptions with room, and lease requests that wait
}

// Holdup is a reason why messages of a queue are not handed out at present. Where there are several, all of them have to end; of those that
// are about who takes messages (push_resting, no_consumers, consumers_busy) one is enough.
type Holdup struct {
	Reason string    // "paused", "in_flight_limit", "rate_limited", "keys_blocked", "keys_limited", "push_resting", "no_consumers" or "consumers_busy"; of what waits: "scheduled", "retrying"
	Text   string    // the same in words, with the numbers
	Until  time.Time // when time alone ends it, or changes something about it; zero: it does not
}

func holdupsOf(ws []wire.Holdup) (hs []Holdup) {
	for _, w := range ws {
		hs = append(hs, Holdup{Reason: w.Reason, Text: w.Text, Until: timeOf(w.Until)})
	}
	return hs
}

func queueOf(w *wire.QueueInfo) QueueInfo {
	o := &w.Options
	return QueueInfo{
		Name: w.Name,
		Options: QueueOptions{
			Lease: time.Duration(o.LeaseMillis) * time.Millisecond, Retry: retryOf(o.Retry), MaxDead: o.MaxDead,
			DeadOverflow: o.DeadOverflow, DeadRetention: time.Duration(o.DeadRetentionMillis) * time.Millisecond,
			DedupWindow: time.Duration(o.DedupWindowMillis) * time.Millisecond, DedupMaxKeys: o.DedupMaxKeys,
			ResultTTL: time.Duration(o.ResultTTLMillis) * time.Millisecond, MaxResultsBytes: o.MaxResultsBytes,
			Ordering: o.Ordering, MaxDepth: o.MaxDepth, MaxBytes: o.MaxBytes, MaxInFlight: o.MaxInFlight,
			MaxAge: time.Duration(o.MaxAgeMillis) * time.Millisecond, Paused: o.Paused, DeadLetterQueue: o.DeadLetterQueue,
			Rate: float64(o.RateMilli) / 1000, Burst: o.Burst, MaxInFlightPerKey: o.MaxInFlightPerKey,
			RatePerKey: float64(o.RatePerKeyMilli) / 1000, BurstPerKey: o.BurstPerKey, FairBy: o.FairBy, FairWeights: weightsOf(o.FairWeights),
			Overflow: o.Overflow, Delivery: o.Delivery,
			PushURL: o.PushURL, PushConcurrency: o.PushConcurrency, PushTimeout: time.Duration(o.PushTimeoutMillis) * time.Millisecond,
			PushSecrets: o.PushSecrets, PushPermanent: o.PushPermanent, PushHeaders: o.PushHeaders,
			Schema: o.Schema, Map: o.Map, MapTo: mapToOf(o.MapTo),
		},
		Push:    w.Push,
		Mapping: w.Mapping,
		Pending: w.Pending, Blocked: w.Blocked, Parked: w.Parked, KeyDebts: w.KeyDebts, Processing: w.Processing, Scheduled: w.Scheduled, Retrying: w.Retrying, Dead: w.Dead,
		Bytes: w.Bytes, Results: w.Results, ResultBytes: w.ResultBytes, DedupKeys: w.DedupKeys, Tombstones: w.Tombstones, Moved: w.Moved,
		OldestAge:     time.Duration(w.OldestAgeMillis) * time.Millisecond,
		AvgProcessing: time.Duration(w.AvgProcessingMillis) * time.Millisecond, Totals: w.Totals,
		PerMinute: w.PerMinute, Status: w.Status, Why: holdupsOf(w.Why), Consumers: w.Consumers, Idle: w.Idle,
	}
}

// sendRequest asks with a request number: body's Request is req, taking count numbers.
func sendRequest[T any](ctx context.Context, c *Client, t wire.Type, body any, req *wire.Request, count, size int, take func(*T) error) error {
	return c.do(ctx, &call{
		typ: t, body: body, req: req, count: uint64(count), size: 256 + size,
		answer: func(raw wire.Raw) error {
			var v T
			if err := raw.Decode(&v); err != nil {
				return err
			}
			if take == nil {
				return nil
			}
			return take(&v)
		},
	}, 0)
}

// ask sends what carries no number.
func ask[T any](ctx context.Context, c *Client, t wire.Type, body any, take func(*T) error) error {
	return sendRequest(ctx, c, t, body, nil, 0, 1024, take)
}

// firstRequest stands for the request id in checks made before there is one.
var firstRequest = wire.Request{Number: 1, Low: 1}

func (c *Client) writeQueue(ctx context.Context, t wire.Type, name string, o QueueOptions) error {
	if err := checkRate("rate", o.Rate); err != nil {
		return err
	}
	if err := checkRate("rate_per_key", o.RatePerKey); err != nil {
		return err
	}
	b := &wire.QueueWrite{Queue: name, Options: o.wire(), Request: firstRequest}
	if f := b.Validate(); f != nil {
		return errorOf(f)
	}
	return sendRequest[wire.OK](ctx, c, t, b, &b.Request, 1, 2048, nil)
}

// CreateQueue makes a queue. One that exists with the same options is success, with others ErrAlreadyExists.
func (c *Client) CreateQueue(ctx context.Context, name string, o QueueOptions) error {
	return c.writeQueue(ctx, wire.TypeQueueCreate, name, o)
}

// ChangeQueue sets the named options of a queue to what o says, and leaves the others as they are at that moment: changes of different
// options, by whomever, never undo each other. The names are those of the configuration and of the protocol: "max_depth", "paused",
// "lease_ms" …; what is named and unset in o becomes the default. They apply at once.
func (c *Client) ChangeQueue(ctx context.Context, name string, o QueueOptions, only ...string) error {
	if len(only) == 0 {
		return invalid("only", "names no option: at least one is needed")
	}
	if err := checkRate("rate", o.Rate); err != nil {
		return err
	}
	b := &wire.QueueWrite{Queue: name, Options: o.wire(), Only: only, Request: firstRequest}
	if f := b.Validate(); f != nil {
		return errorOf(f)
	}
	return sendRequest[wire.OK](ctx, c, wire.TypeQueueSet, b, &b.Request, 1, 2048, nil)
}

// SetQueue replaces all of a queue's options; they apply at once. To change some of them, use ChangeQueue.
func (c *Client) SetQueue(ctx context.Context, name string, o QueueOptions) error {
	return c.writeQueue(ctx, wire.TypeQueueSet, name, o)
}

// DeleteQueue removes a queue and all that belongs to it.
func (c *Client) DeleteQueue(ctx context.Context, name string) error {
	b := &wire.QueueRef{Queue: name, Request: firstRequest}
	if f := b.Validate(); f != nil {
		return errorOf(f)
	}
	return sendRequest[wire.OK](ctx, c, wire.TypeQueueDelete, b, &b.Request, 1, 0, nil)
}

// PurgeQueue removes all messages of a queue that are not out, and tells how many.
func (c *Client) PurgeQueue(ctx context.Context, name string) (int64, error) {
	return c.purge(ctx, wire.TypeQueuePurge, name)
}

func (c *Client) purge(ctx context.Context, t wire.Type, name string) (n int64, err error) {
	b := &wire.QueueRef{Queue: name, Request: firstRequest}
	if f := b.Validate(); f != nil {
		return 0, errorOf(f)
	}
	err = sendRequest(ctx, c, t, b, &b.Request, 1, 0, func(v *wire.Counted) error { n = v.Count; return nil })
	return n, err
}

// Queues lists queues by name, at most limit (1–1000, 0: 100) after the cursor; next is the cursor for more, empty at the
// end.
func (c *Client) Queues(ctx context.Context, after string, limit int) (qs []QueueInfo, next string, err error) {
	b := &wire.QueueList{After: after, Limit: int32of(limit)}
	if f := b.Validate(); f != nil {
		return nil, "", errorOf(f)
	}
	err = ask(ctx, c, wire.TypeQueueList, b, func(v *wire.Queues) error {
		qs, next = make([]QueueInfo, len(v.Queues)), v.Next
		for i := range v.Queues {
			qs[i] = queueOf(&v.Queues[i])
		}
		return nil
	})
	return qs, next, err
}

// Queue reads a queue's options and counters.
func (c *Client) Queue(ctx context.Context, name string) (q QueueInfo, err error) {
	b := &wire.QueueRef{Queue: name}
	if f := wire.CheckQueue("queue", name); f != nil {
		return QueueInfo{}, errorOf(f)
	}
	err = ask(ctx, c, wire.TypeQueueShow, b, func(v *wire.QueueIs) error { q = queueOf(&v.Queue); return nil })
	return q, err
}

// PeekOptions choose what Peek shows.
type PeekOptions struct {
	State string // "pending" (default), "processing", "scheduled" or "retrying"
	Limit int    // 1–1000; 0: 10
	After string // cursor
}

// Peek looks at live messages without leasing them. next is the cursor for more, empty at the end.
func (c *Client) Peek(ctx context.Context, queue string, o PeekOptions) (ts []Task, next string, err error) {
	b := &wire.Peek{Queue: queue, State: o.State, Limit: int32of(o.Limit), After: o.After}
	if f := b.Validate(); f != nil {
		return nil, "", errorOf(f)
	}
	return c.tasks(ctx, wire.TypePeek, b)
}

func (c *Client) tasks(ctx context.Context, t wire.Type, body any) (ts []Task, next string, err error) {
	err = ask(ctx, c, t, body, func(v *wire.Tasks) error {
		ts, next = make([]Task, len(v.Tasks)), v.Next
		for i := range v.Tasks {
			ts[i] = *taskOf(&v.Tasks[i])
		}
		return nil
	})
	return ts, next, err
}
