package fsm

import (
	"io"
	"maps"
	"slices"

	"github.com/quorate/quorate/fsm/mutant"
)

// Sections of a snapshot, in their order. Numbers are part of the format. Each is sorted by what never changes about its
// records, so that the same state is the same bytes whatever way it was reached.
const (
	sectionCounters uint8 = iota + 1 // one record
	sectionQueues                    // by number
	sectionMessages                  // by id; live and dead
	sectionDedups                    // by the first message's id
	sectionResults                   // in the order of recording
	sectionTombs                     // by queue number, then oldest first
	sectionSessions                  // by id, each with its outcomes by number

	sectionOrder uint8 = 20 // what an ordered or limited queue has beyond, by number
	sectionModes uint8 = 23 // overflow and delivery of queues that have another than the default, by number
	sectionKeyed uint8 = 24 // rates, and what there is of keys that matter, by queue number (snapshot_keyed.go)
	sectionTasks uint8 = 25 // totals of operations on tasks, by queue number
	// sectionRefusals are totals of refused messages by kind, by queue number.
	sectionRefusals uint8 = 26

	sectionMoves      uint8 = 30 // by the message's id
	sectionStays      uint8 = 31 // dead letters that could not be moved, by id
	sectionDeadQueues uint8 = 32 // what queues have of dead-letter queues, by number, unless it is all nothing
)

// WriteTo writes the snapshot: versioned, checksummed, streamed in canonical order. It returns the bytes written.
func (v *View) WriteTo(w io.Writer) (int64, error) {
	f := newFrameWriter(w, v.header)
	f.section(sectionCounters)
	f.record()
	f.uvarint(v.places)
	f.uvarint(v.resultSeq)
	f.uvarint(uint64(v.queueNumbers))

	queues := v.queuesByNumber()
	f.section(sectionQueues)
	for _, slot := range queues {
		v.writeQueue(f, slot)
	}
	f.section(sectionMessages)
	eachSorted(v.messages, v.holds, func(m *message) ID { return m.id }, func(m *message) bool {
		v.writeMessage(f, m)
		return f.err() == nil
	})
	f.section(sectionDedups)
	eachSorted(v.dedups, func(d *dedupKey) bool { return !d.id.IsZero() && v.metas[d.queue] != nil && !mutant.DedupNotInSnapshot },
		func(d *dedupKey) ID { return d.id }, func(d *dedupKey) bool {
			v.writeDedup(f, d)
			return f.err() == nil
		})
	f.section(sectionResults)
	eachSorted(v.results, func(r *result) bool { return r.seq != 0 && v.metas[r.queue] != nil },
		func(r *result) ID { return ID{Lo: r.seq} }, func(r *result) bool {
			v.writeResult(f, r)
			return f.err() == nil
		})
	f.section(sectionTombs)
	for _, slot := range queues {
		for sl := v.tallies.Get(slot).tombHead; sl != none; {
			t := v.tombs.Get(sl)
			v.writeTomb(f, t)
			sl = t.next
		}
	}
	f.section(sectionSessions)
	eachSorted(v.sessions, func(s *session) bool { return !s.id.IsZero() }, func(s *session) ID { return s.id },
		func(s *session) bool {
			v.writeSession(f, s)
			return f.err() == nil
		})
	f.section(sectionOrder)
	for _, slot := range queues {
		v.writeOrder(f, slot)
	}
	f.section(sectionModes)
	for _, slot := range queues {
		v.writeModes(f, slot)
	}
	v.writeKeyed(f, queues)
	f.section(sectionTasks)
	for _, slot := range queues {
		v.writeTaskTotals(f, slot)
	}
	f.section(sectionRefusals)
	for _, slot := range queues {
		v.writeRefusals(f, slot)
	}
	v.writeDead(f, queues)
	v.writeKV(f)
	v.writeBatches(f)
	v.writeSchedules(f)
	v.writePush(f, queues)
	v.writeMapping(f, queues)
	v.writeIdems(f)
	return f.close()
}

func (v *View) queuesByNumber() []int32 {
	var slots []int32
	for slot, m := range v.metas {
		if m != nil {
			slots = append(slots, int32(slot))
		}
	}
	if mutant.MapOrderInSnapshot {
		byNumber := map[uint32]int32{}
		for _, slot := range slots {
			byNumber[v.metas[slot].number] = slot
		}
		return slices.Collect(maps.Values(byNumber))
	}
	slices.SortFunc(slots, func(a, b int32) int { return int(int64(v.metas[a].number) - int64(v.metas[b].number)) })
	return slots
}

// totals are the counters of a queue that only grow, in the order of the format.
func (t *tally) totals() [17]*int64 {
	return [...]*int64{
		&t.enqueued, &t.acked, &t.nacked, &t.expired, &t.died, &t.duplicates, &t.redriven, &t.refused, &t.deadDropped,
		&t.tombsDropped, &t.leaseMillis,
		&t.diedBy[0], &t.diedBy[1], &t.diedBy[2], &t.diedBy[3], &t.diedBy[4], &t.diedBy[5],
	}
}

// numbers are the options of a queue but for the retry policy, in the order of the format.
func (o *QueueOptions) numbers() [7]*int64 {
	return [...]*int64{
		&o.LeaseMillis, &o.MaxDead, &o.DeadRetentionMillis, &o.DedupWindowMillis, &o.DedupMaxKeys, &o.ResultTTLMillis,
		&o.MaxResultsBytes,
	}
}

func (v *View) writeQueue(f *frameWriter, slot int32) {
	m := v.metas[slot]
	t := *v.tallies.Get(slot)
	f.record()
	f.uvarint(uint64(m.number))
	f.text(m.name)
	o := m.options
	for _, n := range o.numbers() {
		f.varint(*n)
	}
	f.u8(uint8(o.DeadOverflow))
	f.bytes(appendPolicy(nil, &o.Retry))
	for _, n := range t.totals() {
		f.varint(*n)
	}
	f.varint(t.deadCut)
}

func (v *View) writeMessage(f *frameWriter, m *message) {
	f.record()
	f.id(m.id)
	f.uvarint(uint64(v.metas[m.queue].number))
	f.u8(uint8(m.state))
	f.u8(m.priority)
	f.u8(m.bits)
	f.u8(m.flags &^ flagLocal)
	f.uvarint(m.place)
	f.varint(m.enqueued)
	f.bytes(v.blob(m.body))
	f.bool(m.hasSide())
	if !m.hasSide() {
		return
	}
	sd := v.sides.Get(m.side)
	f.varint(sd.due)
	f.varint(sd.expires)
	f.u8(uint8(sd.reason))
	f.id(sd.lease)
	if sd.lease.IsZero() {
		return
	}
	f.varint(sd.leasedAt)
	f.varint(sd.cutoff)
	attempts := uint64(sd.attempts)
	if mutant.AttemptsNotInSnapshot {
		attempts = 0
	}
	f.uvarint(attempts)
	f.u8(sd.free)
	f.u8(uint8(sd.end))
	f.bytes(v.blob(sd.history))
	f.bytes(v.blob(v.workers.Get(sd.worker).text))
	if m.state == StateLeased {
		c := v.consumers.Get(sd.consumer)
		f.id(c.who.Session)
		f.u32(c.who.Sub)
	}
}

func (v *View) writeDedup(f *frameWriter, d *dedupKey) {
	f.record()
	f.id(d.id)
	f.uvarint(uint64(v.metas[d.queue].number))
	f.hash(&d.key)
	f.hash(&d.content)
	f.varint(d.end)
}

func (v *View) writeResult(f *frameWriter, r *result) {
	f.record()
	f.uvarint(r.seq)
	f.uvarint(uint64(v.metas[r.queue].number))
	f.id(r.id)
	f.id(r.lease)
	f.hash(&r.task)
	f.varint(r.end)
	f.varint(r.at)
	f.varint(r.duration)
	f.u16(r.attempts)
	f.u8(r.flags)
	f.bytes(v.blob(r.blob))
}

func (v *View) writeTomb(f *frameWriter, t *tombstone) {
	f.record()
	f.uvarint(uint64(v.metas[t.queue].number))
	f.id(t.id)
	f.id(t.lease)
	f.hash(&t.task)
	f.uvarint(t.ends)
}

func (v *View) writeSession(f *frameWriter, s *session) {
	f.record()
	f.id(s.id)
	f.varint(s.used)
	f.uvarint(s.low)
	if mutant.RequestsNotInSnapshot {
		f.uvarint(0)
		return
	}
	f.uvarint(uint64(s.count))
	for at := s.oldest; at != none; {
		m := v.memos.Get(at)
		f.uvarint(m.number)
		f.id(m.id)
		f.varint(m.amount)
		f.uvarint(uint64(uint32(m.leases)))
		f.u8(uint8(m.code))
		f.u8(uint8(m.field))
		f.u8(m.flags)
		at = m.next
	}
}
