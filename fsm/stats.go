package fsm

import (
	"sort"
)

// QueueStats are the counters of a queue. Those under Totals only grow and are state: they are in snapshots.
type QueueStats struct {
	Name    string
	Options QueueOptions

	Ready, Scheduled, Retrying, Leased, Dead int64 // Ready counts those too that wait behind another of their key or queue
	Blocked                                  int64 // of Ready, those that wait so
	Parked                                   int64 // of Ready, those whose key is at its limit in flight or held by its rate
	KeyDebts                                 int64 // keys whose rate is in debt, not yet reclaimed
	Moved                                    int64 // of the live ones: dead letters of other queues, moved here
	Bytes                                    int64 // bodies, headers and other fields of live messages
	// OldestEnqueuedAt is T of the oldest of these: the first ready message of each priority, the one that becomes due
	// first, the one whose lease ends first (where keys matter, the first of the key that has had something ready for longest); 0 if
	// the queue holds none. Without delays, retries and long leases that is the
	// oldest live message; with them one that is older may hide behind.
	OldestEnqueuedAt int64
	// WaitingSince is T since when the one of them has been ready that has been for longest: the first ready message of each priority,
	// the first of those that came back to an older place, and where keys matter the first of the key that has had something ready for longest; 0 if
	// there is none. One that was released counts from its last lease, as nothing says when that ended.
	// What waits behind another of its key or queue is not looked at.
	WaitingSince                                int64
	Results, ResultBytes, DedupKeys, Tombstones int64 // not yet reclaimed

	// Totals.
	Enqueued, Acked, Nacked, Expired, Died, Duplicates, Redriven, Refused, DeadDropped, TombstonesDropped int64
	DiedByReason                                                                                          [6]int64        // by DeadReason
	RefusedBy                                                                                             [Refusals]int64 // of Refused, by Refusal
	Cancelled, Rescheduled                                                                                int64
	// Of what died: moved to the dead-letter queue, moved here from another queue, and not moved since that queue was missing or full.
	MovedOut, MovedIn, Stayed int64
	Overflowed                int64 // of what died: dropped to make room for others
	LeaseMillisSum            int64 // Σ over acks of T(ack) − T(lease), ms
}

// QueueNumber is the number of an existing queue. Numbers are never given twice.
func (s *State) QueueNumber(name []byte) (uint32, bool) {
	q := s.findQueueRead(name)
	if q == nil {
		return 0, false
	}
	return q.meta.number, true
}

// findQueueRead is findQueue without its cache, for readers that share the state.
func (s *State) findQueueRead(name []byte) *queue {
	slot, ok := s.queueByName.Find(s.hashText(name), func(v int32) bool { return s.queues[v].meta.name == string(name) })
	if !ok {
		return nil
	}
	return s.queues[slot]
}

// QueueName is the name of a queue, "" when it is gone.
func (s *State) QueueName(n uint32) string {
	if q := s.byNumber(n); q != nil {
		return q.meta.name
	}
	return ""
}

// QueueOptions are the options of a queue, zero when it is gone. Steps belong to the state: do not write to them.
func (s *State) QueueOptions(n uint32) QueueOptions {
	if q := s.byNumber(n); q != nil {
		return q.meta.options
	}
	return QueueOptions{}
}

// Ready is how many messages of a queue can be leased now: of the ready ones those that do not wait for another of their
// key or queue, as far as max_in_flight and the rate allow, and none while it is paused.
func (s *State) Ready(n uint32) int {
	if q := s.byNumber(n); q != nil {
		return int(s.leasable(q))
	}
	return 0
}

// leasable is how many messages of a queue can be leased now.
func (s *State) leasable(q *queue) int64 {
	return s.leasableAt(q, s.now)
}

// leasableAt is how many of the messages that are ready now can be leased when T is at.
func (s *State) leasableAt(q *queue, at int64) int64 {
	n := s.tallies.Get(q.slot).ready - q.blocked
	if q.meta.keyed {
		n = min(n, q.offered+s.offeredBy(q, at))
	}
	return s.allowedAt(q, n, at)
}

// grantable is how many messages of a queue a lease may take now, if so many can be found.
func (s *State) grantable(q *queue) int64 {
	return s.allowedAt(q, s.tallies.Get(q.slot).ready-q.blocked, s.now)
}

// allowedAt is how many of n messages the limits of a queue as a whole let out when T is at.
func (s *State) allowedAt(q *queue, n, at int64) int64 {
	n = s.slots(q, n)
	if q.meta.options.RateMilli != 0 {
		n = min(n, q.meta.rate.room(s.tallies.Get(q.slot).tat, at))
	}
	return n
}

// unhurried is how many messages of a queue could be leased now but for rates: what the leader has to know of, since it waits for
// rates by itself (Outlook).
func (s *State) unhurried(q *queue) int64 {
	return s.slots(q, s.tallies.Get(q.slot).ready-q.blocked)
}

// slots is how many of n messages may be out in addition.
func (s *State) slots(q *queue, n int64) int64 {
	t, o := s.tallies.Get(q.slot), &q.meta.options
	switch {
	case o.Paused:
		return 0
	case o.Delivery == DeliverAtMostOnce: // nothing is ever out
		if !q.meta.keyed { // each frees those that wait behind it
			n = t.ready
		}
	case o.MaxInFlight != 0:
		n = max(0, min(n, o.MaxInFlight-t.leased))
	}
	return n
}

// Ordered says whether a queue of that name exists and is ordered. It does not allocate.
func (s *State) Ordered(name []byte) bool {
	q := s.findQueueRead(name)
	return q != nil && q.meta.options.Ordering != OrderUnordered
}

// Holder is the queue of a live lease whose message holds back others of its key or queue, behind it or because its key is at
// its limit: when the lease ends in an ack the next one can be leased. "" where nothing waits, or the token is not live. It does not allocate.
func (s *State) Holder(t Token) (queue string) {
	if s.orderedQueues == 0 && s.keyedQueues == 0 {
		return ""
	}
	slot, ok := s.find(t.Message)
	if !ok {
		return ""
	}
	m := s.messages.Get(slot)
	q := s.queues[m.queue]
	if m.state != StateLeased || s.sides.Get(m.side).lease != t.Lease || q.blocked == 0 && q.parked == 0 {
		return ""
	}
	if q.parked > 0 {
		if ki, ok := s.findKey(q, s.keyText(m)); ok && s.keys.Get(ki).state == keyFull && s.keys.Get(ki).gen == s.tallies.Get(q.slot).liveGen {
			return q.meta.name
		}
	}
	if m.flags&flagHolds == 0 || s.rowOf(m) == none {
		return ""
	}
	return q.meta.name
}

// Queues calls f for each queue in the order of names, starting behind after, until it returns false.
func (s *State) Queues(after string, f func(n uint32, name string) bool) {
	at := sort.Search(len(s.names), func(i int) bool { return s.queues[s.names[i]].meta.name > after })
	for _, slot := range s.names[at:] {
		if m := s.queues[slot].meta; !f(m.number, m.name) {
			return
		}
	}
}

// Stats are a queue's counters, zero when it is gone.
func (s *State) Stats(n uint32) QueueStats {
	q := s.byNumber(n)
	if q == nil {
		return QueueStats{}
	}
	t := s.tallies.Get(q.slot)
	return QueueStats{
		Name: q.meta.name, Options: q.meta.options,
		Ready: t.ready, Blocked: q.blocked, Parked: q.parked, KeyDebts: int64(q.debts.Len()), Scheduled: t.scheduled, Retrying: t.retrying, Leased: t.leased, Dead: t.dead, Bytes: t.bytes,
		OldestEnqueuedAt: s.oldest(q), WaitingSince: s.waitingSince(q),
		Results: t.results, ResultBytes: t.resultBytes, DedupKeys: t.dedups, Tombstones: t.tombs,
		Enqueued: t.enqueued, Acked: t.acked, Nacked: t.nacked, Expired: t.expired, Died: t.died, Duplicates: t.duplicates,
		Redriven: t.redriven, Refused: t.refused, RefusedBy: t.refusedBy, DeadDropped: t.deadDropped, TombstonesDropped: t.tombsDropped,
		DiedByReason: t.diedBy, LeaseMillisSum: t.leaseMillis, Cancelled: t.cancelled, Rescheduled: t.rescheduled,
		Overflowed: t.diedBy[ReasonOverflow],
		Moved:      t.moved, MovedOut: t.movedOut, MovedIn: t.movedIn, Stayed: t.stayed,
	}
}

// QueueDeaths is how many messages have ever come to a queue's dead letters, by dying in it or by being moved to it; 0 where there is no queue.
func (s *State) QueueDeaths(n uint32) int64 {
	q := s.byNumber(n)
	if q == nil {
		return 0
	}
	t := s.tallies.Get(q.slot)
	return t.died + t.movedIn
}

// firstReady calls look for the messages of a queue that are first in what serves it.
func (s *State) firstReady(q *queue, look func(slot int32)) {
	for p := range q.ready {
		if q.ready[p].head != none {
			look(q.ready[p].head)
		}
	}
	if _, slot, ok := q.released.Min(); ok {
		look(slot)
	}
	if q.flows.head != none {
		look(s.first(q.flows.head)) // the flow that was formed first
	}
}

func (s *State) waitingSince(q *queue) int64 {
	var since int64
	s.firstReady(q, func(slot int32) {
		m := s.messages.Get(slot)
		at := m.enqueued
		if m.hasSide() {
			switch sd := s.sides.Get(m.side); {
			case sd.lease.IsZero():
				at = max(at, sd.due) // its delay's end, if it had one
			case sd.end == endNack || sd.end == endExpiry:
				at = sd.due // its retry's time
			default:
				at = sd.leasedAt
			}
		}
		if at = min(at, s.now); since == 0 || at < since {
			since = at
		}
	})
	return since
}

func (s *State) oldest(q *queue) int64 {
	var at int64
	look := func(slot int32) {
		if m := s.messages.Get(slot); at == 0 || m.enqueued < at {
			at = m.enqueued
		}
	}
	s.firstReady(q, look)
	if _, sl, ok := q.due.Min(); ok {
		look(s.sides.Get(sl).message)
	}
	if _, sl, ok := q.leases.Min(); ok {
		look(s.sides.Get(sl).message)
	}
	return at
}

// Memory is what the state holds, for metrics and tests.
type Memory struct {
	Messages, Dead, Results, Tombstones, DedupKeys, Sessions, RequestOutcomes, Queues, Lanes int64
	Keys, Flows                                                                              int64 // of queues whose keys matter
	KVKeys, KVDeletions, Hooks, Batches                                                      int64
	IdempotencyKeys, IdempotencyBytes                                                        int64 // accounted bytes
	Schedules, ScheduleBytes                                                                 int64 // accounted bytes
	MappingBytes                                                                             int64 // of the texts of schemas and mappings
	// Garbage is purged records that are not given back yet.
	Garbage                                        int64
	ArenaLive, ArenaHeld, TableBytes, SessionBytes int64 // bytes
}

// Memory walks the queues, not the records.
func (s *State) Memory() Memory {
	m := s.MemoryOfTables()
	s.AddQueues(&m, "", len(s.names))
	return m
}

// AddQueues adds to m what is counted by queue, for at most so many queues behind after in the order of names, and says which was
// the last of them and whether there are more. With MemoryOfTables it is Memory, for who holds the state a little at a time.
func (s *State) AddQueues(m *Memory, after string, most int) (last string, more bool) {
	at := sort.Search(len(s.names), func(i int) bool { return s.queues[s.names[i]].meta.name > after })
	for _, slot := range s.names[at:] {
		if most--; most < 0 {
			return last, true
		}
		t, q := s.tallies.Get(slot), s.queues[slot]
		last = q.meta.name
		m.Messages += t.live()
		m.Dead += t.dead
		m.Garbage -= t.live() + t.dead
		m.Results += t.results
		m.Tombstones += t.tombs
		m.DedupKeys += t.dedups
		m.TableBytes += s.deadBytes(q.deadIx) + s.deadBytes(q.movedIx)
		m.TableBytes += q.released.Bytes() + q.due.Bytes() + q.leases.Bytes() + q.dedups.Bytes() + q.results.Bytes() + q.order.bytes() +
			q.victims.Bytes() + q.heads.Bytes() + q.held.Bytes() + q.debts.Bytes()
	}
	return last, false
}

// MemoryOfTables is Memory without what is counted by queue.
func (s *State) MemoryOfTables() Memory {
	m := Memory{
		Sessions: int64(s.sessions.Len()), RequestOutcomes: int64(s.memos.Len()), Queues: int64(len(s.names)), Lanes: int64(s.laneIx.Len()),
		Keys: int64(s.keys.Len()), Flows: int64(s.flows.Len()),
		ArenaLive: s.arena.Live(), ArenaHeld: s.arena.Held(), SessionBytes: s.sessionBytes(),
		Schedules: int64(len(s.scheduleNames)), ScheduleBytes: s.scheduleBytes, MappingBytes: s.mappingBytes,
	}
	m.KVKeys, m.KVDeletions, m.Hooks = s.kv.counts.live, s.kv.counts.tombs, int64(s.hooks.recs.Len())
	m.Batches = int64(s.batches.recs.Len())
	m.IdempotencyKeys, m.IdempotencyBytes = int64(s.idems.keys.Len()), s.idems.accounted()
	m.Garbage = int64(s.messages.Len())
	m.TableBytes += s.victimAt.Bytes() + s.messages.Bytes() + s.sides.Bytes() + s.byID.Bytes() + s.byTask.Bytes() + s.byOrigin.Bytes() +
		s.tallies.Bytes() + s.workers.Bytes() + s.workerIdx.Bytes() + s.consumers.Bytes() + s.consumerIx.Bytes() +
		s.dedups.Bytes() + s.dedupIdx.Bytes() + s.results.Bytes() + s.resultID.Bytes() + s.resultTk.Bytes() + s.resultOr.Bytes() +
		s.tombs.Bytes() + s.tombID.Bytes() + s.tombTk.Bytes() + s.sessions.Bytes() + s.sessionIx.Bytes() + s.idle.Bytes() +
		s.memos.Bytes() + s.idems.bytes() + s.kv.bytes() + s.hooks.bytes() + s.batches.tableBytes() + s.rows.Bytes() + s.laneIx.Bytes() +
		s.keys.Bytes() + s.keyIx.Bytes() + s.flows.Bytes() +
		s.schedules.Bytes() + s.scheduleDue.Bytes() + s.moves.Bytes() + s.moveID.Bytes() + s.moveOld.Bytes() + s.deadGroupIx.Bytes()
	return m
}
