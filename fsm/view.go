package fsm

import (
	"slices"

	"github.com/quorate/quorate/fsm/arena"
	"github.com/quorate/quorate/fsm/mutant"
	"github.com/quorate/quorate/fsm/table"
)

// View is an immutable picture of the state at one index. It is cheap to take: pages and chunks are shared with the state,
// which copies a page before it writes to it while a view is open. Any goroutine may use it while Apply goes on, one at a
// time, and must release it.
type View struct {
	header       snapshotHeader
	places       uint64
	resultSeq    uint64
	queueNumbers uint32
	metas        []*queueMeta // by slot; nil where there is no queue

	tallies   *table.View[tally]
	messages  *table.View[message]
	sides     *table.View[side]
	workers   *table.View[worker]
	consumers *table.View[consumer]
	moves     *table.View[move]
	keys      *table.View[keyRec]
	flows     *table.View[flow]
	dedups    *table.View[dedupKey]
	results   *table.View[result]
	tombs     *table.View[tombstone]
	sessions  *table.View[session]
	memos     *table.View[memo]
	kvKeys    *table.View[kvKey]
	kvValues  *table.View[kvValue]
	hooks     *table.View[hook]
	batches   *table.View[batch]
	idemKeys  *table.View[idemKey]
	idemAns   *table.View[idemAnswer]
	idemFirst int32 // the oldest key
	kvCounts  kvCounts
	sweep     sweep
	pin       *arena.Pin

	scheduleGens  uint64
	schedules     *table.View[scheduleState]
	scheduleDefs  []*scheduleDef
	scheduleNames []int32
}

// View takes a picture of the state. It must not run at the same time as Apply.
func (s *State) View() *View {
	v := &View{
		header: snapshotHeader{
			Group: s.group, Epoch: s.epoch, Cluster: s.cluster, Index: s.index, Time: s.now, Shift: s.shift,
		},
		places: s.places, resultSeq: s.resultSeq, queueNumbers: s.queueNumbers,
		metas:   make([]*queueMeta, len(s.queues)),
		tallies: s.tallies.View(), messages: s.messages.View(), sides: s.sides.View(), workers: s.workers.View(),
		consumers: s.consumers.View(), dedups: s.dedups.View(), results: s.results.View(), tombs: s.tombs.View(),
		sessions: s.sessions.View(), moves: s.moves.View(), keys: s.keys.View(), flows: s.flows.View(), memos: s.memos.View(), pin: s.arena.Pin(),
		kvKeys: s.kv.keys.View(), kvValues: s.kv.values.View(), hooks: s.hooks.recs.View(),
		batches:  s.batches.recs.View(),
		idemKeys: s.idems.keys.View(), idemAns: s.idems.answers.View(), idemFirst: s.idems.all.head,
		kvCounts: s.kv.counts, sweep: s.hooks.sweep,
		scheduleGens: s.scheduleGens, schedules: s.schedules.View(), scheduleDefs: slices.Clone(s.scheduleDefs),
		scheduleNames: slices.Clone(s.scheduleNames),
	}
	if mutant.SnapshotAtWrongIndex {
		v.header.Index++
	}
	for _, slot := range s.names {
		v.metas[slot] = s.queues[slot].meta
	}
	return v
}

// Index is that of the last entry in the picture.
func (v *View) Index() uint64 { return v.header.Index }

// Time is T at that index, Unix ms.
func (v *View) Time() int64 { return v.header.Time }

// Release gives the pages and chunks back; again does nothing. Nothing may use the view at that moment or after.
func (v *View) Release() {
	v.tallies.Release()
	v.messages.Release()
	v.sides.Release()
	v.workers.Release()
	v.consumers.Release()
	v.dedups.Release()
	v.results.Release()
	v.tombs.Release()
	v.sessions.Release()
	v.moves.Release()
	v.keys.Release()
	v.flows.Release()
	v.memos.Release()
	v.kvKeys.Release()
	v.kvValues.Release()
	v.hooks.Release()
	v.schedules.Release()
	v.batches.Release()
	v.idemKeys.Release()
	v.idemAns.Release()
	v.pin.Release()
}

// holds says whether a message record is one that anybody can see or that still counts: not free, and not purged.
func (v *View) holds(m *message) bool {
	if m.id.IsZero() || v.metas[m.queue] == nil {
		return false
	}
	switch t := v.tallies.Get(m.queue); m.state {
	case StateLeased:
		return true
	case StateDead:
		return m.gen == t.deadGen
	default:
		return m.gen == t.liveGen
	}
}

// blob is the blob of a ref, nil where there is none.
func (v *View) blob(r arena.Ref) []byte {
	if r == 0 {
		return nil
	}
	return v.pin.Get(r)
}
