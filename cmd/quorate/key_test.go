package main

import (
	"encoding/base64"
	"encoding/csv"
	"strings"
	"testing"
)

// keyJSON is what every JSON of a message says of its ordering key.
type keyJSON struct {
	ID, Token string
	Key       *string `json:"key"`
	KeyBase64 *string `json:"key_base64"`
}

func (k keyJSON) key(t *testing.T) string {
	t.Helper()
	switch {
	case k.Key != nil && k.KeyBase64 != nil:
		t.Fatalf("two keys: %q and %q", *k.Key, *k.KeyBase64)
	case k.Key != nil:
		return *k.Key
	case k.KeyBase64 != nil:
		b, err := base64.StdEncoding.DecodeString(*k.KeyBase64)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	return ""
}

// Wherever a message is shown whole, its ordering key is shown, whatever bytes it is of.
func TestKeysAreShown(t *testing.T) {
	t.Parallel()
	addr := devNode(t)
	for _, c := range []struct{ name, key string }{
		{"none", ""}, {"text", "tenant-7"}, {"unicode", "ü/€"}, {"no_text", "\xff\xfe"}, {"a_control_character", "a\x01b"}, {"formula", "=1+1"},
		{"longest", strings.Repeat("k", 256)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			q := "keys-" + c.name
			args := []string{"enqueue", q, "body"}
			if c.key != "" {
				args = append(args, "--key", c.key)
			}
			id := strings.TrimSpace(must(t, addr, "", args...))
			one := func(what string, ms []keyJSON) keyJSON {
				t.Helper()
				if len(ms) != 1 || ms[0].ID != id {
					t.Fatalf("%s: %+v", what, ms)
				}
				if got := ms[0].key(t); got != c.key {
					t.Errorf("%s: key %q, want %q", what, got, c.key)
				}
				return ms[0]
			}
			one("queue peek", decode[[]keyJSON](t, must(t, addr, "", "queue", "peek", q, "-o", "json")))
			one("task status", []keyJSON{decode[keyJSON](t, must(t, addr, "", "task", "status", id, "-o", "json"))})
			if out := must(t, addr, "", "task", "status", id); strings.Contains(out, "\nkey ") != (c.key != "") {
				t.Errorf("task status in words: %s", out)
			}
			if c.key != "" {
				s := "s-" + c.name
				must(t, addr, "", "schedule", "create", s, "--queue", q, "--cron", "@yearly", "--paused", "--key", c.key, "--header", "a=b")
				v := decode[struct {
					Message struct {
						keyJSON
						Headers map[string]string
					}
				}](t, must(t, addr, "", "schedule", "show", s, "-o", "json"))
				if got := v.Message.key(t); got != c.key || v.Message.Headers["a"] != "b" {
					t.Errorf("schedule show: key %q, headers %v", got, v.Message.Headers)
				}
			}
			m := one("lease", decode[[]keyJSON](t, must(t, addr, "", "lease", q, "-o", "json")))
			must(t, addr, "", "nack", m.Token, "--permanent")
			one("dlq list", decode[[]keyJSON](t, must(t, addr, "", "dlq", "list", q, "-o", "json")))
			one("dlq show", []keyJSON{decode[keyJSON](t, must(t, addr, "", "dlq", "show", q, id, "-o", "json"))})
			one("dlq export", decode[[]keyJSON](t, must(t, addr, "", "dlq", "export", q)))

			rows, err := csv.NewReader(strings.NewReader(must(t, addr, "", "dlq", "export", q, "--format", "csv"))).ReadAll()
			if err != nil || len(rows) != 2 {
				t.Fatalf("csv of %d rows: %v", len(rows), err)
			}
			cell := map[string]string{}
			for i, name := range rows[0] {
				cell[name] = rows[1][i]
			}
			got := cell["key"]
			if cell["key_encoding"] == "base64" {
				b, err := base64.StdEncoding.DecodeString(got)
				if err != nil {
					t.Fatal(err)
				}
				got = string(b)
			}
			if got != harmless(c.key) {
				t.Errorf("csv: key %q (%s), want %q", cell["key"], cell["key_encoding"], harmless(c.key))
			}
		})
	}
}
