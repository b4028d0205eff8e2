package wire

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCodeTable(t *testing.T) {
	for _, c := range []struct {
		code           Code
		http           int
		retry, unknown bool
	}{
		{CodeInvalidArgument, 400, false, false},
		{CodeUnauthenticated, 401, false, false},
		{CodePermissionDenied, 403, false, false},
		{CodeNotFound, 404, false, false},
		{CodeAlreadyExists, 409, false, false},
		{CodeLeaseLost, 409, false, false},
		{CodeCancelled, 409, false, false},
		{CodeTooLarge, 413, false, false},
		{CodeQueueFull, 503, true, false},
		{CodeRateLimited, 429, true, false},
		{CodeNotLeader, 421, true, false},
		{CodeNoLeader, 503, true, false},
		{CodeOverloaded, 503, true, false},
		{CodeFailedPrecondition, 409, false, false},
		{CodeSessionExpired, 409, false, true},
		{CodeNoSpace, 507, true, false},
		{CodeTimeout, 504, true, true},
		{CodeUnsupportedVersion, 426, false, false},
		{CodeInternal, 500, false, true},
		{"of_a_later_version", 500, false, true},
	} {
		if c.code.HTTP() != c.http || c.code.Retry() != c.retry || c.code.Unknown() != c.unknown {
			t.Errorf("%s: HTTP %d, retry %t, unknown %t; want %d, %t, %t", c.code, c.code.HTTP(), c.code.Retry(), c.code.Unknown(),
				c.http, c.retry, c.unknown)
		}
		if known := c.code != "of_a_later_version"; c.code.Known() != known {
			t.Errorf("%s: known %t", c.code, c.code.Known())
		}
		f := NewFault(c.code, "%s %d", "why", 7)
		if f.Retry != c.retry || f.Unknown != c.unknown || f.Error() != string(c.code)+": why 7" {
			t.Errorf("%+v", f)
		}
	}
	if len(rows) != 19 {
		t.Errorf("%d codes; the table above has 19", len(rows))
	}
}

func TestFaultIsAnError(t *testing.T) {
	err := fmt.Errorf("enqueue: %w", NewFault(CodeQueueFull, "full"))
	var f *Fault
	if !errors.As(err, &f) || f.Code != CodeQueueFull {
		t.Errorf("%v does not unwrap to its fault", err)
	}
}

func TestCutText(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"", 0, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "abc"},
		{"aü", 2, "a"},
		{"ü", 1, ""},
		{"a😀b", 4, "a"},
		{"a😀b", 5, "a😀"},
		{"a\xffb", 10, "a\uFFFDb"},
		{"a\xffb", 3, "a"},
		{strings.Repeat("€", 1000), 10, "€€€"},
		{"\xe2\x82", 5, "\uFFFD"},
	} {
		if got := CutText(c.in, c.n); got != c.want {
			t.Errorf("CutText(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
	f := NewFault(CodeInternal, "%s", strings.Repeat("\xff", 5000))
	if len(f.Message) > MaxFaultBytes || !utf8.ValidString(f.Message) {
		t.Errorf("a fault's message of %d bytes, valid %t", len(f.Message), utf8.ValidString(f.Message))
	}
}
