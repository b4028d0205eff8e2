package hook

import (
	"net/http"
	"strings"
	"testing"
)

func mappedHook(expression string) Hook {
	return Hook{Name: "h", Queue: "q", Kind: "k", Verify: Verify{Scheme: Plain, Header: "X-Signature"}, KeepHeaders: []string{"X-Event"},
		Idempotency: Idempotency{Pointer: "/event/id"}, Map: expression, Schema: []byte(`{"required":["event"]}`)}
}

// The message's body is what the map makes of the webhook's; schema and idempotency key are those of what came.
func TestMap(t *testing.T) {
	s := serveHooks(t, Config{}, mappedHook(`headers["x-event"] == "ping" ? nil : {id: body.event.id, from: headers.hook_name, queue: message.queue}`))
	for _, c := range []struct {
		name, body, event string
		status            int
		message, answer   string // "": none is enqueued, nothing is said of it
	}{
		{"mapped", `{"event":{"id":"e1"}}`, "push", http.StatusAccepted, `{"from":"h","id":"e1","queue":"q"}`, ""},
		{"nothing", `{"event":{"id":"e2"}}`, "ping", http.StatusOK, "", ""},
		{"an error", `{"event":"e3"}`, "push", http.StatusBadRequest, "", "/event/id"},
		{"a schema comes first", `{}`, "push", http.StatusBadRequest, "", "schema"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(s.log.got)
			r, answer := s.post("/hook/h", c.body, "X-Signature", sign(testSecret, c.body), "X-Event", c.event)
			if r.StatusCode != c.status {
				t.Fatalf("%d %v, want %d", r.StatusCode, answer, c.status)
			}
			if text, _ := answer["detail"].(string); !strings.Contains(text, c.answer) {
				t.Errorf("said %q, want %q", text, c.answer)
			}
			if c.message == "" {
				if len(s.log.got) != before {
					t.Errorf("enqueued %s", s.log.got[before].Body)
				}
				return
			}
			m := s.log.got[before]
			if string(m.Body) != c.message || m.ContentType != "application/json" || len(m.DedupKey) == 0 {
				t.Errorf("%s of %s under key %q", m.Body, m.ContentType, m.DedupKey)
			}
		})
	}
}

// A map that fails refuses the webhook, and says where it fails.
func TestMapFails(t *testing.T) {
	s := serveHooks(t, Config{}, mappedHook(`body.event.id + 1`))
	body := `{"event":{"id":"e1"}}`
	r, answer := s.post("/hook/h", body, "X-Signature", sign(testSecret, body))
	if r.StatusCode != http.StatusBadRequest || !strings.Contains(answer["detail"].(string), "the hook's map fails at 1:15: a text + a number") || len(s.log.got) != 0 {
		t.Errorf("%d %v, %d enqueued", r.StatusCode, answer, len(s.log.got))
	}
}

// What is no expression is refused when the hook is made.
func TestMapChecked(t *testing.T) {
	h := mappedHook(`now()`)
	if f := h.Check(1 << 20); f == nil || f.Field != "map" || !strings.Contains(f.Message, "1:1: ") {
		t.Errorf("%+v", f)
	}
}
