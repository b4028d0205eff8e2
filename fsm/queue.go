package fsm

import (
	"hash/maphash"
	"slices"
	"sort"

	"github.com/quorate/quorate/fsm/table"
)

// queueMeta is what a queue is called and how it is set: immutable, so that views share it.
type queueMeta struct {
	name    string
	number  uint32
	options QueueOptions // normalized
	rate    bucket       // of these
	keyRate bucket
	keyed   bool // keys matter: what can be leased is in flows
	// generation of the mapping: the index of the entry that has set it; 0: there is none
	generation uint64
}

// newMeta makes the meta of a queue with valid, normalized options, of which it keeps nothing that is the caller's.
func newMeta(name string, number uint32, o *QueueOptions) *queueMeta {
	m := &queueMeta{name: name, number: number, options: *o}
	m.options.Retry.Steps = slices.Clone(o.Retry.Steps)
	m.settle()
	return m
}

// settle works out what follows from the options.
func (m *queueMeta) settle() {
	o := &m.options
	m.rate, m.keyRate = bucketOf(o.RateMilli, o.Burst), bucketOf(o.RatePerKeyMilli, o.BurstPerKey)
	m.keyed = o.MaxInFlightPerKey != 0 || o.RatePerKeyMilli != 0 || o.FairBy != FairByNone
}

func (m *queueMeta) fair() bool { return m.options.FairBy == FairByKey }

// weight is how many messages the turn of a key is.
func (m *queueMeta) weight(key []byte) uint8 {
	ws := m.options.FairWeights
	if i := sort.Search(len(ws), func(i int) bool { return ws[i].Key >= string(key) }); i < len(ws) && ws[i].Key == string(key) {
		return uint8(ws[i].Weight)
	}
	return 1
}

// tally is the part of a queue that changes with every operation and that views need: a record without pointers.
type tally struct {
	ready, scheduled, retrying, leased, dead int64
	bytes                                    int64 // blobs of live messages
	results, resultBytes, dedups, tombs      int64

	// Totals, which only grow.
	enqueued, acked, nacked, expired, died int64
	duplicates, redriven, refused          int64
	deadDropped, tombsDropped              int64
	diedBy                                 [6]int64 // by DeadReason
	leaseMillis                            int64
	cancelled, rescheduled                 int64
	refusedBy                              [Refusals]int64 // of refused, by kind
	movedOut, movedIn, stayed              int64           // dead letters moved to another queue, from another, and that could not be

	moved int64 // live messages that died elsewhere

	tombHead, tombTail int32  // oldest and newest tombstone
	liveGen, deadGen   uint32 // of the sets that a purge swaps
	// deadCut is the failed_at below which dead letters had ended when the retention was changed: they stay ended.
	deadCut    int64
	used, gone bool
	tat        int64 // of the queue's rate, ns; in the past where it owes nothing
	// rings are the heads of the rings of open flows by priority, where the queue's bit says that there is one.
	rings [MaxPriority + 1]int32
}

// live is how many live messages the queue holds.
func (t *tally) live() int64 { return t.ready + t.scheduled + t.retrying + t.leased }

// list is a doubly linked list of messages through next and prev.
type list struct{ head, tail int32 }

var emptyList = list{none, none}

// queue is the rest: lists and heaps, rebuilt on restore.
type queue struct {
	slot      int32
	gone      bool // deleted: whoever still knows it is told that there is none
	meta      *queueMeta
	ready     [MaxPriority + 1]list // by priority; of an ordered queue: see listFor
	filled    uint16                // bit p: ready[p] is not empty
	released  table.Heap            // ready messages that came back to an older place: by (priority, place)
	due       *table.Calendar       // sides of scheduled and retrying messages, and of ready ones with a ttl
	leases    table.Heap            // sides of leased messages, by deadline in lease time
	dedups    table.Heap
	results   table.Heap
	order     resultOrder
	dead      list       // by (failed_at, id)
	deadIx    *deadIndex // of these; nil: none
	movedIx   *deadIndex // of live messages that died elsewhere; nil: none
	namers    int32      // queues whose dead-letter queue this is
	rows      list       // what waits in lanes
	blocked   int64      // ready messages that wait in their lanes
	victims   table.Heap // what waits, by who is dropped first; only with overflow drop_oldest
	keys      list       // where keys matter
	flows     list
	heads     table.Heap // open flows by what is served first, without fair_by
	held      table.Heap // keys that their rate holds, by the T at which it lets them serve
	debts     table.Heap // keys by their rate's instant
	offered   int64      // Σ of what keys offer
	parked    int64      // ready messages of keys that are full or held
	rings     uint16     // bit p: there is a ring in priority p
	kinds     *kindTable // nil: no message has had one
	clockPos  [clocks]int32
	clockHead [clocks]clockHead
	told      uint64 // index of the entry that last reported it ready
	// toldResult is that of the entry that last reported a result.
	toldResult uint64
	pending    struct { // what the ack being checked will add
		messages, dedups, bytes int64
		drops, dropBytes        int64 // of those that are to be dropped for it
		stays, staysBytes       int64 // what is acked, which counts until it is
	}
}

// hashText hashes a text that a client chose, for an index. The seed is this State's own, so that nobody can choose texts of
// one hash; it is seen nowhere but in the order of slots in an index page.
func (s *State) hashText(b []byte) uint64 { return maphash.Bytes(s.seed, b) }

func (s *State) hashTask(q *queue, task []byte) uint64 {
	return table.HashID(s.hashText(task), uint64(q.meta.number))
}

// hashTaskOf is hashTask of the queue whose task a message is.
func (s *State) hashTaskOf(m *message, task []byte) uint64 {
	return table.HashID(s.hashText(task), uint64(s.homeNumber(m)))
}

// findQueue is the queue of a name, nil if there is none.
func (s *State) findQueue(name []byte) *queue {
	if q := s.lastQueue; q != nil && q.meta.name == string(name) {
		return q
	}
	slot, ok := s.queueByName.Find(s.hashText(name), func(v int32) bool { return s.queues[v].meta.name == string(name) })
	if !ok {
		return nil
	}
	s.lastQueue = s.queues[slot]
	return s.lastQueue
}

// byNumber is the queue of a number, nil when gone.
func (s *State) byNumber(n uint32) *queue {
	slot, ok := s.queueByNum.Find(table.HashID(1, uint64(n)), func(v int32) bool { return s.queues[v].meta.number == n })
	if !ok {
		return nil
	}
	return s.queues[slot]
}

// addQueue enters a queue that is known to be new.
func (s *State) addQueue(meta *queueMeta) *queue {
	slot := s.tallies.Alloc()
	t := s.tallies.Mut(slot)
	t.tombHead, t.tombTail, t.used = none, none, true
	q := &queue{slot: slot, meta: meta, dead: emptyList, rows: emptyList, keys: emptyList, flows: emptyList}
	for p := range q.ready {
		q.ready[p] = emptyList
	}
	for k := range q.clockPos {
		q.clockPos[k], q.clockHead[k].slot = none, none
	}
	s.emptyHeaps(q)
	for int(slot) >= len(s.queues) {
		s.queues = append(s.queues, nil)
	}
	s.queues[slot] = q
	s.queueByName.Insert(s.hashText([]byte(meta.name)), slot)
	s.queueByNum.Insert(table.HashID(1, uint64(meta.number)), slot)
	s.countNamers(q)
	s.names = slices.Insert(s.names, s.nameAt(meta.name), slot)
	s.countOrdered(meta, 1)
	s.countKeyed(meta, 1)
	s.countMapping(meta, 1)
	s.nameDead(meta.options.DeadLetterQueue, 1)
	return q
}

// emptyHeaps gives a queue fresh heaps.
func (s *State) emptyHeaps(q *queue) {
	q.released = table.Heap{Moved: s.moved.released}
	q.due = s.newDue()
	q.leases = table.Heap{Less: s.cmpLess[clockLease], Rank: s.ranks.lease, Moved: s.moved.side}
	q.dedups = table.Heap{Less: s.cmpLess[clockDedup]}
	q.results = table.Heap{Less: s.cmpLess[clockResult]}
	q.order = resultOrder{}
	s.emptyVictims(q)
	q.debts = table.Heap{Less: s.cmpLess[clockDebt], Moved: s.moved.debt}
	s.keyedHeaps(q)
}

func (s *State) emptyVictims(q *queue) {
	q.victims = table.Heap{Less: s.victimLess, Moved: s.moved.victim}
}

// nameAt is where a name is or would be in the sorted list.
func (s *State) nameAt(name string) int {
	at, _ := slices.BinarySearchFunc(s.names, name, func(slot int32, name string) int {
		switch n := s.queues[slot].meta.name; {
		case n < name:
			return -1
		case n > name:
			return 1
		}
		return 0
	})
	return at
}

// makeQueue makes a queue with valid, normalized options, unless the group has too many.
func (s *State) makeQueue(name []byte, options QueueOptions) (*queue, bool) {
	if int64(len(s.names)) >= s.lim.queues || s.queueNumbers == 1<<32-1 {
		return nil, false
	}
	s.queueNumbers++
	meta := newMeta(string(name), s.queueNumbers, &options)
	if options.Mapped() {
		meta.generation = s.index
	}
	return s.addQueue(meta), true
}

func (s *State) createQueue(op *CreateQueue, o *Outcome) {
	if !ValidQueueName(op.Name) {
		*o = refuse(InvalidArgument, FieldQueue, MaxQueueName)
		return
	}
	if o.Code, o.Field = checkOptions(op.Name, &op.Options); o.Code != OK {
		return
	}
	op.Options.Normalize()
	if q := s.findQueue(op.Name); q != nil {
		if q.meta.options.Equal(&op.Options) {
			o.Duplicate = true
		} else {
			*o = refuse(AlreadyExists, FieldOptions, 0)
		}
		return
	}
	if *o = s.mappingFits(op.Name, &op.Options, &QueueOptions{}); o.Code != OK {
		return
	}
	if _, ok := s.makeQueue(op.Name, op.Options); !ok {
		*o = refuse(Overloaded, FieldQueues, s.lim.queues)
	}
}

func (s *State) setQueue(op *SetQueue, o *Outcome) {
	if !ValidQueueName(op.Name) {
		*o = refuse(InvalidArgument, FieldQueue, MaxQueueName)
		return
	}
	if o.Code, o.Field = checkOptions(op.Name, &op.Options); o.Code != OK {
		return
	}
	q := s.findQueue(op.Name)
	if q == nil {
		*o = refuse(NotFound, FieldQueue, 0)
		return
	}
	*o = s.setOptions(q, &op.Options)
}

// checkOptions judges a queue's options as they are together.
func checkOptions(name []byte, o *QueueOptions) (Code, Field) {
	if f, err := o.Validate(); err != nil {
		return InvalidArgument, f
	}
	switch string(name) {
	case o.DeadLetterQueue:
		return InvalidArgument, FieldDeadLetterQueue
	case o.MapTo.Queue:
		return InvalidArgument, FieldMapTo
	}
	return OK, FieldNone
}

// setOptions gives a queue other options, which are normalized.
func (s *State) setOptions(q *queue, o *QueueOptions) Outcome {
	if c, f := checkOptions([]byte(q.meta.name), o); c != OK {
		return refuse(c, f, 0)
	}
	o.Normalize()
	if s.tallies.Get(q.slot).live() > 0 {
		switch {
		case o.Ordering != q.meta.options.Ordering:
			return refuse(FailedPrecondition, FieldOrdering, 0)
		case o.Delivery != q.meta.options.Delivery:
			return refuse(FailedPrecondition, FieldDelivery, 0)
		}
	}
	if out := s.mappingFits([]byte(q.meta.name), o, &q.meta.options); out.Code != OK {
		return out
	}
	meta := newMeta(q.meta.name, q.meta.number, o)
	switch {
	case !o.Mapped():
	case o.sameMapping(&q.meta.options):
		meta.generation = q.meta.generation
	default:
		meta.generation = s.index
	}
	if old := q.meta.options.DeadRetentionMillis; old != meta.options.DeadRetentionMillis {
		t := s.tallies.Mut(q.slot)
		t.deadCut = max(t.deadCut, s.now-old+1)
	}
	s.countOrdered(q.meta, -1)
	s.countOrdered(meta, 1)
	s.countMapping(q.meta, -1)
	s.countMapping(meta, 1)
	before, was := s.unhurried(q), q.meta.rate
	s.nameDead(q.meta.options.DeadLetterQueue, -1)
	s.nameDead(meta.options.DeadLetterQueue, 1)
	dropped, drops := q.meta.options.Overflow == OverflowDropOldest, meta.options.Overflow == OverflowDropOldest
	old := q.meta
	q.meta = meta
	s.changeRate(q)
	s.changeKeys(q, old)
	switch {
	case drops && !dropped:
		s.exposeAll(q)
	case dropped && !drops:
		s.shelterAll(q)
	}
	if n := s.unhurried(q); n > before || n > 0 && (q.meta.rate != was || q.meta.keyed || old.keyed) {
		s.tellReady(q)
	}
	s.clockFix(clockDead, q)
	return Outcome{}
}

func (s *State) purgeQueue(op *PurgeQueue, o *Outcome) {
	q := s.findQueue(op.Name)
	if q == nil {
		*o = refuse(NotFound, FieldQueue, 0)
		return
	}
	o.Count = s.purgeLive(q)
	s.fx.Purged = append(s.fx.Purged, q.meta.number)
}

// purgeLive swaps the set of live messages that are not out for an empty one, and says how many went.
func (s *State) purgeLive(q *queue) int64 {
	t := s.tallies.Mut(q.slot)
	n := t.ready + t.scheduled + t.retrying
	if n == 0 {
		return 0
	}
	s.groupCount -= n
	t.ready, t.scheduled, t.retrying = 0, 0, 0
	q.kinds.noneReady()
	t.bytes = 0
	t.liveGen++
	s.swapIndex(q, true)
	t.moved = 0
	// What is out stays, with its bytes.
	for i := range int32(q.leases.Len()) {
		_, sl := q.leases.At(i)
		slot := s.sides.Get(sl).message
		m := s.messages.Get(slot)
		t.bytes += int64(s.arena.Size(m.body))
		if m.flags&flagMoved != 0 {
			s.indexDead(q, slot, true)
			t.moved++
		}
	}
	// The calendar goes before the lists: it names ready messages too, which the lists give back.
	s.garbage = append(s.garbage, garbageJob{kind: garbageWaiting, due: q.due, pos: q.due.First()}, garbageJob{kind: garbageReleased, heap: q.released})
	for p := range q.ready {
		if q.ready[p].head != none {
			s.garbage = append(s.garbage, garbageJob{kind: garbageList, head: q.ready[p].head})
		}
		q.ready[p] = emptyList
	}
	if q.flows.head != none {
		s.garbage = append(s.garbage, garbageJob{kind: garbageFlows, head: q.flows.head})
		q.flows = emptyList
	}
	s.keyedHeaps(q)
	s.startSweep()
	q.filled = 0
	s.swapLanes(q)
	q.released = table.Heap{Moved: s.moved.released}
	q.due = s.newDue()
	s.emptyVictims(q)
	s.clockFix(clockDue, q)
	return n
}

// purgeDead swaps the dead letters for an empty set, and says how many went.
func (s *State) purgeDead(q *queue) int64 {
	t := s.tallies.Mut(q.slot)
	n := t.dead
	if n == 0 {
		return 0
	}
	s.groupCount -= n
	t.dead = 0
	t.deadGen++
	s.garbage = append(s.garbage, garbageJob{kind: garbageList, head: q.dead.head})
	q.dead = emptyList
	s.swapIndex(q, false)
	s.clockFix(clockDead, q)
	return n
}

func (s *State) deleteQueue(op *DeleteQueue, o *Outcome) {
	q := s.findQueue(op.Name)
	if q == nil {
		*o = refuse(NotFound, FieldQueue, 0)
		return
	}
	o.Count = s.purgeLive(q) + s.purgeDead(q) + int64(q.leases.Len())
	s.fx.Purged = append(s.fx.Purged, q.meta.number)
	// The leader and the consumers' lists must hear of every lease that ends, so these are walked.
	s.groupCount -= int64(q.leases.Len())
	for i := range int32(q.leases.Len()) {
		_, sl := q.leases.At(i)
		s.endLease(sl, false)
	}
	t := s.tallies.Mut(q.slot)
	if q.keys.head != none {
		s.garbage = append(s.garbage, garbageJob{kind: garbageKeys, head: q.keys.head})
		q.keys = emptyList
	}
	s.garbage = append(s.garbage,
		garbageJob{kind: garbageLeased, heap: q.leases},
		garbageJob{kind: garbageDedups, heap: q.dedups},
		garbageJob{kind: garbageResults, heap: q.results},
		garbageJob{kind: garbageTombs, head: t.tombHead},
		garbageJob{kind: garbageQueue, head: q.slot})
	s.swapIndex(q, true)
	s.nameDead(q.meta.options.DeadLetterQueue, -1)
	s.dropKinds(q)
	t.gone = true
	t.moved = 0
	t.leased, t.bytes, t.dedups, t.results, t.resultBytes, t.tombs = 0, 0, 0, 0, 0, 0
	t.tombHead, t.tombTail = none, none
	s.emptyHeaps(q)
	for k := range q.clockPos {
		s.clockFix(k, q)
	}
	q.gone = true
	s.queueByName.Delete(s.hashText([]byte(q.meta.name)), q.slot)
	s.queueByNum.Delete(table.HashID(1, uint64(q.meta.number)), q.slot)
	s.countOrdered(q.meta, -1)
	s.countKeyed(q.meta, -1)
	s.countMapping(q.meta, -1)
	at := s.nameAt(q.meta.name)
	s.names = slices.Delete(s.names, at, at+1)
	s.lastQueue = nil
	s.startSweep()
}
