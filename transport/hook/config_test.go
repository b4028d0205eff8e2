package hook

import (
	"strings"
	"testing"
	"time"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	base := func(change func(*Hook)) Hook {
		h := Hook{Name: "h", Queue: "q", Verify: Verify{Scheme: "github"}}
		change(&h)
		return h
	}
	for _, tc := range []struct {
		name, field, want string
		hook              Hook
	}{
		{"fine", "", "", base(func(*Hook) {})},
		{"all of it", "", "", Hook{Name: "all-of.it", Queue: "q", Kind: "k", Verify: Verify{Scheme: Plain, Header: "X-S", Prefix: "v1=", Encoding: Base64},
			Idempotency: Idempotency{Pointer: "/a"}, KeepHeaders: []string{"X-A", "x-b"}, MaxBodyBytes: 5, Schema: []byte(`{"type":"object","$defs":{"a":{}},"properties":{"x":{"$ref":"#/$defs/a"}}}`)}},
		{"no name", "name", "", base(func(h *Hook) { h.Name = "" })},
		{"a name that is no part of a path", "name", "", base(func(h *Hook) { h.Name = "a/b" })},
		{"no queue", "queue", "", base(func(h *Hook) { h.Queue = "" })},
		{"long kind", "kind", "129 bytes", base(func(h *Hook) { h.Kind = strings.Repeat("k", 129) })},
		{"unknown scheme", "verify.scheme", "github, pagerduty, shopify, slack, stripe, hmac-sha256", base(func(h *Hook) { h.Verify.Scheme = "hmac-sha1" })},
		{"no scheme", "verify.scheme", "hmac-sha256", base(func(h *Hook) { h.Verify.Scheme = "" })},
		{"plain without a header", "verify.header", "name of the header", base(func(h *Hook) { h.Verify.Scheme = Plain })},
		{"plain with a bad header", "verify.header", "name of the header", base(func(h *Hook) { h.Verify = Verify{Scheme: Plain, Header: "a b"} })},
		{"prefix with a comma", "verify.prefix", "without comma", base(func(h *Hook) { h.Verify = Verify{Scheme: Plain, Header: "a", Prefix: "v1=,"} })},
		{"unknown encoding", "verify.encoding", "hex or base64", base(func(h *Hook) { h.Verify = Verify{Scheme: Plain, Header: "a", Encoding: "base32"} })},
		{"a header of a named scheme", "verify.header", "has its own", base(func(h *Hook) { h.Verify.Header = "X-S" })},
		{"a prefix of a named scheme", "verify.prefix", "has its own", base(func(h *Hook) { h.Verify.Prefix = "v1=" })},
		{"tolerance of what signs no time", "verify.tolerance_ms", "no timestamp", base(func(h *Hook) { h.Verify.Tolerance = time.Minute })},
		{"tolerance too wide", "verify.tolerance_ms", "1000 to 86400000", base(func(h *Hook) { h.Verify = Verify{Scheme: "stripe", Tolerance: 25 * time.Hour} })},
		{"negative tolerance", "verify.tolerance_ms", "1000 to 86400000", base(func(h *Hook) { h.Verify = Verify{Scheme: "stripe", Tolerance: -1} })},
		{"two places of the key", "idempotency", "one of them", base(func(h *Hook) { h.Idempotency = Idempotency{Header: "a", Pointer: "/a"} })},
		{"bad header of the key", "idempotency.header", "no name", base(func(h *Hook) { h.Idempotency.Header = "a:" })},
		{"pointer without a slash", "idempotency.pointer", "/event/id", base(func(h *Hook) { h.Idempotency.Pointer = "event.id" })},
		{"pointer with a bad escape", "idempotency.pointer", "~0", base(func(h *Hook) { h.Idempotency.Pointer = "/a~2" })},
		{"pointer that ends in an escape", "idempotency.pointer", "~0", base(func(h *Hook) { h.Idempotency.Pointer = "/a~" })},
		{"pointer of many parts", "idempotency.pointer", "16 parts", base(func(h *Hook) { h.Idempotency.Pointer = strings.Repeat("/a", 17) })},
		{"kept header twice", "keep_headers", "twice", base(func(h *Hook) { h.KeepHeaders = []string{"X-A", "x-a"} })},
		{"kept header of ours", "keep_headers", "this node's own", base(func(h *Hook) { h.KeepHeaders = []string{"Hook_Source"} })},
		{"kept header that is none", "keep_headers", "no name", base(func(h *Hook) { h.KeepHeaders = []string{""} })},
		{"33 kept headers", "keep_headers", "at most 32", base(func(h *Hook) { h.KeepHeaders = make([]string, 33) })},
		{"body larger than messages", "max_body_bytes", "1 to 1000", base(func(h *Hook) { h.MaxBodyBytes = 1001 })},
		{"negative body", "max_body_bytes", "1 to 1000", base(func(h *Hook) { h.MaxBodyBytes = -1 })},
		{"schema that is no JSON", "schema_file", "no JSON", base(func(h *Hook) { h.Schema = []byte("{") })},
		{"schema that is none", "schema_file", "cannot be used", base(func(h *Hook) { h.Schema = []byte(`{"type":"thing"}`) })},
		{"schema that needs a file", "schema_file", "outside the schema", base(func(h *Hook) { h.Schema = []byte(`{"$ref":"file:///etc/passwd"}`) })},
		{"schema that needs an address", "schema_file", "outside the schema", base(func(h *Hook) { h.Schema = []byte(`{"$ref":"https://example.com/s.json"}`) })},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := tc.hook.Check(1000)
			if tc.field == "" {
				if f != nil {
					t.Fatal(f)
				}
				return
			}
			if f == nil || f.Field != tc.field || !strings.Contains(f.Message, tc.want) {
				t.Errorf("the fault is %+v, want field %s and %q", f, tc.field, tc.want)
			}
		})
	}
}

func TestCheckSecrets(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		secrets [][]byte
		ok      bool
	}{
		"one":   {secrets("a"), true},
		"eight": {secrets("a", "b", "c", "d", "e", "f", "g", "h"), true},
		"none":  {nil, false},
		"nine":  {secrets("a", "b", "c", "d", "e", "f", "g", "h", "i"), false},
		"empty": {secrets("a", ""), false},
	} {
		if err := CheckSecrets(tc.secrets); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
