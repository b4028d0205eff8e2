package fsm

import "github.com/quorate/quorate/fsm/table"

// Untidy says whether an entry at time now would give something back: records that time has ended by then, or sets that a purge
// or a deletion has swapped out. Nobody can see them, but they take memory until entries come. much: there is more of it than the
// last entry could do, so the next need not wait. It costs a look at the first of each table.
func (s *State) Untidy(now int64) (some, much bool) {
	now = max(now, s.now)
	if len(s.garbage) > 0 {
		return true, true
	}
	for _, k := range [...]int{clockDedup, clockResult, clockTomb, clockDead} {
		if end, _, ok := s.clocks[k].Min(); ok && (end < now || end == now && k != clockDedup) {
			return true, s.behind
		}
	}
	if end, _, ok := s.clocks[clockDebt].Min(); ok && paid(end, now) {
		return true, s.behind
	}
	for _, h := range [...]*table.Heap{&s.idle, &s.batches.ends} {
		if end, _, ok := h.Min(); ok && end <= now {
			return true, s.behind
		}
	}
	if s.idemEnds(now) {
		return true, s.behind
	}
	k := &s.kv
	return k.living.head != none && k.keys.Get(k.living.head).at+KVTTLMillis <= now ||
		k.gone.head != none && k.keys.Get(k.gone.head).at+KVTombMillis <= now, s.behind
}
