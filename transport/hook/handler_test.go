package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/bench/leaks"
	"github.com/quorate/quorate/wire"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// log is a Producer: it keeps what it is given, and answers as the log does.
type log struct {
	mu     sync.Mutex
	got    []wire.Message
	queues []string
	answer func(ctx context.Context, m *wire.Message) (Receipt, *wire.Fault)
}

func (l *log) Enqueue(ctx context.Context, queue string, m *wire.Message) (Receipt, *wire.Fault) {
	l.mu.Lock()
	c := *m
	c.Body = bytes.Clone(m.Body)
	l.got, l.queues = append(l.got, c), append(l.queues, queue)
	n, answer := len(l.got), l.answer
	l.mu.Unlock()
	if answer != nil {
		return answer(ctx, m)
	}
	return Receipt{ID: fmt.Sprint("id-", n)}, nil
}

const (
	testSecret = "a secret that nobody may see"
	oldSecret  = "the secret before it"
)

// stand is a handler behind a server.
type stand struct {
	*testing.T
	log  *log
	url  string
	h    *Handler
	logs *safeBuffer
	reg  *prometheus.Registry
}

// safeBuffer is a buffer that two goroutines can have.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func serveHooks(t *testing.T, cfg Config, hooks ...Hook) *stand {
	t.Helper()
	s := &stand{T: t, log: &log{}, logs: &safeBuffer{}, reg: prometheus.NewRegistry()}
	cfg.Hooks, cfg.Producer, cfg.Registry = hooks, s.log, s.reg
	cfg.Logger = slog.New(slog.NewTextHandler(s.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if cfg.MaxMessageBytes == 0 {
		cfg.MaxMessageBytes = 1 << 20
	}
	cfg.Secrets = map[string][][]byte{}
	for _, h := range hooks {
		cfg.Secrets[h.Name] = secrets(testSecret, oldSecret)
	}
	var err error
	if s.h, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/hook/", s.h)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	s.url = srv.URL
	t.Cleanup(func() {
		if text := s.logs.String(); strings.Contains(text, testSecret) || strings.Contains(text, oldSecret) {
			t.Errorf("a secret is in the log: %s", text)
		}
	})
	return s
}

// post sends a request and gives back the answer and its decoded body.
func (s *stand) post(path, body string, pairs ...string) (reply, map[string]any) {
	s.Helper()
	return s.send(http.MethodPost, path, body, pairs...)
}

func (s *stand) send(method, path, body string, pairs ...string) (reply, map[string]any) {
	s.Helper()
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	for name, v := range head(pairs...) {
		req.Header[name] = v
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	var v map[string]any
	if len(b) > 0 {
		if err := json.Unmarshal(b, &v); err != nil {
			s.Fatalf("%s answers %q: %v", path, b, err)
		}
	}
	if strings.Contains(string(b), testSecret) {
		s.Errorf("a secret is in the answer: %s", b)
	}
	return reply{resp.StatusCode, resp.Header, resp.Close}, v
}

// reply is what is left of an answer once its body has been read.
type reply struct {
	StatusCode int
	Header     http.Header
	Close      bool
}

// signed are the headers of a request to a github hook.
func signed(body string, more ...string) []string {
	return append([]string{"X-Hub-Signature-256", "sha256=" + sign(testSecret, body)}, more...)
}

func githubHook(name string) Hook {
	return Hook{Name: name, Queue: "q-" + name, Kind: "push", Verify: Verify{Scheme: "github"}, Idempotency: Idempotency{Header: "X-GitHub-Delivery"},
		KeepHeaders: []string{"X-GitHub-Event", "X-Absent", "Accept-Language"}}
}

// A webhook becomes a message: its bytes as they came, the headers that are kept, who sent it and when.
func TestMessage(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_800_000_000_123)
	s := serveHooks(t, Config{Now: func() time.Time { return at }}, githubHook("gh"))
	body := "{\"n\": 1,\r\n \"é\":\"\xff\x00\"}\n"
	resp, v := s.post("/hook/gh", body, signed(body, "X-GitHub-Delivery", "72d3162e", "X-GitHub-Event", "push", "Content-Type", "application/json; charset=utf-8",
		"Accept-Language", "de", "Accept-Language", "en", "X-Other", "not kept", "Authorization", "not kept")...)
	if resp.StatusCode != http.StatusAccepted || v["queued"] != true || v["id"] != "id-1" || v["idempotency_key"] != "72d3162e" || v["duplicate"] != nil {
		t.Fatalf("%d %v", resp.StatusCode, v)
	}
	m := s.log.got[0]
	if string(m.Body) != body || m.Kind != "push" || m.ContentType != "application/json; charset=utf-8" || s.log.queues[0] != "q-gh" || len(m.DedupKey) != 32 || m.TaskID != "" {
		t.Errorf("the message is %+v in %s", m, s.log.queues[0])
	}
	want := []wire.Header{{Name: "x-github-event", Value: "push"}, {Name: "accept-language", Value: "de, en"},
		{Name: HeaderName, Value: "gh"}, {Name: HeaderSource, Value: "127.0.0.1"}, {Name: HeaderReceived, Value: "1800000000123"}}
	if fmt.Sprint(m.Headers) != fmt.Sprint(want) {
		t.Errorf("its headers are %v, want %v", m.Headers, want)
	}
	if resp, v := s.post("/hook/gh", "", signed("", "X-GitHub-Delivery", "empty")...); resp.StatusCode != http.StatusAccepted || len(s.log.got[1].Body) != 0 {
		t.Errorf("an empty body: %d %v", resp.StatusCode, v)
	}
	sum := sign(oldSecret, body)
	if resp, v := s.post("/hook/gh", body, "X-Hub-Signature-256", "sha256="+sum, "X-GitHub-Delivery", "old"); resp.StatusCode != http.StatusAccepted {
		t.Errorf("the secret that is being replaced: %d %v", resp.StatusCode, v)
	}
}

// What is refused, with which status, and that nothing of it came to the log.
func TestRefusals(t *testing.T) {
	t.Parallel()
	pointed := Hook{Name: "pd", Queue: "q", Verify: Verify{Scheme: "pagerduty"}, Idempotency: Idempotency{Pointer: "/event/id"}, MaxBodyBytes: 100,
		Schema: []byte(`{"type":"object","required":["event"],"properties":{"event":{"type":"object","properties":{"n":{"type":"integer","maximum":9}}}}}`)}
	s := serveHooks(t, Config{}, githubHook("gh"), pointed)
	pd := func(body string) []string { return []string{"X-PagerDuty-Signature", "v1=" + sign(testSecret, body)} }
	big := strings.Repeat("x", 101)
	for _, tc := range []struct {
		name, method, path, body string
		head                     []string
		status                   int
		code, want               string
	}{
		{"no such hook", "POST", "/hook/other", "", nil, 404, "not_found", "no hook"},
		{"a hook's name and more", "POST", "/hook/gh/x", "", nil, 404, "not_found", "no hook"},
		{"no name", "POST", "/hook/", "", nil, 404, "not_found", "no hook"},
		{"GET", "GET", "/hook/gh", "", nil, 405, "invalid_argument", "POST would be right"},
		{"PUT", "PUT", "/hook/gh", "x", signed("x"), 405, "invalid_argument", "POST would be right"},
		{"GET of none", "GET", "/hook/other", "", nil, 404, "not_found", "no hook"},
		{"unsigned", "POST", "/hook/gh", "x", nil, 401, "unauthenticated", "is missing"},
		{"malformed signature", "POST", "/hook/gh", "x", []string{"X-Hub-Signature-256", "sha256=abc"}, 401, "unauthenticated", "32 bytes in hex"},
		{"signature of another body", "POST", "/hook/gh", "x", signed("y"), 401, "unauthenticated", "no signature"},
		{"signature of another secret", "POST", "/hook/gh", "x", []string{"X-Hub-Signature-256", "sha256=" + sign("guessed", "x")}, 401, "unauthenticated", "no signature"},
		{"no idempotency key", "POST", "/hook/gh", "x", signed("x"), 400, "invalid_argument", "X-GitHub-Delivery"},
		{"too large a header to keep", "POST", "/hook/gh", "x", signed("x", "X-GitHub-Delivery", "d", "X-GitHub-Event", strings.Repeat("e", 5000)), 400, "invalid_argument", "at most 4096"},
		{"too large", "POST", "/hook/pd", big, pd(big), 413, "too_large", "more than 100 bytes"},
		{"too large and unsigned: nothing is read", "POST", "/hook/pd", big, nil, 401, "unauthenticated", "is missing"},
		{"not JSON", "POST", "/hook/pd", "event=1", pd("event=1"), 400, "invalid_argument", "no JSON"},
		{"not JSON, and unsigned: nothing is parsed", "POST", "/hook/pd", "event=1", pd("event=2"), 401, "unauthenticated", "no signature"},
		{"not as the schema has it", "POST", "/hook/pd", `{"event":{"id":"a","n":10}}`, pd(`{"event":{"id":"a","n":10}}`), 400, "invalid_argument", "schema"},
		{"no key at the pointer", "POST", "/hook/pd", `{"event":{"n":9}}`, pd(`{"event":{"n":9}}`), 400, "invalid_argument", "/event/id"},
	} {
		resp, v := s.send(tc.method, tc.path, tc.body, tc.head...)
		detail, _ := v["detail"].(string)
		if resp.StatusCode != tc.status || v["code"] != tc.code || v["outcome"] != "refused" || !strings.Contains(detail, tc.want) ||
			resp.Header.Get("Content-Type") != "application/problem+json" || v["retry"] != false || v["status"] != float64(tc.status) ||
			v["request_id"] != resp.Header.Get("X-Request-Id") || v["request_id"] == "" || v["field"] != nil || v["leader"] != nil {
			t.Errorf("%s: %d %v, want %d %s with %q", tc.name, resp.StatusCode, v, tc.status, tc.code, tc.want)
		}
		if tc.status == 405 && resp.Header.Get("Allow") != "POST" {
			t.Errorf("%s: Allow is %q", tc.name, resp.Header.Get("Allow"))
		}
	}
	if len(s.log.got) > 0 {
		t.Errorf("the log got %v", s.log.got)
	}
	good := `{"event":{"id":"a","n":9}}`
	if resp, v := s.post("/hook/pd", good, pd(good)...); resp.StatusCode != 202 || v["idempotency_key"] != "a" {
		t.Errorf("a good one after all that: %d %v", resp.StatusCode, v)
	}
	if n := s.h.bytes.Load(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
	// A flood of refusals is a line a second.
	if n := strings.Count(s.logs.String(), "webhook refused"); n == 0 || n > 12 {
		t.Errorf("%d lines tell of refusals", n)
	}
}

// What the log answers, as the sender hears it.
func TestAnswers(t *testing.T) {
	t.Parallel()
	s := serveHooks(t, Config{}, githubHook("gh"))
	recorded := &wire.Result{TaskID: "t", Output: []byte("out"), ContentType: "text/plain", Worker: "host:1:2", RecordedAt: 77}
	full := wire.NewFault(wire.CodeQueueFull, "full")
	full.Leader = "10.0.0.1:7340" // none of the sender's business
	full.RetryAfterMillis = 30_001
	taken := wire.NewFault(wire.CodeAlreadyExists, "another body")
	taken.ID = "first"
	for _, tc := range []struct {
		name   string
		rec    Receipt
		fault  *wire.Fault
		status int
		want   string // of the body, as JSON without what is the same in all
	}{
		{"new", Receipt{ID: "a"}, nil, 202, `{"id":"a","idempotency_key":"k","queued":true}`},
		{"repeat of one that waits", Receipt{ID: "a", Duplicate: true}, nil, 202, `{"duplicate":true,"id":"a","idempotency_key":"k","queued":true}`},
		{"repeat of one that is done", Receipt{ID: "a", Duplicate: true, Ended: true, Status: "succeeded", Result: recorded}, nil, 200,
			`{"duplicate":true,"id":"a","idempotency_key":"k","queued":false,"result":{"content_type":"text/plain","output":"out","output_encoding":"text","recorded_at":77,"status":"succeeded","task_id":"t"},"status":"succeeded"}`},
		{"repeat of one whose result is JSON", Receipt{ID: "a", Duplicate: true, Ended: true, Result: &wire.Result{TaskID: "t", Output: []byte(`{"n": [1]}`), ContentType: "application/json"}}, nil, 200,
			`{"duplicate":true,"id":"a","idempotency_key":"k","queued":false,"result":{"content_type":"application/json","output":{"n":[1]},"output_encoding":"json","status":"succeeded","task_id":"t"},"status":"succeeded"}`},
		{"repeat of one whose result says that it is JSON", Receipt{ID: "a", Duplicate: true, Result: &wire.Result{TaskID: "t", Output: []byte(`{"n": `), ContentType: "application/json"}}, nil, 200,
			`{"duplicate":true,"id":"a","idempotency_key":"k","queued":false,"result":{"content_type":"application/json","output":"eyJuIjog","output_encoding":"base64","status":"succeeded","task_id":"t"},"status":"succeeded"}`},
		{"repeat of one whose result is bytes", Receipt{ID: "a", Duplicate: true, Result: &wire.Result{TaskID: "t", Output: []byte{0xff}, Queue: "q", Kind: "k", Attempts: 2}}, nil, 200,
			`{"duplicate":true,"id":"a","idempotency_key":"k","queued":false,"result":{"output":"/w==","output_encoding":"base64","status":"succeeded","task_id":"t"},"status":"succeeded"}`},
		{"repeat of one that is done without a result", Receipt{ID: "a", Duplicate: true, Ended: true, Status: "succeeded"}, nil, 200,
			`{"duplicate":true,"id":"a","idempotency_key":"k","queued":false,"status":"succeeded"}`},
		{"repeat of one that died", Receipt{ID: "a", Duplicate: true, Ended: true, Status: "dead"}, nil, 200, `{"duplicate":true,"id":"a","idempotency_key":"k","queued":false,"status":"dead"}`},
		{"repeat of one that is forgotten", Receipt{ID: "a", Duplicate: true, Ended: true}, nil, 200, `{"duplicate":true,"id":"a","idempotency_key":"k","queued":false}`},
		{"the key of another body", Receipt{}, taken, 409, "already_exists"},
		{"full", Receipt{}, full, 503, "queue_full"},
		{"no leader", Receipt{}, wire.NewFault(wire.CodeNoLeader, "none"), 503, "no_leader"},
		{"overloaded", Receipt{}, wire.NewFault(wire.CodeOverloaded, "x"), 503, "overloaded"},
		{"no space", Receipt{}, wire.NewFault(wire.CodeNoSpace, "x"), 503, "no_space"},
		{"rate limited", Receipt{}, wire.NewFault(wire.CodeRateLimited, "x"), 503, "rate_limited"},
		{"no queue", Receipt{}, wire.NewFault(wire.CodeNotFound, "x"), 503, "not_found"},
		{"unknown", Receipt{}, wire.NewFault(wire.CodeTimeout, "x"), 503, "timeout"},
		{"internal", Receipt{}, wire.NewFault(wire.CodeInternal, "x"), 503, "internal"},
	} {
		s.log.answer = func(context.Context, *wire.Message) (Receipt, *wire.Fault) { return tc.rec, tc.fault }
		resp, v := s.post("/hook/gh", "x", signed("x", "X-GitHub-Delivery", "k")...)
		if resp.StatusCode != tc.status {
			t.Errorf("%s: %d %v, want %d", tc.name, resp.StatusCode, v, tc.status)
			continue
		}
		if tc.fault == nil {
			if got := string(mustJSON(v)); got != tc.want {
				t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
			}
			continue
		}
		after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		outcome := map[bool]string{true: "unknown", false: "refused"}[tc.fault.Unknown]
		if v["request_id"] != resp.Header.Get("X-Request-Id") || v["leader"] != nil {
			t.Errorf("%s: %v, headers %v", tc.name, v, resp.Header)
		}
		if v["code"] != tc.want || v["outcome"] != outcome || v["retry"] != (tc.status == 503) || (tc.status == 503) != (after >= 1) {
			t.Errorf("%s: %v, Retry-After %d", tc.name, v, after)
		}
		if tc.fault == full && after != 31 || tc.fault != full && after > 5 {
			t.Errorf("%s: Retry-After %d", tc.name, after)
		}
		if tc.fault == taken && v["id"] != "first" {
			t.Errorf("%s: %v does not name the first", tc.name, v)
		}
	}
}

// Slack asks for a challenge before it sends anything; it is signed as everything else, and no message.
func TestChallenge(t *testing.T) {
	t.Parallel()
	s := serveHooks(t, Config{}, Hook{Name: "s", Queue: "q", Verify: Verify{Scheme: "slack"}, Idempotency: Idempotency{Pointer: "/event_id"}})
	post := func(body, secret string) (reply, map[string]any) {
		at := fmt.Sprint(time.Now().Unix())
		return s.post("/hook/s", body, "X-Slack-Request-Timestamp", at, "X-Slack-Signature", "v0="+sign(secret, "v0:"+at+":"+body))
	}
	ask := `{"token":"x","challenge":"3eZbrw1aB","type":"url_verification"}`
	if resp, v := post(ask, testSecret); resp.StatusCode != 200 || v["challenge"] != "3eZbrw1aB" || len(s.log.got) != 0 {
		t.Errorf("%d %v, %d messages", resp.StatusCode, v, len(s.log.got))
	}
	if resp, v := post(ask, "guessed"); resp.StatusCode != 401 {
		t.Errorf("of another: %d %v", resp.StatusCode, v)
	}
	if resp, v := post(`{"type":"event_callback","event_id":"Ev1","challenge":"x"}`, testSecret); resp.StatusCode != 202 || len(s.log.got) != 1 {
		t.Errorf("an event: %d %v", resp.StatusCode, v)
	}
}

// Whatever is too much is refused with 503 and Retry-After, and what was taken for it is free again.
func TestBounds(t *testing.T) {
	t.Parallel()
	s := serveHooks(t, Config{MaxUnderWay: 2, MaxMessageBytes: 64 << 10, MaxBytes: 100 << 10, Wait: time.Minute}, Hook{Name: "p", Queue: "q", Verify: Verify{Scheme: Plain, Header: "S"}})
	entered, leave := make(chan struct{}, 10), make(chan struct{})
	s.log.answer = func(ctx context.Context, _ *wire.Message) (Receipt, *wire.Fault) {
		entered <- struct{}{}
		select {
		case <-leave:
		case <-ctx.Done():
		}
		return Receipt{ID: "a"}, nil
	}
	send := func(body string) chan int {
		done := make(chan int, 1)
		go func() {
			resp, err := http.DefaultClient.Do(mustRequest(s.url+"/hook/p", strings.NewReader(body), "S", sign(testSecret, body)))
			if err != nil {
				done <- -1
				return
			}
			resp.Body.Close()
			done <- resp.StatusCode
		}()
		return done
	}
	refused := func(what, body string) {
		t.Helper()
		resp, v := s.post("/hook/p", body, "S", sign(testSecret, body))
		if resp.StatusCode != 503 || v["code"] != "overloaded" || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %v", what, resp.StatusCode, v)
		}
	}
	small, large := "x", strings.Repeat("y", 60<<10)
	first := send(large)
	<-entered
	refused("more bytes than there may be", large)
	second := send(small)
	<-entered
	refused("a third one under way", small)
	if resp, v := s.post("/hook/p", small, "S", sign("guessed", small)); resp.StatusCode != 401 {
		t.Errorf("who has no secret is told so, full or not: %d %v", resp.StatusCode, v)
	}
	close(leave)
	if a, b := <-first, <-second; a != 202 || b != 202 {
		t.Errorf("those under way: %d, %d", a, b)
	}
	if resp, v := s.post("/hook/p", large, "S", sign(testSecret, large)); resp.StatusCode != 202 {
		t.Errorf("after them: %d %v", resp.StatusCode, v)
	}
	if n := s.h.bytes.Load(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
	s.h.Drain()
	resp, v := s.post("/hook/p", small, "S", sign(testSecret, small))
	if resp.StatusCode != 503 || v["code"] != "no_leader" || resp.Header.Get("Retry-After") == "" || !resp.Close {
		t.Errorf("while stopping: %d %v", resp.StatusCode, v)
	}
}

func mustRequest(url string, body io.Reader, pairs ...string) *http.Request {
	req, err := http.NewRequest(http.MethodPost, url, body)
	if err != nil {
		panic(err)
	}
	for name, v := range head(pairs...) {
		req.Header[name] = v
	}
	return req
}

// The log has only so long, and a sender that has gone ends its request.
func TestTheLogHasItsTime(t *testing.T) {
	t.Parallel()
	s := serveHooks(t, Config{Wait: 50 * time.Millisecond}, Hook{Name: "p", Queue: "q", Verify: Verify{Scheme: Plain, Header: "S"}})
	s.log.answer = func(ctx context.Context, _ *wire.Message) (Receipt, *wire.Fault) {
		<-ctx.Done()
		return Receipt{}, wire.NewFault(wire.CodeTimeout, "no answer")
	}
	if resp, v := s.post("/hook/p", "x", "S", sign(testSecret, "x")); resp.StatusCode != 503 || v["outcome"] != "unknown" || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%d %v", resp.StatusCode, v)
	}
}

// A body that does not come is waited for as long as it may take, and no longer; what came of it is counted as it came, not as promised.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	s := serveHooks(t, Config{ReadTimeout: 100 * time.Millisecond, MaxBytes: 16 << 10}, Hook{Name: "p", Queue: "q", Verify: Verify{Scheme: Plain, Header: "S"}})
	for _, tc := range []struct{ name, head string }{
		{"with a length", "Content-Length: 900000\r\n\r\nabc"},
		{"in chunks", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"},
	} {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		fmt.Fprintf(c, "POST /hook/p HTTP/1.1\r\nHost: x\r\nS: %s\r\n%s", sign(testSecret, "abc"), tc.head)
		b, err := io.ReadAll(c)
		c.Close()
		if err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 408 ") {
			t.Errorf("%s: %q, %v", tc.name, b, err)
		}
	}
	if n := s.h.bytes.Load(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// Configurations that cannot be served.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, want string
		cfg        Config
	}{
		{"a bad hook", `hook "h"`, Config{Hooks: []Hook{{Name: "h", Queue: "q"}}}},
		{"no secret", "0 secrets", Config{Hooks: []Hook{githubHook("h")}}},
		{"twice", "there twice", Config{Hooks: []Hook{githubHook("h"), githubHook("h")}, Secrets: map[string][][]byte{"h": secrets("s")}}},
		{"too many", "at most 256", Config{Hooks: make([]Hook, 257)}},
	} {
		tc.cfg.MaxMessageBytes = 1 << 20
		if _, err := New(tc.cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// Metrics have the hooks' names and no others.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := serveHooks(t, Config{}, githubHook("gh"))
	s.post("/hook/gh", "x", signed("x", "X-GitHub-Delivery", "k")...)
	s.post("/hook/gh", "x")
	s.post("/hook/made-up", "x")
	s.post("/hook/made-up-too", "x")
	all, err := s.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range all {
		if f.GetName() != "quorate_hook_requests_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			key := ""
			for _, l := range m.GetLabel() {
				key += l.GetValue() + " "
			}
			got[key] = m.GetCounter().GetValue()
		}
	}
	if fmt.Sprint(got) != "map[ 404 :2 gh 202 :1 gh 401 :1]" {
		t.Errorf("counted: %v", got)
	}
}
