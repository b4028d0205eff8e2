package fsmtest

import (
	"github.com/quorate/quorate/fsm"
)

// Numbers of the contract that are part of the log format, and so the same in every implementation of it.
const (
	maxMoves        = 1024 // due moves an entry makes before its operations
	maxReclaims     = 1024 // ended records an entry gives back after its operations
	maxBatch        = 1000 // messages of an enqueue or a then, ids of a bulk operation
	maxLeaseBytes   = 4 << 20
	maxFreeReturns  = 16
	maxHistory      = 8
	maxErrorBytes   = 4 << 10
	maxAttemptError = 256
	maxBodyBytes    = 16 << 20
	maxTombstones   = 100_000
	maxSessions     = 20_000
	maxQueues       = 10_000
	requestWindow   = 4096
	day             = int64(24 * 3600 * 1000)
	maxDelay        = 366 * day
	minLease        = int64(100)
	maxLease        = int64(12 * 3600 * 1000)
	sessionIdle     = int64(3600 * 1000)
	tombstoneTTL    = int64(10 * 60 * 1000)
)

// Model is the plain state: Go structs and slices, found by walking them. It is for one goroutine at a time.
type Model struct {
	group  uint16
	index  uint64
	t      int64 // log time T, Unix ms
	shift  int64 // ΣShift, ms
	booted bool
	epoch  uint16

	cluster  [16]byte
	places   uint64 // the last place given to a message that became ready
	results  uint64 // results recorded, over all queues
	numbers  uint64 // the last number given to a queue
	seq      uint64 // the last position given to a record, for the order of reclaiming
	queues   []*queue
	sessions []*session

	hooks       []*hook // in the order of their messages
	sweep       sweep
	kv          kv
	batches     []*msgBatch
	idems       []*idemKey
	schedules   []*schedule
	generations uint64 // the last one given to a schedule

	// Of the entry in hand.
	offset   uint32
	fx       *fsm.Effects
	op       int32
	recorded []*queue                // queues in which results were recorded
	complete []*msgBatch             // by the step in hand
	doomed   []*message              // to die when what they make room for is in
	chaining bool                    // an ack's list is being enqueued
	parked   []handed                // what was delivered at most once
	wrong    []fsm.Field             // what the operation in hand was refused for, where it is several fields
	also     map[alternative]bool    // what would have been as right an answer to an operation
	instead  map[[2]fsm.Outcome]bool // refusals that would have been as right as the one given, in this entry or another
	seen     *Coverage               // over all entries; no part of the state
}

// alternative is an answer that an operation, by its place in the entry, may have instead of another.
type alternative struct {
	op      int32
	answer  fsm.Outcome
	instead fsm.Outcome
}

// queue is one queue with all that belongs to it.
type queue struct {
	name     string
	number   uint64 // never given twice
	options  fsm.QueueOptions
	mapping  uint64     // generation of its mapping: the entry that set it; 0: it has none
	tat      int64      // ns of log time at which the next delivery is due in theory
	messages []*message // live ones, in order of enqueue
	dead     []*message // dead letters, in order of death
	records  []*record  // results and tombstones, in order of recording
	dedup    []*dedupKey
	stats    Counters

	keys  map[string]*keyState // where keys matter; "" is what has none
	rings [10][]turn           // with fair_by = key, one a priority
}

// Counters are a queue's totals, which only grow.
type Counters struct {
	Enqueued, Acked, Nacked, Expired, Died, Duplicates, Redriven, DeadDropped, TombstonesDropped int64
	Cancelled, Rescheduled                                                                       int64
	DiedByReason                                                                                 [6]int64
	LeaseMillisSum, MovedOut, MovedIn, Stayed, Overflowed                                        int64
}

// leaseEnd says how the last lease of a message ended.
type leaseEnd uint8

const (
	neverLeased leaseEnd = iota
	leaseLive
	leaseExpired
	leaseNacked
	leaseReleased
	leaseVoid // the body was replaced since: whoever had it, the work is not done
)

// message is a live message or a dead letter.
type message struct {
	id, original fsm.ID
	task         string // the task id: given, or the text of the first id
	kind         string
	contentType  string
	givenType    string // content type as it was given, if it was
	headers      []fsm.Header
	body         []byte
	key          string
	priority     uint8
	retry        fsm.RetryPolicy // RetryDefault: the queue's
	ttl          int64
	timeout      int64

	enqueuedAt, originalEnqueuedAt int64
	expiresAt                      int64 // 0: never
	state                          fsm.MessageState
	due                            int64 // scheduled, retrying
	place                          uint64

	attempts int32 // deliveries that cost one, with the one that is out
	free     int   // free returns in a row
	redrives int32

	// The last lease.
	lease       fsm.ID
	end         leaseEnd
	worker      string
	consumer    fsm.Consumer
	leasedAt    int64       // T
	leasedLease int64       // lease time, T − ΣShift
	deadline    int64       // lease time
	answer      fsm.Outcome // to the nack or release that ended it

	lastError []byte
	history   []fsm.Attempt

	cancelled bool // and out: it is there for its lease alone

	reason   fsm.DeadReason
	failedAt int64
	stay     fsm.StayReason // why it was not moved to the queue's dead-letter queue
	doomed   bool           // it dies to make room, in this operation
	link     bool           // it came with the ack in hand
	moved    *move          // of one that was moved here when it died elsewhere
	over     bool           // its retention had passed when the queue's options changed
}

// record is what is remembered of a done task: its result, or a tombstone when it has none.
type record struct {
	seq       uint64
	nth       uint64 // of results only: place in the order of recording
	message   fsm.ID // zero: pushed for a task that was never seen
	original  fsm.ID // of the message, before redrives
	lease     fsm.ID // the last of the message
	task      string
	end       int64
	hasResult bool
	pushed    bool // by push_result, not by an ack
	cancelled bool
	duplicate bool // acked when the task had a pushed result of another message id
	taken     bool // done when it was leased
	closed    bool // an acked message that had been moved here: its token is all that is known of it

	kind, contentType, worker string
	output                    []byte
	attempts                  int32
	duration, at              int64
}

// dedupKey is a remembered deduplication key.
type dedupKey struct {
	seq          uint64
	key, content [16]byte
	first        fsm.ID
	end          int64
}

// NewModel makes the empty state of a group.
func NewModel(group uint16) *Model {
	return &Model{group: group, seen: NewCoverage(), also: map[alternative]bool{}, instead: map[[2]fsm.Outcome]bool{}}
}

// Index is the index of the last entry applied.
func (m *Model) Index() uint64 { return m.index }

// Time is log time T, Unix ms.
func (m *Model) Time() int64 { return m.t }

// Shift is ΣShift, ms.
func (m *Model) Shift() int64 { return m.shift }

// Epoch is what Bootstrap said; 0 before it.
func (m *Model) Epoch() uint16 { return m.epoch }

// leaseNow is lease time, T − ΣShift.
func (m *Model) leaseNow() int64 { return m.t - m.shift }

// Apply applies one entry and answers as fsm.State.Apply does through its Effects: Outcomes, OpEnd, Leases (Slot is
// unused), Ended, More. The answer is the caller's to keep.
func (m *Model) Apply(index uint64, e fsm.Entry) *fsm.Effects {
	m.index = index
	m.offset, m.recorded, m.parked = 0, nil, nil
	clear(m.also)
	m.fx = &fsm.Effects{Index: index}

	t := min(max(m.t, e.Now), maxTime)
	m.shift += min(max(e.Shift, 0), t-m.t)
	m.t = t

	for i := 0; i < maxMoves && m.move(); i++ {
		m.settleAll()
		m.callbacks()
	}
	for i, op := range e.Ops {
		m.op = int32(i)
		m.fx.Outcomes = append(m.fx.Outcomes, m.do(op)...)
		m.settleAll()
		m.callbacks()
		m.fx.OpEnd = append(m.fx.OpEnd, int32(len(m.fx.Outcomes)))
	}
	m.sweepHooks()
	m.reclaim()

	_, kind := m.nextMove()
	m.fx.More = kind != moveNone || m.sweep.at != nil
	m.seen.answered(e, m.fx)
	m.fx.Time = m.t
	return m.fx
}

// do applies one operation.
func (m *Model) do(op fsm.Op) []fsm.Outcome {
	switch op := op.(type) {
	case *fsm.Bootstrap:
		return one(m.bootstrap(op))
	case *fsm.OpenSession:
		return one(m.openSession())
	case *fsm.TouchSession:
		return one(m.touchSession(op.Session))
	case *fsm.CreateQueue:
		return m.requested(op.Request, 1, nil, func(int) fsm.Outcome { return m.createQueue(op) })
	case *fsm.SetQueue:
		return m.requested(op.Request, 1, nil, func(int) fsm.Outcome { return m.setQueue(op) })
	case *fsm.ChangeQueue:
		return m.requested(op.Request, 1, nil, func(int) fsm.Outcome { return m.changeQueue(op) })
	case *fsm.DeleteQueue:
		return m.requested(op.Request, 1, nil, func(int) fsm.Outcome { return m.deleteQueue(op) })
	case *fsm.PurgeQueue:
		return m.requested(op.Request, 1, nil, func(int) fsm.Outcome { return m.purgeQueue(op) })
	case *fsm.Enqueue:
		return m.requested(op.Request, len(op.Messages), nil, func(i int) fsm.Outcome {
			if len(op.Messages) > maxBatch {
				return refuse(fsm.InvalidArgument, fsm.FieldBatch)
			}
			return m.enqueue(string(op.Queue), op.AutoCreate, &op.Messages[i])
		})
	case *fsm.Lease:
		return m.requested(op.Request, 1, op, func(int) fsm.Outcome { return m.leaseOut(op) })
	case *fsm.Ack:
		return one(m.ack(op))
	case *fsm.Nack:
		return one(m.nack(op))
	case *fsm.Extend:
		return one(m.extend(op))
	case *fsm.Release:
		return one(m.release(op))
	case *fsm.PushResult:
		return m.requested(op.Request, 1, nil, func(int) fsm.Outcome { return m.pushResult(op) })
	case *fsm.DeadRequeue:
		return m.requested(op.Request, len(op.IDs), nil, func(i int) fsm.Outcome { return m.deadRequeue(string(op.Queue), op.IDs[i]) })
	case *fsm.DeadEdit:
		return m.requested(op.Request, 1, nil, func(int) fsm.Outcome { return m.deadEdit(op) })
	case *fsm.DeadDelete:
		return m.requested(op.Request, len(op.IDs), nil, func(i int) fsm.Outcome { return m.deadDelete(string(op.Queue), op.IDs[i]) })
	case *fsm.DeadPurge:
		return m.requested(op.Request, 1, nil, func(int) fsm.Outcome { return m.deadPurge(string(op.Queue)) })
	case *fsm.Checkpoint:
		m.fx.Checkpoints = append(m.fx.Checkpoints, op.Nonce)
		return one(fsm.Outcome{})
	case *fsm.Nothing:
		return one(fsm.Outcome{})
	}
	return m.doMore(op)
}

// doMore applies one operation of those that the first ones do not need.
func (m *Model) doMore(op fsm.Op) []fsm.Outcome {
	switch op := op.(type) {
	case *fsm.Cancel:
		return m.requested(op.Request, 1, nil, func(int) fsm.Outcome { return m.cancel(op) })
	case *fsm.Reschedule:
		return m.requested(op.Request, 1, nil, func(int) fsm.Outcome { return m.reschedule(op) })
	case *fsm.KVDelete:
		return m.requested(op.Request, 1, nil, func(int) fsm.Outcome { return m.kvDelete(op) })
	case *fsm.BatchCreate:
		return m.requested(op.Request, 1, nil, func(int) fsm.Outcome { return m.batchCreate(op) })
	case *fsm.BatchSeal:
		return m.requested(op.Request, 1, nil, func(int) fsm.Outcome { return m.batchSeal(op) })
	case *fsm.CreateSchedule:
		return m.requested(op.Request, 1, nil, func(int) fsm.Outcome { return m.createSchedule(op) })
	case *fsm.SetSchedule:
		return m.requested(op.Request, 1, nil, func(int) fsm.Outcome { return m.setSchedule(op) })
	case *fsm.DeleteSchedule:
		return m.requested(op.Request, 1, nil, func(int) fsm.Outcome { return m.deleteSchedule(op) })
	case *fsm.FireSchedule:
		return one(m.fireSchedule(op))
	case *fsm.Idempotent:
		return m.idempotent(op)
	}
	panic("fsmtest: unknown operation")
}

// copies are the same things anew.
func copies[T any](list []*T) []*T {
	all := make([]*T, len(list))
	for i, x := range list {
		c := *x
		all[i] = &c
	}
	return all
}

func one(o fsm.Outcome) []fsm.Outcome { return []fsm.Outcome{o} }

// newID names the next thing made in this entry.
func (m *Model) newID() fsm.ID {
	id := fsm.MakeID(m.epoch, m.group, m.index, m.offset)
	m.offset++
	return id
}

func (m *Model) newPlace() uint64 { m.places++; return m.places }

func (m *Model) newSeq() uint64 { m.seq++; return m.seq }

func (m *Model) bootstrap(op *fsm.Bootstrap) fsm.Outcome {
	if m.booted {
		return fsm.Outcome{Code: fsm.FailedPrecondition}
	}
	if op.Cluster == [16]byte{} {
		return fsm.Outcome{Code: fsm.InvalidArgument}
	}
	m.booted, m.cluster, m.epoch = true, op.Cluster, op.Epoch
	return fsm.Outcome{}
}

// clone copies the state, so that an operation that must be all or nothing can be tried.
func (m *Model) clone() *Model {
	c := *m
	c.doomed, c.complete = nil, nil
	c.queues, c.sessions = copies(m.queues), copies(m.sessions)
	c.hooks, c.batches, c.schedules, c.kv.records = copies(m.hooks), copies(m.batches), copies(m.schedules), copies(m.kv.records)
	for _, q := range c.queues {
		q.messages, q.dead, q.records, q.dedup = copies(q.messages), copies(q.dead), copies(q.records), copies(q.dedup)
		q.copyKeys()
	}
	for _, s := range c.sessions {
		s.copyOutcomes()
	}
	fx := *m.fx
	c.fx = &fx
	return &c
}
