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
	At               *At     `cbor:"10,keyasint,omitempty"` // where the log refused it, if it came that far
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
	Ordered  bool      `cbor:"3,keyasint,omitempty"` // of an enqueue: the queue is ordered. A client that sends a refused message again keeps back what it has not yet sent to that queue
}

// Outcome is one message's. Fault nil means success.
type Outcome struct {
	ID        string  `cbor:"1,keyasint,omitempty"` // of the message; after a requeue the new one
	TaskID    string  `cbor:"2,keyasint,omitempty"` // omitted where it equals ID
	Duplicate bool    `cbor:"3,keyasint,omitempty"` // the dedup key was seen before; the id is the first one's
	Result    *Result `cbor:"4,keyasint,omitempty"` // duplicate whose task has a result already
	Fault     *Fault  `cbor:"5,keyasint,omitempty"`
}

// Lease pulls messages.
type Lease struct {
	Queue       string  `cbor:"1,keyasint"`
	Max         int32   `cbor:"2,keyasint"`           // 1–1000
	WaitMillis  int64   `cbor:"3,keyasint,omitempty"` // for the first message, ≤ 10 minutes
	LeaseMillis int64   `cbor:"4,keyasint,omitempty"` // 100 ms–12 h; absent: the queue's
	Worker      string  `cbor:"5,keyasint,omitempty"` // ≤ 128 bytes, host:pid:index by custom
	Request     Request `cbor:"6,keyasint"`
}

// Leased answers Lease; no messages: none came within the wait.
type Leased struct {
	Messages []Delivered `cbor:"1,keyasint"`
	At       At          `cbor:"2,keyasint"`
}

// Delivered is a message handed out.
type Delivered struct {
	ID              string   `cbor:"1,keyasint"`
	Token           string   `cbor:"2,keyasint"` // of the lease, 52 characters; later ones of a message are greater
	Attempt         int32    `cbor:"3,keyasint"` // from 1
	LeaseLeftMillis int64    `cbor:"4,keyasint"` // when the server wrote it; count from its arrival on a monotonic clock
	Body            Bytes    `cbor:"5,keyasint"`
	TaskID          string   `cbor:"6,keyasint,omitempty"` // omitted where it equals ID
	Kind            string   `cbor:"7,keyasint,omitempty"`
	ContentType     string   `cbor:"8,keyasint,omitempty"`
	Headers         []Header `cbor:"9,keyasint,omitempty"`
	Priority        uint8    `cbor:"10,keyasint"`
	Key             Bytes    `cbor:"11,keyasint,omitempty"`
	EnqueuedAt      int64    `cbor:"12,keyasint"`           // Unix ms, log time
	TimeoutMillis   int64    `cbor:"13,keyasint,omitempty"` // of this attempt in all
	Redrives        int32    `cbor:"14,keyasint,omitempty"` // how often it came back from the dead
	Queue           string   `cbor:"15,keyasint,omitempty"` // in peeks of results; omitted in deliveries
}

// Subscribe asks for deliveries.
type Subscribe struct {
	Sub         uint32 `cbor:"1,keyasint"` // the client's number for it within the session, ≥ 1
	Queue       string `cbor:"2,keyasint"`
	Credit      int32  `cbor:"3,keyasint"`           // window, 0–10000; 0 pauses
	LeaseMillis int64  `cbor:"4,keyasint,omitempty"` // 100 ms–12 h; absent: the queue's
	Worker      string `cbor:"5,keyasint,omitempty"` // ≤ 128 bytes
}

// Delivery carries leased messages of a subscription.
type Delivery struct {
	Sub      uint32      `cbor:"1,keyasint"`
	Messages []Delivered `cbor:"2,keyasint"`
}

// Credit sets a subscription's window.
type Credit struct {
	Sub    uint32 `cbor:"1,keyasint"`
	Credit int32  `cbor:"2,keyasint"` // the new window, 0–10000; 0 pauses
}

// LeaseGone lists tokens that are no longer valid.
type LeaseGone struct {
	Sub    uint32   `cbor:"1,keyasint"`
	Tokens []string `cbor:"2,keyasint"` // ≤ 10000
}

// Unsubscribe ends a subscription: no new deliveries; what is out stays out until answered, resumed or expired.
type Unsubscribe struct {
	Sub uint32 `cbor:"1,keyasint"`
}

// Started tells which deliveries a handler has taken. It is sent before the handler is called.
type Started struct {
	Sub    uint32   `cbor:"1,keyasint"`
	Tokens []string `cbor:"2,keyasint"` // ≤ 10000
}

// Resume re-establishes a consumer after a reconnect: Subscribe plus the tokens still in the client's hands.
type Resume struct {
	Subscribe Subscribe `cbor:"1,keyasint"`
	Started   []string  `cbor:"2,keyasint"` // a handler has them
	Held      []string  `cbor:"3,keyasint"` // received, not yet taken; ≤ 10000 in both lists together
}

// Resumed answers Resume: Lost are those of the given tokens that are no longer live.
type Resumed struct {
	Lost []string `cbor:"1,keyasint"`
	At   At       `cbor:"2,keyasint"`
}

// Result is what a worker returns, or what was recorded.
type Result struct {
	Output         Bytes  `cbor:"1,keyasint"`           // ≤ max_message_bytes; may be empty
	ContentType    string `cbor:"2,keyasint,omitempty"` // ≤ 128 bytes
	TaskID         string `cbor:"3,keyasint,omitempty"` // from here on: recorded results only
	Queue          string `cbor:"4,keyasint,omitempty"`
	Kind           string `cbor:"5,keyasint,omitempty"`
	Status         string `cbor:"6,keyasint,omitempty"` // succeeded
	Attempts       int32  `cbor:"7,keyasint,omitempty"`
	DurationMillis int64  `cbor:"8,keyasint,omitempty"`
	Worker         string `cbor:"9,keyasint,omitempty"`
	RecordedAt     int64  `cbor:"10,keyasint,omitempty"` // Unix ms, log time
	MessageID      string `cbor:"11,keyasint,omitempty"`
}

// Ack ends a lease with success.
type Ack struct {
	Token  string  `cbor:"1,keyasint"`
	Result *Result `cbor:"2,keyasint,omitempty"` // Output and ContentType only
	Then   []Then  `cbor:"3,keyasint,omitempty"` // ≤ 1000, within a batch's bytes; all of them or the ack is refused
}

// Then is a message enqueued in the same log entry as the ack.
type Then struct {
	Queue   string  `cbor:"1,keyasint"`
	Message Message `cbor:"2,keyasint"`
}

// Acked answers Ack and ResultPush.
type Acked struct {
	Duplicate bool    `cbor:"1,keyasint,omitempty"`
	Result    *Result `cbor:"2,keyasint,omitempty"` // with Duplicate: the one recorded first, if any
	At        At      `cbor:"3,keyasint"`
}

// Nack ends a lease with failure.
type Nack struct {
	Token       string `cbor:"1,keyasint"`
	Error       string `cbor:"2,keyasint,omitempty"` // the first 4096 bytes are kept
	DelayMillis *int64 `cbor:"3,keyasint,omitempty"` // 0 to 366 days; absent: by the retry policy
	Permanent   bool   `cbor:"4,keyasint,omitempty"` // dead at once, whatever attempts are left
}

// Nacked answers Nack.
type Nacked struct {
	Dead  bool  `cbor:"1,keyasint,omitempty"` // else it is retrying, due at DueAt
	DueAt int64 `cbor:"2,keyasint,omitempty"` // Unix ms, log time
	At    At    `cbor:"3,keyasint"`
}

// Extend sets the lease's deadline to LeaseMillis from now.
type Extend struct {
	Token       string `cbor:"1,keyasint"`
	LeaseMillis int64  `cbor:"2,keyasint,omitempty"` // 100 ms–12 h; absent: the queue's
}

// Extended answers Extend.
type Extended struct {
	LeaseLeftMillis int64 `cbor:"1,keyasint"`           // may be less than asked for: never beyond the attempt's timeout
	Cancelled       bool  `cbor:"2,keyasint,omitempty"` // reserved: the task was cancelled, stop; such an extend is refused, cancelled
	At              At    `cbor:"3,keyasint"`
}

// Release gives a message back.
type Release struct {
	Token string `cbor:"1,keyasint"`
}

// TaskRef names a task: by queue and task id, or by a broker id alone.
type TaskRef struct {
	Queue  string `cbor:"1,keyasint,omitempty"` // absent only where the task id is a broker's
	TaskID string `cbor:"2,keyasint"`           // 1–128 bytes
}

// ResultGet asks for a task's result.
type ResultGet struct {
	Task       TaskRef `cbor:"1,keyasint"`
	WaitMillis int64   `cbor:"2,keyasint,omitempty"` // ≤ 10 minutes
	Stale      bool    `cbor:"3,keyasint,omitempty"` // this node's own view will do, as of At
}

// ResultIs answers ResultGet. Status "succeeded" comes with Result where one was given or recorded (HasOutput says that
// the worker gave an output), "dead" with Dead, the dead letter. A wait that ran out is a timeout fault.
type ResultIs struct {
	Status    string  `cbor:"1,keyasint"` // "succeeded" or "dead"
	Result    *Result `cbor:"2,keyasint,omitempty"`
	HasOutput bool    `cbor:"3,keyasint,omitempty"` // Result.Output is what the worker gave, be it empty
	Dead      *Task   `cbor:"4,keyasint,omitempty"`
	At        At      `cbor:"5,keyasint"`
}

// ResultPush records a result without a lease.
type ResultPush struct {
	Task    TaskRef `cbor:"1,keyasint"`
	Kind    string  `cbor:"2,keyasint,omitempty"`
	Result  Result  `cbor:"3,keyasint"`
	Request Request `cbor:"4,keyasint"`
}

// TaskGet asks where a task stands.
type TaskGet struct {
	Task  TaskRef `cbor:"1,keyasint"`
	Stale bool    `cbor:"2,keyasint,omitempty"`
}

// TaskIs answers TaskGet and DeadGet.
type TaskIs struct {
	Task Task `cbor:"1,keyasint"`
	At   At   `cbor:"2,keyasint"`
}

// Task is all that is known of a message, task or dead letter.
type Task struct {
	ID                 string    `cbor:"1,keyasint"`
	OriginalID         string    `cbor:"2,keyasint,omitempty"`
	TaskID             string    `cbor:"3,keyasint"`
	Queue              string    `cbor:"4,keyasint"`
	Kind               string    `cbor:"5,keyasint,omitempty"`
	Status             string    `cbor:"6,keyasint"` // scheduled pending processing retrying succeeded dead cancelled
	Priority           uint8     `cbor:"7,keyasint"`
	Attempts           int32     `cbor:"8,keyasint"`
	MaxAttempts        int32     `cbor:"9,keyasint,omitempty"`
	EnqueuedAt         int64     `cbor:"10,keyasint,omitempty"`
	DueAt              int64     `cbor:"11,keyasint,omitempty"`
	LeaseEndsAt        int64     `cbor:"12,keyasint,omitempty"`
	ExpiresAt          int64     `cbor:"13,keyasint,omitempty"`
	EndedAt            int64     `cbor:"14,keyasint,omitempty"` // dead letters: failed_at
	Worker             string    `cbor:"15,keyasint,omitempty"`
	Error              string    `cbor:"16,keyasint,omitempty"`
	History            []Attempt `cbor:"17,keyasint,omitempty"`
	Reason             string    `cbor:"18,keyasint,omitempty"` // max_attempts permanent expired overflow mapping
	Redrives           int32     `cbor:"19,keyasint,omitempty"`
	OriginalEnqueuedAt int64     `cbor:"20,keyasint,omitempty"`
	ContentType        string    `cbor:"21,keyasint,omitempty"`
	Headers            []Header  `cbor:"22,keyasint,omitempty"`
	Key                Bytes     `cbor:"23,keyasint,omitempty"`
	Body               Bytes     `cbor:"24,keyasint,omitempty"`
	BodyBytes          int64     `cbor:"25,keyasint,omitempty"` // its size, also where a listing leaves the body out
	Origin             string    `cbor:"40,keyasint,omitempty"` // of a dead letter that was moved to Queue: the queue where it died, which names the task
	Held               string    `cbor:"41,keyasint,omitempty"` // of one that was moved: where it stands as a message of Queue, as Status names it
	Stay               string    `cbor:"42,keyasint,omitempty"` // of a dead letter whose queue has a dead_letter_queue: why it is not there: missing full dead_letter_queue
}

// Attempt is one failed attempt.
type Attempt struct {
	At     int64  `cbor:"1,keyasint"`
	Number int32  `cbor:"2,keyasint"`
	Worker string `cbor:"3,keyasint,omitempty"`
	Error  string `cbor:"4,keyasint,omitempty"`
}

// QueueOptions are a queue's settings; zero or absent means the default.
type QueueOptions struct {
	LeaseMillis         int64        `cbor:"1,keyasint,omitempty"`
	Retry               *RetryPolicy `cbor:"2,keyasint,omitempty"`
	MaxDead             int64        `cbor:"3,keyasint,omitempty"`
	DeadOverflow        string       `cbor:"4,keyasint,omitempty"` // "refuse" (default) or "drop_oldest"
	DeadRetentionMillis int64        `cbor:"5,keyasint,omitempty"`
	DedupWindowMillis   int64        `cbor:"6,keyasint,omitempty"`
	DedupMaxKeys        int64        `cbor:"7,keyasint,omitempty"`
	ResultTTLMillis     int64        `cbor:"8,keyasint,omitempty"`
	MaxResultsBytes     int64        `cbor:"9,keyasint,omitempty"`

	Ordering string `cbor:"20,keyasint,omitempty"` // "unordered" (default), "fifo" or "per_key"; changes only while the queue holds no live message

	MaxDepth        int64  `cbor:"21,keyasint,omitempty"` // live messages; beyond, enqueues get queue_full; 0: no limit
	MaxBytes        int64  `cbor:"22,keyasint,omitempty"` // of live messages: bodies, headers and other fields; 0: no limit
	MaxInFlight     int64  `cbor:"24,keyasint,omitempty"` // leased at once, over all consumers; 0: no limit
	Paused          bool   `cbor:"25,keyasint,omitempty"` // nothing is leased; all else goes on
	MaxAgeMillis    int64  `cbor:"26,keyasint,omitempty"` // ttl_ms of messages that come without one; 0: none
	DeadLetterQueue string `cbor:"40,keyasint,omitempty"` // another queue, to which what dies here is moved; absent: it stays here
}

// QueueWrite is the body of QueueCreate and QueueSet.
type QueueWrite struct {
	Queue   string       `cbor:"1,keyasint"`
	Options QueueOptions `cbor:"2,keyasint"`
	Request Request      `cbor:"3,keyasint"`
}

// QueueRef is the body of QueueDelete, QueuePurge and DeadPurge (with Request) and QueueShow (with Stale).
type QueueRef struct {
	Queue   string  `cbor:"1,keyasint"`
	Request Request `cbor:"2,keyasint"`
	Stale   bool    `cbor:"3,keyasint,omitempty"`
}

// Counted answers purges.
type Counted struct {
	Count int64 `cbor:"1,keyasint"`
	At    At    `cbor:"2,keyasint"`
}

// QueueList lists queues by name.
type QueueList struct {
	After string `cbor:"1,keyasint,omitempty"`
	Limit int32  `cbor:"2,keyasint,omitempty"` // 1–1000, 0: 100
	Stale bool   `cbor:"3,keyasint,omitempty"`
}

// Queues answers QueueList. Next is the cursor for more, empty at the end.
type Queues struct {
	Queues []QueueInfo `cbor:"1,keyasint"`
	Next   string      `cbor:"2,keyasint,omitempty"`
	At     At          `cbor:"3,keyasint"`
}

// QueueIs answers QueueShow.
type QueueIs struct {
	Queue QueueInfo `cbor:"1,keyasint"`
	At    At        `cbor:"2,keyasint"`
}

// QueueInfo is a queue's options and counters.
type QueueInfo struct {
	Name                string           `cbor:"1,keyasint"`
	Options             QueueOptions     `cbor:"2,keyasint"`
	Pending             int64            `cbor:"3,keyasint"`
	Processing          int64            `cbor:"4,keyasint"`
	Scheduled           int64            `cbor:"5,keyasint"`
	Retrying            int64            `cbor:"6,keyasint"`
	Dead                int64            `cbor:"7,keyasint"`
	Bytes               int64            `cbor:"8,keyasint"`
	Results             int64            `cbor:"9,keyasint"`
	ResultBytes         int64            `cbor:"10,keyasint"`
	DedupKeys           int64            `cbor:"11,keyasint"`
	OldestAgeMillis     int64            `cbor:"12,keyasint"`
	Totals              map[string]int64 `cbor:"13,keyasint"` // enqueued acked nacked expired dead duplicates redriven dead_dropped …
	AvgProcessingMillis int64            `cbor:"14,keyasint"`
	Tombstones          int64            `cbor:"15,keyasint"`

	Blocked int64 `cbor:"20,keyasint,omitempty"` // of pending, those that wait behind another of their key or queue
	Moved   int64 `cbor:"40,keyasint,omitempty"` // of the live messages: dead letters of other queues that were moved here
}

// Peek looks at live messages without leasing them.
type Peek struct {
	Queue string `cbor:"1,keyasint"`
	State string `cbor:"2,keyasint,omitempty"` // pending (default), processing, scheduled, retrying
	Limit int32  `cbor:"3,keyasint,omitempty"` // 1–1000, 0: 10
	After string `cbor:"4,keyasint,omitempty"` // cursor
	Stale bool   `cbor:"5,keyasint,omitempty"`
}

// Tasks answers Peek and DeadList.
type Tasks struct {
	Tasks []Task `cbor:"1,keyasint"`
	Next  string `cbor:"2,keyasint,omitempty"` // opaque cursor
	At    At     `cbor:"3,keyasint"`
}

// DeadList lists dead letters by (failed_at, id): those of the queue's own dead set and those that were moved to it. Reason, kind and times are indexed; text and headers are looked for in pages, so that a page may be short or empty and yet not the last.
type DeadList struct {
	Queue  string `cbor:"1,keyasint"`
	Limit  int32  `cbor:"2,keyasint,omitempty"` // 1–1000, 0: 100
	After  string `cbor:"3,keyasint,omitempty"`
	Reason string `cbor:"4,keyasint,omitempty"` // filter
	Kind   string `cbor:"5,keyasint,omitempty"` // filter
	Since  int64  `cbor:"6,keyasint,omitempty"` // filter: failed_at ≥, Unix ms
	Stale  bool   `cbor:"7,keyasint,omitempty"`

	Until   int64    `cbor:"8,keyasint,omitempty"`  // filter: failed_at ≤, Unix ms
	Text    string   `cbor:"9,keyasint,omitempty"`  // filter: in the error, the task id or the body, to the letter; ≤ 256 bytes
	Headers []Header `cbor:"10,keyasint,omitempty"` // filter: has each of these; an empty value stands for any. ≤ 8
	Brief   bool     `cbor:"11,keyasint,omitempty"` // without body, headers and history
}

// DeadGet reads one dead letter.
type DeadGet struct {
	Queue string `cbor:"1,keyasint"`
	ID    string `cbor:"2,keyasint"`
	Stale bool   `cbor:"3,keyasint,omitempty"`
}

// DeadIDs is the body of DeadRequeue and DeadDelete.
type DeadIDs struct {
	Queue   string   `cbor:"1,keyasint"`
	IDs     []string `cbor:"2,keyasint"` // 1–1000
	Request Request  `cbor:"3,keyasint"`
}

// ClusterStatus has no fields.
type ClusterStatus struct{}

// ClusterIs answers ClusterStatus.
type ClusterIs struct {
	Cluster string `cbor:"1,keyasint"`
	Leader  string `cbor:"2,keyasint"` // node label, empty if none
	Term    uint64 `cbor:"3,keyasint"`
	Nodes   []Node `cbor:"4,keyasint"`
	At      At     `cbor:"5,keyasint"`
}

// Node is one member.
type Node struct {
	ID         string `cbor:"1,keyasint"` // label
	UUID       string `cbor:"2,keyasint"`
	Role       string `cbor:"3,keyasint"` // leader follower candidate; empty when not reached
	Voter      bool   `cbor:"4,keyasint"`
	Alive      bool   `cbor:"5,keyasint"`
	ClientAddr string `cbor:"6,keyasint"`
	RaftAddr   string `cbor:"7,keyasint"`
	Applied    uint64 `cbor:"8,keyasint"`  // log index its state is at
	Version    string `cbor:"9,keyasint"`  // of its binary
	LastLog    uint64 `cbor:"10,keyasint"` // log index its log reaches to
}

// ClusterVerify has no fields.
type ClusterVerify struct{}

// Verified answers ClusterVerify: all digests at one index.
type Verified struct {
	Index uint64       `cbor:"1,keyasint"`
	Equal bool         `cbor:"2,keyasint"`
	Nodes []NodeDigest `cbor:"3,keyasint"`
	At    At           `cbor:"4,keyasint"`
}

// NodeDigest is one node's state hash; Error says why there is none.
type NodeDigest struct {
	ID     string `cbor:"1,keyasint"`
	Digest string `cbor:"2,keyasint,omitempty"` // 64 hex digits
	Error  string `cbor:"3,keyasint,omitempty"`
}

// ClusterTransfer hands leadership to Node (empty: the most caught-up voter).
type ClusterTransfer struct {
	Node string `cbor:"1,keyasint,omitempty"`
}

// ClusterRemove removes a member by label or UUID.
type ClusterRemove struct {
	Node string `cbor:"1,keyasint"`
}

// Schedule is what a schedule is declared to be: when which message goes into which queue.
type Schedule struct {
	Name         string  `cbor:"1,keyasint"`           // 1–96 bytes, made of what queue names are made of
	Queue        string  `cbor:"2,keyasint"`           // made with defaults at a firing if it is missing and queues are made on enqueue
	Cron         string  `cbor:"3,keyasint"`           // minute hour day month weekday, seconds before them if wanted; @daily and the like; @every 90s. ≤ 256 bytes
	Zone         string  `cbor:"4,keyasint,omitempty"` // IANA name, ≤ 64 bytes; absent: UTC
	JitterMillis int64   `cbor:"5,keyasint,omitempty"` // each firing is late by a value in [0, jitter], the same whoever leads; ≤ 24 h
	Missed       string  `cbor:"6,keyasint,omitempty"` // of times that nobody could fire for a minute: "skip" (default) none, "once" the latest, "all" the latest 100
	Paused       bool    `cbor:"7,keyasint,omitempty"` // nothing is fired, and nothing made up for when it goes on
	Message      Message `cbor:"8,keyasint"`           // without task_id, dedup_key, delay_ms, enqueue_at and batch; ≤ 62 headers
}

// ScheduleWrite is the body of ScheduleCreate and ScheduleSet.
type ScheduleWrite struct {
	Schedule Schedule `cbor:"1,keyasint"`
	Request  Request  `cbor:"2,keyasint"`
}

// ScheduleRef is the body of ScheduleDelete (with Request) and ScheduleShow (with Stale).
type ScheduleRef struct {
	Name    string  `cbor:"1,keyasint"`
	Request Request `cbor:"2,keyasint"`
	Stale   bool    `cbor:"3,keyasint,omitempty"`
}

// ScheduleList lists schedules by name.
type ScheduleList struct {
	After string `cbor:"1,keyasint,omitempty"`
	Limit int32  `cbor:"2,keyasint,omitempty"` // 1–1000, 0: 100
	Stale bool   `cbor:"3,keyasint,omitempty"`
}

// Schedules answers ScheduleList, messages left empty. Next is the cursor for more, empty at the end.
type Schedules struct {
	Schedules []ScheduleInfo `cbor:"1,keyasint"`
	Next      string         `cbor:"2,keyasint,omitempty"`
	At        At             `cbor:"3,keyasint"`
}

// ScheduleIs answers ScheduleShow.
type ScheduleIs struct {
	Schedule ScheduleInfo `cbor:"1,keyasint"`
	At       At           `cbor:"2,keyasint"`
}

// ScheduleInfo is a schedule and what became of its times.
type ScheduleInfo struct {
	Schedule  Schedule `cbor:"1,keyasint"`
	CreatedAt int64    `cbor:"2,keyasint"`
	ChangedAt int64    `cbor:"3,keyasint"`
	NextAt    int64    `cbor:"4,keyasint,omitempty"` // the next fire time; absent: paused, none within five years, or not computed yet
	DueAt     int64    `cbor:"5,keyasint,omitempty"` // NextAt and its jitter
	LastAt    int64    `cbor:"6,keyasint,omitempty"` // fire time of the last message; its task id is name@fire time
	LastID    string   `cbor:"7,keyasint,omitempty"`
	Fired     int64    `cbor:"8,keyasint"`            // messages made
	Skipped   int64    `cbor:"9,keyasint"`            // fire times passed over by the policy; at most 10,000 are counted at once
	Refused   int64    `cbor:"10,keyasint"`           // fire times whose message the queue did not take
	RefusedAt int64    `cbor:"11,keyasint,omitempty"` // the last one of them
	Refusal   string   `cbor:"12,keyasint,omitempty"` // why
}

// Retry policy kinds.
const (
	RetrySchedule    = "schedule"    // waits Steps[n−1] after attempt n; len(Steps)+1 attempts
	RetryFixed       = "fixed"       // waits InitialMillis
	RetryLinear      = "linear"      // waits InitialMillis·n, at most MaxMillis
	RetryExponential = "exponential" // waits InitialMillis·multiplier^(n−1), at most MaxMillis
)

// States of a task, as Task.Status and Result.Status name them.
const (
	StatusScheduled  = "scheduled"
	StatusPending    = "pending"
	StatusProcessing = "processing"
	StatusRetrying   = "retrying"
	StatusSucceeded  = "succeeded"
	StatusDead       = "dead"
	StatusCancelled  = "cancelled"
)

// Values of Schedule.Missed.
const (
	MissedSkip = "skip"
	MissedOnce = "once"
	MissedAll  = "all"
)

// Values of QueueOptions.DeadOverflow.
const (
	DeadRefuse     = "refuse"
	DeadDropOldest = "drop_oldest"

	OrderUnordered = "unordered"
	OrderFIFO      = "fifo"
	OrderPerKey    = "per_key"
)

// KVGet reads one key of the KV.
type KVGet struct {
	Key   []string `cbor:"1,keyasint"`           // 1–16 strings of ≤ 256 bytes
	Stale bool     `cbor:"2,keyasint,omitempty"` // answer from this node, leader or not
}

// KVEntry is a key and its value, or in KVChanges its last change.
type KVEntry struct {
	Key        []string `cbor:"1,keyasint"`
	Value      Bytes    `cbor:"2,keyasint,omitempty"` // the body of the message that died; absent where it was not asked for
	ValueBytes int64    `cbor:"3,keyasint,omitempty"` // its length
	MessageID  string   `cbor:"4,keyasint,omitempty"` // of that message
	Position   uint64   `cbor:"5,keyasint"`           // of the change: positions rise
	ChangedAt  int64    `cbor:"6,keyasint"`           // Unix ms, log time
	EndsAt     int64    `cbor:"7,keyasint,omitempty"` // from then on the key is gone
	Deleted    bool     `cbor:"8,keyasint,omitempty"` // in KVChanges: the key is gone
	Expired    bool     `cbor:"9,keyasint,omitempty"` // with deleted: by the end of its time
}

// KVIs answers KVGet.
type KVIs struct {
	Entry KVEntry `cbor:"1,keyasint"`
	At    At      `cbor:"2,keyasint"`
}

// KVList lists keys in their order: string by string, bytes by bytes.
type KVList struct {
	Prefix []string `cbor:"1,keyasint,omitempty"` // the keys that begin with these strings; absent: all
	After  []string `cbor:"2,keyasint,omitempty"` // next of the page before
	Limit  int32    `cbor:"3,keyasint,omitempty"` // 1–1000, absent: 100
	Values bool     `cbor:"4,keyasint,omitempty"` // with values; a page then ends at 4 MiB of them
	Stale  bool     `cbor:"5,keyasint,omitempty"` // answer from this node, leader or not
}

// KVEntries answers KVList.
type KVEntries struct {
	Entries  []KVEntry `cbor:"1,keyasint"`
	Next     []string  `cbor:"2,keyasint,omitempty"` // where the next page begins; absent at the end. A page may be short, or empty, and yet not the last
	Position uint64    `cbor:"3,keyasint"`           // of the last change when the page was begun: watch from there
	At       At        `cbor:"4,keyasint"`
}

// KVDelete removes a key.
type KVDelete struct {
	Key     []string `cbor:"1,keyasint"`
	Request Request  `cbor:"2,keyasint"`
}

// KVWatch asks for changes behind a position. A key that was changed more than once since shows its last change alone. One that asks for a position whose deletions are not kept any more (10,000, for an hour) is refused with failed_precondition, field from: list again.
type KVWatch struct {
	Prefix     []string `cbor:"1,keyasint,omitempty"` // the keys that begin with these strings; absent: all
	From       uint64   `cbor:"2,keyasint"`           // changes behind this position; 0: from the first
	Now        bool     `cbor:"3,keyasint,omitempty"` // only those to come; from is 0. Answered at once where no wait is asked for
	Limit      int32    `cbor:"4,keyasint,omitempty"` // 1–1000 changes, absent: 100
	WaitMillis int64    `cbor:"5,keyasint,omitempty"` // for the first change, ≤ 10 minutes
}

// KVChanges answers KVWatch; no entries: none came within the wait.
type KVChanges struct {
	Entries  []KVEntry `cbor:"1,keyasint"` // by position, with values; ends at 4 MiB of them
	Position uint64    `cbor:"2,keyasint"` // watch on from there
	At       At        `cbor:"3,keyasint"`
}

// BatchCreate makes a batch. Members are messages enqueued with its id; when it is sealed and all have ended, its callback is enqueued, exactly once, with the counts in the headers batch_id, batch_members, batch_succeeded, batch_dead and batch_cancelled (purged and deleted ones included). One that is not sealed within a week ends without.
type BatchCreate struct {
	Queue    string  `cbor:"1,keyasint"` // of the callback
	Callback Message `cbor:"2,keyasint"` // body ≤ 64 KiB, ≤ 59 headers; no task id, dedup key, KV keys or batch
	Request  Request `cbor:"3,keyasint"`
}

// BatchCreated answers BatchCreate.
type BatchCreated struct {
	Batch string `cbor:"1,keyasint"` // its id
	At    At     `cbor:"2,keyasint"`
}

// BatchSeal closes a batch: no more members. Sealed again: success, duplicate.
type BatchSeal struct {
	Batch   string  `cbor:"1,keyasint"`
	Request Request `cbor:"2,keyasint"`
}

// BatchShow asks for the counts of a batch.
type BatchShow struct {
	Batch string `cbor:"1,keyasint"`
	Stale bool   `cbor:"2,keyasint,omitempty"` // answer from this node, leader or not
}

// BatchIs answers BatchShow. A batch that is done is known for an hour.
type BatchIs struct {
	Batch      string `cbor:"1,keyasint"`
	Sealed     bool   `cbor:"2,keyasint,omitempty"`
	Members    int64  `cbor:"3,keyasint"` // added
	Open       int64  `cbor:"4,keyasint"` // not yet ended
	Succeeded  int64  `cbor:"5,keyasint"`
	Dead       int64  `cbor:"6,keyasint"`            // also those that were brought back since
	Cancelled  int64  `cbor:"7,keyasint"`            // purged and deleted ones included
	CreatedAt  int64  `cbor:"8,keyasint"`            // Unix ms, log time
	FinishedAt int64  `cbor:"9,keyasint,omitempty"`  // when the callback was enqueued
	EndsAt     int64  `cbor:"10,keyasint,omitempty"` // when it is forgotten; absent: sealed and not done
	Queue      string `cbor:"11,keyasint,omitempty"` // of the callback that is to come
	CallbackID string `cbor:"12,keyasint,omitempty"` // message id of the callback that has come
	At         At     `cbor:"13,keyasint"`
}
