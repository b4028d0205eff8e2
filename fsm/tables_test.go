package fsm

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// A tableCase is one table of the state: how a record of it is made, what keeps it from growing for ever, who counts it, and how
// it is emptied. TestTables holds each to that; TestEveryTableIsBounded sees that no table of State is without a case.
type tableCase struct {
	name   string
	tables []string // those of State that hold its records, by field
	// bound sets the maximum to n records, by the options of queue q or the state's own bounds.
	bound func(r *rig, n int64)
	add   func(r *rig, i int) // makes record i
	count func(r *rig) int64  // the counter that everybody can read
	// full is the operation that one record more takes, and its refusal. nil: the oldest record goes instead, and dropped counts.
	full    func(r *rig) Op
	code    Code
	field   Field
	dropped func(r *rig) int64
	empty   func(r *rig)
}

var q0 = []byte("q")

// payload is large enough for thousands of it to take more chunks of the arena than it keeps in hand.
var payload = strings.Repeat("b", 4000)

// arenaInHand is how many bytes of empty chunks the arena keeps, and the one being filled.
const arenaInHand = 18 << 20

func one(m Message) *Enqueue { return &Enqueue{Queue: q0, AutoCreate: true, Messages: []Message{m}} }

func named(i int) Message {
	m := text(payload)
	m.TaskID = fmt.Appendf(nil, "task-%d", i)
	return m
}

func deduped(i int) Message {
	m := text(payload)
	m.HasDedup, m.DedupKey, m.DedupContent = true, HashDedup(fmt.Append(nil, i)), HashContent(nil, m.Body)
	return m
}

func (r *rig) queue(o QueueOptions) { r.t.Helper(); r.ok(&CreateQueue{Name: q0, Options: o}) }

// done makes a task that is done, with a result or without.
func (r *rig) done(i int, result bool) Token {
	r.t.Helper()
	r.ok(one(named(i)))
	tok := r.lease1()
	r.ok(&Ack{Token: tok, HasResult: result, Result: Result{Output: []byte(payload)}})
	return tok
}

func (r *rig) dead(i int) Token {
	r.t.Helper()
	r.ok(one(named(i)))
	tok := r.lease1()
	r.ok(&Nack{Token: tok, Permanent: true, Error: []byte("why")})
	return tok
}

func (r *rig) mem() Memory { return r.s.Memory() }

// past lets so much time pass and what it ends be reclaimed.
func (r *rig) past(ms int64) {
	r.t.Helper()
	r.tick(ms)
	for range 64 {
		r.tick(0)
	}
}

func daySchedule(i int) *CreateSchedule {
	c := daily(fmt.Sprint("s", i))
	return &CreateSchedule{Schedule: c}
}

// callbackSize is what the callback of newBatch counts.
func callbackSize() int64 {
	m := text("all done")
	return int64(len(appendMessage(appendChunk(nil, []byte("cb")), &m)))
}

func tableCases() []tableCase {
	purge := func(r *rig) { r.ok(&PurgeQueue{Name: q0}); r.past(0) }
	session := func(r *rig) Request {
		if r.session.IsZero() {
			r.session = r.ok(&OpenSession{}).ID
		}
		return Request{Session: r.session}
	}
	return []tableCase{
		{
			name: "dedup keys", tables: []string{"dedups", "dedupIdx"},
			bound: func(r *rig, n int64) { r.queue(QueueOptions{DedupMaxKeys: n, DedupWindowMillis: 5000}) },
			add:   func(r *rig, i int) { r.ok(one(deduped(i))) },
			count: func(r *rig) int64 { return r.mem().DedupKeys },
			full:  func(*rig) Op { return one(deduped(-1)) }, code: QueueFull, field: FieldDedup,
			empty: func(r *rig) { purge(r); r.past(5001) },
		},
		{
			name: "results", tables: []string{"results", "resultID", "resultTk", "resultOr"},
			bound: func(r *rig, n int64) {
				r.queue(QueueOptions{MaxResultsBytes: 1 << 30, ResultTTLMillis: 5000})
				r.done(100_000, true)
				size := r.stats().ResultBytes
				r.past(5000)
				r.ok(&SetQueue{Name: q0, Options: QueueOptions{MaxResultsBytes: n * size, ResultTTLMillis: 1_000_000}})
				r.limit = n * size
			},
			add: func(r *rig, i int) {
				r.done(100_001+i, true)
				must(r.t, "index", int64(r.s.resultTk.Len()), r.mem().Results)
			},
			count: func(r *rig) int64 { return r.mem().Results },
			full:  func(*rig) Op { return one(text("x")) }, code: QueueFull, field: FieldResults,
			empty: func(r *rig) { r.past(1_000_000) },
		},
		{
			name: "pushed results", tables: []string{"results"},
			bound: func(r *rig, n int64) {
				r.limit = n * (resultCost + int64(len("task-100000")+3+len(payload)+1))
				r.queue(QueueOptions{MaxResultsBytes: r.limit, ResultTTLMillis: 5000})
			},
			add: func(r *rig, i int) {
				r.ok(&PushResult{Queue: q0, TaskID: fmt.Appendf(nil, "task-%06d", i), Result: Result{Output: []byte(payload)}})
			},
			count: func(r *rig) int64 { return r.mem().Results },
			full:  func(*rig) Op { return &PushResult{Queue: q0, TaskID: []byte("t")} }, code: QueueFull, field: FieldResults,
			empty: func(r *rig) { r.past(1_000_000) },
		},
		{
			name: "tombstones", tables: []string{"tombs", "tombID", "tombTk"},
			bound:   func(r *rig, n int64) { r.queue(QueueOptions{}); r.s.lim.tombstones = n },
			add:     func(r *rig, i int) { r.done(i, false) },
			count:   func(r *rig) int64 { return r.mem().Tombstones },
			dropped: func(r *rig) int64 { return r.stats().TombstonesDropped },
			empty:   func(r *rig) { r.past(TombstoneMillis) },
		},
		{
			name: "sessions", tables: []string{"sessions", "sessionIx", "idle"},
			bound: func(r *rig, n int64) { r.s.lim.sessions = n },
			add:   func(r *rig, _ int) { r.ok(&OpenSession{}) },
			count: func(r *rig) int64 { return r.mem().Sessions },
			full:  func(*rig) Op { return &OpenSession{} }, code: Overloaded, field: FieldSessions,
			empty: func(r *rig) { r.past(SessionIdleMillis) },
		},
		{
			name: "outcomes", tables: []string{"memos"},
			bound: func(r *rig, n int64) {
				r.limit = (n+999)/1000*sessionCost + n*outcomeCost
				r.s.lim.sessionBytes = r.limit
			},
			add: func(r *rig, i int) {
				req := session(r)
				if i%1000 == 0 && i > 0 { // a session remembers RequestWindow of them at most
					r.session = r.ok(&OpenSession{}).ID
					req.Session = r.session
				}
				req.Number = uint64(i + 1)
				r.lastNumber, req.Low = req.Number, uint64(i/1000*1000+1)
				r.one(&PurgeQueue{Request: req, Name: []byte("none")}) // a refusal is remembered as well
			},
			count: func(r *rig) int64 { return r.mem().RequestOutcomes },
			full: func(r *rig) Op {
				return &KVDelete{Request: Request{Session: r.session, Number: r.lastNumber + 1}, Key: kvk("k")}
			}, code: Overloaded, field: FieldSessions,
			empty: func(r *rig) { r.past(SessionIdleMillis) },
		},
		{
			name: "idempotency keys", tables: []string{"idems.keys", "idems.index"},
			bound: func(r *rig, n int64) { r.s.lim.idemKeys = n },
			add:   func(r *rig, i int) { r.one(under(fmt.Sprint("k", i), &PurgeQueue{Name: []byte("none")})) },
			count: func(r *rig) int64 { return r.mem().IdempotencyKeys },
			full:  func(*rig) Op { return under("another", &PurgeQueue{Name: []byte("none")}) }, code: Overloaded, field: FieldIdempotency,
			empty: func(r *rig) { r.past(IdempotencyMillis) },
		},
		{
			name: "answers and notes of idempotency keys", tables: []string{"idems.answers"},
			bound: func(r *rig, n int64) {
				r.limit = (n-1)*(idemKeyCost+idemAnswerCost+int64(len(payload))) + idemRoom
				r.s.lim.idemBytes = r.limit
			},
			add: func(r *rig, i int) {
				o := under(fmt.Sprint("k", i), &PurgeQueue{Name: []byte("none")})
				o.Note = []byte(payload)
				r.one(o)
			},
			count: func(r *rig) int64 { return int64(r.s.idems.answers.Len()) },
			full:  func(*rig) Op { return under("another", &PurgeQueue{Name: []byte("none")}) }, code: Overloaded, field: FieldIdempotency,
			empty: func(r *rig) { r.past(IdempotencyMillis) },
		},
		{
			name: "dead letters", tables: []string{"messages", "sides", "byTask", "deadGroupIx"},
			bound: func(r *rig, n int64) { r.queue(QueueOptions{MaxDead: n, DeadRetentionMillis: 5000}) },
			add:   func(r *rig, i int) { r.dead(i) },
			count: func(r *rig) int64 { return r.mem().Dead },
			full:  func(*rig) Op { return one(text("x")) }, code: QueueFull, field: FieldDead,
			empty: func(r *rig) { r.past(5000) },
		},
		{
			name:    "dead letters, the oldest goes",
			bound:   func(r *rig, n int64) { r.queue(QueueOptions{MaxDead: n, DeadOverflow: DeadDropOldest}) },
			add:     func(r *rig, i int) { r.dead(i); r.now++ },
			count:   func(r *rig) int64 { return r.mem().Dead },
			dropped: func(r *rig) int64 { return r.stats().DeadDropped },
			empty:   func(r *rig) { r.ok(&DeadPurge{Queue: q0}); r.past(0) },
		},
		{
			name: "moves", tables: []string{"moves", "moveID", "moveOld", "workers", "workerIdx"},
			bound: func(r *rig, n int64) {
				r.ok(&CreateQueue{Name: []byte("d"), Options: QueueOptions{MaxDepth: n}})
				r.queue(QueueOptions{DeadLetterQueue: "d"})
			},
			add:     func(r *rig, i int) { r.dead(i) },
			count:   func(r *rig) int64 { n, _ := r.s.QueueNumber([]byte("d")); return r.s.Stats(n).Moved },
			dropped: func(r *rig) int64 { return r.stats().Stayed }, // it stays where it died
			empty: func(r *rig) {
				r.ok(&PurgeQueue{Name: []byte("d")})
				r.ok(&DeadPurge{Queue: q0})
				r.past(0)
			},
		},
		{
			name: "messages of a queue, max_depth", tables: []string{"messages", "byID"},
			bound: func(r *rig, n int64) { r.queue(QueueOptions{MaxDepth: n}) },
			add:   func(r *rig, _ int) { r.put(text("x")) },
			count: func(r *rig) int64 { return r.mem().Messages },
			full:  func(*rig) Op { return one(text("x")) }, code: QueueFull, field: FieldDepth,
			empty: purge,
		},
		{
			name:  "messages of a queue, max_bytes",
			bound: func(r *rig, n int64) { r.limit = 4 * n; r.queue(QueueOptions{MaxBytes: 4 * n}) },
			add:   func(r *rig, _ int) { r.put(text("1234")) },
			count: func(r *rig) int64 { return r.stats().Bytes / 4 },
			full:  func(*rig) Op { return one(text("x")) }, code: QueueFull, field: FieldBytes,
			empty: purge,
		},
		{
			name:  "messages of a queue",
			bound: func(r *rig, n int64) { r.s.lim.queueMessages = n },
			add:   func(r *rig, _ int) { r.put(text("x")) },
			count: func(r *rig) int64 { return r.mem().Messages },
			full:  func(*rig) Op { return one(text("x")) }, code: QueueFull, field: FieldTasks,
			empty: purge,
		},
		{
			name:  "messages of a group",
			bound: func(r *rig, n int64) { r.s.lim.groupMessages = n },
			add:   func(r *rig, _ int) { r.put(text("x")) },
			count: func(r *rig) int64 { return r.mem().Messages },
			full: func(*rig) Op {
				return &Enqueue{Queue: []byte("p"), AutoCreate: true, Messages: []Message{text("x")}}
			}, code: Overloaded, field: FieldTasks,
			empty: purge,
		},
		{
			name:  "delayed messages",
			bound: func(r *rig, n int64) { r.queue(QueueOptions{MaxDepth: n}) },
			add: func(r *rig, i int) {
				m := named(i)
				m.DelayMillis, m.TTLMillis = 60_000+int64(i%7), 90_000
				r.put(m)
			},
			count: func(r *rig) int64 { return r.stats().Scheduled },
			full:  func(*rig) Op { return one(text("x")) }, code: QueueFull, field: FieldDepth,
			empty: purge,
		},
		{
			name: "leases", tables: []string{"consumers", "consumerIx"},
			bound: func(r *rig, n int64) { r.queue(QueueOptions{MaxDepth: n}) },
			add: func(r *rig, i int) {
				r.put(text("x"))
				r.ok(&Lease{Queue: q0, Consumer: Consumer{Session: ID{1, 1}, Sub: uint32(i)}, Worker: fmt.Append(nil, "w", i), Max: 1})
				must(r.t, "consumers", int64(r.s.consumers.Len()), r.stats().Leased)
				must(r.t, "workers", int64(r.s.workers.Len()), r.stats().Leased)
			},
			count: func(r *rig) int64 { return r.stats().Leased },
			full:  func(*rig) Op { return one(text("x")) }, code: QueueFull, field: FieldDepth,
			empty: func(r *rig) { r.ok(&DeleteQueue{Name: q0}); r.past(0) },
		},
		{
			name: "lanes", tables: []string{"rows", "laneIx"},
			bound: func(r *rig, n int64) { r.queue(QueueOptions{Ordering: OrderPerKey, MaxDepth: n}) },
			add: func(r *rig, i int) {
				m := text("x")
				m.Key = fmt.Append(nil, i)
				r.put(m)
			},
			count: func(r *rig) int64 { return r.mem().Lanes },
			full: func(*rig) Op {
				m := text("x")
				m.Key = []byte("another")
				return one(m)
			}, code: QueueFull, field: FieldDepth,
			empty: purge,
		},
		{
			name: "keys and flows", tables: []string{"keys", "keyIx", "flows"},
			bound: func(r *rig, n int64) { r.queue(QueueOptions{FairBy: FairByKey, MaxDepth: n}) },
			add: func(r *rig, i int) {
				m := text("x")
				m.Key, m.Priority = fmt.Append(nil, i), uint8(i%10)
				r.put(m)
				must(r.t, "flows", r.mem().Flows, r.mem().Keys)
			},
			count: func(r *rig) int64 { return r.mem().Keys },
			full: func(*rig) Op {
				m := text("x")
				m.Key = []byte("another")
				return one(m)
			}, code: QueueFull, field: FieldDepth,
			empty: purge,
		},
		{
			name:  "keys in debt",
			bound: func(r *rig, n int64) { r.queue(QueueOptions{RatePerKeyMilli: 1000}); r.s.lim.keyDebts = n },
			add: func(r *rig, i int) {
				m := text("x")
				m.Key = fmt.Append(nil, i)
				r.put(m)
				r.ok(&Ack{Token: r.lease1()})
			},
			count: func(r *rig) int64 { return r.stats().KeyDebts },
			full: func(*rig) Op {
				m := text("x")
				m.Key = []byte("another")
				return one(m)
			}, code: QueueFull, field: FieldRatePerKey,
			empty: func(r *rig) { r.past(TombstoneMillis) },
		},
		{
			name: "redriven", tables: []string{"byOrigin"},
			bound: func(r *rig, n int64) { r.queue(QueueOptions{MaxDepth: n}) },
			add: func(r *rig, _ int) {
				id := r.put(text("x"))
				tok := r.lease1()
				must(r.t, "leased", tok.Message, id)
				r.ok(&Nack{Token: tok, Permanent: true})
				o := r.ok(&DeadRequeue{Queue: q0, IDs: []ID{id}})
				r.ok(&Reschedule{Queue: q0, TaskID: []byte(id.String()), When: AfterDelay, Time: 60_000})
				must(r.t, "found by its first id", r.info(id).ID, o.ID)
			},
			count: func(r *rig) int64 { return int64(r.s.byOrigin.Len()) },
			full:  func(*rig) Op { return one(text("x")) }, code: QueueFull, field: FieldDepth,
			empty: purge,
		},
		{
			name: "KV keys", tables: []string{"kv.keys", "kv.values", "kv.index", "kv.byKey", "kv.byRev"},
			bound: func(r *rig, n int64) { r.s.lim.kvKeys, r.s.lim.kvTombs = n, 2 },
			add:   func(r *rig, i int) { r.put(keyed(payload, fmt.Sprint("k/", i))); r.kill() },
			count: func(r *rig) int64 { return r.mem().KVKeys },
			full:  func(*rig) Op { return one(keyed("v", "another")) }, code: QueueFull, field: FieldKV,
			empty: func(r *rig) { r.past(KVTTLMillis); r.past(KVTombMillis) },
		},
		{
			name: "KV keys that are reserved", tables: []string{"hooks.recs", "hooks.index"},
			bound: func(r *rig, n int64) { r.s.lim.kvKeys = n },
			add:   func(r *rig, i int) { r.put(keyed(payload, fmt.Sprint("k/", i))) },
			count: func(r *rig) int64 { must(r.t, "reserved", r.s.KVStats().Reserved, r.mem().Hooks); return r.mem().Hooks },
			full:  func(*rig) Op { return one(keyed("v", "another")) }, code: QueueFull, field: FieldKV,
			empty: purge,
		},
		{
			name:  "KV deletions",
			bound: func(r *rig, n int64) { r.s.lim.kvTombs = n },
			add: func(r *rig, i int) {
				k := fmt.Sprint("k/", i)
				r.put(keyed(payload, k))
				r.kill()
				r.ok(&KVDelete{Key: kvk(k)})
			},
			count:   func(r *rig) int64 { return r.mem().KVDeletions },
			dropped: func(r *rig) int64 { return r.s.KVStats().DeletionsDropped },
			empty:   func(r *rig) { r.past(KVTombMillis); r.ok(&DeadPurge{Queue: q0}); r.past(0) },
		},
		{
			name: "batches", tables: []string{"batches.recs", "batches.index", "batches.ends"},
			bound: func(r *rig, n int64) { r.s.lim.batches = n },
			add:   func(r *rig, _ int) { r.newBatch() },
			count: func(r *rig) int64 { return r.mem().Batches },
			full: func(*rig) Op {
				return &BatchCreate{Queue: []byte("cb"), AutoCreate: true, Callback: text("x")}
			}, code: Overloaded, field: FieldBatches,
			empty: func(r *rig) { r.past(BatchOpenMillis) },
		},
		{
			name:  "callbacks",
			bound: func(r *rig, n int64) { r.limit = n * callbackSize(); r.s.lim.callbackBytes = r.limit },
			add:   func(r *rig, _ int) { r.newBatch() },
			count: func(r *rig) int64 { return r.s.batches.bytes / callbackSize() },
			full: func(*rig) Op {
				return &BatchCreate{Queue: []byte("cb"), AutoCreate: true, Callback: text("x")}
			}, code: Overloaded, field: FieldBatches,
			empty: func(r *rig) { r.past(BatchOpenMillis) },
		},
		{
			name:  "members of a batch",
			bound: func(r *rig, n int64) { r.s.lim.members = n; r.batchID = r.newBatch() },
			add:   func(r *rig, _ int) { r.put(memberOf(r.batchID, "x")) },
			count: func(r *rig) int64 {
				var in BatchInfo
				r.s.Batch(r.batchID, &in)
				return in.Open
			},
			full: func(r *rig) Op { return one(memberOf(r.batchID, "x")) }, code: QueueFull, field: FieldMembers,
			empty: func(r *rig) { purge(r); r.past(BatchOpenMillis) },
		},
		{
			name: "queues", tables: []string{"tallies", "queueByName", "queueByNum"},
			bound: func(r *rig, n int64) { r.s.lim.queues = n },
			add:   func(r *rig, i int) { r.ok(&CreateQueue{Name: fmt.Append(nil, "q", i)}) },
			count: func(r *rig) int64 { return r.mem().Queues },
			full:  func(*rig) Op { return &CreateQueue{Name: []byte("another")} }, code: Overloaded, field: FieldQueues,
			empty: func(r *rig) { r.noQueues() },
		},
		{
			name: "schedules", tables: []string{"schedules", "scheduleDue"},
			bound: func(r *rig, n int64) { r.s.lim.schedules = n },
			add:   func(r *rig, i int) { r.ok(daySchedule(i)) },
			count: func(r *rig) int64 { return r.mem().Schedules },
			full:  func(*rig) Op { return daySchedule(-1) }, code: Overloaded, field: FieldSchedules,
			empty: func(r *rig) { r.noSchedules() },
		},
		{
			name: "bytes of schedules",
			bound: func(r *rig, n int64) {
				r.ok(daySchedule(100_000))
				size := r.mem().ScheduleBytes
				r.noSchedules()
				r.limit = n * size
				r.s.lim.scheduleBytes = r.limit
			},
			add:   func(r *rig, i int) { r.ok(daySchedule(100_000 + i)) },
			count: func(r *rig) int64 { return r.mem().Schedules },
			full:  func(*rig) Op { return daySchedule(-1) }, code: Overloaded, field: FieldSchedules,
			empty: func(r *rig) { r.noSchedules() },
		},
	}
}

func (r *rig) noQueues() {
	r.t.Helper()
	var names []string
	r.s.Queues("", func(_ uint32, name string) bool { names = append(names, name); return true })
	for _, name := range names {
		r.ok(&DeleteQueue{Name: []byte(name)})
	}
	r.past(0)
}

func (r *rig) noSchedules() {
	r.t.Helper()
	for len(r.s.scheduleNames) > 0 {
		r.ok(&DeleteSchedule{Name: []byte(r.s.scheduleDefs[r.s.scheduleNames[0]].name)})
	}
}

// TestTables fills each table to its maximum, sees the refusal or the oldest record go, makes room, fills it again, and empties
// it: then nothing is held. Small, with every invariant checked after each step and the log cut at every index; and with
// thousands of records, to see that pages, indexes and chunks are given back.
func TestTables(t *testing.T) {
	for _, c := range tableCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var floor Memory
			t.Run("to the record", func(t *testing.T) { floor = c.run(t, 3, false, Memory{}) })
			t.Run("thousands", func(t *testing.T) { c.run(t, 8000, true, floor) })
		})
	}
}

// run fills the table with n records. It returns what stays of the memory when it is empty again; floor is that of a run with
// few records, zero in the first.
func (c *tableCase) run(t *testing.T, n int, quiet bool, floor Memory) Memory {
	r := newRig(t)
	r.quiet = quiet
	r.s.lim.garbage, r.s.lim.compact = formatBounds().garbage, formatBounds().compact
	c.bound(r, int64(n))
	if r.limit == 0 {
		r.limit = int64(n)
	}
	must(t, "at first", c.count(r), 0)
	for i := range n {
		c.add(r, i)
		must(t, "counter", c.count(r), int64(i+1))
	}
	if c.full != nil {
		for range 2 { // refused again, and nothing has changed
			o := r.refused(c.full(r), c.code, c.field)
			must(t, "limit", o.Limit, r.limit)
			must(t, "counter", c.count(r), int64(n))
		}
	} else {
		was := c.dropped(r)
		c.add(r, n)
		must(t, "counter", c.count(r), int64(n))
		must(t, "dropped", c.dropped(r), was+1)
	}
	most := r.s.Memory()
	if !quiet {
		r.everywhere()
	}
	c.empty(r)
	if !strings.HasPrefix(c.name, "leases") && !strings.HasPrefix(c.name, "members") { // whose queue or batch has gone
		must(t, "counter of the empty table", c.count(r), 0)
	}
	r.nothing()
	if err := r.s.Check(); err != nil {
		t.Fatal(err)
	}
	left := r.s.Memory()
	if floor == (Memory{}) {
		return left
	}
	// Pages, index pages and chunks went back; what is kept is how many pages there were, and the chunks in hand.
	if more, filled := left.TableBytes-floor.TableBytes, most.TableBytes-floor.TableBytes; more > filled/32 {
		t.Errorf("%d bytes of tables were full, and %d are kept", filled, more)
	}
	if left.ArenaHeld > arenaInHand {
		t.Errorf("the arena held %d bytes and holds %d, want at most %d in hand", most.ArenaHeld, left.ArenaHeld, arenaInHand)
	}
	return left
}

// nothing empties what is left beside the table at hand, and sees that the state holds nothing any more.
func (r *rig) nothing() {
	r.t.Helper()
	r.noQueues()
	r.noSchedules()
	for range 4 {
		r.past(max(BatchOpenMillis, KVTTLMillis))
	}
	m := r.s.Memory()
	m.TableBytes, m.ArenaHeld = 0, 0
	if m != (Memory{}) {
		r.t.Fatalf("memory %+v, want nothing", m)
	}
	eachTable(reflect.ValueOf(r.s).Elem(), "", func(name string, n int) {
		if n != 0 {
			r.t.Errorf("%s still has %d records", name, n)
		}
	})
}
