package fsm

// Code says how an operation ended. OK is success; every other code is a refusal: the operation changed nothing, but for
// Cancelled, which ends the lease of an ack, nack or release all the same.
// Numbers are part of the log and snapshot formats (outcomes are remembered by request id) and are only ever added.
type Code uint8

// Codes an operation can end in. The doors add those that never reach the log (not_leader, timeout and the like).
const (
	OK                 Code = 0
	InvalidArgument    Code = 1 // a field is out of its range; Outcome.Field says which
	NotFound           Code = 2 // no such queue, message, task or dead letter
	AlreadyExists      Code = 3 // task id taken, dedup key with other content, other result recorded
	LeaseLost          Code = 4 // the token is not the valid one
	Cancelled          Code = 5 // the task was cancelled
	QueueFull          Code = 6 // a limit of the queue is reached; Outcome.Field says which table
	Overloaded         Code = 7 // a limit of the group is reached (sessions, queues)
	FailedPrecondition Code = 8 // the object's state does not allow it
	SessionExpired     Code = 9 // unknown session, or a request number below low: never executed now
	TooLarge           Code = 10
)

// Field names what a refusal is about. Numbers are part of the formats, as Code's are.
type Field uint8

// Fields a refusal can name.
const (
	FieldNone Field = iota
	FieldQueue
	FieldTaskID
	FieldKind
	FieldBody
	FieldContentType
	FieldHeaders
	FieldPriority
	FieldKey
	FieldDedupKey
	FieldDelay
	FieldTTL
	FieldTimeout
	FieldRetry
	FieldLease
	FieldMax
	FieldWorker
	FieldRequest
	FieldResult
	FieldThen
	FieldOptions
	FieldDead    // the dead-letter table (max_dead)
	FieldDedup   // the dedup table (dedup_max_keys)
	FieldResults // the results table (max_results_bytes)
	FieldSessions
	FieldQueues
	FieldToken
	FieldError
	FieldBatch
	FieldTasks // live messages a queue may hold (format limit)

	// Of operations on tasks by their id.
	FieldMaxWait Field = 60
	// Of the order of messages and of limits.
	FieldOrdering Field = 40
	FieldDepth    Field = 41 // live messages of a queue (max_depth)
	FieldBytes    Field = 42 // their bytes (max_bytes)
	FieldInFlight Field = 43 // max_in_flight
	FieldAge      Field = 44 // max_age_ms
	FieldOverflow Field = 45 // overflow
	FieldDelivery Field = 46 // delivery
	FieldRate     Field = 48 // rate
	FieldBurst    Field = 49 // burst

	// Of keys that matter.
	FieldInFlightPerKey Field = 47 // max_in_flight_per_key
	FieldRatePerKey     Field = 50 // rate_per_key; the keys in its debt
	FieldBurstPerKey    Field = 51 // burst_per_key
	FieldFairBy         Field = 52 // fair_by
	FieldFairWeights    Field = 53 // fair_weights

	// Of push delivery.
	FieldPushURL         Field = 54
	FieldPushConcurrency Field = 55
	FieldPushTimeout     Field = 56
	FieldPushSecrets     Field = 57
	FieldPushPermanent   Field = 58
	FieldPushHeaders     Field = 59

	// Of schemas and mappings.
	FieldSchema  Field = 64
	FieldMap     Field = 65
	FieldMapTo   Field = 66
	FieldMapping Field = 67 // the generation of a mapping; the texts of all queues

	// Of dead letters.
	FieldDeadLetterQueue Field = 70
	FieldOrigin          Field = 71 // the queue that a dead letter came from
	FieldOut             Field = 72 // a dead letter that a worker has
	FieldEdit            Field = 73 // fields of an edit

	// Of the KV.
	FieldKVKeys Field = 80 // keys_if_undelivered of a message
	FieldKV     Field = 81 // a key; the table of keys

	// Of batches.
	FieldCallback Field = 82 // the callback of a batch
	FieldBatches  Field = 83 // the table of batches
	FieldBatchID  Field = 84 // the batch that a message or an operation names
	FieldMembers  Field = 85 // open members of a batch

	// FieldIdempotency is an idempotency key, or the table of them.
	FieldIdempotency Field = 100
)

// Fields of schedules.
const (
	FieldSchedule  Field = 90 + iota // its name, or its state
	FieldSchedules                   // the table of schedules
	FieldCron
	FieldZone
	FieldJitter
	FieldPolicy
)
