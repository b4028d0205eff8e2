package wire

// Limits of the protocol. Those that a server can be configured to differ in travel in Welcome; the rest are fixed for
// version 1.
const (
	DefaultMaxMessageBytes = 1 << 20  // of one body or one result's output, when the server says nothing else
	HighestMaxMessageBytes = 16 << 20 // the most a server may be configured to

	MaxBatch       = 1000     // messages in an Enqueue or in Ack.Then, ids in DeadRequeue and DeadDelete
	MinBatchBytes  = 1 << 20  // a batch may always carry this many bytes of bodies (see MaxBatchBytes)
	MaxLease       = 1000     // messages one Lease may ask for
	MaxLeaseBytes  = 4 << 20  // of bodies in one Leased or Delivery, but always at least one message
	MaxCredit      = 10000    // window of one subscription
	MaxAcks        = 256      // in one AckBatch: what an entry of the log has room for, with as many leases beside
	MaxTokens      = 10000    // in one Started, Resume (both lists together) or LeaseGone
	MaxList        = 1000     // items one listing may ask for
	MaxReadBytes   = 64 << 20 // no WebSocket message of either side is longer, whatever the configuration
	MaxRequestSpan = 4096     // a request number is below Low plus this

	MaxVersions          = 16  // in Hello
	MaxClientBytes       = 128 // Hello.Client
	MaxQueueBytes        = 128 // queue names: [A-Za-z0-9][A-Za-z0-9._:-]{0,127}
	MaxTaskIDBytes       = 128 // task ids
	MaxKindBytes         = 128 // kinds
	MaxContentTypeBytes  = 128 // content types
	MaxKeyBytes          = 256 // ordering and dedup keys
	MaxFairWeights       = 1000
	MaxFairWeight        = 100
	MaxPushURLBytes      = 2048 // push_url
	MaxPushConcurrency   = 256
	MinPushTimeoutMillis = 100
	MaxPushTimeoutMillis = 600_000
	MaxPushSecrets       = 4
	MaxPushSecretBytes   = 64 // the name of a secret
	MaxPushPermanent     = 32
	MaxPushHeaders       = 16
	MaxPushHeaderBytes   = 64 // the name of a header
	MaxSchemaBytes       = 64 << 10
	MaxExpressionBytes   = 4 << 10 // of map and map_to
	MaxHeaders           = 64      // pairs of one message
	MaxHeaderNameBytes   = 128     // at least 1
	MaxHeaderValueBytes  = 4096    // may be empty
	MaxHeadersBytes      = 16384   // names and values together
	MaxPriority          = 9       // 9 goes first
	DefaultPriority      = 4       // of a message that says nothing
	MaxWorkerBytes       = 128     // worker names
	MaxErrorBytes        = 4096    // of a Nack's error text that the server keeps; the rest is cut off
	MaxFaultBytes        = 1024    // of a Fault's message
	MaxNodeBytes         = 128     // node labels and ids
	MaxCursorBytes       = 512     // After of listings
	MaxDeadText          = 256     // DeadList.Text
	MaxDeadHeaders       = 8       // DeadList.Headers
	MaxRetrySteps        = 100     // of a schedule
	MaxAttempts          = 1000    // of a retry policy
	MinMultiplierMilli   = 1000    // 1.000
	MaxMultiplierMilli   = 100000  // 100.000
	MinLeaseMillis       = 100     // a lease is not shorter
	MaxLeaseMillis       = 12 * 3600_000
	MaxDelayMillis       = 366 * 86400_000 // delays, ttl, timeouts, retry delays
	MaxWaitMillis        = 10 * 60_000     // of Lease and ResultGet; clients ask again
	MaxCallbackBytes     = 64 << 10        // body of a batch's callback
	MaxCallbackHeaders   = MaxHeaders - 5  // the other five say the counts
	MaxKVKeys            = 16              // keys_if_undelivered of one message
	MaxKVStrings         = 16              // of a KV key, at least 1
	MaxKVStringBytes     = 256             // of one of them, which may be empty
	MaxScheduleBytes     = 96              // names of schedules
	MaxCronBytes         = 256             // cron expressions
	MaxZoneBytes         = 64              // names of time zones
	MaxJitterMillis      = 24 * 3600_000   // of a schedule
	ScheduleHeaders      = 2               // that a schedule adds to its message
	IDBytes              = 26              // message and session ids as text
	TokenBytes           = 52              // lease tokens as text: message id, lease id
)

// MaxBatchBytes is the most bytes of bodies that one batch may carry under a server's max_message_bytes.
func MaxBatchBytes(maxMessageBytes int64) int64 { return max(MinBatchBytes, maxMessageBytes) }

// MaxFrameBytes is how long a WebSocket message that a client sends may be under a server's max_message_bytes: an ack
// with the largest result and the largest batch of followers, and room for headers, names and framing. A client splits
// batches so as to stay below it.
func MaxFrameBytes(maxMessageBytes int64) int64 {
	return 2*MaxBatchBytes(maxMessageBytes) + 1<<20
}
