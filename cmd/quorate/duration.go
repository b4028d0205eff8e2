package main

import (
	"fmt"
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

func (m millis) duration() time.Duration { return time.Duration(m) * time.Millisecond }

// parseMillis reads a Go duration or a bare number of milliseconds, as whole milliseconds ≥ 0.
func parseMillis(s string) (int64, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		if n < 0 {
			return 0, fmt.Errorf("%q is negative, want 0 or more", s)
		}
		return n, nil
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is neither a duration (5s, 1h30m, 250ms) nor a number of milliseconds", s)
	case d < 0:
		return 0, fmt.Errorf("%q is negative, want 0 or more", s)
	case d%time.Millisecond != 0:
		return 0, fmt.Errorf("%q is not a whole number of milliseconds", s)
	}
	return d.Milliseconds(), nil
}
