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
// A node remembers the pair (T of the last entry that it applied, its own monotonic clock when that had been made). A new leader goes
// on from there by its monotonic clock and slews towards its wall clock. An entry is live where it came when it was new (arrivals); of one
// that was not, nobody knows how long ago T was there. Where the last is such a one, the leader goes on from the last that was live, and
// the wall clock is believed at once by a process that has seen no live entry since its start. What T jumps by that is written into the
// entry as Shift, by which leases are prolonged: a jump that was not called for costs them that time, and one that was not made would have
// T behind by hours, of which the slew gives back three minutes an hour.
//
// The owner's lock guards it.
type logTime struct {
	clock Clock

	live         bool          // an entry was applied live since the start
	liveT, liveM time.Duration // T of the last that was, and the monotonic reading when it came; if live
	appliedT     int64         // T of the last applied entry, ms
	appliedM     time.Duration // monotonic reading when it had been made
	old          bool          // it was not live
	// seenT and seenM are the like of the entry of seenTerm that was the least late: see applied.
	seenT, seenM time.Duration
	seenTerm     uint64

	leading bool
	anchorT time.Duration // T at the anchor as a Duration since 1970; of this leader's own stamps
	anchorM time.Duration // monotonic reading at the anchor
	jumps   bool          // the next stamp may jump: no live entry yet
	shift   int64         // of the jump: in every stamp until one of this leader's entries has been applied, see stamp
}

// applied takes note of an entry's T. The entry had been made at the monotonic reading since; live says that it was new then. term is 0 for
// a snapshot's.
func (t *logTime) applied(at int64, term uint64, since time.Duration, live bool) {
	d := time.Duration(at) * time.Millisecond
	// An entry comes some time after it was stamped, seconds where a follower is behind, so its pair says how far T must have come at
	// least. An earlier pair may say more: a leader's T loses no more than the slew, and what clocks differ by. Without it the next
	// leader's T would begin by so much too low, and all that is due would be late until the slew had made up for it.
	// A pair holds for the leader that stamped it. The T of the next one may have begun lower, and leases that it gave would be
	// shortened by what the T of its successor began higher again.
	if term == 0 || term != t.seenTerm || d >= t.seen(since) {
		t.seenT, t.seenM, t.seenTerm = d, since, term
	}
	// An entry that a stopped process finds in its sockets, when others have led and written nothing since, looks new and may be hours
	// old. Its pair would take the place of the only one that tells. Where it is none, and T began that low, it costs leases a Shift.
	if live && t.live && d+longAgo < t.liveT+least(since-t.liveM) {
		live = false
	}
	t.appliedT, t.appliedM, t.old = at, since, !live
	if live {
		t.live, t.liveT, t.liveM, t.shift = true, d, since, 0
	}
}

// seen is how far T must have come at a monotonic reading, by the best pair.
func (t *logTime) seen(mono time.Duration) time.Duration { return t.seenT + least(mono-t.seenM) }

// least is how far T has come in a time at least, by the clock of another node.
func least(elapsed time.Duration) time.Duration {
	elapsed = max(elapsed, 0)
	return elapsed - elapsed/slewPart - elapsed/clockPart
}

// longAgo is by how much an entry's T is behind what it should be where the entry cannot have been new when it came: more than any change of
// leader has T begin lower.
const longAgo = 10 * time.Second

// from is the pair that a node goes on from that does not lead and has applied a live entry: that of the last entry, or what the
// best one says if that is more. Where the last was old, it is where T has come to by this node's clock since the last live one, if that is
// more again, and shift is by how much.
func (t *logTime) from(mono time.Duration) (at, since, shift time.Duration) {
	at, since = time.Duration(t.appliedT)*time.Millisecond, t.appliedM
	if best := t.seen(mono); best > at+max(mono-since, 0) {
		at, since = best, mono
	}
	if t.old {
		sure := at + max(mono-since, 0)
		if own := t.slewed(t.liveT, mono-t.liveM); own > sure {
			return own, mono, own - sure
		}
	}
	return at, since, 0
}

// lead begins a term as leader.
func (t *logTime) lead() {
	t.leading = true
	t.anchorT = time.Duration(t.appliedT) * time.Millisecond
	t.anchorM = t.clock.Mono()
	t.jumps, t.shift = !t.live, 0
	if t.live {
		at, since, shift := t.from(t.anchorM)
		t.anchorT, t.anchorM, t.shift = at, since, int64(shift/time.Millisecond)
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
	wall := t.wall()
	from, since, jumps := t.anchorT, t.anchorM, t.jumps
	if !t.leading {
		from, jumps = time.Duration(t.appliedT)*time.Millisecond, false
		if !t.live {
			return from, 0, mono
		}
		from, since, _ = t.from(mono)
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
	if t.leading {
		shift = t.shift
	}
	return t.slewed(from, mono-since), shift, mono
}

// slewed is T after a time, on its way to the wall clock.
func (t *logTime) slewed(from, elapsed time.Duration) time.Duration {
	elapsed = max(elapsed, 0)
	at := from + elapsed
	slew := elapsed / slewPart
	return at + min(max(t.wall()-at, -slew), slew)
}

func (t *logTime) wall() time.Duration { return time.Duration(t.clock.WallMillis()) * time.Millisecond }

// until is how long, by the monotonic clock, T needs to reach at; 0 if it has.
func (t *logTime) until(at int64) time.Duration {
	now, _, _ := t.reckon()
	return max(time.Duration(at)*time.Millisecond-now, 0)
}
