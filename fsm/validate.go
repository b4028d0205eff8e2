package fsm

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Limits of what an operation may carry. They are part of the log format: every node refuses the same messages, so a
// change of one of them is a new format. Sizes are in bytes.
const (
	MaxQueueName    = 128
	MaxTaskID       = 128
	MaxKind         = 128
	MaxContentType  = 128
	MaxHeaders      = 64 // pairs
	MaxHeaderName   = 128
	MaxHeaderValue  = 4 << 10
	MaxHeaderBytes  = 16 << 10 // names and values together
	MaxKey          = 256
	MaxDedupKey     = 256 // judged at the door: the log carries its hash
	MaxWorker       = 256
	MaxError        = 4 << 10 // kept of a nack's error: cut on a rune, never refused
	MaxAttemptError = 256     // kept of it in the history
	MaxHistory      = 8       // failed attempts remembered
	MaxPriority     = 9
	DefaultPriority = 4

	MaxBodyBytes        = 16 << 20 // the most that max_message_bytes can be configured to
	DefaultMaxBodyBytes = 1 << 20

	MaxBatch      = 1000    // messages of an enqueue, of an ack's then
	MaxBatchBytes = 1 << 20 // or max_message_bytes where that is more
	MaxDeadIDs    = 1000    // ids of a requeue or delete
	MaxLeaseCount = 1000    // messages of one lease operation
	MaxLeaseBytes = 4 << 20 // bodies of one lease operation, but at least one message

	MinLeaseMillis = 100
	MaxLeaseMillis = 12 * 3600 * 1000
)

// Ranges and defaults of the queue options.
const (
	DefaultLeaseMillis     = 30_000
	DefaultMaxDead         = 1_000_000
	LimitMaxDead           = 10_000_000
	DefaultDeadRetention   = 30 * 24 * 3600 * 1000
	LimitDeadRetention     = 3660 * 24 * 3600 * 1000
	DefaultDedupWindow     = 24 * 3600 * 1000
	DefaultDedupMaxKeys    = 1_000_000
	LimitDedupMaxKeys      = 10_000_000
	DefaultResultTTL       = 24 * 3600 * 1000
	DefaultMaxResultsBytes = 256 << 20
	LimitMaxResultsBytes   = 1 << 40
	LimitMaxBytes          = 1 << 40
	LimitMaxInFlight       = 10_000_000
	LimitFairWeights       = 1000
	LimitFairWeight        = 100
	minRetentionMillis     = 1000
)

var errOptions = errors.New("queue options")

// Normalize fills the defaults in.
func (o *QueueOptions) Normalize() {
	o.LeaseMillis = orDefault(o.LeaseMillis, DefaultLeaseMillis)
	o.Retry.Normalize()
	o.MaxDead = orDefault(o.MaxDead, DefaultMaxDead)
	o.DeadRetentionMillis = orDefault(o.DeadRetentionMillis, DefaultDeadRetention)
	o.DedupWindowMillis = orDefault(o.DedupWindowMillis, DefaultDedupWindow)
	o.DedupMaxKeys = orDefault(o.DedupMaxKeys, DefaultDedupMaxKeys)
	o.ResultTTLMillis = orDefault(o.ResultTTLMillis, DefaultResultTTL)
	o.MaxResultsBytes = orDefault(o.MaxResultsBytes, DefaultMaxResultsBytes)
}

// Validate reports the first option out of its range: the field that an outcome names and an error that names option,
// value and range. Unset options are good.
func (o *QueueOptions) Validate() (Field, error) {
	if err := o.Retry.Validate(); err != nil {
		return FieldRetry, err
	}
	if o.DeadLetterQueue != "" && !ValidQueueName([]byte(o.DeadLetterQueue)) {
		return FieldDeadLetterQueue, fmt.Errorf("%w: dead_letter_queue %.40q is no queue name", errOptions, o.DeadLetterQueue)
	}
	if o.DeadOverflow > DeadDropOldest {
		return FieldOptions, fmt.Errorf("%w: dead_overflow %d is unknown", errOptions, o.DeadOverflow)
	}
	if o.Overflow >= overflowEnd {
		return FieldOverflow, fmt.Errorf("%w: overflow %d is unknown", errOptions, o.Overflow)
	}
	if o.Delivery >= deliverEnd {
		return FieldDelivery, fmt.Errorf("%w: delivery %d is unknown", errOptions, o.Delivery)
	}
	if o.Ordering >= orderEnd {
		return FieldOrdering, fmt.Errorf("%w: ordering %d is unknown", errOptions, o.Ordering)
	}
	for _, c := range [...]struct {
		name      string
		field     Field
		v, lo, hi int64
	}{
		{"lease_ms", FieldLease, o.LeaseMillis, MinLeaseMillis, MaxLeaseMillis},
		{"max_dead", FieldOptions, o.MaxDead, 1, LimitMaxDead},
		{"dead_letter_retention_ms", FieldOptions, o.DeadRetentionMillis, minRetentionMillis, LimitDeadRetention},
		{"dedup_window_ms", FieldOptions, o.DedupWindowMillis, minRetentionMillis, MaxDelayMillis},
		{"dedup_max_keys", FieldOptions, o.DedupMaxKeys, 1, LimitDedupMaxKeys},
		{"result_ttl_ms", FieldOptions, o.ResultTTLMillis, minRetentionMillis, MaxDelayMillis},
		{"max_results_bytes", FieldOptions, o.MaxResultsBytes, 1, LimitMaxResultsBytes},
		{"max_depth", FieldDepth, o.MaxDepth, 1, MaxQueueMessages},
		{"max_bytes", FieldBytes, o.MaxBytes, 1, LimitMaxBytes},
		{"max_in_flight", FieldInFlight, o.MaxInFlight, 1, LimitMaxInFlight},
		{"max_age_ms", FieldAge, o.MaxAgeMillis, 1, MaxDelayMillis},
		{"rate", FieldRate, o.RateMilli, 1, LimitRateMilli},
		{"burst", FieldBurst, o.Burst, 1, LimitBurst},
		{"max_in_flight_per_key", FieldInFlightPerKey, o.MaxInFlightPerKey, 1, LimitMaxInFlight},
		{"rate_per_key", FieldRatePerKey, o.RatePerKeyMilli, 1, LimitRateMilli},
		{"burst_per_key", FieldBurstPerKey, o.BurstPerKey, 1, LimitBurst},
	} {
		if c.v != 0 && (c.v < c.lo || c.v > c.hi) {
			return c.field, fmt.Errorf("%w: %s %d, want %d to %d", errOptions, c.name, c.v, c.lo, c.hi)
		}
	}
	if o.Burst != 0 && o.RateMilli == 0 {
		return FieldBurst, fmt.Errorf("%w: burst %d without a rate", errOptions, o.Burst)
	}
	if f, err := o.validatePush(); err != nil {
		return f, err
	}
	if f, err := o.validateMapping(); err != nil {
		return f, err
	}
	return o.validateKeys()
}

// validateKeys judges the options of keys that matter.
func (o *QueueOptions) validateKeys() (Field, error) {
	bad := func(f Field, format string, args ...any) (Field, error) {
		return f, fmt.Errorf("%w: "+format, append([]any{errOptions}, args...)...)
	}
	switch {
	case o.FairBy >= fairEnd:
		return bad(FieldFairBy, "fair_by %d is unknown", o.FairBy)
	case o.BurstPerKey != 0 && o.RatePerKeyMilli == 0:
		return bad(FieldBurstPerKey, "burst_per_key %d without rate_per_key", o.BurstPerKey)
	case len(o.FairWeights) > 0 && o.FairBy == FairByNone:
		return bad(FieldFairWeights, "fair_weights without fair_by")
	case len(o.FairWeights) > LimitFairWeights:
		return bad(FieldFairWeights, "%d fair_weights, want at most %d", len(o.FairWeights), LimitFairWeights)
	case o.MaxInFlightPerKey != 0 && o.Ordering != OrderUnordered:
		return bad(FieldInFlightPerKey, "max_in_flight_per_key in an ordered queue, where one message of a key is out at a time")
	case o.RatePerKeyMilli != 0 && o.Ordering == OrderFIFO:
		return bad(FieldRatePerKey, "rate_per_key in a fifo queue, where keys do not matter")
	case o.FairBy != FairByNone && o.Ordering == OrderFIFO:
		return bad(FieldFairBy, "fair_by in a fifo queue, where keys do not matter")
	case len(o.FairWeights) > 0 && o.Ordering == OrderPerKey:
		return bad(FieldFairWeights, "fair_weights in a per_key queue, where one message of a key is out at a time")
	}
	for i, w := range o.FairWeights {
		switch {
		case len(w.Key) == 0 || len(w.Key) > MaxKey:
			return bad(FieldFairWeights, "a key of %d bytes in fair_weights, want 1 to %d", len(w.Key), MaxKey)
		case w.Weight < 1 || w.Weight > LimitFairWeight:
			return bad(FieldFairWeights, "weight %d of key %.40q, want 1 to %d", w.Weight, w.Key, LimitFairWeight)
		case i > 0 && o.FairWeights[i-1].Key >= w.Key:
			return bad(FieldFairWeights, "keys %.40q and %.40q are not in order, or the same", o.FairWeights[i-1].Key, w.Key)
		}
	}
	return FieldNone, nil
}

// Equal compares two sets of options value by value; normalize both first to compare their meaning.
func (o *QueueOptions) Equal(p *QueueOptions) bool {
	return o.LeaseMillis == p.LeaseMillis && o.Retry.Equal(&p.Retry) && o.MaxDead == p.MaxDead &&
		o.DeadOverflow == p.DeadOverflow && o.DeadRetentionMillis == p.DeadRetentionMillis &&
		o.DedupWindowMillis == p.DedupWindowMillis && o.DedupMaxKeys == p.DedupMaxKeys &&
		o.ResultTTLMillis == p.ResultTTLMillis && o.MaxResultsBytes == p.MaxResultsBytes && o.Ordering == p.Ordering &&
		o.MaxDepth == p.MaxDepth && o.MaxBytes == p.MaxBytes && o.MaxInFlight == p.MaxInFlight &&
		o.MaxAgeMillis == p.MaxAgeMillis && o.Paused == p.Paused && o.RateMilli == p.RateMilli && o.Burst == p.Burst &&
		o.DeadLetterQueue == p.DeadLetterQueue && o.Overflow == p.Overflow && o.Delivery == p.Delivery &&
		o.MaxInFlightPerKey == p.MaxInFlightPerKey && o.RatePerKeyMilli == p.RatePerKeyMilli && o.BurstPerKey == p.BurstPerKey &&
		o.FairBy == p.FairBy && slices.Equal(o.FairWeights, p.FairWeights) && o.equalPush(p) && o.equalMapping(p)
}

// queueNameByte marks what a queue name is made of; the first byte must be a letter or digit.
var queueNameByte = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' ||
			c == '.' || c == '_' || c == ':' || c == '-'
	}
	return t
}()

// ValidQueueName reports whether b is 1–128 of A–Z a–z 0–9 . _ : - and begins with a letter or digit.
func ValidQueueName(b []byte) bool {
	if len(b) == 0 || len(b) > MaxQueueName {
		return false
	}
	for _, c := range b {
		if !queueNameByte[c] {
			return false
		}
	}
	c := b[0]
	return c != '.' && c != '_' && c != ':' && c != '-'
}

// ValidText reports whether b is valid UTF-8 of at most limit bytes. Names and texts that end up in JSON, metrics and
// logs must be; bodies, results and keys need not.
func ValidText(b []byte, limit int) bool { return len(b) <= limit && utf8.Valid(b) }

// CutText is the longest prefix of b of at most limit bytes that does not end in the middle of a rune. Bytes that are
// not UTF-8 are left as they are.
func CutText(b []byte, limit int) []byte {
	if len(b) <= limit {
		return b
	}
	n := limit
	for n > 0 && n > limit-utf8.UTFMax && !utf8.RuneStart(b[n]) {
		n--
	}
	if !utf8.RuneStart(b[n]) {
		n = limit // not UTF-8 here: any cut is as good
	}
	return b[:n]
}

// ValidateMessage checks every field of m that does not depend on the state. It returns the first bad field and the
// limit it broke (0 where the value is malformed rather than too big). maxBody is the body's limit in bytes; 0 or less,
// or more than MaxBodyBytes, means MaxBodyBytes. It does not allocate.
func ValidateMessage(m *Message, maxBody int) (f Field, limit int64, ok bool) {
	if maxBody <= 0 || maxBody > MaxBodyBytes {
		maxBody = MaxBodyBytes
	}
	switch {
	case len(m.Body) > maxBody:
		return FieldBody, int64(maxBody), false
	case len(m.TaskID) > MaxTaskID:
		return FieldTaskID, MaxTaskID, false
	case !utf8.Valid(m.TaskID):
		return FieldTaskID, 0, false
	case len(m.Kind) > MaxKind:
		return FieldKind, MaxKind, false
	case !utf8.Valid(m.Kind):
		return FieldKind, 0, false
	case len(m.ContentType) > MaxContentType:
		return FieldContentType, MaxContentType, false
	case !utf8.Valid(m.ContentType):
		return FieldContentType, 0, false
	case len(m.Key) > MaxKey:
		return FieldKey, MaxKey, false
	case m.Priority > MaxPriority:
		return FieldPriority, MaxPriority, false
	case m.DelayMillis < 0:
		return FieldDelay, 0, false
	case m.DelayMillis > MaxDelayMillis:
		return FieldDelay, MaxDelayMillis, false
	case m.DueAt < 0: // how far ahead it may be depends on T: the state judges that
		return FieldDelay, 0, false
	case m.TTLMillis < 0:
		return FieldTTL, 0, false
	case m.TTLMillis > MaxDelayMillis:
		return FieldTTL, MaxDelayMillis, false
	case m.TimeoutMillis < 0:
		return FieldTimeout, 0, false
	case m.TimeoutMillis > MaxDelayMillis:
		return FieldTimeout, MaxDelayMillis, false
	}
	if f, limit, ok := validateHeaders(m.Headers); !ok {
		return f, limit, false
	}
	if m.Retry.Kind != RetryDefault && m.Retry.Validate() != nil {
		return FieldRetry, 0, false
	}
	if len(m.Keys) > 0 {
		if limit, ok := validKeys(m.Keys); !ok {
			return FieldKVKeys, limit, false
		}
	}
	return FieldNone, 0, true
}

func validateHeaders(hs []Header) (Field, int64, bool) {
	if len(hs) > MaxHeaders {
		return FieldHeaders, MaxHeaders, false
	}
	total := 0
	for i := range hs {
		n, v := hs[i].Name, hs[i].Value
		switch {
		case len(n) == 0 || !utf8.Valid(n) || !utf8.Valid(v):
			return FieldHeaders, 0, false
		case len(n) > MaxHeaderName:
			return FieldHeaders, MaxHeaderName, false
		case len(v) > MaxHeaderValue:
			return FieldHeaders, MaxHeaderValue, false
		}
		if total += len(n) + len(v); total > MaxHeaderBytes {
			return FieldHeaders, MaxHeaderBytes, false
		}
	}
	return FieldNone, 0, true
}
