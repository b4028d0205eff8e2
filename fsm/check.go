package fsm

import (
	"errors"
	"fmt"
	"slices"
)

// Check verifies every invariant by scanning: counts equal scans, lists, heaps and indexes hold what the records say and
// nothing else, bytes are accounted for. It is for tests and doctors: O(n log n). The error names every violation, up to a
// dozen.
func (s *State) Check() error {
	c := checker{s: s, linked: map[int32]string{}}
	c.queues()
	c.lanes()
	c.keys()
	c.messages()
	c.consumers()
	c.workers()
	c.dead()
	c.tables()
	c.sessions()
	c.kv()
	c.schedules()
	c.batches()
	c.mapping()
	c.idems()
	c.arena()
	return errors.Join(c.errs...)
}

type checker struct {
	s       *State
	errs    []error
	linked  map[int32]string // message → where it is linked
	bytes   int64            // of blobs that records hold
	blobs   int64
	slack   int64 // what heads and padding may add
	inRows  int   // rows of queues
	inKeys  int   // keys of queues
	inFlows int   // flows of queues
}

func (c *checker) bad(format string, args ...any) {
	if len(c.errs) < 12 {
		c.errs = append(c.errs, fmt.Errorf(format, args...))
	}
}

func (c *checker) link(slot int32, where string) {
	if !c.s.messages.Live(slot) {
		c.bad("%s holds slot %d, which is free", where, slot)
		return
	}
	if w, twice := c.linked[slot]; twice {
		c.bad("message %s is in %s and in %s", c.s.messages.Get(slot).id, w, where)
	}
	c.linked[slot] = where
}

// walk follows a message list and checks its back links.
func (c *checker) walk(l list, where string, f func(m *message)) (n int64) {
	prev := none
	for at := l.head; at != none; at = c.s.messages.Get(at).next {
		c.link(at, where)
		if len(c.errs) > 0 && !c.s.messages.Live(at) {
			return n
		}
		m := c.s.messages.Get(at)
		if m.prev != prev {
			c.bad("%s: message %s has prev %d, want %d", where, m.id, m.prev, prev)
		}
		f(m)
		prev = at
		if n++; n > int64(c.s.messages.Len()) {
			c.bad("%s is a ring", where)
			return n
		}
	}
	if l.tail != prev {
		c.bad("%s: tail is %d, want %d", where, l.tail, prev)
	}
	return n
}

func (c *checker) queues() {
	s := c.s
	for i, slot := range s.names {
		q := s.queues[slot]
		if i > 0 && s.queues[s.names[i-1]].meta.name >= q.meta.name {
			c.bad("queue %q is out of order", q.meta.name)
		}
		if s.findQueueRead([]byte(q.meta.name)) != q || s.byNumber(q.meta.number) != q {
			c.bad("queue %q is not found by name and number", q.meta.name)
		}
		c.queue(q)
		t := s.tallies.Get(q.slot)
		if sum := t.refusedInKinds(); sum != t.refused || slices.Min(t.refusedBy[:]) < 0 {
			c.bad("queue %q has refused %d, by kind %v", q.meta.name, t.refused, t.refusedBy)
		}
	}
	if n := s.queueByName.Len(); n != len(s.names) || s.queueByNum.Len() != n {
		c.bad("%d queues by name, %d by number, want %d", n, s.queueByNum.Len(), len(s.names))
	}
	ordered := 0
	for _, slot := range s.names {
		if s.queues[slot].meta.options.Ordering != OrderUnordered {
			ordered++
		}
	}
	if ordered != s.orderedQueues {
		c.bad("%d ordered queues, a scan finds %d", s.orderedQueues, ordered)
	}
	for k := range s.clocks {
		for i := range int32(s.clocks[k].Len()) {
			if _, slot := s.clocks[k].At(i); s.queues[slot] == nil || s.queues[slot].clockPos[k] != i {
				c.bad("clock %d position %d holds slot %d, which is elsewhere", k, i, slot)
			}
		}
	}
}

func (c *checker) queue(q *queue) {
	s, t := c.s, c.s.tallies.Get(q.slot)
	where := func(what string) string { return fmt.Sprintf("queue %q %s", q.meta.name, what) }
	var ready, scheduled, retrying int64
	for p := range q.ready {
		last := uint64(0)
		n := c.walk(q.ready[p], where("ready"), func(m *message) {
			if m.state != StateReady || int(m.priority) != p && q.meta.options.Ordering == OrderUnordered || m.queue != q.slot || m.gen != t.liveGen || m.place <= last || m.flags&flagReleased != 0 {
				c.bad("%s %d: message %s does not belong (state %d, place %d after %d)", where("ready"), p, m.id, m.state, m.place, last)
			}
			last = m.place
		})
		if (n > 0) != (q.filled&(1<<p) != 0) {
			c.bad("%s: bit %d says %t", where("filled"), p, n == 0)
		}
		ready += n
	}
	for i := range int32(q.released.Len()) {
		key, slot := q.released.At(i)
		c.link(slot, where("released"))
		m := s.messages.Get(slot)
		if m.state != StateReady || m.flags&flagReleased == 0 || m.next != i || key != servingKey(m) || m.gen != t.liveGen || m.queue != q.slot {
			c.bad("%s: message %s does not belong", where("released"), m.id)
		}
		ready++
	}
	c.victims(q)
	blocked := c.queueLanes(q)
	if q.meta.keyed && (ready != 0 || q.filled != 0) {
		c.bad("%s: %d messages are in no flow", where("ready"), ready)
	}
	ready += blocked + c.queueKeys(q)
	inDue := 0
	for i := q.due.First(); i != none; i = q.due.After(i) {
		inDue++
		key, sl := q.due.At(i)
		sd := s.sides.Get(sl)
		m := s.messages.Get(sd.message)
		at, _ := s.nextMove(sl)
		if sd.heapPos != i || key != at || m.side != sl || m.queue != q.slot || m.gen != t.liveGen {
			c.bad("%s: message %s does not belong", where("due"), m.id)
		}
		switch m.state {
		case StateScheduled:
			c.link(sd.message, where("due"))
			scheduled++
		case StateRetrying:
			c.link(sd.message, where("due"))
			retrying++
		case StateReady:
			if sd.expires == 0 {
				c.bad("%s: message %s has no ttl", where("due"), m.id)
			}
		default:
			c.bad("%s: message %s is in state %d", where("due"), m.id, m.state)
		}
	}
	if inDue != q.due.Len() {
		c.bad("%s: %d of %d are found", where("due"), inDue, q.due.Len())
	}
	for i := range int32(q.leases.Len()) {
		key, sl := q.leases.At(i)
		sd := s.sides.Get(sl)
		m := s.messages.Get(sd.message)
		c.link(sd.message, where("leases"))
		if m.state != StateLeased || sd.heapPos != i || key != sd.due || m.side != sl || m.queue != q.slot || sd.consumer == none {
			c.bad("%s: message %s does not belong", where("leases"), m.id)
		}
	}
	last := none
	dead := c.walk(q.dead, where("dead"), func(m *message) {
		if m.state != StateDead || m.queue != q.slot || m.gen != t.deadGen || s.sides.Get(m.side).reason == ReasonNone {
			c.bad("%s: message %s does not belong", where("dead"), m.id)
		}
		at := s.sides.Get(m.side).message
		if last != none && !s.deadLess(last, at) {
			c.bad("%s: message %s is out of order", where("dead"), m.id)
		}
		last = at
	})
	for _, n := range [...]struct {
		what      string
		have, got int64
	}{
		{"ready", t.ready, ready},
		{"blocked", q.blocked, blocked},
		{"scheduled", t.scheduled, scheduled},
		{"retrying", t.retrying, retrying},
		{"leased", t.leased, int64(q.leases.Len())},
		{"dead", t.dead, dead},
		{"dedup keys", t.dedups, int64(q.dedups.Len())},
		{"results", t.results, int64(q.results.Len())},
	} {
		if n.have != n.got {
			c.bad("queue %q counts %d %s, a scan finds %d", q.meta.name, n.have, n.what, n.got)
		}
	}
	for k := range q.clockPos {
		at, slot, kind, ok := s.head(k, q)
		switch h := q.clockHead[k]; {
		case ok != (q.clockPos[k] >= 0):
			c.bad("queue %q is in clock %d: %t, want %t", q.meta.name, k, !ok, ok)
		case ok && (h != clockHead{at, slot, kind}):
			c.bad("queue %q stands in clock %d with %v, want %v", q.meta.name, k, h, clockHead{at, slot, kind})
		case ok && int(q.clockPos[k]) >= s.clocks[k].Len():
			c.bad("queue %q stands at %d of %d in clock %d", q.meta.name, q.clockPos[k], s.clocks[k].Len(), k)
		case ok:
			if key, _ := s.clocks[k].At(q.clockPos[k]); key != at {
				c.bad("queue %q stands in clock %d at %d, want %d", q.meta.name, k, key, at)
			}
		}
	}
}

// blob counts a blob that a record holds.
func (c *checker) blob(what string, id ID, r ref, want uint64) {
	if r == 0 {
		return
	}
	if o := c.s.arena.Owner(r); o != want {
		c.bad("%s of %s belongs to owner %#x, want %#x", what, id, o, want)
	}
	c.blobs++
	size := int64(c.s.arena.Size(r))
	c.bytes += size
	c.slack += 16
	if size > 128<<10 { // may have a mapping of its own
		c.slack += 64 << 10
	}
}

func (c *checker) messages() {
	s := c.s
	var group, sides, task, origin int64
	bytes := map[int32]int64{}
	kinds := map[kindKey]int64{}
	parked := 0
	s.messages.Each(func(slot int32, m *message) bool {
		c.blob("body", m.id, m.body, owner(ownMessage, slot))
		if m.state == StateDone {
			if parked++; !slices.Contains(s.parked, slot) {
				c.bad("message %s is done and not parked", m.id)
			}
			if m.hasSide() {
				sides++
				c.blob("history", m.id, s.sides.Get(m.side).history, owner(ownHistory, m.side))
			}
			return true
		}
		task += int64(m.bits & hasTask)
		if _, ok := s.firstID(m); ok {
			origin++
		}
		if !validBlob(m.bits, s.blob(m.body)) {
			c.bad("message %s has a damaged blob", m.id)
		}
		if _, ok := s.byID.Find(hashID(m.id), func(v int32) bool { return v == slot }); !ok {
			c.bad("message %s is not found by its id", m.id)
		}
		if m.hasSide() {
			sides++
			sd := s.sides.Get(m.side)
			if !s.sides.Live(m.side) || sd.message != slot {
				c.bad("message %s and its side do not know each other", m.id)
			}
			c.blob("history", m.id, sd.history, owner(ownHistory, m.side))
			if h := s.blob(sd.history); h != nil && !validHistory(h) {
				c.bad("message %s has a damaged history", m.id)
			}
			if (sd.worker == none) != sd.lease.IsZero() || (m.state == StateLeased && s.alive(m)) != (sd.consumer != none) {
				c.bad("message %s in state %d has worker %d, consumer %d", m.id, m.state, sd.worker, sd.consumer)
			}
			ttl := m.state == StateReady && sd.expires != 0
			waiting := ttl || m.state == StateScheduled || m.state == StateRetrying || m.state == StateLeased
			if s.alive(m) && waiting != (sd.heapPos != none) {
				c.bad("message %s in state %d stands at %d of a heap", m.id, m.state, sd.heapPos)
			}
		} else if m.state != StateReady {
			c.bad("message %s in state %d has no side", m.id, m.state)
		}
		t := s.tallies.Get(m.queue)
		there := !t.gone && (m.state == StateLeased || m.state == StateDead && m.gen == t.deadGen ||
			m.state != StateLeased && m.state != StateDead && m.gen == t.liveGen)
		if _, linked := c.linked[slot]; linked != there {
			c.bad("message %s in state %d is linked: %t, want %t", m.id, m.state, linked, there)
		}
		if !there {
			return true
		}
		group++
		if m.state == StateReady && m.bits&hasKind != 0 {
			kinds[kindKey{m.queue, s.kindOf(s.queues[m.queue], m).kind}]++
		}
		if m.state != StateDead {
			bytes[m.queue] += int64(s.arena.Size(m.body))
		}
		if m.flags&flagCancelled != 0 && m.state != StateLeased {
			c.bad("message %s in state %d is cancelled", m.id, m.state)
		}
		if m.bits&hasTask != 0 && m.flags&flagCancelled == 0 && s.alive(m) {
			home := s.home(m)
			if home == nil {
				return true
			}
			if at, ok := s.findTask(home, s.taskText(m)); !ok || at != slot {
				c.bad("message %s is not found by its task id, or not alone", m.id)
			}
		}
		return true
	})
	c.kinds(kinds)
	for _, slot := range s.names {
		if have := s.tallies.Get(slot).bytes; have != bytes[slot] {
			c.bad("queue %q counts %d bytes, a scan finds %d", s.queues[slot].meta.name, have, bytes[slot])
		}
	}
	for _, n := range [...]struct {
		what      string
		have, got int64
	}{
		{"messages of the group", s.groupCount, group},
		{"sides", int64(s.sides.Len()), sides},
		{"messages by id", int64(s.byID.Len()), int64(s.messages.Len() - parked)},
		{"parked messages", int64(len(s.parked)), int64(parked)},
		{"messages by task", int64(s.byTask.Len()), task},
		{"messages by origin", int64(s.byOrigin.Len()), origin},
	} {
		if n.have != n.got {
			c.bad("%d %s, a scan finds %d", n.have, n.what, n.got)
		}
	}
}

func (c *checker) consumers() {
	s := c.s
	total := int64(0)
	s.consumers.Each(func(i int32, r *consumer) bool {
		if at, ok := s.findConsumer(r.who); !ok || at != i {
			c.bad("consumer %v is not found", r.who)
		}
		n, older := int32(0), none
		for sl := r.oldest; sl != none; sl = s.sides.Get(sl).newer {
			sd := s.sides.Get(sl)
			if sd.consumer != i || sd.older != older || older != none && s.sides.Get(older).lease.Compare(sd.lease) >= 0 {
				c.bad("consumer %v: lease %s is out of place", r.who, sd.lease)
			}
			if n++; n > r.count {
				break
			}
			older = sl
		}
		if n != r.count || n == 0 || r.newest != older {
			c.bad("consumer %v counts %d leases, a walk finds %d", r.who, r.count, n)
		}
		total += int64(n)
		return true
	})
	leased := int64(0)
	for _, slot := range s.names {
		leased += s.tallies.Get(slot).leased
	}
	if total != leased || s.consumerIx.Len() != s.consumers.Len() {
		c.bad("%d leases of consumers (%d indexed), %d of queues", total, s.consumerIx.Len(), leased)
	}
}

func (c *checker) workers() {
	s := c.s
	uses := map[int32]int32{}
	s.sides.Each(func(_ int32, sd *side) bool {
		if sd.worker != none {
			uses[sd.worker]++
		}
		return true
	})
	s.moves.Each(func(_ int32, mv *move) bool {
		uses[mv.name]++
		if mv.worker != none {
			uses[mv.worker]++
		}
		return true
	})
	s.workers.Each(func(i int32, w *worker) bool {
		if w.count != uses[i] {
			c.bad("worker %q counts %d uses, a scan finds %d", s.workerText(i), w.count, uses[i])
		}
		c.blob("worker", ID{}, w.text, owner(ownWorker, i))
		return true
	})
	if s.workers.Len() != len(uses) || s.workerIdx.Len() != len(uses) {
		c.bad("%d workers, %d indexed, %d used", s.workers.Len(), s.workerIdx.Len(), len(uses))
	}
}

// arena checks that the arena holds what the records do.
func (c *checker) arena() {
	if live := c.s.arena.Live(); live < c.bytes+8*c.blobs || live > c.bytes+c.slack {
		c.bad("arena holds %d bytes, the %d blobs of records have %d", live, c.blobs, c.bytes)
	}
}
