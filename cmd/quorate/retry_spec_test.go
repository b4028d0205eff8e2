package main

import (
	"strings"
	"testing"
)

func TestRetrySpec(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"schedule:1s,5s,10s", "schedule:0s", "fixed:5s*3", "linear:1s..1m0s*5", "exponential:1s..1m0s*5", "exponential:250ms..1h0m0s*10+jitter:250ms"} {
		p, err := parseRetry(spec)
		if err != nil {
			t.Errorf("%s: %v", spec, err)
			continue
		}
		if got := formatRetry(p); got != spec {
			t.Errorf("%s comes back as %s", spec, got)
		}
	}
	for _, tc := range []struct{ spec, want string }{
		{"", "colon"}, {"fixed", "colon"}, {"fixed:5s", "*attempts"}, {"fixed:5s*0", "1 to 1000"}, {"fixed:5s*many", "1 to 1000"},
		{"fixed:1s..2s*3", "one delay"}, {"linear:1s*3", "initial..max"}, {"random:1s..2s*3", "no kind"}, {"schedule:1s,,2s", "step"},
		{"fixed:-5s*3", "negative"}, {"fixed:1ns*3", "milliseconds"}, {"fixed:5s*3+jitter:x", "jitter"},
	} {
		_, err := parseRetry(tc.spec)
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "exponential:") {
			t.Errorf("%q: got %v, want it to say %q and what would be right", tc.spec, err, tc.want)
		}
	}
}
