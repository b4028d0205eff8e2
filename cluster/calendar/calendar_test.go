package calendar

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the machine may have none
)

func calendar(t testing.TB, expression, zone string) *Calendar {
	t.Helper()
	z, err := Zone(zone)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(expression, z)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func at(t testing.TB, s string) int64 {
	t.Helper()
	v, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return v.UnixMilli()
}

// Fire times follow the zone's clock, also where it is put forward (29 March 2026, 02:00 → 03:00 in Berlin) and back
// (25 October 2026, 03:00 → 02:00).
func TestFireTimes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, cron, zone, from string
		want                   []string
	}{
		{"five fields", "30 2 * * *", "", "2026-03-28T00:00:00Z", []string{"2026-03-28T02:30:00Z", "2026-03-29T02:30:00Z"}},
		{"six fields", "*/20 * * * * *", "UTC", "2026-03-28T00:00:05.5Z", []string{"2026-03-28T00:00:20Z", "2026-03-28T00:00:40Z", "2026-03-28T00:01:00Z"}},
		{"a time is not its own next", "0 0 * * *", "", "2026-03-28T00:00:00Z", []string{"2026-03-29T00:00:00Z"}},
		{"spring: a time that is left out has no firing", "30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z",
			[]string{"2026-03-28T02:30:00+01:00", "2026-03-30T02:30:00+02:00"}},
		{"spring: before and after", "0 4 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T04:00:00+02:00", "2026-03-30T04:00:00+02:00"}},
		{"spring: every half hour goes on", "*/30 * * * *", "Europe/Berlin", "2026-03-29T00:15:00Z",
			[]string{"2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00"}},
		{"autumn: a time that comes twice fires twice", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z",
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-26T02:30:00+01:00"}},
		{"autumn: hourly is hourly", "0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z",
			[]string{"2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"}},
		{"autumn: the day after", "0 12 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z",
			[]string{"2026-10-25T12:00:00+01:00"}},
		{"either day", "0 0 13 * FRI", "", "2026-11-01T00:00:00Z", []string{"2026-11-06T00:00:00Z", "2026-11-13T00:00:00Z"}},
		{"leap day", "0 0 29 2 *", "", "2026-01-01T00:00:00Z", []string{"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"}},
		{"weekly", "@weekly", "", "2026-11-28T00:00:00Z", []string{"2026-11-29T00:00:00Z"}},
		{"every", "@every 90s", "", "2026-11-28T00:00:00.25Z", []string{"2026-11-28T00:01:30Z", "2026-11-28T00:03:00Z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cal := calendar(t, c.cron, c.zone)
			now := at(t, c.from)
			for i, w := range c.want {
				next, ok := cal.Next(now)
				if !ok || next != at(t, w) {
					t.Fatalf("%d: %s, want %s", i, time.UnixMilli(next).UTC().Format(time.RFC3339), w)
				}
				now = next
			}
		})
	}
}

func TestNoFireTime(t *testing.T) {
	t.Parallel()
	if n, ok := calendar(t, "0 0 30 2 *", "").Next(at(t, "2026-01-01T00:00:00Z")); ok {
		t.Fatalf("30 February is %d", n)
	}
}

func TestBadExpressions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ cron, want string }{
		{"", "empty"}, {"* * * *", "five fields"}, {"* * * * * * *", "five fields"}, {"60 * * * *", "60"}, {"* 24 * * *", "24"},
		{"* * * * MOON", "MOON"}, {"*/0 * * * *", "step"}, {"5-1 * * * *", "5"}, {"TZ=UTC * * * * *", "zone"}, {"CRON_TZ=UTC", "zone"},
		{"TZ=", "zone"}, {"@never", "@never"}, {"@every 1500ms", "seconds"}, {"@every 10ms", "seconds"}, {"@every -5s", "seconds"},
		{"@every 99999h", "366 days"}, {"@every", "@every"}, {"@reboot", "@reboot"},
	} {
		if _, err := Parse(c.cron, time.UTC); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want something about %q", c.cron, err, c.want)
		}
	}
	for _, z := range []string{"Local", "Europe/Nowhere", "../etc/passwd", "/etc/localtime", "CET+1"} {
		if _, err := Zone(z); err == nil {
			t.Errorf("zone %q was accepted", z)
		}
	}
}

func TestSkip(t *testing.T) {
	t.Parallel()
	const start = "2026-11-28T00:00:00Z"
	for _, c := range []struct {
		name, cron, until string
		keep              int
		to                string // empty: none
		passed            int64
	}{
		{"nothing is over", "0 0 * * *", "2026-11-27T23:00:00Z", 0, start, 0},
		{"none is kept", "0 0 * * *", "2026-11-30T12:00:00Z", 0, "2026-12-01T00:00:00Z", 3},
		{"the last is kept", "0 0 * * *", "2026-11-30T12:00:00Z", 1, "2026-11-30T00:00:00Z", 2},
		{"all are kept", "0 0 * * *", "2026-11-30T12:00:00Z", 3, start, 0},
		{"more would be", "0 0 * * *", "2026-11-30T12:00:00Z", 100, start, 0},
		{"the last hundred of a day", "* * * * *", "2026-11-28T23:59:30Z", 100, "2026-11-28T22:20:00Z", 1340},
		{"every", "@every 60s", "2026-11-28T23:59:30Z", 100, "2026-11-28T22:20:00Z", 1340},
		{"every, none kept", "@every 60s", "2026-11-28T00:01:00Z", 0, "2026-11-28T00:02:00Z", 2},
		{"years of seconds, none kept", "* * * * * *", "2028-11-28T00:00:00.5Z", 0, "2028-11-28T00:00:01Z", maxCounted},
		{"years of seconds, the last kept", "* * * * * *", "2028-11-28T00:00:00.5Z", 1, "2028-11-28T00:00:00Z", maxCounted},
		{"years of seconds, a hundred kept", "* * * * * *", "2028-11-28T00:00:00.5Z", 100, "2028-11-27T23:58:21Z", maxCounted},
		{"seconds of one day a year", "* * * 28 11 *", "2028-06-01T00:00:00Z", 2, "2027-11-28T23:59:58Z", maxCounted},
		{"seconds of one day a year, none kept", "* * * 28 11 *", "2028-06-01T00:00:00Z", 0, "2028-11-28T00:00:00Z", maxCounted},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			to, passed, ok := calendar(t, c.cron, "").Skip(at(t, start), at(t, c.until), c.keep)
			if want := at(t, c.to); !ok || to != want || passed != c.passed {
				t.Fatalf("to %s, %d passed, %t; want %s, %d", time.UnixMilli(to).UTC().Format(time.RFC3339), passed, ok, c.to, c.passed)
			}
		})
	}
}

// Whatever is typed, parsing ends, and fire times rise.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"* * * * *", "*/5 1-3,7 L ? *", "@every 1h", "@daily", "59 23 31 12 SUN-SAT/2", "0 0 29 2 *"} {
		f.Add(s, int64(1795824000000))
	}
	f.Fuzz(func(t *testing.T, s string, now int64) {
		c, err := Parse(s, time.UTC)
		if err != nil {
			return
		}
		now = max(0, now) % (1 << 42)
		for range 5 {
			n, ok := c.Next(now)
			if !ok {
				return
			}
			if n <= now {
				t.Fatalf("%q: %d after %d", s, n, now)
			}
			now = n
		}
	})
}
