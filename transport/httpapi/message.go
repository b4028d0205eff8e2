package httpapi

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/quorate/quorate/wire"
)

// Message is a message as a producer sends it.
type Message struct {
	Body          Any               `json:"body,omitzero" required:"false" doc:"any JSON value; with body_encoding text or base64 a string; absent: empty"`
	BodyEncoding  string            `json:"body_encoding,omitzero" required:"false" enum:"json,text,base64" doc:"what body is: json (default), text, or base64 of any bytes"`
	TaskID        string            `json:"task_id,omitzero" required:"false" maxLength:"128" doc:"absent: the message id"`
	Kind          string            `json:"kind,omitzero" required:"false" maxLength:"128" doc:"the task type"`
	ContentType   string            `json:"content_type,omitzero" required:"false" maxLength:"128" doc:"absent: application/json, text/plain or application/octet-stream, by body_encoding"`
	Headers       map[string]string `json:"headers,omitzero" required:"false" doc:"at most 64, names of 1 to 128 bytes, values of up to 4096, 16384 bytes in all"`
	Priority      *uint8            `json:"priority,omitzero" required:"false" minimum:"0" maximum:"9" doc:"9 goes first; absent: 4"`
	Key           string            `json:"key,omitzero" required:"false" doc:"ordering key, up to 256 bytes"`
	KeyBase64     *string           `json:"key_base64,omitzero" required:"false" doc:"instead of key, where that is not UTF-8"`
	DedupKey      string            `json:"dedup_key,omitzero" required:"false" doc:"the same key within the queue's window gives the first message's id; up to 256 bytes"`
	DedupBase64   *string           `json:"dedup_key_base64,omitzero" required:"false" doc:"instead of dedup_key, where that is not UTF-8"`
	DelayMillis   int64             `json:"delay_ms,omitzero" required:"false" minimum:"0" doc:"at most 366 days"`
	EnqueueAt     int64             `json:"enqueue_at,omitzero" required:"false" doc:"Unix ms, at most 366 days ahead, the past means now; this or delay_ms"`
	TTLMillis     int64             `json:"ttl_ms,omitzero" required:"false" minimum:"0" doc:"it expires this long after its enqueue; absent: the queue's max_age_ms"`
	TimeoutMillis int64             `json:"timeout_ms,omitzero" required:"false" minimum:"0" doc:"one attempt may run this long in all"`
	Retry         *Retry            `json:"retry,omitzero" required:"false" doc:"absent: the queue's"`
	Keys          [][]string        `json:"keys_if_undelivered,omitzero" required:"false" doc:"at most 16 KV keys, each of 1 to 16 strings, that get the body if the message dies"`
	Batch         string            `json:"batch,omitzero" required:"false" doc:"id of the batch of which it is a member"`
}

// Retry is a retry policy.
type Retry struct {
	Kind         string  `json:"kind" enum:"schedule,fixed,linear,exponential"`
	Steps        []int64 `json:"steps,omitzero" required:"false" doc:"schedule: 1 to 100 waits in ms; attempts are one more"`
	Initial      int64   `json:"initial_ms,omitzero" required:"false" doc:"not schedule; absent: 1000"`
	Multiplier   float64 `json:"multiplier,omitzero" required:"false" doc:"exponential: 1 to 100, in thousandths; absent: 2"`
	Max          int64   `json:"max_ms,omitzero" required:"false" doc:"linear and exponential: the longest wait; absent: 60000"`
	MaxAttempts  int32   `json:"max_attempts,omitzero" required:"false" doc:"not schedule: 1 to 1000; absent: 5"`
	JitterMillis int64   `json:"jitter_ms,omitzero" required:"false" doc:"up to this much is added to each wait"`
}

func (r *Retry) wire() *wire.RetryPolicy {
	if r == nil {
		return nil
	}
	return &wire.RetryPolicy{Kind: r.Kind, Steps: r.Steps, InitialMillis: r.Initial, MultiplierMilli: milli(r.Multiplier), MaxMillis: r.Max,
		MaxAttempts: r.MaxAttempts, JitterMillis: r.JitterMillis}
}

func retryOf(r *wire.RetryPolicy) *Retry {
	if r == nil {
		return nil
	}
	return &Retry{Kind: r.Kind, Steps: r.Steps, Initial: r.InitialMillis, Multiplier: float64(r.MultiplierMilli) / 1000, Max: r.MaxMillis,
		MaxAttempts: r.MaxAttempts, JitterMillis: r.JitterMillis}
}

// milli is a number in thousandths; what is out of every range stays out of it.
func milli(v float64) int64 {
	v = math.Round(v * 1000)
	switch {
	case v > math.MaxInt64/2:
		return math.MaxInt64 / 2
	case v < math.MinInt64/2:
		return math.MinInt64 / 2
	}
	return int64(v)
}

// wire turns a message into the protocol's, judged.
func (m *Message) wire(maxBytes int64) (w wire.Message, f *wire.Fault) {
	w = wire.Message{
		TaskID: m.TaskID, Kind: m.Kind, ContentType: m.ContentType, Headers: wireHeaders(m.Headers), Priority: m.Priority,
		DelayMillis: m.DelayMillis, EnqueueAt: m.EnqueueAt, TTLMillis: m.TTLMillis, TimeoutMillis: m.TimeoutMillis, Retry: m.Retry.wire(),
		KeysIfUndelivered: m.Keys, Batch: m.Batch,
	}
	var kind string
	if w.Body, kind, f = bodyBytes("body", m.Body, m.BodyEncoding); f != nil {
		return w, f
	}
	if w.ContentType == "" {
		w.ContentType = kind
	}
	if w.Key, f = keyBytes("key", m.Key, m.KeyBase64); f != nil {
		return w, f
	}
	if w.DedupKey, f = keyBytes("dedup_key", m.DedupKey, m.DedupBase64); f != nil {
		return w, f
	}
	return w, w.Validate(maxBytes)
}

func wireHeaders(m map[string]string) []wire.Header {
	if len(m) == 0 {
		return nil
	}
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	hs := make([]wire.Header, len(names))
	for i, n := range names {
		hs[i] = wire.Header{Name: n, Value: m[n]}
	}
	return hs
}

// headersOf is headers by name; of a name that is there twice the last one stays.
func headersOf(hs []wire.Header) map[string]string {
	if len(hs) == 0 {
		return nil
	}
	m := make(map[string]string, len(hs))
	for _, h := range hs {
		m[h.Name] = h.Value
	}
	return m
}

// enqueueRequest is one message, or several under messages; jobs where the envelope is asked for.
type enqueueRequest struct {
	Message
	Messages []Message `json:"messages,omitzero" required:"false" minItems:"1" maxItems:"1000" doc:"instead of one message: up to 1000, each with its own outcome"`
}

// Enqueued is one message's outcome.
type Enqueued struct {
	ID        string   `json:"id,omitzero" required:"false" doc:"of the message"`
	TaskID    string   `json:"task_id,omitzero" required:"false"`
	Duplicate bool     `json:"duplicate" doc:"its dedup_key was seen before: the id is the first one's"`
	Result    *Result  `json:"result,omitzero" required:"false" doc:"of a duplicate whose task has one"`
	Error     *Problem `json:"error,omitzero" required:"false" doc:"in a batch: this message was refused, the others go on"`
}

// enqueueAnswer is the outcome of one message, or of each under messages.
type enqueueAnswer struct {
	ID        string      `json:"id,omitzero" required:"false" doc:"of the message"`
	TaskID    string      `json:"task_id,omitzero" required:"false"`
	Duplicate *bool       `json:"duplicate,omitzero" required:"false" doc:"its dedup_key was seen before: the id is the first one's"`
	Result    *Result     `json:"result,omitzero" required:"false" doc:"of a duplicate whose task has one"`
	Messages  *[]Enqueued `json:"messages,omitzero" required:"false" doc:"of a batch, in its order"`
}

func enqueuedOf(o *wire.Outcome) Enqueued {
	if o.Fault != nil {
		return Enqueued{Error: ProblemOf(o.Fault, "")}
	}
	e := Enqueued{ID: o.ID, TaskID: o.TaskID, Duplicate: o.Duplicate}
	if e.TaskID == "" {
		e.TaskID = o.ID
	}
	if o.Result != nil {
		e.Result = resultOf(o.Result, true, "")
	}
	return e
}

func messageRoutes() []*route {
	const path = "/v1/queues/{q}/messages"
	enqueue := with(route{method: "POST", path: path, summary: "Enqueue one message, or a batch of up to 1000. Other content types than JSON are the message's body, with its fields in the query",
		status: http.StatusCreated, raw: "application/octet-stream", query: append([]param{jobParam}, rawParams...)}, enqueueMessages)
	enqueue.serve = func(x *exchange) *wire.Fault {
		answer, f := x.enqueueBody()
		if f != nil {
			return f
		}
		x.reply(answer)
		return nil
	}
	return []*route{
		enqueue,
		plain(route{method: "GET", path: path, summary: "Look at live messages without leasing them",
			query: []param{{name: "state", kind: "string", doc: "pending by default", enum: []string{wire.StatusPending, wire.StatusProcessing, wire.StatusScheduled, wire.StatusRetrying}},
				limitParam, afterParam, staleParam, encodeParm}}, browse),
	}
}

// rawParams are the fields of a message whose body is the HTTP body.
var rawParams = []param{
	{name: "task_id", kind: "string"}, {name: "kind", kind: "string"}, {name: "priority", kind: "integer", most: 9}, {name: "key", kind: "string"},
	{name: "dedup_key", kind: "string"}, {name: "delay_ms", kind: "integer"}, {name: "enqueue_at", kind: "integer"}, {name: "ttl_ms", kind: "integer"},
	{name: "timeout_ms", kind: "integer"}, {name: "batch", kind: "string"}, {name: "header", kind: "string", many: true, doc: "name=value, as often as there are headers"},
}

// enqueueBody tells the three forms of a request apart.
func (x *exchange) enqueueBody() (*enqueueAnswer, *wire.Fault) {
	if !x.isJSON() || x.rawJSON() {
		return x.enqueueRaw()
	}
	if x.query["envelope"] == "job" {
		return x.enqueueJobs()
	}
	in := new(enqueueRequest)
	if f := x.decode(in); f != nil {
		return nil, f
	}
	return enqueueMessages(x, in)
}

// rawJSON says whether fields in the query mean that a JSON body is the message's own.
func (x *exchange) rawJSON() bool {
	for _, p := range rawParams {
		if _, given := x.query[p.name]; given {
			return true
		}
	}
	return false
}

func enqueueMessages(x *exchange, in *enqueueRequest) (*enqueueAnswer, *wire.Fault) {
	if in.Messages == nil {
		m, f := in.wire(x.api.cfg.MaxMessageBytes)
		if f != nil {
			return nil, f
		}
		return x.enqueueOne(m)
	}
	if !in.Message.empty() {
		return nil, wire.Invalid("messages", "given beside fields of one message: either would be right")
	}
	ms, faults := make([]wire.Message, len(in.Messages)), make([]*wire.Fault, len(in.Messages))
	for i := range in.Messages {
		ms[i], faults[i] = in.Messages[i].wire(x.api.cfg.MaxMessageBytes)
	}
	return x.enqueueMany(ms, faults)
}

// empty says whether nothing of a message was given.
func (m *Message) empty() bool {
	w, f := m.wire(math.MaxInt64)
	return f == nil && m.Body == nil && w.TaskID == "" && w.Kind == "" && w.ContentType == "" && w.Headers == nil && w.Priority == nil && len(w.Key) == 0 &&
		len(w.DedupKey) == 0 && w.DelayMillis == 0 && w.EnqueueAt == 0 && w.TTLMillis == 0 && w.TimeoutMillis == 0 && w.Retry == nil &&
		w.KeysIfUndelivered == nil && w.Batch == "" && m.BodyEncoding == ""
}

func (x *exchange) enqueueOne(m wire.Message) (*enqueueAnswer, *wire.Fault) {
	o, f := x.enqueued(x.path["q"], m)
	if f != nil {
		return nil, f
	}
	e := enqueuedOf(o)
	return &enqueueAnswer{ID: e.ID, TaskID: e.TaskID, Duplicate: &e.Duplicate, Result: e.Result}, nil
}

// enqueued puts one message into a queue.
func (x *exchange) enqueued(queue string, m wire.Message) (*wire.Outcome, *wire.Fault) {
	ms := []wire.Message{m}
	x.carry(ms)
	rep, f := call[wire.Enqueued](x, wire.TypeEnqueue, &wire.Enqueue{Queue: queue, Messages: ms})
	if f != nil {
		return nil, f
	}
	o := &rep.Outcomes[0]
	return o, o.Fault
}

// enqueueMany puts those messages of a batch into the queue that have no fault yet.
func (x *exchange) enqueueMany(ms []wire.Message, faults []*wire.Fault) (*enqueueAnswer, *wire.Fault) {
	queue := x.path["q"]
	if n := len(ms); n == 0 || n > wire.MaxBatch {
		return nil, wire.Invalid("messages", "a batch of %d; 1 to %d are allowed", n, wire.MaxBatch)
	}
	if f := wire.CheckQueue("queue", queue); f != nil {
		return nil, f
	}
	out := make([]Enqueued, len(ms))
	good, places := make([]wire.Message, 0, len(ms)), make([]int, 0, len(ms))
	for i := range ms {
		if faults[i] != nil {
			out[i].Error = ProblemOf(faults[i], "")
			continue
		}
		good, places = append(good, ms[i]), append(places, i)
	}
	if len(good) > 0 {
		x.carry(good)
		rep, f := call[wire.Enqueued](x, wire.TypeEnqueue, &wire.Enqueue{Queue: queue, Messages: good})
		if f != nil {
			return nil, f
		}
		if led := sameFault(rep.Outcomes); led != nil && led.Code == wire.CodeNotLeader {
			return nil, led // the whole batch can go elsewhere
		}
		for i := range rep.Outcomes {
			out[places[i]] = enqueuedOf(&rep.Outcomes[i])
		}
	}
	return &enqueueAnswer{Messages: &out}, nil
}

// sameFault is the fault that all outcomes have alike, nil if there is none.
func sameFault(out []wire.Outcome) *wire.Fault {
	for i := range out {
		if out[i].Fault == nil || out[i].Fault.Code != out[0].Fault.Code {
			return nil
		}
	}
	return out[0].Fault
}

// enqueueRaw takes the HTTP body as the message's.
func (x *exchange) enqueueRaw() (*enqueueAnswer, *wire.Fault) {
	if x.query["envelope"] != "" {
		return nil, wire.Invalid("envelope", "the job envelope is JSON: application/json without a message's fields in the query would be right")
	}
	m := wire.Message{
		Body: x.body, ContentType: x.r.Header.Get("Content-Type"), TaskID: x.query["task_id"], Kind: x.query["kind"], Key: wire.Bytes(x.query["key"]),
		DedupKey: wire.Bytes(x.query["dedup_key"]), DelayMillis: x.int("delay_ms"), EnqueueAt: x.int("enqueue_at"), TTLMillis: x.int("ttl_ms"),
		TimeoutMillis: x.int("timeout_ms"), Batch: x.query["batch"],
	}
	if p, given := x.query["priority"]; given {
		n, _ := strconv.ParseUint(p, 10, 8) // judged by params
		v := uint8(n)
		m.Priority = &v
	}
	for _, h := range x.queries["header"] {
		name, value, ok := cutHeader(h)
		if !ok {
			return nil, wire.Invalid("header", "%.60q; name=value would be right", h)
		}
		m.Headers = append(m.Headers, wire.Header{Name: name, Value: value})
	}
	if f := m.Validate(x.api.cfg.MaxMessageBytes); f != nil {
		return nil, f
	}
	return x.enqueueOne(m)
}

func cutHeader(h string) (name, value string, ok bool) {
	for i := range len(h) {
		if h[i] == '=' {
			return h[:i], h[i+1:], i > 0
		}
	}
	return "", "", false
}

// tasksAnswer is a page of messages.
type tasksAnswer struct {
	Messages []Task `json:"messages"`
	Next     string `json:"next,omitzero" required:"false" doc:"after of the next page; absent at the end. A page may be short, or empty, and yet not the last"`
}

func browse(x *exchange) (*tasksAnswer, *wire.Fault) {
	rep, f := call[wire.Tasks](x, wire.TypePeek, &wire.Peek{Queue: x.path["q"], State: x.query["state"], Limit: int32(x.int("limit")), After: x.query["after"], Stale: x.bool("stale")})
	if f != nil {
		return nil, f
	}
	return &tasksAnswer{Messages: tasksOf(rep.Tasks, x.query["body_encoding"]), Next: rep.Next}, nil
}

// nth names a fault's field as one of an item of a list.
func nth(f *wire.Fault, list string, i int) *wire.Fault {
	g := *f
	at := fmt.Sprintf("%s[%d].", list, i)
	g.Message = wire.CutText(at+f.Message, wire.MaxFaultBytes)
	if f.Field != "" {
		g.Field = at + f.Field
	}
	return &g
}
