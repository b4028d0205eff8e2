package history

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/quorate/quorate/fsm"
)

// Op says what was asked of the cluster, or what an entry of its log did.
type Op string

// What clients do; effects of the log have the same names.
const (
	Enqueue Op = "enqueue"
	Lease   Op = "lease"
	Ack     Op = "ack"
	Nack    Op = "nack"
	Extend  Op = "extend"
	Release Op = "release"
	Push    Op = "push" // of a result without a lease
	Cancel  Op = "cancel"
	Requeue Op = "requeue" // of a dead letter
	Delete  Op = "delete"  // of a dead letter
	Edit    Op = "edit"    // of a dead letter, which comes back with other fields
	Purge   Op = "purge"   // of a queue's dead letters
	Move    Op = "move"    // of what waits to another time, or with another body
	Empty   Op = "empty"   // of a queue: what waits in it goes
	Drop    Op = "drop"    // of a queue with all it has
	Plan    Op = "plan"    // of a schedule, which is made or changed
	Unplan  Op = "unplan"  // of a schedule, which is deleted
	Erase   Op = "erase"   // of a key of the KV
	Look    Op = "look"    // at a key of the KV; linearizable
	Batch   Op = "batch"   // is made
	Seal    Op = "seal"    // of a batch
	Read    Op = "read"    // of a task's result, while things go on; linearizable
	Final   Op = "final"
)

// What only the log has.
const (
	Entry  Op = "entry"  // an entry begins: its index, T, ΣShift
	Queue  Op = "queue"  // a queue was made
	Expire Op = "expire" // a due move ended a lease
	Chain  Op = "chain"  // a message that an ack carries; it is behind the ack, without an id where it was not stored
	// Callback is of a batch, by Batch; all of an entry stand at its beginning, wherever in it they came.
	Callback Op = "callback"
	// Bury is of a dead letter, which was moved to the queue that its own queue names for it; it stands as Callback does.
	Bury  Op = "bury"
	Fire  Op = "fire"  // of a schedule: a step to its next time, with a message or without
	Key   Op = "key"   // of the KV changed in this entry; behind its operations, once for each key
	End   Op = "end"   // a task reached its end in this entry
	Other Op = "other" // an operation that this checker does not judge
)

// Kind says what an Event is.
type Kind string

// Kinds of events.
const (
	Call    Kind = "call"    // a request is about to be sent
	Return  Kind = "return"  // it has ended for its caller
	Deliver Kind = "deliver" // a leased message arrived; Call is 0 where it was pushed
	Mark    Kind = "mark"    // of the harness: Note says what
)

// Notes of marks.
const (
	Killed     = "killed"       // a node, named by Node; Leader where it led
	Frozen     = "frozen"       // the node that led, named by Node, stands still
	Down       = "down"         // no majority is left alive
	Up         = "up"           // a majority is about to be started again
	Heal       = "heal"         // faults have ended; Index is where
	Drained    = "drained"      // nothing is live any more; Index is where
	Undrained  = "undrained"    // the queues did not become empty in time
	AtMostOnce = "at most once" // the queue named by Queue delivers so
	LogAlone   = "log alone"    // what becomes of the messages of the queue named by Queue shows in the log alone
)

// StatusOnly is the note of a read that does not bring the result.
const StatusOnly = "status only"

// Class is what a caller may conclude from an answer.
type Class string

// The three classes.
const (
	OK      Class = "ok"
	Refused Class = "refused"
	Unknown Class = "unknown"
)

// Event is something a client saw. Fields that do not apply are zero.
type Event struct {
	Kind   Kind   `json:"k"`
	At     int64  `json:"at"`          // µs since the recorder began, on one monotonic clock for all clients
	Call   uint64 `json:"c,omitempty"` // ties what came back to its call; from 1
	Worker int    `json:"w,omitempty"` // who
	Op     Op     `json:"o,omitempty"`
	Queue  string `json:"q,omitempty"`

	Session string `json:"s,omitempty"` // request id, where there is one
	Number  uint64 `json:"n,omitempty"`

	Class Class  `json:"a,omitempty"` // of a return
	Code  string `json:"e,omitempty"` // of a refusal
	Index uint64 `json:"i,omitempty"` // that the answer bore; of a refusal 0 where it never reached the log
	Time  int64  `json:"T,omitempty"` // log time that the answer bore

	Message   string `json:"m,omitempty"` // return of a requeue: the new one
	Token     string `json:"tok,omitempty"`
	Attempt   int    `json:"try,omitempty"`
	Body      string `json:"b,omitempty"`   // Sum of it; of an ack: of the message that it enqueues; of a move or an edit: the new one, if any
	Result    string `json:"r,omitempty"`   // Sum of its output
	Duplicate bool   `json:"dup,omitempty"` // as the answer said
	Dead      bool   `json:"dead,omitempty"`
	Millis    int64  `json:"ms,omitempty"`     // nack, move: when it is due; extend: what is left
	Count     int64  `json:"count,omitempty"`  // purge, empty, drop: how many it took
	Name      string `json:"name,omitempty"`   // of a schedule, or a key of the KV
	Firing    string `json:"firing,omitempty"` // deliver: the schedule and the time that the message was made for
	Origin    string `json:"from,omitempty"`   // final: the queue where it died, where it was moved
	Status    string `json:"st,omitempty"`     // read, final: where the task stands; "" for not yet
	Reason    string `json:"reason,omitempty"` // of a dead letter
	Node      string `json:"node,omitempty"`
	Leader    bool   `json:"leader,omitempty"`
	Note      string `json:"note,omitempty"`
}

// Effect is something that the committed log did, in its order.
type Effect struct {
	Op      Op     `json:"o"`
	Index   uint64 `json:"i"`
	Time    int64  `json:"T,omitempty"`     // Entry: T after it
	Shift   int64  `json:"shift,omitempty"` // Entry: ΣShift after it
	Term    uint64 `json:"term,omitempty"`  // Entry: in which it was proposed
	Queue   string `json:"q,omitempty"`
	Session string `json:"s,omitempty"`
	Number  uint64 `json:"n,omitempty"`
	Code    string `json:"e,omitempty"` // of a refusal, as clients see it; "" for success

	Message   string `json:"m,omitempty"`
	Token     string `json:"tok,omitempty"`
	Attempt   int    `json:"try,omitempty"`
	Duplicate bool   `json:"dup,omitempty"`
	Dead      bool   `json:"dead,omitempty"`
	Millis    int64  `json:"ms,omitempty"` // nack, move: when it is due; extend: what is left
	Note      string `json:"note,omitempty"`
	Made      string `json:"made,omitempty"`  // requeue, edit, bury: the new id; chain: what stands for it where it is not known
	Count     int64  `json:"count,omitempty"` // purge, empty, drop: how many it took; fire: how many times were passed over
	Batch     string `json:"batch,omitempty"` // of which it is a member, or the callback

	Body      string           `json:"b,omitempty"`
	Result    string           `json:"r,omitempty"` // "" for an ack without one
	Priority  int              `json:"p,omitempty"`
	Key       string           `json:"key,omitempty"`
	Dedup     string           `json:"dk,omitempty"` // hash of the dedup key
	Content   string           `json:"dc,omitempty"` // hash of (kind, body)
	Delay     int64            `json:"delay,omitempty"`
	Due       int64            `json:"due,omitempty"`
	TTL       int64            `json:"ttl,omitempty"`
	Timeout   int64            `json:"timeout,omitempty"`
	Length    int64            `json:"len,omitempty"` // lease, extend: ms asked for, 0: the queue's
	Permanent bool             `json:"perm,omitempty"`
	Spent     bool             `json:"spent,omitempty"` // release: it costs the attempt
	Chained   int              `json:"then,omitempty"`  // ack: how many messages it carries
	Retry     *fsm.RetryPolicy `json:"retry,omitempty"`
	Options   *Options         `json:"opt,omitempty"`
	Auto      bool             `json:"auto,omitempty"`   // the queue is made if it is missing
	Keys      []string         `json:"keys,omitempty"`   // of the KV, which get the body if the message dies
	Fields    []string         `json:"fields,omitempty"` // edit: which ones are set anew
	When      string           `json:"when,omitempty"`   // move: After, AtTime or KeepTime
	Wait      int64            `json:"wait,omitempty"`   // move: ms after the enqueue at which it is due at the latest; 0: no limit
	Origin    string           `json:"from,omitempty"`   // bury: the queue where it died
	Reason    string           `json:"reason,omitempty"` // bury: of the death

	Name       string    `json:"name,omitempty"` // of a schedule, or a key of the KV
	Declared   *Schedule `json:"plan,omitempty"`
	Generation uint64    `json:"gen,omitempty"`  // of a schedule; ack, nack: of the mapping that they speak of
	At         int64     `json:"at,omitempty"`   // fire: the time at which the step begins; 0: none is planned yet
	Next       int64     `json:"next,omitempty"` // fire: the time to which it goes
	Fired      bool      `json:"fired,omitempty"`
	Gone       bool      `json:"gone,omitempty"` // key: it was deleted
}

// When of a Move.
const (
	After    = "after" // Delay from now, and Wait from the enqueue at the latest
	AtTime   = "at"    // Due
	KeepTime = "keep"  // as it is; what was ready goes to the end
)

// Schedule is what decides when a schedule fires.
type Schedule struct {
	Cron   string `json:"cron"`
	Zone   string `json:"zone,omitempty"`
	Jitter int64  `json:"jitter,omitempty"` // ms
	Missed string `json:"missed"`           // what becomes of times that nobody fired for a minute: skip, once or all
	Paused bool   `json:"paused,omitempty"`
}

// Options are those of a queue that decide what is right.
type Options struct {
	Mode   string          `json:"mode"` // unordered, fifo or per_key
	Lease  int64           `json:"lease"`
	Window int64           `json:"window"`
	Once   bool            `json:"once,omitempty"` // delivered at most once
	Rate   int64           `json:"rate,omitempty"` // deliveries in 1,000 s; 0: no limit
	Burst  int64           `json:"burst,omitempty"`
	Retry  fsm.RetryPolicy `json:"retry"`

	KeyRate  int64  `json:"krate,omitempty"` // as Rate, of each message key
	KeyBurst int64  `json:"kburst,omitempty"`
	Dead     string `json:"dlq,omitempty"` // the queue to which what dies is moved
	Mapped   bool   `json:"map,omitempty"` // it has a mapping, whose generation is the entry that made the queue
	MapTo    string `json:"mapto,omitempty"`
}

// Sum is how bodies and results stand in a history: 128 bits of their SHA-256.
func Sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:16])
}

// History is all that is known of a run.
type History struct {
	Events  []Event  // by At
	Effects []Effect // by their order in the log
}
