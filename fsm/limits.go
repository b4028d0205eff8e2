package fsm

// What follows is part of the log format: every node must use the same numbers for an entry to mean the same everywhere.
// A change needs a new format version, or must travel in an op or in a queue's options.
const (
	// MaxDueMoves is how many due moves (delay over, retry due, lease deadline, ttl) an entry makes before its operations.
	MaxDueMoves = 1024
	// MaxReclaim is how many records that time has ended an entry removes after its operations, and how many dead letters go
	// at most when one dies.
	MaxReclaim = 1024

	// MaxTime caps T, Unix ms, so that adding any duration this package knows cannot overflow.
	MaxTime = 1 << 53

	// MaxQueues is how many queues a group holds; beyond: Overloaded, FieldQueues.
	MaxQueues = 10_000
	// MaxQueueMessages is how many live messages a queue holds; beyond: QueueFull, FieldTasks.
	MaxQueueMessages = 100_000_000
	// MaxGroupMessages is how many live messages and dead letters a group holds (slots are 31 bits); beyond: Overloaded, FieldTasks.
	MaxGroupMessages = 1 << 30

	// MaxSessions and MaxSessionBytes bound the client sessions and the outcomes they remember; beyond: Overloaded, FieldSessions.
	// A session counts sessionCost bytes and an outcome outcomeCost, ended or not, until reclaimed.
	MaxSessions     = 20_000
	MaxSessionBytes = 64 << 20
	// SessionIdleMillis of T without a request end a session.
	SessionIdleMillis = 3_600_000
	// RequestWindow is how far above low a request number may be.
	RequestWindow = 4096

	// MaxIdempotencyKeys and MaxIdempotencyBytes bound the idempotency keys and the answers that are kept under them; beyond: Overloaded,
	// FieldIdempotency. A key counts idemKeyCost bytes, a run of like answers idemAnswerCost, a note its length, ended or not, until reclaimed;
	// what an operation may need at most has to be there before it. IdempotencyMillis after its first answer a key ends.
	MaxIdempotencyKeys  = 1_000_000
	MaxIdempotencyBytes = 256 << 20
	IdempotencyMillis   = 3_600_000
	// MaxIdempotencyNote is the longest note of an operation with an idempotency key: a longer one is no entry.
	MaxIdempotencyNote = 32 << 10

	// TombstoneMillis is how long a task that was done without a result is remembered.
	TombstoneMillis = 600_000
	// MaxTombstones is how many such tasks a queue remembers; the oldest goes, counted.
	MaxTombstones = 100_000

	// MaxKVRecords is how many keys the KV of a group holds, those that living messages have reserved included; beyond:
	// QueueFull, FieldKV. A key ends KVTTLMillis after its last change.
	MaxKVRecords = 1_000_000
	KVTTLMillis  = 30 * 24 * 3_600_000
	// MaxKVDeletions is how many deletions of keys are kept for those who watch, and KVTombMillis how long; the oldest goes,
	// counted.
	MaxKVDeletions = 10_000
	KVTombMillis   = 3_600_000

	// MaxBatches is how many batches a group holds, and MaxCallbacksBytes how many bytes of callbacks that are yet to come;
	// beyond: Overloaded, FieldBatches. One that is not sealed BatchOpenMillis after it was made ends then; one that is done is
	// kept for BatchKeepMillis.
	MaxBatches        = 100_000
	MaxCallbacksBytes = 256 << 20
	BatchOpenMillis   = 7 * 24 * 3_600_000
	BatchKeepMillis   = 3_600_000
	// MaxMembers is how many open members a batch may have; beyond: QueueFull, FieldMembers.
	MaxMembers = 1_000_000
	// MaxCallbackBytes is the longest body of a callback; beyond: TooLarge, FieldCallback.
	MaxCallbackBytes = 64 << 10

	// MaxVictims is how many messages one that is enqueued may push out of a queue with overflow drop_oldest; beyond: QueueFull.
	MaxVictims = 16
	// MaxKeyDebts is how many keys of a queue may be in debt to rate_per_key; beyond, what has a key is refused: QueueFull,
	// FieldRatePerKey. What is in already goes on.
	MaxKeyDebts = 1_000_000
	// MaxUnparks is how many keys a lease operation opens whose rate has let them go; the others follow with the next.
	MaxUnparks = 1024

	// MaxFreeReturns in a row cost no attempt; each further one does.
	MaxFreeReturns = 16

	sessionCost = 128 // accounted bytes of a session, outcomes apart
	outcomeCost = 48  // accounted bytes of a remembered outcome
	resultCost  = 128 // accounted bytes of a result on top of its texts and output

	idemKeyCost    = 88 // accounted bytes of an idempotency key, answers apart
	idemAnswerCost = 80 // accounted bytes of a run of answers
	// idemRun is how many outcomes an operation has at most, and idemRoom what one with an idempotency key may add.
	idemRun  = max(formatMessages, formatIDs)
	idemRoom = idemKeyCost + idemRun*idemAnswerCost + MaxIdempotencyNote
)

// What follows is purely local: it bounds the work of an entry and shows in no answer.
const (
	garbagePerEntry = 1024 // records of purged sets and deleted queues that an entry gives back
	deadGroups      = 1024 // pairs of reason and kind that an index of dead letters keeps apart
	compactPerEntry = 32   // blobs of sparse chunks that an entry looks at
)

// bounds are the maxima a State works with: the constants above, but for tests that fill a table.
type bounds struct {
	dueMoves, reclaim             int
	queues, sessions, tombstones  int64
	sessionBytes                  int64
	queueMessages, groupMessages  int64
	kvKeys, kvTombs               int64
	batches, members              int64
	callbackBytes                 int64
	garbage, compact, freeReturns int
	schedules, scheduleBytes      int64
	deadGroups                    int
	keyDebts                      int64
	idemKeys, idemBytes           int64
	unparks                       int
	mappingBytes                  int64
}

func formatBounds() bounds {
	return bounds{
		dueMoves: MaxDueMoves, reclaim: MaxReclaim,
		queues: MaxQueues, sessions: MaxSessions, tombstones: MaxTombstones,
		sessionBytes:  MaxSessionBytes,
		queueMessages: MaxQueueMessages, groupMessages: MaxGroupMessages,
		kvKeys: MaxKVRecords, kvTombs: MaxKVDeletions,
		batches: MaxBatches, members: MaxMembers, callbackBytes: MaxCallbacksBytes,
		garbage: garbagePerEntry, compact: compactPerEntry, freeReturns: MaxFreeReturns,
		schedules: MaxSchedules, scheduleBytes: MaxScheduleBytes,
		deadGroups: deadGroups,
		keyDebts:   MaxKeyDebts, unparks: MaxUnparks,
		idemKeys: MaxIdempotencyKeys, idemBytes: MaxIdempotencyBytes,
		mappingBytes: MaxMappingBytes,
	}
}
