package fsm

// Outcome is how one operation, or one message of a batch, ended.
type Outcome struct {
	Code                  Code
	Field                 Field // what a refusal is about
	Duplicate             bool  // dedup hit, result already recorded, the same queue again. The repeat of a request gets its first outcome unchanged
	Dead                  bool  // nack: the message died (else it is retrying)
	Replayed              bool  // nothing was carried out: it is the outcome of an earlier operation with the same idempotency key
	ID                    ID    // enqueue, requeue, session: the new id; duplicates and already_exists: the holder's
	Millis                int64 // extend: milliseconds left; nack: the due time of the retry, Unix ms; ack: how long the message was out, 0 of a duplicate and under a key again, -1 of what that token had ended before
	Count                 int64 // purges: how many; cancel: 1 where it was out; reschedule: when it is due, Unix ms, 0 now
	Limit                 int64 // refusals: the limit that was passed
	HasResult             bool  // the task's recorded result is in State.Result(ID's task): ack/push/enqueue duplicates
	Task                  ID    // with HasResult: message id under which the result is found
	LeaseFrom, LeaseCount int32 // lease: range in Effects.Leases
}

// Leased is one message handed out. Slot is only good until the next Apply; read it with State.Deliver.
type Leased struct {
	Token    Token
	Consumer Consumer
	Op       int32 // index of the operation in the entry
	Slot     int32
	Attempt  int32
	Once     bool // delivered at most once: nothing is out, the message is done
}

// LeaseEnd tells the leader that a lease is over, so that the consumer's window opens.
type LeaseEnd struct {
	Token    Token
	Consumer Consumer
	Expired  bool
}

// TaskEnd tells the leader that a task has reached its end (result recorded, done without one, dead, cancelled, deleted), so that
// it wakes who waits for it. Queue is a number, see State.QueueName.
type TaskEnd struct {
	Message  ID
	Queue    uint32
	TaskHash [16]byte // hash of (queue, task id), see HashTask; zero when the task id is the message id
}

// Effects is what Apply tells the leader besides changing the state. Slices are reused: they are good until the next
// Apply with the same Effects.
type Effects struct {
	Index       uint64
	Time        int64 // T after the entry
	Outcomes    []Outcome
	OpEnd       []int32 // OpEnd[i] is the end of operation i's outcomes in Outcomes
	Leases      []Leased
	Ended       []LeaseEnd
	Tasks       []TaskEnd
	Ready       []uint32   // numbers of queues that gained ready messages, each once
	More        bool       // due moves remain: propose the next tick at once
	Purged      []uint32   // numbers of queues that a purge or deletion went over: whoever waits for a task of theirs must look again; Tasks does not list what went
	Cancelled   []LeaseEnd // leases whose tasks were cancelled while they are out: they have not ended, their workers are to be told
	Results     []uint32   // numbers of queues in which results were recorded, each once
	KV          bool       // keys of the KV have changed
	Checkpoints []uint64   // nonces of Checkpoint operations in this entry
}
