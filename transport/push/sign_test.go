package push

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
)

// The vector that libraries of Standard Webhooks test with.
func TestSignVector(t *testing.T) {
	t.Parallel()
	key, err := ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	if got := Sign([][]byte{key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, []byte(`{"test": 2432232314}`)); got != want {
		t.Errorf("signed %s, want %s", got, want)
	}
	if got := Sign(nil, "a", 1, nil); got != "" {
		t.Errorf("signed without a key: %s", got)
	}
}

func TestParseSecret(t *testing.T) {
	t.Parallel()
	of := func(n int) string { return "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, n)) }
	for _, c := range []struct{ name, text, want string }{
		{"least", of(24), ""},
		{"most", of(64), ""},
		{"too short", of(23), "23 bytes; 24 to 64"},
		{"too long", of(65), "65 bytes; 24 to 64"},
		{"no prefix", strings.TrimPrefix(of(32), "whsec_"), "whsec_"},
		{"empty", "", "whsec_"},
		{"nothing after the prefix", "whsec_", "0 bytes"},
		{"not base64", "whsec_hunter2!", "base64"},
		{"base64 of URLs", "whsec_" + strings.Repeat("-_-_", 10), "base64"},
	} {
		_, err := ParseSecret(c.text)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		case err != nil && len(c.text) > 8 && strings.Contains(err.Error(), c.text[6:]):
			t.Errorf("%s: the error holds the secret: %v", c.name, err)
		}
	}
}
