package group

import "time"

// slewPart is the share of elapsed time by which log time may run fast or slow to come nearer to the wall clock: 5 %.
const slewPart = 20

// logTime makes T, the only clock that the state knows (semantics: it never falls, is steady over leader changes, and
// shortens no lease whatever a wall clock does).
//
// A node remembers the pair (T of the last entry that it applied live, its own monotonic clock then). A new leader goes
// on from there by its monotonic clock and slews towards its wall clock; the wall clock is believed at once only by a
// process that has seen no live entry since its start, and what it jumps is written into the entry as Shift, by which
// leases are prolonged.
//
// The owner's lock guards it.
type logTime struct {
	clock Clock

	live     bool          // an entry was applied live since the start
	appliedT int64         // T of the last applied entry, ms
	appliedM time.Duration // monotonic reading at its apply; meaningful if live

	leading bool
	anchorT time.Duration // T at the anchor as a Duration since 1970; of this leader's own stamps
	anchorM time.Duration // monotonic reading at the anchor
	jumps   bool          // the next stamp may jump: no live entry yet
}

// applied takes note of an entry's T. live is false while the log of an earlier life is replayed.
func (t *logTime) applied(at int64, live bool) {
	t.appliedT = at
	if live {
		t.live = true
		t.appliedM = t.clock.Mono()
	}
}

// lead begins a term as leader.
func (t *logTime) lead() {
	t.leading = true
	t.anchorT = time.Duration(t.appliedT) * time.Millisecond
	t.anchorM = t.appliedM
	t.jumps = !t.live
	if !t.live {
		t.anchorM = t.clock.Mono()
	}
}

func (t *logTime) follow() { t.leading = false }

// now is T at this moment, and the jump in it. It changes nothing. Without leadership it is the estimate that a leader
// would go on from.
func (t *logTime) now() (at, shift int64) {
	d, shift, _ := t.reckon()
	return int64(d / time.Millisecond), shift
}

// stamp is now for an entry that is about to be proposed: T goes on from it.
func (t *logTime) stamp() (at, shift int64) {
	d, shift, mono := t.reckon()
	t.anchorT, t.anchorM, t.jumps = d, mono, false
	return int64(d / time.Millisecond), shift
}

func (t *logTime) reckon() (at time.Duration, shift int64, mono time.Duration) {
	mono = t.clock.Mono()
	wall := time.Duration(t.clock.WallMillis()) * time.Millisecond
	from, since, jumps := t.anchorT, t.anchorM, t.jumps
	if !t.leading {
		from, since, jumps = time.Duration(t.appliedT)*time.Millisecond, t.appliedM, false
		if !t.live {
			return from, 0, mono
		}
	}
	if jumps {
		if wall > from {
			return wall, int64((wall - from) / time.Millisecond), mono
		}
		return from, 0, mono
	}
	elapsed := max(mono-since, 0)
	at = from + elapsed
	slew := elapsed / slewPart
	at += min(max(wall-at, -slew), slew)
	return at, 0, mono
}

// until is how long, by the monotonic clock, T needs to reach at; 0 if it has.
func (t *logTime) until(at int64) time.Duration {
	now, _, _ := t.reckon()
	return max(time.Duration(at)*time.Millisecond-now, 0)
}
