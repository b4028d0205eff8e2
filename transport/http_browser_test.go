package transport

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/quorate/quorate/wire"
)

// browser is an HTTP client that holds every request that succeeds, and every answer, to the OpenAPI document that the node serves.
type browser struct {
	t      testing.TB
	addr   string
	client *http.Client
	router routers.Router
	paths  map[string]bool // method and path of the routes that have answered with success
	steady bool            // asks again where there is no leader, as programs do: on a busy machine one may lose its post at any time
}

func browse(t testing.TB, addr string) *browser {
	t.Helper()
	tr := &http.Transport{DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	b := &browser{t: t, addr: addr, client: &http.Client{Transport: tr, Timeout: patience}, paths: map[string]bool{}}
	b.router = document(t, b)
	return b
}

var documents struct {
	sync.Mutex
	router routers.Router
}

// document reads the node's OpenAPI document, judges it, and closes the schemas of answers, so that a field which is not described is found.
func document(t testing.TB, b *browser) routers.Router {
	t.Helper()
	documents.Lock()
	defer documents.Unlock()
	if documents.router != nil {
		return documents.router
	}
	a := b.plain("GET", "/v1/openapi.json", "", nil)
	if a.status != 200 {
		t.Fatalf("the document: %d %s", a.status, a.body)
	}
	var doc map[string]any
	if err := json.Unmarshal(a.body, &doc); err != nil {
		t.Fatal(err)
	}
	for _, s := range doc["components"].(map[string]any)["schemas"].(map[string]any) {
		s := s.(map[string]any)
		if _, said := s["additionalProperties"]; !said && s["properties"] != nil {
			s["additionalProperties"] = false
		}
		nulls(s)
	}
	closed, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	loader := openapi3.NewLoader()
	for name, data := range map[string][]byte{"as it is": a.body, "closed": closed} {
		d, err := loader.LoadFromData(data)
		if err != nil {
			t.Fatalf("the document, %s: %v", name, err)
		}
		if d.OpenAPI != "3.1.0" {
			t.Errorf("the document says %s", d.OpenAPI)
		}
		if err := d.Validate(t.Context()); err != nil {
			t.Fatalf("the document, %s: %v", name, err)
		}
		if name == "closed" {
			if documents.router, err = legacy.NewRouter(d); err != nil {
				t.Fatal(err)
			}
		}
	}
	return documents.router
}

// nulls says of the properties that may be anything that they may be null: the validator takes no null where no type is named, which
// JSON Schema does.
func nulls(schema map[string]any) {
	properties, _ := schema["properties"].(map[string]any)
	for _, p := range properties {
		p := p.(map[string]any)
		if p["type"] == nil && p["$ref"] == nil && p["oneOf"] == nil && p["anyOf"] == nil {
			p["type"] = []string{"null", "boolean", "number", "string", "array", "object"}
		}
	}
}

// said is an answer.
type said struct {
	status int
	header http.Header
	body   []byte
	closes bool // the connection
}

func (a said) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
}

// plain sends a request and judges nothing.
func (b *browser) plain(method, path, body string, header map[string]string) said {
	b.t.Helper()
	req, err := http.NewRequest(method, "http://"+b.addr+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		b.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatalf("%s %s: %v", method, path, err)
	}
	return said{resp.StatusCode, resp.Header, got, resp.Close}
}

// send sends a request with a JSON body, or another where header says so, and holds it and the answer to the document.
func (b *browser) send(method, path, body string, header map[string]string) said {
	b.t.Helper()
	h := map[string]string{}
	if body != "" {
		h["Content-Type"] = "application/json"
	}
	for k, v := range header {
		h[k] = v
	}
	a := b.plain(method, path, body, h)
	for end := time.Now().Add(patience); b.steady && a.status == 503 && strings.Contains(string(a.body), `"no_leader"`) && time.Now().Before(end); {
		b.conforms(method, path, body, h, a)
		time.Sleep(20 * time.Millisecond)
		a = b.plain(method, path, body, h)
	}
	b.conforms(method, path, body, h, a)
	return a
}

func (b *browser) conforms(method, path, body string, header map[string]string, a said) {
	b.t.Helper()
	req, err := http.NewRequest(method, "http://"+b.addr+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	req.URL.Host = ""
	req.URL.Scheme = ""
	route, params, err := b.router.FindRoute(req)
	if err != nil {
		if a.status < 400 {
			b.t.Errorf("%s %s is answered with %d and not in the document: %v", method, path, a.status, err)
		}
		return
	}
	in := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: &openapi3filter.Options{IncludeResponseStatus: true}}
	if a.status < 400 {
		b.paths[method+" "+route.Path] = true
		if kind := header["Content-Type"]; kind == "" || kind == "application/json" {
			if err := openapi3filter.ValidateRequest(b.t.Context(), in); err != nil {
				b.t.Errorf("%s %s is answered with %d, and the document does not allow %s: %v", method, path, a.status, body, err)
			}
		}
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: a.status, Header: a.header, Options: in.Options}
	if !strings.Contains(a.header.Get("Content-Type"), "json") {
		in.Options.ExcludeResponseBody = true
	}
	out.SetBodyBytes(a.body)
	if err := openapi3filter.ValidateResponse(b.t.Context(), out); err != nil {
		b.t.Errorf("%s %s: the document does not allow the answer %d %s: %v", method, path, a.status, a.body, err)
	}
	if a.status >= 400 {
		b.problem(method+" "+path, a)
	}
	if a.header.Get("X-Request-Id") == "" || a.header.Get("X-Content-Type-Options") != "nosniff" {
		b.t.Errorf("%s %s: the answer has headers %v", method, path, a.header)
	}
}

// trouble is a problem as a client reads it.
type trouble struct {
	Type, Title, Detail, Code, Outcome, Field, Leader string
	ID                                                string
	Status                                            int
	Retry                                             bool
	RetryAfter                                        int64  `json:"retry_after_ms"`
	RequestID                                         string `json:"request_id"`
}

// problem judges that an error is one of the table.
func (b *browser) problem(what string, a said) (p trouble) {
	b.t.Helper()
	if a.header.Get("Content-Type") != "application/problem+json" {
		b.t.Errorf("%s: an error of type %q: %s", what, a.header.Get("Content-Type"), a.body)
		return p
	}
	a.into(b.t, &p)
	code := wire.Code(p.Code)
	switch {
	case !code.Known(), p.Status != a.status, p.Detail == "", p.Title == "", p.Type != "urn:quorate:error:"+p.Code, p.Retry != code.Retry(),
		p.RequestID != a.header.Get("X-Request-Id"), p.Outcome != "refused" && p.Outcome != "unknown":
		b.t.Errorf("%s: the problem is %s", what, a.body)
	case p.Status != code.HTTP() && p.Status != 405 && p.Status != 408 && p.Status != 415:
		b.t.Errorf("%s: %s has status %d, the table says %d", what, p.Code, p.Status, code.HTTP())
	}
	if a.status == 503 && a.header.Get("Retry-After") == "" {
		b.t.Errorf("%s: 503 without Retry-After: %s", what, a.body)
	}
	return p
}

// ok sends a request that must succeed and reads the answer into v.
func (b *browser) ok(method, path, body string, v any) said {
	b.t.Helper()
	a := b.send(method, path, body, nil)
	if a.status < 200 || a.status > 299 {
		b.t.Fatalf("%s %s %s: %d %s", method, path, body, a.status, a.body)
	}
	if v != nil {
		a.into(b.t, v)
	}
	return a
}

// refused sends a request that must be refused with a code, in words that name what they must.
func (b *browser) refused(method, path, body string, code wire.Code, names ...string) trouble {
	b.t.Helper()
	a := b.send(method, path, body, nil)
	if a.status < 400 {
		b.t.Fatalf("%s %s %s: %d %s, want %s", method, path, body, a.status, a.body, code)
	}
	p := b.problem(method+" "+path, a)
	if p.Code != string(code) {
		b.t.Fatalf("%s %s %s: %s, want %s", method, path, body, a.body, code)
	}
	for _, n := range names {
		if !strings.Contains(p.Detail, n) {
			b.t.Errorf("%s %s %s: %q does not name %q", method, path, body, p.Detail, n)
		}
	}
	return p
}

type leasedJSON struct {
	ID, Token, Kind, Key string
	TaskID               string `json:"task_id"`
	Attempt              int
	LeaseLeft            int64 `json:"lease_left_ms"`
	Body                 json.RawMessage
	Encoding             string `json:"body_encoding"`
	ContentType          string `json:"content_type"`
	Headers              map[string]string
	Priority             int
}

// take leases messages.
func (b *browser) take(queue, body string) []leasedJSON {
	b.t.Helper()
	var got struct{ Messages []leasedJSON }
	b.ok("POST", "/v1/queues/"+queue+"/lease", body, &got)
	return got.Messages
}

func (b *browser) takeOne(queue string) leasedJSON {
	b.t.Helper()
	got := b.take(queue, `{"wait_ms":5000}`)
	if len(got) != 1 {
		b.t.Fatalf("leased %d messages of %s", len(got), queue)
	}
	return got[0]
}

func (b *browser) put(queue, body string) string {
	b.t.Helper()
	var got struct{ ID string }
	b.ok("POST", "/v1/queues/"+queue+"/messages", body, &got)
	return got.ID
}
