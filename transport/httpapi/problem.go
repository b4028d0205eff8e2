package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/quorate/quorate/wire"
)

// Problem is an error answer: RFC 9457, with the fields of the one table of errors.
type Problem struct {
	Type             string  `json:"type" doc:"urn:quorate:error: and the code"`
	Title            string  `json:"title" doc:"the status in words"`
	Status           int     `json:"status" doc:"HTTP status"`
	Detail           string  `json:"detail" doc:"what was wrong and what would be right"`
	Code             string  `json:"code" doc:"for programs: treat an unknown one like internal"`
	Outcome          string  `json:"outcome" enum:"refused,unknown" doc:"refused: certainly not applied, now or later; unknown: it may have been, or may yet be"`
	Retry            bool    `json:"retry" doc:"may the same request succeed later"`
	RetryAfterMillis int64   `json:"retry_after_ms,omitzero" required:"false" doc:"wait at least this long before"`
	Field            string  `json:"field,omitzero" required:"false" doc:"which part of the request was wrong"`
	ID               string  `json:"id,omitzero" required:"false" doc:"already_exists: the message that came first"`
	Result           *Result `json:"result,omitzero" required:"false" doc:"already_exists: the result that was recorded first"`
	Leader           string  `json:"leader,omitzero" required:"false" doc:"client address of the node that leads"`
	RequestID        string  `json:"request_id,omitzero" required:"false" doc:"X-Request-Id of the request"`
}

// outcome names of a Problem.
const (
	refused = "refused"
	unknown = "unknown"
)

// ProblemType is the media type of a Problem.
const ProblemType = "application/problem+json"

// ProblemOf is a fault as the answer to a request with that id.
func ProblemOf(f *wire.Fault, requestID string) *Problem {
	status := f.Code.HTTP()
	p := &Problem{
		Type: "urn:quorate:error:" + string(f.Code), Title: http.StatusText(status), Status: status, Detail: f.Message, Code: string(f.Code),
		Outcome: refused, Retry: f.Retry, RetryAfterMillis: f.RetryAfterMillis, Field: f.Field, ID: f.ID, Leader: f.Leader,
		RequestID: requestID,
	}
	if f.Unknown {
		p.Outcome = unknown
	}
	if f.Result != nil {
		p.Result = resultOf(f.Result, true, "")
	}
	return p
}

// later is f with a time after which a retry makes sense.
func later(f *wire.Fault, after time.Duration) *wire.Fault {
	f.RetryAfterMillis = after.Milliseconds()
	return f
}

// refuse answers with a problem.
func (x *exchange) refuse(f *wire.Fault) {
	if f.Code == wire.CodeNotLeader { // this API forwards; where it cannot, there is nobody to go to
		g := *f
		g.Code = wire.CodeNoLeader
		f = &g
	}
	p := ProblemOf(f, x.id)
	if x.override != 0 {
		p.Status, p.Title = x.override, http.StatusText(x.override)
	}
	if f.At != nil {
		x.stamp(*f.At)
	}
	if p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests {
		p.RetryAfterMillis = max(p.RetryAfterMillis, 1)
		x.w.Header().Set("Retry-After", strconv.FormatInt((p.RetryAfterMillis+999)/1000, 10))
	}
	b, err := json.Marshal(p)
	if err != nil {
		x.api.log.Error("a problem that is no JSON", "err", err)
		b = []byte(`{}`)
	}
	x.send(p.Status, ProblemType, append(b, '\n'))
}
