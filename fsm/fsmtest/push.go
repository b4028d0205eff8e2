package fsmtest

import (
	"regexp"
	"sort"
	"strings"

	"github.com/quorate/quorate/fsm"
)

// Of push the model knows which options are taken: nothing follows from them in the state.

var (
	pushURL        = regexp.MustCompile(`^https?://[!-~]+$`)
	pushSecret     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$`)
	pushHeader     = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)
	pushNoHeader   = regexp.MustCompile(`^(webhook-|quorate-|proxy-|sec-)`)
	pushNotHeaders = " connection content-encoding content-length content-type expect host http2-settings keep-alive te trailer transfer-encoding upgrade user-agent "
)

// pushFaults judges the options of push.
func pushFaults(o fsm.QueueOptions) []fault {
	secrets := len(o.PushSecrets) > 4
	seen := map[string]bool{}
	for _, s := range o.PushSecrets {
		secrets = secrets || seen[s] || !pushSecret.MatchString(s)
		seen[s] = true
	}
	statuses := len(o.PushPermanent) > 32
	for i, s := range o.PushPermanent {
		statuses = statuses || s < 400 || s > 499 || s == 429 || i > 0 && s <= o.PushPermanent[i-1]
	}
	headers := len(o.PushHeaders) > 16 || !sort.StringsAreSorted(o.PushHeaders)
	for i, h := range o.PushHeaders {
		headers = headers || !pushHeader.MatchString(h) || pushNoHeader.MatchString(h) || strings.Contains(pushNotHeaders, " "+h+" ") ||
			i > 0 && h == o.PushHeaders[i-1]
	}
	return []fault{
		{fsm.FieldPushURL, o.PushURL != "" && (len(o.PushURL) > 2048 || !pushURL.MatchString(o.PushURL))},
		{fsm.FieldPushConcurrency, !within(o.PushConcurrency, 0, 256)},
		{fsm.FieldPushTimeout, o.PushTimeoutMillis != 0 && !within(o.PushTimeoutMillis, 100, 600_000)},
		{fsm.FieldPushSecrets, secrets},
		{fsm.FieldPushPermanent, statuses},
		{fsm.FieldPushHeaders, headers},
	}
}

// pushed draws the options of push anew.
func (g *Generator) pushed(o *fsm.QueueOptions) {
	o.PushURL = pick(g, "", "http://a", "https://example.org/in?a=b", "http://"+strings.Repeat("a", 2041))
	o.PushConcurrency = pick[int64](g, 0, 1, 256)
	o.PushTimeoutMillis = pick[int64](g, 0, 100, 600_000)
	o.PushSecrets = pick(g, nil, []string{"new"}, []string{"new", "old", "A:b", "9"})
	o.PushPermanent = pick(g, nil, []int64{400}, []int64{400, 428, 430, 499})
	o.PushHeaders = pick(g, nil, []string{"traceparent"}, []string{"a", "b-c", "x_y"})
}

// spoilPush puts one option of push beyond its range.
func (g *Generator) spoilPush(o *fsm.QueueOptions) {
	switch g.rng.IntN(6) {
	case 0:
		o.PushURL = pick(g, "a", "http://", "ftp://a", "http://a b", "http://\xff", "http://"+strings.Repeat("a", 2042))
	case 1:
		o.PushConcurrency = pick[int64](g, -1, 257)
	case 2:
		o.PushTimeoutMillis = pick[int64](g, -1, 99, 600_001)
	case 3:
		o.PushSecrets = pick(g, []string{""}, []string{"a", "a"}, []string{"-a"}, []string{"a", "b", "c", "d", "e"})
	case 4:
		o.PushPermanent = pick(g, []int64{399}, []int64{429}, []int64{500}, []int64{401, 400}, []int64{400, 400})
	case 5:
		o.PushHeaders = pick(g, []string{""}, []string{"A"}, []string{"host"}, []string{"webhook-id"}, []string{"b", "a"}, []string{"a", "a"})
	}
}
