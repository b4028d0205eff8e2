package hook

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/quorate/quorate/wire"
)

// accepted is the body of 202 and 200.
type accepted struct {
	Queued    bool    `json:"queued"` // it waits for a worker or is with one
	ID        string  `json:"id"`
	Key       string  `json:"idempotency_key,omitempty"`
	Duplicate bool    `json:"duplicate,omitempty"`
	Status    string  `json:"status,omitempty"` // of one that has ended
	Result    *result `json:"result,omitempty"`
}

// result is what a worker has recorded. Who it was is none of the sender's business.
type result struct {
	TaskID      string `json:"task_id"`
	Status      string `json:"status"`
	Output      []byte `json:"output"` // base64
	ContentType string `json:"content_type,omitempty"`
	RecordedAt  int64  `json:"recorded_at"` // log time, Unix ms
}

// accept answers for what is in the log.
func (v *visit) accept(r *Receipt, key string) int {
	v.id = r.ID
	a := accepted{Queued: true, ID: r.ID, Key: key, Duplicate: r.Duplicate}
	status := http.StatusAccepted
	if r.Duplicate && (r.Ended || r.Result != nil) {
		status = http.StatusOK
		a.Queued, a.Status = false, r.Status
		if r.Result != nil {
			a.Status = wire.StatusSucceeded
			a.Result = &result{TaskID: r.Result.TaskID, Status: wire.StatusSucceeded, Output: append([]byte{}, r.Result.Output...),
				ContentType: r.Result.ContentType, RecordedAt: r.Result.RecordedAt}
		}
	}
	return v.answer(status, &a)
}

func (v *visit) answer(status int, body any) int {
	return v.send(status, "application/json", body)
}

// problem is an error answer: RFC 9457, with the fields of the one table of errors.
type problem struct {
	Type             string `json:"type"`
	Title            string `json:"title"`
	Status           int    `json:"status"`
	Detail           string `json:"detail"`
	Code             string `json:"code"`
	Outcome          string `json:"outcome"` // refused, or unknown: it may be in the log
	Retry            bool   `json:"retry"`
	RetryAfterMillis int64  `json:"retry_after_ms,omitempty"`
	ID               string `json:"id,omitempty"` // of the message that has the idempotency key
}

// spread is how many seconds the refused come back over, so that they do not come back together.
const spread = 5

// fault answers for a fault. Senders know few statuses: whatever the sender cannot cure is 503, and he is asked to come again.
func (v *visit) fault(f *wire.Fault) int {
	switch f.Code {
	case wire.CodeInvalidArgument, wire.CodeUnauthenticated, wire.CodeAlreadyExists, wire.CodeTooLarge:
		return v.refuse(f.Code.HTTP(), f)
	}
	again := *f
	again.Retry = true
	again.RetryAfterMillis = max(f.RetryAfterMillis, 1000*(1+rand.Int64N(spread)))
	v.w.Header().Set("Retry-After", strconv.FormatInt((again.RetryAfterMillis+999)/1000, 10))
	return v.refuse(http.StatusServiceUnavailable, &again)
}

func (v *visit) refuse(status int, f *wire.Fault) int {
	v.code = string(f.Code)
	p := &problem{
		Type: "urn:quorate:error:" + string(f.Code), Title: http.StatusText(status), Status: status, Detail: f.Message, Code: string(f.Code),
		Outcome: "refused", Retry: f.Retry, RetryAfterMillis: f.RetryAfterMillis, ID: f.ID,
	}
	if f.Unknown {
		p.Outcome = "unknown"
	}
	return v.send(status, "application/problem+json", p)
}

func (v *visit) send(status int, contentType string, body any) int {
	b, err := json.Marshal(body)
	if err != nil { // nothing of what is sent can fail
		v.s.log.Error("an answer that is no JSON", "err", err)
		status, b = http.StatusInternalServerError, []byte("{}")
	}
	v.tell(status)
	h := v.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(append(b, '\n')) // a sender that has gone sends it again
	return status
}

// told counts refused signatures, so that a flood of them is a line a second in the log.
type told struct {
	mu     sync.Mutex
	last   time.Time // guarded by mu
	silent int       // guarded by mu: refusals since that no line tells of
}

// due reports whether it is time for a line, and how many refusals went by without one.
func (t *told) due(now time.Time) (bool, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.last.IsZero() && now.Sub(t.last).Abs() < time.Second {
		t.silent++
		return false, 0
	}
	n := t.silent
	t.last, t.silent = now, 0
	return true, n
}

// unsigned answers a request whose signature does not hold. reason holds neither the signature nor the body.
func (v *visit) unsigned(reason error) int {
	if due, silent := v.h.told.due(v.began); due {
		v.s.log.Warn("webhook refused", "hook", v.h.Name, "remote", v.r.RemoteAddr, "reason", reason.Error(), "refused_before", silent)
	}
	return v.fault(wire.NewFault(wire.CodeUnauthenticated, "%s", reason.Error()))
}

// challenge is what Slack asks back before it sends events to an address.
func (h *hook) challenge(body []byte) (string, bool) {
	if h.Verify.Scheme != "slack" || len(body) > firstBuffer {
		return "", false
	}
	var ask struct{ Type, Challenge string }
	if json.Unmarshal(body, &ask) != nil || ask.Type != "url_verification" || ask.Challenge == "" {
		return "", false
	}
	return ask.Challenge, true
}
