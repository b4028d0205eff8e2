package fsm

// RetryKind selects how the delay grows with the attempts (see RetryPolicy).
type RetryKind uint8

// The four kinds. RetryDefault, the zero value, means "as the queue says" on a message and "the default schedule" on a
// queue.
const (
	RetryDefault RetryKind = iota
	RetrySchedule
	RetryFixed
	RetryLinear
	RetryExponential
)

// RetryPolicy decides how long a message waits after attempt n (from 1) failed, and when it dies.
type RetryPolicy struct {
	Kind            RetryKind
	Steps           []int64 // schedule only: 1–100 delays in ms, each 0 to 366 days; attempts are len(Steps)+1
	InitialMillis   int64   // ms, 0 to 366 days; default 1000
	MultiplierMilli int64   // exponential only, in thousandths: 1000–100000; default 2000
	MaxMillis       int64   // cap of linear and exponential, ms; default 60000
	MaxAttempts     int32   // fixed, linear, exponential: 1–1000; default 5
	JitterMillis    int64   // adds a value in [0, J] after the cap, the same on every node; 0 is none
}

// DeadOverflow says what happens when a queue's dead-letter table is full.
type DeadOverflow uint8

// The two policies.
const (
	DeadRefuse     DeadOverflow = iota // enqueues get queue_full
	DeadDropOldest                     // the oldest dead letters go, counted
)

// Ordering says which messages of a queue wait for which.
type Ordering uint8

// The three modes.
const (
	OrderUnordered Ordering = iota // by priority, then place
	OrderFIFO                      // one after another: the next one goes out when the one before is done or dead
	OrderPerKey                    // that, for the messages of each key; those without a key are unordered
	orderEnd
)

// Overflow says what an enqueue does that would pass max_depth or max_bytes.
type Overflow uint8

// The two ways.
const (
	OverflowReject     Overflow = iota // it gets queue_full
	OverflowDropOldest                 // what waits dies to make room, see fsm/overflow.go
	overflowEnd
)

// DeliveryMode says what a lease means.
type DeliveryMode uint8

// The two modes.
const (
	DeliverAtLeastOnce DeliveryMode = iota // a message is out until its worker answers or its lease runs out
	DeliverAtMostOnce                      // leasing acknowledges
	deliverEnd
)

// FairBy says who takes turns in a queue.
type FairBy uint8

// The two ways.
const (
	FairByNone FairBy = iota // nobody: what is first is served first
	FairByKey                // the keys, messages without one together being one
	fairEnd
)

// FairWeight is how many messages the turn of a key is.
type FairWeight struct {
	Key    string // 1–256 bytes
	Weight int64  // 1–100
}

// MapTo says where messages are mapped to, and how; both empty: nowhere.
type MapTo struct {
	Queue      string
	Expression string // at most 4 KiB
}

// QueueOptions are the settings of a queue. Zero values mean the default in every field; Normalize fills them in.
// Durations are in milliseconds. Changed options apply at once to all messages, but for what a record fixes at its birth.
type QueueOptions struct {
	LeaseMillis         int64        // 100 ms–12 h; default 30000
	Retry               RetryPolicy  // default schedule [1000, 5000, 10000]
	MaxDead             int64        // 1–10,000,000; default 1,000,000
	DeadOverflow        DeadOverflow // default refuse
	DeadRetentionMillis int64        // 1 s–3660 days; default 30 days
	DedupWindowMillis   int64        // 1 s–366 days; default 24 h
	DedupMaxKeys        int64        // 1–10,000,000; default 1,000,000
	ResultTTLMillis     int64        // 1 s–366 days; default 24 h
	MaxResultsBytes     int64        // 1–1 TiB; default 256 MiB
	// Ordering can be changed only while the queue holds no live message. Default unordered.
	Ordering Ordering
	// Limits, 0 for none. MaxDepth and MaxBytes are over all live messages, out, delayed and retrying ones included; beyond,
	// enqueues get queue_full. MaxInFlight is of messages that are out at once, over all consumers.
	MaxDepth    int64 // 1–100,000,000
	MaxBytes    int64 // bodies, headers and other fields; 1–1 TiB
	MaxInFlight int64 // 1–10,000,000
	// RateMilli is how many deliveries a second there may be, in thousandths, 0 for no limit; Burst is how many of them at once,
	// 0 for one second's worth and at least one. Every lease is a delivery.
	RateMilli int64 // 1–1,000,000,000
	Burst     int64 // 1–1,000,000; not without a rate
	// Of what has a key, the messages of one key that are out at once, and their rate and burst. Not with ordering fifo; in flight
	// not with per_key, where it is always one.
	MaxInFlightPerKey int64 // 1–10,000,000
	RatePerKeyMilli   int64 // as RateMilli
	BurstPerKey       int64 // as Burst
	// FairBy has keys take turns within a priority; FairWeights is how many messages a key's turn is, 1 for those not named.
	FairBy      FairBy
	FairWeights []FairWeight // sorted by key, at most 1,000; not with per_key
	// MaxAgeMillis is the ttl of messages that come without one, fixed when they are enqueued; 0 for none; at most 366 days.
	MaxAgeMillis int64
	Paused       bool // nothing is leased; all else goes on
	// DeadLetterQueue is where what dies here is moved to, as ordinary messages; "": it stays in the queue's own dead set. It need
	// not exist: as long as it does not, or takes no message, what dies stays.
	DeadLetterQueue string
	// Overflow is what happens beyond MaxDepth and MaxBytes. Default reject.
	Overflow Overflow
	// Delivery can be changed only while the queue holds no live message. Default at least once.
	Delivery DeliveryMode
	// PushURL has the messages sent there by POST, by the node that leads (transport/push); "": nobody is sent anything. The others say
	// how, and count for nothing without it.
	PushURL           string   // http or https; at most 2,048 bytes
	PushConcurrency   int64    // requests at once, 1–256; 0 for 8
	PushTimeoutMillis int64    // of one request, 100 ms–10 min; 0 for 10 s
	PushSecrets       []string // names of secrets, of which the nodes' configurations know the values: each signs; at most 4
	PushPermanent     []int64  // answers after which a message is dead at once: 400–499 but 429, sorted, at most 32; none for 400, 404, 410, 413, 422
	PushHeaders       []string // headers of a message that go along, in lower case, sorted, at most 16
	// Schema is a JSON Schema that the doors check bodies against; "": anything is taken. At most 64 KiB.
	Schema string
	// Map is an expression that makes the body of a push of a message; "": it is sent as it is. At most 4 KiB.
	Map string
	// MapTo has the node that leads make messages for another queue of each message here, and ack it (transport/mapper). Not in a queue
	// that is pushed or delivers at most once, nor so that what is mapped comes back.
	MapTo MapTo
}
