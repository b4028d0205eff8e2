package hook

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/quorate/quorate/transport/httpapi"
	"github.com/quorate/quorate/wire"
)

// WebhookAnswer is the body of 202 and 200.
type WebhookAnswer struct {
	Queued    *bool           `json:"queued,omitzero" required:"false" doc:"it waits for a worker, or is with one; absent: the sender has asked for a challenge"`
	Dropped   bool            `json:"dropped,omitzero" required:"false" doc:"the hook's map has made nothing of it, and nothing was enqueued"`
	ID        string          `json:"id,omitzero" required:"false" doc:"of the message; of a repeat, of the first one"`
	Key       string          `json:"idempotency_key,omitzero" required:"false"`
	Duplicate bool            `json:"duplicate,omitzero" required:"false" doc:"a repeat: nothing was enqueued"`
	Status    string          `json:"status,omitzero" required:"false" enum:"succeeded,dead,cancelled" doc:"of a message that has ended; absent: that is forgotten"`
	Result    *httpapi.Result `json:"result,omitzero" required:"false" doc:"that the worker has recorded; who that was is not said"`
	Challenge string          `json:"challenge,omitzero" required:"false" doc:"what Slack has asked for, before it sends events"`
}

// accept answers for what is in the log.
func (v *visit) accept(r *Receipt, key string) int {
	v.id = r.ID
	status, queued := http.StatusAccepted, true
	a := WebhookAnswer{Queued: &queued, ID: r.ID, Key: key, Duplicate: r.Duplicate}
	if r.Duplicate && (r.Ended || r.Result != nil) {
		status, queued, a.Status = http.StatusOK, false, r.Status
		if r.Result != nil {
			a.Status = wire.StatusSucceeded
			a.Result = httpapi.ResultOf(&wire.Result{TaskID: r.Result.TaskID, Status: wire.StatusSucceeded, Output: r.Result.Output,
				ContentType: r.Result.ContentType, RecordedAt: r.Result.RecordedAt})
		}
	}
	return v.answer(status, &a)
}

// drop answers for a webhook that the hook's map has made nothing of.
func (v *visit) drop(key string) int {
	return v.answer(http.StatusOK, &WebhookAnswer{Queued: new(bool), Dropped: true, Key: key})
}

func (v *visit) answer(status int, body *WebhookAnswer) int {
	return v.send(status, "application/json", body)
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
	p := httpapi.ProblemOf(f, v.request)
	p.Status, p.Title = status, http.StatusText(status)
	p.Field, p.Leader, p.Result = "", "", nil // none of the sender's business
	return v.send(status, httpapi.ProblemType, p)
}

func (v *visit) send(status int, contentType string, body any) int {
	b, err := json.Marshal(body, json.Deterministic(true))
	if err != nil { // nothing of what is sent can fail
		v.s.log.Error("an answer that is no JSON", "err", err)
		status, b = http.StatusInternalServerError, []byte("{}")
	}
	v.tell(status)
	h := v.w.Header()
	h.Set("Content-Type", contentType)
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
		v.s.log.Warn("webhook refused", "hook", v.h.Name, "remote", v.r.RemoteAddr, "request", v.request, "reason", reason.Error(), "refused_before", silent)
	}
	return v.fault(wire.NewFault(wire.CodeUnauthenticated, "%s", reason.Error()))
}

// challenge is what Slack asks back before it sends events to an address.
func (h *hook) challenge(body []byte) (string, bool) {
	if h.Verify.Scheme != "slack" || len(body) > firstBuffer {
		return "", false
	}
	var ask struct {
		Type      string `json:"type"`
		Challenge string `json:"challenge"`
	}
	if json.Unmarshal(body, &ask) != nil || ask.Type != "url_verification" || ask.Challenge == "" {
		return "", false
	}
	return ask.Challenge, true
}
