package fsm

import (
	"encoding/binary"

	"github.com/quorate/quorate/fsm/mutant"
	"github.com/quorate/quorate/fsm/table"
)

// dedupKey remembers the first enqueue under a dedup key: 64 bytes.
type dedupKey struct {
	key, content [16]byte
	id           ID
	end          int64 // the last T at which the key holds
	queue        int32
	_            int32
}

func (q *queue) hash16(h *[16]byte) uint64 {
	return table.HashID(binary.LittleEndian.Uint64(h[:])+uint64(q.meta.number), binary.LittleEndian.Uint64(h[8:]))
}

// findDedup is the key of a queue, if it holds at T.
func (s *State) findDedup(q *queue, key *[16]byte) (int32, bool) {
	return s.dedupIdx.Find(q.hash16(key), func(v int32) bool {
		d := s.dedups.Get(v)
		return d.key == *key && d.queue == q.slot && d.end >= s.now && !(mutant.DedupEdgeOffByOne && d.end == s.now)
	})
}

// dedupAnswer is what the second enqueue under a key gets: the first one's id, and its result if there is one.
func (s *State) dedupAnswer(q *queue, sl int32, m *Message) (o Outcome) {
	d := s.dedups.Get(sl)
	o.ID = d.id
	if d.content != m.DedupContent {
		o.Code, o.Field = AlreadyExists, FieldDedupKey
		s.countRefused(q, &o)
		return o
	}
	o.Duplicate = true
	o.Task, o.HasResult = s.resultTask(d.id)
	s.tallies.Mut(q.slot).duplicates++
	return o
}

func (s *State) addDedup(q *queue, id ID, m *Message) {
	sl := s.dedups.Alloc()
	end := s.now + q.meta.options.DedupWindowMillis
	*s.dedups.Mut(sl) = dedupKey{key: m.DedupKey, content: m.DedupContent, id: id, end: end, queue: q.slot}
	s.linkDedup(q, sl)
	s.tallies.Mut(q.slot).dedups++
}

func (s *State) linkDedup(q *queue, sl int32) {
	d := s.dedups.Get(sl)
	s.dedupIdx.Insert(q.hash16(&d.key), sl)
	q.dedups.Push(d.end, sl)
	s.clockFix(clockDedup, q)
}

// dropDedup removes a key that is in no heap any more.
func (s *State) dropDedup(q *queue, sl int32) {
	d := s.dedups.Get(sl)
	s.dedupIdx.Delete(q.hash16(&d.key), sl)
	s.dedups.Free(sl)
}
