package wire

import (
	"strconv"
	"strings"
	"testing"
)

const mmb = DefaultMaxMessageBytes

func long(n int) string { return strings.Repeat("x", n) }

func tokensOf(n int) []string {
	ts := make([]string, n)
	for i := range ts {
		ts[i] = exampleToken
	}
	return ts
}

func messageWith(set func(*Message)) *Message {
	m := &Message{Body: Bytes("b")}
	set(m)
	return m
}

func enqueueOf(n, size int) *Enqueue {
	e := &Enqueue{Queue: "q", Messages: make([]Message, n), Request: Request{Number: 1, Low: 1}}
	body := make([]byte, size)
	for i := range e.Messages {
		e.Messages[i].Body = body
	}
	return e
}

// kvKeys are n different keys.
func kvKeys(n int) (keys [][]string) {
	for i := range n {
		keys = append(keys, []string{string(rune('0' + i))})
	}
	return keys
}

func headersOf(n, name, value int) []Header {
	hs := make([]Header, n)
	for i := range hs {
		hs[i] = Header{Name: long(name), Value: long(value)}
	}
	return hs
}

// Every limit at its edge: what is just inside passes (want ""), what is just outside is refused with the field, the
// value or its length and the limit in the message.
func TestValidate(t *testing.T) {
	retry := func(p RetryPolicy) *Fault { return p.Validate("retry") }
	queue := func(name string) *Fault { return CheckQueue("queue", name) }
	task := func(queue, id string) *Fault { return (&TaskRef{Queue: queue, TaskID: id}).Validate() }
	message := func(set func(*Message)) *Fault { return messageWith(set).Validate(mmb) }
	callback := func(set func(*Message)) *Fault {
		return (&BatchCreate{Queue: "q", Callback: *messageWith(set)}).Validate(mmb)
	}
	options := func(o QueueOptions) *Fault { return o.Validate() }
	schedule := func(name string) *Fault { return (&Schedule{Name: name, Queue: "q", Cron: "@daily"}).Validate(mmb) }
	sub := Subscribe{Sub: 1, Queue: "q", Credit: 1}
	result := Result{Output: Bytes("r")}
	change := func(r TaskReschedule) *Fault {
		r.Task = TaskRef{Queue: "q", TaskID: "t"}
		return r.Validate(mmb)
	}
	for _, c := range []struct {
		name  string
		fault *Fault
		want  string // how the message begins, "" for no fault
	}{
		{"queue of one letter", queue("q"), ""},
		{"queue with all it may have", queue("a.B_9:x-y"), ""},
		{"queue of 128", queue(long(128)), ""},
		{"queue of 129", queue(long(129)), "queue: a queue name of 129 bytes; 1 to 128"},
		{"queue empty", queue(""), "queue: a queue name of 0 bytes"},
		{"queue begins with a dot", queue(".q"), `queue: ".q" is no queue name`},
		{"queue is dot-dot", queue(".."), "queue: "},
		{"queue with a slash", queue("a/b"), `queue: "a/b" is no queue name: letters, digits and . _ : - are allowed`},
		{"schedule with a slash", schedule("a/b"), `name: "a/b" is no schedule name`},
		{"schedule of 97", schedule(long(97)), "name: a schedule name of 97 bytes; 1 to 96"},
		{"queue with a space", queue("a b"), "queue: "},
		{"queue with NUL", queue("a\x00"), "queue: "},
		{"queue with a percent", queue("a%2f"), "queue: "},
		{"queue in another script", queue("größe"), "queue: "},

		{"task id of a broker, no queue", task("", exampleID), ""},
		{"task id of a producer, with queue", task("q", "t-1"), ""},
		{"task id of a producer, no queue", task("", "t-1"), "queue: missing; only a task id that the broker made"},
		{"task id that only looks like a broker's", task("", "8ZZZZZZZZZZZZZZZZZZZZZZZZZ"), "queue: missing"},
		{"task id missing", task("q", ""), "task_id: 0 bytes; 1 to 128"},
		{"task id of 129", task("q", long(129)), "task_id: 129 bytes; 1 to 128"},

		{"cancel", (&TaskCancel{Task: TaskRef{Queue: "q", TaskID: "t"}}).Validate(), ""},
		{"cancel of no task", (&TaskCancel{Task: TaskRef{Queue: "q"}}).Validate(), "task_id: 0 bytes"},
		{"cancel with a bad request", (&TaskCancel{Task: TaskRef{TaskID: exampleID}, Request: Request{Low: 2}}).Validate(), "request: low 2 without"},
		{"reschedule now", change(TaskReschedule{DelayMillis: ptr(int64(0))}), ""},
		{"reschedule in 366 days", change(TaskReschedule{DelayMillis: ptr(int64(MaxDelayMillis)), MaxWaitMillis: MaxDelayMillis}), ""},
		{"reschedule to nothing", change(TaskReschedule{}), "delay_ms: missing; a new time"},
		{"reschedule by a negative delay", change(TaskReschedule{DelayMillis: ptr(int64(-1))}), "delay_ms: -1; 0 to 31622400000"},
		{"reschedule too far", change(TaskReschedule{DelayMillis: ptr(int64(MaxDelayMillis + 1))}), "delay_ms: 31622400001; 0 to"},
		{"reschedule to before 1970", change(TaskReschedule{EnqueueAt: -1}), "enqueue_at: -1"},
		{"reschedule twice", change(TaskReschedule{DelayMillis: ptr(int64(0)), EnqueueAt: 1}), "delay_ms: 0, with enqueue_at 1 too"},
		{"wait without a delay", change(TaskReschedule{EnqueueAt: 1, MaxWaitMillis: 5}), "max_wait_ms: 5 without delay_ms"},
		{"negative wait", change(TaskReschedule{DelayMillis: ptr(int64(0)), MaxWaitMillis: -1}), "max_wait_ms: -1; 1 to"},
		{"long wait", change(TaskReschedule{DelayMillis: ptr(int64(0)), MaxWaitMillis: MaxDelayMillis + 1}), "max_wait_ms: 31622400001"},
		{"replace by nothing", change(TaskReschedule{Replace: &Replacement{}}), ""},
		{"replace by too much", change(TaskReschedule{Replace: &Replacement{Body: make([]byte, mmb+1)}}), "body: 1048577 bytes; max_message_bytes is 1048576"},
		{"replace by a long type", change(TaskReschedule{Replace: &Replacement{ContentType: long(129)}}), "content_type: 129 bytes"},
		{"results", (&ResultList{Queue: "q", Kind: long(128), After: 1, Limit: 1000, WaitMillis: MaxWaitMillis}).Validate(), ""},
		{"results of no queue", (&ResultList{}).Validate(), "queue: a queue name of 0 bytes"},
		{"results of a long kind", (&ResultList{Queue: "q", Kind: long(129)}).Validate(), "kind: 129 bytes"},
		{"too many results", (&ResultList{Queue: "q", Limit: 1001}).Validate(), "limit: 1001; 0 to 1000"},
		{"results after too long", (&ResultList{Queue: "q", WaitMillis: MaxWaitMillis + 1}).Validate(), "wait_ms: 600001"},
		{"results from a place and from now", (&ResultList{Queue: "q", After: 4, Last: true}).Validate(), "after: 4, with last too"},
		{"batch id", message(func(m *Message) { m.Batch = exampleID }), ""},
		{"batch id of another kind", message(func(m *Message) { m.Batch = "x" }), `batch: "x" is no id`},
		{"callback of 59 headers", callback(func(m *Message) { m.Headers = headersOf(59, 1, 0) }), ""},
		{"callback of 60 headers", callback(func(m *Message) { m.Headers = headersOf(60, 1, 0) }), "callback: 60 headers; at most 59"},
		{"callback of 64 KiB", callback(func(m *Message) { m.Body = make([]byte, 64<<10) }), ""},
		{"callback above", callback(func(m *Message) { m.Body = make([]byte, 64<<10+1) }), "callback: a body of 65537 bytes; a callback may carry 65536"},
		{"callback with a task id", callback(func(m *Message) { m.TaskID = "t" }), "callback: task_id or dedup_key is set"},
		{"callback with a dedup key", callback(func(m *Message) { m.DedupKey = Bytes("d") }), "callback: task_id or dedup_key is set"},
		{"callback with keys", callback(func(m *Message) { m.KeysIfUndelivered = kvKeys(1) }), "callback: keys_if_undelivered or batch is set"},
		{"callback in a batch", callback(func(m *Message) { m.Batch = exampleID }), "callback: keys_if_undelivered or batch is set"},
		{"callback with a header of the broker's", callback(func(m *Message) { m.Headers = []Header{{Name: "batch_dead"}} }), "callback: header batch_dead is set"},
		{"seal of nothing", (&BatchSeal{}).Validate(), `batch: "" is no id`},
		{"show of nothing", (&BatchShow{}).Validate(), `batch: "" is no id`},
		{"sixteen keys", message(func(m *Message) { m.KeysIfUndelivered = kvKeys(16) }), ""},
		{"seventeen keys", message(func(m *Message) { m.KeysIfUndelivered = kvKeys(17) }), "keys_if_undelivered: 17 keys; at most 16"},
		{"a key twice", message(func(m *Message) { m.KeysIfUndelivered = append(kvKeys(2), []string{"0"}) }), "keys_if_undelivered[2]: the same as key 0"},
		{"a key of nothing", message(func(m *Message) { m.KeysIfUndelivered = [][]string{{}} }), "keys_if_undelivered[0]: 0 strings; 1 to 16"},
		{"a key of an empty string", message(func(m *Message) { m.KeysIfUndelivered = [][]string{{""}} }), ""},
		{"a string of 257 bytes", message(func(m *Message) { m.KeysIfUndelivered = [][]string{{"a", long(257)}} }), "keys_if_undelivered[0][1]: 257 bytes; at most 256"},
		{"a string that is no text", message(func(m *Message) { m.KeysIfUndelivered = [][]string{{"\xff"}} }), "keys_if_undelivered[0][0]: "},
		{"kv key of nothing", (&KVGet{}).Validate(), "key: 0 strings; 1 to 16"},
		{"kv key of seventeen strings", (&KVDelete{Key: make([]string, 17)}).Validate(), "key: 17 strings"},
		{"kv prefix of nothing", (&KVList{}).Validate(), ""},
		{"kv limit", (&KVList{Limit: 1001}).Validate(), "limit: 1001; 0 to 1000"},
		{"kv watch from now and then", (&KVWatch{Now: true, From: 3}).Validate(), "from: 3, with now too"},
		{"kv watch for too long", (&KVWatch{WaitMillis: MaxWaitMillis + 1}).Validate(), "wait_ms: 600001"},

		{"body at the limit", message(func(m *Message) { m.Body = make([]byte, mmb) }), ""},
		{"body empty", message(func(m *Message) { m.Body = nil }), ""},
		{"body above the limit", message(func(m *Message) { m.Body = make([]byte, mmb+1) }), "body: 1048577 bytes; max_message_bytes is 1048576"},
		{"message task id of 128", message(func(m *Message) { m.TaskID = long(128) }), ""},
		{"message task id of 129", message(func(m *Message) { m.TaskID = long(129) }), "task_id: 129 bytes"},
		{"message task id not UTF-8", message(func(m *Message) { m.TaskID = "\xff" }), `task_id: "\xff" is not valid UTF-8`},
		{"kind of 128", message(func(m *Message) { m.Kind = long(128) }), ""},
		{"kind of 129", message(func(m *Message) { m.Kind = long(129) }), "kind: 129 bytes; at most 128"},
		{"content type of 129", message(func(m *Message) { m.ContentType = long(129) }), "content_type: 129 bytes"},
		{"64 headers", message(func(m *Message) { m.Headers = headersOf(64, 1, 0) }), ""},
		{"65 headers", message(func(m *Message) { m.Headers = headersOf(65, 1, 0) }), "headers: 65 pairs; at most 64"},
		{"header name of 128, value of 4096", message(func(m *Message) { m.Headers = headersOf(1, 128, 4096) }), ""},
		{"header name empty", message(func(m *Message) { m.Headers = headersOf(1, 0, 1) }), "headers[0].name: 0 bytes; 1 to 128"},
		{"header name of 129", message(func(m *Message) { m.Headers = headersOf(2, 129, 1) }), "headers[0].name: 129 bytes"},
		{"header value of 4097", message(func(m *Message) { m.Headers = headersOf(1, 1, 4097) }), "headers[0].value: 4097 bytes; at most 4096"},
		{"header value not UTF-8", message(func(m *Message) { m.Headers = []Header{{Name: "a", Value: "\xff"}} }), "headers[0].value: "},
		{"headers of 16384", message(func(m *Message) { m.Headers = headersOf(4, 96, 4000) }), ""},
		{"headers of 16388", message(func(m *Message) { m.Headers = headersOf(4, 97, 4000) }), "headers: 16388 bytes in all; at most 16384"},
		{"priority 9", message(func(m *Message) { m.Priority = ptr(uint8(9)) }), ""},
		{"priority 10", message(func(m *Message) { m.Priority = ptr(uint8(10)) }), "priority: 10; 0 to 9"},
		{"key of 256", message(func(m *Message) { m.Key = make([]byte, 256) }), ""},
		{"key of 257", message(func(m *Message) { m.Key = make([]byte, 257) }), "key: 257 bytes; at most 256"},
		{"dedup key of 257", message(func(m *Message) { m.DedupKey = make([]byte, 257) }), "dedup_key: 257 bytes"},
		{"delay of 366 days", message(func(m *Message) { m.DelayMillis = MaxDelayMillis }), ""},
		{"delay of more", message(func(m *Message) { m.DelayMillis = MaxDelayMillis + 1 }), "delay_ms: 31622400001 ms; 1 to 31622400000"},
		{"delay negative", message(func(m *Message) { m.DelayMillis = -1 }), "delay_ms: -1 ms"},
		{"delay and time", message(func(m *Message) { m.DelayMillis, m.EnqueueAt = 1, 1 }), "delay_ms: 1, with enqueue_at 1 too"},
		{"time in the past", message(func(m *Message) { m.EnqueueAt = 1 }), ""},
		{"time before 1970", message(func(m *Message) { m.EnqueueAt = -1 }), "enqueue_at: -1"},
		{"ttl negative", message(func(m *Message) { m.TTLMillis = -1 }), "ttl_ms: -1 ms"},
		{"timeout negative", message(func(m *Message) { m.TimeoutMillis = -1 }), "timeout_ms: -1 ms"},
		{"retry is looked at", message(func(m *Message) { m.Retry = &RetryPolicy{} }), "retry.kind: "},

		{"batch of 1000", enqueueOf(1000, 1).Validate(mmb), ""},
		{"batch of 1001", enqueueOf(1001, 1).Validate(mmb), "messages: a batch of 1001; 1 to 1000"},
		{"batch of none", enqueueOf(0, 1).Validate(mmb), "messages: a batch of 0"},
		{"batch of 1 MiB", enqueueOf(2, 1<<19).Validate(mmb), ""},
		{"batch of more", enqueueOf(2, 1<<19+1).Validate(mmb), "messages: 1048578 bytes of bodies; a batch may carry 1048576"},
		{"batch of 1 MiB where messages are small", enqueueOf(4, 1<<18).Validate(1000), ""},
		{"a single message is its own Validate's", enqueueOf(1, 1<<20+1).Validate(mmb), ""},
		{"batch into a bad queue", (&Enqueue{Queue: "/", Messages: make([]Message, 1)}).Validate(mmb), "queue: "},
		{"batch with a bad request", (&Enqueue{Queue: "q", Messages: make([]Message, 2), Request: Request{Number: 4096, Low: 1}}).Validate(mmb),
			"request: number 4097 is 4096 above low 1; less than 4096"},

		{"request none", (&Request{}).Validate(1), ""},
		{"request low without number", (&Request{Low: 1}).Validate(1), "request: low 1 without a number"},
		{"request at the end of the span", (&Request{Number: 4096, Low: 1}).Validate(1), ""},
		{"request beyond the span", (&Request{Number: 4097, Low: 1}).Validate(1), "request: number 4097"},
		{"request below low", (&Request{Number: 1, Low: 2}).Validate(1), "request: number 1 is below low 2"},
		{"request that wraps", (&Request{Number: 1<<64 - 1, Low: 1<<64 - 2}).Validate(2), "request: number 18446744073709551615 leaves no room"},

		{"schedule", retry(RetryPolicy{Kind: RetrySchedule, Steps: []int64{0, MaxDelayMillis}, JitterMillis: 5}), ""},
		{"schedule without steps", retry(RetryPolicy{Kind: RetrySchedule}), "retry.steps: 0 delays; a schedule has 1 to 100"},
		{"schedule of 101", retry(RetryPolicy{Kind: RetrySchedule, Steps: make([]int64, 101)}), "retry.steps: 101 delays"},
		{"schedule with a negative step", retry(RetryPolicy{Kind: RetrySchedule, Steps: []int64{0, -1}}), "retry.steps[1]: -1; 0 to"},
		{"schedule with attempts", retry(RetryPolicy{Kind: RetrySchedule, Steps: []int64{0}, MaxAttempts: 5}), "retry.max_attempts: 5; a policy of kind schedule has no max_attempts"},
		{"fixed", retry(RetryPolicy{Kind: RetryFixed, InitialMillis: 1, MaxAttempts: 1000}), ""},
		{"fixed with a cap", retry(RetryPolicy{Kind: RetryFixed, MaxMillis: 1}), "retry.max_ms: 1; a policy of kind fixed has no max_ms"},
		{"fixed with steps", retry(RetryPolicy{Kind: RetryFixed, Steps: []int64{1}}), "retry.steps: "},
		{"1001 attempts", retry(RetryPolicy{Kind: RetryFixed, MaxAttempts: 1001}), "retry.max_attempts: 1001; 1 to 1000"},
		{"negative attempts", retry(RetryPolicy{Kind: RetryFixed, MaxAttempts: -1}), "retry.max_attempts: -1"},
		{"linear", retry(RetryPolicy{Kind: RetryLinear, InitialMillis: 1, MaxMillis: 2}), ""},
		{"linear with a multiplier", retry(RetryPolicy{Kind: RetryLinear, MultiplierMilli: 2000}), "retry.multiplier: "},
		{"exponential at the edges", retry(RetryPolicy{Kind: RetryExponential, MultiplierMilli: 1000}), ""},
		{"exponential shrinking", retry(RetryPolicy{Kind: RetryExponential, MultiplierMilli: 999}), "retry.multiplier: 999; 1000 to 100000"},
		{"exponential exploding", retry(RetryPolicy{Kind: RetryExponential, MultiplierMilli: 100001}), "retry.multiplier: 100001"},
		{"jitter negative", retry(RetryPolicy{Kind: RetryFixed, JitterMillis: -1}), "retry.jitter_ms: -1"},
		{"another kind", retry(RetryPolicy{Kind: "random"}), `retry.kind: "random"; schedule, fixed, linear or exponential`},

		{"lease", (&Lease{Queue: "q", Max: 1000, WaitMillis: MaxWaitMillis, LeaseMillis: 100}).Validate(), ""},
		{"lease of none", (&Lease{Queue: "q"}).Validate(), "max: 0; 1 to 1000"},
		{"lease of 1001", (&Lease{Queue: "q", Max: 1001}).Validate(), "max: 1001"},
		{"lease of 99 ms", (&Lease{Queue: "q", Max: 1, LeaseMillis: 99}).Validate(), "lease_ms: 99 ms; 100 to 43200000"},
		{"lease of 12 h and more", (&Lease{Queue: "q", Max: 1, LeaseMillis: MaxLeaseMillis + 1}).Validate(), "lease_ms: 43200001"},
		{"lease waits too long", (&Lease{Queue: "q", Max: 1, WaitMillis: MaxWaitMillis + 1}).Validate(), "wait_ms: 600001; 0 to 600000"},
		{"lease by a worker of 129", (&Lease{Queue: "q", Max: 1, Worker: long(129)}).Validate(), "worker: 129 bytes"},
		{"subscribe", sub.Validate(), ""},
		{"subscribe paused", (&Subscribe{Sub: 1, Queue: "q"}).Validate(), ""},
		{"subscribe as 0", (&Subscribe{Queue: "q"}).Validate(), "sub: 0; subscriptions are numbered from 1"},
		{"subscribe with 10001", (&Subscribe{Sub: 1, Queue: "q", Credit: 10001}).Validate(), "credit: 10001; 0 to 10000"},
		{"credit negative", (&Credit{Sub: 1, Credit: -1}).Validate(), "credit: -1; 0 to 10000"},
		{"credit of 10000", (&Credit{Sub: 1, Credit: 10000}).Validate(), ""},
		{"unsubscribe", (&Unsubscribe{Sub: 1}).Validate(), ""},
		{"unsubscribe from 0", (&Unsubscribe{}).Validate(), "sub: 0"},
		{"ack_batch 256", (&AckBatch{Tokens: tokensOf(256)}).Validate(), ""},
		{"ack_batch 257", (&AckBatch{Tokens: tokensOf(257)}).Validate(), "tokens: 257 tokens; 1 to 256 would be right"},
		{"ack_batch of none", (&AckBatch{}).Validate(), "tokens: 0 tokens; 1 to 256 would be right"},
		{"ack_batch a bad token", (&AckBatch{Tokens: []string{exampleToken, "x"}}).Validate(), "tokens[1]: 1 bytes; a token has 52"},
		{"started 10000", (&Started{Sub: 1, Tokens: tokensOf(10000)}).Validate(), ""},
		{"started 10001", (&Started{Sub: 1, Tokens: tokensOf(10001)}).Validate(), "tokens: 10001 tokens; at most 10000"},
		{"started a bad token", (&Started{Sub: 1, Tokens: []string{exampleToken, "x"}}).Validate(), "tokens[1]: 1 bytes; a token has 52"},
		{"resume", (&Resume{Subscribe: sub, Started: tokensOf(5000), Held: tokensOf(5000)}).Validate(), ""},
		{"resume with too many", (&Resume{Subscribe: sub, Started: tokensOf(5000), Held: tokensOf(5001)}).Validate(), "started: 10001 tokens"},
		{"resume with a bad subscription", (&Resume{}).Validate(), "sub: 0"},

		{"ack", (&Ack{Token: exampleToken, Result: &result, Then: []Then{{Queue: "q"}}}).Validate(mmb), ""},
		{"ack without token", (&Ack{}).Validate(mmb), "token: 0 bytes; a token has 52"},
		{"ack with a token in lower case", (&Ack{Token: strings.Repeat("a", 52)}).Validate(mmb), "token: "},
		{"ack with a large result", (&Ack{Token: exampleToken, Result: &Result{Output: make([]byte, mmb+1)}}).Validate(mmb), "result.output: 1048577 bytes"},
		{"ack with the broker's fields", (&Ack{Token: exampleToken, Result: &Result{Status: StatusSucceeded}}).Validate(mmb), "result: only output and content_type"},
		{"ack then a bad queue", (&Ack{Token: exampleToken, Then: []Then{{Queue: "q"}, {}}}).Validate(mmb), "then[1].queue: a queue name of 0"},
		{"ack then a bad message", (&Ack{Token: exampleToken, Then: []Then{{Queue: "q", Message: Message{Kind: long(129)}}}}).Validate(mmb), "then[0].kind: 129"},
		{"ack then 1001", (&Ack{Token: exampleToken, Then: make([]Then, 1001)}).Validate(mmb), "then: 1001 messages; at most 1000"},
		{"nack", (&Nack{Token: exampleToken, DelayMillis: ptr(int64(0)), Error: long(10000)}).Validate(), ""},
		{"nack with a negative delay", (&Nack{Token: exampleToken, DelayMillis: ptr(int64(-1))}).Validate(), "delay_ms: -1; 0 to"},
		{"nack without token", (&Nack{}).Validate(), "token: "},
		{"extend", (&Extend{Token: exampleToken}).Validate(), ""},
		{"extend by 99", (&Extend{Token: exampleToken, LeaseMillis: 99}).Validate(), "lease_ms: 99"},
		{"extend without token", (&Extend{}).Validate(), "token: "},
		{"release", (&Release{Token: exampleToken}).Validate(), ""},
		{"release with an overflowing token", (&Release{Token: "Z" + exampleToken[1:]}).Validate(), "token: "},

		{"hello", (&Hello{Versions: make([]uint16, 16), Client: long(128)}).Validate(), ""},
		{"hello without versions", (&Hello{}).Validate(), "versions: 0 of them; 1 to 16"},
		{"hello with 17", (&Hello{Versions: make([]uint16, 17)}).Validate(), "versions: 17"},
		{"hello from a long client", (&Hello{Versions: []uint16{1}, Client: long(129)}).Validate(), "client: 129"},
		{"session new", (&OpenSession{}).Validate(), ""},
		{"session attach", (&OpenSession{Session: exampleSession}).Validate(), ""},
		{"session bad", (&OpenSession{Session: "x"}).Validate(), `session: "x" is no id`},
		{"result get", (&ResultGet{Task: TaskRef{TaskID: exampleID}}).Validate(), ""},
		{"result get waits too long", (&ResultGet{Task: TaskRef{TaskID: exampleID}, WaitMillis: -1}).Validate(), "wait_ms: -1"},
		{"result push", (&ResultPush{Task: TaskRef{TaskID: exampleID}, Result: result}).Validate(mmb), ""},
		{"result push of a long kind", (&ResultPush{Task: TaskRef{TaskID: exampleID}, Kind: long(129)}).Validate(mmb), "kind: 129"},
		{"task", (&TaskGet{Task: TaskRef{TaskID: exampleID}}).Validate(), ""},

		{"options default", options(QueueOptions{}), ""},
		{"options at the edges", options(QueueOptions{LeaseMillis: 100, MaxDead: 1, DeadOverflow: DeadRefuse, DeadRetentionMillis: 1000,
			DedupWindowMillis: 1000, DedupMaxKeys: 1, ResultTTLMillis: 1000, MaxResultsBytes: 1}), ""},
		{"options lease", options(QueueOptions{LeaseMillis: 99}), "lease_ms: 99"},
		{"options max_dead", options(QueueOptions{MaxDead: 10_000_001}), "max_dead: 10000001; 1 to 10000000"},
		{"options delivery", options(QueueOptions{Delivery: DeliverAtMostOnce}), ""},
		{"options delivery unknown", options(QueueOptions{Delivery: "once"}), "delivery: "},
		{"options overflow", options(QueueOptions{DeadOverflow: "drop"}), `dead_overflow: "drop"; refuse or drop_oldest`},
		{"options retention", options(QueueOptions{DeadRetentionMillis: 999}), "dead_letter_retention_ms: 999"},
		{"options dedup window", options(QueueOptions{DedupWindowMillis: MaxDelayMillis + 1}), "dedup_window_ms: "},
		{"options dedup keys", options(QueueOptions{DedupMaxKeys: -1}), "dedup_max_keys: -1"},
		{"options result ttl", options(QueueOptions{ResultTTLMillis: 1}), "result_ttl_ms: 1 ms"},
		{"options results bytes", options(QueueOptions{MaxResultsBytes: 1<<40 + 1}), "max_results_bytes: "},
		{"options limits", options(QueueOptions{MaxDepth: 100_000_000, MaxBytes: 1 << 40, MaxInFlight: 10_000_000, MaxAgeMillis: 1}), ""},
		{"options max_depth", options(QueueOptions{MaxDepth: 100_000_001}), "max_depth: 100000001; 1 to 100000000"},
		{"options max_bytes", options(QueueOptions{MaxBytes: -1}), "max_bytes: -1"},
		{"options overflow", options(QueueOptions{Overflow: OverflowReject}), ""},
		{"options overflow unknown", options(QueueOptions{Overflow: "drop"}), "overflow: "},
		{"options max_in_flight", options(QueueOptions{MaxInFlight: 10_000_001}), "max_in_flight: "},
		{"options rate", options(QueueOptions{RateMilli: 1_000_000_000, Burst: 1_000_000}), ""},
		{"options rate, the least", options(QueueOptions{RateMilli: 1}), ""},
		{"options rate above", options(QueueOptions{RateMilli: 1_000_000_010}), "rate: 1000000.01 deliveries a second; 0.001 to 1000000"},
		{"options rate below", options(QueueOptions{RateMilli: -1500}), "rate: -1.5 deliveries"},
		{"options rate just below", options(QueueOptions{RateMilli: -1}), "rate: -0.001 deliveries"},
		{"options burst above", options(QueueOptions{RateMilli: 1, Burst: 1_000_001}), "burst: 1000001; 1 to 1000000"},
		{"options burst below", options(QueueOptions{RateMilli: 1, Burst: -1}), "burst: -1"},
		{"options burst alone", options(QueueOptions{Burst: 3}), "burst: 3 without rate"},
		{"options of keys", options(QueueOptions{MaxInFlightPerKey: 10_000_000, RatePerKeyMilli: 1, BurstPerKey: 1, FairBy: FairByKey, FairWeights: fairWeights(1000)}), ""},
		{"options of keys, per_key", options(QueueOptions{Ordering: OrderPerKey, RatePerKeyMilli: 1, FairBy: FairByKey}), ""},
		{"options no fair_by", options(QueueOptions{FairBy: FairByNone}), ""},
		{"options in flight per key", options(QueueOptions{MaxInFlightPerKey: -1}), "max_in_flight_per_key: -1"},
		{"options in flight per key, per_key", options(QueueOptions{MaxInFlightPerKey: 1, Ordering: OrderPerKey}), "max_in_flight_per_key: 1 with ordering per_key"},
		{"options in flight per key, fifo", options(QueueOptions{MaxInFlightPerKey: 1, Ordering: OrderFIFO}), "max_in_flight_per_key: 1 with ordering fifo"},
		{"options rate_per_key", options(QueueOptions{RatePerKeyMilli: -1000}), "rate_per_key: -1 deliveries"},
		{"options rate_per_key, fifo", options(QueueOptions{RatePerKeyMilli: 1, Ordering: OrderFIFO}), "rate_per_key: with ordering fifo"},
		{"options burst_per_key alone", options(QueueOptions{BurstPerKey: 1}), "burst_per_key: 1 without rate_per_key"},
		{"options fair_by", options(QueueOptions{FairBy: "tenant"}), `fair_by: "tenant"; none or key`},
		{"options fair_by, fifo", options(QueueOptions{FairBy: FairByKey, Ordering: OrderFIFO}), "fair_by: key with ordering fifo"},
		{"options fair_weights alone", options(QueueOptions{FairWeights: fairWeights(1)}), "fair_weights: 1 of them without fair_by"},
		{"options fair_weights, per_key", options(QueueOptions{FairBy: FairByKey, Ordering: OrderPerKey, FairWeights: fairWeights(1)}), "fair_weights: 1 of them with ordering per_key"},
		{"options too many fair_weights", options(QueueOptions{FairBy: FairByKey, FairWeights: fairWeights(1001)}), "fair_weights: 1001 of them; at most 1000"},
		{"options fair_weights of no key", options(QueueOptions{FairBy: FairByKey, FairWeights: []FairWeight{{Weight: 1}}}), "fair_weights: a key of 0 bytes"},
		{"options fair_weights of a long key", options(QueueOptions{FairBy: FairByKey, FairWeights: []FairWeight{{Key: make(Bytes, 257), Weight: 1}}}), "fair_weights: a key of 257 bytes"},
		{"options fair_weights 0", options(QueueOptions{FairBy: FairByKey, FairWeights: []FairWeight{{Key: Bytes("a")}}}), `fair_weights: 0 for key "a"; 1 to 100`},
		{"options fair_weights 101", options(QueueOptions{FairBy: FairByKey, FairWeights: []FairWeight{{Key: Bytes("a"), Weight: 101}}}), `fair_weights: 101 for key "a"`},
		{"options fair_weights twice", options(QueueOptions{FairBy: FairByKey, FairWeights: append(fairWeights(2), fairWeights(1)...)}), `fair_weights: key "0" is there twice`},
		{"options push", options(QueueOptions{PushURL: "https://example.org:8443/in?a=b", PushConcurrency: 256, PushTimeoutMillis: 600_000, PushSecrets: []string{"new", "old"},
			PushPermanent: []int64{410, 400}, PushHeaders: []string{"Traceparent", "x-a"}}), ""},
		{"options push_url by address", options(QueueOptions{PushURL: "http://[::1]:80"}), ""},
		{"options push_url of no scheme", options(QueueOptions{PushURL: "example.org/in"}), `push_url: "example.org/in"; http:// or https://`},
		{"options push_url of another scheme", options(QueueOptions{PushURL: "ftp://example.org"}), "push_url: "},
		{"options push_url in capitals", options(QueueOptions{PushURL: "HTTP://example.org"}), `push_url: "HTTP://example.org"; http:// or https://`},
		{"options push_url without a host", options(QueueOptions{PushURL: "http:///in"}), `push_url: "http:///in" has no host`},
		{"options push_url of a port alone", options(QueueOptions{PushURL: "http://:80/in"}), `push_url: "http://:80/in" has no host`},
		{"options push_url with a password", options(QueueOptions{PushURL: "http://u:hunter2@example.org"}), "push_url: it holds a user or password"},
		{"options push_url with a fragment", options(QueueOptions{PushURL: "http://example.org/#a"}), `push_url: "http://example.org/#a" has a fragment`},
		{"options push_url with port 0", options(QueueOptions{PushURL: "http://example.org:0"}), `push_url: "http://example.org:0" has port "0"; 1 to 65535`},
		{"options push_url with port 65536", options(QueueOptions{PushURL: "http://example.org:65536"}), `push_url: "http://example.org:65536" has port "65536"`},
		{"options push_url with no port", options(QueueOptions{PushURL: "http://example.org:"}), `push_url: "http://example.org:" has port ""`},
		{"options push_url with a space", options(QueueOptions{PushURL: "http://example.org/a b"}), `push_url: "http://example.org/a b" holds ' '; printable ASCII`},
		{"options push_url with a line", options(QueueOptions{PushURL: "http://example.org/\r\nHost: x"}), `push_url: "http://example.org/\r\nHost: x" holds '\r'; printable ASCII`},
		{"options push_url of a broken escape", options(QueueOptions{PushURL: "http://example.org/%zz"}), `push_url: "http://example.org/%zz" is no URL`},
		{"options push_url too long", options(QueueOptions{PushURL: "http://" + strings.Repeat("a", 2042)}), "push_url: 2049 bytes; at most 2048"},
		{"options push_concurrency", options(QueueOptions{PushConcurrency: 257}), "push_concurrency: 257; 1 to 256"},
		{"options push_timeout", options(QueueOptions{PushTimeoutMillis: 99}), "push_timeout_ms: "},
		{"options push_secrets too many", options(QueueOptions{PushSecrets: []string{"a", "b", "c", "d", "e"}}), "push_secrets: 5 of them; at most 4"},
		{"options push_secrets twice", options(QueueOptions{PushSecrets: []string{"a", "a"}}), `push_secrets: "a" is there twice`},
		{"options push_secrets that could be a name", options(QueueOptions{PushSecrets: []string{"a", "whsec_AwMDAwMDAwMDAwMDAwMDAwMD"}}), "push_secrets: entry 1 begins with whsec_"},
		{"options push_secrets with a slash", options(QueueOptions{PushSecrets: []string{"a/b"}}), `push_secrets: 3 bytes, "a/b"; the name of a secret`},
		{"options push_secrets that is one", options(QueueOptions{PushSecrets: []string{"whsec_abc/def=="}}), `push_secrets: entry 0 begins with whsec_, as secrets themselves do`},
		{"options push_permanent 429", options(QueueOptions{PushPermanent: []int64{429}}), "push_permanent: 429"},
		{"options push_permanent 500", options(QueueOptions{PushPermanent: []int64{400, 500}}), "push_permanent: 500"},
		{"options push_permanent twice", options(QueueOptions{PushPermanent: []int64{400, 400}}), "push_permanent: 400 is there twice"},
		{"options push_permanent too many", options(QueueOptions{PushPermanent: make([]int64, 33)}), "push_permanent: 33 of them; at most 32"},
		{"options push_headers that push sets", options(QueueOptions{PushHeaders: []string{"Webhook-Signature"}}), `push_headers: "Webhook-Signature" is set by push itself`},
		{"options push_headers of transport", options(QueueOptions{PushHeaders: []string{"Transfer-Encoding"}}), `push_headers: "Transfer-Encoding" is set by push itself`},
		{"options push_headers twice", options(QueueOptions{PushHeaders: []string{"A", "a"}}), `push_headers: "a" is there twice`},
		{"options push_headers with a colon", options(QueueOptions{PushHeaders: []string{"a:"}}), `push_headers: 2 bytes, "a:"; 1 to 64 of letters, digits`},
		{"options push_headers too many", options(QueueOptions{PushHeaders: make([]string, 17)}), "push_headers: 17 of them; at most 16"},
		{"options mapping", options(QueueOptions{Schema: strings.Repeat("s", 65536), Map: strings.Repeat("m", 4096), MapTo: &MapTo{Queue: "q", Expression: strings.Repeat("e", 4096)}}), ""},
		{"options schema too long", options(QueueOptions{Schema: strings.Repeat("s", 65537)}), "schema: 65537 bytes; at most 65536"},
		{"options schema not text", options(QueueOptions{Schema: "\xff"}), "schema: it is not UTF-8"},
		{"options map too long", options(QueueOptions{Map: strings.Repeat("m", 4097)}), "map: 4097 bytes; at most 4096"},
		{"options map_to nowhere", options(QueueOptions{MapTo: &MapTo{Expression: "body"}}), "map_to.queue: missing"},
		{"options map_to by nothing", options(QueueOptions{MapTo: &MapTo{Queue: "q"}}), "map_to.expression: missing"},
		{"options map_to badly named", options(QueueOptions{MapTo: &MapTo{Queue: "a b", Expression: "body"}}), "map_to.queue: "},
		{"options map_to too long", options(QueueOptions{MapTo: &MapTo{Queue: "q", Expression: strings.Repeat("e", 4097)}}), "map_to.expression: 4097 bytes; at most 4096"},
		{"options map_to and push_url", options(QueueOptions{PushURL: "http://a", MapTo: &MapTo{Queue: "q", Expression: "body"}}), "map_to: it does not go with push_url"},
		{"options map_to at most once", options(QueueOptions{Delivery: DeliverAtMostOnce, MapTo: &MapTo{Queue: "q", Expression: "body"}}), "map_to: it does not go with delivery at_most_once"},
		{"options max_age", options(QueueOptions{MaxAgeMillis: -1}), "max_age_ms: "},
		{"options ordering", options(QueueOptions{Ordering: OrderFIFO}), ""},
		{"options ordering badly", options(QueueOptions{Ordering: "FIFO"}), `ordering: "FIFO"; unordered, fifo or per_key`},
		{"options retry", options(QueueOptions{Retry: &RetryPolicy{}}), "retry.kind: "},
		{"queue write", (&QueueWrite{Queue: "q"}).Validate(), ""},
		{"queue write badly", (&QueueWrite{Queue: "q", Options: QueueOptions{MaxDead: -1}}).Validate(), "max_dead: "},
		{"queue ref", (&QueueRef{Queue: "q"}).Validate(), ""},
		{"queue ref badly", (&QueueRef{}).Validate(), "queue: "},
		{"queue list of 1000", (&QueueList{Limit: 1000}).Validate(), ""},
		{"queue list of 1001", (&QueueList{Limit: 1001}).Validate(), "limit: 1001; 0 to 1000"},
		{"peek", (&Peek{Queue: "q", State: StatusScheduled}).Validate(), ""},
		{"peek at the dead", (&Peek{Queue: "q", State: StatusDead}).Validate(), `state: "dead"; pending, processing, scheduled or retrying`},
		{"peek after much", (&Peek{Queue: "q", After: long(513)}).Validate(), "after: 513 bytes"},
		{"dead list", (&DeadList{Queue: "q"}).Validate(), ""},
		{"dead list since ever", (&DeadList{Queue: "q", Since: -1}).Validate(), "since: -1"},
		{"dead list until before since", (&DeadList{Queue: "q", Since: 5, Until: 4}).Validate(), "until: 4"},
		{"dead list reason", (&DeadList{Queue: "q", Reason: "age"}).Validate(), `reason: "age"; max_attempts, permanent`},
		{"dead list text", (&DeadList{Queue: "q", Text: strings.Repeat("x", 257)}).Validate(), "text: 257 bytes; at most 256"},
		{"dead list headers", (&DeadList{Queue: "q", Headers: make([]Header, 9)}).Validate(), "headers: 9 of them; at most 8"},
		{"dead list header", (&DeadList{Queue: "q", Headers: make([]Header, 1)}).Validate(), "headers"},
		{"dead list filtered", (&DeadList{Queue: "q", Reason: "expired", Until: 4, Text: "x", Headers: []Header{{Name: "n"}}}).Validate(), ""},
		{"dead edit", (&DeadEdit{Queue: "q", ID: exampleID, Fields: []string{EditBody}, Set: Message{Body: Bytes("x")}}).Validate(9), ""},
		{"dead edit of nothing", (&DeadEdit{Queue: "q", ID: exampleID}).Validate(9), ""},
		{"dead edit queue", (&DeadEdit{ID: exampleID}).Validate(9), "queue"},
		{"dead edit id", (&DeadEdit{Queue: "q", ID: "1"}).Validate(9), "id: "},
		{"dead edit field", (&DeadEdit{Queue: "q", ID: exampleID, Fields: []string{"task_id"}}).Validate(9), `fields: "task_id"; body, headers`},
		{"dead edit twice", (&DeadEdit{Queue: "q", ID: exampleID, Fields: []string{EditKey, EditKey}}).Validate(9), `fields: "key" is there twice`},
		{"dead edit unnamed", (&DeadEdit{Queue: "q", ID: exampleID, Set: Message{Kind: "k"}}).Validate(9), "kind: set, but not named"},
		{"dead edit task", (&DeadEdit{Queue: "q", ID: exampleID, Set: Message{TaskID: "k"}}).Validate(9), "task_id: a dead letter keeps"},
		{"dead edit dedup", (&DeadEdit{Queue: "q", ID: exampleID, Set: Message{DedupKey: Bytes("k")}}).Validate(9), "dedup_key: a dead letter"},
		{"dead edit keys", (&DeadEdit{Queue: "q", ID: exampleID, Set: Message{KeysIfUndelivered: [][]string{{"k"}}}}).Validate(9), "keys_if_undelivered: a dead"},
		{"dead edit body", (&DeadEdit{Queue: "q", ID: exampleID, Fields: []string{EditBody}, Set: Message{Body: Bytes("0123456789")}}).Validate(9), "body: 10 bytes"},
		{"options dead-letter queue", options(QueueOptions{DeadLetterQueue: "d"}), ""},
		{"options dead-letter queue badly", options(QueueOptions{DeadLetterQueue: ".d"}), "dead_letter_queue: "},
		{"queue write only", (&QueueWrite{Queue: "q", Only: []string{"paused", "retry"}}).Validate(), ""},
		{"queue write only a burst", (&QueueWrite{Queue: "q", Options: QueueOptions{Burst: 3}, Only: []string{"burst"}}).Validate(), ""},
		{"queue write only twice", (&QueueWrite{Queue: "q", Only: []string{"paused", "retry", "paused"}}).Validate(), `only: "paused" is named twice`},
		{"queue write only too much", (&QueueWrite{Queue: "q", Only: make([]string, 65)}).Validate(), "only: 65 options"},
		{"queue write to itself", (&QueueWrite{Queue: "q", Options: QueueOptions{DeadLetterQueue: "q"}}).Validate(), `dead_letter_queue: "q" names itself`},
		{"dead get", (&DeadGet{Queue: "q", ID: exampleID}).Validate(), ""},
		{"dead get badly", (&DeadGet{Queue: "q", ID: "1"}).Validate(), `id: "1" is no id: 26 characters`},
		{"dead ids", (&DeadIDs{Queue: "q", IDs: []string{exampleID}}).Validate(), ""},
		{"dead ids none", (&DeadIDs{Queue: "q"}).Validate(), "ids: 0 ids; 1 to 1000"},
		{"dead ids bad", (&DeadIDs{Queue: "q", IDs: []string{exampleID, "o"}}).Validate(), `ids[1]: "o" is no id`},
		{"transfer to anyone", (&ClusterTransfer{}).Validate(), ""},
		{"transfer to a long name", (&ClusterTransfer{Node: long(129)}).Validate(), "node: 129 bytes"},
		{"remove", (&ClusterRemove{Node: "n3"}).Validate(), ""},
		{"remove nobody", (&ClusterRemove{}).Validate(), "node: 0 bytes; 1 to 128"},
	} {
		t.Run(c.name, func(t *testing.T) {
			switch {
			case c.want == "" && c.fault != nil:
				t.Errorf("refused: %v", c.fault)
			case c.want != "" && c.fault == nil:
				t.Errorf("let pass; want %q", c.want)
			case c.want != "" && !strings.HasPrefix(c.fault.Message, c.want):
				t.Errorf("%q; want %q", c.fault.Message, c.want)
			case c.fault != nil && (c.fault.Field == "" || !strings.HasPrefix(c.fault.Message, c.fault.Field+": ")):
				t.Errorf("field %q of %q", c.fault.Field, c.fault.Message)
			}
			if c.fault != nil {
				wantCode := CodeInvalidArgument
				if strings.Contains(c.fault.Message, "max_message_bytes") || strings.Contains(c.fault.Message, "may carry") {
					wantCode = CodeTooLarge
				}
				if c.fault.Code != wantCode {
					t.Errorf("code %s, want %s", c.fault.Code, wantCode)
				}
			}
		})
	}
}

func TestSpeaks(t *testing.T) {
	h := Hello{Versions: []uint16{3, 1}}
	if !h.Speaks(1) || !h.Speaks(3) || h.Speaks(2) {
		t.Error("versions 3 and 1 are spoken, 2 is not")
	}
}

func TestLimitsFitTogether(t *testing.T) {
	for _, most := range []int64{1, 1000, DefaultMaxMessageBytes, HighestMaxMessageBytes} {
		a := &Ack{Token: exampleToken, Result: &Result{Output: make([]byte, most)}}
		bodies := MaxBatchBytes(most)
		for range 1000 {
			n := min(most, bodies)
			a.Then = append(a.Then, Then{Queue: long(128), Message: Message{Body: make([]byte, n), TaskID: long(128), Kind: long(128)}})
			if bodies -= n; bodies == 0 {
				break
			}
		}
		if f := a.Validate(most); f != nil {
			t.Fatal(f)
		}
		if n := int64(len(AppendFrame(nil, TypeAck, 1, a))); n > MaxFrameBytes(most) {
			t.Errorf("max_message_bytes %d: the largest ack has %d bytes, a frame only %d", most, n, MaxFrameBytes(most))
		}
		if MaxFrameBytes(most) > MaxReadBytes {
			t.Errorf("max_message_bytes %d: frames of %d, reads of %d", most, MaxFrameBytes(most), MaxReadBytes)
		}
	}
}

func fairWeights(n int) (ws []FairWeight) {
	for i := range n {
		ws = append(ws, FairWeight{Key: Bytes(strconv.Itoa(i)), Weight: 100})
	}
	return ws
}
