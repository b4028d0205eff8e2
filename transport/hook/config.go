package hook

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/transport/mapping"
	"github.com/quorate/quorate/transport/schema"
	"github.com/quorate/quorate/wire"
)

// Hook is one hook as it is configured.
type Hook struct {
	Name         string // the last part of its path; as queues are named
	Queue        string
	Kind         string // of its messages, at most 128 bytes
	Verify       Verify
	Idempotency  Idempotency
	KeepHeaders  []string // that become headers of the message, at most 32
	MaxBodyBytes int64    // 1 to the largest message; 0: that
	Schema       []byte   // JSON Schema that bodies have to fit; nil: anything is taken
	Map          string   // expression that makes the message's body, at most 4 KiB; "": it is the body that came
}

// Verify says how the sender signs. Of a scheme that is named after a sender the rest but Tolerance is empty.
type Verify struct {
	Scheme    string        // github, pagerduty, shopify, slack, stripe, or hmac-sha256
	Header    string        // hmac-sha256: that holds the signature, or several separated by commas
	Prefix    string        // hmac-sha256: of each signature, at most 32 bytes; what has another one is passed over
	Encoding  string        // hmac-sha256: hex (the default) or base64
	Tolerance time.Duration // slack, stripe: how far the timestamp may be from the node's clock, 1 s to 24 h; default 5 min
}

// Idempotency says where the sender's name for what it sends is. At most one of the two is given; none: repeats are not recognized.
type Idempotency struct {
	Header  string
	Pointer string // JSON pointer (RFC 6901) to a string or a number in a JSON body
}

// Bounds of configuration.
const (
	MaxHooks         = 256
	maxKeepHeaders   = 32
	maxPrefixBytes   = 32
	defaultTolerance = 5 * time.Minute
	maxTolerance     = 24 * time.Hour
)

// Names of the headers that a hook adds to a message.
const (
	HeaderName     = "hook_name"
	HeaderSource   = "hook_source"      // address of the sender's end of the connection, without the port
	HeaderReceived = "hook_received_at" // by the node's clock, Unix ms
)

// hook is a Hook ready for use.
type hook struct {
	Hook
	scheme  scheme
	secrets [][]byte
	pointer pointer
	schema  *schema.Schema
	program *mapping.Program // nil: nothing is mapped
	keep    []string         // canonical names
	told    told
}

// Check judges one hook: the fault names the field, nil if it is fine. What Queue is made of is for the queue's own declaration.
func (h *Hook) Check(maxMessageBytes int64) *wire.Fault {
	_, f := h.ready(maxMessageBytes)
	return f
}

func (h *Hook) ready(maxMessageBytes int64) (*hook, *wire.Fault) {
	r := &hook{Hook: *h}
	if f := wire.CheckQueue("name", h.Name); f != nil {
		return nil, f
	}
	if f := wire.CheckQueue("queue", h.Queue); f != nil {
		return nil, f
	}
	if len(h.Kind) > wire.MaxKindBytes {
		return nil, wire.Invalid("kind", "%d bytes; at most %d are allowed", len(h.Kind), wire.MaxKindBytes)
	}
	if f := r.verify(); f != nil {
		return nil, f
	}
	if f := r.idempotency(); f != nil {
		return nil, f
	}
	if f := r.headers(); f != nil {
		return nil, f
	}
	if r.MaxBodyBytes == 0 {
		r.MaxBodyBytes = maxMessageBytes
	}
	if r.MaxBodyBytes < 1 || r.MaxBodyBytes > maxMessageBytes {
		return nil, wire.Invalid("max_body_bytes", "%d; 1 to %d, which is limits.max_message_bytes, would be right", r.MaxBodyBytes, maxMessageBytes)
	}
	if h.Schema != nil {
		s, err := schema.Compile(string(h.Schema))
		if err != nil {
			return nil, wire.Invalid("schema_file", "%v", err)
		}
		r.schema = s
	}
	if h.Map != "" {
		p, err := mapping.Compile(h.Map, mapping.Body)
		if err != nil {
			return nil, wire.Invalid("map", "%v", err)
		}
		r.program = p
	}
	return r, nil
}

func (h *hook) verify() *wire.Fault {
	v := &h.Verify
	s, named := schemes[v.Scheme]
	switch {
	case v.Scheme == Plain:
		if !token(v.Header) {
			return wire.Invalid("verify.header", "%.100q; the name of the header that holds the signature would be right", v.Header)
		}
		if len(v.Prefix) > maxPrefixBytes || strings.ContainsAny(v.Prefix, ", \t") {
			return wire.Invalid("verify.prefix", "%.100q; at most %d bytes without comma and space, such as sha256=, would be right", v.Prefix, maxPrefixBytes)
		}
		if v.Encoding == "" {
			v.Encoding = Hex
		}
		if v.Encoding != Hex && v.Encoding != Base64 {
			return wire.Invalid("verify.encoding", "%.40q; %s or %s would be right", v.Encoding, Hex, Base64)
		}
		s = scheme{header: http.CanonicalHeaderKey(v.Header), prefix: v.Prefix, encoding: v.Encoding}
	case !named:
		return wire.Invalid("verify.scheme", "%.40q; one of %s would be right", v.Scheme, schemeNames())
	default:
		for field, value := range map[string]string{"header": v.Header, "prefix": v.Prefix, "encoding": v.Encoding} {
			if value != "" {
				return wire.Invalid("verify."+field, "%.100q; the scheme %s has its own: leave it out, or take %s", value, v.Scheme, Plain)
			}
		}
	}
	if v.Tolerance != 0 && !s.stamped() {
		return wire.Invalid("verify.tolerance_ms", "%d; the scheme %s signs no timestamp", v.Tolerance.Milliseconds(), v.Scheme)
	}
	if v.Tolerance == 0 {
		v.Tolerance = defaultTolerance
	}
	if v.Tolerance < time.Second || v.Tolerance > maxTolerance {
		return wire.Invalid("verify.tolerance_ms", "%d; 1000 to %d would be right", v.Tolerance.Milliseconds(), maxTolerance.Milliseconds())
	}
	h.scheme = s
	return nil
}

func (h *hook) idempotency() *wire.Fault {
	i := &h.Idempotency
	switch {
	case i.Header != "" && i.Pointer != "":
		return wire.Invalid("idempotency", "both header and pointer are given; one of them would be right")
	case i.Header != "" && !token(i.Header):
		return wire.Invalid("idempotency.header", "%.100q is no name of a header", i.Header)
	case i.Pointer != "":
		p, err := parsePointer(i.Pointer)
		if err != nil {
			return wire.Invalid("idempotency.pointer", "%v", err)
		}
		h.pointer = p
	}
	return nil
}

func (h *hook) headers() *wire.Fault {
	if len(h.KeepHeaders) > maxKeepHeaders {
		return wire.Invalid("keep_headers", "%d of them; at most %d are allowed", len(h.KeepHeaders), maxKeepHeaders)
	}
	for _, name := range h.KeepHeaders {
		if !token(name) || len(name) > wire.MaxHeaderNameBytes {
			return wire.Invalid("keep_headers", "%.100q is no name of a header", name)
		}
		if strings.HasPrefix(strings.ToLower(name), "hook_") {
			return wire.Invalid("keep_headers", "%q; names that begin with hook_ are this node's own", name)
		}
		name = http.CanonicalHeaderKey(name)
		if slices.Contains(h.keep, name) {
			return wire.Invalid("keep_headers", "%q is there twice", name)
		}
		h.keep = append(h.keep, name)
	}
	return nil
}

// CheckSecrets judges the secrets of a hook. The error holds none of them.
func CheckSecrets(secrets [][]byte) error {
	if len(secrets) == 0 || len(secrets) > maxSecrets {
		return fmt.Errorf("%d secrets; 1 to %d would be right", len(secrets), maxSecrets)
	}
	for _, s := range secrets {
		if len(s) == 0 {
			return fmt.Errorf("an empty secret; anybody could sign with it")
		}
	}
	return nil
}

// token reports whether s can be the name of a header (RFC 9110, section 5.6.2).
func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}
