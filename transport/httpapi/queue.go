package httpapi

import (
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/quorate/quorate/wire"
)

// Options are a queue's settings; what is left out, 0 or empty has its default.
type Options struct {
	Ordering          string           `json:"ordering,omitzero" required:"false" enum:"unordered,fifo,per_key"`
	Delivery          string           `json:"delivery,omitzero" required:"false" enum:"at_least_once,at_most_once"`
	LeaseMillis       int64            `json:"lease_ms,omitzero" required:"false" doc:"100 to 43200000; default 30000"`
	Retry             *Retry           `json:"retry,omitzero" required:"false" doc:"default: schedule 1000, 5000, 10000"`
	DeadLetterQueue   string           `json:"dead_letter_queue,omitzero" required:"false"`
	MaxDead           int64            `json:"max_dead,omitzero" required:"false"`
	DeadOverflow      string           `json:"dead_overflow,omitzero" required:"false" enum:"refuse,drop_oldest"`
	DeadRetention     int64            `json:"dead_letter_retention_ms,omitzero" required:"false"`
	MaxAgeMillis      int64            `json:"max_age_ms,omitzero" required:"false"`
	MaxDepth          int64            `json:"max_depth,omitzero" required:"false"`
	MaxBytes          int64            `json:"max_bytes,omitzero" required:"false"`
	Overflow          string           `json:"overflow,omitzero" required:"false" enum:"reject,drop_oldest"`
	DedupWindow       int64            `json:"dedup_window_ms,omitzero" required:"false"`
	DedupMaxKeys      int64            `json:"dedup_max_keys,omitzero" required:"false"`
	ResultTTL         int64            `json:"result_ttl_ms,omitzero" required:"false"`
	MaxResultsBytes   int64            `json:"max_results_bytes,omitzero" required:"false"`
	MaxInFlight       int64            `json:"max_in_flight,omitzero" required:"false"`
	MaxInFlightPerKey int64            `json:"max_in_flight_per_key,omitzero" required:"false"`
	Rate              float64          `json:"rate,omitzero" required:"false" doc:"deliveries a second, in thousandths"`
	Burst             int64            `json:"burst,omitzero" required:"false"`
	RatePerKey        float64          `json:"rate_per_key,omitzero" required:"false"`
	BurstPerKey       int64            `json:"burst_per_key,omitzero" required:"false"`
	FairBy            string           `json:"fair_by,omitzero" required:"false" enum:"none,key"`
	FairWeights       map[string]int64 `json:"fair_weights,omitzero" required:"false" doc:"message keys and how many messages the turn of each is, 1 to 100"`
	Paused            bool             `json:"paused,omitzero" required:"false"`
	PushURL           string           `json:"push_url,omitzero" required:"false" doc:"http or https: messages are sent there by POST; empty: they are not"`
	PushConcurrency   int64            `json:"push_concurrency,omitzero" required:"false" doc:"requests at once, 1 to 256; default 8"`
	PushTimeoutMillis int64            `json:"push_timeout_ms,omitzero" required:"false" doc:"of one request, 100 to 600000; default 10000"`
	PushSecrets       []string         `json:"push_secrets,omitzero" required:"false" doc:"names of secrets that the nodes' configurations hold; each signs; at most 4"`
	PushPermanent     []int64          `json:"push_permanent,omitzero" required:"false" doc:"statuses after which a message is dead at once; default 400, 404, 410, 413, 422"`
	PushHeaders       []string         `json:"push_headers,omitzero" required:"false" doc:"headers of a message that go along; at most 16"`
	Schema            string           `json:"schema,omitzero" required:"false" doc:"the text of a JSON Schema that bodies have to fit, at most 64 KiB; empty: anything is taken"`
	Map               string           `json:"map,omitzero" required:"false" doc:"expression that makes the body of a push, at most 4 KiB; empty: it is sent as it is"`
	MapTo             *MapTo           `json:"map_to,omitzero" required:"false" doc:"messages are made for another queue of each here, which is acked; none: they are not"`
}

// MapTo says where messages are mapped to, and how.
type MapTo struct {
	Queue      string `json:"queue"`
	Expression string `json:"expression" doc:"at most 4 KiB"`
}

func (o *Options) wire() wire.QueueOptions {
	w := wire.QueueOptions{
		LeaseMillis: o.LeaseMillis, Retry: o.Retry.wire(), MaxDead: o.MaxDead, DeadOverflow: o.DeadOverflow, DeadRetentionMillis: o.DeadRetention,
		DedupWindowMillis: o.DedupWindow, DedupMaxKeys: o.DedupMaxKeys, ResultTTLMillis: o.ResultTTL, MaxResultsBytes: o.MaxResultsBytes,
		Ordering: o.Ordering, MaxDepth: o.MaxDepth, MaxBytes: o.MaxBytes, Overflow: o.Overflow, MaxInFlight: o.MaxInFlight, Paused: o.Paused,
		MaxAgeMillis: o.MaxAgeMillis, Delivery: o.Delivery, RateMilli: milli(o.Rate), Burst: o.Burst, MaxInFlightPerKey: o.MaxInFlightPerKey,
		RatePerKeyMilli: milli(o.RatePerKey), BurstPerKey: o.BurstPerKey, FairBy: o.FairBy, DeadLetterQueue: o.DeadLetterQueue,
		PushURL: o.PushURL, PushConcurrency: o.PushConcurrency, PushTimeoutMillis: o.PushTimeoutMillis, PushSecrets: o.PushSecrets,
		PushPermanent: o.PushPermanent, PushHeaders: o.PushHeaders,
		Schema: o.Schema, Map: o.Map, MapTo: (*wire.MapTo)(o.MapTo),
	}
	for key, weight := range o.FairWeights {
		w.FairWeights = append(w.FairWeights, wire.FairWeight{Key: wire.Bytes(key), Weight: weight})
	}
	slices.SortFunc(w.FairWeights, func(a, b wire.FairWeight) int { return slices.Compare(a.Key, b.Key) })
	return w
}

func optionsOf(w *wire.QueueOptions) Options {
	o := Options{
		Ordering: w.Ordering, Delivery: w.Delivery, LeaseMillis: w.LeaseMillis, Retry: retryOf(w.Retry), DeadLetterQueue: w.DeadLetterQueue, MaxDead: w.MaxDead,
		DeadOverflow: w.DeadOverflow, DeadRetention: w.DeadRetentionMillis, MaxAgeMillis: w.MaxAgeMillis, MaxDepth: w.MaxDepth, MaxBytes: w.MaxBytes,
		Overflow: w.Overflow, DedupWindow: w.DedupWindowMillis, DedupMaxKeys: w.DedupMaxKeys, ResultTTL: w.ResultTTLMillis, MaxResultsBytes: w.MaxResultsBytes,
		MaxInFlight: w.MaxInFlight, MaxInFlightPerKey: w.MaxInFlightPerKey, Rate: float64(w.RateMilli) / 1000, Burst: w.Burst,
		RatePerKey: float64(w.RatePerKeyMilli) / 1000, BurstPerKey: w.BurstPerKey, FairBy: w.FairBy, Paused: w.Paused,
		PushURL: w.PushURL, PushConcurrency: w.PushConcurrency, PushTimeoutMillis: w.PushTimeoutMillis, PushSecrets: w.PushSecrets,
		PushPermanent: w.PushPermanent, PushHeaders: w.PushHeaders,
		Schema: w.Schema, Map: w.Map, MapTo: (*MapTo)(w.MapTo),
	}
	for _, f := range w.FairWeights {
		if o.FairWeights == nil {
			o.FairWeights = make(map[string]int64, len(w.FairWeights))
		}
		o.FairWeights[string(f.Key)] = f.Weight
	}
	return o
}

// Stats are a queue's counts.
type Stats struct {
	Pending             int64            `json:"pending"`
	Processing          int64            `json:"processing"`
	Scheduled           int64            `json:"scheduled"`
	Retrying            int64            `json:"retrying"`
	DLQ                 int64            `json:"dlq"`
	Total               int64            `json:"total" doc:"pending, processing, scheduled and retrying"`
	Bytes               int64            `json:"bytes"`
	OldestAgeSeconds    float64          `json:"oldest_message_age_seconds"`
	MessagesPerMinute   int64            `json:"messages_per_minute" doc:"enqueued in the last minute, as far as the node that answers has run so long"`
	AvgProcessingMillis int64            `json:"avg_processing_time_ms"`
	Blocked             int64            `json:"blocked" doc:"of pending: those that wait behind another of their key or queue"`
	Parked              int64            `json:"parked" doc:"of pending: those whose key is at its limit"`
	KeyDebts            int64            `json:"key_debts"`
	Moved               int64            `json:"moved" doc:"dead letters of other queues that were moved here"`
	Results             int64            `json:"results"`
	ResultBytes         int64            `json:"result_bytes"`
	DedupKeys           int64            `json:"dedup_keys"`
	Tombstones          int64            `json:"tombstones"`
	Counters            map[string]int64 `json:"counters" doc:"since the queue was made"`
	Push                string           `json:"push,omitzero" required:"false" doc:"of a queue with push_url: how its push stands, and why it rests if it does"`
	Mapping             string           `json:"mapping,omitzero" required:"false" doc:"of a queue with map_to: how its mapping stands, and why it waits if it does"`
	Status              string           `json:"status" enum:"moving,held,waiting,working,empty" doc:"held: there are ready messages, and none is handed out; waiting: nothing is ready yet; working: all that there is is out"`
	Why                 []Holdup         `json:"why" doc:"of held and waiting: what keeps the messages back, all of it"`
	Consumers           *int64           `json:"consumers" doc:"subscriptions; null in a stale answer of a node that does not lead, which knows of none"`
	Idle                *int64           `json:"idle_consumers" doc:"who would be given a message now: subscriptions with room, and lease requests that wait; null as above"`
}

// Holdup is a reason why messages are not handed out at present.
type Holdup struct {
	Reason string `json:"reason" enum:"paused,in_flight_limit,rate_limited,keys_blocked,keys_limited,push_resting,no_consumers,consumers_busy,scheduled,retrying"`
	Text   string `json:"text"`
	Until  int64  `json:"until,omitzero" required:"false" doc:"Unix ms, when time alone ends it, or changes something about it"`
}

func statsOf(q *wire.QueueInfo) Stats {
	s := Stats{
		Pending: q.Pending, Processing: q.Processing, Scheduled: q.Scheduled, Retrying: q.Retrying, DLQ: q.Dead,
		Total: q.Pending + q.Processing + q.Scheduled + q.Retrying, Bytes: q.Bytes, OldestAgeSeconds: float64(q.OldestAgeMillis) / 1000,
		AvgProcessingMillis: q.AvgProcessingMillis, Blocked: q.Blocked, Parked: q.Parked, KeyDebts: q.KeyDebts, Moved: q.Moved, Results: q.Results,
		ResultBytes: q.ResultBytes, DedupKeys: q.DedupKeys, Tombstones: q.Tombstones, Counters: q.Totals, Push: q.Push, Mapping: q.Mapping,
		MessagesPerMinute: q.PerMinute, Status: q.Status, Why: make([]Holdup, len(q.Why)),
	}
	for i, h := range q.Why {
		s.Why[i] = Holdup(h)
	}
	if !q.NotFromLeader {
		s.Consumers, s.Idle = &q.Consumers, &q.Idle
	}
	return s
}

// Queue is a queue with its options and counts.
type Queue struct {
	Name    string  `json:"name"`
	Options Options `json:"options"`
	Stats   Stats   `json:"stats"`
}

func queueOf(q *wire.QueueInfo) Queue {
	return Queue{Name: q.Name, Options: optionsOf(&q.Options), Stats: statsOf(q)}
}

type queuesAnswer struct {
	Queues []Queue `json:"queues" doc:"by name"`
	Next   string  `json:"next,omitzero" required:"false" doc:"after of the next page; absent at the end"`
}

// done is the answer where there is nothing else to say.
type done struct {
	OK bool `json:"ok"`
}

type deletedCount struct {
	Deleted int64 `json:"deleted_count"`
}

// changes are the options of a PATCH: those that are named, and no others. null is the default.
type changes struct {
	Options
	named []string
}

// UnmarshalJSON notes which options are there.
func (c *changes) UnmarshalJSON(b []byte) error {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(b, &members); err != nil {
		return err
	}
	for name := range members {
		c.named = append(c.named, name)
	}
	slices.Sort(c.named)
	return json.Unmarshal(b, &c.Options, json.RejectUnknownMembers(true))
}

// TransformSchema says that each option can be null.
func (changes) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	for name, p := range s.Properties {
		s.Properties[name] = &huma.Schema{OneOf: []*huma.Schema{p, {Type: "null"}}}
	}
	return s
}

func queueRoutes() []*route {
	const path = "/v1/queues/{q}"
	end := func(t wire.Type) func(x *exchange) (*deletedCount, *wire.Fault) {
		return func(x *exchange) (*deletedCount, *wire.Fault) {
			rep, f := call[wire.Counted](x, t, &wire.QueueRef{Queue: x.path["q"]})
			if f != nil {
				return nil, f
			}
			return &deletedCount{rep.Count}, nil
		}
	}
	pause := func(paused bool) func(x *exchange) (*done, *wire.Fault) {
		return func(x *exchange) (*done, *wire.Fault) {
			return x.okay(wire.TypeQueueSet, &wire.QueueWrite{Queue: x.path["q"], Options: wire.QueueOptions{Paused: paused}, Only: []string{"paused"}})
		}
	}
	return []*route{
		plain(route{method: "GET", path: "/v1/queues", summary: "List queues", query: []param{limitParam, afterParam, staleParam}}, func(x *exchange) (*queuesAnswer, *wire.Fault) {
			rep, f := call[wire.Queues](x, wire.TypeQueueList, &wire.QueueList{After: x.query["after"], Limit: int32(x.int("limit")), Stale: x.bool("stale")})
			if f != nil {
				return nil, f
			}
			a := &queuesAnswer{Queues: make([]Queue, len(rep.Queues)), Next: rep.Next}
			for i := range rep.Queues {
				a.Queues[i] = queueOf(&rep.Queues[i])
			}
			return a, nil
		}),
		plain(route{method: "GET", path: path, summary: "A queue's options and counts", query: []param{staleParam}}, func(x *exchange) (*Queue, *wire.Fault) {
			q, f := x.queue()
			if f != nil {
				return nil, f
			}
			j := queueOf(q)
			return &j, nil
		}),
		with(route{method: "PUT", path: path, summary: "Make a queue, or set all of its options; If-None-Match: * only makes one", optional: true}, putQueue),
		with(route{method: "PATCH", path: path, summary: "Set those options alone that are named; null is the default"}, func(x *exchange, in *changes) (*done, *wire.Fault) {
			if len(in.named) == 0 {
				return nil, wire.Invalid("body", "names no option: one at least would be right")
			}
			return x.okay(wire.TypeQueueSet, &wire.QueueWrite{Queue: x.path["q"], Options: in.wire(), Only: in.named})
		}),
		plain(route{method: "DELETE", path: path, summary: "Delete a queue with all that is in it"}, func(x *exchange) (*done, *wire.Fault) {
			return x.okay(wire.TypeQueueDelete, &wire.QueueRef{Queue: x.path["q"]})
		}),
		plain(route{method: "POST", path: path + "/pause", summary: "Lease nothing more"}, pause(true)),
		plain(route{method: "POST", path: path + "/resume", summary: "Lease again"}, pause(false)),
		plain(route{method: "POST", path: path + "/purge", summary: "Delete all messages that are not out"}, end(wire.TypeQueuePurge)),
		plain(route{method: "GET", path: path + "/stats", summary: "A queue's counts", query: []param{staleParam}}, func(x *exchange) (*Stats, *wire.Fault) {
			q, f := x.queue()
			if f != nil {
				return nil, f
			}
			s := statsOf(q)
			return &s, nil
		}),
	}
}

// okay carries out a request that has nothing to say but that it is done.
func (x *exchange) okay(t wire.Type, req any) (*done, *wire.Fault) {
	if _, f := call[wire.OK](x, t, req); f != nil {
		return nil, f
	}
	return &done{OK: true}, nil
}

func (x *exchange) queue() (*wire.QueueInfo, *wire.Fault) {
	rep, f := call[wire.QueueIs](x, wire.TypeQueueShow, &wire.QueueRef{Queue: x.path["q"], Stale: x.bool("stale")})
	if f != nil {
		return nil, f
	}
	return &rep.Queue, nil
}

func putQueue(x *exchange, in *Options) (*done, *wire.Fault) {
	only := false
	switch m := x.r.Header.Get("If-None-Match"); m {
	case "":
	case "*":
		only = true
	default:
		return nil, wire.Invalid("If-None-Match", "%.40q; * would be right: there are no tags", m)
	}
	req := &wire.QueueWrite{Queue: x.path["q"], Options: in.wire()}
	made, f := call[wire.OK](x, wire.TypeQueueCreate, req)
	switch {
	case f == nil && !made.Duplicate:
		x.success = http.StatusCreated
		return &done{OK: true}, nil
	case f == nil && only:
		return nil, wire.NewFault(wire.CodeAlreadyExists, "queue %q exists", x.path["q"])
	case f == nil:
		return &done{OK: true}, nil
	case f.Code != wire.CodeAlreadyExists || only:
		return nil, f
	}
	return x.okay(wire.TypeQueueSet, req)
}
