package httpapi

import (
	"cmp"

	"github.com/quorate/quorate/wire"
)

const leasePath = "/v1/queues/{q}/lease"

// leaseRequest is a pull.
type leaseRequest struct {
	Max          int32  `json:"max,omitzero" required:"false" minimum:"1" maximum:"1000" doc:"messages at most; absent: 1"`
	WaitMillis   int64  `json:"wait_ms,omitzero" required:"false" minimum:"0" maximum:"600000" doc:"for the first one, at most"`
	LeaseMillis  int64  `json:"lease_ms,omitzero" required:"false" minimum:"100" maximum:"43200000" doc:"absent: the queue's"`
	Worker       string `json:"worker,omitzero" required:"false" maxLength:"128" doc:"host:pid:index by custom"`
	BodyEncoding string `json:"body_encoding,omitzero" required:"false" enum:"base64" doc:"base64: bodies come byte for byte, whatever they are"`
	Envelope     string `json:"envelope,omitzero" required:"false" enum:"job" doc:"job: the job envelope instead of messages"`
}

// Leased is a message handed out.
type Leased struct {
	ID              string            `json:"id"`
	Token           string            `json:"token" doc:"of the lease, for ack, nack, extend and release; later ones of a message are greater"`
	TaskID          string            `json:"task_id"`
	Attempt         int32             `json:"attempt" doc:"1 the first time"`
	LeaseLeftMillis int64             `json:"lease_left_ms"`
	Body            Any               `json:"body"`
	BodyEncoding    string            `json:"body_encoding" enum:"json,text,base64" doc:"what body is: the JSON itself, text, or base64"`
	Kind            string            `json:"kind,omitzero" required:"false"`
	ContentType     string            `json:"content_type,omitzero" required:"false"`
	Headers         map[string]string `json:"headers,omitzero" required:"false"`
	Priority        uint8             `json:"priority"`
	Key             string            `json:"key,omitzero" required:"false"`
	KeyBase64       *string           `json:"key_base64,omitzero" required:"false"`
	EnqueuedAt      int64             `json:"enqueued_at" doc:"Unix ms, log time"`
	TimeoutMillis   int64             `json:"timeout_ms,omitzero" required:"false"`
	Redrives        int32             `json:"redrives,omitzero" required:"false" doc:"how often it came back from the dead"`
	AtMostOnce      bool              `json:"at_most_once,omitzero" required:"false" doc:"it is done already: there is nothing to ack"`
}

type leaseAnswer struct {
	Messages *[]Leased    `json:"messages,omitzero" required:"false" doc:"none: none came within the wait"`
	Jobs     *[]LeasedJob `json:"jobs,omitzero" required:"false" doc:"instead of messages, where the job envelope was asked for"`
}

func leasedOf(d *wire.Delivered, want string) Leased {
	l := Leased{
		ID: d.ID, Token: d.Token, TaskID: d.TaskID, Attempt: d.Attempt, LeaseLeftMillis: d.LeaseLeftMillis, Kind: d.Kind, ContentType: d.ContentType,
		Headers: headersOf(d.Headers), Priority: d.Priority, EnqueuedAt: d.EnqueuedAt, TimeoutMillis: d.TimeoutMillis, Redrives: d.Redrives, AtMostOnce: d.AtMostOnce,
	}
	if l.TaskID == "" {
		l.TaskID = d.ID
	}
	l.Body, l.BodyEncoding = bodyJSON(d.Body, d.ContentType, want)
	l.Key, l.KeyBase64 = keyJSON(d.Key)
	return l
}

func jobLeased(d *wire.Delivered, want string) *LeasedJob {
	return &LeasedJob{ID: d.ID, Token: d.Token, LeaseLeftMillis: d.LeaseLeftMillis,
		Job: jobOf(cmp.Or(d.TaskID, d.ID), d.Kind, d.Attempt, 0, d.Body, d.ContentType, d.Headers, d.EnqueuedAt, want)}
}

// ackRequest ends a lease with success.
type ackRequest struct {
	Result *ResultGiven `json:"result,omitzero" required:"false" doc:"recorded in the same log entry"`
	Then   []thenGiven  `json:"then,omitzero" required:"false" maxItems:"1000" doc:"messages enqueued in the same log entry: all of them, or the ack is refused"`
}

type thenGiven struct {
	Queue string `json:"queue"`
	Message
}

type nackRequest struct {
	Error       string `json:"error,omitzero" required:"false" doc:"the first 4096 bytes are kept"`
	DelayMillis *int64 `json:"delay_ms,omitzero" required:"false" minimum:"0" doc:"absent: by the retry policy"`
	Permanent   bool   `json:"permanent,omitzero" required:"false" doc:"dead at once, whatever attempts are left"`
}

type extendRequest struct {
	LeaseMillis int64 `json:"lease_ms,omitzero" required:"false" minimum:"100" maximum:"43200000" doc:"from now; absent: the queue's"`
}

// LeaseEnded is the answer to ack, nack, extend and release, each with the fields that it has.
type LeaseEnded struct {
	OK              bool    `json:"ok"`
	Duplicate       bool    `json:"duplicate,omitzero" required:"false" doc:"ack: it was done before"`
	Result          *Result `json:"result,omitzero" required:"false" doc:"ack, with duplicate: what was recorded first"`
	Dead            bool    `json:"dead,omitzero" required:"false" doc:"nack: it will not be delivered again"`
	DueAt           int64   `json:"due_at,omitzero" required:"false" doc:"nack: Unix ms of the retry, log time"`
	LeaseLeftMillis int64   `json:"lease_left_ms,omitzero" required:"false" doc:"extend"`
}

// leaseOp is one operation of a batch.
type leaseOp struct {
	Op          string       `json:"op" enum:"ack,nack,extend,release"`
	Token       string       `json:"token"`
	Result      *ResultGiven `json:"result,omitzero" required:"false" doc:"ack"`
	Then        []thenGiven  `json:"then,omitzero" required:"false" doc:"ack"`
	Error       string       `json:"error,omitzero" required:"false" doc:"nack"`
	DelayMillis *int64       `json:"delay_ms,omitzero" required:"false" doc:"nack"`
	Permanent   bool         `json:"permanent,omitzero" required:"false" doc:"nack"`
	LeaseMillis int64        `json:"lease_ms,omitzero" required:"false" doc:"extend"`
}

type leaseBatch struct {
	Operations []leaseOp `json:"operations" minItems:"1" maxItems:"1000"`
}

type leaseBatchAnswer struct {
	Outcomes []leaseOutcome `json:"outcomes" doc:"one for each operation, in order"`
}

type leaseOutcome struct {
	LeaseEnded
	Error *Problem `json:"error,omitzero" required:"false" doc:"this operation was refused, the others go on"`
}

func leaseRoutes() []*route {
	const one = "/v1/leases/{token}/"
	return []*route{
		with(route{method: "POST", path: leasePath, summary: "Lease messages; waits for the first as long as is asked for", optional: true, secret: true}, lease),
		with(route{method: "POST", path: one + "ack", summary: "The work is done", optional: true, secret: true}, func(x *exchange, in *ackRequest) (*LeaseEnded, *wire.Fault) {
			return x.endLease(&leaseOp{Op: "ack", Token: x.path["token"], Result: in.Result, Then: in.Then})
		}),
		with(route{method: "POST", path: one + "nack", summary: "The work has failed", optional: true, secret: true}, func(x *exchange, in *nackRequest) (*LeaseEnded, *wire.Fault) {
			return x.endLease(&leaseOp{Op: "nack", Token: x.path["token"], Error: in.Error, DelayMillis: in.DelayMillis, Permanent: in.Permanent})
		}),
		with(route{method: "POST", path: one + "extend", summary: "More time", optional: true, secret: true}, func(x *exchange, in *extendRequest) (*LeaseEnded, *wire.Fault) {
			return x.endLease(&leaseOp{Op: "extend", Token: x.path["token"], LeaseMillis: in.LeaseMillis})
		}),
		with(route{method: "POST", path: one + "release", summary: "Give it back; the attempt does not count", optional: true, secret: true}, func(x *exchange, _ *struct{}) (*LeaseEnded, *wire.Fault) {
			return x.endLease(&leaseOp{Op: "release", Token: x.path["token"]})
		}),
		with(route{method: "POST", path: "/v1/leases/batch", summary: "Up to 1000 acks, nacks, extensions and releases, each with its own outcome", secret: true}, endLeases),
	}
}

func lease(x *exchange, in *leaseRequest) (*leaseAnswer, *wire.Fault) {
	if in.Max == 0 {
		in.Max = 1
	}
	switch {
	case in.BodyEncoding != "" && in.BodyEncoding != encBase64:
		return nil, wire.Invalid("body_encoding", "%.40q; base64, or none, would be right", in.BodyEncoding)
	case in.Envelope != "" && in.Envelope != "job":
		return nil, wire.Invalid("envelope", "%.40q; job, or none, would be right", in.Envelope)
	}
	rep, f := x.leased(&wire.Lease{Queue: x.path["q"], Max: in.Max, WaitMillis: in.WaitMillis, LeaseMillis: in.LeaseMillis, Worker: in.Worker})
	if f != nil {
		return nil, f
	}
	if in.Envelope == "job" {
		jobs := make([]LeasedJob, len(rep.Messages))
		for i := range rep.Messages {
			jobs[i] = *jobLeased(&rep.Messages[i], in.BodyEncoding)
		}
		return &leaseAnswer{Jobs: &jobs}, nil
	}
	ms := make([]Leased, len(rep.Messages))
	for i := range rep.Messages {
		ms[i] = leasedOf(&rep.Messages[i], in.BodyEncoding)
	}
	return &leaseAnswer{Messages: &ms}, nil
}

// leased pulls, and remembers what was given so that it can be given back if it cannot be sent.
func (x *exchange) leased(req *wire.Lease) (*wire.Leased, *wire.Fault) {
	rep, f := call[wire.Leased](x, wire.TypeLease, req)
	if f != nil {
		return nil, f
	}
	for i := range rep.Messages {
		if d := &rep.Messages[i]; !d.AtMostOnce && !x.replayed() { // whom they were given first may have them
			x.tokens = append(x.tokens, d.Token)
		}
	}
	return rep, nil
}

// request turns an operation on a lease into the protocol's.
func (o *leaseOp) request(maxBytes int64) (r Request, f *wire.Fault) {
	given := []struct {
		name string
		is   bool
		of   string
	}{
		{"result", o.Result != nil, "ack"}, {"then", o.Then != nil, "ack"}, {"error", o.Error != "", "nack"},
		{"delay_ms", o.DelayMillis != nil, "nack"}, {"permanent", o.Permanent, "nack"}, {"lease_ms", o.LeaseMillis != 0, "extend"},
	}
	for _, g := range given {
		if g.is && g.of != o.Op {
			return r, wire.Invalid(g.name, "op %.20q has none: it belongs to %s", o.Op, g.of)
		}
	}
	switch o.Op {
	case "ack":
		a := &wire.Ack{Token: o.Token}
		if o.Result != nil {
			res, f := o.Result.wire("result")
			if f != nil {
				return r, f
			}
			a.Result = &res
		}
		for i := range o.Then {
			m, f := o.Then[i].wire(maxBytes)
			if f == nil {
				f = wire.CheckQueue("queue", o.Then[i].Queue)
			}
			if f != nil {
				return r, nth(f, "then", i)
			}
			a.Then = append(a.Then, wire.Then{Queue: o.Then[i].Queue, Message: m})
		}
		return Request{Type: wire.TypeAck, Body: a}, a.Validate(maxBytes)
	case "nack":
		n := &wire.Nack{Token: o.Token, Error: wire.CutText(o.Error, wire.MaxErrorBytes), DelayMillis: o.DelayMillis, Permanent: o.Permanent}
		return Request{Type: wire.TypeNack, Body: n}, n.Validate()
	case "extend":
		e := &wire.Extend{Token: o.Token, LeaseMillis: o.LeaseMillis}
		return Request{Type: wire.TypeExtend, Body: e}, e.Validate()
	case "release":
		e := &wire.Release{Token: o.Token}
		return Request{Type: wire.TypeRelease, Body: e}, e.Validate()
	}
	return r, wire.Invalid("op", "%.40q; ack, nack, extend or release would be right", o.Op)
}

// ended reads what became of an operation on a lease.
func (x *exchange) ended(a Answer) (*LeaseEnded, *wire.Fault) {
	e := &LeaseEnded{OK: true}
	if a.Fault != nil {
		return nil, a.Fault
	}
	switch b := a.Body.(type) {
	case *wire.Acked:
		e.Duplicate = b.Duplicate
		if b.Result != nil {
			e.Result = resultOf(b.Result, true, "")
		}
		x.stamp(b.At)
	case *wire.Nacked:
		e.Dead, e.DueAt = b.Dead, b.DueAt
		x.stamp(b.At)
	case *wire.Extended:
		e.LeaseLeftMillis = b.LeaseLeftMillis
		x.stamp(b.At)
	case *wire.OK:
		x.stamp(b.At)
	default:
		return nil, wire.NewFault(wire.CodeInternal, "an answer of type %d came for an operation on a lease", a.Type)
	}
	return e, nil
}

func (x *exchange) endLease(op *leaseOp) (*LeaseEnded, *wire.Fault) {
	r, f := op.request(x.api.cfg.MaxMessageBytes)
	if f != nil {
		return nil, f
	}
	return x.ended(x.do(r)[0])
}

func endLeases(x *exchange, in *leaseBatch) (*leaseBatchAnswer, *wire.Fault) {
	if n := len(in.Operations); n == 0 || n > wire.MaxBatch {
		return nil, wire.Invalid("operations", "%d of them; 1 to %d are allowed", n, wire.MaxBatch)
	}
	out := make([]leaseOutcome, len(in.Operations))
	var reqs []Request
	var places []int
	for i := range in.Operations {
		r, f := in.Operations[i].request(x.api.cfg.MaxMessageBytes)
		if f != nil {
			out[i].Error = ProblemOf(nth(f, "operations", i), "")
			continue
		}
		reqs, places = append(reqs, r), append(places, i)
	}
	if len(reqs) == 0 {
		return &leaseBatchAnswer{out}, nil
	}
	moved := 0
	var led *wire.Fault
	for i, a := range x.do(reqs...) {
		e, f := x.ended(a)
		if f != nil {
			if f.Code == wire.CodeAlreadyExists && f.Field == keyHeader {
				return nil, f // the key is another request's, so nothing was carried out
			}
			if f.Code == wire.CodeNotLeader && !f.Unknown {
				moved, led = moved+1, f
			}
			out[places[i]].Error = ProblemOf(f, "")
			continue
		}
		out[places[i]].LeaseEnded = *e
	}
	if moved == len(reqs) {
		return nil, led // the whole batch can go elsewhere
	}
	return &leaseBatchAnswer{out}, nil
}
