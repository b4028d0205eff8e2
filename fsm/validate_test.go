package fsm

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestValidQueueName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"a": true, "9": true, "Z": true, "orders.eu-1_x:y": true, strings.Repeat("a", 128): true, "a.": true,
		"": false, strings.Repeat("a", 129): false, ".a": false, "-a": false, "_a": false, ":a": false, "a b": false, "a/b": false, "ä": false,
		"a\x00": false, "a\n": false, "a{b}": false,
	} {
		if got := ValidQueueName([]byte(name)); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

func TestValidateMessage(t *testing.T) {
	t.Parallel()
	x := func(n int) []byte { return bytes.Repeat([]byte("x"), n) }
	headers := func(n, name, value int) []Header {
		h := make([]Header, n)
		for i := range h {
			h[i] = Header{Name: x(name), Value: x(value)}
		}
		return h
	}
	bad := []byte{0xFF}
	for _, c := range []struct {
		name  string
		m     Message
		field Field
		limit int64
	}{
		{"empty", Message{}, FieldNone, 0},
		{"all at their limits", Message{
			TaskID: x(128), Kind: x(128), ContentType: x(128), Body: x(1000), Key: x(256), Priority: 9, Headers: headers(4, 0+96, 4000),
			DelayMillis: 366 * day, TTLMillis: 366 * day, TimeoutMillis: 366 * day, DueAt: 1 << 62,
		}, FieldNone, 0},
		{"binary body and key", Message{Body: bad, Key: bad}, FieldNone, 0},
		{"body", Message{Body: x(1001)}, FieldBody, 1000},
		{"task id", Message{TaskID: x(129)}, FieldTaskID, 128},
		{"task id not text", Message{TaskID: bad}, FieldTaskID, 0},
		{"kind", Message{Kind: x(129)}, FieldKind, 128},
		{"kind not text", Message{Kind: bad}, FieldKind, 0},
		{"content type", Message{ContentType: x(129)}, FieldContentType, 128},
		{"content type not text", Message{ContentType: bad}, FieldContentType, 0},
		{"key", Message{Key: x(257)}, FieldKey, 256},
		{"priority", Message{Priority: 10}, FieldPriority, 9},
		{"delay negative", Message{DelayMillis: -1}, FieldDelay, 0},
		{"delay", Message{DelayMillis: 366*day + 1}, FieldDelay, 366 * day},
		{"due negative", Message{DueAt: -1}, FieldDelay, 0},
		{"ttl negative", Message{TTLMillis: -1}, FieldTTL, 0},
		{"ttl", Message{TTLMillis: 366*day + 1}, FieldTTL, 366 * day},
		{"timeout negative", Message{TimeoutMillis: -1}, FieldTimeout, 0},
		{"timeout", Message{TimeoutMillis: 366*day + 1}, FieldTimeout, 366 * day},
		{"64 headers", Message{Headers: headers(64, 1, 1)}, FieldNone, 0},
		{"65 headers", Message{Headers: headers(65, 1, 1)}, FieldHeaders, 64},
		{"header without name", Message{Headers: headers(1, 0, 1)}, FieldHeaders, 0},
		{"header name", Message{Headers: headers(1, 129, 1)}, FieldHeaders, 128},
		{"header value", Message{Headers: headers(1, 1, 4097)}, FieldHeaders, 4096},
		{"headers together", Message{Headers: headers(5, 1, 4096)}, FieldHeaders, 16 << 10},
		{"header name not text", Message{Headers: []Header{{Name: bad}}}, FieldHeaders, 0},
		{"header value not text", Message{Headers: []Header{{Name: x(1), Value: bad}}}, FieldHeaders, 0},
		{"retry", Message{Retry: RetryPolicy{Kind: RetryFixed, MaxAttempts: 1001}}, FieldRetry, 0},
		{"retry kind", Message{Retry: RetryPolicy{Kind: 9}}, FieldRetry, 0},
		{"retry good", Message{Retry: RetryPolicy{Kind: RetryFixed, MaxAttempts: 1}}, FieldNone, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, limit, ok := ValidateMessage(&c.m, 1000)
			if f != c.field || limit != c.limit || ok != (c.field == FieldNone) {
				t.Errorf("field %d limit %d %v, want %d %d", f, limit, ok, c.field, c.limit)
			}
		})
	}
	big := Message{Body: make([]byte, MaxBodyBytes+1)}
	for _, maxBody := range []int{0, -1, 1 << 40} {
		if f, limit, ok := ValidateMessage(&big, maxBody); f != FieldBody || limit != MaxBodyBytes || ok {
			t.Errorf("door limit %d: field %d limit %d %v, want the format's limit", maxBody, f, limit, ok)
		}
	}
}

func TestQueueOptions(t *testing.T) {
	t.Parallel()
	var o QueueOptions
	if f, err := o.Validate(); err != nil || f != FieldNone {
		t.Errorf("unset options: %v", err)
	}
	o.Normalize()
	want := QueueOptions{
		LeaseMillis: 30_000, Retry: RetryPolicy{Kind: RetrySchedule, Steps: []int64{1000, 5000, 10000}}, MaxDead: 1_000_000,
		DeadRetentionMillis: 30 * day, DedupWindowMillis: day, DedupMaxKeys: 1_000_000, ResultTTLMillis: day, MaxResultsBytes: 256 << 20,
	}
	if !o.Equal(&want) {
		t.Errorf("defaults %+v, want %+v", o, want)
	}
	if f, err := o.Validate(); err != nil || f != FieldNone {
		t.Errorf("defaults: %v", err)
	}
	for _, c := range []struct {
		name  string
		set   func(o *QueueOptions)
		field Field // FieldNone: good
		want  string
	}{
		{"lease least", func(o *QueueOptions) { o.LeaseMillis = 100 }, FieldNone, ""},
		{"lease short", func(o *QueueOptions) { o.LeaseMillis = 99 }, FieldLease, "lease_ms 99, want 100 to 43200000"},
		{"lease longest", func(o *QueueOptions) { o.LeaseMillis = 12 * 3600 * 1000 }, FieldNone, ""},
		{"lease long", func(o *QueueOptions) { o.LeaseMillis = 12*3600*1000 + 1 }, FieldLease, "lease_ms"},
		{"lease negative", func(o *QueueOptions) { o.LeaseMillis = -1 }, FieldLease, "lease_ms -1"},
		{"retry", func(o *QueueOptions) { o.Retry.Kind = 9 }, FieldRetry, "kind 9"},
		{"overflow", func(o *QueueOptions) { o.DeadOverflow = 2 }, FieldOptions, "dead_overflow 2"},
		{"max_dead", func(o *QueueOptions) { o.MaxDead = 10_000_001 }, FieldOptions, "max_dead"},
		{"retention least", func(o *QueueOptions) { o.DeadRetentionMillis = 1000 }, FieldNone, ""},
		{"retention", func(o *QueueOptions) { o.DeadRetentionMillis = 999 }, FieldOptions, "dead_letter_retention_ms 999"},
		{"retention long", func(o *QueueOptions) { o.DeadRetentionMillis = 3660*day + 1 }, FieldOptions, "dead_letter_retention_ms"},
		{"window", func(o *QueueOptions) { o.DedupWindowMillis = 366*day + 1 }, FieldOptions, "dedup_window_ms"},
		{"keys", func(o *QueueOptions) { o.DedupMaxKeys = -5 }, FieldOptions, "dedup_max_keys -5"},
		{"ttl", func(o *QueueOptions) { o.ResultTTLMillis = 1 }, FieldOptions, "result_ttl_ms 1"},
		{"results", func(o *QueueOptions) { o.MaxResultsBytes = 1<<40 + 1 }, FieldOptions, "max_results_bytes"},
	} {
		p := want
		c.set(&p)
		f, err := p.Validate()
		if f != c.field || (err == nil) != (c.field == FieldNone) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: field %d, %v; want %d, %q", c.name, f, err, c.field, c.want)
		}
		if p.Equal(&want) {
			t.Errorf("%s: Equal does not see the difference", c.name)
		}
	}
}

func TestCutText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"abc", 3, "abc"}, {"abc", 2, "ab"}, {"äö", 3, "ä"}, {"äö", 4, "äö"}, {"ä", 1, ""}, {"€x", 2, ""}, {"x😀y", 4, "x"}, {"x😀y", 5, "x😀"},
		{"\x80\x80\x80\x80\x80\x80", 5, "\x80\x80\x80\x80\x80"}, {"", 0, ""}, {"abc", 0, ""},
	} {
		if got := string(CutText([]byte(c.in), c.n)); got != c.want {
			t.Errorf("%q to %d: %q, want %q", c.in, c.n, got, c.want)
		}
	}
	long := strings.Repeat("€", 3000)
	if got := CutText([]byte(long), MaxError); !utf8.Valid(got) || len(got) < MaxError-3 {
		t.Errorf("%d bytes, valid %v", len(got), utf8.Valid(got))
	}
}
