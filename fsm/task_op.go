package fsm

import "encoding/binary"

type (
	// Cancel ends a task that is not done or dead. Outcome.Count is 1 where it is out: its lease stays on the books until the
	// worker's answer or the deadline. Again: OK, Outcome.Duplicate.
	Cancel struct {
		Request Request
		Queue   []byte // empty where TaskID is a broker id
		TaskID  []byte
	}
	// Reschedule gives a task that waits (scheduled, ready or retrying) another time, another body, or both, and a new place.
	// Outcome.ID is its message, Outcome.Count the T at which it is due, 0 where it is ready now.
	Reschedule struct {
		Request Request
		Queue   []byte // empty where TaskID is a broker id
		TaskID  []byte
		When    When
		Time    int64 // AfterDelay: ms from T, ≤ MaxDelayMillis; AtTime: Unix ms, in the past means now
		// MaxWaitMillis, with AfterDelay, caps the due time at so long after the enqueue; 0: no cap.
		MaxWaitMillis int64
		HasBody       bool
		Body          []byte
		ContentType   []byte // with HasBody; empty: stays
	}
)

// When says what a Reschedule does to the time at which a task is due. Numbers are part of the log format.
type When uint8

// Ways to say a time.
const (
	KeepTime When = iota // stays; a ready task stays ready
	AfterDelay
	AtTime
	whenEnd
)

// Numbers of the operations on tasks by their id.
const (
	opCancel     uint8 = 40
	opReschedule uint8 = 41
)

func (*Cancel) opNumber() uint8     { return opCancel }
func (*Reschedule) opNumber() uint8 { return opReschedule }

func appendCancel(b []byte, o *Cancel) []byte {
	return appendBytes(appendBytes(appendRequest(b, &o.Request), o.Queue), o.TaskID)
}

func appendReschedule(b []byte, o *Reschedule) []byte {
	b = appendBytes(appendBytes(appendRequest(b, &o.Request), o.Queue), o.TaskID)
	b = append(b, byte(o.When))
	if o.When != KeepTime {
		b = binary.AppendVarint(b, o.Time)
	}
	b = binary.AppendVarint(b, o.MaxWaitMillis)
	b = appendBool(b, o.HasBody)
	if o.HasBody {
		b = appendBytes(appendBytes(b, o.Body), o.ContentType)
	}
	return b
}

// Cancel reads a Cancel.
func (d *Decoder) Cancel(op *Cancel) {
	d.take(opCancel)
	d.request(&op.Request)
	op.Queue, op.TaskID = d.bytes(), d.bytes()
}

// Reschedule reads a Reschedule.
func (d *Decoder) Reschedule(op *Reschedule) {
	d.take(opReschedule)
	d.request(&op.Request)
	op.Queue, op.TaskID = d.bytes(), d.bytes()
	op.When, op.Time = When(d.byte()), 0
	if op.When >= whenEnd {
		d.fail("Reschedule: time of kind %d, this build knows those below %d", op.When, whenEnd)
	}
	if op.When != KeepTime {
		op.Time = d.varint()
	}
	op.MaxWaitMillis = d.varint()
	op.Body, op.ContentType = nil, nil
	if op.HasBody = d.bool(); op.HasBody {
		op.Body, op.ContentType = d.bytes(), d.bytes()
	}
}
