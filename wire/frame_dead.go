package wire

import "reflect"

// Frame types of dead letters, beside those of version 1's beginning.
const (
	TypeDeadEdit Type = 150 // C → Enqueued (one outcome); requeues a dead letter with fields set anew
)

func init() {
	bodies[TypeDeadEdit] = reflect.TypeFor[DeadEdit]()
}

// DeadEdit requeues one dead letter with some fields set anew: all or nothing. What Fields does not name stays as it was, and is absent from Set.
type DeadEdit struct {
	Queue   string   `cbor:"1,keyasint"`
	ID      string   `cbor:"2,keyasint"`
	Fields  []string `cbor:"3,keyasint,omitempty"` // of body headers priority content_type kind key ttl_ms timeout_ms retry delay (delay_ms or enqueue_at)
	Set     Message  `cbor:"4,keyasint"`           // without task_id and dedup_key, which others know the task by
	Request Request  `cbor:"5,keyasint"`
}

// DeadList lists dead letters by (failed_at, id): those of the queue's own dead set and those that were moved to it. Reason, kind and times are indexed; text and headers are looked for in pages, so that a page may be short or empty and yet not the last.
type DeadList struct {
	Queue  string `cbor:"1,keyasint"`
	Limit  int32  `cbor:"2,keyasint,omitempty"` // 1–1000, 0: 100
	After  string `cbor:"3,keyasint,omitempty"`
	Reason string `cbor:"4,keyasint,omitempty"` // filter
	Kind   string `cbor:"5,keyasint,omitempty"` // filter
	Since  int64  `cbor:"6,keyasint,omitempty"` // filter: failed_at ≥, Unix ms
	Stale  bool   `cbor:"7,keyasint,omitempty"`

	Until   int64    `cbor:"8,keyasint,omitempty"`  // filter: failed_at ≤, Unix ms
	Text    string   `cbor:"9,keyasint,omitempty"`  // filter: in the error, the task id or the body, to the letter; ≤ 256 bytes
	Headers []Header `cbor:"10,keyasint,omitempty"` // filter: has each of these; an empty value stands for any. ≤ 8
	Brief   bool     `cbor:"11,keyasint,omitempty"` // without body, headers and history
}

// DeadGet reads one dead letter.
type DeadGet struct {
	Queue string `cbor:"1,keyasint"`
	ID    string `cbor:"2,keyasint"`
	Stale bool   `cbor:"3,keyasint,omitempty"`
}

// DeadIDs is the body of DeadRequeue and DeadDelete.
type DeadIDs struct {
	Queue   string   `cbor:"1,keyasint"`
	IDs     []string `cbor:"2,keyasint"` // 1–1000
	Request Request  `cbor:"3,keyasint"`
}
