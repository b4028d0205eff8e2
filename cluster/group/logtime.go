package group

import (
	"time"

	"github.com/quorate/quorate/fsm/mutant"
)

// slewPart is the share of elapsed time by which log time may run fast or slow to come nearer to the wall clock: 5 %.
const slewPart = 20

// clockPart is the share by which two nodes' monotonic clocks are taken to differ at most: 2 %, each being within 1 % of the true pace.
const clockPart = 50

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
	// seenT and seenM are the like of the entry of seenTerm that was the least late when it was applied: see applied.
	seenT, seenM time.Duration
	seenTerm     uint64

	leading bool
	anchorT time.Duration // T at the anchor as a Duration since 1970; of this leader's own stamps
	anchorM time.Duration // monotonic reading at the anchor
	jumps   bool          // the next stamp may jump: no live entry yet
	shift   int64         // of the jump: in every stamp until one of this leader's entries has been applied, see stamp
}

// applied takes note of an entry's T. live is false while the log of an earlier life is replayed; term is 0 for a snapshot's.
func (t *logTime) applied(at int64, term uint64, live bool) {
	t.appliedT = at
	if live {
		t.shift = 0
		same := t.live && term == t.seenTerm && term != 0
		t.live = true
		t.appliedM = t.clock.Mono()
		// An entry is applied some time after it was stamped, seconds where a follower is behind, so its pair says how far T must
		// have come at least. An earlier pair may say more: a leader's T loses no more than the slew, and what clocks differ by. Without it
		// the next leader's T would begin by so much too low, and all that is due would be late until the slew had made up for it.
		// A pair holds for the leader that stamped it. The T of the next one may have begun lower, and leases that it gave would be
		// shortened by what the T of its successor began higher again.
		if d := time.Duration(at) * time.Millisecond; !same || d >= t.seen(t.appliedM) {
			t.seenT, t.seenM, t.seenTerm = d, t.appliedM, term
		}
	}
}

// seen is how far T must have come at a monotonic reading, by the best pair.
func (t *logTime) seen(mono time.Duration) time.Duration {
	elapsed := max(mono-t.seenM, 0)
	return t.seenT + elapsed - elapsed/slewPart - elapsed/clockPart
}

// from is the pair that a node goes on from that does not lead and has applied a live entry: that of the last entry, or what the
// best one says if that is more.
func (t *logTime) from(mono time.Duration) (at, since time.Duration) {
	last := time.Duration(t.appliedT) * time.Millisecond
	if best := t.seen(mono); best > last+max(mono-t.appliedM, 0) {
		return best, mono
	}
	return last, t.appliedM
}

// lead begins a term as leader.
func (t *logTime) lead() {
	t.leading = true
	t.anchorT = time.Duration(t.appliedT) * time.Millisecond
	t.anchorM = t.clock.Mono()
	t.jumps, t.shift = !t.live, 0
	if t.live {
		t.anchorT, t.anchorM = t.from(t.anchorM)
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
//
// A jump is in every stamp until an entry has been applied, since raft may refuse the first, for a transfer of leadership that fails, and
// take the next. Of what an entry says, the state takes as much as T moves by it, so those that come while the first is in flight prolong
// leases by that time and no more.
func (t *logTime) stamp() (at, shift int64) {
	d, shift, mono := t.reckon()
	t.anchorT, t.anchorM, t.jumps, t.shift = d, mono, false, shift
	return int64(d / time.Millisecond), shift
}

func (t *logTime) reckon() (at time.Duration, shift int64, mono time.Duration) {
	mono = t.clock.Mono()
	wall := time.Duration(t.clock.WallMillis()) * time.Millisecond
	from, since, jumps := t.anchorT, t.anchorM, t.jumps
	if !t.leading {
		from, jumps = time.Duration(t.appliedT)*time.Millisecond, false
		if !t.live {
			return from, 0, mono
		}
		from, since = t.from(mono)
	}
	if mutant.ExpiryByWallClock && t.leading && wall > from {
		return wall, 0, mono
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
	if t.leading {
		shift = t.shift
	}
	return at, shift, mono
}

// until is how long, by the monotonic clock, T needs to reach at; 0 if it has.
func (t *logTime) until(at int64) time.Duration {
	now, _, _ := t.reckon()
	return max(time.Duration(at)*time.Millisecond-now, 0)
}
