package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestParseMillis(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
		says string // the error
	}{
		{"30s", 30_000, ""}, {"1h30m", 5_400_000, ""}, {"250", 250, ""}, {"0", 0, ""}, {"0s", 0, ""}, {"1.5s", 1500, ""},
		{"9223372036854", 9_223_372_036_854, ""},
		{"-1", 0, "negative"}, {"-5s", 0, "negative"}, {"1ns", 0, "whole number of milliseconds"}, {"", 0, "neither a duration"},
		{"soon", 0, "neither a duration (5s, 1h30m, 250ms) nor a number of milliseconds"}, {"5 s", 0, "neither"},
		{"9223372036855", 0, "too long, want at most 366 days"}, {"99999999999999999999", 0, "too long"}, {"9000000h", 0, "too long"},
	} {
		got, err := parseMillis(c.text)
		if got != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %d, %v; want %d, %q", c.text, got, err, c.want, c.says)
		}
	}
}

// The help of every command that takes a duration says what a bare number means, and every duration is read alike.
func TestDurationsAreExplained(t *testing.T) {
	for _, args := range []string{"lease --help", "queue create --help", "bench --help", "--help", "queue --help"} {
		var out, errs bytes.Buffer
		if code := execute(t.Context(), strings.Fields(args), strings.NewReader(""), &out, &errs); code != 0 {
			t.Fatalf("%s: exit %d", args, code)
		}
		if n := strings.Count(out.String(), "a number without a unit is milliseconds"); n != 1 {
			t.Errorf("%s: explained %d times, want once", args, n)
		}
	}
	c := &cli{}
	if err := newSpan(&c.timeout, time.Second).Set("250"); err != nil || c.timeout != 250*time.Millisecond {
		t.Errorf("--call-timeout 250 is %v, %v", c.timeout, err)
	}
}
