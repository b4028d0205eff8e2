package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	maxAnswer = 64 << 10 // bytes of an answer that are read
	maxQuoted = 200      // of it in an error
	maxReason = 300      // bytes of an error
)

// outcome is what became of one request.
type outcome uint8

const (
	delivered outcome = iota // 2xx
	rejected                 // an answer that means that no other attempt will do
	failed                   // any other answer, or none
	throttled                // the endpoint asks for a rest
	unreached                // no connection: nothing was sent
	stopped                  // the lease is over, or this node stops
	outcomes
)

var outcomeNames = [outcomes]string{"delivered", "rejected", "failed", "throttled", "unreached", "stopped"}

// answer is what became of a request, and all that follows.
type answer struct {
	outcome outcome
	verdict Verdict
	why     string        // of all but delivered; without the URL
	after   time.Duration // of throttled: the rest asked for, 0 if it is not said
}

// send makes the request for a message.
func (q *runner) send(ctx context.Context, m *Message) answer {
	p := q.p
	rctx, cancel := context.WithTimeout(ctx, q.timeout)
	defer cancel()
	defer context.AfterFunc(q.hard, cancel)()
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(rctx, trace), http.MethodPost, q.target.URL, bytes.NewReader(m.Body))
	if err != nil { // the door has parsed it
		return failure("the URL is none")
	}
	now := p.cfg.Clock.Now().Unix()
	set := func(name, value string) {
		if value != "" && headerValue(value) {
			req.Header.Set(name, value)
		}
	}
	for _, h := range m.Headers {
		if name := strings.ToLower(h.Name); slices.Contains(q.target.Headers, name) {
			set(name, h.Value)
		}
	}
	set("Content-Type", "application/octet-stream")
	set("Content-Type", m.ContentType)
	set("User-Agent", p.cfg.UserAgent)
	set("Webhook-Id", m.ID)
	set("Webhook-Timestamp", strconv.FormatInt(now, 10))
	set("Webhook-Signature", Sign(q.keys, m.ID, now, m.Body))
	set("Quorate-Queue", q.target.Queue)
	set("Quorate-Attempt", strconv.Itoa(m.Attempt))
	set("Quorate-Task-Id", m.TaskID)
	set("Quorate-Kind", m.Kind)
	resp, err := p.http.Do(req)
	switch {
	case err == nil:
	case ctx.Err() != nil || q.hard.Err() != nil:
		return answer{outcome: stopped, verdict: Verdict{Do: Return}, why: "stopped"}
	case !connected.Load():
		return answer{outcome: unreached, verdict: Verdict{Do: Return}, why: "no connection: " + cause(err)}
	case rctx.Err() != nil:
		return failure(fmt.Sprintf("no answer within %s", q.timeout))
	default:
		return failure("no answer: " + cause(err))
	}
	defer resp.Body.Close()
	body, readErr := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	return q.judge(resp, body, readErr == nil && len(body) <= maxAnswer)
}

func failure(why string) answer {
	why = cut(why, maxReason)
	return answer{outcome: failed, verdict: Verdict{Do: Retry, Error: why}, why: why}
}

// judge makes a verdict of an answer. whole says that all of it has been read.
func (q *runner) judge(resp *http.Response, body []byte, whole bool) answer {
	status := resp.StatusCode
	if status >= 200 && status <= 299 {
		v := Verdict{Do: Ack}
		if whole && len(body) > 0 && int64(len(body)) <= q.p.cfg.MaxResult {
			v.Result, v.ContentType = body, resultType(resp.Header.Get("Content-Type"))
		}
		return answer{outcome: delivered, verdict: v}
	}
	why := cut(strings.TrimSpace(strconv.Itoa(status)+" "+http.StatusText(status)), maxReason)
	after, said := retryAfter(resp.Header.Get("Retry-After"), q.p.cfg.Clock.Now())
	switch {
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable && said:
		return answer{outcome: throttled, verdict: Verdict{Do: Return}, why: why, after: after}
	case status >= 300 && status <= 399:
		return failure(why + ": redirects are not followed")
	}
	full := why
	if text := quoted(body); text != "" {
		full = cut(why+": "+text, maxReason)
	}
	if slices.Contains(q.permanent, int64(status)) {
		return answer{outcome: rejected, verdict: Verdict{Do: Dead, Error: full}, why: why}
	}
	return answer{outcome: failed, verdict: Verdict{Do: Retry, Error: full}, why: why}
}

// retryAfter reads a header Retry-After: seconds or a date. said is whether it says anything.
func retryAfter(text string, now time.Time) (d time.Duration, said bool) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, false
	}
	if strings.Trim(text, "0123456789") == "" {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil { // more than anybody waits
			return retryMost, true
		}
		return min(time.Duration(n)*time.Second, retryMost), true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(now), 0), retryMost), true
}

// cause is an error's text without the URL, which may hold what is not for everybody.
func cause(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return cut(plain(err.Error()), maxReason)
}

// quoted is the beginning of an answer as one line.
func quoted(body []byte) string {
	if len(body) > 4*maxQuoted {
		body = body[:4*maxQuoted]
	}
	return cut(plain(string(body)), maxQuoted)
}

func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "."))
	return strings.Join(strings.Fields(text), " ")
}

// cut shortens text to at most n bytes, on a rune.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// headerValue says whether a header can have this value: no control characters but tabs.
func headerValue(v string) bool {
	for _, c := range []byte(v) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// maxResultType is the most that a result's content type may be.
const maxResultType = 128

func resultType(text string) string {
	if len(text) > maxResultType || !utf8.ValidString(text) {
		return ""
	}
	return text
}
