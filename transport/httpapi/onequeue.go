package httpapi

import (
	"cmp"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quorate/quorate/wire"
)

// The one-queue API is for shells and small programs: one queue, messages known by their ids alone, names as its users write them. It is the
// same queue as everywhere else, "default" or the one that ?queue= names.

const (
	defaultQueue = "default"
	pollPath     = "/queue/poll"
)

var oneQueueParam = param{name: "queue", kind: "string", doc: "absent: default"}

type oneEnqueue struct {
	Value   Any        `json:"value" doc:"any JSON value"`
	Options oneOptions `json:"options,omitzero" required:"false"`
}

type oneOptions struct {
	Delay             int64      `json:"delay,omitzero" required:"false" minimum:"0" doc:"ms"`
	Priority          *uint8     `json:"priority,omitzero" required:"false" minimum:"0" maximum:"9"`
	BackoffSchedule   []int64    `json:"backoffSchedule,omitzero" required:"false" doc:"ms to wait before each retry; [] for none; absent: the queue's"`
	KeysIfUndelivered [][]string `json:"keysIfUndelivered,omitzero" required:"false" doc:"KV keys that receive the value if it cannot be delivered"`
}

type oneID struct {
	OK bool   `json:"ok"`
	ID string `json:"id"`
}

type oneNewID struct {
	OK    bool   `json:"ok"`
	NewID string `json:"newId"`
}

type oneAck struct {
	ID string `json:"id"`
}

type oneNack struct {
	ID    string `json:"id"`
	Error string `json:"error,omitzero" required:"false"`
}

type onePoll struct {
	Message *oneMessage `json:"message" doc:"null: there is none"`
}

// TransformSchema says that there may be no message, for which a reference has no place.
func (onePoll) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.Properties["message"] = &huma.Schema{OneOf: []*huma.Schema{s.Properties["message"], {Type: "null"}}}
	return s
}

type oneMessage struct {
	ID       string `json:"id"`
	Value    Any    `json:"value" doc:"JSON as it was enqueued; of other bodies a string: text, or base64"`
	Attempts int32  `json:"attempts"`
}

type oneStats struct {
	Pending    int64 `json:"pending"`
	Processing int64 `json:"processing"`
	DLQ        int64 `json:"dlq"`
	Total      int64 `json:"total" doc:"pending and processing, and what waits for its time"`
}

type oneDead struct {
	ID                string `json:"id"`
	OriginalID        string `json:"originalId"`
	Value             Any    `json:"value"`
	Attempts          int32  `json:"attempts"`
	ErrorMessage      string `json:"errorMessage"`
	OriginalCreatedAt int64  `json:"originalCreatedAt" doc:"Unix ms"`
	FailedAt          int64  `json:"failedAt" doc:"Unix ms"`
}

type oneDeleted struct {
	OK      bool  `json:"ok"`
	Deleted int64 `json:"deletedCount"`
}

func oneDeadOf(t *wire.Task) oneDead {
	j := taskOf(t, "")
	return oneDead{ID: j.ID, OriginalID: j.OriginalID, Value: j.Body, Attempts: j.Attempts, ErrorMessage: j.ErrorMessage,
		OriginalCreatedAt: j.OriginalCreatedAt, FailedAt: j.FailedAt}
}

// one is the queue that a request is about.
func (x *exchange) one() string {
	if q, given := x.query["queue"]; given {
		return q
	}
	return defaultQueue
}

func oneQueueRoutes() []*route {
	q := []param{oneQueueParam}
	const dead = "/queue/dlq/{id}"
	return []*route{
		with(route{method: "POST", path: "/queue/enqueue", summary: "One queue: put a value in", query: q}, oneIn),
		plain(route{method: "GET", path: pollPath, summary: "One queue: lease the next message, if there is one", secret: true, query: []param{oneQueueParam, waitParam}}, poll),
		with(route{method: "POST", path: "/queue/ack", summary: "One queue: the message is done", query: q}, func(x *exchange, in *oneAck) (*done, *wire.Fault) {
			return x.endOne(in.ID, leaseOp{Op: "ack"})
		}),
		with(route{method: "POST", path: "/queue/nack", summary: "One queue: the message has failed", query: q}, func(x *exchange, in *oneNack) (*done, *wire.Fault) {
			return x.endOne(in.ID, leaseOp{Op: "nack", Error: in.Error})
		}),
		plain(route{method: "GET", path: "/queue/stats", summary: "One queue: its counts", query: q}, func(x *exchange) (*oneStats, *wire.Fault) {
			rep, f := call[wire.QueueIs](x, wire.TypeQueueShow, &wire.QueueRef{Queue: x.one()})
			if missing(f) {
				return &oneStats{}, nil // it is made by the first enqueue
			}
			if f != nil {
				return nil, f
			}
			s := statsOf(&rep.Queue)
			return &oneStats{Pending: s.Pending, Processing: s.Processing, DLQ: s.DLQ, Total: s.Total}, nil
		}),
		plain(route{method: "GET", path: "/queue/dlq", summary: "One queue: its dead letters", query: []param{oneQueueParam, limitParam, {name: "offset", kind: "integer", most: maxOffset}}}, func(x *exchange) (*[]oneDead, *wire.Fault) {
			rep, f := x.deadFrom(&wire.DeadList{Queue: x.one()}, "", x.int("offset"), int32(x.int("limit")))
			if missing(f) {
				return &[]oneDead{}, nil
			}
			if f != nil {
				return nil, f
			}
			list := make([]oneDead, len(rep.Tasks))
			for i := range rep.Tasks {
				list[i] = oneDeadOf(&rep.Tasks[i])
			}
			return &list, nil
		}),
		plain(route{method: "GET", path: dead, summary: "One queue: a dead letter", query: q}, func(x *exchange) (*oneDead, *wire.Fault) {
			rep, f := call[wire.TaskIs](x, wire.TypeDeadGet, &wire.DeadGet{Queue: x.one(), ID: x.path["id"]})
			if f != nil {
				return nil, f
			}
			j := oneDeadOf(&rep.Task)
			return &j, nil
		}),
		plain(route{method: "POST", path: dead + "/requeue", summary: "One queue: bring a dead letter back", query: q}, func(x *exchange) (*oneNewID, *wire.Fault) {
			out, f := x.deadIDs(wire.TypeDeadRequeue, x.one(), []string{x.path["id"]})
			if f == nil {
				f = out[0].Fault
			}
			if f != nil {
				return nil, f
			}
			return &oneNewID{OK: true, NewID: out[0].ID}, nil
		}),
		plain(route{method: "DELETE", path: dead, summary: "One queue: delete a dead letter", query: q}, func(x *exchange) (*oneDeleted, *wire.Fault) {
			out, f := x.deadIDs(wire.TypeDeadDelete, x.one(), []string{x.path["id"]})
			if f == nil {
				f = out[0].Fault
			}
			if f != nil {
				return nil, f
			}
			return &oneDeleted{OK: true, Deleted: 1}, nil
		}),
		plain(route{method: "DELETE", path: "/queue/dlq", summary: "One queue: delete all dead letters", query: q}, func(x *exchange) (*oneDeleted, *wire.Fault) {
			rep, f := call[wire.Counted](x, wire.TypeDeadPurge, &wire.QueueRef{Queue: x.one()})
			if missing(f) {
				return &oneDeleted{OK: true}, nil
			}
			if f != nil {
				return nil, f
			}
			return &oneDeleted{OK: true, Deleted: rep.Count}, nil
		}),
	}
}

func missing(f *wire.Fault) bool { return f != nil && f.Code == wire.CodeNotFound }

func oneIn(x *exchange, in *oneEnqueue) (*oneID, *wire.Fault) {
	if in.Value == nil {
		return nil, wire.Invalid("value", "missing: any JSON value would be right")
	}
	o := &in.Options
	m := Message{Body: in.Value, DelayMillis: o.Delay, Priority: o.Priority, Keys: o.KeysIfUndelivered}
	switch {
	case o.BackoffSchedule == nil:
	case len(o.BackoffSchedule) == 0:
		m.Retry = &Retry{Kind: wire.RetryFixed, MaxAttempts: 1}
	default:
		m.Retry = &Retry{Kind: wire.RetrySchedule, Steps: o.BackoffSchedule}
	}
	w, f := m.wire(x.api.cfg.MaxMessageBytes)
	if f != nil {
		return nil, f
	}
	out, f := x.enqueued(x.one(), w)
	if f != nil {
		return nil, f
	}
	x.success = http.StatusOK
	return &oneID{OK: true, ID: out.ID}, nil
}

func poll(x *exchange) (*onePoll, *wire.Fault) {
	rep, f := x.leased(&wire.Lease{Queue: x.one(), Max: 1, WaitMillis: x.int("wait_ms")})
	if missing(f) {
		return &onePoll{}, nil // it is made by the first enqueue
	}
	if f != nil {
		return nil, f
	}
	if len(rep.Messages) == 0 {
		return &onePoll{}, nil
	}
	return &onePoll{oneMessageOf(&rep.Messages[0])}, nil
}

func oneMessageOf(d *wire.Delivered) *oneMessage {
	v, _ := bodyJSON(d.Body, d.ContentType, "")
	return &oneMessage{ID: d.ID, Value: v, Attempts: d.Attempt}
}

// endOne ends the current lease of a message, or, again, the last.
func (x *exchange) endOne(id string, op leaseOp) (*done, *wire.Fault) {
	if f := wire.CheckID("id", id); f != nil {
		return nil, f
	}
	ctx, cancel := context.WithTimeout(x.ctx, x.api.cfg.CallTimeout)
	defer cancel()
	var f *wire.Fault
	if op.Token, f = x.api.cfg.Node.LastToken(ctx, id); f != nil {
		// The message may have gone since this request was first carried out, and then any token will do to be given the answer.
		if _, kept, g := x.kept(); g != nil || !kept {
			return nil, cmp.Or(g, f)
		}
		op.Token = id + noID
	}
	if _, f = x.endLease(&op); f != nil {
		return nil, f
	}
	return &done{OK: true}, nil
}
