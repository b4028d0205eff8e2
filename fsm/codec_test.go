package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// vector is an operation with a name, for the golden file.
type vector struct {
	name string
	op   Op
}

func fullMessage() Message {
	return Message{
		TaskID: []byte("task-7"), Kind: []byte("navigate_extract"), ContentType: []byte("application/json"),
		Headers: []Header{{Name: []byte("traceparent"), Value: []byte("00-01-02-03")}, {Name: []byte("empty")}},
		Body:    []byte("{\"url\":\"https://example.org\"}"), Key: []byte{0xFF, 0x00}, Priority: 9, HasDedup: true,
		DedupKey: [16]byte{1, 2, 3}, DedupContent: [16]byte{4, 5, 6}, DelayMillis: 1500, DueAt: 1_700_000_000_000,
		TTLMillis: 60_000, TimeoutMillis: -1, Retry: RetryPolicy{
			Kind: RetryExponential, Steps: []int64{0, 1, -5}, InitialMillis: 1, MultiplierMilli: 2, MaxMillis: 3, MaxAttempts: -4,
			JitterMillis: 5,
		},
	}
}

// vectors holds every operation, empty and full.
func vectors() []vector {
	req := Request{Session: MakeID(1, 2, 3, 4), Number: 300, Low: 7}
	tok := Token{Message: MakeID(0xABCD, 1, 0x0102030405060708, 9), Lease: MakeID(1, 1, 77, 3)}
	opts := QueueOptions{
		LeaseMillis: 30_000, Retry: RetryPolicy{Kind: RetrySchedule, Steps: []int64{1000, 5000}}, MaxDead: 10,
		DeadOverflow: DeadDropOldest, DeadRetentionMillis: 1000, DedupWindowMillis: 2000, DedupMaxKeys: 30, ResultTTLMillis: 4000,
		MaxResultsBytes: 1 << 40, Ordering: OrderPerKey, MaxDepth: 100_000_000, MaxBytes: 1 << 40, MaxInFlight: 7, MaxAgeMillis: 1, Paused: true,
		DeadLetterQueue: "orders.dead",
	}
	res := Result{Output: []byte("done"), ContentType: []byte("text/plain")}
	q := []byte("orders.eu")
	return []vector{
		{"bootstrap", &Bootstrap{Cluster: [16]byte{15: 1}, Epoch: 0x0102}},
		{"open-session", &OpenSession{}},
		{"touch-session", &TouchSession{Session: MakeID(1, 0, 5, 0)}},
		{"create-queue", &CreateQueue{Request: req, Name: q, Options: opts}},
		{"create-queue-defaults", &CreateQueue{Name: q}},
		{"create-queue-modes", &CreateQueue{Name: q, Options: QueueOptions{Overflow: OverflowDropOldest, Delivery: DeliverAtMostOnce}}},
		{"set-queue", &SetQueue{Request: req, Name: q, Options: QueueOptions{Retry: RetryPolicy{JitterMillis: 3}}}},
		{"set-queue-keys", &SetQueue{Name: q, Options: QueueOptions{
			MaxInFlightPerKey: 3, RatePerKeyMilli: 2500, BurstPerKey: 4, FairBy: FairByKey, FairWeights: []FairWeight{{"a", 100}, {"b\x00", -1}},
		}}},
		{"set-queue-push", &SetQueue{Name: q, Options: QueueOptions{PushURL: "https://example.org/in?a=b", PushConcurrency: 256, PushTimeoutMillis: 2500,
			PushSecrets: []string{"new", "old"}, PushPermanent: []int64{400, 451}, PushHeaders: []string{"traceparent", "x-a"}}}},
		{"set-queue-push-url", &SetQueue{Name: q, Options: QueueOptions{PushURL: "x"}}},
		{"set-queue-mapping", &SetQueue{Name: q, Options: QueueOptions{Schema: `{"type":"object"}`, Map: "body.a",
			MapTo: MapTo{Queue: "next", Expression: "{id: body.id}"}}}},
		{"set-queue-map-to-half", &SetQueue{Name: q, Options: QueueOptions{MapTo: MapTo{Expression: "x"}}}},
		{"set-queue-rate", &SetQueue{Name: q, Options: QueueOptions{RateMilli: LimitRateMilli, Burst: 300}}},
		{"change-queue", &ChangeQueue{Request: req, Name: q, Only: changeableSet & (1<<41 - 1), Options: opts}},
		{"change-queue-push", &ChangeQueue{Name: q, Only: 0x3f << 41, Options: QueueOptions{PushURL: "http://a"}}},
		{"change-queue-mapping", &ChangeQueue{Name: q, Only: 7 << 47, Options: QueueOptions{Schema: "true"}}},
		{"change-queue-one", &ChangeQueue{Name: q, Only: 1 << 25}},
		{"delete-queue", &DeleteQueue{Request: req, Name: q}},
		{"purge-queue", &PurgeQueue{Name: q}},
		{"enqueue", &Enqueue{Request: req, Queue: q, AutoCreate: true, Messages: []Message{{}, fullMessage(), {Body: []byte{0}}}}},
		{"enqueue-empty", &Enqueue{}},
		{"lease", &Lease{
			Request: req, Queue: q, Consumer: Consumer{Session: MakeID(1, 0, 5, 0), Sub: 1<<32 - 1}, Worker: []byte("h:1:0"),
			Max: 1000, MaxBytes: 4 << 20, LeaseMillis: 100,
		}},
		{"pull", &Lease{Queue: q, Max: 1, Waits: true}},
		{"lease-negative", &Lease{Queue: q, Max: -1, MaxBytes: -1, LeaseMillis: -1 << 63}},
		{"ack", &Ack{Token: tok}},
		{"ack-result", &Ack{
			Token: tok, HasResult: true, Result: res, ThenAutoCreate: true,
			Then: []ThenMessage{{Queue: q, Message: fullMessage()}, {Queue: []byte("b")}},
		}},
		{"ack-mapped", &Ack{Token: tok, Then: []ThenMessage{{q, Message{Body: []byte("b"), Priority: 4}}}, Mapping: 300}},
		{"nack-mapped", &Nack{Token: tok, Error: []byte("map_to 1:5"), DelayMillis: -1, Mapping: 1}},
		{"ack-empty-result", &Ack{Token: tok, HasResult: true}},
		{"nack", &Nack{Token: tok, Error: []byte("boom"), DelayMillis: -1, Permanent: true}},
		{"extend", &Extend{Token: tok, LeaseMillis: 5000}},
		{"release", &Release{Token: tok}},
		{"release spent", &Release{Token: tok, Spent: true}},
		{"push-result", &PushResult{Request: req, Queue: q, TaskID: []byte("t"), Kind: []byte("k"), Result: res}},
		{"dead-requeue", &DeadRequeue{Request: req, Queue: q, IDs: []ID{MakeID(1, 1, 1, 1), {}}}},
		{"dead-delete", &DeadDelete{Queue: q}},
		{"dead-purge", &DeadPurge{Request: req, Queue: q}},
		{"create-schedule", &CreateSchedule{Request: req, Schedule: Schedule{
			Name: []byte("nightly"), Queue: q, Cron: []byte("0 3 * * *"), Zone: []byte("Europe/Berlin"), JitterMillis: 5000,
			Policy: MissedAll, Paused: true, AutoCreate: true, Message: fullMessage(),
		}}},
		{"set-schedule", &SetSchedule{Schedule: Schedule{Name: []byte("n"), Queue: q, Cron: []byte("@hourly")}}},
		{"delete-schedule", &DeleteSchedule{Request: req, Name: []byte("nightly")}},
		{"fire-schedule", &FireSchedule{Name: []byte("nightly"), Generation: 300, At: t0, Next: t0 + 1, Fire: true, Skipped: 9}},
		{"fire-schedule-never", &FireSchedule{Name: []byte("nightly"), Generation: 1, Next: FireNever}},
		{"checkpoint", &Checkpoint{Nonce: 0x0102030405060708}},
		{"cancel", &Cancel{Request: req, Queue: q, TaskID: []byte("t")}},
		{"cancel-by-id", &Cancel{TaskID: []byte(MakeID(1, 1, 1, 1).String())}},
		{"reschedule-nothing", &Reschedule{}},
		{"reschedule", &Reschedule{Request: req, Queue: q, TaskID: []byte("t"), When: AfterDelay, Time: 1500, MaxWaitMillis: 60_000}},
		{"reschedule-at", &Reschedule{Queue: q, TaskID: []byte("t"), When: AtTime, Time: 1_700_000_000_000}},
		{"replace", &Reschedule{Queue: q, TaskID: []byte("t"), HasBody: true, Body: []byte("new"), ContentType: []byte("text/plain")}},
		{"replace-empty", &Reschedule{Queue: q, TaskID: []byte("t"), HasBody: true}},
		{"enqueue-keys", &Enqueue{Queue: q, Messages: []Message{{Keys: [][]byte{AppendKVKey(nil, "a", ""), []byte("x")}}}}},
		{"enqueue-batch", &Enqueue{Queue: q, Messages: []Message{{Batch: MakeID(1, 1, 9, 2)}}}},
		{"batch-create", &BatchCreate{Request: req, Queue: q, AutoCreate: true, Callback: fullMessage()}},
		{"batch-seal", &BatchSeal{Request: req, Batch: MakeID(1, 1, 9, 2)}},
		{"kv-delete", &KVDelete{Request: req, Key: AppendKVKey(nil, "a", "b")}},
		{"dead-edit", &DeadEdit{Request: req, Queue: q, ID: MakeID(1, 1, 1, 1), Fields: EditBody | EditDelay, Message: fullMessage()}},
		{"dead-edit-nothing", &DeadEdit{Queue: q}},
		{"idempotent", &Idempotent{
			IdempotencyKey: IdempotencyKey{Key: [16]byte{1, 15: 2}, Print: [16]byte{3, 15: 4}, Part: 1<<32 - 1}, Note: []byte("note"),
			Op: &Enqueue{Request: req, Queue: q, AutoCreate: true, Messages: []Message{fullMessage(), {}}},
		}},
		{"nothing", &Nothing{}},
		{"idempotent-nothing", &Idempotent{IdempotencyKey: IdempotencyKey{Key: [16]byte{5}}, Note: []byte{0}, Op: &Nothing{}}},
		{"idempotent-release", &Idempotent{Op: &Release{Token: tok, Spent: true}}},
		{"idempotent-pull", &Idempotent{IdempotencyKey: IdempotencyKey{Part: 300}, Op: &Lease{Queue: q, Max: 1, Waits: true}}},
	}
}

func TestCodecVectors(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	seen := map[uint8]bool{}
	all := AppendEntryHeader(nil, 1_700_000_000_123, 5)
	var ops []Op
	for _, v := range vectors() {
		b := AppendEntryHeader(nil, 1_700_000_000_123, 5)
		b = AppendOp(b, v.op)
		all = AppendOp(all, v.op)
		ops = append(ops, v.op)
		seen[v.op.opNumber()] = true
		fmt.Fprintf(&file, "%s %x\n", v.name, b[EntryHeaderSize:])
		e, err := DecodeEntry(b)
		if err != nil {
			t.Errorf("%s: %v", v.name, err)
			continue
		}
		if len(e.Ops) != 1 || !reflect.DeepEqual(e.Ops[0], v.op) {
			t.Errorf("%s: decoded %+v, want %+v", v.name, e.Ops, v.op)
		}
		// Every shorter form is refused, and so is one more byte.
		for n := EntryHeaderSize + 1; n < len(b); n++ {
			if err := CheckEntry(b[:n]); !errors.Is(err, ErrFormat) {
				t.Fatalf("%s cut to %d of %d bytes: %v, want ErrFormat", v.name, n, len(b), err)
			}
		}
		if err := CheckEntry(append(b, 0)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s with a byte behind it: %v, want ErrFormat", v.name, err)
		}
	}
	for n, name := range opNames {
		if name != "" && !seen[uint8(n)] {
			t.Errorf("no vector for operation %d (%s)", n, name)
		}
	}
	golden(t, "codec.golden", file.Bytes())

	e, err := DecodeEntry(all)
	if err != nil || e.Now != 1_700_000_000_123 || e.Shift != 5 || !reflect.DeepEqual(e.Ops, ops) {
		t.Errorf("all operations in one entry: %+v, %v", e, err)
	}
}

func TestEmptyEntry(t *testing.T) {
	t.Parallel()
	b := AppendEntryHeader(nil, 1, 2)
	if len(b) != EntryHeaderSize {
		t.Fatalf("header of %d bytes, want %d", len(b), EntryHeaderSize)
	}
	SetEntryTime(b, -3, 1<<62)
	e, err := DecodeEntry(b)
	if err != nil || e.Now != -3 || e.Shift != 1<<62 || len(e.Ops) != 0 {
		t.Errorf("got %+v, %v; want now -3, shift 1<<62, no operation", e, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	entry := func(ops ...byte) []byte { return append(AppendEntryHeader(nil, 0, 0), ops...) }
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	zero := func(n int) []byte { return make([]byte, n) }
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"nothing", nil, "entry is empty"},
		{"version 0", make([]byte, EntryHeaderSize), "format 0, this build reads 1"},
		{"version 2", append([]byte{2}, make([]byte, 16)...), "format 2, this build reads 1"},
		{"short header", entry()[:16], "16 bytes, want at least the header of 17"},
		{"op 0", entry(0), "offset 17: operation 0 is unknown"},
		{"op past the last", entry(255), "is unknown"},
		{"op between", entry(29), "is unknown"},
		{"reschedule of a kind", entry(opReschedule, 0, 0, 0, byte(whenEnd)), "time of kind"},
		{"boolean 2", entry(opDeleteQueue, 2), "offset 18: DeleteQueue: boolean is 2"},
		{"number not shortest", entry(opDeleteQueue, 0, 0x81, 0), "shortest form"},
		{"number over 64 bits", entry(opDeleteQueue, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2), "64 bits"},
		{"number without end", entry(opDeleteQueue, 0, 0x80), "ends early"},
		{"length past the end", entry(opDeleteQueue, 0, 5, 'a'), "length 5, 1 bytes are left"},
		{"length of 2^63", entry(opDeleteQueue, 0, 128, 128, 128, 128, 128, 128, 128, 128, 128, 1), "bytes are left"},
		{"zero request present", join(entry(opDeleteQueue, 1), zero(18), []byte{0}), "request that is present is zero"},
		{"many messages in few bytes", entry(opEnqueue, 0, 0, 0, 100, 0, 0), "100 messages cannot be in 2 bytes"},
		{"too many messages", join(entry(opEnqueue, 0, 0, 0, 0x81, 0x20), zero(9000)), "4097 messages, want at most 4096"},
		{"unknown message bit", entry(opEnqueue, 0, 0, 0, 1, 0x80, 0x80, 0x01, 0), "presence bits 0x4000"},
		{"no keys present", entry(opEnqueue, 0, 0, 0, 1, 0x80, 0x20, 0, 0), "keys are present but none"},
		{"too many keys", entry(opEnqueue, 0, 0, 0, 1, 0x80, 0x20, 0, 65), "65 keys, want at most 64"},
		{"empty field present", entry(opEnqueue, 0, 0, 0, 1, msgKind, 0, 0), "present is empty"},
		{"zero field present", entry(opEnqueue, 0, 0, 0, 1, 0x80, 0x01, 0, 0), "present is zero"},
		{"no headers present", entry(opEnqueue, 0, 0, 0, 1, msgHeaders, 0, 0), "headers are present but none"},
		{"zero priority present", entry(opEnqueue, 0, 0, 0, 1, msgPriority, 0, 0), "priority that is present is zero"},
		{"zero retry present", entry(opEnqueue, 0, 0, 0, 1, 0x80, 0x10, 0, 0, 0), "retry policy that is present is zero"},
		{"unknown retry bit", entry(opEnqueue, 0, 0, 0, 1, 0x80, 0x10, 0, 1, 0x40), "retry policy with presence bits 0x40"},
		{"no steps present", entry(opEnqueue, 0, 0, 0, 1, 0x80, 0x10, 0, 1, retrySteps, 0), "steps are present but none"},
		{"unknown option bit", entry(opCreateQueue, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01), "presence bits 0x40000000000"},
		{"empty dead-letter queue present", entry(opCreateQueue, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x04, 0), "present is empty"},
		{"edit of fields over 16 bits", join(entry(opDeadEdit, 0, 0), zero(16), []byte{0x80, 0x80, 0x04, 0, 0}), "16 bits"},
		{"zero overflow present", entry(opCreateQueue, 0, 0, optOverflow, 0), "dead_overflow that is present is zero"},
		{"no mappings present", entry(opCreateQueue, 0, 0, 0x80, 0x80, 0x20, 0), "schema and mappings are present but none"},
		{"unknown mapping bit", entry(opCreateQueue, 0, 0, 0x80, 0x80, 0x20, 0x10), "presence bits 0x10"},
		{"empty schema", entry(opCreateQueue, 0, 0, 0x80, 0x80, 0x20, mappingSchema, 0), "present is empty"},
		{"ack of generation 0", join(entry(opAckMapped), zero(32), []byte{0, 0, 0, 0}), "generation that is present is zero"},
		{"nack of generation 0", join(entry(opNackMapped), zero(32), []byte{0, 0, 0, 0}), "generation that is present is zero"},
		{"no push options present", entry(opCreateQueue, 0, 0, 0x80, 0x80, 0x10, 0), "push options are present but none"},
		{"unknown push bit", entry(opCreateQueue, 0, 0, 0x80, 0x80, 0x10, 0x40), "presence bits 0x40"},
		{"empty push url", entry(opCreateQueue, 0, 0, 0x80, 0x80, 0x10, pushURL, 0), "present is empty"},
		{"no push secrets", entry(opCreateQueue, 0, 0, 0x80, 0x80, 0x10, pushSecrets, 0), "push secrets are present but none"},
		{"too many push headers", entry(opCreateQueue, 0, 0, 0x80, 0x80, 0x10, pushHeaders, 0x81, 0x02), "257 push headers, want at most 256"},
		{"zero ordering present", entry(opCreateQueue, 0, 0, 0x80, 0x04, 0), "an ordering that is present is zero"},
		{"subscription over 32 bits", join(entry(opLease, 0, 0), zero(16), []byte{0x80, 0x80, 0x80, 0x80, 0x10, 0, 0, 0, 0}), "32 bits"},
		{"max over 32 bits", join(entry(opLease, 0, 0), zero(16), []byte{0, 0, 0x80, 0x80, 0x80, 0x80, 0x10, 0, 0}), "32 bits"},
		{"ids past the end", entry(opDeadDelete, 0, 0, 1, 1, 2, 3), "1 ids cannot be in 3 bytes"},
		{"a key without an operation", join(entry(opIdempotent), zero(32), []byte{0, 0}), "Idempotent ends early"},
		{"a key cut off", join(entry(opIdempotent), zero(20)), "Idempotent ends early"},
		{"part over 32 bits", join(entry(opIdempotent), zero(32), []byte{0x80, 0x80, 0x80, 0x80, 0x10, 0, opOpenSession}), "32 bits"},
		{"note too long", join(entry(opIdempotent), zero(32), []byte{0, 0x81, 0x80, 0x02}, zero(MaxIdempotencyNote+1), []byte{opOpenSession}), "note of 32769 bytes"},
		{"two keys", join(entry(opIdempotent), zero(32), []byte{0, 0, opIdempotent}, zero(32), []byte{0, 0, opOpenSession}), "operation 26 is unknown to this build behind a key"},
		{"unknown behind a key", join(entry(opIdempotent), zero(32), []byte{0, 0, 79}), "operation 79 is unknown to this build behind a key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := DecodeEntry(c.data)
			if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("DecodeEntry: %v, want ErrFormat with %q", err, c.want)
			}
			if err2 := CheckEntry(c.data); err2 == nil || err2.Error() != err.Error() {
				t.Errorf("CheckEntry: %v, want the same as DecodeEntry: %v", err2, err)
			}
		})
	}
}

func TestCheckOp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		op   Op
		ok   bool
	}{
		{"messages at the limit", &Enqueue{Messages: make([]Message, formatMessages)}, true},
		{"messages over it", &Enqueue{Messages: make([]Message, formatMessages+1)}, false},
		{"headers over it", &Enqueue{Messages: []Message{{Headers: make([]Header, formatHeaders+1)}}}, false},
		{"steps over it", &Enqueue{Messages: []Message{{Retry: RetryPolicy{Steps: make([]int64, formatSteps+1)}}}}, false},
		{"then over it", &Ack{Then: make([]ThenMessage, formatMessages+1)}, false},
		{"then headers over it", &Ack{Then: []ThenMessage{{Message: Message{Headers: make([]Header, formatHeaders+1)}}}}, false},
		{"ids at the limit", &DeadDelete{IDs: make([]ID, formatIDs)}, true},
		{"requeue ids over it", &DeadRequeue{IDs: make([]ID, formatIDs+1)}, false},
		{"delete ids over it", &DeadDelete{IDs: make([]ID, formatIDs+1)}, false},
		{"create steps over it", &CreateQueue{Options: QueueOptions{Retry: RetryPolicy{Steps: make([]int64, 257)}}}, false},
		{"push secrets over it", &SetQueue{Options: QueueOptions{PushSecrets: make([]string, 257)}}, false},
		{"push statuses over it", &SetQueue{Options: QueueOptions{PushPermanent: make([]int64, 257)}}, false},
		{"push headers over it", &CreateQueue{Options: QueueOptions{PushHeaders: make([]string, 257)}}, false},
		{"push headers at the limit", &CreateQueue{Options: QueueOptions{PushHeaders: make([]string, 256)}}, true},
		{"set steps over it", &SetQueue{Options: QueueOptions{Retry: RetryPolicy{Steps: make([]int64, 257)}}}, false},
		{"note at the limit", &Idempotent{Note: make([]byte, MaxIdempotencyNote), Op: &OpenSession{}}, true},
		{"note over it", &Idempotent{Note: make([]byte, MaxIdempotencyNote+1), Op: &OpenSession{}}, false},
		{"a key for a key", &Idempotent{Op: &Idempotent{Op: &OpenSession{}}}, false},
		{"a key for nothing", &Idempotent{}, false},
		{"steps over it behind a key", &Idempotent{Op: &SetQueue{Options: QueueOptions{Retry: RetryPolicy{Steps: make([]int64, 257)}}}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := CheckOp(c.op)
			if c.ok {
				if err != nil {
					t.Fatalf("CheckOp: %v", err)
				}
				if err := CheckEntry(AppendOp(AppendEntryHeader(nil, 0, 0), c.op)); err != nil {
					t.Fatalf("CheckOp let through what cannot be read: %v", err)
				}
				return
			}
			if !errors.Is(err, ErrOpLimit) {
				t.Fatalf("CheckOp: %v, want ErrOpLimit", err)
			}
			defer func() {
				if recover() == nil {
					t.Error("AppendOp wrote an operation that no node can read")
				}
			}()
			AppendOp(nil, c.op)
		})
	}
}

func TestDecoderReuse(t *testing.T) { // not parallel: counts allocations
	var d Decoder
	full := AppendOp(AppendEntryHeader(nil, 0, 0), &Enqueue{Queue: []byte("q"), Messages: []Message{fullMessage(), fullMessage()}})
	bare := AppendOp(AppendEntryHeader(nil, 0, 0), &Enqueue{Queue: []byte("q"), Messages: []Message{{}, {}, {Body: []byte("b")}}})
	var op Enqueue
	readOne := func(data []byte) {
		t.Helper()
		if err := d.Check(data); err != nil {
			t.Fatal(err)
		}
		if err := d.Reset(data); err != nil || !d.Next() || d.Op() != opEnqueue {
			t.Fatal(d.Err())
		}
		d.Enqueue(&op)
		if d.Next() || d.Err() != nil {
			t.Fatal("not at the end", d.Err())
		}
	}
	for range 2 {
		readOne(full)
		for i := range op.Messages {
			if want := fullMessage(); !reflect.DeepEqual(op.Messages[i], want) {
				t.Fatalf("message %d: %+v, want %+v", i, op.Messages[i], want)
			}
		}
		readOne(bare)
		if len(op.Messages) != 3 {
			t.Fatalf("%d messages, want 3", len(op.Messages))
		}
		for i, m := range op.Messages { // nothing of the full ones may shine through
			if len(m.Headers) != 0 || len(m.Retry.Steps) != 0 {
				t.Fatalf("message %d keeps old elements: %+v", i, m)
			}
			m.Headers, m.Retry.Steps = nil, nil
			want := Message{}
			if i == 2 {
				want.Body = []byte("b")
			}
			if !reflect.DeepEqual(m, want) {
				t.Fatalf("message %d: %+v, want %+v", i, m, want)
			}
		}
	}
	if n := testing.AllocsPerRun(100, func() { readOne(full); readOne(bare) }); n != 0 {
		t.Errorf("%v allocations a run, want 0", n)
	}
}

// TestDecoderLetsGo: what is read again holds nothing of the entries before, however long their batches were.
func TestDecoderLetsGo(t *testing.T) {
	t.Parallel()
	var d Decoder
	var enqueue Enqueue
	var ack Ack
	for n := 5; n >= 0; n-- {
		long := &Enqueue{Messages: make([]Message, n)}
		then := &Ack{Then: make([]ThenMessage, n)}
		for i := range n {
			long.Messages[i] = fullMessage()
			long.Messages[i].Headers = long.Messages[i].Headers[:min(2, n-i)]
			then.Then[i] = ThenMessage{Queue: []byte("q"), Message: long.Messages[i]}
		}
		data := AppendOp(AppendOp(AppendEntryHeader(nil, 0, 0), long), then)
		if err := d.Reset(data); err != nil {
			t.Fatal(err)
		}
		d.Next()
		d.Enqueue(&enqueue)
		d.Next()
		d.Ack(&ack)
		if d.Next() || d.Err() != nil || len(enqueue.Messages) != n || len(ack.Then) != n {
			t.Fatalf("%d messages: %d and %d, %v", n, len(enqueue.Messages), len(ack.Then), d.Err())
		}
		check := func(m *Message, live bool) {
			t.Helper()
			hs := m.Headers[:cap(m.Headers)]
			for _, h := range hs[len(m.Headers):] {
				if h.Name != nil || h.Value != nil {
					t.Fatalf("%d messages: a header behind the length holds on to an entry", n)
				}
			}
			if !live && (m.Body != nil || m.TaskID != nil || m.Kind != nil || m.ContentType != nil || m.Key != nil || len(m.Headers) > 0) {
				t.Fatalf("%d messages: one behind the length holds on to an entry", n)
			}
		}
		for i := range enqueue.Messages[:cap(enqueue.Messages)] {
			check(&enqueue.Messages[:cap(enqueue.Messages)][i], i < n)
		}
		for i := range ack.Then[:cap(ack.Then)] {
			th := &ack.Then[:cap(ack.Then)][i]
			check(&th.Message, i < n)
			if i >= n && th.Queue != nil {
				t.Fatal("a queue name behind the length holds on to an entry")
			}
		}
	}
}

func TestDecoderMisuse(t *testing.T) {
	t.Parallel()
	data := AppendOp(AppendOp(AppendEntryHeader(nil, 0, 0), &OpenSession{}), &OpenSession{})
	for name, f := range map[string]func(d *Decoder){
		"next twice": func(d *Decoder) { d.Next(); d.Next() },
		"wrong op":   func(d *Decoder) { d.Next(); d.Release(&Release{}) },
		"read twice": func(d *Decoder) { d.Next(); d.Skip(); d.OpenSession(&OpenSession{}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			var d Decoder
			if err := d.Reset(data); err != nil {
				t.Fatal(err)
			}
			f(&d)
		})
	}
}

func FuzzDecodeEntry(f *testing.F) {
	all := AppendEntryHeader(nil, 1, 2)
	for _, v := range vectors() {
		f.Add(AppendOp(AppendEntryHeader(nil, 1, 2), v.op))
		all = AppendOp(all, v.op)
	}
	f.Add(all)
	f.Fuzz(func(t *testing.T, data []byte) {
		keep := bytes.Clone(data)
		e, err := DecodeEntry(data)
		if !bytes.Equal(data, keep) {
			t.Fatal("decoding wrote to the entry")
		}
		if err2 := CheckEntry(data); (err == nil) != (err2 == nil) {
			t.Fatalf("DecodeEntry: %v, CheckEntry: %v", err, err2)
		}
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("error does not wrap ErrFormat: %v", err)
			}
			return
		}
		b := AppendEntryHeader(nil, e.Now, e.Shift)
		for _, op := range e.Ops {
			if err := CheckOp(op); err != nil {
				t.Fatal(err)
			}
			b = AppendOp(b, op)
		}
		if !bytes.Equal(b, data) {
			t.Fatalf("not canonical:\n in %x\nout %x", data, b)
		}
	})
}

func BenchmarkCodec(b *testing.B) {
	tok := Token{Message: MakeID(1, 0, 1<<30, 5), Lease: MakeID(1, 0, 1<<30, 6)}
	req := Request{Session: MakeID(1, 0, 5, 0), Number: 3000, Low: 2900}
	msg := Message{Kind: []byte("navigate"), Body: make([]byte, 256), Priority: 4}
	batch := make([]Message, 100)
	for i := range batch {
		batch[i] = msg
	}
	for _, c := range []struct {
		name string
		op   Op
		per  int
	}{
		{"enqueue1", &Enqueue{Request: req, Queue: []byte("orders"), Messages: batch[:1]}, 1},
		{"enqueue100", &Enqueue{Request: req, Queue: []byte("orders"), Messages: batch}, 100},
		{"lease", &Lease{Queue: []byte("orders"), Consumer: Consumer{Session: req.Session, Sub: 1}, Worker: []byte("host:1:0"), Max: 100}, 1},
		{"ack", &Ack{Token: tok}, 1},
		{"nack", &Nack{Token: tok, Error: []byte("boom"), DelayMillis: -1}, 1},
	} {
		const ops = 512
		n := max(1, ops/c.per)
		one := AppendEntryHeader(nil, 0, 0)
		for range n {
			one = AppendOp(one, c.op)
		}
		perOp := func(b *testing.B) {
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n*c.per), "ns/item")
			b.ReportAllocs()
		}
		b.Run(c.name+"/encode", func(b *testing.B) {
			buf := make([]byte, 0, len(one))
			for b.Loop() {
				buf = AppendEntryHeader(buf[:0], 0, 0)
				for range n {
					buf = AppendOp(buf, c.op)
				}
			}
			perOp(b)
		})
		b.Run(c.name+"/check", func(b *testing.B) {
			var d Decoder
			for b.Loop() {
				if err := d.Check(one); err != nil {
					b.Fatal(err)
				}
			}
			perOp(b)
		})
		b.Run(c.name+"/decode", func(b *testing.B) {
			var d Decoder
			var enq Enqueue
			var lease Lease
			var ack Ack
			var nack Nack
			for b.Loop() {
				if err := d.Reset(one); err != nil {
					b.Fatal(err)
				}
				for d.Next() {
					switch d.Op() {
					case opEnqueue:
						d.Enqueue(&enq)
					case opLease:
						d.Lease(&lease)
					case opAck:
						d.Ack(&ack)
					case opNack:
						d.Nack(&nack)
					}
				}
			}
			perOp(b)
		})
	}
}
