package wire

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

	MaxDepth     int64  `cbor:"21,keyasint,omitempty"` // live messages; beyond, enqueues get queue_full; 0: no limit
	MaxBytes     int64  `cbor:"22,keyasint,omitempty"` // of live messages: bodies, headers and other fields; 0: no limit
	Overflow     string `cbor:"23,keyasint,omitempty"` // beyond max_depth and max_bytes: "reject" (default) refuses enqueues, "drop_oldest" has what waits die
	MaxInFlight  int64  `cbor:"24,keyasint,omitempty"` // leased at once, over all consumers; 0: no limit
	Paused       bool   `cbor:"25,keyasint,omitempty"` // nothing is leased; all else goes on
	MaxAgeMillis int64  `cbor:"26,keyasint,omitempty"` // ttl_ms of messages that come without one; 0: none
	Delivery     string `cbor:"27,keyasint,omitempty"` // "at_least_once" (default) or "at_most_once": leasing acknowledges; changes only while the queue holds no live message
	RateMilli    int64  `cbor:"29,keyasint,omitempty"` // deliveries a second, in thousandths; 0: no limit
	Burst        int64  `cbor:"30,keyasint,omitempty"` // of them at once; 0: one second's worth, at least 1

	MaxInFlightPerKey int64        `cbor:"28,keyasint,omitempty"` // leased at once of one message key; 0: no limit; not in an ordered queue
	RatePerKeyMilli   int64        `cbor:"31,keyasint,omitempty"` // as rate_milli, of each message key; not in a fifo queue
	BurstPerKey       int64        `cbor:"32,keyasint,omitempty"` // as burst
	FairBy            string       `cbor:"33,keyasint,omitempty"` // "none" (default), or "key": within a priority the message keys take turns; not in a fifo queue
	FairWeights       []FairWeight `cbor:"34,keyasint,omitempty"` // ≤ 1000, each key once: how many messages its turn is; not in an ordered queue

	DeadLetterQueue string `cbor:"40,keyasint,omitempty"` // another queue, to which what dies here is moved; absent: it stays here

	PushURL           string   `cbor:"41,keyasint,omitempty"` // http or https, ≤ 2,048 bytes: the messages are sent there by POST, by the node that leads; absent: they are not
	PushConcurrency   int64    `cbor:"42,keyasint,omitempty"` // requests at once, 1–256; 0: 8
	PushTimeoutMillis int64    `cbor:"43,keyasint,omitempty"` // of one request, 100–600,000; 0: 10,000
	PushSecrets       []string `cbor:"44,keyasint,omitempty"` // ≤ 4 names of secrets that the nodes' configurations hold; each signs
	PushPermanent     []int64  `cbor:"45,keyasint,omitempty"` // ≤ 32 statuses, 400–499 but 429, after which a message is dead at once; none: 400, 404, 410, 413, 422
	PushHeaders       []string `cbor:"46,keyasint,omitempty"` // ≤ 16 names of headers that messages bring along

	Schema string `cbor:"47,keyasint,omitempty"` // JSON Schema, ≤ 64 KiB, that bodies have to fit; absent: anything is taken
	Map    string `cbor:"48,keyasint,omitempty"` // expression, ≤ 4 KiB, that makes the body of a push; absent: it is sent as it is
	MapTo  *MapTo `cbor:"49,keyasint,omitempty"` // messages are made for another queue of each, by the node that leads, which acks it; absent: they are not. Not in a queue that is pushed or delivers at most once
}

// MapTo says where messages are mapped to, and how.
type MapTo struct {
	Queue      string `cbor:"1,keyasint"` // not one from which they would come back
	Expression string `cbor:"2,keyasint"` // ≤ 4 KiB
}

// FairWeight is a message key and how many messages its turn is in a queue with fair_by, 1 for those not named: an array of two, bytes (1–256) and int64 (1–100).
type FairWeight struct {
	_      struct{} `cbor:",toarray"`
	Key    Bytes    // 1–256 bytes
	Weight int64    // 1–100
}

// QueueWrite is the body of QueueCreate and QueueSet. QueueSet sets all options, or those alone that Only names, as they stand in the
// table of QueueOptions: the others stay as they are at that moment, whoever has set them, and what Options says of them counts for nothing.
type QueueWrite struct {
	Queue   string       `cbor:"1,keyasint"`
	Options QueueOptions `cbor:"2,keyasint"`
	Request Request      `cbor:"3,keyasint"`
	Only    []string     `cbor:"4,keyasint,omitempty"` // of QueueSet: option names, each once, ≤ 64
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

	Blocked  int64 `cbor:"20,keyasint,omitempty"` // of pending, those that wait behind another of their key or queue
	Parked   int64 `cbor:"28,keyasint,omitempty"` // of pending, those whose key is at max_in_flight_per_key or held by rate_per_key
	KeyDebts int64 `cbor:"31,keyasint,omitempty"` // keys that rate_per_key counts deliveries of; ≤ 1,000,000
	Moved    int64 `cbor:"40,keyasint,omitempty"` // of the live messages: dead letters of other queues that were moved here

	Push string `cbor:"41,keyasint,omitempty"` // of a queue with push_url: how its push stands, and why it rests if it does; for people

	Mapping string `cbor:"42,keyasint,omitempty"` // of a queue with map_to: how its mapping stands, and why it waits if it does; for people

	PerMinute     int64    `cbor:"50,keyasint,omitempty"` // messages accepted in the last minute, as far as the node that answers has run so long
	Status        string   `cbor:"51,keyasint,omitempty"` // moving, held, waiting, working or empty
	Why           []Holdup `cbor:"52,keyasint,omitempty"` // of held and waiting: what keeps the messages back, all of it
	Consumers     int64    `cbor:"53,keyasint,omitempty"` // subscriptions
	Idle          int64    `cbor:"54,keyasint,omitempty"` // consumers that would be given a message now: subscriptions with room, and lease requests that wait
	NotFromLeader bool     `cbor:"55,keyasint,omitempty"` // a stale answer of a node that does not lead: it knows of no consumers, and Why says nothing of them
}

// Holdup is a reason why messages of a queue are not handed out at present. Where there are several, all of them have to end; of those that
// are about who takes messages (push_resting, no_consumers, consumers_busy) one is enough.
type Holdup struct {
	Reason string `cbor:"1,keyasint"`           // paused, in_flight_limit, rate_limited, keys_blocked, keys_limited, push_resting, no_consumers, consumers_busy; of waiting: scheduled, retrying
	Text   string `cbor:"2,keyasint"`           // the same in words, with the numbers
	Until  int64  `cbor:"3,keyasint,omitempty"` // T, Unix ms, when time alone ends it, or changes something about it
}

// What a queue is doing: QueueInfo.Status.
const (
	QueueMoving  = "moving"  // there are ready messages, and somebody is there who gets them
	QueueHeld    = "held"    // there are ready messages, and none is handed out
	QueueWaiting = "waiting" // nothing is ready; something will be, when its time has come
	QueueWorking = "working" // all that there is is out
	QueueEmpty   = "empty"   // it holds no message that is to be delivered
)

// Reasons of a Holdup.
const (
	HoldPaused        = "paused"
	HoldInFlight      = "in_flight_limit" // max_in_flight
	HoldRate          = "rate_limited"    // rate
	HoldKeysBlocked   = "keys_blocked"    // each waits behind another of its key or queue that is out or waits for its retry
	HoldKeysLimited   = "keys_limited"    // max_in_flight_per_key, rate_per_key
	HoldPushResting   = "push_resting"    // the node that leads pushes the queue, and has failed or been asked to wait
	HoldNoConsumers   = "no_consumers"
	HoldConsumersBusy = "consumers_busy" // each has as much as it takes
	HoldScheduled     = "scheduled"
	HoldRetrying      = "retrying"
)

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
