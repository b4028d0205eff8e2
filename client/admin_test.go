package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/wire"
)

var (
	anID  = strings.Repeat("0", 25) + "1"
	aTok  = strings.Repeat("0", 51) + "1"
	atOne = wire.At{Index: 7, Time: 1_700_000_000_007}
	aTime = time.UnixMilli(1_700_000_000_123)
)

// Each call sends the frame it should and makes of the answer what it should.
func TestCallsAndAnswers(t *testing.T) {
	task := wire.Task{
		ID: anID, OriginalID: "o", TaskID: "t", Queue: "q", Kind: "k", Status: "dead", Priority: 3, Attempts: 2, MaxAttempts: 4,
		EnqueuedAt: aTime.UnixMilli(), DueAt: aTime.UnixMilli() + 1, LeaseEndsAt: aTime.UnixMilli() + 2, ExpiresAt: aTime.UnixMilli() + 3,
		EndedAt: aTime.UnixMilli() + 4, Worker: "w", Error: "e", History: []wire.Attempt{{At: aTime.UnixMilli(), Number: 1, Worker: "w1", Error: "e1"}},
		Reason: "max_attempts", Redrives: 1, OriginalEnqueuedAt: aTime.UnixMilli() + 5, ContentType: "c", Headers: []wire.Header{{Name: "a", Value: "b"}},
		Key: wire.Bytes("key"), Body: wire.Bytes("body"), BodyBytes: 4,
	}
	ms := func(n int64) time.Time { return aTime.Add(time.Duration(n) * time.Millisecond) }
	wantTask := Task{
		ID: anID, OriginalID: "o", TaskID: "t", Queue: "q", Kind: "k", Status: "dead", Priority: 3, Attempts: 2, MaxAttempts: 4,
		EnqueuedAt: ms(0), DueAt: ms(1), LeaseEndsAt: ms(2), ExpiresAt: ms(3), EndedAt: ms(4), Worker: "w", Error: "e",
		History: []Attempt{{At: ms(0), Number: 1, Worker: "w1", Error: "e1"}}, Reason: "max_attempts", Redrives: 1, OriginalEnqueuedAt: ms(5),
		ContentType: "c", Headers: []Header{{"a", "b"}}, Key: []byte("key"), Body: []byte("body"), BodyBytes: 4,
	}
	recorded := wire.Result{
		Output: wire.Bytes("out"), ContentType: "text/plain", TaskID: "t", Queue: "q", Kind: "k", Status: "succeeded", Attempts: 2,
		DurationMillis: 1500, Worker: "w", RecordedAt: aTime.UnixMilli(), MessageID: anID,
	}
	wantResult := &Result{
		Output: []byte("out"), ContentType: "text/plain", TaskID: "t", Queue: "q", Kind: "k", Attempts: 2,
		Duration: 1500 * time.Millisecond, Worker: "w", RecordedAt: aTime, MessageID: anID,
	}
	options := QueueOptions{
		Lease: time.Second, Retry: &RetryPolicy{Kind: "schedule", Steps: []time.Duration{time.Second, 1500 * time.Microsecond}}, MaxDead: 5,
		DeadOverflow: "drop_oldest", Delivery: "at_most_once", DeadRetention: time.Hour, DedupWindow: time.Minute, DedupMaxKeys: 6, ResultTTL: 2 * time.Hour, MaxResultsBytes: 1 << 20, Ordering: "unordered", MaxDepth: 1, MaxBytes: 2, MaxInFlight: 3, Overflow: "drop_oldest", MaxAge: time.Minute, Paused: true, Rate: 2.5, Burst: 4, MaxInFlightPerKey: 5, RatePerKey: 0.001, BurstPerKey: 6, FairBy: "key", FairWeights: map[string]int{"b": 2, "a": 1},
		PushURL: "https://h", PushConcurrency: 7, PushTimeout: 2 * time.Second, PushSecrets: []string{"s"}, PushPermanent: []int64{410}, PushHeaders: []string{"a"},
		Schema: "true", Map: "body",
	}
	wireOptions := wire.QueueOptions{
		LeaseMillis: 1000, Retry: &wire.RetryPolicy{Kind: "schedule", Steps: []int64{1000, 2}}, MaxDead: 5, DeadOverflow: "drop_oldest",
		DeadRetentionMillis: 3600_000, DedupWindowMillis: 60_000, DedupMaxKeys: 6, ResultTTLMillis: 7200_000, MaxResultsBytes: 1 << 20, Ordering: "unordered", MaxDepth: 1, MaxBytes: 2, MaxInFlight: 3, Overflow: "drop_oldest", Delivery: "at_most_once", MaxAgeMillis: 60_000, Paused: true, RateMilli: 2500, Burst: 4, MaxInFlightPerKey: 5, RatePerKeyMilli: 1, BurstPerKey: 6, FairBy: "key", FairWeights: []wire.FairWeight{{Key: wire.Bytes("a"), Weight: 1}, {Key: wire.Bytes("b"), Weight: 2}},
		PushURL: "https://h", PushConcurrency: 7, PushTimeoutMillis: 2000, PushSecrets: []string{"s"}, PushPermanent: []int64{410}, PushHeaders: []string{"a"},
		Schema: "true", Map: "body",
	}
	info := wire.QueueInfo{
		Name: "q", Push: "pushing", Mapping: "maps", Options: wire.QueueOptions{Schema: "true", Map: "body", MapTo: &wire.MapTo{Queue: "n", Expression: "e"}, PushURL: "http://h", PushConcurrency: 3, PushTimeoutMillis: 1500, PushSecrets: []string{"s"}, PushPermanent: []int64{400}, PushHeaders: []string{"b"}, RateMilli: 1001, Burst: 2, MaxInFlightPerKey: 3, RatePerKeyMilli: 4000, BurstPerKey: 5, FairBy: "key", FairWeights: []wire.FairWeight{{Key: wire.Bytes("k"), Weight: 7}}, LeaseMillis: 1000, Retry: &wire.RetryPolicy{Kind: "exponential", InitialMillis: 1000, MultiplierMilli: 2500, MaxMillis: 60000, MaxAttempts: 5, JitterMillis: 10}},
		Pending: 1, Processing: 2, Scheduled: 3, Retrying: 4, Dead: 5, Bytes: 6, Results: 7, ResultBytes: 8, DedupKeys: 9, OldestAgeMillis: 10,
		Totals: map[string]int64{"acked": 11}, AvgProcessingMillis: 12, Tombstones: 13, Parked: 14, KeyDebts: 15,
		PerMinute: 16, Status: "held", Why: []wire.Holdup{{Reason: "paused", Text: "words"}, {Reason: "rate_limited", Text: "more", Until: aTime.UnixMilli()}}, Consumers: 17, Idle: 18,
	}
	wantInfo := QueueInfo{
		Name: "q", Push: "pushing", Mapping: "maps", Options: QueueOptions{Schema: "true", Map: "body", MapTo: MapTo{Queue: "n", Expression: "e"}, PushURL: "http://h", PushConcurrency: 3, PushTimeout: 1500 * time.Millisecond, PushSecrets: []string{"s"}, PushPermanent: []int64{400}, PushHeaders: []string{"b"}, Rate: 1.001, Burst: 2, MaxInFlightPerKey: 3, RatePerKey: 4, BurstPerKey: 5, FairBy: "key", FairWeights: map[string]int{"k": 7}, Lease: time.Second, Retry: &RetryPolicy{Kind: "exponential", Initial: time.Second, Multiplier: 2.5, Max: time.Minute, MaxAttempts: 5, Jitter: 10 * time.Millisecond}},
		Pending: 1, Processing: 2, Scheduled: 3, Retrying: 4, Dead: 5, Bytes: 6, Results: 7, ResultBytes: 8, DedupKeys: 9,
		OldestAge: 10 * time.Millisecond, Totals: map[string]int64{"acked": 11}, AvgProcessing: 12 * time.Millisecond, Tombstones: 13, Parked: 14, KeyDebts: 15,
		PerMinute: 16, Status: "held", Why: []Holdup{{Reason: "paused", Text: "words"}, {Reason: "rate_limited", Text: "more", Until: aTime}}, Consumers: 17, Idle: 18,
	}
	first := wire.Request{Number: 1, Low: 1}
	delay := 1500 * time.Millisecond
	delayMillis := int64(1500)
	five := uint8(5)
	all := func(vs ...any) []any { return vs }
	for _, tc := range []struct {
		name   string
		call   func(ctx context.Context, c *Client) []any // results, the error last
		typ    wire.Type
		body   any // as it must arrive
		answer any
		want   []any
	}{
		{"create queue", func(ctx context.Context, c *Client) []any { return all(c.CreateQueue(ctx, "q", options)) },
			wire.TypeQueueCreate, &wire.QueueWrite{Queue: "q", Options: wireOptions, Request: first}, &wire.OK{At: atOne}, all(nil)},
		{"set queue", func(ctx context.Context, c *Client) []any { return all(c.SetQueue(ctx, "q", QueueOptions{})) },
			wire.TypeQueueSet, &wire.QueueWrite{Queue: "q", Request: first}, &wire.OK{At: atOne}, all(nil)},
		{"change queue", func(ctx context.Context, c *Client) []any {
			return all(c.ChangeQueue(ctx, "q", QueueOptions{MaxDepth: 5, Burst: 3}, "max_depth", "burst"))
		}, wire.TypeQueueSet, &wire.QueueWrite{Queue: "q", Options: wire.QueueOptions{MaxDepth: 5, Burst: 3}, Only: []string{"max_depth", "burst"}, Request: first}, &wire.OK{At: atOne}, all(nil)},
		{"delete queue", func(ctx context.Context, c *Client) []any { return all(c.DeleteQueue(ctx, "q")) },
			wire.TypeQueueDelete, &wire.QueueRef{Queue: "q", Request: first}, &wire.OK{At: atOne}, all(nil)},
		{"purge queue", func(ctx context.Context, c *Client) []any { n, err := c.PurgeQueue(ctx, "q"); return all(n, err) },
			wire.TypeQueuePurge, &wire.QueueRef{Queue: "q", Request: first}, &wire.Counted{Count: 9, At: atOne}, all(int64(9), nil)},
		{"purge dead", func(ctx context.Context, c *Client) []any { n, err := c.PurgeDead(ctx, "q"); return all(n, err) },
			wire.TypeDeadPurge, &wire.QueueRef{Queue: "q", Request: first}, &wire.Counted{Count: 9, At: atOne}, all(int64(9), nil)},
		{"queues", func(ctx context.Context, c *Client) []any {
			qs, next, err := c.Queues(ctx, "p", 2)
			return all(qs, next, err)
		},
			wire.TypeQueueList, &wire.QueueList{After: "p", Limit: 2}, &wire.Queues{Queues: []wire.QueueInfo{info}, Next: "q", At: atOne},
			all([]QueueInfo{wantInfo}, "q", nil)},
		{"queue", func(ctx context.Context, c *Client) []any { q, err := c.Queue(ctx, "q"); return all(q, err) },
			wire.TypeQueueShow, &wire.QueueRef{Queue: "q"}, &wire.QueueIs{Queue: info, At: atOne}, all(wantInfo, nil)},
		{"peek", func(ctx context.Context, c *Client) []any {
			ts, next, err := c.Peek(ctx, "q", PeekOptions{State: "retrying", Limit: 3, After: "x"})
			return all(ts, next, err)
		}, wire.TypePeek, &wire.Peek{Queue: "q", State: "retrying", Limit: 3, After: "x"}, &wire.Tasks{Tasks: []wire.Task{task}, Next: "n", At: atOne},
			all([]Task{wantTask}, "n", nil)},
		{"dead letters", func(ctx context.Context, c *Client) []any {
			ts, next, err := c.DeadLetters(ctx, "q", DeadOptions{Limit: 3, After: "x", Reason: "expired", Kind: "k", Since: aTime})
			return all(ts, next, err)
		}, wire.TypeDeadList, &wire.DeadList{Queue: "q", Limit: 3, After: "x", Reason: "expired", Kind: "k", Since: aTime.UnixMilli()},
			&wire.Tasks{Tasks: []wire.Task{task}, At: atOne}, all([]Task{wantTask}, "", nil)},
		{"dead letter", func(ctx context.Context, c *Client) []any { t, err := c.DeadLetter(ctx, "q", anID); return all(t, err) },
			wire.TypeDeadGet, &wire.DeadGet{Queue: "q", ID: anID}, &wire.TaskIs{Task: task, At: atOne}, all(&wantTask, nil)},
		{"requeue", func(ctx context.Context, c *Client) []any {
			rs, errs := c.Requeue(ctx, "q", anID, anID)
			return all(rs, len(errs), errs[0])
		},
			wire.TypeDeadRequeue, &wire.DeadIDs{Queue: "q", IDs: []string{anID, anID}, Request: first},
			&wire.Enqueued{Outcomes: []wire.Outcome{{ID: anID, TaskID: "t"}, {Fault: wire.NewFault(wire.CodeNotFound, "none")}}, At: atOne},
			all([]Receipt{{ID: anID, TaskID: "t", Index: 7, Time: atOne.Time}, {}}, 2, nil)},
		{"delete dead", func(ctx context.Context, c *Client) []any { errs := c.DeleteDead(ctx, "q", anID); return all(errs[0]) },
			wire.TypeDeadDelete, &wire.DeadIDs{Queue: "q", IDs: []string{anID}, Request: first},
			&wire.Enqueued{Outcomes: []wire.Outcome{{ID: anID}}, At: atOne}, all(nil)},
		{"create batch", func(ctx context.Context, c *Client) []any {
			id, err := c.CreateBatch(ctx, "done", Message{Body: []byte("b"), Kind: "k"})
			return all(id, err)
		}, wire.TypeBatchCreate, &wire.BatchCreate{Queue: "done", Callback: wire.Message{Body: wire.Bytes("b"), Kind: "k"}, Request: first},
			&wire.BatchCreated{Batch: anID, At: atOne}, all(anID, nil)},
		{"seal batch", func(ctx context.Context, c *Client) []any { return all(c.SealBatch(ctx, anID)) },
			wire.TypeBatchSeal, &wire.BatchSeal{Batch: anID, Request: first}, &wire.OK{At: atOne, Duplicate: true}, all(nil)},
		{"batch", func(ctx context.Context, c *Client) []any { b, err := c.Batch(ctx, anID); return all(b, err) },
			wire.TypeBatchShow, &wire.BatchShow{Batch: anID},
			&wire.BatchIs{Batch: anID, Sealed: true, Members: 9, Open: 1, Succeeded: 5, Dead: 2, Cancelled: 1, CreatedAt: aTime.UnixMilli(),
				FinishedAt: aTime.UnixMilli(), EndsAt: aTime.UnixMilli(), Queue: "done", CallbackID: anID, At: atOne},
			all(BatchInfo{ID: anID, Sealed: true, Members: 9, Open: 1, Succeeded: 5, Dead: 2, Cancelled: 1, CreatedAt: aTime,
				FinishedAt: aTime, EndsAt: aTime, Queue: "done", CallbackID: anID}, nil)},
		{"kv get", func(ctx context.Context, c *Client) []any { e, err := c.KVGet(ctx, Key{"a", "b"}); return all(e, err) },
			wire.TypeKVGet, &wire.KVGet{Key: []string{"a", "b"}},
			&wire.KVIs{Entry: wire.KVEntry{Key: []string{"a", "b"}, Value: wire.Bytes("v"), ValueBytes: 1, MessageID: anID, Position: 3,
				ChangedAt: aTime.UnixMilli(), EndsAt: aTime.UnixMilli()}, At: atOne},
			all(KVEntry{Key: Key{"a", "b"}, Value: []byte("v"), ValueBytes: 1, MessageID: anID, Position: 3, ChangedAt: aTime, EndsAt: aTime}, nil)},
		{"kv list", func(ctx context.Context, c *Client) []any {
			p, err := c.KVList(ctx, Key{"a"}, KVListOptions{Limit: 2, After: Key{"a", "b"}, Values: true})
			return all(p, err)
		}, wire.TypeKVList, &wire.KVList{Prefix: []string{"a"}, After: []string{"a", "b"}, Limit: 2, Values: true},
			&wire.KVEntries{Entries: []wire.KVEntry{{Key: []string{"a", "c"}, Position: 4, ChangedAt: aTime.UnixMilli()}}, Next: []string{"a", "c"}, Position: 5, At: atOne},
			all(KVPage{Entries: []KVEntry{{Key: Key{"a", "c"}, Position: 4, ChangedAt: aTime}}, Next: Key{"a", "c"}, Position: 5}, nil)},
		{"kv delete", func(ctx context.Context, c *Client) []any { return all(c.KVDelete(ctx, Key{"a"})) },
			wire.TypeKVDelete, &wire.KVDelete{Key: []string{"a"}, Request: first}, &wire.OK{At: atOne}, all(nil)},
		{"kv changes", func(ctx context.Context, c *Client) []any {
			es, next, err := c.KVChanges(ctx, Key{"a"}, 7, time.Second)
			return all(es, next, err)
		}, wire.TypeKVWatch, &wire.KVWatch{Prefix: []string{"a"}, From: 7, WaitMillis: 1000},
			&wire.KVChanges{Entries: []wire.KVEntry{{Key: []string{"a"}, Position: 8, ChangedAt: aTime.UnixMilli(), Deleted: true, Expired: true}}, Position: 9, At: atOne},
			all([]KVEntry{{Key: Key{"a"}, Position: 8, ChangedAt: aTime, Deleted: true, Expired: true}}, uint64(9), nil)},
		{"kv changes from now", func(ctx context.Context, c *Client) []any {
			es, next, err := c.KVChanges(ctx, nil, KVWatchNow, 0)
			return all(es, next, err)
		}, wire.TypeKVWatch, &wire.KVWatch{Now: true}, &wire.KVChanges{Position: 9, At: atOne}, all([]KVEntry{}, uint64(9), nil)},
		{"task", func(ctx context.Context, c *Client) []any { t, err := c.Task(ctx, "q", "t"); return all(t, err) },
			wire.TypeTask, &wire.TaskGet{Task: wire.TaskRef{Queue: "q", TaskID: "t"}}, &wire.TaskIs{Task: task, At: atOne}, all(&wantTask, nil)},
		{"result", func(ctx context.Context, c *Client) []any { r, err := c.Result(ctx, "q", "t"); return all(r, err) },
			wire.TypeResultGet, &wire.ResultGet{Task: wire.TaskRef{Queue: "q", TaskID: "t"}},
			&wire.ResultIs{Status: "succeeded", Result: &recorded, HasOutput: true, At: atOne},
			all(&TaskResult{Status: "succeeded", Result: wantResult, HasOutput: true}, nil)},
		{"result of the dead", func(ctx context.Context, c *Client) []any { r, err := c.WaitResult(ctx, "", anID); return all(r, err) },
			wire.TypeResultGet, &wire.ResultGet{Task: wire.TaskRef{TaskID: anID}, WaitMillis: 30000},
			&wire.ResultIs{Status: "dead", Dead: &task, At: atOne}, all(&TaskResult{Status: "dead", Dead: &wantTask}, nil)},
		{"push result", func(ctx context.Context, c *Client) []any {
			a, err := c.PushResult(ctx, "q", "t", "k", Result{Output: []byte("out"), ContentType: "text/plain", Worker: "ignored"})
			return all(a, err)
		}, wire.TypeResultPush, &wire.ResultPush{Task: wire.TaskRef{Queue: "q", TaskID: "t"}, Kind: "k",
			Result: wire.Result{Output: wire.Bytes("out"), ContentType: "text/plain"}, Request: first},
			&wire.Acked{Duplicate: true, Result: &recorded, At: atOne}, all(Acked{Duplicate: true, Result: wantResult, Index: 7, Time: atOne.Time}, nil)},
		{"ack", func(ctx context.Context, c *Client) []any {
			a, err := c.Ack(ctx, aTok, AckOptions{Result: &Result{Output: []byte("o")}, Then: []Then{{"q2", Message{Body: []byte("b"), Priority: Priority(5)}}}})
			return all(a, err)
		}, wire.TypeAck, &wire.Ack{Token: aTok, Result: &wire.Result{Output: wire.Bytes("o")},
			Then: []wire.Then{{Queue: "q2", Message: wire.Message{Body: wire.Bytes("b"), Priority: &five}}}},
			&wire.Acked{At: atOne}, all(Acked{Index: 7, Time: atOne.Time}, nil)},
		{"nack", func(ctx context.Context, c *Client) []any {
			n, err := c.Nack(ctx, aTok, NackOptions{Error: "bad \xff", Delay: &delay, Permanent: false})
			return all(n, err)
		}, wire.TypeNack, &wire.Nack{Token: aTok, Error: "bad \uFFFD", DelayMillis: &delayMillis},
			&wire.Nacked{DueAt: aTime.UnixMilli(), At: atOne}, all(Nacked{DueAt: aTime}, nil)},
		{"extend", func(ctx context.Context, c *Client) []any {
			e, err := c.Extend(ctx, aTok, time.Minute)
			return all(e, err)
		},
			wire.TypeExtend, &wire.Extend{Token: aTok, LeaseMillis: 60000}, &wire.Extended{LeaseLeftMillis: 59000, At: atOne},
			all(Extended{Left: 59 * time.Second}, nil)},
		{"release", func(ctx context.Context, c *Client) []any { return all(c.Release(ctx, aTok)) },
			wire.TypeRelease, &wire.Release{Token: aTok}, &wire.OK{At: atOne}, all(nil)},
		{"status", func(ctx context.Context, c *Client) []any { s, err := c.ClusterStatus(ctx); return all(s, err) },
			wire.TypeClusterStatus, &wire.ClusterStatus{}, &wire.ClusterIs{Cluster: "c", Leader: "n1", Term: 3, At: atOne, Nodes: []wire.Node{
				{ID: "n1", UUID: "u", Role: "leader", Voter: true, Alive: true, ClientAddr: "a", RaftAddr: "r", Applied: 5, Version: "v", LastLog: 6}}},
			all(ClusterStatus{Cluster: "c", Leader: "n1", Term: 3, Nodes: []Node{
				{ID: "n1", UUID: "u", Role: "leader", Voter: true, Alive: true, ClientAddr: "a", RaftAddr: "r", Applied: 5, Version: "v", LastLog: 6}}}, nil)},
		{"verify", func(ctx context.Context, c *Client) []any { v, err := c.Verify(ctx); return all(v, err) },
			wire.TypeClusterVerify, &wire.ClusterVerify{}, &wire.Verified{Index: 4, Equal: true, Nodes: []wire.NodeDigest{{ID: "n1", Digest: "d", Error: "e"}}, At: atOne},
			all(Verified{Index: 4, Equal: true, Nodes: []NodeDigest{{"n1", "d", "e"}}}, nil)},
		{"transfer", func(ctx context.Context, c *Client) []any { return all(c.Transfer(ctx, "n2")) },
			wire.TypeClusterTransfer, &wire.ClusterTransfer{Node: "n2"}, &wire.OK{At: atOne}, all(nil)},
		{"remove", func(ctx context.Context, c *Client) []any { return all(c.Remove(ctx, "n2")) },
			wire.TypeClusterRemove, &wire.ClusterRemove{Node: "n2"}, &wire.OK{At: atOne}, all(nil)},
		{"enqueue", func(ctx context.Context, c *Client) []any {
			r, err := c.Enqueue(ctx, "q", Message{
				Body: []byte("b"), TaskID: "t", Kind: "k", ContentType: "c", Headers: []Header{{"a", "b"}}, Priority: Priority(5), Key: []byte("key"),
				DedupKey: []byte("d"), EnqueueAt: aTime, TTL: time.Second, Timeout: 2 * time.Second,
				Retry: &RetryPolicy{Kind: "exponential", Initial: time.Second, Multiplier: 1.1, Max: time.Minute, MaxAttempts: 3, Jitter: time.Millisecond},
			})
			return all(r, err)
		}, wire.TypeEnqueue, &wire.Enqueue{Queue: "q", Request: first, Messages: []wire.Message{{
			Body: wire.Bytes("b"), TaskID: "t", Kind: "k", ContentType: "c", Headers: []wire.Header{{Name: "a", Value: "b"}}, Priority: &five,
			Key: wire.Bytes("key"), DedupKey: wire.Bytes("d"), EnqueueAt: aTime.UnixMilli(), TTLMillis: 1000, TimeoutMillis: 2000,
			Retry: &wire.RetryPolicy{Kind: "exponential", InitialMillis: 1000, MultiplierMilli: 1100, MaxMillis: 60000, MaxAttempts: 3, JitterMillis: 1},
		}}}, &wire.Enqueued{Outcomes: []wire.Outcome{{ID: anID, TaskID: "t", Duplicate: true, Result: &recorded}}, At: atOne},
			all(Receipt{ID: anID, TaskID: "t", Duplicate: true, Result: wantResult, Index: 7, Time: atOne.Time}, nil)},
		{"lease", func(ctx context.Context, c *Client) []any {
			ds, err := c.Lease(ctx, "q", LeaseOptions{Max: 3, Wait: time.Second, Lease: time.Minute, Worker: "w"})
			if len(ds) != 1 {
				return all(len(ds), err)
			}
			left := time.Until(ds[0].Deadline)
			d := *ds[0]
			d.Deadline = time.Time{}
			return all(d, left > 50*time.Second && left < time.Minute, err)
		}, wire.TypeLease, &wire.Lease{Queue: "q", Max: 3, WaitMillis: 1000, LeaseMillis: 60000, Worker: "w", Request: first},
			&wire.Leased{Messages: []wire.Delivered{{
				ID: anID, Token: aTok, Attempt: 2, LeaseLeftMillis: 60000, Body: wire.Bytes("b"), TaskID: "t", Kind: "k", ContentType: "c",
				Headers: []wire.Header{{Name: "a", Value: "b"}}, Priority: 5, Key: wire.Bytes("key"), EnqueuedAt: aTime.UnixMilli(), TimeoutMillis: 2000, Redrives: 1,
			}}, At: atOne},
			all(Delivery{
				ID: anID, Token: aTok, TaskID: "t", Queue: "q", Kind: "k", ContentType: "c", Body: []byte("b"), Headers: []Header{{"a", "b"}},
				Priority: 5, Key: []byte("key"), Attempt: 2, Redrives: 1, EnqueuedAt: aTime, Timeout: 2 * time.Second,
			}, true, nil)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(t, 1)
			c := open(t, f, Options{})
			asked := 0
			f.do(func() {
				f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
					if r.Type != tc.typ {
						return pass, nil
					}
					if asked++; asked == 1 { // each call must survive a lost answer, and ask for the same
						return hangUp, nil
					}
					got := reflect.New(reflect.TypeOf(tc.body).Elem()).Interface()
					if err := r.Decode(got); err != nil {
						t.Error(err)
					}
					if !reflect.DeepEqual(got, tc.body) {
						t.Errorf("sent\n%+v, want\n%+v", got, tc.body)
					}
					fc.push(answerType(tc.typ), r.Tag, tc.answer)
					return ignore, nil
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			got := tc.call(ctx, c)
			for i := range tc.want {
				if !reflect.DeepEqual(got[i], tc.want[i]) {
					t.Errorf("result %d is\n%+v, want\n%+v", i, got[i], tc.want[i])
				}
			}
			if asked != 2 {
				t.Errorf("asked %d times", asked)
			}
		})
	}
}

// A fault becomes an error with all that it carries.
func TestErrors(t *testing.T) {
	f := newFake(t, 1)
	c := open(t, f, Options{FailWhenFull: true})
	var fault *wire.Fault
	f.do(func() {
		f.hook = func(_ *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
			if r.Type == wire.TypeQueueCreate {
				return pass, fault
			}
			return pass, nil
		}
	})
	for _, tc := range []struct {
		code     wire.Code
		sentinel error
		unknown  bool
	}{
		{wire.CodeInvalidArgument, ErrInvalidArgument, false}, {wire.CodeUnauthenticated, ErrUnauthenticated, false},
		{wire.CodePermissionDenied, ErrPermissionDenied, false}, {wire.CodeNotFound, ErrNotFound, false},
		{wire.CodeAlreadyExists, ErrAlreadyExists, false}, {wire.CodeLeaseLost, ErrLeaseLost, false},
		{wire.CodeCancelled, ErrCancelled, false}, {wire.CodeTooLarge, ErrTooLarge, false},
		{wire.CodeQueueFull, ErrQueueFull, false}, {wire.CodeRateLimited, ErrRateLimited, false},
		{wire.CodeOverloaded, ErrOverloaded, false}, {wire.CodeFailedPrecondition, ErrFailedPrecondition, false},
		{wire.CodeNoSpace, ErrNoSpace, false}, {wire.CodeUnsupportedVersion, ErrUnsupportedVersion, false},
		{wire.CodeInternal, ErrInternal, true},
	} {
		t.Run(string(tc.code), func(t *testing.T) {
			f.do(func() {
				fault = wire.NewFault(tc.code, "what was wrong")
				fault.RetryAfterMillis, fault.ID, fault.Field, fault.Leader = 1500, anID, "queue", "a:1"
				fault.Result = &wire.Result{Output: wire.Bytes("first")}
			})
			err := fmt.Errorf("wrapped: %w", c.CreateQueue(t.Context(), "q", QueueOptions{}))
			var e *Error
			if !errors.Is(err, tc.sentinel) || !errors.As(err, &e) {
				t.Fatalf("error %v", err)
			}
			if e.Code != tc.code || e.Message != "what was wrong" || e.Unknown != tc.unknown || Unknown(err) != tc.unknown || e.Retry != tc.code.Retry() ||
				e.RetryAfter != 1500*time.Millisecond || e.ID != anID || e.Field != "queue" || e.Leader != "a:1" || string(e.Result.Output) != "first" {
				t.Errorf("error %+v", e)
			}
			for _, other := range []error{ErrTimeout, ErrUnavailable, ErrClosed} {
				if errors.Is(err, other) {
					t.Errorf("error %v is %v", err, other)
				}
			}
		})
	}
}

// A server that has stopped reading: what is queued is bounded, the connection is given up, and all goes to the next one.
func TestSlowServer(t *testing.T) {
	f := newFake(t, 2)
	f.keepLog = true
	f.ping = 250 * time.Millisecond
	c := open(t, f, Options{MaxPending: 64})
	f.do(func() { f.deaf = f.nodes[0] })
	var done, failed int
	finished := make(chan error, 200)
	go func() {
		for range 150 {
			err := c.EnqueueAsync(t.Context(), "q", Message{Body: make([]byte, 256<<10)}, func(_ Receipt, err error) { finished <- err })
			if err != nil {
				finished <- err
			}
		}
	}()
	until(t, "the bound", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.pending == 64 && len(c.slots) == 1 })
	f.lead(1, false)
	for range 150 {
		if err := <-finished; err != nil {
			failed++
			t.Error(err)
		}
		done++
	}
	f.do(func() {
		if len(f.log) != 150 {
			t.Errorf("%d in the log, %d done, %d failed", len(f.log), done, failed)
		}
	})
}

// A rate that is none is refused in the caller's own words, and never taken for no limit.
func TestRateRefused(t *testing.T) {
	c := open(t, newFake(t, 1), Options{})
	for _, rate := range []float64{0.0001, -1, math.NaN(), math.Inf(1), 1e300} {
		err := c.CreateQueue(t.Context(), "q", QueueOptions{Rate: rate})
		if !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), fmt.Sprint(rate)) {
			t.Errorf("rate %v: %v", rate, err)
		}
	}
}
