package hook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Encodings of a signature.
const (
	Hex    = "hex"
	Base64 = "base64"
)

// scheme is how a kind of sender signs: HMAC-SHA-256 of the raw body, perhaps with a timestamp before it, in a header that holds one or
// more signatures separated by commas.
type scheme struct {
	header      string // that holds the signatures
	prefix      string // of each of them; what has another one is none of ours
	encoding    string // Hex or Base64
	stampHeader string // that holds the timestamp, seconds since 1970
	stampPrefix string // or the prefix of the timestamp among the signatures
	before      string // what is signed before the body, with %s for the timestamp as it was written
}

// schemes are those that need no more than their name. Plain is the one whose header, prefix and encoding are configured.
var schemes = map[string]scheme{
	"github":    {header: "X-Hub-Signature-256", prefix: "sha256=", encoding: Hex},
	"pagerduty": {header: "X-Pagerduty-Signature", prefix: "v1=", encoding: Hex},
	"shopify":   {header: "X-Shopify-Hmac-Sha256", encoding: Base64},
	"slack":     {header: "X-Slack-Signature", prefix: "v0=", encoding: Hex, stampHeader: "X-Slack-Request-Timestamp", before: "v0:%s:"},
	"stripe":    {header: "Stripe-Signature", prefix: "v1=", encoding: Hex, stampPrefix: "t=", before: "%s."},
}

// Plain is the scheme of senders that have no name here: see Verify.
const Plain = "hmac-sha256"

func (s *scheme) stamped() bool { return s.before != "" }

func schemeNames() string {
	return strings.Join(append(slices.Sorted(maps.Keys(schemes)), Plain), ", ")
}

// Bounds of what an unknown sender can make the parser do.
const (
	maxSignatureBytes = 4096 // of the header
	maxSignatures     = 16   // in it
	maxSecrets        = 8    // of a hook: each costs a hash of the body
)

// claim is what a request says of itself before its body has been looked at.
type claim struct {
	stamp string              // as it was written
	at    int64               // the same, seconds
	sums  [][sha256.Size]byte // signatures that could be decoded
}

// claim reads the headers. The error says what is missing or malformed; it holds nothing of the request.
func (s *scheme) claim(h http.Header) (claim, error) {
	var c claim
	text, err := one(h, s.header)
	if err != nil {
		return c, err
	}
	seen := 0
	for element := range strings.SplitSeq(text, ",") {
		element = strings.TrimSpace(element)
		if v, ok := strings.CutPrefix(element, s.stampPrefix); ok && s.stampPrefix != "" {
			if c.stamp != "" {
				return c, fmt.Errorf("header %s: more than one timestamp", s.header)
			}
			c.stamp = v
			continue
		}
		v, ok := strings.CutPrefix(element, s.prefix)
		if !ok || v == "" {
			continue // another version of the scheme
		}
		if seen++; seen > maxSignatures {
			return c, fmt.Errorf("header %s: more than %d signatures", s.header, maxSignatures)
		}
		if sum, ok := s.decode(v); ok {
			c.sums = append(c.sums, sum)
		}
	}
	if s.stampHeader != "" {
		if c.stamp, err = one(h, s.stampHeader); err != nil {
			return c, err
		}
	}
	switch {
	case seen == 0 && s.prefix != "":
		return c, fmt.Errorf("header %s: no signature that begins with %s", s.header, s.prefix)
	case len(c.sums) == 0:
		return c, fmt.Errorf("header %s: no signature of %d bytes in %s", s.header, sha256.Size, s.encoding)
	case !s.stamped():
		return c, nil
	case c.stamp == "" && s.stampPrefix != "":
		return c, fmt.Errorf("header %s: no timestamp %s", s.header, s.stampPrefix)
	}
	c.at, err = seconds(c.stamp)
	return c, err
}

// one is a header that has to be there. Several lines of it are one list.
func one(h http.Header, name string) (string, error) {
	vs := h.Values(name)
	if len(vs) == 0 {
		return "", fmt.Errorf("header %s is missing", name)
	}
	v := strings.Join(vs, ",")
	if len(v) > maxSignatureBytes {
		return "", fmt.Errorf("header %s has %d bytes; at most %d are read", name, len(v), maxSignatureBytes)
	}
	return v, nil
}

// seconds reads a timestamp: digits and nothing else, since it is signed as it is written.
func seconds(s string) (int64, error) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, errors.New("the timestamp is no number of seconds since 1970")
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || len(s) > 12 {
		return 0, errors.New("the timestamp is no number of seconds since 1970")
	}
	return n, nil
}

func (s *scheme) decode(v string) (sum [sha256.Size]byte, ok bool) {
	var b []byte
	var err error
	if s.encoding == Base64 {
		b, err = base64.StdEncoding.Strict().DecodeString(v)
	} else {
		b, err = hex.DecodeString(v)
	}
	return [sha256.Size]byte(append(b, make([]byte, sha256.Size)...)), err == nil && len(b) == sha256.Size
}

// timely judges the timestamp: neither old, which a replay would be, nor ahead, which would make it good for longer.
func (s *scheme) timely(c *claim, now time.Time, tolerance time.Duration) error {
	if !s.stamped() {
		return nil
	}
	if d := now.Sub(time.Unix(c.at, 0)); d > tolerance || d < -tolerance {
		return fmt.Errorf("the timestamp is %s from this node's clock; at most %s is taken", d.Abs().Round(time.Second), tolerance)
	}
	return nil
}

// holds reports whether one of the signatures is that of one of the secrets. All are compared, in constant time.
func (s *scheme) holds(c *claim, body []byte, secrets [][]byte) bool {
	ok := false
	for _, secret := range secrets {
		m := hmac.New(sha256.New, secret)
		if s.stamped() {
			fmt.Fprintf(m, s.before, c.stamp)
		}
		m.Write(body)
		want := m.Sum(nil)
		for i := range c.sums {
			ok = hmac.Equal(c.sums[i][:], want) || ok
		}
	}
	return ok
}
