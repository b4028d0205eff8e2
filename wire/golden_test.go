package wire

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

type example struct {
	name string
	typ  Type
	tag  uint64
	body any
}

func ptr[T any](v T) *T { return &v }

const (
	exampleID      = "00000G0000000000G000000002"
	exampleID2     = "00000G0000000000H000000000"
	exampleToken   = "00000G0000000000G00000000200000G0000000000J000000000"
	exampleSession = "00000G00000000001000000000"
	exampleTime    = 1795824000000
)

// examples holds one frame or more of every type. Add, never edit: others test their clients with these.
func examples() []example {
	at := At{Index: 70000, Time: exampleTime}
	retry := &RetryPolicy{Kind: RetryExponential, InitialMillis: 1000, MultiplierMilli: 2500, MaxMillis: 60000, MaxAttempts: 5, JitterMillis: 250}
	schedule := &RetryPolicy{Kind: RetrySchedule, Steps: []int64{0, 1000, 60000}}
	headers := []Header{{Name: "traceparent", Value: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, {Name: "source", Value: ""}}
	recorded := &Result{Output: Bytes("done"), ContentType: "text/plain", TaskID: "t-1", Queue: "orders", Kind: "ship", Status: StatusSucceeded,
		Attempts: 2, DurationMillis: 1500, Worker: "host:17:0", RecordedAt: exampleTime, MessageID: exampleID}
	task := Task{ID: exampleID, TaskID: exampleID, Queue: "orders", Status: StatusPending, Priority: 4, EnqueuedAt: exampleTime, BodyBytes: 5}
	dead := Task{ID: exampleID, OriginalID: exampleID, TaskID: "t-1", Queue: "orders", Kind: "ship", Status: StatusDead, Priority: 9, Attempts: 3,
		MaxAttempts: 3, EnqueuedAt: exampleTime, DueAt: exampleTime + 1, LeaseEndsAt: exampleTime + 2, ExpiresAt: exampleTime + 3,
		EndedAt: exampleTime + 4, Worker: "host:17:0", Error: "no route", History: []Attempt{{At: exampleTime, Number: 1, Worker: "host:17:0", Error: "no route"}},
		Reason: "max_attempts", Redrives: 1, OriginalEnqueuedAt: exampleTime - 1, ContentType: "text/plain", Headers: headers,
		Key: Bytes("k"), Body: Bytes("hello"), BodyBytes: 5, Origin: "orders", Held: StatusPending, Stay: "full", HeldAttempts: 1, HeldMaxAttempts: 6}
	options := QueueOptions{LeaseMillis: 60000, Retry: schedule, MaxDead: 1000, DeadOverflow: DeadDropOldest, DeadRetentionMillis: 86400000,
		DedupWindowMillis: 3600000, DedupMaxKeys: 5000, ResultTTLMillis: 600000, MaxResultsBytes: 1 << 20,
		DeadLetterQueue: "orders.dead"}
	info := QueueInfo{Name: "orders", Options: QueueOptions{}, Pending: 3, Processing: 2, Bytes: 1280, OldestAgeMillis: 250,
		Totals: map[string]int64{"enqueued": 10, "acked": 5}}
	full := Message{Body: Bytes("hello"), TaskID: "t-1", Kind: "ship", ContentType: "text/plain", Headers: headers, Priority: ptr(uint8(0)),
		Key: Bytes{0xff, 0x00}, DedupKey: Bytes("d-1"), DelayMillis: 5000, TTLMillis: 86400000, TimeoutMillis: 60000, Retry: retry}
	delivered := Delivered{ID: exampleID, Token: exampleToken, Attempt: 1, LeaseLeftMillis: 30000, Body: Bytes("hello"), Priority: 4, EnqueuedAt: exampleTime}
	deliveredFull := Delivered{ID: exampleID, Token: exampleToken, Attempt: 2, LeaseLeftMillis: 29999, Body: Bytes{}, TaskID: "t-1", Kind: "ship",
		ContentType: "text/plain", Headers: headers, Priority: 9, Key: Bytes("k"), EnqueuedAt: exampleTime, TimeoutMillis: 60000, Redrives: 1, Queue: "orders"}
	subscribe := Subscribe{Sub: 1, Queue: "orders", Credit: 256, LeaseMillis: 30000, Worker: "host:17:0"}
	return []example{
		{"hello", TypeHello, 1, &Hello{Versions: []uint16{1}, Client: "quorate-go/1"}},
		{"welcome", TypeWelcome, 1, &Welcome{Version: 1, Node: "n1", Cluster: "01234567-89ab-4def-8123-456789abcdef", Leader: "127.0.0.1:7340",
			IsLeader: true, MaxMessageBytes: 1 << 20, MaxFrameBytes: 3 << 20, MaxBatch: 1000, PingMillis: 15000, Server: "v0.1.0"}},
		{"fault, all of it", TypeFault, 7, &Fault{Code: CodeAlreadyExists, Message: "another result is recorded", RetryAfterMillis: 100,
			Leader: "127.0.0.1:7350", ID: exampleID, Result: recorded, Field: "result", At: &at}},
		{"fault, unknown outcome", TypeFault, 8, NewFault(CodeTimeout, "leadership was lost after the request was proposed")},
		{"fault about the connection", TypeFault, 0, NewFault(CodeInvalidArgument, "bad frame")},
		{"ok", TypeOK, 9, &OK{At: at}},
		{"ok, duplicate", TypeOK, 9, &OK{At: at, Duplicate: true}},
		{"redirect", TypeRedirect, 0, &Redirect{Leader: "127.0.0.1:7350", Reason: "not_leader"}},
		{"open_session, new", TypeOpenSession, 2, &OpenSession{}},
		{"open_session, attach", TypeOpenSession, 2, &OpenSession{Session: exampleSession}},
		{"session_opened", TypeSessionOpened, 2, &SessionOpened{Session: exampleSession, At: at}},
		{"enqueue", TypeEnqueue, 3, &Enqueue{Queue: "orders", Messages: []Message{{Body: Bytes("hello")}, {Body: Bytes{}}}, Request: Request{Number: 1, Low: 1}}},
		{"enqueue, every field but enqueue_at", TypeEnqueue, 4, &Enqueue{Queue: "orders", Messages: []Message{full}, Request: Request{Number: 3, Low: 2}}},
		{"enqueue, at a time, a schedule, no request id", TypeEnqueue, 5, &Enqueue{Queue: "orders",
			Messages: []Message{{Body: Bytes("x"), EnqueueAt: exampleTime, Retry: schedule}}}},
		{"enqueued", TypeEnqueued, 3, &Enqueued{Outcomes: []Outcome{{ID: exampleID}, {ID: exampleID2, TaskID: "t-1"}}, At: at}},
		{"enqueued, duplicate and fault", TypeEnqueued, 4, &Enqueued{Outcomes: []Outcome{{ID: exampleID, Duplicate: true, Result: recorded},
			{Fault: NewFault(CodeQueueFull, "queue orders: its 1000 dead letters fill max_dead")}}, At: at}},
		{"lease", TypeLease, 10, &Lease{Queue: "orders", Max: 10, WaitMillis: 5000, LeaseMillis: 30000, Worker: "host:17:0", Request: Request{Number: 9, Low: 9}}},
		{"leased", TypeLeased, 10, &Leased{Messages: []Delivered{delivered}, At: at}},
		{"leased, nothing", TypeLeased, 10, &Leased{At: at}},
		{"subscribe", TypeSubscribe, 11, &subscribe},
		{"delivery", TypeDelivery, 0, &Delivery{Sub: 1, Messages: []Delivered{delivered, deliveredFull}}},
		{"credit", TypeCredit, 12, &Credit{Sub: 1, Credit: 512}},
		{"lease_gone", TypeLeaseGone, 0, &LeaseGone{Sub: 1, Tokens: []string{exampleToken}}},
		{"unsubscribe", TypeUnsubscribe, 13, &Unsubscribe{Sub: 1}},
		{"started", TypeStarted, 0, &Started{Sub: 1, Tokens: []string{exampleToken}}},
		{"resume", TypeResume, 14, &Resume{Subscribe: subscribe, Started: []string{exampleToken}}},
		{"resumed", TypeResumed, 14, &Resumed{Lost: []string{exampleToken}, At: at}},
		{"ack", TypeAck, 15, &Ack{Token: exampleToken}},
		{"ack with result and then", TypeAck, 16, &Ack{Token: exampleToken, Result: &Result{Output: Bytes{}, ContentType: "text/plain"},
			Then: []Then{{Queue: "mail", Message: Message{Body: Bytes("next")}}}}},
		{"acked", TypeAcked, 15, &Acked{At: at}},
		{"acked, duplicate", TypeAcked, 16, &Acked{Duplicate: true, Result: recorded, At: at}},
		{"ack_batch", TypeAckBatch, 17, &AckBatch{Tokens: []string{exampleToken, exampleToken}}},
		{"acked_batch", TypeAckedBatch, 17, &AckedBatch{At: at}},
		{"acked_batch, a duplicate and a fault", TypeAckedBatch, 18, &AckedBatch{Others: []AckOutcome{{Index: 0, Duplicate: true, Result: recorded},
			{Index: 1, Fault: NewFault(CodeLeaseLost, "its lease ran out")}, {Index: 255, Again: true}}, At: at}},
		{"nack", TypeNack, 17, &Nack{Token: exampleToken, Error: "no route", DelayMillis: ptr(int64(0))}},
		{"nack, permanent", TypeNack, 18, &Nack{Token: exampleToken, Permanent: true}},
		{"nacked, retrying", TypeNacked, 17, &Nacked{DueAt: exampleTime, At: at}},
		{"nacked, dead", TypeNacked, 18, &Nacked{Dead: true, At: at}},
		{"extend", TypeExtend, 19, &Extend{Token: exampleToken, LeaseMillis: 60000}},
		{"extended", TypeExtended, 19, &Extended{LeaseLeftMillis: 60000, At: at}},
		{"release", TypeRelease, 20, &Release{Token: exampleToken}},
		{"result_get", TypeResultGet, 21, &ResultGet{Task: TaskRef{Queue: "orders", TaskID: "t-1"}, WaitMillis: 10000}},
		{"result_is, succeeded", TypeResultIs, 21, &ResultIs{Status: StatusSucceeded, Result: recorded, HasOutput: true, At: at}},
		{"result_is, dead", TypeResultIs, 21, &ResultIs{Status: StatusDead, Dead: &dead, At: at}},
		{"result_push", TypeResultPush, 22, &ResultPush{Task: TaskRef{Queue: "orders", TaskID: "t-1"}, Kind: "ship", Result: Result{Output: Bytes("done")},
			Request: Request{Number: 10, Low: 9}}},
		{"task", TypeTask, 23, &TaskGet{Task: TaskRef{TaskID: exampleID}, Stale: true}},
		{"task_is", TypeTaskIs, 23, &TaskIs{Task: task, At: at}},
		{"queue_create", TypeQueueCreate, 24, &QueueWrite{Queue: "orders", Request: Request{Number: 11, Low: 11}}},
		{"queue_set", TypeQueueSet, 25, &QueueWrite{Queue: "orders", Options: options, Request: Request{Number: 12, Low: 12}}},
		{"queue_delete", TypeQueueDelete, 26, &QueueRef{Queue: "orders", Request: Request{Number: 13, Low: 13}}},
		{"queue_purge", TypeQueuePurge, 27, &QueueRef{Queue: "orders", Request: Request{Number: 14, Low: 14}}},
		{"counted", TypeCounted, 27, &Counted{Count: 3, At: at}},
		{"queue_list", TypeQueueList, 28, &QueueList{After: "orders", Limit: 10, Stale: true}},
		{"queues", TypeQueues, 28, &Queues{Queues: []QueueInfo{info}, Next: "orders", At: at}},
		{"queue_show", TypeQueueShow, 29, &QueueRef{Queue: "orders", Stale: true}},
		{"queue_is", TypeQueueIs, 29, &QueueIs{Queue: info, At: at}},
		{"peek", TypePeek, 30, &Peek{Queue: "orders", State: StatusRetrying, Limit: 5, After: "c"}},
		{"tasks", TypeTasks, 30, &Tasks{Tasks: []Task{task, dead}, Next: "c", At: at}},
		{"dead_list", TypeDeadList, 31, &DeadList{Queue: "orders", Limit: 5, After: "c", Reason: "max_attempts", Kind: "ship", Since: exampleTime}},
		{"dead_list, every filter", TypeDeadList, 31, &DeadList{Queue: "orders", Since: exampleTime, Until: exampleTime + 1, Text: "no route",
			Headers: []Header{{Name: "source", Value: ""}}, Brief: true}},
		{"dead_edit", TypeDeadEdit, 36, &DeadEdit{Queue: "orders", ID: exampleID, Fields: []string{EditBody, EditDelay},
			Set: Message{Body: Bytes("hello"), DelayMillis: 5000}, Request: Request{Number: 19, Low: 19}}},
		{"dead_get", TypeDeadGet, 32, &DeadGet{Queue: "orders", ID: exampleID}},
		{"dead_requeue", TypeDeadRequeue, 33, &DeadIDs{Queue: "orders", IDs: []string{exampleID, exampleID2}, Request: Request{Number: 15, Low: 15}}},
		{"dead_delete", TypeDeadDelete, 34, &DeadIDs{Queue: "orders", IDs: []string{exampleID}, Request: Request{Number: 17, Low: 17}}},
		{"dead_purge", TypeDeadPurge, 35, &QueueRef{Queue: "orders", Request: Request{Number: 18, Low: 18}}},
		{"cluster_status", TypeClusterStatus, 36, &ClusterStatus{}},
		{"cluster_is", TypeClusterIs, 36, &ClusterIs{Cluster: "01234567-89ab-4def-8123-456789abcdef", Leader: "n1", Term: 4, Nodes: []Node{
			{ID: "n1", UUID: "11111111-1111-4111-8111-111111111111", Role: "leader", Voter: true, Alive: true, ClientAddr: "127.0.0.1:7340",
				RaftAddr: "127.0.0.1:7341", Applied: 70000, Version: "v0.1.0", LastLog: 70001}}, At: at}},
		{"cluster_verify", TypeClusterVerify, 37, &ClusterVerify{}},
		{"verified", TypeVerified, 37, &Verified{Index: 70000, Equal: true, Nodes: []NodeDigest{{ID: "n1", Digest: strings.Repeat("0123456789abcdef", 4)},
			{ID: "n2", Error: "not reached"}}, At: at}},
		{"cluster_transfer", TypeClusterTransfer, 38, &ClusterTransfer{Node: "n2"}},
		{"cluster_remove", TypeClusterRemove, 39, &ClusterRemove{Node: "n3"}},
		{"task_cancel", TypeTaskCancel, 40, &TaskCancel{Task: TaskRef{Queue: "orders", TaskID: "t-1"}, Request: Request{Number: 19, Low: 19}}},
		{"task_cancelled", TypeTaskCancelled, 40, &TaskCancelled{ID: exampleID, Out: true, At: at}},
		{"task_cancelled, again", TypeTaskCancelled, 40, &TaskCancelled{ID: exampleID, Duplicate: true, At: at}},
		{"task_reschedule, debounced", TypeTaskReschedule, 41, &TaskReschedule{Task: TaskRef{TaskID: exampleID}, DelayMillis: ptr(int64(0)), MaxWaitMillis: 60000,
			Request: Request{Number: 20, Low: 20}}},
		{"task_reschedule, at a time with another body", TypeTaskReschedule, 42, &TaskReschedule{Task: TaskRef{Queue: "orders", TaskID: "t-1"},
			EnqueueAt: exampleTime, Replace: &Replacement{Body: Bytes("new"), ContentType: "text/plain"}, Request: Request{Number: 21, Low: 21}}},
		{"task_scheduled", TypeTaskScheduled, 42, &TaskScheduled{ID: exampleID, DueAt: exampleTime, At: at}},
		{"lease_cancelled", TypeLeaseCancelled, 0, &LeaseCancelled{Sub: 1, Tokens: []string{exampleToken}}},
		{"result_list", TypeResultList, 43, &ResultList{Queue: "orders", Kind: "ship", After: 70, Limit: 10, WaitMillis: 30000, Stale: true}},
		{"result_list, from now", TypeResultList, 44, &ResultList{Queue: "orders", Last: true}},
		{"results", TypeResults, 43, &Results{Results: []Recorded{{Position: 71, Result: *recorded, EndsAt: exampleTime + 86400000}}, Next: 71, More: true, At: at}},
		{"enqueue, member of a batch", TypeEnqueue, 50, &Enqueue{Queue: "orders", Messages: []Message{{Body: Bytes("x"), Batch: exampleID}}, Request: Request{Number: 21, Low: 21}}},
		{"batch_create", TypeBatchCreate, 51, &BatchCreate{Queue: "done", Callback: Message{Body: Bytes("all"), Kind: "report"}, Request: Request{Number: 22, Low: 22}}},
		{"batch_created", TypeBatchCreated, 51, &BatchCreated{Batch: exampleID, At: at}},
		{"batch_seal", TypeBatchSeal, 52, &BatchSeal{Batch: exampleID, Request: Request{Number: 23, Low: 23}}},
		{"batch_show", TypeBatchShow, 53, &BatchShow{Batch: exampleID, Stale: true}},
		{"batch_is, open", TypeBatchIs, 53, &BatchIs{Batch: exampleID, Members: 3, Open: 1, Succeeded: 1, Dead: 1, CreatedAt: exampleTime, EndsAt: exampleTime + 1, Queue: "done", At: at}},
		{"batch_is, done", TypeBatchIs, 54, &BatchIs{Batch: exampleID, Sealed: true, Members: 3, Succeeded: 1, Dead: 1, Cancelled: 1, CreatedAt: exampleTime,
			FinishedAt: exampleTime + 1, EndsAt: exampleTime + 2, CallbackID: exampleID2, At: at}},
		{"enqueue, keys_if_undelivered", TypeEnqueue, 40, &Enqueue{Queue: "orders", Messages: []Message{{Body: Bytes("x"), KeysIfUndelivered: [][]string{{"lost", "17"}, {""}}}},
			Request: Request{Number: 19, Low: 19}}},
		{"kv_get", TypeKVGet, 41, &KVGet{Key: []string{"lost", "17"}, Stale: true}},
		{"kv_is", TypeKVIs, 41, &KVIs{Entry: KVEntry{Key: []string{"lost", "17"}, Value: Bytes("hello"), ValueBytes: 5, MessageID: exampleID, Position: 7,
			ChangedAt: exampleTime, EndsAt: exampleTime + 1}, At: at}},
		{"kv_list", TypeKVList, 42, &KVList{Prefix: []string{"lost"}, After: []string{"lost", "17"}, Limit: 10, Values: true}},
		{"kv_entries", TypeKVEntries, 42, &KVEntries{Entries: []KVEntry{{Key: []string{"lost", "18"}, ValueBytes: 5, MessageID: exampleID, Position: 8,
			ChangedAt: exampleTime, EndsAt: exampleTime + 1}}, Next: []string{"lost", "18"}, Position: 9, At: at}},
		{"kv_delete", TypeKVDelete, 43, &KVDelete{Key: []string{"lost", "17"}, Request: Request{Number: 20, Low: 20}}},
		{"kv_watch", TypeKVWatch, 44, &KVWatch{Prefix: []string{"lost"}, From: 9, Limit: 10, WaitMillis: 30000}},
		{"kv_watch, from now", TypeKVWatch, 45, &KVWatch{Now: true}},
		{"kv_changes", TypeKVChanges, 44, &KVChanges{Entries: []KVEntry{{Key: []string{"lost", "17"}, Position: 10, ChangedAt: exampleTime, Deleted: true, Expired: true}},
			Position: 10, At: at}},
		{"queue_create, ordered", TypeQueueCreate, 40, &QueueWrite{Queue: "orders", Options: QueueOptions{Ordering: OrderPerKey}, Request: Request{Number: 19, Low: 19}}},
		{"queue_set, limits", TypeQueueSet, 40, &QueueWrite{Queue: "orders", Options: QueueOptions{MaxDepth: 10000, MaxBytes: 1 << 30, MaxInFlight: 50, Paused: true,
			MaxAgeMillis: 86400000, Overflow: OverflowDropOldest}, Request: Request{Number: 20, Low: 20}}},
		{"queue_set, keys", TypeQueueSet, 42, &QueueWrite{Queue: "orders", Options: QueueOptions{MaxInFlightPerKey: 2, RatePerKeyMilli: 1500, BurstPerKey: 3,
			FairBy: FairByKey, FairWeights: []FairWeight{{Key: Bytes("tenant-7"), Weight: 3}, {Key: Bytes{0xff}, Weight: 100}}}, Request: Request{Number: 22, Low: 22}}},
		{"queue_is, keys", TypeQueueIs, 43, &QueueIs{Queue: QueueInfo{Name: "orders", Options: QueueOptions{FairBy: FairByNone, MaxInFlightPerKey: 1}, Pending: 3, Parked: 2,
			KeyDebts: 1, Totals: map[string]int64{}}, At: at}},
		{"queue_is, held", TypeQueueIs, 45, &QueueIs{Queue: QueueInfo{Name: "orders", Pending: 3, Totals: map[string]int64{}, PerMinute: 7, Status: QueueHeld,
			Why:       []Holdup{{Reason: HoldPaused, Text: "the queue is paused"}, {Reason: HoldRate, Text: "the rate is used up", Until: exampleTime}},
			Consumers: 2, Idle: 1, NotFromLeader: true}, At: at}},
		{"queue_set, only", TypeQueueSet, 44, &QueueWrite{Queue: "orders", Options: QueueOptions{MaxDepth: 5}, Only: []string{"max_depth", "paused"}, Request: Request{Number: 22, Low: 22}}},
		{"queue_set, rate", TypeQueueSet, 41, &QueueWrite{Queue: "orders", Options: QueueOptions{RateMilli: 2500, Burst: 10}, Request: Request{Number: 21, Low: 21}}},
		{"queue_is, ordered", TypeQueueIs, 41, &QueueIs{Queue: QueueInfo{Name: "orders", Options: QueueOptions{Ordering: OrderFIFO}, Pending: 3, Blocked: 2,
			Totals: map[string]int64{}}, At: at}},
		{"enqueued, to an ordered queue", TypeEnqueued, 42, &Enqueued{Outcomes: []Outcome{{ID: exampleID},
			{Fault: NewFault(CodeQueueFull, "queue orders: its 1000 dead letters fill max_dead")}}, At: at, Ordered: true}},
		{"schedule_create", TypeScheduleCreate, 40, &ScheduleWrite{Schedule: Schedule{Name: "nightly", Queue: "orders", Cron: "0 3 * * *",
			Message: Message{Body: Bytes("run")}}, Request: Request{Number: 19, Low: 19}}},
		{"schedule_set, every field", TypeScheduleSet, 41, &ScheduleWrite{Schedule: Schedule{Name: "nightly", Queue: "orders", Cron: "0 3 * * *",
			Zone: "Europe/Berlin", JitterMillis: 60000, Missed: MissedAll, Paused: true, Message: Message{Body: Bytes("run"), Kind: "report", Headers: headers,
				Priority: ptr(uint8(7)), Retry: retry, TTLMillis: 3600000}}, Request: Request{Number: 20, Low: 20}}},
		{"schedule_delete", TypeScheduleDelete, 42, &ScheduleRef{Name: "nightly", Request: Request{Number: 21, Low: 21}}},
		{"schedule_show", TypeScheduleShow, 43, &ScheduleRef{Name: "nightly", Stale: true}},
		{"schedule_is", TypeScheduleIs, 43, &ScheduleIs{Schedule: ScheduleInfo{Schedule: Schedule{Name: "nightly", Queue: "orders", Cron: "0 3 * * *",
			Missed: MissedSkip, Message: Message{Body: Bytes("run")}}, CreatedAt: exampleTime, ChangedAt: exampleTime, NextAt: exampleTime + 1000, DueAt: exampleTime + 1500,
			LastAt: exampleTime, LastID: exampleID, Fired: 3, Skipped: 2, Refused: 1, RefusedAt: exampleTime - 1000, Refusal: "not_found: the queue does not exist"}, At: at}},
		{"schedule_list", TypeScheduleList, 44, &ScheduleList{After: "a", Limit: 10}},
		{"schedules", TypeSchedules, 44, &Schedules{Schedules: []ScheduleInfo{}, Next: "nightly", At: at}},
		{"queue_set, push", TypeQueueSet, 46, &QueueWrite{Queue: "orders", Options: QueueOptions{PushURL: "https://example.org/in?a=b", PushConcurrency: 4,
			PushTimeoutMillis: 2500, PushSecrets: []string{"new", "old"}, PushPermanent: []int64{400, 410}, PushHeaders: []string{"traceparent"}}, Request: Request{Number: 23, Low: 23}}},
		{"queue_is, push", TypeQueueIs, 46, &QueueIs{Queue: QueueInfo{Name: "orders", Options: QueueOptions{PushURL: "http://example.org"}, Totals: map[string]int64{},
			Push: "pushing"}, At: at}},
		{"queue_set, mapping", TypeQueueSet, 47, &QueueWrite{Queue: "orders", Options: QueueOptions{Schema: `{"type":"object"}`, Map: "body.order",
			MapTo: &MapTo{Queue: "bills", Expression: "{id: body.id}"}}, Request: Request{Number: 16, Low: 16}, Only: []string{"schema", "map", "map_to"}}},
		{"queue_is, mapping", TypeQueueIs, 47, &QueueIs{Queue: QueueInfo{Name: "orders", Options: QueueOptions{MapTo: &MapTo{Queue: "bills", Expression: "body"}},
			Totals: map[string]int64{}, Mapping: "mapping"}, At: at}},
		{"ack, mapping", TypeAck, 48, &Ack{Token: exampleToken, Then: []Then{{Queue: "bills", Message: Message{Body: Bytes("{}")}}}, Mapping: 70000}},
		{"nack, mapping", TypeNack, 49, &Nack{Token: exampleToken, Error: "map_to: 1:6: no such field", Mapping: 70000}},
	}
}

// One block an example: its name, the bytes of the frame in hex, and the same in CBOR diagnostic notation.
func TestGolden(t *testing.T) {
	var out bytes.Buffer
	covered := map[Type]bool{}
	for _, e := range examples() {
		frame := AppendFrame(nil, e.typ, e.tag, e.body)
		diag, err := cbor.Diagnose(frame)
		if err != nil {
			t.Fatalf("%s: %v", e.name, err)
		}
		fmt.Fprintf(&out, "# %s (type %d)\n%s\n%s\n\n", e.name, e.typ, hex.EncodeToString(frame), diag)
		covered[e.typ] = true
	}
	for _, typ := range allTypes() {
		if !covered[typ] {
			t.Errorf("no example of a frame of type %d", typ)
		}
	}
	path := filepath.Join("testdata", "frames.golden")
	if *update {
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, old := strings.Split(out.String(), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(got), len(old)) {
		if i >= len(got) || i >= len(old) || got[i] != old[i] {
			t.Fatalf("%s differs at line %d; the bytes of version 1 must not change. Rewrite it with -update only to add\n got  %s\n want %s", path, i+1,
				strings.Join(got[min(i, len(got)):min(i+1, len(got))], ""), strings.Join(old[min(i, len(old)):min(i+1, len(old))], ""))
		}
	}
}

// The golden bytes decode to the values they were made of.
func TestGoldenDecodes(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "frames.golden"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(strings.TrimSpace(string(data)), "\n\n")
	all := examples()
	if len(blocks) != len(all) {
		t.Fatalf("%d blocks, %d examples", len(blocks), len(all))
	}
	for i, block := range blocks {
		e := all[i]
		msg, err := hex.DecodeString(strings.Split(block, "\n")[1])
		if err != nil {
			t.Fatalf("%s: %v", e.name, err)
		}
		f, rest, err := Next(msg)
		if err != nil || len(rest) > 0 || f.Type != e.typ || f.Tag != e.tag {
			t.Fatalf("%s: %+v, %d bytes left, %v", e.name, f, len(rest), err)
		}
		got := NewBody(e.typ)
		if err := f.Decode(got); err != nil {
			t.Fatalf("%s: %v", e.name, err)
		}
		if !equalValues(got, e.body) {
			t.Errorf("%s\n got  %+v\n want %+v", e.name, got, e.body)
		}
	}
}
