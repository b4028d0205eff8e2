package wire

// Result is what a worker returns, or what was recorded.
type Result struct {
	Output         Bytes  `cbor:"1,keyasint"`           // ≤ max_message_bytes; may be empty
	ContentType    string `cbor:"2,keyasint,omitempty"` // ≤ 128 bytes
	TaskID         string `cbor:"3,keyasint,omitempty"` // from here on: recorded results only
	Queue          string `cbor:"4,keyasint,omitempty"`
	Kind           string `cbor:"5,keyasint,omitempty"`
	Status         string `cbor:"6,keyasint,omitempty"` // succeeded
	Attempts       int32  `cbor:"7,keyasint,omitempty"`
	DurationMillis int64  `cbor:"8,keyasint,omitempty"`
	Worker         string `cbor:"9,keyasint,omitempty"`
	RecordedAt     int64  `cbor:"10,keyasint,omitempty"` // Unix ms, log time
	MessageID      string `cbor:"11,keyasint,omitempty"`
}

// Ack ends a lease with success.
type Ack struct {
	Token  string  `cbor:"1,keyasint"`
	Result *Result `cbor:"2,keyasint,omitempty"` // Output and ContentType only
	Then   []Then  `cbor:"3,keyasint,omitempty"` // ≤ 1000, within a batch's bytes; all of them or the ack is refused

	Mapping uint64 `cbor:"4,keyasint,omitempty"` // of who has evaluated the queue's map_to: its generation; failed_precondition, field mapping, where that has been changed
}

// Then is a message enqueued in the same log entry as the ack.
type Then struct {
	Queue   string  `cbor:"1,keyasint"`
	Message Message `cbor:"2,keyasint"`
}

// Acked answers Ack and ResultPush.
type Acked struct {
	Duplicate bool    `cbor:"1,keyasint,omitempty"`
	Result    *Result `cbor:"2,keyasint,omitempty"` // with Duplicate: the one recorded first, if any
	At        At      `cbor:"3,keyasint"`
}

// Nack ends a lease with failure.
type Nack struct {
	Token       string `cbor:"1,keyasint"`
	Error       string `cbor:"2,keyasint,omitempty"` // the first 4096 bytes are kept
	DelayMillis *int64 `cbor:"3,keyasint,omitempty"` // 0 to 366 days; absent: by the retry policy
	Permanent   bool   `cbor:"4,keyasint,omitempty"` // dead at once, whatever attempts are left
	Mapping     uint64 `cbor:"5,keyasint,omitempty"` // as in Ack, where it could not be evaluated: dead at once, reason mapping
}

// Nacked answers Nack.
type Nacked struct {
	Dead  bool  `cbor:"1,keyasint,omitempty"` // else it is retrying, due at DueAt
	DueAt int64 `cbor:"2,keyasint,omitempty"` // Unix ms, log time
	At    At    `cbor:"3,keyasint"`
}

// Extend sets the lease's deadline to LeaseMillis from now.
type Extend struct {
	Token       string `cbor:"1,keyasint"`
	LeaseMillis int64  `cbor:"2,keyasint,omitempty"` // 100 ms–12 h; absent: the queue's
}

// Extended answers Extend. Where the task was cancelled the extend is refused instead: cancelled.
type Extended struct {
	LeaseLeftMillis int64 `cbor:"1,keyasint"` // may be less than asked for: never beyond the attempt's timeout
	At              At    `cbor:"3,keyasint"`
}

// Release gives a message back.
type Release struct {
	Token string `cbor:"1,keyasint"`
}

// TaskRef names a task: by queue and task id, or by a broker id alone.
type TaskRef struct {
	Queue  string `cbor:"1,keyasint,omitempty"` // absent only where the task id is a broker's
	TaskID string `cbor:"2,keyasint"`           // 1–128 bytes
}

// ResultGet asks for a task's result.
type ResultGet struct {
	Task       TaskRef `cbor:"1,keyasint"`
	WaitMillis int64   `cbor:"2,keyasint,omitempty"` // ≤ 10 minutes
	Stale      bool    `cbor:"3,keyasint,omitempty"` // this node's own view will do, as of At
}

// ResultIs answers ResultGet. Status "succeeded" comes with Result where one was given or recorded (HasOutput says that
// the worker gave an output), "dead" with Dead, the dead letter. A wait that ran out is a timeout fault.
type ResultIs struct {
	Status    string  `cbor:"1,keyasint"` // "succeeded" or "dead"
	Result    *Result `cbor:"2,keyasint,omitempty"`
	HasOutput bool    `cbor:"3,keyasint,omitempty"` // Result.Output is what the worker gave, be it empty
	Dead      *Task   `cbor:"4,keyasint,omitempty"`
	At        At      `cbor:"5,keyasint"`
}

// ResultPush records a result without a lease.
type ResultPush struct {
	Task    TaskRef `cbor:"1,keyasint"`
	Kind    string  `cbor:"2,keyasint,omitempty"`
	Result  Result  `cbor:"3,keyasint"`
	Request Request `cbor:"4,keyasint"`
}

// TaskGet asks where a task stands.
type TaskGet struct {
	Task  TaskRef `cbor:"1,keyasint"`
	Stale bool    `cbor:"2,keyasint,omitempty"`
}

// TaskIs answers TaskGet and DeadGet.
type TaskIs struct {
	Task Task `cbor:"1,keyasint"`
	At   At   `cbor:"2,keyasint"`
}

// Task is all that is known of a message, task or dead letter.
type Task struct {
	ID                 string    `cbor:"1,keyasint"`
	OriginalID         string    `cbor:"2,keyasint,omitempty"`
	TaskID             string    `cbor:"3,keyasint"`
	Queue              string    `cbor:"4,keyasint"`
	Kind               string    `cbor:"5,keyasint,omitempty"`
	Status             string    `cbor:"6,keyasint"` // scheduled pending processing retrying succeeded dead cancelled
	Priority           uint8     `cbor:"7,keyasint"`
	Attempts           int32     `cbor:"8,keyasint"`
	MaxAttempts        int32     `cbor:"9,keyasint,omitempty"`
	EnqueuedAt         int64     `cbor:"10,keyasint,omitempty"`
	DueAt              int64     `cbor:"11,keyasint,omitempty"`
	LeaseEndsAt        int64     `cbor:"12,keyasint,omitempty"`
	ExpiresAt          int64     `cbor:"13,keyasint,omitempty"`
	EndedAt            int64     `cbor:"14,keyasint,omitempty"` // dead letters: failed_at
	Worker             string    `cbor:"15,keyasint,omitempty"`
	Error              string    `cbor:"16,keyasint,omitempty"`
	History            []Attempt `cbor:"17,keyasint,omitempty"`
	Reason             string    `cbor:"18,keyasint,omitempty"` // max_attempts permanent expired overflow mapping
	Redrives           int32     `cbor:"19,keyasint,omitempty"`
	OriginalEnqueuedAt int64     `cbor:"20,keyasint,omitempty"`
	ContentType        string    `cbor:"21,keyasint,omitempty"`
	Headers            []Header  `cbor:"22,keyasint,omitempty"`
	Key                Bytes     `cbor:"23,keyasint,omitempty"`
	Body               Bytes     `cbor:"24,keyasint,omitempty"`
	BodyBytes          int64     `cbor:"25,keyasint,omitempty"` // its size, also where a listing leaves the body out
	Origin             string    `cbor:"40,keyasint,omitempty"` // of a dead letter that was moved to Queue: the queue where it died, which names the task
	Held               string    `cbor:"41,keyasint,omitempty"` // of one that was moved: where it stands as a message of Queue, as Status names it
	Stay               string    `cbor:"42,keyasint,omitempty"` // of a dead letter whose queue has a dead_letter_queue: why it is not there: missing full dead_letter_queue
	HeldAttempts       int32     `cbor:"43,keyasint,omitempty"` // of one that was moved and lives there: its attempts in Queue, while Attempts are those that it died of
	HeldMaxAttempts    int32     `cbor:"44,keyasint,omitempty"` // and the most that it has there
}

// Attempt is one failed attempt.
type Attempt struct {
	At     int64  `cbor:"1,keyasint"`
	Number int32  `cbor:"2,keyasint"`
	Worker string `cbor:"3,keyasint,omitempty"`
	Error  string `cbor:"4,keyasint,omitempty"`
}
