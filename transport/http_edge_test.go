package transport

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/transport/httpapi"
	"github.com/quorate/quorate/wire"
)

// A body comes out as it went in, by HTTP and by the socket, whatever it is (C62).
func TestBodies(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	b := browse(t, n.addr)
	p, _ := session(t, n.addr)
	for i, tc := range []struct {
		what, in          string // JSON of the message
		bytes, kind       string // as the socket sees it
		body, encoding    string // as HTTP shows it; body is JSON
		raw, query, ctype string // instead of in: the HTTP body itself
	}{
		{what: "json object", in: `{"body":{"a": [1.0, 1e3, "ü\u0000", 9007199254740993]}}`, bytes: `{"a": [1.0, 1e3, "ü\u0000", 9007199254740993]}`, kind: "application/json",
			body: `{"a":[1.0,1e3,"ü\u0000",9007199254740993]}`, encoding: "json"},
		{what: "json string", in: `{"body":"s"}`, bytes: `"s"`, kind: "application/json", body: `"s"`, encoding: "json"},
		{what: "json null", in: `{"body":null}`, bytes: `null`, kind: "application/json", body: `null`, encoding: "json"},
		{what: "absent", in: `{"kind":"k"}`, bytes: "", kind: "application/octet-stream", body: `""`, encoding: "base64"},
		{what: "text", in: `{"body":"zwei\n","body_encoding":"text"}`, bytes: "zwei\n", kind: "text/plain; charset=utf-8", body: `"zwei\n"`, encoding: "text"},
		{what: "empty text", in: `{"body":"","body_encoding":"text"}`, bytes: "", kind: "text/plain; charset=utf-8", body: `""`, encoding: "text"},
		{what: "base64", in: `{"body":"//4A","body_encoding":"base64"}`, bytes: "\xff\xfe\x00", kind: "application/octet-stream", body: `"//4A"`, encoding: "base64"},
		{what: "base64 that is said to be text", in: `{"body":"//4A","body_encoding":"base64","content_type":"text/plain"}`, bytes: "\xff\xfe\x00", kind: "text/plain", body: `"//4A"`, encoding: "base64"},
		{what: "base64 that is said to be json", in: `{"body":"e30g","body_encoding":"base64","content_type":"application/x+json"}`, bytes: "{} ", kind: "application/x+json", body: `{}`, encoding: "json"},
		{what: "no json though it is said", in: `{"body":"e30w","body_encoding":"base64","content_type":"application/json"}`, bytes: "{}0", kind: "application/json", body: `"e30w"`, encoding: "base64"},
		{what: "raw bytes", raw: "\xff\x00", ctype: "application/octet-stream", bytes: "\xff\x00", kind: "application/octet-stream", body: `"/wA="`, encoding: "base64"},
		{what: "raw text", raw: "hallo", ctype: "text/plain", bytes: "hallo", kind: "text/plain", body: `"hallo"`, encoding: "text"},
		{what: "raw json with fields in the query", raw: `{"body":1}`, ctype: "application/json", query: "?kind=k&priority=0&header=a=b=c", bytes: `{"body":1}`, kind: "application/json", body: `{"body":1}`, encoding: "json"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			b.t, p.t = t, t
			q := fmt.Sprintf("q%d", i)
			for range 2 {
				var a said
				if tc.in != "" {
					a = b.send("POST", "/v1/queues/"+q+"/messages", tc.in, nil)
				} else {
					a = b.send("POST", "/v1/queues/"+q+"/messages"+tc.query, tc.raw, map[string]string{"Content-Type": tc.ctype})
				}
				if a.status != 201 {
					t.Fatalf("%d %s", a.status, a.body)
				}
			}
			d := p.pull(q)
			if string(d.Body) != tc.bytes || d.ContentType != tc.kind {
				t.Errorf("by the socket: %q of %q", d.Body, d.ContentType)
			}
			if tc.query != "" && (d.Kind != "k" || d.Priority != 0 || len(d.Headers) != 1 || d.Headers[0].Value != "b=c") {
				t.Errorf("fields of the query: %+v", d)
			}
			m := b.takeOne(q)
			if string(m.Body) != tc.body || m.Encoding != tc.encoding || m.ContentType != tc.kind {
				t.Errorf("by HTTP: %s as %s of %q", m.Body, m.Encoding, m.ContentType)
			}
			b.ok("POST", "/v1/leases/"+m.Token+"/nack", `{"permanent":true}`, nil)
			var dead struct {
				Messages []struct {
					Body     json.RawMessage
					Encoding string `json:"body_encoding"`
				}
			}
			b.ok("GET", "/v1/queues/"+q+"/dlq", "", &dead)
			if string(dead.Messages[0].Body) != tc.body || dead.Messages[0].Encoding != tc.encoding {
				t.Errorf("dead: %+v", dead)
			}
			b.ok("GET", "/v1/queues/"+q+"/dlq?body_encoding=base64", "", &dead)
			if dead.Messages[0].Encoding != "base64" {
				t.Errorf("dead, asked for base64: %+v", dead)
			}
		})
	}
}

// What is wrong with a request is refused by name, with what would be right.
func TestWrongRequests(t *testing.T) {
	n := stations(t, 1, Config{MaxMessageBytes: 2048})[0]
	b := browse(t, n.addr)
	b.put("q", `{"body":1}`)
	token := b.takeOne("q").Token
	for _, tc := range []struct {
		what, method, path, body string
		code                     wire.Code
		names                    []string
	}{
		{"unknown path", "GET", "/v1/nothing", "", "not_found", []string{"/v1/nothing", "openapi.json"}},
		{"unknown path of one queue", "GET", "/queue/nothing", "", "not_found", []string{"/queue/nothing"}},
		{"wrong method", "PUT", "/v1/queues", "", "invalid_argument", []string{"GET"}},
		{"wrong method of a key", "POST", "/v1/kv/a", "", "invalid_argument", []string{"GET", "DELETE"}},
		{"empty part of a path", "GET", "/v1/queues//stats", "", "not_found", []string{"/v1/queues/stats"}},
		{"dots in a path", "GET", "/v1/queues/../kv", "", "not_found", []string{"/v1/kv"}},
		{"queue name with a slash (C64)", "GET", "/v1/queues/a%2Fb", "", "invalid_argument", []string{`a/b`}},
		{"queue name with dots (C64)", "GET", "/v1/queues/%2e%2e", "", "invalid_argument", []string{".."}},
		{"queue name with a zero byte (C64)", "GET", "/v1/queues/a%00b", "", "invalid_argument", []string{"name"}},
		{"path that is no UTF-8 (C64)", "GET", "/v1/queues/%ff", "", "invalid_argument", []string{"UTF-8"}},
		{"query that is no UTF-8", "GET", "/v1/results/x?queue=%ff", "", "invalid_argument", []string{"queue"}},
		{"unknown parameter", "GET", "/v1/queues?limmit=1", "", "invalid_argument", []string{"limmit", "limit"}},
		{"parameter twice", "GET", "/v1/queues?limit=1&limit=2", "", "invalid_argument", []string{"limit", "once"}},
		{"parameter that is no integer", "GET", "/v1/queues?limit=many", "", "invalid_argument", []string{"limit", "many"}},
		{"parameter out of range", "GET", "/v1/queues?limit=1001", "", "invalid_argument", []string{"limit", "1000"}},
		{"parameter that is no boolean", "GET", "/v1/queues?stale=2", "", "invalid_argument", []string{"stale", "true"}},
		{"parameter of no known value", "GET", "/v1/queues/q/messages?state=asleep", "", "invalid_argument", []string{"state", "pending"}},
		{"no JSON", "POST", "/v1/queues/q/messages", `{"body":`, "invalid_argument", []string{"body"}},
		{"an empty body", "POST", "/v1/queues/q/messages", ``, "invalid_argument", []string{"empty"}},
		{"an array", "POST", "/v1/queues/q/messages", `[]`, "invalid_argument", []string{"array", "object"}},
		{"two items (C60)", "POST", "/v1/queues/q/messages", `{"body":1}{"body":2}`, "invalid_argument", []string{"after top-level value"}},
		{"a name twice", "POST", "/v1/queues/q/messages", `{"body":1,"body":2}`, "invalid_argument", []string{"body", "duplicate"}},
		{"an unknown field", "POST", "/v1/queues/q/messages", `{"body":1,"prio":2}`, "invalid_argument", []string{"prio"}},
		{"a name in other letters", "POST", "/v1/queues/q/messages", `{"Body":1}`, "invalid_argument", []string{"Body"}},
		{"text that is no UTF-8 (C62)", "POST", "/v1/queues/q/messages", "{\"kind\":\"\xff\"}", "invalid_argument", []string{"kind", "UTF-8"}},
		{"half a surrogate (C62)", "POST", "/v1/queues/q/messages", `{"kind":"\ud800"}`, "invalid_argument", []string{"kind", "surrogate"}},
		{"a string for a number", "POST", "/v1/queues/q/messages", `{"body":1,"priority":"9"}`, "invalid_argument", []string{"priority", "string", "integer"}},
		{"a fraction for a number (C61)", "POST", "/v1/queues/q/messages", `{"body":1,"delay_ms":1.5}`, "invalid_argument", []string{"delay_ms", "integer"}},
		{"a number out of range", "POST", "/v1/queues/q/messages", `{"body":1,"priority":10}`, "invalid_argument", []string{"priority", "10", "9"}},
		{"a number that no integer holds (C63)", "POST", "/v1/queues/q/messages", `{"body":1,"delay_ms":99999999999999999999}`, "invalid_argument", []string{"delay_ms"}},
		{"both a message and messages", "POST", "/v1/queues/q/messages", `{"body":1,"messages":[{"body":2}]}`, "invalid_argument", []string{"messages"}},
		{"no messages", "POST", "/v1/queues/q/messages", `{"messages":[]}`, "invalid_argument", []string{"messages", "1000"}},
		{"text that is none", "POST", "/v1/queues/q/messages", `{"body":{},"body_encoding":"text"}`, "invalid_argument", []string{"body", "string"}},
		{"base64 that is none", "POST", "/v1/queues/q/messages", `{"body":"?","body_encoding":"base64"}`, "invalid_argument", []string{"body", "base64"}},
		{"an encoding that is none", "POST", "/v1/queues/q/messages", `{"body":"?","body_encoding":"hex"}`, "invalid_argument", []string{"body_encoding", "hex", "base64"}},
		{"a body too large", "POST", "/v1/queues/q/messages", `{"body":"` + strings.Repeat("x", 2048) + `"}`, "too_large", []string{"body", "2048"}},
		{"a key twice", "POST", "/v1/queues/q/messages", `{"key":"a","key_base64":"YQ=="}`, "invalid_argument", []string{"key"}},
		{"a bad retry policy", "POST", "/v1/queues/q/messages", `{"retry":{"kind":"often"}}`, "invalid_argument", []string{"retry.kind", "exponential"}},
		{"nothing to lease", "POST", "/v1/queues/q/lease", `{"max":1001}`, "invalid_argument", []string{"max", "1000"}},
		{"a wait too long", "POST", "/v1/queues/q/lease", `{"wait_ms":600001}`, "invalid_argument", []string{"wait_ms", "600000"}},
		{"a lease of what is not there", "POST", "/v1/queues/none/lease", `{}`, "not_found", []string{"none"}},
		{"a token that is none", "POST", "/v1/leases/abc/ack", ``, "invalid_argument", []string{"token", "52"}},
		{"a token that is not known", "POST", "/v1/leases/" + strings.Repeat("0", 51) + "1/ack", ``, "not_found", nil},
		{"a token that is another's", "POST", "/v1/leases/" + token[:51] + "Z/ack", ``, "lease_lost", nil},
		{"an operation that is none", "POST", "/v1/leases/batch", `{"operations":[]}`, "invalid_argument", []string{"operations"}},
		{"fields of two messages' worth", "POST", "/v1/leases/" + token + "/ack", `{"then":[{"queue":"q","body":1},{"queue":"/","body":1}]}`, "invalid_argument", []string{"then[1].queue"}},
		{"a body where there is none", "POST", "/v1/queues/q/pause", `{}`, "invalid_argument", []string{"2 bytes"}},
		{"an option that is none", "PUT", "/v1/queues/r", `{"speed":1}`, "invalid_argument", []string{"speed"}},
		{"options that contradict", "PUT", "/v1/queues/r", `{"burst":1}`, "invalid_argument", []string{"burst", "rate"}},
		{"no option to change", "PATCH", "/v1/queues/q", `{}`, "invalid_argument", []string{"option"}},
		{"an option to change that is none", "PATCH", "/v1/queues/q", `{"speed":1}`, "invalid_argument", []string{"speed"}},
		{"a change of what is not there", "PATCH", "/v1/queues/none", `{"max_depth":1}`, "not_found", []string{"none"}},
		{"a task without its queue", "GET", "/v1/tasks/mine", "", "invalid_argument", []string{"queue"}},
		{"an offset and a cursor", "GET", "/v1/queues/q/dlq?offset=1&after=x", "", "invalid_argument", []string{"offset"}},
		{"a cursor that is none", "GET", "/v1/queues/q/dlq?after=x", "", "invalid_argument", []string{"after"}},
		{"ids and all", "POST", "/v1/queues/q/dlq/requeue", `{"ids":[],"all":true}`, "invalid_argument", []string{"ids"}},
		{"neither ids nor all", "POST", "/v1/queues/q/dlq/requeue", `{}`, "invalid_argument", []string{"ids"}},
		{"a dead letter that is none", "POST", "/v1/queues/q/dlq/" + strings.Repeat("0", 26) + "/requeue", "", "not_found", nil},
		{"a schedule without a time", "PUT", "/v1/schedules/s", `{"queue":"q","cron":"whenever"}`, "invalid_argument", []string{"cron"}},
	} {
		t.Run(tc.what, func(t *testing.T) {
			b.t = t
			b.refused(tc.method, tc.path, tc.body, tc.code, tc.names...)
		})
	}
	b.t = t
	for name, h := range map[string]map[string]string{
		"a key for idempotency that cannot be one":     {"Idempotency-Key": "a b"},
		"a compressed body, which would need a bound":  {"Content-Encoding": "gzip"},
		"a media type that is none":                    {"Content-Type": "x/y/z"},
		"a media type that is not taken":               {"Content-Type": "text/plain"},
		"a precondition that there are no tags to ask": {"If-None-Match": `"x"`},
	} {
		a := b.plain("PUT", "/v1/queues/new", "{}", h)
		if b.problem(name, a); a.status < 400 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}

// Pages of other origins, and those whose name has been made to resolve to this machine, are kept out; those listed may come.
func TestOrigins(t *testing.T) {
	const app = "https://app.example.com"
	n := stations(t, 1, Config{Origins: []string{app}})[0]
	b := browse(t, n.addr)
	host, port, _ := net.SplitHostPort(n.addr)
	for _, tc := range []struct {
		what, method, host string
		header             map[string]string
		status             int
		allowed            string
	}{
		{"a program", "GET", n.addr, nil, 200, ""},
		{"a page of this host", "GET", n.addr, map[string]string{"Origin": "http://" + n.addr}, 200, ""},
		{"by the name localhost", "GET", "localhost:" + port, map[string]string{"Origin": "http://localhost:" + port}, 200, ""},
		{"a page of another port", "GET", n.addr, map[string]string{"Origin": "http://" + host + ":1"}, 403, ""},
		{"a page of elsewhere", "GET", n.addr, map[string]string{"Origin": "https://evil.example"}, 403, ""},
		{"a page of nowhere", "GET", n.addr, map[string]string{"Origin": "null"}, 403, ""},
		{"a name made to resolve to here", "GET", "evil.example:" + port, nil, 403, ""},
		{"and its page", "GET", "evil.example:" + port, map[string]string{"Origin": "http://evil.example:" + port}, 403, ""},
		{"a page that is listed", "GET", n.addr, map[string]string{"Origin": app}, 200, app},
		{"its question before", "OPTIONS", n.addr, map[string]string{"Origin": app, "Access-Control-Request-Method": "DELETE"}, 204, app},
		{"a question of elsewhere", "OPTIONS", n.addr, map[string]string{"Origin": "https://evil.example", "Access-Control-Request-Method": "DELETE"}, 403, ""},
		{"a program's question", "OPTIONS", n.addr, nil, 204, ""},
	} {
		t.Run(tc.what, func(t *testing.T) {
			req, err := http.NewRequest(tc.method, "http://"+n.addr+"/v1/queues", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = tc.host
			for k, v := range tc.header {
				req.Header.Set(k, v)
			}
			resp, err := b.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if got := resp.Header.Get("Access-Control-Allow-Origin"); resp.StatusCode != tc.status || got != tc.allowed {
				t.Errorf("%d, allowed %q", resp.StatusCode, got)
			}
			if tc.header["Origin"] == app && !strings.Contains(strings.Join(resp.Header.Values("Vary"), ","), "Origin") {
				t.Errorf("Vary is %v", resp.Header.Values("Vary"))
			}
			if tc.status == 204 && tc.allowed != "" && !strings.Contains(resp.Header.Get("Access-Control-Allow-Methods"), "DELETE") {
				t.Errorf("headers %v", resp.Header)
			}
		})
	}
	for _, bad := range []string{"*", "app.example.com", "https://App.example.com", "https://a/b", "https://u@a", "ftp://a", "null"} {
		if _, err := New(Config{Broker: leading(), Origins: []string{bad}}); err == nil || !strings.Contains(err.Error(), "scheme://host") {
			t.Errorf("origin %q: %v", bad, err)
		}
	}
}

// Answers are compressed for those who ask, but never those with leases in them, whose tokens are as good as a key.
func TestCompression(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	b := browse(t, n.addr)
	long := strings.Repeat("a", 4000)
	b.put("q", `{"body":"`+long+`"}`)
	for accept, want := range map[string]bool{"gzip": true, "br, gzip;q=0.5": true, "*": true, "": false, "identity": false, "gzip;q=0": false, "gzip; q=x": false} {
		a := b.plain("GET", "/v1/queues/q/messages", "", map[string]string{"Accept-Encoding": accept})
		if got := a.header.Get("Content-Encoding") == "gzip"; got != want {
			t.Errorf("Accept-Encoding %q: gzip is %v", accept, got)
			continue
		}
		body := io.Reader(strings.NewReader(string(a.body)))
		if want {
			z, err := gzip.NewReader(body)
			if err != nil {
				t.Fatal(err)
			}
			body = z
		}
		text, err := io.ReadAll(body)
		if err != nil || !strings.Contains(string(text), long) || a.header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("Accept-Encoding %q: %v, %d bytes, %v", accept, err, len(text), a.header)
		}
	}
	if a := b.plain("POST", "/v1/queues/q/lease", "{}", map[string]string{"Accept-Encoding": "gzip"}); a.header.Get("Content-Encoding") != "" || !strings.Contains(string(a.body), long) {
		t.Errorf("a lease: %d %v", a.status, a.header)
	}
}

func TestRequestIDs(t *testing.T) {
	b := browse(t, stations(t, 1, Config{})[0].addr)
	seen := map[string]bool{}
	for _, tc := range []struct {
		given string
		kept  bool
	}{{"", false}, {"abc-1", true}, {strings.Repeat("x", 128), true}, {strings.Repeat("x", 129), false}, {"two words", false}, {"ü", false}} {
		a := b.plain("GET", "/v1/queues", "", map[string]string{"X-Request-Id": tc.given})
		id := a.header.Get("X-Request-Id")
		if (id == tc.given) != tc.kept && tc.given != "" || id == "" || seen[id] {
			t.Errorf("%q became %q", tc.given, id)
		}
		seen[id] = true
	}
}

// stuckPoll starts a request that waits, and returns when it is one of so many that the node answers. An earlier request is under way
// until its handler has returned, which may be after its answer has come: it is waited for, or it would be taken for the new one.
func stuckPoll(t *testing.T, n *station, b *browser, want int64, path, body string) (answer chan said, cancel func()) {
	t.Helper()
	waitFor(t, func() bool { return waiting(n) == want-1 })
	return stuckUntil(t, b, path, body, func() bool { return waiting(n) == want })
}

// stuckUntil starts a request that waits, and returns when it does.
func stuckUntil(t *testing.T, b *browser, path, body string, waits func() bool) (answer chan said, cancel func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	method := "POST"
	if body == "" {
		method = "GET"
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+b.addr+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer = make(chan said, 1)
	go func() {
		resp, err := b.client.Do(req)
		if err != nil {
			answer <- said{body: []byte(err.Error())}
			return
		}
		defer resp.Body.Close()
		got, _ := io.ReadAll(resp.Body)
		answer <- said{resp.StatusCode, resp.Header, got, resp.Close}
	}()
	waitFor(t, waits)
	return answer, cancel
}

// waiting is how many requests of the HTTP API are under way.
func waiting(n *station) int64 { return n.doors.api.UnderWay() }

// A poll that waits ends when there is a message, when its time is over, when the caller goes, and when the node stops; a message is not
// leased to those who have gone.
func TestLongPolls(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	b := browse(t, n.addr)
	b.ok("PUT", "/v1/queues/q", "", nil)

	t.Run("its time is over", func(t *testing.T) {
		b.t = t
		began := time.Now()
		if got := b.take("q", `{"wait_ms":200}`); len(got) != 0 || time.Since(began) < 200*time.Millisecond {
			t.Errorf("got %+v after %v", got, time.Since(began))
		}
	})
	t.Run("a message comes", func(t *testing.T) {
		b.t = t
		answer, cancel := stuckPoll(t, n, b, 1, "/v1/queues/q/lease", `{"wait_ms":60000}`)
		defer cancel()
		id := b.put("q", `{"body":1}`)
		a := <-answer
		if a.status != 200 || !strings.Contains(string(a.body), id) {
			t.Errorf("%d %s", a.status, a.body)
		}
		b.ok("POST", "/v1/queues/q/purge", "", nil)
	})
	t.Run("the caller goes", func(t *testing.T) {
		b.t = t
		answer, cancel := stuckPoll(t, n, b, 1, "/v1/queues/q/lease", `{"wait_ms":60000}`)
		cancel()
		<-answer
		waitFor(t, func() bool { return waiting(n) == 0 })
		id := b.put("q", `{"body":1}`)
		m := b.takeOne("q")
		if m.ID != id || m.Attempt != 1 {
			t.Fatalf("leased %+v, want %s for the first time", m, id)
		}
		b.ok("POST", "/v1/leases/"+m.Token+"/ack", "", nil)
	})
	t.Run("the caller goes as a message comes", func(t *testing.T) {
		b.t = t
		v := visitors{n.doors}
		for range 50 {
			gone, goes := context.WithCancel(t.Context())
			answered := make(chan httpapi.Answer, 1)
			go func() {
				answered <- v.Do(gone, gone, httpapi.Request{Type: wire.TypeLease, Body: &wire.Lease{Queue: "q", Max: 1, WaitMillis: 60000}})[0]
			}()
			go goes()
			id := b.put("q", `{"body":1}`)
			if l, ok := (<-answered).Body.(*wire.Leased); ok && len(l.Messages) > 0 { // it was told before it went; what it does is the API's
				v.GiveBack(l.Messages[0].Token)
			}
			m := b.takeOne("q")
			if m.ID != id || m.Attempt != 1 {
				t.Fatalf("leased %+v, want %s for the first time", m, id)
			}
			b.ok("POST", "/v1/leases/"+m.Token+"/ack", "", nil)
		}
	})
	t.Run("the caller goes before it reads", func(t *testing.T) {
		b.t = t
		nc, err := net.Dial("tcp", n.addr)
		if err != nil {
			t.Fatal(err)
		}
		const body = `{"wait_ms":60000}`
		waitFor(t, func() bool { return waiting(n) == 0 }) // what came before it
		fmt.Fprintf(nc, "POST /v1/queues/q/lease HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", n.addr, len(body), body)
		waitFor(t, func() bool { return waiting(n) > 0 })
		_ = nc.Close()
		waitFor(t, func() bool { return waiting(n) == 0 })
		id := b.put("q", `{"body":1}`)
		if m := b.takeOne("q"); m.ID != id || m.Attempt != 1 {
			t.Errorf("leased %+v", m)
		}
	})
	t.Run("the node stops", func(t *testing.T) {
		b.t = t
		b.put("other", `{"body":1,"task_id":"t"}`)
		lease, c1 := stuckPoll(t, n, b, 1, "/v1/queues/q/lease", `{"wait_ms":60000}`)
		defer c1()
		result, c2 := stuckPoll(t, n, b, 2, "/v1/results/t?queue=other&wait_ms=60000", "")
		defer c2()
		list, c3 := stuckPoll(t, n, b, 3, "/v1/results?queue=other&wait_ms=60000", "")
		defer c3()
		changes, c4 := stuckPoll(t, n, b, 4, "/v1/kv-changes?wait_ms=60000", "")
		defer c4()
		n.doors.Drain()
		for name, want := range map[string]struct {
			answer chan said
			status int
			has    string
		}{
			"lease": {lease, 200, `"messages":[]`}, "result": {result, 504, "refused"},
			"results": {list, 200, `"results":[]`}, "changes": {changes, 200, `"entries":[]`},
		} {
			select {
			case a := <-want.answer:
				if a.status != want.status || !strings.Contains(string(a.body), want.has) {
					t.Errorf("%s: %d %s", name, a.status, a.body)
				}
			case <-time.After(patience):
				t.Fatalf("%s is not answered", name)
			}
		}
		if a := b.plain("GET", "/v1/queues", "", nil); a.status != 503 || !a.closes {
			t.Errorf("afterwards: %d %v %s", a.status, a.header, a.body)
		} else {
			b.problem("afterwards", a)
		}
	})
}

// A poll outlives the server's time-outs, which are absolute (C58).
func TestPollOutlivesTimeouts(t *testing.T) {
	const limit = 750 * time.Millisecond // also of what is quick
	n := stations(t, 1, Config{HelloTimeout: limit, MessageTimeout: limit, CallTimeout: 2 * time.Second})[0]
	b := browse(t, n.addr)
	b.ok("PUT", "/v1/queues/q", "", nil)
	answer, cancel := stuckPoll(t, n, b, 1, "/v1/queues/q/lease", `{"wait_ms":60000}`)
	defer cancel()
	time.Sleep(3 * time.Second) // twice what reads may take
	id := b.put("q", `{"body":1}`)
	if a := <-answer; a.status != 200 || !strings.Contains(string(a.body), id) {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// Bytes, time and number of requests are bounded, and who passes a bound is told.
func TestHTTPBounds(t *testing.T) {
	n := stations(t, 1, Config{MaxMessageBytes: 1024, MessageTimeout: 400 * time.Millisecond, MaxRequests: 3})[0]
	b := browse(t, n.addr)
	b.ok("PUT", "/v1/queues/q", "", nil)
	raw := func(t *testing.T, text string) said {
		t.Helper()
		nc, err := net.Dial("tcp", n.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(nc, text); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got, _ := io.ReadAll(resp.Body)
		return said{resp.StatusCode, resp.Header, got, resp.Close}
	}
	t.Run("a body too long by its own word", func(t *testing.T) {
		b.t = t
		a := raw(t, "POST /v1/queues/q/messages HTTP/1.1\r\nHost: "+n.addr+"\r\nContent-Length: 100000000\r\n\r\n")
		if p := b.problem("long", a); a.status != 413 || p.Code != "too_large" {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("a body too long", func(t *testing.T) {
		b.t = t
		a := b.plain("POST", "/v1/queues/q/messages", strings.Repeat(" ", 8<<20), nil)
		if p := b.problem("long", a); a.status != 413 || p.Code != "too_large" {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("a body that does not end", func(t *testing.T) {
		b.t = t
		a := raw(t, "POST /v1/queues/q/messages HTTP/1.1\r\nHost: "+n.addr+"\r\nContent-Length: 10\r\n\r\n{")
		if p := b.problem("slow", a); a.status != 408 || !strings.Contains(p.Detail, "400ms") || !a.closes {
			t.Errorf("%d %s %v", a.status, a.body, a.header)
		}
	})
	t.Run("too many at once", func(t *testing.T) {
		b.t = t
		var ends []func()
		for i := range 3 {
			_, cancel := stuckPoll(t, n, b, int64(i+1), "/v1/queues/q/lease", `{"wait_ms":60000}`)
			ends = append(ends, cancel)
		}
		a := b.plain("GET", "/v1/queues", "", nil)
		if p := b.problem("many", a); a.status != 503 || p.Code != "overloaded" || !strings.Contains(p.Detail, "3 HTTP requests") {
			t.Errorf("%d %s", a.status, a.body)
		}
		if a := b.plain("GET", "/healthz", "", nil); a.status != 200 {
			t.Errorf("health: %d", a.status)
		}
		for _, end := range ends {
			end()
		}
		waitFor(t, func() bool { return waiting(n) == 0 })
		b.ok("GET", "/v1/queues", "", nil)
	})
}
