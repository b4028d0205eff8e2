package wire

import (
	"bytes"
	"fmt"
	"reflect"
	"sync"

	"github.com/fxamacker/cbor/v2"
)

// AppendFrame appends one frame [type, tag, body] to b and returns the result. body is a pointer to the struct that the
// type carries (see NewBody); another one is a bug of the caller and panics. Text that came from outside must be valid
// UTF-8 (the Validate methods check it, CutText repairs it), or the other side refuses the frame.
func AppendFrame(b []byte, t Type, tag uint64, body any) []byte {
	b = appendHead(append(b, majorArray|3), majorUint, uint64(t))
	b = appendHead(b, majorUint, tag)
	if out, ok := appendHot(b, body); ok {
		return out
	}
	return appendCold(b, t, body)
}

// AppendFault appends the fault that answers the request of the tag; tag 0 is about the connection.
func AppendFault(b []byte, tag uint64, f *Fault) []byte {
	b = appendHead(append(b, majorArray|3), majorUint, uint64(TypeFault))
	return appendFault(appendHead(b, majorUint, tag), f)
}

// Decode decodes the frame's body into dst, a pointer to the struct of the frame's type. It is strict: it accepts the
// one encoding that AppendFrame makes of the struct and nothing else. Whatever dst held is gone, though its slices and
// equal strings are used again. Fields of type Bytes alias the input, strings do not. After an error dst holds rubbish.
// Errors are *FormatError, offsets counting from the body's start.
func (f Raw) Decode(dst any) error { return f.DecodeWith(dst, nil) }

// DecodeWith is Decode with memory for ids and tokens, so that they cost no allocation each.
func (f Raw) DecodeWith(dst any, s *Strings) error {
	d := dec{b: f.Body, strings: s}
	if decodeHot(&d, dst) {
		return d.end()
	}
	return decodeCold(f, dst)
}

// NewBody gives a new, empty struct of the kind that frames of type t carry; nil if no such type exists.
func NewBody(t Type) any {
	if r, ok := bodies[t]; ok {
		return reflect.New(r).Interface()
	}
	return nil
}

// Types lists all frame types of this version, unordered.
func Types() []Type {
	ts := make([]Type, 0, len(bodies))
	for t := range bodies {
		ts = append(ts, t)
	}
	return ts
}

var bodies = map[Type]reflect.Type{
	TypeHello:           reflect.TypeFor[Hello](),
	TypeWelcome:         reflect.TypeFor[Welcome](),
	TypeFault:           reflect.TypeFor[Fault](),
	TypeOK:              reflect.TypeFor[OK](),
	TypeRedirect:        reflect.TypeFor[Redirect](),
	TypeOpenSession:     reflect.TypeFor[OpenSession](),
	TypeSessionOpened:   reflect.TypeFor[SessionOpened](),
	TypeEnqueue:         reflect.TypeFor[Enqueue](),
	TypeEnqueued:        reflect.TypeFor[Enqueued](),
	TypeLease:           reflect.TypeFor[Lease](),
	TypeLeased:          reflect.TypeFor[Leased](),
	TypeSubscribe:       reflect.TypeFor[Subscribe](),
	TypeDelivery:        reflect.TypeFor[Delivery](),
	TypeCredit:          reflect.TypeFor[Credit](),
	TypeLeaseGone:       reflect.TypeFor[LeaseGone](),
	TypeUnsubscribe:     reflect.TypeFor[Unsubscribe](),
	TypeStarted:         reflect.TypeFor[Started](),
	TypeResume:          reflect.TypeFor[Resume](),
	TypeResumed:         reflect.TypeFor[Resumed](),
	TypeAck:             reflect.TypeFor[Ack](),
	TypeAcked:           reflect.TypeFor[Acked](),
	TypeNack:            reflect.TypeFor[Nack](),
	TypeNacked:          reflect.TypeFor[Nacked](),
	TypeExtend:          reflect.TypeFor[Extend](),
	TypeExtended:        reflect.TypeFor[Extended](),
	TypeRelease:         reflect.TypeFor[Release](),
	TypeAckBatch:        reflect.TypeFor[AckBatch](),
	TypeAckedBatch:      reflect.TypeFor[AckedBatch](),
	TypeResultGet:       reflect.TypeFor[ResultGet](),
	TypeResultIs:        reflect.TypeFor[ResultIs](),
	TypeResultPush:      reflect.TypeFor[ResultPush](),
	TypeTask:            reflect.TypeFor[TaskGet](),
	TypeTaskIs:          reflect.TypeFor[TaskIs](),
	TypeQueueCreate:     reflect.TypeFor[QueueWrite](),
	TypeQueueSet:        reflect.TypeFor[QueueWrite](),
	TypeQueueDelete:     reflect.TypeFor[QueueRef](),
	TypeQueuePurge:      reflect.TypeFor[QueueRef](),
	TypeCounted:         reflect.TypeFor[Counted](),
	TypeQueueList:       reflect.TypeFor[QueueList](),
	TypeQueues:          reflect.TypeFor[Queues](),
	TypeQueueShow:       reflect.TypeFor[QueueRef](),
	TypeQueueIs:         reflect.TypeFor[QueueIs](),
	TypePeek:            reflect.TypeFor[Peek](),
	TypeTasks:           reflect.TypeFor[Tasks](),
	TypeDeadList:        reflect.TypeFor[DeadList](),
	TypeDeadGet:         reflect.TypeFor[DeadGet](),
	TypeDeadRequeue:     reflect.TypeFor[DeadIDs](),
	TypeDeadDelete:      reflect.TypeFor[DeadIDs](),
	TypeDeadPurge:       reflect.TypeFor[QueueRef](),
	TypeClusterStatus:   reflect.TypeFor[ClusterStatus](),
	TypeClusterIs:       reflect.TypeFor[ClusterIs](),
	TypeClusterVerify:   reflect.TypeFor[ClusterVerify](),
	TypeVerified:        reflect.TypeFor[Verified](),
	TypeClusterTransfer: reflect.TypeFor[ClusterTransfer](),
	TypeClusterRemove:   reflect.TypeFor[ClusterRemove](),
	TypeKVGet:           reflect.TypeFor[KVGet](),
	TypeKVIs:            reflect.TypeFor[KVIs](),
	TypeKVList:          reflect.TypeFor[KVList](),
	TypeKVEntries:       reflect.TypeFor[KVEntries](),
	TypeKVDelete:        reflect.TypeFor[KVDelete](),
	TypeKVWatch:         reflect.TypeFor[KVWatch](),
	TypeKVChanges:       reflect.TypeFor[KVChanges](),
	TypeScheduleCreate:  reflect.TypeFor[ScheduleWrite](),
	TypeScheduleSet:     reflect.TypeFor[ScheduleWrite](),
	TypeScheduleDelete:  reflect.TypeFor[ScheduleRef](),
	TypeScheduleShow:    reflect.TypeFor[ScheduleRef](),
	TypeScheduleIs:      reflect.TypeFor[ScheduleIs](),
	TypeScheduleList:    reflect.TypeFor[ScheduleList](),
	TypeSchedules:       reflect.TypeFor[Schedules](),
	TypeBatchCreate:     reflect.TypeFor[BatchCreate](),
	TypeBatchCreated:    reflect.TypeFor[BatchCreated](),
	TypeBatchSeal:       reflect.TypeFor[BatchSeal](),
	TypeBatchShow:       reflect.TypeFor[BatchShow](),
	TypeBatchIs:         reflect.TypeFor[BatchIs](),
}

// The library's side: everything that is not on the hot path, and the oracle of the tests for what is.

var libEnc, libDec = func() (cbor.UserBufferEncMode, cbor.DecMode) {
	eo := cbor.CoreDetEncOptions()
	eo.NilContainers = cbor.NilContainerAsEmpty
	eo.TagsMd = cbor.TagsForbidden
	e, err := eo.UserBufferEncMode()
	if err != nil {
		panic(err)
	}
	d, err := cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		MaxNestedLevels:   maxDepth,
		MaxArrayElements:  maxItems,
		MaxMapPairs:       maxPairs,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		UTF8:              cbor.UTF8RejectInvalid,
		FieldNameMatching: cbor.FieldNameMatchingCaseSensitive,
		NaN:               cbor.NaNDecodeForbidden,
		Inf:               cbor.InfDecodeForbidden,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return e, d
}()

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const keptBuffer = 1 << 20 // a larger buffer is not kept for the next frame

func appendCold(b []byte, t Type, body any) []byte {
	r := reflect.TypeOf(body)
	if want := bodies[t]; want == nil || r == nil || r.Kind() != reflect.Pointer || r.Elem() != want {
		panic(fmt.Sprintf("wire: a frame of type %d carries *%v, not %T", t, want, body))
	}
	buf := buffers.Get().(*bytes.Buffer)
	buf.Reset()
	if err := libEnc.MarshalToBuffer(body, buf); err != nil {
		panic(fmt.Sprintf("wire: encode %T: %v", body, err))
	}
	b = append(b, buf.Bytes()...)
	if buf.Cap() <= keptBuffer {
		buffers.Put(buf)
	}
	return b
}

func decodeCold(f Raw, dst any) error {
	r := reflect.TypeOf(dst)
	if want := bodies[f.Type]; want == nil || r == nil || r.Kind() != reflect.Pointer || r.Elem() != want {
		return badf(0, "type %d does not carry %T", f.Type, dst)
	}
	// Shape first: what the library would let pass or report less clearly, and bounds before it allocates.
	end, ferr := skip(f.Body, 0)
	if ferr != nil {
		return ferr
	}
	if end != len(f.Body) {
		return badf(end, "%d bytes follow the end of the body", len(f.Body)-end)
	}
	reflect.ValueOf(dst).Elem().SetZero()
	if err := libDec.Unmarshal(f.Body, dst); err != nil {
		return badf(0, "%v", err)
	}
	// One value has one encoding: a missing required key, an optional key with its default, keys out of order.
	buf := buffers.Get().(*bytes.Buffer)
	buf.Reset()
	if err := libEnc.MarshalToBuffer(dst, buf); err != nil {
		return badf(0, "%v", err)
	}
	again := buf.Bytes()
	if !bytes.Equal(again, f.Body) {
		i := 0
		for i < len(again) && i < len(f.Body) && again[i] == f.Body[i] {
			i++
		}
		return badf(i, "not the one encoding of this %T: required keys are all there, optional ones with their default are left out, keys ascend", dst)
	}
	if buf.Cap() <= keptBuffer {
		buffers.Put(buf)
	}
	return nil
}
