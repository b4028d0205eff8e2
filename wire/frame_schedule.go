package wire

// Schedule is what a schedule is declared to be: when which message goes into which queue.
type Schedule struct {
	Name         string  `cbor:"1,keyasint"`           // 1–96 bytes, made of what queue names are made of
	Queue        string  `cbor:"2,keyasint"`           // made with defaults at a firing if it is missing and queues are made on enqueue
	Cron         string  `cbor:"3,keyasint"`           // minute hour day month weekday, seconds before them if wanted; @daily and the like; @every 90s. ≤ 256 bytes
	Zone         string  `cbor:"4,keyasint,omitempty"` // IANA name, ≤ 64 bytes; absent: UTC
	JitterMillis int64   `cbor:"5,keyasint,omitempty"` // each firing is late by a value in [0, jitter], the same whoever leads; ≤ 24 h
	Missed       string  `cbor:"6,keyasint,omitempty"` // of times that nobody could fire for a minute: "skip" (default) none, "once" the latest, "all" the latest 100
	Paused       bool    `cbor:"7,keyasint,omitempty"` // nothing is fired, and nothing made up for when it goes on
	Message      Message `cbor:"8,keyasint"`           // without task_id, dedup_key, delay_ms, enqueue_at and batch; ≤ 62 headers
}

// ScheduleWrite is the body of ScheduleCreate and ScheduleSet.
type ScheduleWrite struct {
	Schedule Schedule `cbor:"1,keyasint"`
	Request  Request  `cbor:"2,keyasint"`
}

// ScheduleRef is the body of ScheduleDelete (with Request) and ScheduleShow (with Stale).
type ScheduleRef struct {
	Name    string  `cbor:"1,keyasint"`
	Request Request `cbor:"2,keyasint"`
	Stale   bool    `cbor:"3,keyasint,omitempty"`
}

// ScheduleList lists schedules by name.
type ScheduleList struct {
	After string `cbor:"1,keyasint,omitempty"`
	Limit int32  `cbor:"2,keyasint,omitempty"` // 1–1000, 0: 100
	Stale bool   `cbor:"3,keyasint,omitempty"`
}

// Schedules answers ScheduleList, messages left empty. Next is the cursor for more, empty at the end.
type Schedules struct {
	Schedules []ScheduleInfo `cbor:"1,keyasint"`
	Next      string         `cbor:"2,keyasint,omitempty"`
	At        At             `cbor:"3,keyasint"`
}

// ScheduleIs answers ScheduleShow.
type ScheduleIs struct {
	Schedule ScheduleInfo `cbor:"1,keyasint"`
	At       At           `cbor:"2,keyasint"`
}

// ScheduleInfo is a schedule and what became of its times.
type ScheduleInfo struct {
	Schedule  Schedule `cbor:"1,keyasint"`
	CreatedAt int64    `cbor:"2,keyasint"`
	ChangedAt int64    `cbor:"3,keyasint"`
	NextAt    int64    `cbor:"4,keyasint,omitempty"` // the next fire time; absent: paused, none within five years, or not computed yet
	DueAt     int64    `cbor:"5,keyasint,omitempty"` // NextAt and its jitter
	LastAt    int64    `cbor:"6,keyasint,omitempty"` // fire time of the last message; its task id is name@fire time
	LastID    string   `cbor:"7,keyasint,omitempty"`
	Fired     int64    `cbor:"8,keyasint"`            // messages made
	Skipped   int64    `cbor:"9,keyasint"`            // fire times passed over by the policy; at most 10,000 are counted at once
	Refused   int64    `cbor:"10,keyasint"`           // fire times whose message the queue did not take
	RefusedAt int64    `cbor:"11,keyasint,omitempty"` // the last one of them
	Refusal   string   `cbor:"12,keyasint,omitempty"` // why
}

// Retry policy kinds.
const (
	RetrySchedule    = "schedule"    // waits Steps[n−1] after attempt n; len(Steps)+1 attempts
	RetryFixed       = "fixed"       // waits InitialMillis
	RetryLinear      = "linear"      // waits InitialMillis·n, at most MaxMillis
	RetryExponential = "exponential" // waits InitialMillis·multiplier^(n−1), at most MaxMillis
)

// States of a task, as Task.Status and Result.Status name them.
const (
	StatusScheduled  = "scheduled"
	StatusPending    = "pending"
	StatusProcessing = "processing"
	StatusRetrying   = "retrying"
	StatusSucceeded  = "succeeded"
	StatusDead       = "dead"
	StatusCancelled  = "cancelled"
)

// Values of Schedule.Missed.
const (
	MissedSkip = "skip"
	MissedOnce = "once"
	MissedAll  = "all"
)

// Values of QueueOptions.DeadOverflow.
const (
	DeadRefuse     = "refuse"
	DeadDropOldest = "drop_oldest"

	OrderUnordered = "unordered"
	OrderFIFO      = "fifo"
	OrderPerKey    = "per_key"
)

// Values of QueueOptions.Overflow.
const (
	FairByNone = "none"
	FairByKey  = "key"

	OverflowReject     = "reject"
	OverflowDropOldest = "drop_oldest"
)

// Values of QueueOptions.Delivery.
const (
	DeliverAtLeastOnce = "at_least_once"
	DeliverAtMostOnce  = "at_most_once"
)
