package hook

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
)

// FuzzSignatureHeader: whatever stands in the headers is taken apart within bounds or refused in a few words, and none of it is a signature
// under a secret that nobody has. A real signature put before it is found, where it is taken apart at all.
func FuzzSignatureHeader(f *testing.F) {
	good := sign("secret", "body")
	for _, text := range []string{
		"", "sha256=" + good, "t=1492774577,v1=" + good + ",v0=" + good, "v1=" + good + ",v1=" + good, "v0=" + good, "t=,v1=", ",,,", "t=1,t=1,v1=" + good,
		"hMTq0K2x7oyOjoBwGYeTj5oxfnaVYXzbanUG9aajpKI=", strings.Repeat("v1=0,", 20), "t=99999999999999999999,v1=" + good, "v1=\x00", "=", "t=-1,v1=" + good,
	} {
		f.Add(text, "1531420618")
	}
	all := map[string]scheme{"plain": {header: "X-S", encoding: Hex}, "plain base64": {header: "X-S", prefix: "p", encoding: Base64}}
	for name, s := range schemes {
		all[name] = s
	}
	f.Fuzz(func(t *testing.T, text, stamp string) {
		for name, s := range all {
			h := http.Header{s.header: {text}}
			if s.stampHeader != "" {
				h[s.stampHeader] = []string{stamp}
			}
			c, err := s.claim(h)
			if err != nil {
				if len(err.Error()) > 200 {
					t.Errorf("%s: a reason of %d bytes: %.200q", name, len(err.Error()), err)
				}
				continue
			}
			if len(c.sums) == 0 || len(c.sums) > maxSignatures || len(c.stamp) > 12 || c.at < 0 || s.stamped() != (c.stamp != "") {
				t.Fatalf("%s: %d signatures, timestamp %q (%d)", name, len(c.sums), c.stamp, c.at)
			}
			if s.holds(&c, []byte("body"), secrets("nobody has it")) {
				t.Fatalf("%s: %q holds", name, text)
			}
			before := ""
			if s.stamped() {
				before = strings.Replace(s.before, "%s", c.stamp, 1)
			}
			ours := sign("secret", before+"body")
			if s.encoding == Base64 {
				b, _ := hex.DecodeString(ours)
				ours = base64.StdEncoding.EncodeToString(b)
			}
			h[s.header] = []string{s.prefix + ours + "," + text}
			if c, err := s.claim(h); err == nil && !s.holds(&c, []byte("body"), secrets("old", "secret")) {
				t.Errorf("%s: a signature is not found before %q", name, text)
			}
			if len(c.sums[0]) != sha256.Size {
				t.Errorf("%s: a signature of %d bytes", name, len(c.sums[0]))
			}
		}
	})
}

// FuzzPointer: what a pointer finds in a body is what taking the whole of it apart finds.
func FuzzPointer(f *testing.F) {
	for _, text := range []string{`{"event":{"id":"a"}}`, `[1,{"a":[]}]`, `{"a":{"a":1},"a":2}`, `"x"`, "", "{", `{"a~b":{"/":[0,"\ud800"]}}`, "[[[[", " {\"a\" : \n1e5 } "} {
		f.Add("/event/id", []byte(text))
		f.Add("/a/0", []byte(text))
		f.Add("/a~0b/~1/1", []byte(text))
	}
	f.Fuzz(func(t *testing.T, where string, body []byte) {
		p, err := parsePointer(where)
		if err != nil {
			return
		}
		raw, err := p.find(body)
		v, bad := decoded(body)
		if bad != nil {
			if err == nil {
				t.Errorf("%q was found in what is no JSON: %q", where, body)
			}
			return
		}
		ok := true
		for _, part := range p {
			switch w := v.(type) {
			case map[string]any:
				v, ok = w[part]
			case []any:
				ok = false
				for i := range w {
					if string(mustJSON(i)) == part {
						v, ok = w[i], true
						break
					}
				}
			default:
				ok = false
			}
			if !ok {
				break
			}
		}
		if ok != (err == nil) {
			t.Fatalf("%q in %q: found %t, %v", where, body, ok, err)
		}
		if !ok {
			return
		}
		if found, err := decoded(raw); err != nil || string(mustJSON(found)) != string(mustJSON(v)) {
			t.Errorf("%q in %q is %q, want %q (%v)", where, body, raw, mustJSON(v), err)
		}
	})
}

// decoded is a JSON text with its numbers as they are written.
func decoded(b []byte) (v any, err error) {
	if !json.Valid(b) {
		return nil, errors.New("no JSON")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
