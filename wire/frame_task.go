package wire

import "reflect"

// Frame types of operations on tasks by their id, and of results in the order of recording.
const (
	TypeTaskCancel     Type = 130 // C → TaskCancelled
	TypeTaskCancelled  Type = 131
	TypeTaskReschedule Type = 132 // C → TaskScheduled; another time, another body, or both
	TypeTaskScheduled  Type = 133
	TypeLeaseCancelled Type = 135 // S, tag 0: tasks of leases that are live were cancelled
	TypeResultList     Type = 136 // C → Results; waits up to Wait
	TypeResults        Type = 137
)

func init() {
	for t, r := range map[Type]reflect.Type{
		TypeTaskCancel:     reflect.TypeFor[TaskCancel](),
		TypeTaskCancelled:  reflect.TypeFor[TaskCancelled](),
		TypeTaskReschedule: reflect.TypeFor[TaskReschedule](),
		TypeTaskScheduled:  reflect.TypeFor[TaskScheduled](),
		TypeLeaseCancelled: reflect.TypeFor[LeaseCancelled](),
		TypeResultList:     reflect.TypeFor[ResultList](),
		TypeResults:        reflect.TypeFor[Results](),
	} {
		bodies[t] = r
	}
}

// TaskCancel ends a task that is neither done nor dead. Again: the same success.
type TaskCancel struct {
	Task    TaskRef `cbor:"1,keyasint"`
	Request Request `cbor:"2,keyasint"`
}

// TaskCancelled answers TaskCancel.
type TaskCancelled struct {
	ID        string `cbor:"1,keyasint"`           // of its message
	Out       bool   `cbor:"2,keyasint,omitempty"` // a worker has it: its slot stays taken until its answer or the lease's end
	Duplicate bool   `cbor:"3,keyasint,omitempty"` // it was cancelled before
	At        At     `cbor:"4,keyasint"`
}

// TaskReschedule changes a task that waits (scheduled, pending or retrying): at least one of DelayMillis, EnqueueAt and
// Replace. Without a time a task keeps its own, and one that is pending goes to the end of its queue.
type TaskReschedule struct {
	Task          TaskRef      `cbor:"1,keyasint"`
	DelayMillis   *int64       `cbor:"2,keyasint,omitempty"` // due so long from now, 0 to 366 days
	EnqueueAt     int64        `cbor:"3,keyasint,omitempty"` // due then, Unix ms, ≤ 366 days ahead, the past means now; only one of the two
	MaxWaitMillis int64        `cbor:"4,keyasint,omitempty"` // with DelayMillis: never due later than so long after the enqueue
	Replace       *Replacement `cbor:"5,keyasint,omitempty"`
	Request       Request      `cbor:"6,keyasint"`
}

// Replacement is what a task gets instead of its body.
type Replacement struct {
	Body        Bytes  `cbor:"1,keyasint"`           // ≤ max_message_bytes; may be empty
	ContentType string `cbor:"2,keyasint,omitempty"` // ≤ 128 bytes; absent: stays
}

// TaskScheduled answers TaskReschedule.
type TaskScheduled struct {
	ID    string `cbor:"1,keyasint"`           // of its message
	DueAt int64  `cbor:"2,keyasint,omitempty"` // Unix ms, log time; absent: it is pending now
	At    At     `cbor:"3,keyasint"`
}

// LeaseCancelled lists leases whose tasks were cancelled. Each is live, and counts against the window, until it is acked,
// nacked or released, which answers cancelled, or runs out. Sub 0: pulled ones.
type LeaseCancelled struct {
	Sub    uint32   `cbor:"1,keyasint"`
	Tokens []string `cbor:"2,keyasint"` // ≤ 10000
}

// ResultList asks for a queue's results in the order of recording.
type ResultList struct {
	Queue      string `cbor:"1,keyasint"`
	Kind       string `cbor:"2,keyasint,omitempty"` // only this one
	After      uint64 `cbor:"3,keyasint,omitempty"` // position: those behind it; one older than what is kept is the beginning
	Last       bool   `cbor:"4,keyasint,omitempty"` // only what is recorded from now on; then without After
	Limit      int32  `cbor:"5,keyasint,omitempty"` // 1–1000, 0: 100
	WaitMillis int64  `cbor:"6,keyasint,omitempty"` // for the first one, ≤ 10 minutes
	Stale      bool   `cbor:"7,keyasint,omitempty"`
}

// Results answers ResultList, oldest first. None: none came within the wait.
type Results struct {
	Results []Recorded `cbor:"1,keyasint"`
	Next    uint64     `cbor:"2,keyasint"`           // position to go on from: everything up to it has been looked at
	More    bool       `cbor:"3,keyasint,omitempty"` // there may be more already
	At      At         `cbor:"4,keyasint"`
}

// Recorded is a result with its position in the order of recording.
type Recorded struct {
	Position uint64 `cbor:"1,keyasint"` // rises over all queues of a group; a queue's own have gaps
	Result   Result `cbor:"2,keyasint"`
	EndsAt   int64  `cbor:"3,keyasint"` // Unix ms, log time: kept until then
}
