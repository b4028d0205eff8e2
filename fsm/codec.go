package fsm

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// An entry is
//
//	0        1             9            17
//	┌────────┬─────────────┬────────────┬──────┬──────┬───
//	│ format │ now, LE i64 │ shift, LE  │ op 0 │ op 1 │ …  to the end of the data
//	└────────┴─────────────┴────────────┴──────┴──────┴───
//
// and an op is its number in one byte and then its fields in the order of the struct. Numbers are minimal unsigned
// varints (signed ones zigzag), bytes have their length before them, ids are 16 bytes big endian, booleans are 0 or 1.
// What is usually unset hides behind presence bits, and a present field is never zero, so every value has exactly one
// encoding: what decodes encodes to the same bytes again.

// entryFormat is byte 0 of every entry this build writes, and the only one it reads.
const entryFormat = 1

// EntryHeaderSize is the size of format, now and shift. It does not vary, so that time can be stamped last.
const EntryHeaderSize = 17

// ErrFormat is wrapped by every error about bytes that are not what this build writes: an unknown version or operation,
// damage, trailing bytes. The text says where.
var ErrFormat = errors.New("bad format")

// ErrOpLimit is what CheckOp wraps.
var ErrOpLimit = errors.New("operation over the limit of the log format")

// Numbers of the operations. They are in the log: only ever added.
const (
	opBootstrap uint8 = 1 + iota
	opOpenSession
	opTouchSession
	opCreateQueue
	opSetQueue
	opDeleteQueue
	opPurgeQueue
	opEnqueue
	opLease
	opAck
	opNack
	opExtend
	opRelease
	opPushResult
	opDeadRequeue
	opDeadDelete
	opDeadPurge
	opCheckpoint
	opEnd = 80 // above every number; those in between that have no name are unknown
)

// Operations of dead letters: 50 to 59.
const opDeadEdit uint8 = 50

// Counts that the format itself allows, so that an entry cannot demand much more memory than its own size. They lie
// above what the rules allow (MaxBatch and so on), which answer with an outcome: a decode error stops the node.
const (
	formatMessages = 4096 // of an Enqueue or an Ack's Then
	formatIDs      = 4096 // of a DeadRequeue or DeadDelete
	formatHeaders  = 256  // of a message
	formatSteps    = 256  // of a retry schedule
	formatKeys     = 64   // of a message's keys_if_undelivered
	formatWeights  = 4096 // of a queue's fair_weights
)

func (*Bootstrap) opNumber() uint8    { return opBootstrap }
func (*OpenSession) opNumber() uint8  { return opOpenSession }
func (*TouchSession) opNumber() uint8 { return opTouchSession }
func (*CreateQueue) opNumber() uint8  { return opCreateQueue }
func (*SetQueue) opNumber() uint8     { return opSetQueue }
func (*DeleteQueue) opNumber() uint8  { return opDeleteQueue }
func (*PurgeQueue) opNumber() uint8   { return opPurgeQueue }
func (*Enqueue) opNumber() uint8      { return opEnqueue }
func (*Extend) opNumber() uint8       { return opExtend }
func (*PushResult) opNumber() uint8   { return opPushResult }
func (*DeadRequeue) opNumber() uint8  { return opDeadRequeue }
func (*DeadDelete) opNumber() uint8   { return opDeadDelete }
func (*DeadPurge) opNumber() uint8    { return opDeadPurge }
func (*Checkpoint) opNumber() uint8   { return opCheckpoint }
func (*DeadEdit) opNumber() uint8     { return opDeadEdit }

// opNames are the operations that this build knows.
var opNames = [256]string{
	opBootstrap: "Bootstrap", opOpenSession: "OpenSession", opTouchSession: "TouchSession", opCreateQueue: "CreateQueue",
	opSetQueue: "SetQueue", opDeleteQueue: "DeleteQueue", opPurgeQueue: "PurgeQueue", opEnqueue: "Enqueue", opLease: "Lease", opPull: "Pull",
	opAck: "Ack", opNack: "Nack", opExtend: "Extend", opRelease: "Release", opReleaseSpent: "ReleaseSpent", opPushResult: "PushResult",
	opDeadRequeue: "DeadRequeue", opDeadDelete: "DeadDelete", opDeadPurge: "DeadPurge", opCheckpoint: "Checkpoint",
	opCancel: "Cancel", opReschedule: "Reschedule",
	opDeadEdit:  "DeadEdit",
	opAckMapped: "AckMapped", opNackMapped: "NackMapped",
	opChangeQueue:    "ChangeQueue",
	opCreateSchedule: "CreateSchedule", opSetSchedule: "SetSchedule", opDeleteSchedule: "DeleteSchedule", opFireSchedule: "FireSchedule",
	opKVDelete: "KVDelete", opBatchCreate: "BatchCreate", opBatchSeal: "BatchSeal",
	opIdempotent: "Idempotent", opNothing: "Nothing",
}

// AppendEntryHeader begins an entry: format, now (log time, Unix ms) and shift (ms). The operations follow.
func AppendEntryHeader(b []byte, now, shift int64) []byte {
	b = append(b, entryFormat)
	b = binary.LittleEndian.AppendUint64(b, uint64(now))
	return binary.LittleEndian.AppendUint64(b, uint64(shift))
}

// SetEntryTime overwrites now and shift of an entry that AppendEntryHeader began.
func SetEntryTime(data []byte, now, shift int64) {
	_ = data[EntryHeaderSize-1]
	binary.LittleEndian.PutUint64(data[1:], uint64(now))
	binary.LittleEndian.PutUint64(data[9:], uint64(shift))
}

// CheckOp reports whether an operation fits the log format: the doors call it (or hold to stricter limits) before they
// pass an operation on, since AppendOp panics on one that does not fit. Errors wrap ErrOpLimit.
func CheckOp(op Op) error {
	over := func(what string, n, limit int) error {
		return fmt.Errorf("%w: %s has %d %s, want at most %d", ErrOpLimit, opNames[op.opNumber()], n, what, limit)
	}
	retry := func(p *RetryPolicy) error {
		if len(p.Steps) > formatSteps {
			return over("retry steps", len(p.Steps), formatSteps)
		}
		return nil
	}
	message := func(m *Message) error {
		if len(m.Headers) > formatHeaders {
			return over("headers in one message", len(m.Headers), formatHeaders)
		}
		if len(m.Keys) > formatKeys {
			return over("keys in one message", len(m.Keys), formatKeys)
		}
		return retry(&m.Retry)
	}
	options := func(o *QueueOptions) error {
		if len(o.FairWeights) > formatWeights {
			return over("fair weights", len(o.FairWeights), formatWeights)
		}
		if what, n := o.overPush(); n > 0 {
			return over(what, n, formatPush)
		}
		return retry(&o.Retry)
	}
	switch o := op.(type) {
	case *CreateQueue:
		return options(&o.Options)
	case *SetQueue:
		return options(&o.Options)
	case *ChangeQueue:
		if o.Only&^changeableSet != 0 {
			return fmt.Errorf("%w: ChangeQueue names options %#x, want only %#x", ErrOpLimit, uint64(o.Only), uint64(changeableSet))
		}
		return options(&o.Options)
	case *Enqueue:
		if len(o.Messages) > formatMessages {
			return over("messages", len(o.Messages), formatMessages)
		}
		for i := range o.Messages {
			if err := message(&o.Messages[i]); err != nil {
				return err
			}
		}
	case *BatchCreate:
		return message(&o.Callback)
	case *Ack:
		if len(o.Then) > formatMessages {
			return over("then messages", len(o.Then), formatMessages)
		}
		for i := range o.Then {
			if err := message(&o.Then[i].Message); err != nil {
				return err
			}
		}
	case *Idempotent:
		return o.check()
	case *Reschedule:
		if o.When >= whenEnd {
			return fmt.Errorf("%w: Reschedule has a time of kind %d, want less than %d", ErrOpLimit, o.When, whenEnd)
		}
	case *DeadEdit:
		return message(&o.Message)
	case *CreateSchedule:
		return message(&o.Schedule.Message)
	case *SetSchedule:
		return message(&o.Schedule.Message)
	case *DeadRequeue:
		if len(o.IDs) > formatIDs {
			return over("ids", len(o.IDs), formatIDs)
		}
	case *DeadDelete:
		if len(o.IDs) > formatIDs {
			return over("ids", len(o.IDs), formatIDs)
		}
	}
	return nil
}

// AppendOp appends the encoding of op, which must have passed CheckOp: it panics on one that the format cannot carry,
// since an entry that no node can read would stop them all. It does not allocate but to grow b.
func AppendOp(b []byte, op Op) []byte {
	b = append(b, op.opNumber())
	switch o := op.(type) {
	case *Bootstrap:
		b = append(b, o.Cluster[:]...)
		b = binary.LittleEndian.AppendUint16(b, o.Epoch)
	case *OpenSession, *Nothing:
	case *TouchSession:
		b = appendID(b, o.Session)
	case *CreateQueue:
		b = appendQueueOptions(appendBytes(appendRequest(b, &o.Request), o.Name), &o.Options)
	case *SetQueue:
		b = appendQueueOptions(appendBytes(appendRequest(b, &o.Request), o.Name), &o.Options)
	case *DeleteQueue:
		b = appendBytes(appendRequest(b, &o.Request), o.Name)
	case *PurgeQueue:
		b = appendBytes(appendRequest(b, &o.Request), o.Name)
	case *Enqueue:
		b = appendBytes(appendRequest(b, &o.Request), o.Queue)
		b = appendBool(b, o.AutoCreate)
		b = appendCount(b, len(o.Messages), formatMessages)
		for i := range o.Messages {
			b = appendMessage(b, &o.Messages[i])
		}
	case *Lease:
		b = appendBytes(appendRequest(b, &o.Request), o.Queue)
		b = appendID(b, o.Consumer.Session)
		b = binary.AppendUvarint(b, uint64(o.Consumer.Sub))
		b = appendBytes(b, o.Worker)
		b = binary.AppendVarint(b, int64(o.Max))
		b = binary.AppendVarint(b, o.MaxBytes)
		b = binary.AppendVarint(b, o.LeaseMillis)
	case *Ack:
		b = appendToken(b, o.Token)
		b = appendBool(b, o.HasResult)
		if o.HasResult {
			b = appendResult(b, &o.Result)
		}
		b = appendCount(b, len(o.Then), formatMessages)
		for i := range o.Then {
			b = appendMessage(appendBytes(b, o.Then[i].Queue), &o.Then[i].Message)
		}
		b = appendBool(b, o.ThenAutoCreate)
		if o.Mapping != 0 {
			b = appendUvarint(b, o.Mapping)
		}
	case *Nack:
		b = appendBytes(appendToken(b, o.Token), o.Error)
		b = binary.AppendVarint(b, o.DelayMillis)
		b = appendBool(b, o.Permanent)
		if o.Mapping != 0 {
			b = appendUvarint(b, o.Mapping)
		}
	case *Extend:
		b = binary.AppendVarint(appendToken(b, o.Token), o.LeaseMillis)
	case *Release:
		b = appendToken(b, o.Token)
	case *PushResult:
		b = appendBytes(appendRequest(b, &o.Request), o.Queue)
		b = appendBytes(appendBytes(b, o.TaskID), o.Kind)
		b = appendResult(b, &o.Result)
	case *DeadRequeue:
		b = appendIDs(appendBytes(appendRequest(b, &o.Request), o.Queue), o.IDs)
	case *DeadDelete:
		b = appendIDs(appendBytes(appendRequest(b, &o.Request), o.Queue), o.IDs)
	case *DeadPurge:
		b = appendBytes(appendRequest(b, &o.Request), o.Queue)
	case *DeadEdit:
		b = appendID(appendBytes(appendRequest(b, &o.Request), o.Queue), o.ID)
		b = appendMessage(appendUvarint(b, uint64(o.Fields)), &o.Message)
	case *ChangeQueue:
		b = appendChangeQueue(b, o)
	case *Checkpoint:
		b = binary.LittleEndian.AppendUint64(b, o.Nonce)
	case *Cancel:
		b = appendCancel(b, o)
	case *Reschedule:
		b = appendReschedule(b, o)
	case *BatchCreate:
		b = appendBatchCreate(b, o)
	case *BatchSeal:
		b = appendBatchSeal(b, o)
	case *KVDelete:
		b = appendKVDelete(b, o)
	case *CreateSchedule:
		b = appendSchedule(b, &o.Request, &o.Schedule)
	case *SetSchedule:
		b = appendSchedule(b, &o.Request, &o.Schedule)
	case *DeleteSchedule:
		b = appendBytes(appendRequest(b, &o.Request), o.Name)
	case *FireSchedule:
		b = appendFire(b, o)
	case *Idempotent:
		b = appendIdempotent(b, o)
	default:
		panic(fmt.Sprintf("fsm: no encoding for operation %T", op))
	}
	return b
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendUvarint(b []byte, v uint64) []byte {
	if v < 0x80 {
		return append(b, byte(v))
	}
	return binary.AppendUvarint(b, v)
}

func appendBytes(b, v []byte) []byte { return append(appendUvarint(b, uint64(len(v))), v...) }

func appendCount(b []byte, n, limit int) []byte {
	if n > limit {
		panic(fmt.Sprintf("fsm: %d elements in an operation, the format carries %d: CheckOp was not asked", n, limit))
	}
	return appendUvarint(b, uint64(n))
}

func appendID(b []byte, id ID) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, id.Hi), id.Lo)
}

func appendToken(b []byte, t Token) []byte { return appendID(appendID(b, t.Message), t.Lease) }

func appendIDs(b []byte, ids []ID) []byte {
	b = appendCount(b, len(ids), formatIDs)
	for _, id := range ids {
		b = appendID(b, id)
	}
	return b
}

// appendRequest writes one zero byte for the absent request, else 1 and its fields.
func appendRequest(b []byte, r *Request) []byte {
	if *r == (Request{}) {
		return append(b, 0)
	}
	b = appendID(append(b, 1), r.Session)
	return appendUvarint(appendUvarint(b, r.Number), r.Low)
}

func appendResult(b []byte, r *Result) []byte {
	return appendBytes(appendBytes(b, r.Output), r.ContentType)
}

// Presence bits of a message, the usual ones in the first seven so that the word is one byte.
const (
	msgKind = 1 << iota
	msgContentType
	msgHeaders
	msgPriority
	msgTaskID
	msgDedup
	msgKey
	msgDelay
	msgDueAt
	msgTTL
	msgTimeout
	msgRetry
	msgKeys
	msgBatch
	msgEnd
)

func bit(set bool, b uint64) uint64 {
	if set {
		return b
	}
	return 0
}

func appendMessage(b []byte, m *Message) []byte {
	retry := m.Retry.Kind != RetryDefault || retryBits(&m.Retry) != 0
	f := bit(len(m.Kind) > 0, msgKind) | bit(len(m.ContentType) > 0, msgContentType) | bit(len(m.Headers) > 0, msgHeaders) |
		bit(m.Priority != 0, msgPriority) | bit(len(m.TaskID) > 0, msgTaskID) | bit(m.HasDedup, msgDedup) |
		bit(len(m.Key) > 0, msgKey) | bit(m.DelayMillis != 0, msgDelay) | bit(m.DueAt != 0, msgDueAt) |
		bit(m.TTLMillis != 0, msgTTL) | bit(m.TimeoutMillis != 0, msgTimeout) | bit(retry, msgRetry) |
		bit(len(m.Keys) > 0, msgKeys) | bit(!m.Batch.IsZero(), msgBatch)
	b = appendUvarint(b, f)
	if f&msgTaskID != 0 {
		b = appendBytes(b, m.TaskID)
	}
	if f&msgKind != 0 {
		b = appendBytes(b, m.Kind)
	}
	if f&msgContentType != 0 {
		b = appendBytes(b, m.ContentType)
	}
	if f&msgHeaders != 0 {
		b = appendCount(b, len(m.Headers), formatHeaders)
		for i := range m.Headers {
			b = appendBytes(appendBytes(b, m.Headers[i].Name), m.Headers[i].Value)
		}
	}
	b = appendBytes(b, m.Body)
	if f&msgKey != 0 {
		b = appendBytes(b, m.Key)
	}
	if f&msgPriority != 0 {
		b = append(b, m.Priority)
	}
	if f&msgDedup != 0 {
		b = append(append(b, m.DedupKey[:]...), m.DedupContent[:]...)
	}
	for _, v := range [...]int64{m.DelayMillis, m.DueAt, m.TTLMillis, m.TimeoutMillis} {
		if v != 0 {
			b = binary.AppendVarint(b, v)
		}
	}
	if retry {
		b = appendRetry(b, &m.Retry)
	}
	if f&msgKeys != 0 {
		b = appendKeys(b, m.Keys)
	}
	if f&msgBatch != 0 {
		b = appendID(b, m.Batch)
	}
	return b
}

// Presence bits of a retry policy.
const (
	retrySteps = 1 << iota
	retryInitial
	retryMultiplier
	retryMax
	retryAttempts
	retryJitter
	retryEnd
)

func retryBits(p *RetryPolicy) uint64 {
	return bit(len(p.Steps) > 0, retrySteps) | bit(p.InitialMillis != 0, retryInitial) |
		bit(p.MultiplierMilli != 0, retryMultiplier) | bit(p.MaxMillis != 0, retryMax) |
		bit(p.MaxAttempts != 0, retryAttempts) | bit(p.JitterMillis != 0, retryJitter)
}

func appendRetry(b []byte, p *RetryPolicy) []byte {
	f := retryBits(p)
	b = append(b, byte(p.Kind), byte(f))
	if f&retrySteps != 0 {
		b = appendCount(b, len(p.Steps), formatSteps)
		for _, s := range p.Steps {
			b = binary.AppendVarint(b, s)
		}
	}
	for _, v := range [...]int64{p.InitialMillis, p.MultiplierMilli, p.MaxMillis, int64(p.MaxAttempts), p.JitterMillis} {
		if v != 0 {
			b = binary.AppendVarint(b, v)
		}
	}
	return b
}

// Presence bits of queue options.
const (
	optLease = 1 << iota
	optRetry
	optMaxDead
	optOverflow
	optDeadRetention
	optDedupWindow
	optDedupKeys
	optResultTTL
	optResultBytes
	optOrdering
	optMaxDepth
	optMaxBytes
	optMaxInFlight
	optMaxAge
	optPaused // without a value
	optEnd

	optDeadQueue    = 1 << 30
	optOverflowMode = 1 << 16
	optDelivery     = 1 << 17
	optPush         = 1 << 18
	optMapping      = 1 << 19
	optInFlightKey  = 1 << 20
	optRate         = 1 << 21
	optBurst        = 1 << 22
	optRateKey      = 1 << 23
	optBurstKey     = 1 << 24
	optFairBy       = 1 << 25
	optFairWeights  = 1 << 26
	optKnown        = optEnd - 1 | optDeadQueue | optOverflowMode | optDelivery | optPush | optMapping | (optFairWeights<<1 - optInFlightKey)
)

func appendQueueOptions(b []byte, o *QueueOptions) []byte {
	retry := o.Retry.Kind != RetryDefault || retryBits(&o.Retry) != 0
	f := bit(o.LeaseMillis != 0, optLease) | bit(retry, optRetry) | bit(o.MaxDead != 0, optMaxDead) |
		bit(o.DeadOverflow != 0, optOverflow) | bit(o.DeadRetentionMillis != 0, optDeadRetention) |
		bit(o.DedupWindowMillis != 0, optDedupWindow) | bit(o.DedupMaxKeys != 0, optDedupKeys) |
		bit(o.ResultTTLMillis != 0, optResultTTL) | bit(o.MaxResultsBytes != 0, optResultBytes) |
		bit(o.Ordering != 0, optOrdering) | bit(o.MaxDepth != 0, optMaxDepth) | bit(o.MaxBytes != 0, optMaxBytes) |
		bit(o.MaxInFlight != 0, optMaxInFlight) | bit(o.MaxAgeMillis != 0, optMaxAge) | bit(o.Paused, optPaused) |
		bit(o.DeadLetterQueue != "", optDeadQueue) | bit(o.Overflow != 0, optOverflowMode) | bit(o.Delivery != 0, optDelivery) |
		bit(o.RateMilli != 0, optRate) | bit(o.Burst != 0, optBurst) | bit(o.MaxInFlightPerKey != 0, optInFlightKey) |
		bit(o.RatePerKeyMilli != 0, optRateKey) | bit(o.BurstPerKey != 0, optBurstKey) | bit(o.FairBy != 0, optFairBy) |
		bit(len(o.FairWeights) > 0, optFairWeights) | bit(o.pushBits() != 0, optPush) | bit(o.mappingBytes() != 0, optMapping)
	b = appendUvarint(b, f)
	if f&optLease != 0 {
		b = binary.AppendVarint(b, o.LeaseMillis)
	}
	if retry {
		b = appendRetry(b, &o.Retry)
	}
	if f&optMaxDead != 0 {
		b = binary.AppendVarint(b, o.MaxDead)
	}
	if f&optOverflow != 0 {
		b = append(b, byte(o.DeadOverflow))
	}
	for _, v := range [...]int64{
		o.DeadRetentionMillis, o.DedupWindowMillis, o.DedupMaxKeys, o.ResultTTLMillis, o.MaxResultsBytes,
	} {
		if v != 0 {
			b = binary.AppendVarint(b, v)
		}
	}
	if f&optOrdering != 0 {
		b = append(b, byte(o.Ordering))
	}
	for _, v := range [...]int64{o.MaxDepth, o.MaxBytes, o.MaxInFlight, o.MaxAgeMillis} {
		if v != 0 {
			b = binary.AppendVarint(b, v)
		}
	}
	if f&optDeadQueue != 0 {
		b = append(appendUvarint(b, uint64(len(o.DeadLetterQueue))), o.DeadLetterQueue...)
	}
	if f&optOverflowMode != 0 {
		b = append(b, byte(o.Overflow))
	}
	if f&optDelivery != 0 {
		b = append(b, byte(o.Delivery))
	}
	for _, v := range [...]int64{o.RateMilli, o.Burst, o.MaxInFlightPerKey, o.RatePerKeyMilli, o.BurstPerKey} {
		if v != 0 {
			b = binary.AppendVarint(b, v)
		}
	}
	if f&optFairBy != 0 {
		b = append(b, byte(o.FairBy))
	}
	if f&optFairWeights != 0 {
		b = appendCount(b, len(o.FairWeights), formatWeights)
		for _, w := range o.FairWeights {
			b = append(appendUvarint(b, uint64(len(w.Key))), w.Key...)
			b = binary.AppendVarint(b, w.Weight)
		}
	}
	if f&optPush != 0 {
		b = appendPush(b, o)
	}
	if f&optMapping != 0 {
		b = appendMapping(b, o)
	}
	return b
}
