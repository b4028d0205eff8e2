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
