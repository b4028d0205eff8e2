package hook

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// maxKeyBytes is the longest idempotency key.
const maxKeyBytes = 256

// pointer is a JSON pointer (RFC 6901) taken apart.
type pointer []string

const (
	maxPointerBytes = 256
	maxPointerParts = 16
)

func parsePointer(s string) (pointer, error) {
	if s == "" || s[0] != '/' || len(s) > maxPointerBytes || strings.Count(s, "/") > maxPointerParts {
		return nil, fmt.Errorf("%.300q: a JSON pointer of at most %d parts and %d bytes, such as /event/id, would be right", s, maxPointerParts, maxPointerBytes)
	}
	p := pointer(strings.Split(s[1:], "/"))
	for i, part := range p {
		for j := range len(part) {
			if part[j] == '~' && (j+1 == len(part) || part[j+1] != '0' && part[j+1] != '1') {
				return nil, fmt.Errorf("%q: ~ stands only in ~0, which is ~, and ~1, which is /", s)
			}
		}
		p[i] = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
	}
	return p, nil
}

// find is the value that the pointer names, as it is written. A level at a time is taken apart, the rest stays text.
func (p pointer) find(body []byte) (json.RawMessage, error) {
	if !json.Valid(body) {
		return nil, errors.New("the body is no JSON")
	}
	raw := json.RawMessage(bytes.TrimSpace(body))
	for i, part := range p {
		var next json.RawMessage
		ok := false
		switch raw[0] {
		case '{':
			var m map[string]json.RawMessage
			if err := json.Unmarshal(raw, &m); err != nil {
				return nil, fmt.Errorf("the body cannot be read: %w", err)
			}
			next, ok = m[part]
		case '[':
			var a []json.RawMessage
			if err := json.Unmarshal(raw, &a); err != nil {
				return nil, fmt.Errorf("the body cannot be read: %w", err)
			}
			if n, err := strconv.Atoi(part); err == nil && strconv.Itoa(n) == part && n >= 0 && n < len(a) {
				next, ok = a[n], true
			}
		}
		if !ok {
			return nil, fmt.Errorf("the body has nothing at /%s", strings.Join(p[:i+1], "/"))
		}
		raw = bytes.TrimSpace(next)
	}
	return raw, nil
}

// text is the key at the pointer: a string, or a number as it is written.
func (p pointer) text(body []byte) (string, error) {
	raw, err := p.find(body)
	if err != nil {
		return "", err
	}
	switch c := raw[0]; {
	case c == '"':
		var s string
		err = json.Unmarshal(raw, &s)
		return s, err
	case c == '-' || c >= '0' && c <= '9':
		return string(raw), nil
	}
	return "", fmt.Errorf("what stands at /%s is neither a string nor a number", strings.Join(p, "/"))
}

// idempotencyKey is the sender's name for what it sends, "" where the hook has none.
func (h *hook) idempotencyKey(head http.Header, body []byte) (string, error) {
	var key string
	switch {
	case h.Idempotency.Header != "":
		vs := head.Values(h.Idempotency.Header)
		if len(vs) != 1 {
			return "", fmt.Errorf("header %s, which holds the idempotency key, is there %d times; once would be right", h.Idempotency.Header, len(vs))
		}
		key = vs[0]
	case h.pointer != nil:
		var err error
		if key, err = h.pointer.text(body); err != nil {
			return "", fmt.Errorf("no idempotency key: %w", err)
		}
	default:
		return "", nil
	}
	if key == "" || len(key) > maxKeyBytes {
		return "", fmt.Errorf("the idempotency key has %d bytes; 1 to %d are right", len(key), maxKeyBytes)
	}
	return key, nil
}

// dedupKey is the key under which the log knows a sender's. A queue can have several hooks, whose senders name things by themselves.
func (h *hook) dedupKey(key string) []byte {
	sum := sha256.Sum256([]byte("hook\x00" + h.Name + "\x00" + key))
	return sum[:]
}
