package wire

// Subprotocol is the WebSocket subprotocol that both sides must agree on.
const Subprotocol = "quorate.v1"

// Version is the protocol version this package speaks.
const Version = 1

// Type says what a frame is. A frame is the CBOR array [type, tag, body]; body is a map with small integer keys. A
// request carries a tag of the sender's choice (> 0, unique among its requests under way), the answer echoes it; frames
// that answer nothing carry tag 0. Numbers are append-only; requests are even, answers and pushes odd.
type Type uint16

// Frame types. C: client to server, S: server to client.
const (
	TypeHello    Type = 2 // C, first frame on a connection
	TypeWelcome  Type = 3 // S
	TypeFault    Type = 5 // S, an error; tag 0: about the connection, which then closes
	TypeOK       Type = 7 // S, success without more to say
	TypeRedirect Type = 9 // S, tag 0: this node no longer leads or is stopping; go to Leader (empty: try any)

	TypeOpenSession   Type = 10 // C → SessionOpened
	TypeSessionOpened Type = 11

	TypeEnqueue  Type = 20 // C → Enqueued
	TypeEnqueued Type = 21

	TypeLease       Type = 30 // C → Leased
	TypeLeased      Type = 31
	TypeSubscribe   Type = 32 // C → OK
	TypeDelivery    Type = 33 // S, tag 0
	TypeCredit      Type = 34 // C → OK
	TypeLeaseGone   Type = 35 // S, tag 0: leases of a subscription that ended without the consumer's doing
	TypeUnsubscribe Type = 36 // C → OK
	TypeStarted     Type = 38 // C, no answer
	TypeResume      Type = 40 // C → Resumed
	TypeResumed     Type = 41

	TypeAck      Type = 50 // C → Acked
	TypeAcked    Type = 51
	TypeNack     Type = 52 // C → Nacked
	TypeNacked   Type = 53
	TypeExtend   Type = 54 // C → Extended
	TypeExtended Type = 55
	TypeRelease  Type = 56 // C → OK

	TypeAckBatch   Type = 58 // C → AckedBatch
	TypeAckedBatch Type = 59

	TypeResultGet  Type = 60 // C → ResultIs; waits up to Wait
	TypeResultIs   Type = 61
	TypeResultPush Type = 62 // C → Acked
	TypeTask       Type = 64 // C → TaskIs
	TypeTaskIs     Type = 65

	TypeQueueCreate Type = 70 // C → OK
	TypeQueueSet    Type = 72 // C → OK
	TypeQueueDelete Type = 74 // C → OK
	TypeQueuePurge  Type = 76 // C → Counted
	TypeCounted     Type = 77
	TypeQueueList   Type = 78 // C → Queues
	TypeQueues      Type = 79
	TypeQueueShow   Type = 80 // C → QueueIs (options and counters: show and stats)
	TypeQueueIs     Type = 81
	TypePeek        Type = 82 // C → Tasks
	TypeTasks       Type = 83

	TypeDeadList    Type = 90 // C → Tasks
	TypeDeadGet     Type = 92 // C → TaskIs
	TypeDeadRequeue Type = 94 // C → Enqueued (one outcome an id)
	TypeDeadDelete  Type = 96 // C → Enqueued (one outcome an id)
	TypeDeadPurge   Type = 98 // C → Counted

	TypeClusterStatus   Type = 110 // C → ClusterIs
	TypeClusterIs       Type = 111
	TypeClusterVerify   Type = 112 // C → Verified
	TypeVerified        Type = 113
	TypeClusterTransfer Type = 114 // C → OK
	TypeClusterRemove   Type = 116 // C → OK

	TypeKVGet     Type = 160 // C → KVIs
	TypeKVIs      Type = 161
	TypeKVList    Type = 162 // C → KVEntries
	TypeKVEntries Type = 163
	TypeKVDelete  Type = 164 // C → OK
	TypeKVWatch   Type = 166 // C → KVChanges; waits up to Wait for the first change
	TypeKVChanges Type = 167

	TypeBatchCreate  Type = 170 // C → BatchCreated
	TypeBatchCreated Type = 171
	TypeBatchSeal    Type = 172 // C → OK
	TypeBatchShow    Type = 174 // C → BatchIs
	TypeBatchIs      Type = 175

	TypeScheduleCreate Type = 190 // C → OK
	TypeScheduleSet    Type = 192 // C → OK; makes it if it is missing
	TypeScheduleDelete Type = 194 // C → OK
	TypeScheduleShow   Type = 196 // C → ScheduleIs
	TypeScheduleIs     Type = 197
	TypeScheduleList   Type = 198 // C → Schedules
	TypeSchedules      Type = 199
)

// Bytes is a byte string whose decoded form aliases the frame it came in: copy it to keep it.
type Bytes []byte

// At stamps an answer with the log position it is true at.
type At struct {
	Index uint64 `cbor:"1,keyasint"` // log position at which it took effect; 0 where nothing was read or written
	Time  int64  `cbor:"2,keyasint"` // log time T there, Unix ms
}

// Hello opens a connection.
type Hello struct {
	Versions []uint16 `cbor:"1,keyasint"`           // that the client speaks, best first, 1–16 of them
	Client   string   `cbor:"2,keyasint,omitempty"` // name and version for logs, ≤ 128 bytes
}

// Welcome answers Hello.
type Welcome struct {
	Version         uint16 `cbor:"1,keyasint"`
	Node            string `cbor:"2,keyasint"`  // the node's label
	Cluster         string `cbor:"3,keyasint"`  // cluster id, a UUID; empty while not known
	Leader          string `cbor:"4,keyasint"`  // client address of the leader; empty while there is none
	IsLeader        bool   `cbor:"5,keyasint"`  // this node is that leader
	MaxMessageBytes int64  `cbor:"6,keyasint"`  // of one body or one result's output
	MaxFrameBytes   int64  `cbor:"7,keyasint"`  // a WebSocket message may not be longer
	MaxBatch        int32  `cbor:"8,keyasint"`  // messages of one batch, 1000
	PingMillis      int64  `cbor:"9,keyasint"`  // the server pings this often
	Server          string `cbor:"10,keyasint"` // version of the binary
}

// Fault is an error answer.
type Fault struct {
	Code             Code    `cbor:"1,keyasint"`            // see the table of codes; treat an unknown one like internal
	Message          string  `cbor:"2,keyasint"`            // what was wrong and what would be right
	Unknown          bool    `cbor:"3,keyasint,omitempty"`  // outcome: false refused (certainly not applied), true unknown
	Retry            bool    `cbor:"4,keyasint,omitempty"`  // may the same request succeed later
	RetryAfterMillis int64   `cbor:"5,keyasint,omitempty"`  // wait at least this long before the retry
	Leader           string  `cbor:"6,keyasint,omitempty"`  // not_leader: the leader's client address
	ID               string  `cbor:"7,keyasint,omitempty"`  // already_exists: the holder's message id
	Result           *Result `cbor:"8,keyasint,omitempty"`  // already_exists: the recorded result
	Field            string  `cbor:"9,keyasint,omitempty"`  // invalid_argument: which field
	At               *At     `cbor:"10,keyasint,omitempty"` // where the log refused it: that is the outcome of the request, or of this message, id or token. Absent: the refusal speaks of this sending alone, as one for want of room in the session does
}

// OK is plain success.
type OK struct {
	At        At   `cbor:"1,keyasint"`
	Duplicate bool `cbor:"2,keyasint,omitempty"` // it was so already
}

// Redirect tells that this node no longer serves this connection's work.
type Redirect struct {
	Leader string `cbor:"1,keyasint"` // client address to go to; empty: try any
	Reason string `cbor:"2,keyasint"` // "not_leader", "stopping", or "replaced": the session was attached by another connection
}

// OpenSession opens a session (Session empty) or attaches the connection to one.
type OpenSession struct {
	Session string `cbor:"1,keyasint,omitempty"` // id of a session opened before; absent: a new one
}

// SessionOpened answers OpenSession.
type SessionOpened struct {
	Session string `cbor:"1,keyasint"` // its id, 26 characters
	At      At     `cbor:"2,keyasint"`
}

// Request is the request id inside the session of the connection; Number 0 means none.
type Request struct {
	Number uint64 `cbor:"1,keyasint"` // of the request, from 1; a batch of n takes n numbers from here on; 0: no request id
	Low    uint64 `cbor:"2,keyasint"` // every number below it has been answered; ≤ Number, and all numbers are < Low + 4096
}

// Header is one name and value, an array of two. At most 64 pairs a message, 16 KiB in all.
type Header struct {
	_     struct{} `cbor:",toarray"`
	Name  string   // 1–128 bytes
	Value string   // ≤ 4096 bytes
}

// RetryPolicy overrides a queue's. Waits are ≤ 366 days.
type RetryPolicy struct {
	Kind            string  `cbor:"1,keyasint"`           // "schedule", "fixed", "linear", "exponential"
	Steps           []int64 `cbor:"2,keyasint,omitempty"` // schedule only: 1–100 waits in ms; attempts are one more
	InitialMillis   int64   `cbor:"3,keyasint,omitempty"` // not schedule; absent: 1000
	MultiplierMilli int64   `cbor:"4,keyasint,omitempty"` // exponential only, thousandths, 1000–100000; absent: 2000
	MaxMillis       int64   `cbor:"5,keyasint,omitempty"` // linear and exponential: the longest wait; absent: 60000
	MaxAttempts     int32   `cbor:"6,keyasint,omitempty"` // not schedule, 1–1000; absent: 5
	JitterMillis    int64   `cbor:"7,keyasint,omitempty"` // up to this much is added to each wait
}

// Message is a message as a producer sends it.
type Message struct {
	Body          Bytes        `cbor:"1,keyasint"`            // ≤ max_message_bytes; may be empty
	TaskID        string       `cbor:"2,keyasint,omitempty"`  // ≤ 128 bytes; absent: the message id
	Kind          string       `cbor:"3,keyasint,omitempty"`  // ≤ 128 bytes
	ContentType   string       `cbor:"4,keyasint,omitempty"`  // ≤ 128 bytes; absent: application/octet-stream
	Headers       []Header     `cbor:"5,keyasint,omitempty"`  // ≤ 64, 16 KiB in all
	Priority      *uint8       `cbor:"6,keyasint,omitempty"`  // 0–9, 9 first; absent: 4
	Key           Bytes        `cbor:"7,keyasint,omitempty"`  // ordering key, ≤ 256 bytes
	DedupKey      Bytes        `cbor:"8,keyasint,omitempty"`  // ≤ 256 bytes
	DelayMillis   int64        `cbor:"9,keyasint,omitempty"`  // ≤ 366 days
	EnqueueAt     int64        `cbor:"10,keyasint,omitempty"` // Unix ms, ≤ 366 days ahead, the past means now; only one of the two
	TTLMillis     int64        `cbor:"11,keyasint,omitempty"` // expires this long after its enqueue once it is not out
	TimeoutMillis int64        `cbor:"12,keyasint,omitempty"` // one attempt may run this long in all
	Retry         *RetryPolicy `cbor:"13,keyasint,omitempty"` // absent: the queue's

	KeysIfUndelivered [][]string `cbor:"20,keyasint,omitempty"` // ≤ 16 KV keys, each of 1–16 strings of ≤ 256 bytes, that get the body if the message dies
	Batch             string     `cbor:"21,keyasint,omitempty"` // id of the batch of which it is a member
}

// Enqueue adds a batch to one queue.
type Enqueue struct {
	Queue    string    `cbor:"1,keyasint"`
	Messages []Message `cbor:"2,keyasint"` // 1–1000; bodies ≤ max(1 MiB, max_message_bytes) together
	Request  Request   `cbor:"3,keyasint"`
}

// Enqueued answers Enqueue, DeadRequeue and DeadDelete: one outcome for each message or id, in order.
type Enqueued struct {
	Outcomes []Outcome `cbor:"1,keyasint"`
	At       At        `cbor:"2,keyasint"`
	Ordered  bool      `cbor:"3,keyasint,omitempty"` // of an enqueue: the queue is ordered; not known where at is 0. A client that sends a refused message again keeps back what it has not yet sent to that queue
}

// Outcome is one message's. Fault nil means success.
type Outcome struct {
	ID        string  `cbor:"1,keyasint,omitempty"` // of the message; after a requeue the new one
	TaskID    string  `cbor:"2,keyasint,omitempty"` // omitted where it equals ID
	Duplicate bool    `cbor:"3,keyasint,omitempty"` // the dedup key was seen before; the id is the first one's
	Result    *Result `cbor:"4,keyasint,omitempty"` // duplicate whose task has a result already
	Fault     *Fault  `cbor:"5,keyasint,omitempty"`
}
