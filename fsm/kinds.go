package fsm

import (
	"slices"
	"sort"
)

// What a queue counts by kind, for metrics. It is local, as indexes are: no answer, view or snapshot has it. How many are ready
// restore counts anew; totals begin at zero with it, so what came before has no kind.

// MaxKinds is how many kinds of a queue are counted apart, and maxGroupKinds how many of all queues together. Kinds are what
// clients write, and each costs a record here and time series wherever the counts are kept.
const (
	MaxKinds      = 100
	maxGroupKinds = 10_000
)

// KindOther is what stands for the kinds beyond those that are counted apart, and for the kind of that name.
const KindOther = "other"

// kindTally is what is counted of one kind.
type kindTally struct {
	kind         string
	ready, acked int64
	died         [6]int64 // by DeadReason
}

// kindTable is a queue's counts by kind.
type kindTable struct {
	kinds []*kindTally // in the order of kinds
	last  *kindTally   // whose turn it was: a queue has few kinds, often one
	other kindTally
	full  bool // some are in other, and must be found there: no more get a place
}

func (t *kindTable) find(kind []byte) (int, bool) {
	at := sort.Search(len(t.kinds), func(i int) bool { return t.kinds[i].kind >= string(kind) })
	return at, at < len(t.kinds) && t.kinds[at].kind == string(kind)
}

// kindOf is where a message that has a kind is counted. The first MaxKinds of a queue have a place of their own, for as long as
// there is the queue: one that gave it up would take its totals with it.
func (s *State) kindOf(q *queue, m *message) *kindTally {
	kind := blobKind(m.bits, s.arena.Get(m.body))
	if q.kinds == nil {
		q.kinds = &kindTable{}
	}
	t := q.kinds
	if t.last != nil && t.last.kind == string(kind) {
		return t.last
	}
	at, ok := t.find(kind)
	switch {
	case ok:
		t.last = t.kinds[at]
		return t.last
	case string(kind) == KindOther:
		return &t.other
	case t.full || len(t.kinds) >= MaxKinds || s.groupKinds >= maxGroupKinds:
		t.full = true
		return &t.other
	}
	t.last = &kindTally{kind: string(kind)}
	t.kinds = slices.Insert(t.kinds, at, t.last)
	s.groupKinds++
	return t.last
}

// countReady counts a message that became ready (1) or ceased to be (-1). Nearly all have no kind.
func (s *State) countReady(q *queue, m *message, n int64) {
	s.tallies.Mut(q.slot).ready += n
	if m.bits&hasKind != 0 {
		s.kindOf(q, m).ready += n
	}
}

// countAcked counts a message that is done.
func (s *State) countAcked(q *queue, m *message) {
	s.tallies.Mut(q.slot).acked++
	if m.bits&hasKind != 0 {
		s.kindOf(q, m).acked++
	}
}

// countDied counts a message that died.
func (s *State) countDied(q *queue, m *message, reason DeadReason) {
	t := s.tallies.Mut(q.slot)
	t.died++
	t.diedBy[reason]++
	if m.bits&hasKind != 0 {
		s.kindOf(q, m).died[reason]++
	}
}

// noneReady says that none is ready any more.
func (t *kindTable) noneReady() {
	if t == nil {
		return
	}
	for _, k := range t.kinds {
		k.ready = 0
	}
	t.other.ready = 0
}

// dropKinds forgets the counts of a queue that goes.
func (s *State) dropKinds(q *queue) {
	if q.kinds != nil {
		s.groupKinds -= len(q.kinds.kinds)
		q.kinds = nil
	}
}

// KindStats are a queue's counts of one kind. Ready is exact. Acked and DiedByReason count since this node read its state from
// a snapshot, or since the queue was made.
type KindStats struct {
	Kind         string
	Ready, Acked int64
	DiedByReason [6]int64 // by DeadReason
}

// Kinds appends a queue's counts by kind to to, nothing where the queue is gone: first those of kind "", which is what has none
// and whatever the totals have counted beyond the others, so that all together are the queue's Ready, Acked and DiedByReason; then
// each of up to MaxKinds kinds in their order; last KindOther, if there are more.
func (s *State) Kinds(n uint32, to []KindStats) []KindStats {
	q := s.byNumber(n)
	if q == nil {
		return to
	}
	t := s.tallies.Get(q.slot)
	at := len(to)
	to = append(to, KindStats{Ready: t.ready, Acked: t.acked, DiedByReason: t.diedBy})
	if q.kinds == nil {
		return to
	}
	add := func(k *kindTally, kind string) {
		to = append(to, KindStats{Kind: kind, Ready: k.ready, Acked: k.acked, DiedByReason: k.died})
		rest := &to[at]
		rest.Ready -= k.ready
		rest.Acked -= k.acked
		for r, n := range k.died {
			rest.DiedByReason[r] -= n
		}
	}
	for _, k := range q.kinds.kinds {
		add(k, k.kind)
	}
	if q.kinds.other != (kindTally{}) {
		add(&q.kinds.other, KindOther)
	}
	return to
}
