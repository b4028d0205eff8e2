package main

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"
)

// millis is a flag value: a Go duration, or a bare number of milliseconds.
type millis int64

func (m *millis) String() string {
	if *m == 0 {
		return ""
	}
	return (time.Duration(*m) * time.Millisecond).String()
}

func (m *millis) Type() string { return "duration" }

func (m *millis) Set(s string) error {
	v, err := parseMillis(s)
	*m = millis(v)
	return err
}

// span is millis in a time.Duration.
type span struct{ d *time.Duration }

func newSpan(d *time.Duration, value time.Duration) span {
	*d = value
	return span{d}
}

func (s span) String() string {
	if s.d == nil || *s.d == 0 {
		return ""
	}
	return s.d.String()
}

func (span) Type() string { return "duration" }

func (s span) Set(text string) error {
	v, err := parseMillis(text)
	*s.d = time.Duration(v) * time.Millisecond
	return err
}

// durationHelp ends the help of every command: all know --call-timeout.
const durationHelp = "\nA duration is written 250ms, 30s or 1h30m; a number without a unit is milliseconds.\n"

func (m millis) duration() time.Duration { return time.Duration(m) * time.Millisecond }

// longDuration is the form of a number of milliseconds or a duration: what has it and cannot be read is too long.
var longDuration = regexp.MustCompile(`^[0-9]+$|^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`)

// parseMillis reads a Go duration or a bare number of milliseconds, as whole milliseconds ≥ 0.
func parseMillis(s string) (int64, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		switch {
		case n < 0:
			return 0, fmt.Errorf("%q is negative, want a duration such as 30s, 1h30m or 250ms", s)
		case n > math.MaxInt64/int64(time.Millisecond):
			return 0, fmt.Errorf("%q is too long, want at most 366 days (8784h)", s)
		}
		return n, nil
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil && longDuration.MatchString(s):
		return 0, fmt.Errorf("%q is too long, want at most 366 days (8784h)", s)
	case err != nil:
		return 0, fmt.Errorf("%q is neither a duration (5s, 1h30m, 250ms) nor a number of milliseconds", s)
	case d < 0:
		return 0, fmt.Errorf("%q is negative, want a duration such as 30s, 1h30m or 250ms", s)
	case d%time.Millisecond != 0:
		return 0, fmt.Errorf("%q is not a whole number of milliseconds", s)
	}
	return d.Milliseconds(), nil
}
