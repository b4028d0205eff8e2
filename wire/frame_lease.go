package wire

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
	AtMostOnce      bool     `cbor:"16,keyasint,omitempty"` // it is done already: there is no lease (lease_left_ms 0), nothing to ack, and it never comes again
}

// Subscribe asks for deliveries.
type Subscribe struct {
	Sub         uint32 `cbor:"1,keyasint"` // the client's number for it within the session, ≥ 1
	Queue       string `cbor:"2,keyasint"`
	Credit      int32  `cbor:"3,keyasint"`           // window, 0–10000; 0 pauses
	LeaseMillis int64  `cbor:"4,keyasint,omitempty"` // 100 ms–12 h; absent: the queue's
	Worker      string `cbor:"5,keyasint,omitempty"` // ≤ 128 bytes
	// Tokens of at-most-once deliveries of this subscription, of earlier connections too, that the client has not said it is done
	// with: they count against the window until Started names them. ≤ 10000
	Unfinished []string `cbor:"6,keyasint,omitempty"`
}

// Delivery carries leased messages of a subscription.
type Delivery struct {
	Sub      uint32      `cbor:"1,keyasint"`
	Messages []Delivered `cbor:"2,keyasint"`
}

// Credit sets a subscription's window. A window of 0 is answered when nothing is on its way any more: no Delivery of the subscription
// follows the answer.
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

// Started tells which deliveries a handler has taken. It is sent before the handler is called. Of at-most-once deliveries it tells
// which are done with, which opens the window for as many: it is sent when the handler has returned.
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
