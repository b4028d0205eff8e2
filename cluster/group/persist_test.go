package group

import (
	"io"
	"testing"
	"time"
)

// A snapshot rests in proportion to its work, until it has to hurry.
func TestSnapshotRests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		begun := time.Now()
		hurry := false
		work := time.Duration(0) // time does not pass in a bubble while somebody works
		stop := make(chan struct{})
		p := &pace{mono: func() time.Duration { return work + time.Since(begun) }, hurry: func() bool { return hurry }, stop: stop}
		p.begin()
		c := paced{w: io.Discard, pace: p}
		for _, step := range []struct {
			name       string
			work, want time.Duration
			hurry      bool
		}{
			{name: "a short stint", work: 5 * time.Millisecond},
			{name: "with what was worked before", work: 5 * time.Millisecond, want: 20 * time.Millisecond},
			{name: "rest is no work", work: 7 * time.Millisecond},
			{name: "a stalled disk", work: time.Second, want: snapshotLongest},
			{name: "in a hurry", work: time.Second, hurry: true},
			{name: "it stays so", work: time.Second},
		} {
			hurry = step.hurry
			work += step.work
			from := time.Now()
			if _, err := c.Write([]byte("0123456789abcdef")); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(from); got != step.want {
				t.Errorf("%s: rested %s, want %s", step.name, got, step.want)
			}
		}
		// A group that stops waits for nothing.
		p = &pace{mono: func() time.Duration { return work + time.Since(begun) }, hurry: func() bool { return false }, stop: stop}
		p.begin()
		close(stop)
		work += time.Second
		from := time.Now()
		p.rest()
		if got := time.Since(from); got != 0 {
			t.Errorf("rested %s though the group stops", got)
		}
	})
}

func TestSnapshotsApart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		before    int
		due, want int64
	}{
		{"the first", 0, 800, 800},
		{"the second", 1, 800, 700},
		{"the third", 2, 800, 600},
		{"the fourth", 3, 800, 500},
		{"the ninth", 8, 800, 500},
	} {
		if got := snapshotsApart(c.due, c.before); got != c.want {
			t.Errorf("%s: due at %d, want %d", c.name, got, c.want)
		}
	}
}

// The log between two snapshots grows with the state.
func TestSnapshotDue(t *testing.T) {
	g := &Group{limits: Limits{SnapshotBytes: 100, SnapshotEntries: 10}}
	for _, c := range []struct{ size, want, entries int64 }{
		{0, 100, 10}, {100, 100, 10}, {101, 101, 10}, {600, 600, 60}, {1 << 30, 1 << 30, (1 << 30) / 100 * 10},
		{3 << 29, 1 << 30, (1 << 30) / 100 * 10}, {1 << 31, 1 << 30, (1 << 30) / 100 * 10}, {3 << 30, 3 << 29, (3 << 29) / 100 * 10},
	} {
		g.snapshotSize.Store(c.size)
		if got := g.snapshotDue(); got != c.want {
			t.Errorf("after a snapshot of %d bytes: due at %d, want %d", c.size, got, c.want)
		}
		if got := g.entriesDue(); got != c.entries {
			t.Errorf("after a snapshot of %d bytes: due at %d entries, want %d", c.size, got, c.entries)
		}
	}
}
