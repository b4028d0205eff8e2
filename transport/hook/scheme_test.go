package hook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// sign is the HMAC of a text, in hex.
func sign(secret, text string) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(text))
	return hex.EncodeToString(m.Sum(nil))
}

func head(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func secrets(all ...string) (b [][]byte) {
	for _, s := range all {
		b = append(b, []byte(s))
	}
	return b
}

// judge is what a hook does with a request: "" if the signature holds.
func judge(t *testing.T, v Verify, h http.Header, body string, at time.Time, keys ...string) string {
	t.Helper()
	r, f := (&Hook{Name: "h", Queue: "q", Verify: v}).ready(1 << 20)
	if f != nil {
		t.Fatal(f)
	}
	c, err := r.scheme.claim(h)
	if err == nil {
		err = r.scheme.timely(&c, at, r.Verify.Tolerance)
	}
	if err != nil {
		return err.Error()
	}
	if !r.scheme.holds(&c, []byte(body), secrets(keys...)) {
		return "no signature holds"
	}
	return ""
}

const slackBody = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA" +
	"&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN" +
	"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"

// What senders publish: a secret, the bytes and the signature that their own documentation or library has for them. Of Stripe's only the
// form of the header is published; that one was computed with openssl.
func TestPublishedSignatures(t *testing.T) {
	t.Parallel()
	pagerduty, err := os.ReadFile("testdata/pagerduty.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		verify Verify
		head   http.Header
		body   string
		at     int64
		secret string
	}{
		{"github, its page on validating deliveries", Verify{Scheme: "github"},
			head("X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"), "Hello, World!", 0, "It's a Secret to Everybody"},
		{"slack, its page on verifying requests", Verify{Scheme: "slack"},
			head("X-Slack-Request-Timestamp", "1531420618", "X-Slack-Signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"),
			slackBody, 1531420618, "8f742231b10e8888abcd99yyyzzz85a5"},
		{"pagerduty, its Go library", Verify{Scheme: "pagerduty"},
			head("X-PagerDuty-Signature", "v1=0c0b9495b893a39e70d1fea2fe11fbe0a825f88b9f67846f6cc07dd2bc5476cd"), string(pagerduty), 0,
			"lDQHScfUeXUKaQRNF+8XIiDKZ7XX3itBAYzwU0TARw8lJqRnkKl2iB1anSb0Z+IK"},
		{"pagerduty, as hmac-sha256", Verify{Scheme: Plain, Header: "X-PagerDuty-Signature", Prefix: "v1="},
			head("X-PagerDuty-Signature", "v1=0c0b9495b893a39e70d1fea2fe11fbe0a825f88b9f67846f6cc07dd2bc5476cd"), string(pagerduty), 0,
			"lDQHScfUeXUKaQRNF+8XIiDKZ7XX3itBAYzwU0TARw8lJqRnkKl2iB1anSb0Z+IK"},
		{"shopify, the tests of a public library", Verify{Scheme: "shopify"},
			head("X-Shopify-Hmac-Sha256", "hMTq0K2x7oyOjoBwGYeTj5oxfnaVYXzbanUG9aajpKI="), `"my secret message"`, 0, "hush"},
		{"shopify, an order", Verify{Scheme: "shopify"}, head("X-Shopify-Hmac-SHA256", "QNyObTlKbMx2qDlPF/ZOZcBqg5OgPg+2oky3zldc0Gw="),
			`{"id":1234567890,"email":"customer@example.com","total_price":"123.45"}`, 0, "test-webhook-secret"},
		{"stripe, with the fake v0 of test mode", Verify{Scheme: "stripe"},
			head("Stripe-Signature", "t=1492774577,v1=654b43d3508ecadb3f8cefc4bc7d3d2bdc5ba9e03bf2c89b2d0657a8e24e4543,v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39"),
			`{"id":"evt_1","object":"event"}`, 1492774577, "whsec_test_secret"},
		{"plain hex", Verify{Scheme: Plain, Header: "X-Signature"},
			head("X-Signature", "9705d508f29c8b7760d0ca8b5fe4b0c716a61cc1069d1212f43f6c04f937abf4"), `{"event":"deploy"}`, 0, "plain-secret"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			at := time.Unix(tc.at, 0)
			if why := judge(t, tc.verify, tc.head, tc.body, at, tc.secret); why != "" {
				t.Errorf("refused: %s", why)
			}
			if why := judge(t, tc.verify, tc.head, tc.body, at, "the new one", tc.secret); why != "" {
				t.Errorf("refused while the secret is being replaced: %s", why)
			}
			if judge(t, tc.verify, tc.head, tc.body+" ", at, tc.secret) == "" {
				t.Error("taken with another body")
			}
			if judge(t, tc.verify, tc.head, tc.body, at, tc.secret+"x") == "" {
				t.Error("taken under another secret")
			}
		})
	}
}

// TestSignatures goes through what each scheme takes and refuses.
func TestSignatures(t *testing.T) {
	t.Parallel()
	const body, secret, old = `{"n":1}`, "secret", "old secret"
	now := time.Unix(1_800_000_000, 0)
	stamp := func(d time.Duration) string { return fmt.Sprint(now.Add(d).Unix()) }
	good := sign(secret, body)
	b64 := func(hexed string) string {
		b, _ := hex.DecodeString(hexed)
		return base64.StdEncoding.EncodeToString(b)
	}
	stripe := func(d time.Duration) string {
		return "t=" + stamp(d) + ",v1=" + sign(secret, stamp(d)+"."+body)
	}
	slack := func(at, signed string) http.Header {
		return head("X-Slack-Request-Timestamp", at, "X-Slack-Signature", "v0="+sign(secret, "v0:"+signed+":"+body))
	}
	many := strings.Repeat("v1="+sign("x", body)+",", 16)
	plain := Verify{Scheme: Plain, Header: "X-Sig", Prefix: "sha256="}
	for _, tc := range []struct {
		name   string
		verify Verify
		head   http.Header
		want   string // part of the reason; "": taken
	}{
		{"github: upper case hex", Verify{Scheme: "github"}, head("X-Hub-Signature-256", "sha256="+strings.ToUpper(good)), ""},
		{"github: missing", Verify{Scheme: "github"}, head("X-GitHub-Event", "push"), "X-Hub-Signature-256 is missing"},
		{"github: empty", Verify{Scheme: "github"}, head("X-Hub-Signature-256", ""), "begins with sha256="},
		{"github: prefix alone", Verify{Scheme: "github"}, head("X-Hub-Signature-256", "sha256="), "begins with sha256="},
		{"github: without prefix", Verify{Scheme: "github"}, head("X-Hub-Signature-256", good), "begins with sha256="},
		{"github: the old sha1 header", Verify{Scheme: "github"}, head("X-Hub-Signature", "sha1="+good[:40]), "missing"},
		{"github: cut", Verify{Scheme: "github"}, head("X-Hub-Signature-256", "sha256="+good[:62]), "32 bytes in hex"},
		{"github: longer", Verify{Scheme: "github"}, head("X-Hub-Signature-256", "sha256="+good+"00"), "32 bytes in hex"},
		{"github: no hex", Verify{Scheme: "github"}, head("X-Hub-Signature-256", "sha256="+strings.Repeat("g", 64)), "32 bytes in hex"},
		{"github: base64", Verify{Scheme: "github"}, head("X-Hub-Signature-256", "sha256="+b64(good)), "32 bytes in hex"},
		{"github: wrong", Verify{Scheme: "github"}, head("X-Hub-Signature-256", "sha256="+sign("x", body)), "no signature holds"},
		{"github: very long", Verify{Scheme: "github"}, head("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 5000)), "at most 4096"},

		{"pagerduty: of the old secret first", Verify{Scheme: "pagerduty"}, head("X-PagerDuty-Signature", "v1="+sign(old, body)+",v1="+good), ""},
		{"pagerduty: of the old secret last", Verify{Scheme: "pagerduty"}, head("X-PagerDuty-Signature", "v1="+good+",v1="+sign(old, body)), ""},
		{"pagerduty: spaces", Verify{Scheme: "pagerduty"}, head("X-PagerDuty-Signature", " v1="+sign(old, body)+" , v1="+good+" "), ""},
		{"pagerduty: two lines", Verify{Scheme: "pagerduty"}, head("X-PagerDuty-Signature", "v1="+sign(old, body), "X-PagerDuty-Signature", "v1="+good), ""},
		{"pagerduty: another version besides", Verify{Scheme: "pagerduty"}, head("X-PagerDuty-Signature", "v2="+strings.Repeat("a", 64)+",v1="+good), ""},
		{"pagerduty: one that cannot be decoded besides", Verify{Scheme: "pagerduty"}, head("X-PagerDuty-Signature", "v1=zz,v1="+good), ""},
		{"pagerduty: another version alone", Verify{Scheme: "pagerduty"}, head("X-PagerDuty-Signature", "v2="+good), "begins with v1="},
		{"pagerduty: all wrong", Verify{Scheme: "pagerduty"}, head("X-PagerDuty-Signature", "v1="+sign(old, body)+",v1="+sign("x", body)), "no signature holds"},
		{"pagerduty: the form in its documentation", Verify{Scheme: "pagerduty"},
			head("X-PagerDuty-Signature", "v1=f03de6f61df6e454f3620c4d6aca17ad072d3f8bbb2760eac3b2ad391b5e8073,v1=130dcacb53a94d983a37cf2acba98e805a1c37185309ba56fdcccbcf00d6dd8b"), "no signature holds"},
		{"pagerduty: sixteen others and ours", Verify{Scheme: "pagerduty"}, head("X-PagerDuty-Signature", many+"v1="+good), "more than 16"},

		{"shopify", Verify{Scheme: "shopify"}, head("X-Shopify-Hmac-Sha256", b64(good)), ""},
		{"shopify: hex", Verify{Scheme: "shopify"}, head("X-Shopify-Hmac-Sha256", good), "32 bytes in base64"},
		{"shopify: without padding", Verify{Scheme: "shopify"}, head("X-Shopify-Hmac-Sha256", strings.TrimRight(b64(good), "=")), "32 bytes in base64"},
		{"shopify: too long", Verify{Scheme: "shopify"}, head("X-Shopify-Hmac-Sha256", b64(good+good)), "32 bytes in base64"},
		{"shopify: empty", Verify{Scheme: "shopify"}, head("X-Shopify-Hmac-Sha256", ""), "32 bytes in base64"},
		{"shopify: missing", Verify{Scheme: "shopify"}, head(), "missing"},
		{"shopify: wrong", Verify{Scheme: "shopify"}, head("X-Shopify-Hmac-Sha256", b64(sign("x", body))), "no signature holds"},

		{"slack", Verify{Scheme: "slack"}, slack(stamp(0), stamp(0)), ""},
		{"slack: old within five minutes", Verify{Scheme: "slack"}, slack(stamp(-300*time.Second), stamp(-300*time.Second)), ""},
		{"slack: older", Verify{Scheme: "slack"}, slack(stamp(-301*time.Second), stamp(-301*time.Second)), "5m1s from this node's clock"},
		{"slack: ahead", Verify{Scheme: "slack"}, slack(stamp(301*time.Second), stamp(301*time.Second)), "5m1s from this node's clock"},
		{"slack: another time than was signed", Verify{Scheme: "slack"}, slack(stamp(0), stamp(time.Second)), "no signature holds"},
		{"slack: the same time, written otherwise", Verify{Scheme: "slack"}, slack("0"+stamp(0), stamp(0)), "no signature holds"},
		{"slack: no time", Verify{Scheme: "slack"}, head("X-Slack-Signature", "v0="+good), "X-Slack-Request-Timestamp is missing"},
		{"slack: empty time", Verify{Scheme: "slack"}, slack("", ""), "no number of seconds"},
		{"slack: a negative time", Verify{Scheme: "slack"}, slack("-5", "-5"), "no number of seconds"},
		{"slack: a time with a sign", Verify{Scheme: "slack"}, slack("+"+stamp(0), "+"+stamp(0)), "no number of seconds"},
		{"slack: two times", Verify{Scheme: "slack"}, head("X-Slack-Request-Timestamp", stamp(0), "X-Slack-Request-Timestamp", stamp(0), "X-Slack-Signature", "v0="+good), "no number of seconds"},
		{"slack: the body alone signed", Verify{Scheme: "slack"}, head("X-Slack-Request-Timestamp", stamp(0), "X-Slack-Signature", "v0="+good), "no signature holds"},
		{"slack: no signature", Verify{Scheme: "slack"}, head("X-Slack-Request-Timestamp", stamp(0)), "X-Slack-Signature is missing"},

		{"stripe", Verify{Scheme: "stripe"}, head("Stripe-Signature", stripe(0)), ""},
		{"stripe: its secret being rolled", Verify{Scheme: "stripe"}, head("Stripe-Signature", "t="+stamp(0)+",v1="+sign("rolled", stamp(0)+"."+body)+",v1="+sign(secret, stamp(0)+"."+body)), ""},
		{"stripe: time last", Verify{Scheme: "stripe"}, head("Stripe-Signature", "v1="+sign(secret, stamp(0)+"."+body)+",t="+stamp(0)), ""},
		{"stripe: old", Verify{Scheme: "stripe"}, head("Stripe-Signature", stripe(-301*time.Second)), "5m1s from this node's clock"},
		{"stripe: ahead", Verify{Scheme: "stripe"}, head("Stripe-Signature", stripe(time.Hour)), "1h0m0s from this node's clock"},
		{"stripe: old, a wider tolerance", Verify{Scheme: "stripe", Tolerance: time.Hour}, head("Stripe-Signature", stripe(-time.Hour)), ""},
		{"stripe: a narrower tolerance", Verify{Scheme: "stripe", Tolerance: time.Second}, head("Stripe-Signature", stripe(-2*time.Second)), "at most 1s is taken"},
		{"stripe: only the fake v0", Verify{Scheme: "stripe"}, head("Stripe-Signature", "t="+stamp(0)+",v0="+sign(secret, stamp(0)+"."+body)), "begins with v1="},
		{"stripe: no time", Verify{Scheme: "stripe"}, head("Stripe-Signature", "v1="+good), "no timestamp t="},
		{"stripe: no digits", Verify{Scheme: "stripe"}, head("Stripe-Signature", "t=yesterday,v1="+good), "no number of seconds"},
		{"stripe: two times", Verify{Scheme: "stripe"}, head("Stripe-Signature", "t="+stamp(-time.Hour)+","+stripe(0)), "more than one timestamp"},
		{"stripe: an endless time", Verify{Scheme: "stripe"}, head("Stripe-Signature", "t="+strings.Repeat("9", 30)+",v1="+good), "no number of seconds"},
		{"stripe: the latest time that is a number", Verify{Scheme: "stripe"}, head("Stripe-Signature", "t=999999999999,v1="+good), "from this node's clock"},
		{"stripe: missing", Verify{Scheme: "stripe"}, head(), "Stripe-Signature is missing"},

		{"plain with a prefix", plain, head("X-Sig", "sha256="+good), ""},
		{"plain: prefix missing", plain, head("X-Sig", good), "begins with sha256="},
		{"plain base64", Verify{Scheme: Plain, Header: "x-sig", Encoding: Base64}, head("X-Sig", b64(good)), ""},
		{"plain base64: hex", Verify{Scheme: Plain, Header: "x-sig", Encoding: Base64}, head("X-Sig", good), "32 bytes in base64"},
		{"plain: another header", plain, head("X-Signature", "sha256="+good), "X-Sig is missing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := judge(t, tc.verify, tc.head, body, now, secret)
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("the reason is %q, want %q", got, tc.want)
			}
			if strings.Contains(got, good) {
				t.Errorf("the reason holds the signature: %s", got)
			}
		})
	}
}
