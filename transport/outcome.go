package transport

import (
	"fmt"

	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// faultOf turns an error of the group into a fault: the operation was not proposed, or nobody knows what became of it.
func faultOf(e *group.Error) *wire.Fault {
	code := wire.Code(e.Code)
	if !code.Known() {
		code = wire.CodeInternal
	}
	f := wire.NewFault(code, "%s", e.Message)
	f.Unknown = e.Unknown
	f.RetryAfterMillis = e.RetryAfter.Milliseconds()
	f.Leader = e.Leader
	if f.Code == wire.CodeNoLeader && f.RetryAfterMillis == 0 {
		f.RetryAfterMillis = 250 // an election takes about half a second
	}
	return f
}

// fieldNames are the request fields that a refusal of the state can be about.
var fieldNames = map[fsm.Field]string{
	fsm.FieldQueue: "queue", fsm.FieldTaskID: "task_id", fsm.FieldKind: "kind", fsm.FieldBody: "body",
	fsm.FieldContentType: "content_type", fsm.FieldHeaders: "headers", fsm.FieldPriority: "priority", fsm.FieldKey: "key",
	fsm.FieldDedupKey: "dedup_key", fsm.FieldDelay: "delay_ms", fsm.FieldTTL: "ttl_ms", fsm.FieldTimeout: "timeout_ms",
	fsm.FieldRetry: "retry", fsm.FieldLease: "lease_ms", fsm.FieldMax: "max", fsm.FieldWorker: "worker",
	fsm.FieldRequest: "request", fsm.FieldResult: "result", fsm.FieldThen: "then", fsm.FieldOptions: "options",
	fsm.FieldDeadLetterQueue: "dead_letter_queue", fsm.FieldEdit: "fields",
	fsm.FieldToken: "token", fsm.FieldError: "error", fsm.FieldBatch: "messages", fsm.FieldMaxWait: "max_wait_ms",
	fsm.FieldKVKeys: "keys_if_undelivered", fsm.FieldKV: "key",
	fsm.FieldOrdering: "ordering", fsm.FieldDepth: "max_depth", fsm.FieldBytes: "max_bytes",
	fsm.FieldOverflow: "overflow", fsm.FieldDelivery: "delivery",
	fsm.FieldInFlight: "max_in_flight", fsm.FieldAge: "max_age_ms", fsm.FieldRate: "rate", fsm.FieldBurst: "burst",
	fsm.FieldInFlightPerKey: "max_in_flight_per_key", fsm.FieldRatePerKey: "rate_per_key", fsm.FieldBurstPerKey: "burst_per_key",
	fsm.FieldFairBy: "fair_by", fsm.FieldFairWeights: "fair_weights",
	fsm.FieldPushURL: "push_url", fsm.FieldPushConcurrency: "push_concurrency", fsm.FieldPushTimeout: "push_timeout_ms",
	fsm.FieldPushSecrets: "push_secrets", fsm.FieldPushPermanent: "push_permanent", fsm.FieldPushHeaders: "push_headers",
	fsm.FieldSchema: "schema", fsm.FieldMap: "map", fsm.FieldMapTo: "map_to", fsm.FieldMapping: "mapping",
	fsm.FieldSchedule: "name", fsm.FieldCron: "cron", fsm.FieldZone: "zone", fsm.FieldJitter: "jitter_ms", fsm.FieldPolicy: "missed",
	fsm.FieldCallback: "callback", fsm.FieldBatchID: "batch",
	fsm.FieldIdempotency: "Idempotency-Key",
}

// judged is refusal for whoever sent the request: with its place in the log, which tells him that it is the outcome of the request, or of the one
// message, id or token, and not of this sending alone. Of a request for which the session has no room it is not: nothing of that is remembered,
// and an earlier sending that comes later is carried out.
func judged(k *call, st *fsm.State, at wire.At, o *fsm.Outcome) *wire.Fault {
	f := refusal(k, st, o)
	if o.Code != fsm.Overloaded || o.Field != fsm.FieldSessions {
		f.At = &at
	}
	return f
}

// refusal turns an outcome other than OK into a fault that says what was wrong and what would be right. st is nil where
// nothing recorded can belong to it. It is called with the state at hand.
func refusal(k *call, st *fsm.State, o *fsm.Outcome) *wire.Fault {
	var f *wire.Fault
	switch o.Code {
	case fsm.InvalidArgument:
		if f = invalid(o); k.kind == wire.TypeQueueSet && o.Field != fsm.FieldQueue && o.Field != fsm.FieldRequest {
			// Each option has been judged by itself at the door.
			f = wire.Invalid(named(o.Field, "options"), "it does not go with the queue's other options as they are or would be")
		}
	case fsm.TooLarge:
		f = tooLarge(k, o)
	case fsm.NotFound:
		f = wire.NewFault(wire.CodeNotFound, "%s", notFound(k, o))
		if o.Field == fsm.FieldOrigin {
			f.Field = "origin"
		}
		if o.Field == fsm.FieldThen {
			f.Field = "then"
		}
	case fsm.AlreadyExists:
		f = exists(k, o)
		if o.HasResult && st != nil {
			f.Result = recorded(k, st, o)
		}
	case fsm.LeaseLost:
		f = wire.NewFault(wire.CodeLeaseLost, "the token is not the valid one: its lease ran out or was given up, or the message was leased again or has ended")
	case fsm.Cancelled:
		f = wire.NewFault(wire.CodeCancelled, "the task was cancelled")
	case fsm.QueueFull:
		f = wire.NewFault(wire.CodeQueueFull, "%s", full(k, o))
		f.RetryAfterMillis = 1000
	case fsm.Overloaded:
		f = wire.NewFault(wire.CodeOverloaded, "%s", overloaded(o))
		f.RetryAfterMillis = 1000
	case fsm.FailedPrecondition:
		f = wire.NewFault(wire.CodeFailedPrecondition, "%s", precondition(k, o))
		if o.Field == fsm.FieldMapping || o.Field == fsm.FieldMapTo {
			f.Field = fieldNames[o.Field]
		}
	case fsm.SessionExpired:
		f = wire.NewFault(wire.CodeSessionExpired, "%s", sessionExpired(k))
	default:
		f = wire.NewFault(wire.CodeInternal, "the state refused with code %d, which this server does not know", o.Code)
	}
	if f.Field == "" && o.Code == fsm.InvalidArgument {
		f.Field = fieldNames[o.Field]
	}
	return f
}

func named(field fsm.Field, otherwise string) string {
	if n := fieldNames[field]; n != "" {
		return n
	}
	return otherwise
}

func invalid(o *fsm.Outcome) *wire.Fault {
	switch {
	case o.Field == fsm.FieldRequest:
		return wire.Invalid("request", "the number is %d or more above low: at most %d requests may be unanswered", wire.MaxRequestSpan, wire.MaxRequestSpan)
	case o.Field == fsm.FieldPriority && o.Limit == fsm.DefaultPriority:
		return wire.Invalid("priority", "this queue is ordered and knows one priority: %d, or none at all, would be right", o.Limit)
	case o.Limit > 0:
		return wire.Invalid(named(o.Field, "request"), "outside its limits: at most %d would be right", o.Limit)
	}
	return wire.Invalid(named(o.Field, "request"), "outside its limits")
}

func tooLarge(k *call, o *fsm.Outcome) *wire.Fault {
	const never = "it never fits: send less, or raise the limit"
	field := named(o.Field, "body")
	switch {
	case k.kind == wire.TypeAck && o.Field == fsm.FieldDepth:
		return wire.TooLarge(field, "a queue of then may hold %d messages, and what then brings it, beside what is acked if that is of the same queue, is more; %s", o.Limit, never)
	case k.kind == wire.TypeAck && o.Field == fsm.FieldBytes:
		return wire.TooLarge(field, "a queue of then may hold %d bytes, and what then brings it, beside what is acked if that is of the same queue, is more with its fields; %s", o.Limit, never)
	case o.Field == fsm.FieldBytes && (k.kind == wire.TypeDeadRequeue || k.kind == wire.TypeDeadEdit):
		return wire.TooLarge(field, "the queue that the dead letter came from may hold %d bytes, and it is larger with its fields; it stays, and never fits unless the limit is raised or its body made shorter", o.Limit)
	case o.Field == fsm.FieldBytes:
		return wire.TooLarge(field, "queue %q may hold %d bytes, and the message is larger with its fields; %s", k.queue, o.Limit, never)
	}
	return wire.TooLarge(field, "longer than the limit of %d bytes", o.Limit)
}

func notFound(k *call, o *fsm.Outcome) string {
	switch k.kind {
	case wire.TypeAck, wire.TypeNack, wire.TypeExtend, wire.TypeRelease:
		if o.Field == fsm.FieldThen || o.Field == fsm.FieldQueue {
			return "then: a queue named there does not exist; nothing was acked and the lease stays"
		}
		return "no message has this token: it was deleted or purged, or ended longer ago than ends are remembered"
	case wire.TypeDeadRequeue, wire.TypeDeadDelete, wire.TypeDeadEdit:
		if o.Field == fsm.FieldOrigin {
			return "the queue that it came from was deleted: the dead letter stays"
		}
		if o.Field != fsm.FieldQueue {
			return fmt.Sprintf("queue %q has no such dead letter", k.queue)
		}
	case wire.TypeResultPush, wire.TypeTaskCancel, wire.TypeTaskReschedule:
		if o.Field != fsm.FieldQueue {
			return "no such task: it was deleted, or ended longer ago than ends are remembered; a task id of your own needs its queue"
		}
	}
	if o.Field == fsm.FieldBatchID {
		return noBatch
	}
	if o.Field == fsm.FieldKV {
		return "no such key: it was deleted, or its time is over, or it was never written"
	}
	if o.Field == fsm.FieldSchedule {
		return fmt.Sprintf("schedule %q does not exist", k.tasks[0])
	}
	return fmt.Sprintf("queue %q does not exist", k.queue)
}

func exists(k *call, o *fsm.Outcome) *wire.Fault {
	var f *wire.Fault
	switch {
	case o.Field == fsm.FieldIdempotency:
		f = wire.NewFault(wire.CodeAlreadyExists, "Idempotency-Key was used within the last hour for another request (another method, path, query, content type or body): a new key would be right")
		f.Field = fieldNames[o.Field]
		return f
	case o.Field == fsm.FieldDedupKey || o.Field == fsm.FieldDedup:
		f = wire.NewFault(wire.CodeAlreadyExists, "dedup_key was used for message %s, with another body or kind", o.ID)
	case o.Field == fsm.FieldResult || o.HasResult:
		f = wire.NewFault(wire.CodeAlreadyExists, "the task ended already, with another result or none: what came first stays")
	case k.kind == wire.TypeQueueCreate:
		return wire.NewFault(wire.CodeAlreadyExists, "queue %q exists with other options: set them instead", k.queue)
	case k.kind == wire.TypeScheduleCreate:
		return wire.NewFault(wire.CodeAlreadyExists, "schedule %q exists and is another: set it instead", k.tasks[0])
	case o.ID.IsZero():
		return wire.NewFault(wire.CodeAlreadyExists, "task_id is taken in queue %q", k.queue)
	default:
		f = wire.NewFault(wire.CodeAlreadyExists, "task_id is taken in queue %q by message %s", k.queue, o.ID)
	}
	if !o.ID.IsZero() {
		f.ID = o.ID.String()
	}
	return f
}

func full(k *call, o *fsm.Outcome) string {
	q := fmt.Sprintf("queue %q", k.queue)
	if k.queue == "" {
		q = "a queue"
	}
	if k.kind == wire.TypeDeadRequeue || k.kind == wire.TypeDeadEdit {
		q = "the dead letter stays: the queue that it came from"
	}
	switch o.Field {
	case fsm.FieldDead:
		return fmt.Sprintf("%s holds %d dead letters, its max_dead: requeue or delete some, or raise it", q, o.Limit)
	case fsm.FieldDedup, fsm.FieldDedupKey:
		return fmt.Sprintf("%s remembers %d dedup keys, its dedup_max_keys: wait for the window, or raise it", q, o.Limit)
	case fsm.FieldResults, fsm.FieldResult:
		return fmt.Sprintf("%s keeps %d bytes of results, its max_results_bytes: wait for result_ttl_ms, or raise it", q, o.Limit)
	case fsm.FieldMembers:
		return fmt.Sprintf("batch: it has %d members that have not ended, the most it can: wait for some", o.Limit)
	case fsm.FieldKV:
		return fmt.Sprintf("keys_if_undelivered: the KV holds or has reserved %d keys, the most it can: delete some", o.Limit)
	case fsm.FieldDepth:
		return fmt.Sprintf("%s holds %d messages, its max_depth: wait until some are done, or raise it", q, o.Limit)
	case fsm.FieldBytes:
		return fmt.Sprintf("%s has no room left in its max_bytes of %d: wait until some messages are done, or raise it", q, o.Limit)
	case fsm.FieldTasks:
		return fmt.Sprintf("%s holds %d messages, the most one can", q, o.Limit)
	}
	return fmt.Sprintf("%s has reached a limit of %d", q, o.Limit)
}

func overloaded(o *fsm.Outcome) string {
	switch o.Field {
	case fsm.FieldIdempotency:
		return fmt.Sprintf("as many idempotency keys and answers are kept as can be (%d keys or %d bytes are the most; this is the limit of %d): they end after an hour, and without Idempotency-Key the request needs no room",
			fsm.MaxIdempotencyKeys, fsm.MaxIdempotencyBytes, o.Limit)
	case fsm.FieldSessions, fsm.FieldRequest:
		return fmt.Sprintf("the sessions' table is full (limit %d): close clients, or wait for idle sessions to end", o.Limit)
	case fsm.FieldBatches:
		return fmt.Sprintf("there are too many batches, or their callbacks are too large together (limit %d): seal some, or wait for some to end", o.Limit)
	case fsm.FieldQueues, fsm.FieldQueue:
		return fmt.Sprintf("there are %d queues, the most there can be: delete some", o.Limit)
	}
	if o.Field == fsm.FieldSchedules {
		return fmt.Sprintf("the table of schedules is full (%d schedules or %d bytes are the most; this is the limit of %d): delete some", fsm.MaxSchedules, fsm.MaxScheduleBytes, o.Limit)
	}
	if o.Field == fsm.FieldMapping {
		return fmt.Sprintf("schema, map, map_to: those of all queues take %d bytes at most: make some shorter, or delete some", o.Limit)
	}
	if o.Field == fsm.FieldTasks {
		return fmt.Sprintf("there are %d messages and dead letters in all queues, the most there can be", o.Limit)
	}
	return fmt.Sprintf("the group has reached a limit of %d", o.Limit)
}

func precondition(k *call, o *fsm.Outcome) string {
	switch {
	case k.kind == wire.TypeTaskCancel:
		return "the task has ended: it is done or dead, and has one end"
	case k.kind == wire.TypeTaskReschedule:
		return "the task does not wait: it is out, or has ended; only one that is scheduled, pending or retrying can be changed"
	case o.Field == fsm.FieldOut:
		return "a worker has the dead letter: its lease must end first"
	case k.kind == wire.TypeLease:
		return "the messages that this request was given are not leased to it any more"
	case o.Field == fsm.FieldOrdering:
		return fmt.Sprintf("ordering: queue %q holds live messages, and it changes only while there are none: drain or purge it first", k.queue)
	case o.Field == fsm.FieldDelivery:
		return fmt.Sprintf("delivery: queue %q holds live messages, and it changes only while there are none: drain or purge it first", k.queue)
	case o.Field == fsm.FieldMapping:
		return "mapping: the queue has another mapping by now, or none: evaluate that; the lease stays"
	case o.Field == fsm.FieldMapTo && o.Limit != 0:
		return fmt.Sprintf("map_to: more than %d queues would lie behind queue %q, by map_to and dead_letter_queue: shorten the way", o.Limit, k.queue)
	case o.Field == fsm.FieldMapTo:
		return fmt.Sprintf("map_to: what is in queue %q would come back to it, by map_to and dead_letter_queue, again and again: another queue would be right", k.queue)
	case o.Field == fsm.FieldThen:
		return "then: the message was delivered at most once, and was done when it was delivered: enqueue these by themselves"
	case o.Field == fsm.FieldBatchID:
		return "batch: it is sealed, and takes no more members"
	case fieldNames[o.Field] != "":
		return fmt.Sprintf("%s: what it names is not in a state that allows this", fieldNames[o.Field])
	}
	return "what the request names is not in a state that allows this"
}

func sessionExpired(k *call) string {
	if k.kind == wire.TypeOpenSession {
		return "the session is not known: it was idle for too long; open a new one"
	}
	return "the session is not known any more, or the request's number is below its low; it is not carried out now, whatever came before"
}

// recorded copies the recorded result that an outcome speaks of, found under its message's id, or under the task id that a
// push named if no message ever came. nil: it is gone.
func recorded(k *call, st *fsm.State, o *fsm.Outcome) *wire.Result {
	queue, task := "", fsm.AppendID(nil, o.Task)
	if o.Task.IsZero() {
		if k.kind != wire.TypeResultPush {
			return nil
		}
		queue, task = k.queue, wire.View(k.tasks[0])
	}
	var r fsm.RecordedResult
	if _, has := st.Result(queue, task, &r); !has {
		return nil
	}
	return resultOf(&r)
}

// resultOf copies a recorded result out of the state.
func resultOf(r *fsm.RecordedResult) *wire.Result {
	w := &wire.Result{
		Output: append(wire.Bytes{}, r.Output...), ContentType: string(r.ContentType), TaskID: string(r.TaskID),
		Queue: r.Queue, Kind: string(r.Kind), Status: wire.StatusSucceeded, Attempts: r.Attempts,
		DurationMillis: r.DurationMillis, Worker: string(r.Worker), RecordedAt: r.RecordedAt,
	}
	if !r.Message.IsZero() {
		w.MessageID = r.Message.String()
	}
	return w
}
