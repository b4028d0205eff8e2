package push

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// seen is a request as an endpoint got it.
type seen struct {
	method, path string
	header       http.Header
	body         []byte
}

// verified is whether one of the signatures of a request is by a secret, by the words of Standard Webhooks.
func verified(r seen, key []byte) bool {
	m := hmac.New(sha256.New, key)
	fmt.Fprintf(m, "%s.%s.%s", r.header.Get("webhook-id"), r.header.Get("webhook-timestamp"), r.body)
	for _, s := range strings.Fields(r.header.Get("webhook-signature")) {
		version, sum, _ := strings.Cut(s, ",")
		b, err := base64.StdEncoding.DecodeString(sum)
		if version == "v1" && err == nil && hmac.Equal(b, m.Sum(nil)) {
			return true
		}
	}
	return false
}

// recorder is an endpoint that takes everything and tells the test.
func recorder(t *testing.T) (url string, got chan seen) {
	got = make(chan seen, 1000)
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- seen{r.Method, r.URL.String(), r.Header, b}
	})
	return s.URL, got
}

func TestRequest(t *testing.T) {
	t.Parallel()
	url, got := recorder(t)
	oldKey, newKey := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	b := newBroker(
		Target{Queue: "signed", URL: url + "/in?a=b", Secrets: []string{"new", "old"}, Headers: []string{"authorization", "traceparent"}},
		Target{Queue: "plain", URL: url},
	)
	start(t, Config{Broker: b, Allow: loopbacks, Secrets: map[string][]byte{"old": oldKey, "new": newKey}, Clock: newClock(), UserAgent: "quorate/7"})
	binary := []byte{0, 0xff, '\n', '.'}
	b.queue("signed") <- &Message{ID: "00000G0000000000G000000002", TaskID: "order 17", Kind: "ship", ContentType: "application/json", Body: binary, Attempt: 3,
		Headers: []Header{{"Traceparent", "00-1"}, {"secret", "x"}, {"authorization", "a\r\nX-Evil: 1"}, {"webhook-id", "other"}}}
	r := <-got
	for name, want := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "quorate/7", "Webhook-Id": "00000G0000000000G000000002", "Webhook-Timestamp": fmt.Sprint(theTime.Unix()),
		"Quorate-Queue": "signed", "Quorate-Attempt": "3", "Quorate-Task-Id": "order 17", "Quorate-Kind": "ship", "Traceparent": "00-1",
		"Secret": "", "Authorization": "", "X-Evil": "", "Content-Length": "", "Accept-Encoding": "",
	} {
		if v := r.header.Get(name); v != want && name != "Content-Length" {
			t.Errorf("%s is %q, want %q", name, v, want)
		}
	}
	if r.method != http.MethodPost || r.path != "/in?a=b" || !bytes.Equal(r.body, binary) {
		t.Errorf("%s %s with %q", r.method, r.path, r.body)
	}
	if !verified(r, oldKey) || !verified(r, newKey) || verified(r, bytes.Repeat([]byte{3}, 32)) || len(strings.Fields(r.header.Get("Webhook-Signature"))) != 2 {
		t.Errorf("signatures %q", r.header.Get("Webhook-Signature"))
	}
	b.queue("plain") <- &Message{ID: "2", Attempt: 1, Kind: "line\nbreak", ContentType: "a\x00b"}
	r = <-got
	if r.header.Get("Content-Type") != "application/octet-stream" || r.header.Values("Webhook-Signature") != nil || r.header.Values("Quorate-Kind") != nil || len(r.body) != 0 {
		t.Errorf("of a message with nothing: %v, %q", r.header, r.body)
	}
}

// While a secret is replaced there is no moment at which an endpoint that knows one of the two cannot verify what it gets.
func TestRotation(t *testing.T) {
	t.Parallel()
	url, got := recorder(t)
	keys := map[string][]byte{"old": bytes.Repeat([]byte{1}, 24), "new": bytes.Repeat([]byte{2}, 64)}
	b := newBroker(Target{Queue: "q", URL: url, Secrets: []string{"old"}})
	p, _ := start(t, Config{Broker: b, Allow: loopbacks, Secrets: keys})
	send := func(n int) (r seen) {
		b.queue("q") <- &Message{ID: fmt.Sprint(n), Body: []byte("x")}
		return <-got
	}
	until := func(what string, ok func(seen) bool) {
		t.Helper()
		for n := range 1000 {
			r := send(n)
			if !verified(r, keys["old"]) && !verified(r, keys["new"]) {
				t.Fatalf("%s: signed by neither: %v", what, r.header)
			}
			if ok(r) {
				return
			}
			time.Sleep(time.Millisecond)
		}
		t.Fatal("never:", what)
	}
	until("the old one signs", func(r seen) bool { return verified(r, keys["old"]) && !verified(r, keys["new"]) })
	b.set(Target{Queue: "q", URL: url, Secrets: []string{"new", "old"}})
	until("both sign", func(r seen) bool { return verified(r, keys["old"]) && verified(r, keys["new"]) })
	b.set(Target{Queue: "q", URL: url, Secrets: []string{"new"}})
	until("the new one signs", func(r seen) bool { return !verified(r, keys["old"]) && verified(r, keys["new"]) })
	b.set(Target{Queue: "q", URL: url, Secrets: []string{"newer"}})
	says(t, p, "q", `has no secret "newer"`)
	b.queue("q") <- &Message{ID: "waits"}
	b.set(Target{Queue: "q", URL: url, Secrets: []string{"new"}})
	if r := <-got; r.header.Get("Webhook-Id") != "waits" {
		t.Errorf("got %v", r.header)
	}
}

// Every answer has its end, and its rest.
func TestAnswers(t *testing.T) {
	t.Parallel()
	status := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			fmt.Fprint(w, "said\r\nso")
		}
	}
	raw := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				fmt.Fprint(c, text)
				c.Close()
			}
		}
	}
	var redirected atomic.Int64
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { redirected.Add(1) })
	for _, c := range []struct {
		name string
		h    http.HandlerFunc
		do   Do
		text string        // of the error or the result
		rest time.Duration // after one of these, 0: none
	}{
		{"200 with a result", status(200, "Content-Type", "text/x"), Ack, "said\r\nso", 0},
		{"204", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, Ack, "", 0},
		{"299", status(299), Ack, "said\r\nso", 0},
		{"200 with the largest result", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, maxAnswer)) }, Ack, string(make([]byte, maxAnswer)), 0},
		{"200 with more", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, maxAnswer+1)) }, Ack, "", 0},
		{"200 cut off", raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), Ack, "", 0},
		{"301", status(301, "Location", elsewhere.URL), Retry, "301 Moved Permanently: redirects are not followed", 0},
		{"302", status(302, "Location", elsewhere.URL), Retry, "302 Found: redirects are not followed", 0},
		{"307", status(307, "Location", elsewhere.URL), Retry, "307 Temporary Redirect: redirects are not followed", 0},
		{"400", status(400), Dead, "400 Bad Request: said so", 0},
		{"401", status(401), Retry, "401 Unauthorized: said so", 0},
		{"403", status(403), Retry, "403 Forbidden: said so", 0},
		{"404", status(404), Dead, "404 Not Found: said so", 0},
		{"408", status(408), Retry, "408 Request Timeout: said so", 0},
		{"409", status(409), Retry, "409 Conflict: said so", 0},
		{"410", status(410), Dead, "410 Gone: said so", 0},
		{"413", status(413), Dead, "413 Request Entity Too Large: said so", 0},
		{"422", status(422), Dead, "422 Unprocessable Entity: said so", 0},
		{"429", status(429), Return, "", time.Second},
		{"429 for seven seconds", status(429, "Retry-After", "7"), Return, "", 7 * time.Second},
		{"429 until a time", status(429, "Retry-After", theTime.Add(90*time.Second).Format(http.TimeFormat)), Return, "", 90 * time.Second},
		{"429 until a time that is over", status(429, "Retry-After", theTime.Add(-90*time.Second).Format(http.TimeFormat)), Return, "", time.Second},
		{"429 for ever", status(429, "Retry-After", "99999999999999999999"), Return, "", 10 * time.Minute},
		{"429 for a day", status(429, "Retry-After", "86400"), Return, "", 10 * time.Minute},
		{"429 for less than nothing", status(429, "Retry-After", "-5"), Return, "", time.Second},
		{"429 for nonsense", status(429, "Retry-After", "soon"), Return, "", time.Second},
		{"500", status(500), Retry, "500 Internal Server Error: said so", 0},
		{"500 with Retry-After", status(500, "Retry-After", "7"), Retry, "500 Internal Server Error: said so", 0},
		{"503", status(503), Retry, "503 Service Unavailable: said so", 0},
		{"503 for seven seconds", status(503, "Retry-After", "7"), Return, "", 7 * time.Second},
		{"599", status(599), Retry, "599: said so", 0},
		{"a connection that ends", raw(""), Retry, "no answer: EOF", 0},
		{"no HTTP", raw("SSH-2.0-x\r\n"), Retry, "no answer: ", 0},
		{"a head without an end", raw("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*maxHead)), Retry, "no answer: ", 0},
		{"informational answers without an end", raw(strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 100)), Retry, "no answer: ", 0},
		{"an answer of control characters", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500); fmt.Fprint(w, "a\x00\x1b[2J\xffb") }, Retry, "500 Internal Server Error: a [2J.b", 0},
		{"a long answer", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			fmt.Fprint(w, strings.Repeat("ä", 9999))
		}, Retry, "500 Internal Server Error: " + strings.Repeat("ä", maxQuoted/2), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, c.h)
			b, clock := newBroker(Target{Queue: "q", URL: s.URL, Concurrency: 1}), newClock()
			p, _ := start(t, Config{Broker: b, Allow: loopbacks, Clock: clock})
			b.queue("q") <- &Message{ID: "1", Attempt: 1}
			v := b.next(t).verdict
			text := v.Error
			if v.Do == Ack {
				text = string(v.Result)
			}
			if v.Do != c.do || text != c.text && (c.do != Retry || !strings.HasSuffix(c.text, ": ") || !strings.HasPrefix(text, c.text)) {
				t.Errorf("verdict %d %.80q, want %d %.80q", v.Do, text, c.do, c.text)
			}
			if v.Do == Ack && len(v.Result) == 8 && c.name != "299" && v.ContentType != "text/x" {
				t.Errorf("the result is of type %q", v.ContentType)
			}
			if c.rest > 0 {
				if r := clock.next(t); r.d != c.rest {
					t.Errorf("rests %s, want %s", r.d, c.rest)
				}
				says(t, p, "q", "the endpoint asks for it: "+strings.Fields(c.name)[0])
			}
		})
	}
	t.Cleanup(func() {
		if n := redirected.Load(); n != 0 {
			t.Errorf("%d redirects were followed", n)
		}
	})
}

// Which statuses are permanent is the queue's to say.
func TestPermanent(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var code int
		fmt.Sscan(r.Header.Get("Quorate-Kind"), &code)
		w.WriteHeader(code)
	})
	b := newBroker(Target{Queue: "q", URL: s.URL, Permanent: []int64{401, 418}})
	start(t, Config{Broker: b, Allow: loopbacks})
	for _, c := range []struct {
		code int
		do   Do
	}{{401, Dead}, {418, Dead}, {404, Retry}} { // the last one comes again and again
		b.queue("q") <- &Message{ID: "1", Kind: fmt.Sprint(c.code)}
		if v := b.next(t).verdict; v.Do != c.do {
			t.Errorf("%d: %+v", c.code, v)
		}
	}
}

// An endpoint that does not answer costs an attempt when the time-out is over, and one that answers for ever is heard no longer.
func TestTimeout(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/trickle" {
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(release) })
	b := newBroker(Target{Queue: "silent", URL: s.URL, Timeout: 2 * time.Second, Concurrency: 1}, Target{Queue: "trickle", URL: s.URL + "/trickle", Timeout: 2 * time.Second})
	start(t, Config{Broker: b, Allow: loopbacks})
	b.queue("trickle") <- &Message{ID: "1"}
	if v := b.next(t).verdict; v.Do != Ack || v.Result != nil {
		t.Errorf("an answer without an end: %+v", v)
	}
	b.queue("silent") <- &Message{ID: "2"}
	if v := b.next(t).verdict; v.Do != Retry || v.Error != "no answer within 2s" {
		t.Errorf("no answer: %+v", v)
	}
}

// An endpoint that takes no connection within the time has not been sent anything.
func TestUnreached(t *testing.T) {
	t.Parallel()
	b := newBroker(Target{Queue: "refused", URL: "http://127.0.0.1:1/hook/token-of-somebody", Concurrency: 1}, Target{Queue: "unknown", URL: "http://no.such.name.invalid/x", Concurrency: 1})
	p, _ := start(t, Config{Broker: b, Allow: loopbacks, Clock: newClock()})
	for _, queue := range []string{"refused", "unknown"} {
		b.queue(queue) <- &Message{ID: queue}
		for range breakAfter {
			if v := b.next(t).verdict; v.Do != Return {
				t.Errorf("%s: %+v", queue, v)
			}
		}
		says(t, p, queue, "no connection: ")
		if text := p.State(queue); strings.Contains(fmt.Sprint(text), "token-of-somebody") {
			t.Errorf("the URL is shown: %+v", text)
		}
	}
}
