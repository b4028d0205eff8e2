package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/leaks"
	"github.com/quorate/quorate/wire"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// fakeNode answers every request with what a test says, or an empty answer of the right kind.
type fakeNode struct {
	mu     sync.Mutex
	leader string
	away   bool
	answer func(Request) *Answer // nil, or nil from it: success
	asked  []Request             // guarded by mu
	back   []string              // guarded by mu: tokens given back

	feed   *fakeFeed       // guarded by mu: what listeners get; nil: a new one each
	heard  *wire.Subscribe // guarded by mu: what the last listener asked for
	looked chan struct{}   // guarded by mu: told of each look for the leader, where there is room

	kept   func(*Idempotency) ([]byte, bool) // guarded by mu; nil: nothing is
	repeat func(*Idempotency)                // guarded by mu; what becomes of a key's operations; nil: they are carried out
	token  *wire.Fault                       // guarded by mu: why there is no last token

	nothing  func(*Idempotency) *wire.Fault // guarded by mu: what becomes of the word that nothing was found; nil: it is kept
	nothings int                            // guarded by mu: how often it was given
}

func (n *fakeNode) Leader() (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case n.looked <- struct{}{}:
	default:
	}
	return n.leader, !n.away
}

func (n *fakeNode) Listen(_ context.Context, req *wire.Subscribe) (Feed, *wire.Fault) {
	if f := req.Validate(); f != nil {
		return nil, f
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.heard = req
	if n.feed == nil {
		return newFeed(), nil
	}
	return n.feed, nil
}

func (n *fakeNode) WaitDead(ctx context.Context, _ string, known int64, wait time.Duration) (int64, *wire.Fault) {
	if known < 0 {
		return 0, nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return known, nil
}

func (n *fakeNode) listened() *wire.Subscribe {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.heard
}

func (n *fakeNode) setFeed(f *fakeFeed) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.feed = f
}

func (n *fakeNode) Do(_, _ context.Context, reqs ...Request) []Answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, reqs...)
	out := make([]Answer, len(reqs))
	for i, r := range reqs {
		if n.answer != nil {
			if a := n.answer(r); a != nil {
				out[i] = *a
				continue
			}
		}
		if k := r.Idempotency; k != nil && writes[r.Type] {
			k.Part++
			if n.repeat == nil {
				k.Fresh++
			} else {
				n.repeat(k)
			}
		}
		out[i] = success(r)
	}
	return out
}

func (n *fakeNode) GiveBack(tokens ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.back = append(n.back, tokens...)
}

func (n *fakeNode) LastToken(_ context.Context, id string) (string, *wire.Fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return id + id, n.token
}

func (n *fakeNode) Kept(_ context.Context, key *Idempotency) ([]byte, bool, *wire.Fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.kept == nil {
		return nil, false, nil
	}
	note, is := n.kept(key)
	return note, is, nil
}

func (n *fakeNode) Nothing(_ context.Context, key *Idempotency) (wire.At, *wire.Fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nothings++
	if n.nothing != nil {
		return wire.At{}, n.nothing(key)
	}
	key.Fresh++
	return wire.At{}, nil
}

// writes are the types of requests that come to operations in the log, as far as tests of keys ask.
var writes = map[wire.Type]bool{
	wire.TypeEnqueue: true, wire.TypeLease: true, wire.TypeAck: true, wire.TypeNack: true, wire.TypeQueueCreate: true, wire.TypeQueueSet: true,
	wire.TypeDeadRequeue: true, wire.TypeDeadDelete: true, wire.TypeQueuePurge: true,
}

// replies are the types of answers by those of requests.
var replies = map[wire.Type]wire.Type{
	wire.TypeEnqueue: wire.TypeEnqueued, wire.TypeLease: wire.TypeLeased, wire.TypeAck: wire.TypeAcked, wire.TypeNack: wire.TypeNacked,
	wire.TypeExtend: wire.TypeExtended, wire.TypeResultGet: wire.TypeResultIs, wire.TypeResultPush: wire.TypeAcked, wire.TypeTask: wire.TypeTaskIs,
	wire.TypeQueuePurge: wire.TypeCounted, wire.TypeDeadPurge: wire.TypeCounted, wire.TypeQueueList: wire.TypeQueues, wire.TypeQueueShow: wire.TypeQueueIs,
	wire.TypePeek: wire.TypeTasks, wire.TypeDeadList: wire.TypeTasks, wire.TypeDeadGet: wire.TypeTaskIs, wire.TypeDeadRequeue: wire.TypeEnqueued,
	wire.TypeDeadDelete: wire.TypeEnqueued, wire.TypeDeadEdit: wire.TypeEnqueued, wire.TypeClusterStatus: wire.TypeClusterIs, wire.TypeClusterVerify: wire.TypeVerified,
	wire.TypeKVGet: wire.TypeKVIs, wire.TypeKVList: wire.TypeKVEntries, wire.TypeKVWatch: wire.TypeKVChanges, wire.TypeBatchCreate: wire.TypeBatchCreated,
	wire.TypeBatchShow: wire.TypeBatchIs, wire.TypeScheduleShow: wire.TypeScheduleIs, wire.TypeScheduleList: wire.TypeSchedules,
	wire.TypeTaskCancel: wire.TypeTaskCancelled, wire.TypeTaskReschedule: wire.TypeTaskScheduled, wire.TypeResultList: wire.TypeResults,
}

func success(r Request) Answer {
	t, ok := replies[r.Type]
	if !ok {
		t = wire.TypeOK
	}
	body := wire.NewBody(t)
	if e, ok := body.(*wire.Enqueued); ok {
		n := 1
		switch q := r.Body.(type) {
		case *wire.Enqueue:
			n = len(q.Messages)
		case *wire.DeadIDs:
			n = len(q.IDs)
		}
		e.Outcomes = make([]wire.Outcome, n)
	}
	return Answer{Type: t, Body: body}
}

func newAPI(t testing.TB, n *fakeNode, change func(*Config)) *API {
	t.Helper()
	cfg := Config{
		Node: n, Label: "n1", Logger: slog.New(slog.DiscardHandler), MaxMessageBytes: 4096, CheckHost: func(string) error { return nil },
		MaxRequests: 10, MaxStreams: 10, BodyTimeout: time.Second, WriteTimeout: time.Second, EventTimeout: time.Second, CallTimeout: time.Second, PingEvery: time.Minute,
	}
	if change != nil {
		change(&cfg)
	}
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func ask(a *API, method, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	a.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w
}

// The codes of the one table come out with their status, outcome and waits, from single requests and in batches.
func TestErrorTable(t *testing.T) {
	codes := []wire.Code{
		wire.CodeInvalidArgument, wire.CodeUnauthenticated, wire.CodePermissionDenied, wire.CodeNotFound, wire.CodeAlreadyExists, wire.CodeLeaseLost, wire.CodeCancelled,
		wire.CodeTooLarge, wire.CodeQueueFull, wire.CodeRateLimited, wire.CodeNoLeader, wire.CodeOverloaded, wire.CodeFailedPrecondition,
		wire.CodeSessionExpired, wire.CodeNoSpace, wire.CodeTimeout, wire.CodeUnsupportedVersion, wire.CodeInternal,
	}
	for _, code := range codes {
		t.Run(string(code), func(t *testing.T) {
			fault := wire.NewFault(code, "why")
			fault.RetryAfterMillis, fault.Field, fault.ID = 1500, "f", "0"
			n := &fakeNode{answer: func(Request) *Answer { return &Answer{Fault: fault} }}
			a := newAPI(t, n, nil)
			w := ask(a, "POST", "/v1/queues/q/pause", "")
			var p Problem
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
				t.Fatal(err)
			}
			outcome := "refused"
			if code.Unknown() {
				outcome = "unknown"
			}
			if w.Code != code.HTTP() || p.Status != w.Code || p.Code != string(code) || p.Outcome != outcome || p.Retry != code.Retry() || p.Detail != "why" ||
				p.RetryAfterMillis != 1500 || p.Field != "f" || p.RequestID != w.Header().Get("X-Request-Id") || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
			}
			wants := ""
			if w.Code == 503 || w.Code == 429 {
				wants = "2"
			}
			if got := w.Header().Get("Retry-After"); got != wants {
				t.Errorf("Retry-After is %q, want %q", got, wants)
			}
			token := strings.Repeat("0", 52)
			w = ask(a, "POST", "/v1/leases/batch", `{"operations":[{"op":"ack","token":"`+token+`"}]}`)
			var batch struct{ Outcomes []struct{ Error Problem } }
			if err := json.Unmarshal(w.Body.Bytes(), &batch); err != nil || w.Code != 200 || len(batch.Outcomes) != 1 || batch.Outcomes[0].Error.Code != string(code) {
				t.Errorf("in a batch: %d %s", w.Code, w.Body)
			}
		})
	}
}

// brokenWriter fails after the head.
type brokenWriter struct{ httptest.ResponseRecorder }

func (*brokenWriter) Write([]byte) (int, error) { return 0, errors.New("gone") }

// Leases whose answer does not reach the caller are given back: he has gone, or the write fails.
func TestLeasesThatAreNotSent(t *testing.T) {
	token := strings.Repeat("0", 52)
	leased := func(r Request) *Answer {
		if r.Type == wire.TypeLease {
			return &Answer{Type: wire.TypeLeased, Body: &wire.Leased{Messages: []wire.Delivered{{ID: token[:26], Token: token}, {ID: token[:26], Token: "once", AtMostOnce: true}}}}
		}
		return nil
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		what, method, path string
		w                  http.ResponseWriter
		ctx                context.Context
		back               []string
	}{
		{"sent", "POST", "/v1/queues/q/lease", httptest.NewRecorder(), t.Context(), nil},
		{"the write fails", "POST", "/v1/queues/q/lease", &brokenWriter{*httptest.NewRecorder()}, t.Context(), []string{token}},
		{"he has gone", "POST", "/v1/queues/q/lease", httptest.NewRecorder(), gone, []string{token}},
		{"he has gone from the one-queue API", "GET", "/queue/poll", httptest.NewRecorder(), gone, []string{token}},
	} {
		t.Run(tc.what, func(t *testing.T) {
			n := &fakeNode{answer: leased}
			newAPI(t, n, nil).ServeHTTP(tc.w, httptest.NewRequestWithContext(tc.ctx, tc.method, tc.path, nil))
			if !slices.Equal(n.back, tc.back) {
				t.Errorf("given back: %v, want %v", n.back, tc.back)
			}
		})
	}
}

// What is asked of the node is what the request says, to the letter.
func TestWhatIsAsked(t *testing.T) {
	nine, zero, delay := uint8(9), uint8(0), int64(0)
	id, token := strings.Repeat("0", 26), strings.Repeat("0", 52)
	for _, tc := range []struct {
		what, method, path, body string
		want                     Request
	}{
		{"a message with every field", "POST", "/v1/queues/q/messages", `{"body":[1],"task_id":"t","kind":"k","content_type":"x/y","headers":{"b":"2","a":"1"},"priority":9,"key":"é","dedup_key_base64":"AA==",
			"delay_ms":1,"ttl_ms":2,"timeout_ms":3,"retry":{"kind":"exponential","initial_ms":4,"multiplier":1.5,"max_ms":5,"max_attempts":6,"jitter_ms":7},"keys_if_undelivered":[["a","b"]],"batch":"` + id + `"}`,
			Request{Type: wire.TypeEnqueue, Body: &wire.Enqueue{Queue: "q", Messages: []wire.Message{{Body: wire.Bytes("[1]"), TaskID: "t", Kind: "k", ContentType: "x/y",
				Headers: []wire.Header{{Name: "a", Value: "1"}, {Name: "b", Value: "2"}}, Priority: &nine, Key: wire.Bytes("é"), DedupKey: wire.Bytes{0}, DelayMillis: 1, TTLMillis: 2,
				TimeoutMillis: 3, Retry: &wire.RetryPolicy{Kind: "exponential", InitialMillis: 4, MultiplierMilli: 1500, MaxMillis: 5, MaxAttempts: 6, JitterMillis: 7},
				KeysIfUndelivered: [][]string{{"a", "b"}}, Batch: id}}}}},
		{"a job", "POST", "/v1/queues/q/messages?envelope=job", `{"job_id":"j","task_type":"navigate","attempts":0,"max_attempts":3,"payload":{"u":1},"meta":{"correlation_id":"c","user_id":"u","enqueue_ts":5,"source":"s"}}`,
			Request{Type: wire.TypeEnqueue, Body: &wire.Enqueue{Queue: "q", Messages: []wire.Message{{Body: wire.Bytes(`{"u":1}`), TaskID: "j", Kind: "navigate", ContentType: "application/json",
				Headers: []wire.Header{{Name: "correlation_id", Value: "c"}, {Name: "source", Value: "s"}, {Name: "user_id", Value: "u"}}, Retry: &wire.RetryPolicy{Kind: "exponential", MaxAttempts: 3}}}}}},
		{"a lease", "POST", "/v1/queues/q/lease", `{"max":7,"wait_ms":8,"lease_ms":900,"worker":"w"}`,
			Request{Type: wire.TypeLease, Body: &wire.Lease{Queue: "q", Max: 7, WaitMillis: 8, LeaseMillis: 900, Worker: "w"}}},
		{"a lease without a word", "POST", "/v1/queues/q/lease", ``, Request{Type: wire.TypeLease, Body: &wire.Lease{Queue: "q", Max: 1}}},
		{"a nack", "POST", "/v1/leases/" + token + "/nack", `{"error":"e","delay_ms":0,"permanent":true}`,
			Request{Type: wire.TypeNack, Body: &wire.Nack{Token: token, Error: "e", DelayMillis: &delay, Permanent: true}}},
		{"one queue", "POST", "/queue/enqueue?queue=o", `{"value":null,"options":{"delay":5,"priority":0,"backoffSchedule":[1,2],"keysIfUndelivered":[["k"]]}}`,
			Request{Type: wire.TypeEnqueue, Body: &wire.Enqueue{Queue: "o", Messages: []wire.Message{{Body: wire.Bytes("null"), ContentType: "application/json", Priority: &zero, DelayMillis: 5,
				Retry: &wire.RetryPolicy{Kind: "schedule", Steps: []int64{1, 2}}, KeysIfUndelivered: [][]string{{"k"}}}}}}},
		{"one queue by its name", "GET", "/queue/stats", ``, Request{Type: wire.TypeQueueShow, Body: &wire.QueueRef{Queue: "default"}}},
		{"options", "PATCH", "/v1/queues/q", `{"rate":0.001,"paused":true,"retry":null}`, Request{Type: wire.TypeQueueSet, Body: &wire.QueueWrite{Queue: "q", Options: wire.QueueOptions{RateMilli: 1, Paused: true}, Only: []string{"paused", "rate", "retry"}}}},
		{"a key", "DELETE", "/v1/kv/a%2Fb//%2e", ``, Request{Type: wire.TypeKVDelete, Body: &wire.KVDelete{Key: []string{"a/b", "", "."}}}},
		{"dead letters", "GET", "/v1/queues/q/dlq?limit=5&kind=k&reason=expired&since=1&until=2&text=x&header=a=b&header=c&stale", ``,
			Request{Type: wire.TypeDeadList, Body: &wire.DeadList{Queue: "q", Limit: 5, Kind: "k", Reason: "expired", Since: 1, Until: 2, Text: "x", Stale: true, Headers: []wire.Header{{Name: "a", Value: "b"}, {Name: "c"}}}}},
		{"a dead letter anew", "POST", "/v1/queues/q/dlq/" + id + "/requeue", `{"body":"t","body_encoding":"text","headers":{},"kind":"","delay_ms":0}`,
			Request{Type: wire.TypeDeadEdit, Body: &wire.DeadEdit{Queue: "q", ID: id, Fields: []string{"body", "content_type", "headers", "kind", "delay"}, Set: wire.Message{Body: wire.Bytes("t"), ContentType: "text/plain; charset=utf-8"}}}},
		{"results", "GET", "/v1/results?queue=q&after=9007199254740993&last=0&wait_ms=1", ``, Request{Type: wire.TypeResultList, Body: &wire.ResultList{Queue: "q", After: 9007199254740993, WaitMillis: 1}}},
	} {
		t.Run(tc.what, func(t *testing.T) {
			n := &fakeNode{}
			w := ask(newAPI(t, n, nil), tc.method, tc.path, tc.body)
			if w.Code > 299 || len(n.asked) != 1 {
				t.Fatalf("%d %s, asked %v", w.Code, w.Body, n.asked)
			}
			got, want := wire.AppendFrame(nil, n.asked[0].Type, 1, n.asked[0].Body), wire.AppendFrame(nil, tc.want.Type, 1, tc.want.Body)
			if !bytes.Equal(got, want) {
				t.Errorf("asked %+v, want %+v", n.asked[0].Body, tc.want.Body)
			}
		})
	}
}

// Bodies that are in memory at once are bounded together, and what one took is given back when it is answered.
func TestBodiesTogether(t *testing.T) {
	held, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	n := &fakeNode{answer: func(Request) *Answer {
		once.Do(func() {
			close(held)
			<-release
		})
		return nil
	}}
	a := newAPI(t, n, nil)
	a.bodies.most = 4000
	body := `{"body":"` + strings.Repeat("x", 2500) + `"}`
	first := make(chan int)
	go func() { first <- ask(a, "POST", "/v1/queues/q/messages", body).Code }()
	<-held
	if w := ask(a, "POST", "/v1/queues/q/messages", body); w.Code != 503 || !strings.Contains(w.Body.String(), "overloaded") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	close(release)
	if code := <-first; code != 201 {
		t.Errorf("the first got %d", code)
	}
	if got := a.bodies.used.Load(); got != 0 {
		t.Errorf("%d bytes are still held", got)
	}
}

// A batch that met another leader goes there whole.
func TestBatchAfterLeaderChange(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"by":"` + r.Header.Get(hopHeader) + `","bytes":` + string(b[:0]) + `1}`))
	}))
	defer elsewhere.Close()
	addr := strings.TrimPrefix(elsewhere.URL, "http://")
	n := &fakeNode{answer: func(Request) *Answer {
		f := wire.NewFault(wire.CodeNotLeader, "moved")
		f.Leader = addr
		return &Answer{Fault: f}
	}}
	a := newAPI(t, n, nil)
	token := strings.Repeat("0", 52)
	for path, body := range map[string]string{
		"/v1/queues/q/messages": `{"messages":[{"body":1},{"body":2}]}`,
		"/v1/leases/batch":      `{"operations":[{"op":"ack","token":"` + token + `"},{"op":"release","token":"` + token + `"}]}`,
		"/v1/queues/q/pause":    "",
	} {
		if w := ask(a, "POST", path, body); w.Code != 200 || !strings.Contains(w.Body.String(), `"by":"n1"`) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// FuzzRequest feeds the API whatever bodies, paths and types there are: it must not panic, must answer JSON, and must ask the node for nothing
// that cannot be encoded as the protocol asks.
func FuzzRequest(f *testing.F) {
	n := &fakeNode{}
	a := newAPI(f, n, nil)
	for i := range a.routes {
		f.Add(uint8(i), "q", "", `{}`, "application/json", "")
		f.Add(uint8(i), "q", "", "", "", "")
		f.Add(uint8(i), "0%2F", "limit=1&stale=1", `{"body":"\u0000","body_encoding":"text","headers":{"a":"b"},"messages":null,"max":5,"op":"ack","ids":["x"]}`, "", "k")
	}
	f.Add(uint8(0), "q", "kind=%zz", `{"value":[1e999,{"a":{}}],"options":{"backoffSchedule":[]}}`, "text/plain", "a key")
	f.Fuzz(func(t *testing.T, route uint8, part, query, body, kind, key string) {
		r := a.routes[int(route)%len(a.routes)]
		path := r.path
		for _, name := range []string{"{q}", "{id}", "{token}", "{name}", "{key...}"} {
			path = strings.ReplaceAll(path, name, part)
		}
		req, err := http.NewRequest(r.method, "http://127.0.0.1"+path+"?"+query, strings.NewReader(body))
		if err != nil {
			return // no HTTP request
		}
		if r.stream { // it goes on until its client goes
			ctx, leave := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer leave()
			req = req.WithContext(ctx)
		}
		req.Header.Set("Content-Type", kind)
		if key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		n.mu.Lock()
		n.asked = nil
		n.mu.Unlock()
		w := httptest.NewRecorder()
		a.ServeHTTP(w, req)
		ct := w.Header().Get("Content-Type")
		if strings.Contains(ct, "json") && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%d %s: %q is no JSON", w.Code, ct, w.Body)
		}
		if w.Code == http.StatusInternalServerError {
			t.Errorf("500: %s", w.Body)
		}
		for _, q := range n.asked {
			ok := true
			switch v := q.Body.(type) {
			case interface{ Validate() *wire.Fault }:
				ok = v.Validate() == nil
			case interface{ Validate(int64) *wire.Fault }:
				ok = v.Validate(4096) == nil
			}
			if k := q.Idempotency; (k != nil) != (key != "") || k != nil && (k.Key != key || len(key) > 255 || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' })) {
				t.Errorf("asked under %+v, the key is %q", k, key)
			}
			if !ok {
				continue // the node refuses it by name
			}
			raw, _, err := wire.Next(wire.AppendFrame(nil, q.Type, 1, q.Body))
			if err == nil {
				err = raw.Decode(wire.NewBody(q.Type))
			}
			if err != nil {
				t.Errorf("asked for what cannot be encoded: %+v: %v", q.Body, err)
			}
		}
	})
}
