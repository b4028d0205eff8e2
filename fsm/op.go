package fsm

// Entry is one Raft log entry: the operations that one group commit carries, and the leader's time.
type Entry struct {
	Now   int64 // log time T proposed by the leader, Unix ms; the state uses max(previous, Now)
	Shift int64 // ms by which T jumped at this entry beyond elapsed time; cut to [0, T − previous T]
	Ops   []Op  // applied in order after the due moves, each to its own Outcome
}

// Op is one operation of an entry. The set is closed; numbers are append-only (see opNumber in codec.go).
type Op interface{ opNumber() uint8 }

// Request identifies a mutating request so that its repeat gets the first answer (semantics: the session remembers the
// outcome until Low passes it). The zero value means "no request id". A batch of n messages takes the n numbers from
// Number on.
type Request struct {
	Session ID
	Number  uint64
	Low     uint64 // every number below Low is answered for and may be forgotten
}

// Header is one name and value pair of a message.
type Header struct{ Name, Value []byte }

// Message is a message as it is enqueued. Byte slices decoded from an entry alias the entry: the state copies what it
// keeps.
type Message struct {
	TaskID        []byte // 1–128 bytes, or empty: the message id
	Kind          []byte // ≤ 128 bytes
	ContentType   []byte // ≤ 128 bytes; empty: application/octet-stream
	Headers       []Header
	Body          []byte
	Key           []byte // ordering key, ≤ 256 bytes; kept and shown, without effect until ordered queues exist
	Priority      uint8  // 0–9, 9 first; the door fills in the default 4
	HasDedup      bool
	DedupKey      [16]byte    // hash of the dedup key, made at the door (see HashDedup)
	DedupContent  [16]byte    // hash of (kind, body), made at the door
	DelayMillis   int64       // relative to T; ignored when DueAt is set
	DueAt         int64       // absolute, Unix ms; 0 is unset; in the past means now
	TTLMillis     int64       // 0: none
	TimeoutMillis int64       // 0: none
	Retry         RetryPolicy // Kind RetryDefault: the queue's
	Keys          [][]byte    // keys_if_undelivered, ≤ 16, encoded (see AppendKVKey): they get the body if the message dies
	Batch         ID          // of which it is a member; zero: none
}

// Consumer is who a lease belongs to: a subscription of a session. Sub 0 is the session's pulled leases.
type Consumer struct {
	Session ID
	Sub     uint32
}

type (
	// Bootstrap is the first operation of a cluster's log. A second one is refused.
	Bootstrap struct {
		Cluster [16]byte
		Epoch   uint16
	}
	// OpenSession opens a client session; Outcome.ID is its id.
	OpenSession struct{}
	// TouchSession keeps a quiet session alive. Outcome: OK or SessionExpired.
	TouchSession struct{ Session ID }
	// CreateQueue makes a queue. The same options again: OK, Outcome.Duplicate. Others: AlreadyExists.
	CreateQueue struct {
		Request Request
		Name    []byte
		Options QueueOptions
	}
	// SetQueue replaces a queue's options.
	SetQueue struct {
		Request Request
		Name    []byte
		Options QueueOptions
	}
	// DeleteQueue removes a queue and all that belongs to it.
	DeleteQueue struct {
		Request Request
		Name    []byte
	}
	// PurgeQueue removes all messages that are not out. Outcome.Count says how many.
	PurgeQueue struct {
		Request Request
		Name    []byte
	}
	// Enqueue adds a batch of messages to one queue: one Outcome for each, in order.
	Enqueue struct {
		Request    Request
		Queue      []byte
		AutoCreate bool // make the queue with default options if it is missing
		Messages   []Message
	}
	// Lease hands out up to Max ready messages. Outcomes: exactly one, whose Leases lists them.
	Lease struct {
		Request     Request // zero for leases that the dispatcher adds
		Queue       []byte
		Consumer    Consumer
		Worker      []byte
		Max         int32 // 1–1000
		MaxBytes    int64 // of bodies; at least one message is handed out whatever its size
		LeaseMillis int64 // 0: the queue's
		// Waits: finding nothing is no answer. It is not remembered, so that the leader can propose the request again when there is
		// something. In the log it is an operation of its own (see pull.go).
		Waits bool
	}
	// Ack ends a lease with success.
	Ack struct {
		Token          Token
		HasResult      bool
		Result         Result
		Then           []ThenMessage // enqueued in the same entry, or the ack is refused whole
		ThenAutoCreate bool
		// Mapping is the generation of the queue's mapping that Then was made by, 0 where it was made by none. That of another one is
		// refused (FailedPrecondition, FieldMapping), and the lease stays. In the log it is an operation of its own.
		Mapping uint64
	}
	// Nack ends a lease with failure. DelayMillis −1: by the retry policy.
	Nack struct {
		Token       Token
		Error       []byte
		DelayMillis int64
		Permanent   bool
		// Mapping is the generation of the queue's mapping that the message cannot be mapped by: it dies at once, reason mapping; 0: it is
		// not that. As with Ack, that of another one is refused, and it is an operation of its own.
		Mapping uint64
	}
	// Extend sets the lease's deadline to LeaseMillis from now (0: the queue's), never beyond the attempt's timeout.
	Extend struct {
		Token       Token
		LeaseMillis int64
	}
	// Release gives a message back, to its old place, at no cost of an attempt.
	Release struct {
		Token Token
		Spent bool // it does cost one: who had the message has gone without a word. Outcome.Dead: it was the last
	}
	// PushResult records a result without a lease.
	PushResult struct {
		Request Request
		Queue   []byte
		TaskID  []byte
		Kind    []byte
		Result  Result
	}
	// DeadRequeue makes dead letters live again: one Outcome for each id (≤ 1000); Outcome.ID is the new message id.
	DeadRequeue struct {
		Request Request
		Queue   []byte
		IDs     []ID
	}
	// DeadDelete removes dead letters: one Outcome for each id (≤ 1000).
	DeadDelete struct {
		Request Request
		Queue   []byte
		IDs     []ID
	}
	// DeadPurge removes all dead letters of a queue; Outcome.Count says how many.
	DeadPurge struct {
		Request Request
		Queue   []byte
	}
	// Checkpoint changes nothing; every node takes a view at its index and hashes it. Nonce tells the asker's apart.
	Checkpoint struct{ Nonce uint64 }
)

// Result is what a worker returns.
type Result struct {
	Output      []byte
	ContentType []byte
}

// ThenMessage is a message that an ack enqueues.
type ThenMessage struct {
	Queue   []byte
	Message Message
}
