package fsm

import (
	"hash/maphash"

	"github.com/quorate/quorate/fsm/arena"
	"github.com/quorate/quorate/fsm/table"
)

// none is the absent slot of every link.
const none = int32(-1)

// Owners of arena blobs: the table in the high byte, the slot in the low half.
const (
	ownMessage uint64 = iota + 1 // message.body
	ownHistory                   // side.history
	ownResult                    // result.blob
	ownWorker                    // worker.text
	ownKey                       // keyRec.text

	ownMove    uint64 = 30 // move.history
	ownKVKey   uint64 = 60 // kvKey.key
	ownKVValue uint64 = 61 // kvValue.blob
	ownHook    uint64 = 62 // hook.keys
	ownBatch   uint64 = 63 // batch.callback

	ownIdemNote uint64 = 64 // idemAnswer.note
)

func owner(kind uint64, slot int32) uint64 { return kind<<32 | uint64(uint32(slot)) }

// State is the replicated state of one group. It is not safe for concurrent use: one goroutine applies, readers hold the
// caller's lock; only Views may be used from anywhere.
type State struct {
	group   uint16
	epoch   uint16
	cluster [16]byte
	index   uint64 // of the last entry applied
	now     int64  // T
	shift   int64  // ΣShift

	places       uint64 // last place given; places are taken group-wide
	resultSeq    uint64 // last position in the order of recording
	queueNumbers uint32 // last queue number given

	lim   bounds
	seed  maphash.Seed // of the indexes by text
	arena *arena.Arena

	messages table.Pages[message] // live messages, dead letters, and purged ones until reclaimed
	sides    table.Pages[side]
	byID     table.Index // message id → message
	byTask   table.Index // (queue, explicit task id) → message
	byOrigin table.Index // original id of a redriven message whose task id that is → message

	queues        []*queue           // by slot; nil where free
	tallies       table.Pages[tally] // same slots
	queueByName   table.Index        // → slot
	queueByNum    table.Index        // → slot
	names         []int32            // slots of existing queues, by name
	clocks        [clocks]table.Heap // queues by what is due or ends first in them
	lastQueue     *queue             // the last one found by name
	groupCount    int64              // live messages and dead letters
	orderedQueues int                // queues that are fifo or per_key
	groupKinds    int                // kinds that are counted apart, of all queues
	mappingBytes  int64              // of schemas and mappings, of all queues
	mappers       int64              // queues with map_to
	schemaChanges uint64             // local: see SchemaChanges

	victimAt table.Ints // position of a message in its queue's victims + 1
	planned  []int32    // messages that the operation at hand is to drop
	parked   []int32    // messages handed over in the last entry, see fsm/handover.go

	moves       table.Pages[move]
	moveID      table.Index  // id of a moved message → move
	moveOld     table.Index  // its id where it died → move
	deadGroups  []*deadGroup // local, as all that lists dead letters
	freeGroups  []int32      // slots in it
	deadGroupIx table.Index  // (queue, reason, kind) → slot in it
	deadNamers  int64        // queues that name a dead-letter queue

	workers    table.Pages[worker]
	workerIdx  table.Index
	consumers  table.Pages[consumer]
	consumerIx table.Index

	rows   table.Pages[row]
	laneIx table.Index // (queue, key) → the last message of the lane

	keys        table.Pages[keyRec]
	keyIx       table.Index // (queue, key) → key
	flows       table.Pages[flow]
	keyedQueues int  // queues whose keys matter
	restoring   bool // flows are opened when all messages are there

	dedups    table.Pages[dedupKey]
	dedupIdx  table.Index
	results   table.Pages[result]
	resultID  table.Index // by message id
	resultTk  table.Index // by hash of (queue, explicit task id)
	resultOr  table.Index // by original id of a redriven task
	tombs     table.Pages[tombstone]
	tombID    table.Index
	tombTk    table.Index
	sessions  table.Pages[session]
	sessionIx table.Index
	idle      table.Heap // sessions by a lower bound of their end
	memos     table.Pages[memo]

	kv      kv
	hooks   hooks
	batches batches
	idems   idems

	garbage []garbageJob // oldest first
	behind  bool         // local: the last entry reclaimed as much as one may

	scheduleGens  uint64                     // last generation given
	scheduleBytes int64                      // accounted
	schedules     table.Pages[scheduleState] //
	scheduleDefs  []*scheduleDef             // same slots; nil where free
	scheduleNames []int32                    // slots by name
	scheduleDue   table.Heap                 // those that the leader has to see to, by when

	// of the entry being applied
	fx      *Effects
	telling bool   // fx is the caller's, not the scratch one
	offset  uint32 // next offset in the entry
	opIndex int32
	pending int64 // messages that the ack being checked will add
	// pendingKeys are KV keys that it will reserve.
	pendingKeys int64

	// scratch
	scratchFx  Effects
	ahead      ahead
	outcome    Outcome
	dec        Decoder
	op         opScratch
	meta       []byte
	hist       []byte
	policyBuf  RetryPolicy
	callback   Message
	cmpLess    [clocks]func(a, b int32) bool
	moved      movedFuncs
	ranks      struct{ due, lease func(sl int32) uint32 }
	deadBefore func(a, b int32) bool // deadLess
	victimLess func(a, b int32) bool

	template    Message // of the schedule that is fired
	templateDec Decoder
}

type movedFuncs struct{ side, released, victim, head, held, debt func(slot, pos int32) }

// opScratch holds one of each operation, so that decoding allocates nothing.
type opScratch struct {
	bootstrap   Bootstrap
	touch       TouchSession
	create      CreateQueue
	set         SetQueue
	change      ChangeQueue
	delete      DeleteQueue
	purge       PurgeQueue
	enqueue     Enqueue
	lease       Lease
	ack         Ack
	nack        Nack
	extend      Extend
	release     Release
	push        PushResult
	deadRequeue DeadRequeue
	deadDelete  DeadDelete
	deadPurge   DeadPurge
	deadEdit    DeadEdit
	checkpoint  Checkpoint
	nothing     Nothing
	kvDelete    KVDelete
	batchCreate BatchCreate
	batchSeal   BatchSeal
	open        OpenSession
	cancel      Cancel
	reschedule  Reschedule
	schedule    scheduleOps
}

// New makes the empty state of a group.
func New(group uint16) *State {
	s := &State{group: group, lim: formatBounds(), seed: maphash.MakeSeed(), arena: arena.New()}
	s.deadBefore = s.deadLess
	s.ranks.due, s.ranks.lease = s.dueRank, s.leaseRank
	s.moved.side = func(sl, pos int32) { s.sides.Mut(sl).heapPos = pos }
	s.moved.released = func(slot, pos int32) { s.messages.Mut(slot).next = pos }
	s.moved.victim = func(slot, pos int32) { s.victimAt.Set(slot, pos+1) }
	s.victimLess = func(a, b int32) bool { return s.messages.Get(a).id.Compare(s.messages.Get(b).id) < 0 }
	s.moved.head = func(fi, pos int32) { s.flows.Mut(fi).pos = pos }
	s.moved.held = func(ki, pos int32) { s.keys.Mut(ki).heldPos = pos }
	s.moved.debt = func(ki, pos int32) { s.keys.Mut(ki).debtPos = pos }
	s.cmpLess[clockDebt] = s.keyLess
	for k := range s.clocks {
		s.clocks[k].Less = func(a, b int32) bool { return s.clockLess(k, a, b) }
		s.clocks[k].Moved = func(slot, pos int32) { s.queues[slot].clockPos[k] = pos }
	}
	s.cmpLess[clockDue] = s.dueLess
	s.cmpLess[clockLease] = s.leaseLess
	s.cmpLess[clockDedup] = func(a, b int32) bool { return s.dedups.Get(a).id.Compare(s.dedups.Get(b).id) < 0 }
	s.cmpLess[clockResult] = func(a, b int32) bool { return s.results.Get(a).seq < s.results.Get(b).seq }
	s.scheduleDue.Less = func(a, b int32) bool { return s.scheduleDefs[a].generation < s.scheduleDefs[b].generation }
	s.scheduleDue.Moved = func(slot, pos int32) { s.schedules.Mut(slot).heapPos = pos }
	s.idle.Less = func(a, b int32) bool { return s.sessions.Get(a).id.Compare(s.sessions.Get(b).id) < 0 }
	s.initKV()
	s.initBatches()
	s.idems.all = emptyList
	s.hooks.all, s.hooks.sweep.at = emptyList, none
	return s
}

// Index is that of the last entry applied, 0 before the first.
func (s *State) Index() uint64 { return s.index }

// Time is T, log time in Unix ms.
func (s *State) Time() int64 { return s.now }

// Shift is ΣShift in ms: lease time is Time − Shift.
func (s *State) Shift() int64 { return s.shift }

// Epoch is the life of the cluster, 0 before Bootstrap.
func (s *State) Epoch() uint16 { return s.epoch }

// Cluster is the cluster's id, zero before Bootstrap.
func (s *State) Cluster() [16]byte { return s.cluster }

// Group is the number of the group whose state this is.
func (s *State) Group() uint16 { return s.group }

// Close gives the off-heap memory back. The State is unusable afterwards; open Views stay good until released.
func (s *State) Close() { s.arena.Close() }

// nextID makes the next id of the entry being applied: for a message, a lease or a session.
func (s *State) nextID() ID {
	id := MakeID(s.epoch, s.group, s.index, s.offset)
	s.offset++
	return id
}

// leaseTime is the clock of leases: T without the jumps.
func (s *State) leaseTime() int64 { return s.now - s.shift }
