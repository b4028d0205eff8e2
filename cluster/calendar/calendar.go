package calendar

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Calendar knows the fire times of one expression in one zone. It is immutable.
type Calendar struct {
	spec  *cron.SpecSchedule // nil: every
	zone  *time.Location
	every int64 // ms
}

const parseOptions = cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor

// maxEvery bounds @every: 366 days.
const maxEvery = 366 * 24 * time.Hour

// Zone finds a time zone by its name in the IANA data base; empty is UTC.
func Zone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, fmt.Errorf("zone %q is another on every node; a name such as Europe/Berlin, or UTC, would be right", name)
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("zone %.64q is unknown; a name such as Europe/Berlin, or UTC, would be right", name)
	}
	return loc, nil
}

// Parse reads an expression. The error says what is wrong with it.
func Parse(expression string, zone *time.Location) (*Calendar, error) {
	if strings.HasPrefix(expression, "TZ=") || strings.HasPrefix(expression, "CRON_TZ=") {
		return nil, fmt.Errorf("cron %.64q names a time zone: that belongs into the zone", expression)
	}
	s, err := cron.NewParser(parseOptions).Parse(expression)
	if err != nil {
		return nil, fmt.Errorf(
			"cron %.64q: %w; five fields (minute hour day month weekday), six with seconds first, @daily and the like, or @every 90s would be right",
			expression, err)
	}
	switch s := s.(type) {
	case *cron.SpecSchedule:
		s.Location = zone
		return &Calendar{spec: s, zone: zone}, nil
	case cron.ConstantDelaySchedule:
		if s.Delay > maxEvery {
			return nil, fmt.Errorf("cron %.64q: more than 366 days", expression)
		}
		if d, err := time.ParseDuration(strings.TrimPrefix(expression, "@every ")); err != nil || d != s.Delay {
			return nil, fmt.Errorf("cron %.64q: a whole number of seconds, at least one, would be right", expression)
		}
		return &Calendar{every: s.Delay.Milliseconds()}, nil
	}
	return nil, fmt.Errorf("cron %.64q: of a kind that is not known here", expression)
}

// Next is the first fire time after t, both in Unix ms; false if there is none within five years.
func (c *Calendar) Next(t int64) (int64, bool) {
	if c.spec == nil {
		return t - t%1000 + c.every, true
	}
	n := c.spec.Next(time.UnixMilli(t).In(c.zone))
	if n.IsZero() {
		return 0, false
	}
	return n.UnixMilli(), true
}

// maxCounted is up to how many fire times are counted that are passed over.
const maxCounted = 10_000

// Skip is where to go on so that at most keep (≥ 0) fire times remain in [to, until]: from, which is a fire time, if that
// is so already. passed is how many lie before it, at most 10,000 being counted. ok is false if no fire time follows.
func (c *Calendar) Skip(from, until int64, keep int) (to, passed int64, ok bool) {
	if from > until {
		return from, 0, true
	}
	if c.spec == nil {
		n := (until-from)/c.every + 1 // in [from, until]
		passed = max(0, n-int64(keep))
		return from + passed*c.every, min(passed, maxCounted), true
	}
	if to, passed, done, ok := c.walk(from, until, keep, maxCounted); done {
		return to, passed, ok
	}
	// Too many to walk over: look back from the end, farther and farther.
	for back := int64(1000); ; back *= 2 {
		start, ok := c.Next(max(until-back, from))
		if !ok {
			return 0, maxCounted, false
		}
		if start > until {
			if keep == 0 {
				return start, maxCounted, true
			}
			continue
		}
		to, passed, _, ok := c.walk(start, until, keep, 1<<62)
		if passed > 0 || keep == 0 || until-back <= from {
			return to, maxCounted, ok
		}
	}
}

// walk goes from fire time to fire time, at most limit steps, until it is past the end.
func (c *Calendar) walk(from, until int64, keep int, limit int64) (to, passed int64, done, ok bool) {
	last := make([]int64, 0, keep) // the last fire times, a ring
	n := int64(0)
	for at := from; ; n++ {
		if at > until {
			if n <= int64(keep) {
				return from, 0, true, true
			}
			if keep == 0 {
				return at, n, true, true
			}
			return last[n%int64(keep)], n - int64(keep), true, true
		}
		if n == limit {
			return 0, n, false, true
		}
		if keep > 0 {
			if len(last) < keep {
				last = append(last, at)
			} else {
				last[n%int64(keep)] = at
			}
		}
		next, more := c.Next(at)
		if !more {
			n++
			switch {
			case keep == 0:
				return 0, n, true, false
			case n <= int64(keep):
				return from, 0, true, true
			}
			return last[n%int64(keep)], n - int64(keep), true, true
		}
		at = next
	}
}
