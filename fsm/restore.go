package fsm

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/quorate/quorate/fsm/mutant"
	"github.com/quorate/quorate/fsm/table"
)

// maxInstant bounds every time in a snapshot: T plus the longest duration.
const maxInstant = MaxTime + 2*LimitDeadRetention

// Restore reads a snapshot written by View.WriteTo. It is everything or nothing, and allocates in proportion to what it has
// read. Errors of the format wrap ErrFormat and name the section and the offset.
func Restore(group uint16, r io.Reader) (*State, error) {
	f, err := newFrameReader(r)
	if err != nil {
		return nil, err
	}
	if f.header.Group != group {
		return nil, fmt.Errorf("%w: snapshot of group %d, want group %d", ErrFormat, f.header.Group, group)
	}
	rs := restorer{s: New(group), f: f}
	if err := rs.run(); err != nil {
		rs.s.Close()
		return nil, err
	}
	return rs.s, nil
}

// restorer builds a state record by record; what is in the order of something else than the snapshot's is gathered first.
type restorer struct {
	s     *State
	f     *frameReader
	ready struct { // messages in the order of reading, linked by next
		list
		count    int
		place    uint64 // of the last one
		disorder bool   // it is not that of places
	}
	leased []leased // by lease
	held   []int32  // messages that are out or retrying: they hold their lanes
	dead   []int32
	moved  int // messages that need a move
	rings  []ringed
	// Of the KV: values by message id, and where a sweep stood.
	valueOf table.Index
	sweep   struct {
		on, again bool
		at, until ID
	}
}

type placed struct {
	place uint64
	slot  int32
}

type leased struct {
	lease ID
	side  int32
}

func (rs *restorer) run() error {
	s, f := rs.s, rs.f
	h := &f.header
	s.epoch, s.cluster, s.index, s.now, s.shift = h.Epoch, h.Cluster, h.Index, h.Time, h.Shift
	if h.Time < 0 || h.Time > MaxTime || h.Shift < 0 || h.Shift > h.Time {
		return fmt.Errorf("%w: snapshot of T %d with shift %d, want 0 ≤ shift ≤ T ≤ %d", ErrFormat, h.Time, h.Shift, int64(MaxTime))
	}
	s.fx = &s.scratchFx
	for _, want := range [...]struct {
		number uint8
		read   func()
	}{
		{sectionCounters, rs.counters},
		{sectionQueues, rs.queues},
		{sectionMessages, rs.messages},
		{sectionDedups, rs.dedups},
		{sectionResults, rs.results},
		{sectionTombs, rs.tombs},
		{sectionSessions, rs.sessions},
		{sectionOrder, rs.order},
		{sectionModes, rs.modes},
		{sectionKeyed, rs.keyed},
		{sectionTasks, rs.taskTotals},
		{sectionRefusals, rs.refusals},
		{sectionMoves, rs.moves},
		{sectionStays, rs.stays},
		{sectionDeadQueues, rs.deadQueues},
		{sectionKV, rs.kv},
		{sectionKVValues, rs.kvValues},
		{sectionKVKeys, rs.kvKeys},
		{sectionHooks, rs.hooks},
		{sectionBatches, rs.batches},
		{sectionScheduleGens, rs.scheduleGens},
		{sectionSchedules, rs.schedules},
	} {
		number, ok := f.section()
		if ok && number != want.number {
			f.fail("section %d, want %d", number, want.number)
		}
		if f.err() == nil && !ok {
			f.fail("snapshot ends before section %d", want.number)
		}
		if f.err() != nil {
			return f.err()
		}
		want.read()
		if f.err() != nil {
			return f.err()
		}
	}
	number, more := f.section()
	if more && number == sectionPush {
		rs.push()
		number, more = f.section()
	}
	if more && number == sectionMapping && f.err() == nil {
		rs.mapping()
		number, more = f.section()
	}
	if more && number == sectionIdems && f.err() == nil {
		rs.idems()
		number, more = f.section()
	}
	if more && f.err() == nil {
		f.fail("section %d is unknown to this build", number)
	}
	if f.err() != nil {
		return f.err()
	}
	if rs.link(); f.err() != nil {
		return f.err()
	}
	s.scratchFx.reset()
	s.fx = nil
	return nil
}

func (rs *restorer) counters() {
	s, f := rs.s, rs.f
	n := 0
	for f.more() {
		s.places, s.resultSeq = f.uvarint(), f.uvarint()
		v := f.uvarint()
		s.queueNumbers = uint32(v)
		if v > 1<<32-1 || s.places >= 1<<56 {
			f.fail("counters %d and %d are out of range", s.places, v)
		}
		n++
	}
	if f.err() == nil && n != 1 {
		f.fail("%d records of counters, want 1", n)
	}
}

func (rs *restorer) queues() {
	s, f := rs.s, rs.f
	var last uint64
	for f.more() {
		number := f.uvarint()
		m := &queueMeta{number: uint32(number), name: f.str(MaxQueueName)}
		o := &m.options
		for _, n := range o.numbers() {
			*n = f.varint()
		}
		o.DeadOverflow = DeadOverflow(f.u8())
		policy := append([]byte(nil), f.bytes(2000)...)
		decodePolicy(policy, &o.Retry)
		var t tally
		for _, n := range t.totals() {
			*n = f.varint()
		}
		cut := rs.instant()
		if f.err() != nil {
			return
		}
		normal := *o
		normal.Normalize()
		_, bad := o.Validate()
		switch {
		case number <= last || number > uint64(s.queueNumbers):
			f.fail("queue number %d after %d of %d", number, last, s.queueNumbers)
		case !ValidQueueName([]byte(m.name)) || s.findQueueRead([]byte(m.name)) != nil:
			f.fail("queue name %q is not valid or there twice", m.name)
		case cut > s.now:
			f.fail("queue %q has dead letters ended before %d, which is after T", m.name, cut)
		case bad != nil || !normal.Equal(o) || string(appendPolicy(nil, &o.Retry)) != string(policy):
			f.fail("queue %q has options that are out of range", m.name)
		}
		if f.err() != nil {
			return
		}
		last = number
		q := s.addQueue(m)
		to := s.tallies.Mut(q.slot).totals()
		for i, n := range t.totals() {
			if *n < 0 {
				f.fail("queue %q has a negative total", m.name)
			}
			*to[i] = *n
		}
		s.tallies.Mut(q.slot).deadCut = cut
	}
}

// queue reads a queue number and finds the queue.
func (rs *restorer) queue() *queue {
	n := rs.f.uvarint()
	if rs.f.err() != nil {
		return nil
	}
	if n <= 1<<32-1 {
		if q := rs.s.byNumber(uint32(n)); q != nil {
			return q
		}
	}
	rs.f.fail("queue number %d is unknown", n)
	return nil
}

// instant reads a time.
func (rs *restorer) instant() int64 {
	t := rs.f.varint()
	if t < 0 || t > maxInstant {
		rs.f.fail("time %d, want 0 to %d", t, int64(maxInstant))
		return 0
	}
	return t
}

func (rs *restorer) messages() {
	s, f := rs.s, rs.f
	var last ID
	for f.more() {
		var m message
		m.id = f.id()
		q := rs.queue()
		m.state, m.priority, m.bits, m.flags = MessageState(f.u8()), f.u8(), f.u8(), f.u8()
		m.place, m.enqueued = f.uvarint(), rs.instant()
		blob := f.bytes(MaxBodyBytes + 64<<10)
		if f.err() != nil {
			return
		}
		switch {
		case m.id.Compare(last) <= 0:
			f.fail("message %s after %s", m.id, last)
		case m.state < StateScheduled || m.state > StateDead || m.state == StateDone:
			f.fail("message %s is in state %d", m.id, m.state)
		case m.priority > MaxPriority || m.flags&^(flagPushed|flagCancelled|flagMoved) != 0 ||
			m.flags&flagCancelled != 0 && m.state != StateLeased || m.place > s.places || !validBlob(m.bits, blob):
			f.fail("message %s has fields out of range", m.id)
		}
		if f.err() != nil {
			return
		}
		last = m.id
		slot := s.messages.Alloc()
		m.queue, m.next, m.prev, m.side = q.slot, none, none, none
		m.body = s.arena.PutBytes(owner(ownMessage, slot), blob)
		*s.messages.Mut(slot) = m
		if f.bool() {
			rs.side(slot)
		} else if m.state != StateReady {
			f.fail("message %s lacks what its state %d needs", m.id, m.state)
		}
		if f.err() != nil {
			return
		}
		rs.enter(q, slot)
	}
}

// side reads what a message has beyond the record.
func (rs *restorer) side(slot int32) {
	s, f := rs.s, rs.f
	var d side
	d.due, d.expires = rs.instant(), rs.instant()
	d.reason = DeadReason(f.u8())
	d.lease = f.id()
	var worker []byte
	var who Consumer
	m := s.messages.Get(slot)
	if !d.lease.IsZero() {
		d.leasedAt, d.cutoff = rs.instant(), rs.instant()
		attempts := f.uvarint()
		d.free, d.end = f.u8(), leaseEnd(f.u8())
		if mutant.TokenResetOnRestore {
			d.lease = MakeID(0, d.lease.Group(), d.lease.Index(), d.lease.Offset())
		}
		history := f.bytes(MaxError + MaxHistory*(MaxWorker+MaxAttemptError+64))
		switch {
		case f.err() != nil:
			return
		case attempts > 1<<16-1 || d.free > MaxFreeReturns || d.end > endReplaced:
			f.fail("message %s has a lease out of range", m.id)
			return
		case len(history) > 0 && !validHistory(history):
			f.fail("message %s has a damaged history", m.id)
			return
		}
		d.attempts = uint16(attempts)
		if len(history) > 0 {
			d.history = s.arena.PutBytes(0, history) // the owner follows
		}
		worker = append(s.meta[:0], f.bytes(MaxWorker)...)
		s.meta = worker
		if m.state == StateLeased {
			who = Consumer{Session: f.id(), Sub: f.u32()}
		}
		if f.err() == nil && !ValidText(worker, MaxWorker) {
			f.fail("message %s has a worker that is no text", m.id)
		}
	}
	if f.err() != nil {
		return
	}
	if d.reason > ReasonMapping || (d.reason != ReasonNone) != (m.state == StateDead) ||
		m.state == StateLeased && (d.lease.IsZero() || d.end != endNone) ||
		m.state == StateRetrying && d.lease.IsZero() ||
		m.state == StateReady && d.lease.IsZero() && d.expires == 0 && d.due == 0 {
		f.fail("message %s has a side that does not fit its state %d", m.id, m.state)
		return
	}
	sl := s.newSide(slot)
	sd := s.sides.Mut(sl)
	d.message, d.heapPos, d.worker, d.consumer, d.older, d.newer = slot, none, none, none, none, none
	*sd = d
	if d.history != 0 {
		s.arena.SetOwner(d.history, owner(ownHistory, sl))
	}
	if d.lease.IsZero() {
		return
	}
	w := s.worker(worker)
	s.workers.Mut(w).count++
	s.sides.Mut(sl).worker = w
	if m.state == StateLeased {
		// Linked in the order of leases, which is not this one; until then the consumer only keeps its place.
		c := s.consumer(who)
		s.consumers.Mut(c).count++
		s.sides.Mut(sl).consumer = c
	}
}

// enter counts and indexes a message that has been read, and notes where it is to be linked.
func (rs *restorer) enter(q *queue, slot int32) {
	s := rs.s
	m, t := s.messages.Get(slot), s.tallies.Mut(q.slot)
	if m.flags&flagMoved != 0 { // in whose task's name it stands its move says
		s.byID.Insert(hashID(m.id), slot)
		rs.moved++
	} else if rs.unique(q, slot) {
		s.indexMessage(slot)
	} else {
		return
	}
	s.groupCount++
	if m.state != StateDead {
		t.bytes += int64(s.arena.Size(m.body))
	}
	switch m.state {
	case StateReady:
		rs.noteReady(slot)
	case StateLeased:
		rs.held = append(rs.held, slot)
		t.leased++
		sd := s.sides.Get(m.side)
		rs.leased = append(rs.leased, leased{sd.lease, m.side})
		q.leases.Push(sd.due, m.side)
		s.clockFix(clockLease, q)
	case StateScheduled:
		t.scheduled++
		s.duePush(q, m.side)
	case StateRetrying:
		rs.held = append(rs.held, slot)
		t.retrying++
		s.duePush(q, m.side)
	case StateDead:
		t.dead++
		rs.dead = append(rs.dead, slot)
	}
}

// unique says whether the task of a message that has been read is no other's in the queue that names it.
func (rs *restorer) unique(q *queue, slot int32) bool {
	s := rs.s
	m := s.messages.Get(slot)
	if m.bits&hasTask != 0 && m.flags&flagCancelled == 0 && s.alive(m) {
		if other, ok := s.findTask(q, s.taskText(m)); ok {
			rs.f.fail("messages %s and %s have the same task id", s.messages.Get(other).id, m.id)
			return false
		}
	}
	return true
}

// noteReady puts a message behind those that are to be linked.
func (rs *restorer) noteReady(slot int32) {
	s, r := rs.s, &rs.ready
	if r.count == 0 {
		r.head = slot
	} else {
		s.messages.Mut(r.tail).next = slot
	}
	place := s.messages.Get(slot).place
	r.disorder = r.disorder || r.count > 0 && place <= r.place
	r.tail, r.place = slot, place
	r.count++
}

// linkReady links the ready messages by place. That is the order of ids, in which they were read, where nothing was delayed or retried:
// then it takes no memory.
func (rs *restorer) linkReady() bool {
	s, r := rs.s, &rs.ready
	link := func(slot int32) {
		m := s.messages.Mut(slot)
		m.next = none
		q := s.queues[m.queue]
		if !s.queueUp(q, slot) {
			s.pushReady(q, slot)
		}
		s.nowReady(q, slot)
	}
	bad := func(slot int32) bool {
		m := s.messages.Get(slot)
		rs.f.fail("ready message %s has place %d, which is not its own", m.id, m.place)
		return false
	}
	if !r.disorder {
		for slot, n := r.head, r.count; n > 0; n-- {
			m := s.messages.Get(slot)
			if m.place == 0 {
				return bad(slot)
			}
			next := m.next
			link(slot)
			slot = next
		}
		return true
	}
	order := make([]placed, 0, r.count)
	for slot := r.head; len(order) < r.count; slot = s.messages.Get(slot).next {
		order = append(order, placed{s.messages.Get(slot).place, slot})
	}
	slices.SortFunc(order, func(a, b placed) int { return cmp.Compare(a.place, b.place) })
	for i, p := range order {
		if p.place == 0 || i > 0 && order[i-1].place == p.place {
			return bad(p.slot)
		}
		link(p.slot)
	}
	return true
}

// link makes the lists: ready messages by place, leases by position, dead letters by time.
func (rs *restorer) link() {
	s, f := rs.s, rs.f
	rs.hold()
	rs.keysOut()
	s.restoring = true
	if !rs.linkReady() {
		return
	}
	s.restoring = false
	if rs.openKeys(); f.err() != nil {
		return
	}
	slices.SortFunc(rs.leased, func(a, b leased) int { return a.lease.Compare(b.lease) })
	for i, p := range rs.leased {
		if i > 0 && rs.leased[i-1].lease == p.lease {
			f.fail("lease %s is there twice", p.lease)
			return
		}
		c := s.sides.Get(p.side).consumer
		s.linkConsumer(c, p.side)
		s.consumers.Mut(c).count-- // linkConsumer counts what side has counted
	}
	slices.SortFunc(rs.dead, func(a, b int32) int {
		if s.deadLess(a, b) {
			return -1
		}
		return 1
	})
	for _, slot := range rs.dead {
		q := s.queues[s.messages.Get(slot).queue]
		s.linkDead(q, slot)
		s.indexDead(q, slot, false)
		s.clockFix(clockDead, q)
	}
	rs.leased, rs.dead = nil, nil
}
