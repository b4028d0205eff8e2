package load

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/quorate/quorate/client"
)

// answers serves what the HTTP API would answer to requests of messages, and counts them.
func answers(t *testing.T, answer func(w http.ResponseWriter, messages int)) *httpConn {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Messages []struct {
				Body     []byte `json:"body"` // base64
				Encoding string `json:"body_encoding"`
			} `json:"messages"`
		}
		b, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(b, &in)
		}
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/queues/q/messages" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %v: %s, %v", r.Method, r.URL, r.Header, b, err)
		}
		for i, m := range in.Messages {
			if m.Encoding != "base64" || string(m.Body) != fmt.Sprint("body ", i) {
				t.Errorf("message %d is %+v", i, m)
			}
		}
		answer(w, len(in.Messages))
	}))
	t.Cleanup(srv.Close)
	return &httpConn{base: srv.URL, http: srv.Client(), many: 3, sends: make(chan httpSend, 10)}
}

// Each message gets its own outcome, whatever the answer to its request is.
func TestHTTPOutcomes(t *testing.T) {
	say := func(status int, text string) func(http.ResponseWriter, int) {
		return func(w http.ResponseWriter, _ int) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	for _, tc := range []struct {
		name   string
		answer func(http.ResponseWriter, int)
		want   string // of each message: its id, or refused or unknown
	}{
		{"all are confirmed", say(201, `{"messages":[{"id":"a"},{"id":"b"},{"id":"c"}]}`), "a b c"},
		{"one is refused", say(200, `{"messages":[{"id":"a"},{"error":{"code":"queue_full","outcome":"refused"}},{"id":"c"}]}`), "a refused c"},
		{"one is unclear", say(200, `{"messages":[{"id":"a"},{"error":{"code":"timeout","outcome":"unknown"}},{"id":"c"}]}`), "a unknown c"},
		{"the request is refused", say(503, `{"code":"no_leader","outcome":"refused"}`), "refused refused refused"},
		{"the request is unclear", say(504, `{"code":"timeout","outcome":"unknown"}`), "unknown unknown unknown"},
		{"no answer that is known", say(500, `oh`), "unknown unknown unknown"},
		{"no JSON", say(200, `oh`), "unknown unknown unknown"},
		{"outcomes are missing", say(201, `{"messages":[{"id":"a"}]}`), "unknown unknown unknown"},
		{"the connection ends", func(http.ResponseWriter, int) { panic(http.ErrAbortHandler) }, "unknown unknown unknown"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := answers(t, tc.answer)
			got := make([]string, 3)
			for i := range got {
				err := c.EnqueueAsync(t.Context(), "q", client.Message{Body: fmt.Append(nil, "body ", i)}, func(r client.Receipt, err error) {
					switch outcomeOf(err) {
					case outConfirmed:
						got[i] = r.ID
					case outUnknown:
						got[i] = "unknown"
					default:
						got[i] = "refused"
					}
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			close(c.sends)
			c.send()
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("got %s, want %s", s, tc.want)
			}
		})
	}
}

// A request has as many messages as it may, and what is left goes in one of its own.
func TestHTTPRequests(t *testing.T) {
	var sizes []int
	c := answers(t, func(w http.ResponseWriter, messages int) {
		sizes = append(sizes, messages)
		var out []string
		for range messages {
			out = append(out, `{"id":"x"}`)
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"messages":[%s]}`, strings.Join(out, ","))
	})
	done := 0
	for i := range 8 {
		if err := c.EnqueueAsync(t.Context(), "q", client.Message{Body: fmt.Append(nil, "body ", i%3)}, func(_ client.Receipt, err error) {
			if err != nil {
				t.Error(err)
			}
			done++
		}); err != nil {
			t.Fatal(err)
		}
	}
	close(c.sends)
	c.send()
	if fmt.Sprint(sizes) != "[3 3 2]" || done != 8 {
		t.Errorf("requests of %v messages, %d outcomes", sizes, done)
	}
}

// Each request has a key of its own where keys are asked for, and no other connection has the same.
func TestHTTPKeys(t *testing.T) {
	seen := map[string]bool{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen[r.Header.Get("Idempotency-Key")] = true
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"messages":[{"id":"x"}]}`)
	}))
	defer srv.Close()
	for range 2 {
		c := &httpConn{base: srv.URL, http: srv.Client(), many: 1, keys: keysOf(&Config{HTTPKeys: true}), sends: make(chan httpSend, 10)}
		for range 3 {
			if err := c.EnqueueAsync(t.Context(), "q", client.Message{}, func(_ client.Receipt, err error) {
				if err != nil {
					t.Error(err)
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		close(c.sends)
		c.send()
	}
	if len(seen) != 6 || seen[""] {
		t.Errorf("keys %v", seen)
	}
	if keys := keysOf(&Config{}); keys != "" {
		t.Errorf("keys %q that nobody asked for", keys)
	}
}
