package hook

import (
	"bytes"
	"strings"
	"testing"
)

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	const body = `{"event":{"id":"01BW","n":7,"at":{"a/b":"slash","c~d":"tilde","":"empty name"}},"list":[{"id":"first"},-1.50],"no":null,"yes":true}`
	for _, tc := range []struct {
		name         string
		idem         Idempotency
		head, body   []string
		key, refusal string
	}{
		{"none", Idempotency{}, nil, []string{"no JSON at all"}, "", ""},
		{"header", Idempotency{Header: "x-github-delivery"}, []string{"X-GitHub-Delivery", "72d3162e"}, []string{"no JSON"}, "72d3162e", ""},
		{"header missing", Idempotency{Header: "X-Id"}, nil, []string{body}, "", "X-Id, which holds the idempotency key, is there 0 times"},
		{"header empty", Idempotency{Header: "X-Id"}, []string{"X-Id", ""}, []string{body}, "", "0 bytes"},
		{"header twice", Idempotency{Header: "X-Id"}, []string{"X-Id", "a", "X-Id", "b"}, []string{body}, "", "2 times"},
		{"the longest", Idempotency{Header: "X-Id"}, []string{"X-Id", strings.Repeat("k", 256)}, nil, strings.Repeat("k", 256), ""},
		{"too long", Idempotency{Header: "X-Id"}, []string{"X-Id", strings.Repeat("k", 257)}, nil, "", "257 bytes"},
		{"pointer", Idempotency{Pointer: "/event/id"}, nil, []string{body}, "01BW", ""},
		{"pointer to a number", Idempotency{Pointer: "/event/n"}, nil, []string{body}, "7", ""},
		{"pointer into a list", Idempotency{Pointer: "/list/0/id"}, nil, []string{body}, "first", ""},
		{"a number as it is written", Idempotency{Pointer: "/list/1"}, nil, []string{body}, "-1.50", ""},
		{"escaped slash", Idempotency{Pointer: "/event/at/a~1b"}, nil, []string{body}, "slash", ""},
		{"escaped tilde", Idempotency{Pointer: "/event/at/c~0d"}, nil, []string{body}, "tilde", ""},
		{"empty name", Idempotency{Pointer: "/event/at/"}, nil, []string{body}, "empty name", ""},
		{"other case", Idempotency{Pointer: "/Event/id"}, nil, []string{body}, "", "nothing at /Event"},
		{"beyond the list", Idempotency{Pointer: "/list/2"}, nil, []string{body}, "", "nothing at /list/2"},
		{"no index", Idempotency{Pointer: "/list/01"}, nil, []string{body}, "", "nothing at /list/01"},
		{"a negative index", Idempotency{Pointer: "/list/-1"}, nil, []string{body}, "", "nothing at /list/-1"},
		{"into a string", Idempotency{Pointer: "/event/id/x"}, nil, []string{body}, "", "nothing at /event/id/x"},
		{"null", Idempotency{Pointer: "/no"}, nil, []string{body}, "", "neither a string nor a number"},
		{"true", Idempotency{Pointer: "/yes"}, nil, []string{body}, "", "neither a string nor a number"},
		{"an object", Idempotency{Pointer: "/event"}, nil, []string{body}, "", "neither a string nor a number"},
		{"no JSON", Idempotency{Pointer: "/event/id"}, nil, []string{"event=1", "", "{", `{"event":{"id":"x"}} {}`, `{"event":{"id":"x"},}`}, "", "no JSON"},
		{"an empty string", Idempotency{Pointer: "/id"}, nil, []string{`{"id":""}`}, "", "0 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h, f := (&Hook{Name: "h", Queue: "q", Verify: Verify{Scheme: "github"}, Idempotency: tc.idem}).ready(1 << 20)
			if f != nil {
				t.Fatal(f)
			}
			for _, b := range append(tc.body, tc.body...) {
				key, err := h.idempotencyKey(head(tc.head...), []byte(b))
				switch {
				case err == nil && (tc.refusal != "" || key != tc.key):
					t.Errorf("the key is %q, want %q or refused for %q", key, tc.key, tc.refusal)
				case err != nil && (tc.refusal == "" || !strings.Contains(err.Error(), tc.refusal)):
					t.Errorf("refused with %q, want %q", err, tc.refusal)
				}
			}
		})
	}
}

// Keys of two hooks never meet in a queue, whatever the hooks and keys are called.
func TestDedupKeysAreTheHooks(t *testing.T) {
	t.Parallel()
	key := func(name, key string) []byte { return (&hook{Hook: Hook{Name: name}}).dedupKey(key) }
	if bytes.Equal(key("a", "1"), key("b", "1")) || bytes.Equal(key("a", "1"), key("a", "2")) || bytes.Equal(key("a", "b1"), key("ab", "1")) {
		t.Error("two keys are one")
	}
	if !bytes.Equal(key("a", "1"), key("a", "1")) {
		t.Error("one key is two")
	}
}
