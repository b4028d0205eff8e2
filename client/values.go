package client

import (
	"time"

	"github.com/quorate/quorate/wire"
)

// Priority makes the value for Message.Priority: 0–9, 9 going first.
func Priority(p int) *int { return &p }

// Header is one name and value of a message.
type Header struct{ Name, Value string }

// Message is what a producer sends. Body, Key, DedupKey and Headers must not be changed until the call has returned or,
// with EnqueueAsync, until done has run.
type Message struct {
	Body        []byte
	TaskID      string // names the task whose result this is; default: the message id
	Kind        string // the task's type
	ContentType string // default application/octet-stream
	Headers     []Header
	Priority    *int          // nil: the broker's default, 4; else Priority(0) to Priority(9)
	Key         []byte        // ordering key
	DedupKey    []byte        // a second enqueue with it within the queue's window stores nothing
	Delay       time.Duration // not before this long from now; only one of Delay and EnqueueAt
	EnqueueAt   time.Time     // not before this time; in the past means now
	TTL         time.Duration // dies if not done this long after enqueue; 0: the queue's
	Timeout     time.Duration // how long one attempt may run in all; 0: no limit
	Retry       *RetryPolicy  // nil: the queue's
	// KeysIfUndelivered are up to 16 keys of the KV that get the body if the message dies. They are reserved at the enqueue:
	// a full KV refuses it. Not to be changed either before the call has ended.
	KeysIfUndelivered []Key
	Batch             string // id of the batch (see CreateBatch) of which it is a member
}

// RetryPolicy says how long a message waits after each failed attempt, and when it dies.
type RetryPolicy struct {
	Kind        string          // "schedule", "fixed", "linear" or "exponential"
	Steps       []time.Duration // schedule: the waits; one attempt more than steps
	Initial     time.Duration   // default 1 s
	Multiplier  float64         // exponential: 1 to 100, kept in thousandths; default 2
	Max         time.Duration   // default 60 s
	MaxAttempts int             // 1–1000, default 5; a schedule has its own
	Jitter      time.Duration   // adds up to this, the same on every node
}

// Result is what a worker returns, or what the broker recorded.
type Result struct {
	Output      []byte
	ContentType string
	// From here on: set on recorded results only.
	TaskID     string
	Queue      string
	Kind       string
	Attempts   int
	Duration   time.Duration // lease to ack
	Worker     string
	RecordedAt time.Time
	MessageID  string
}

// Receipt confirms an enqueued message: it is on a majority's disks.
type Receipt struct {
	ID        string
	TaskID    string
	Duplicate bool    // dedup: nothing stored, ID is the first one's
	Result    *Result // of a duplicate whose task has one already
	Index     uint64  // log position of the answer
	Time      int64   // log time of the answer, Unix ms
}

// millis rounds away from zero: a positive duration never becomes "none", and a negative one is never taken for it, so that
// the server gets to refuse it.
func millis(d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	switch rest := d % time.Millisecond; {
	case rest > 0:
		ms++
	case rest < 0:
		ms--
	}
	return ms
}

// int32of is a number as the wire has it. One that is out of its range stays out of every range that requests allow.
func int32of(n int) int32 { return int32(min(max(n, -1<<30), 1<<30)) }

func unixMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

func (p *RetryPolicy) wire() *wire.RetryPolicy {
	if p == nil {
		return nil
	}
	w := &wire.RetryPolicy{
		Kind: p.Kind, InitialMillis: millis(p.Initial), MultiplierMilli: int64(p.Multiplier*1000 + 0.5),
		MaxMillis: millis(p.Max), MaxAttempts: int32of(p.MaxAttempts), JitterMillis: millis(p.Jitter),
	}
	for _, s := range p.Steps {
		w.Steps = append(w.Steps, millis(s))
	}
	return w
}

func retryOf(w *wire.RetryPolicy) *RetryPolicy {
	if w == nil {
		return nil
	}
	p := &RetryPolicy{
		Kind: w.Kind, Initial: time.Duration(w.InitialMillis) * time.Millisecond, Multiplier: float64(w.MultiplierMilli) / 1000,
		Max: time.Duration(w.MaxMillis) * time.Millisecond, MaxAttempts: int(w.MaxAttempts),
		Jitter: time.Duration(w.JitterMillis) * time.Millisecond,
	}
	for _, s := range w.Steps {
		p.Steps = append(p.Steps, time.Duration(s)*time.Millisecond)
	}
	return p
}

// priorities[p] is what Message.Priority of wire points at, so that sending one allocates nothing.
var priorities = [wire.MaxPriority + 1]uint8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}

// wire fills w and checks what the encoding cannot carry; all other checks are the codec's (Validate) and the server's.
func (m *Message) wire(w *wire.Message) error {
	*w = wire.Message{
		Body: m.Body, TaskID: m.TaskID, Kind: m.Kind, ContentType: m.ContentType, Key: m.Key, DedupKey: m.DedupKey,
		DelayMillis: millis(m.Delay), EnqueueAt: unixMillis(m.EnqueueAt), TTLMillis: millis(m.TTL),
		TimeoutMillis: millis(m.Timeout), Retry: m.Retry.wire(), Batch: m.Batch,
	}
	if m.Priority != nil {
		p := *m.Priority
		if p < 0 || p > wire.MaxPriority {
			return invalid("priority", "%d is outside 0 to %d", p, wire.MaxPriority)
		}
		w.Priority = &priorities[p]
	}
	for _, k := range m.KeysIfUndelivered {
		w.KeysIfUndelivered = append(w.KeysIfUndelivered, k)
	}
	if len(m.Headers) > 0 {
		w.Headers = make([]wire.Header, len(m.Headers))
		for i, h := range m.Headers {
			w.Headers[i].Name, w.Headers[i].Value = h.Name, h.Value
		}
	}
	return nil
}

func headersOf(hs []wire.Header) []Header {
	if len(hs) == 0 {
		return nil
	}
	out := make([]Header, len(hs))
	for i, h := range hs {
		out[i] = Header{Name: h.Name, Value: h.Value}
	}
	return out
}

// clone copies what aliases a frame. Nil stays nil, empty stays empty.
func clone(b wire.Bytes) []byte {
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

// wire is nil for no result; only output and content type travel.
func (r *Result) wire() *wire.Result {
	if r == nil {
		return nil
	}
	return &wire.Result{Output: r.Output, ContentType: r.ContentType}
}

func resultOf(w *wire.Result) *Result {
	if w == nil {
		return nil
	}
	return &Result{
		Output: clone(w.Output), ContentType: w.ContentType, TaskID: w.TaskID, Queue: w.Queue, Kind: w.Kind,
		Attempts: int(w.Attempts), Duration: time.Duration(w.DurationMillis) * time.Millisecond, Worker: w.Worker,
		RecordedAt: timeOf(w.RecordedAt), MessageID: w.MessageID,
	}
}
