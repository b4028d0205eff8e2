package fsm

import (
	"fmt"
	"math"
	"strings"
)

// badCases are all of them.
func badCases() (all []bad) {
	add := func(name string, code Code, field Field, limit int64, op func(w *world) Op) {
		all = append(all, bad{name, op, code, field, limit})
	}
	inv := InvalidArgument
	// Messages, wherever an operation carries one.
	for _, m := range badMessages() {
		code := inv
		if m.field == FieldBody {
			code = TooLarge
		}
		make := func() Message { msg := text("x"); m.set(&msg); return msg }
		add("Enqueue.Messages."+m.name, code, m.field, m.limit, func(*world) Op { return one(make()) })
		add("Ack.Then.Message."+m.name, code, m.field, m.limit, func(w *world) Op {
			return &Ack{Token: w.token, Then: []ThenMessage{{q0, text("good")}, {q0, make()}}}
		})
		add("DeadEdit.Message."+m.name, code, m.field, m.limit, func(w *world) Op {
			return &DeadEdit{Queue: q0, ID: w.dead, Fields: EditBody, Message: make()}
		})
		if !strings.HasPrefix(m.name, "Body") {
			add("BatchCreate.Callback."+m.name, inv, m.field, m.limit, func(*world) Op { return &BatchCreate{Queue: q0, Callback: make()} })
		}
		if msg := make(); msg.DelayMillis == 0 && msg.DueAt == 0 {
			for _, set := range []bool{false, true} {
				add(fmt.Sprint("Schedule.Message.", m.name, set), code, m.field, m.limit, func(*world) Op {
					c := daily("d")
					c.Message = make()
					return scheduleOp(c, set)
				})
			}
		}
	}
	for _, c := range []struct {
		name  string
		set   func(m *Message)
		code  Code
		field Field
		limit int64
	}{
		{"TaskID too long", func(m *Message) { m.TaskID = over(MaxTaskID) }, inv, FieldTaskID, MaxTaskID},
		{"TaskID not text", func(m *Message) { m.TaskID = noText }, inv, FieldTaskID, 0},
		{"TaskID taken", func(m *Message) { m.TaskID = []byte("t") }, AlreadyExists, FieldTaskID, 0},
		{"DedupContent another", func(m *Message) { *m = tasked("k"); m.TaskID = nil; m.DedupContent[0]++ }, AlreadyExists, FieldDedupKey, 0},
		{"Keys too many", func(m *Message) {
			for i := range MaxKVKeys + 1 {
				m.Keys = append(m.Keys, kvk(fmt.Sprint(i)))
			}
		}, inv, FieldKVKeys, MaxKVKeys},
		{"Keys malformed", func(m *Message) { m.Keys = [][]byte{{0}} }, inv, FieldKVKeys, 0},
		{"Keys twice", func(m *Message) { m.Keys = [][]byte{kvk("a"), kvk("a")} }, inv, FieldKVKeys, 0},
		{"Batch unknown", func(m *Message) { m.Batch = ID{1, 1} }, NotFound, FieldBatchID, 0},
		{"Batch sealed", nil, FailedPrecondition, FieldBatchID, 0},
	} {
		make := func(w *world) Message {
			m := text("x")
			if m.Batch = w.sealD; c.set != nil {
				m.Batch = ID{}
				c.set(&m)
			}
			return m
		}
		add("Enqueue.Messages."+c.name, c.code, c.field, c.limit, func(w *world) Op { return one(make(w)) })
		// A message that is refused leaves no queue behind that would have been made for it.
		if c.code != AlreadyExists {
			add("Enqueue.Queue made for Messages."+c.name, c.code, c.field, c.limit, func(w *world) Op {
				return &Enqueue{Queue: []byte("new"), AutoCreate: true, Messages: []Message{make(w)}}
			})
		}
		field := c.field
		if c.code == AlreadyExists {
			field = FieldThen
		}
		add("Ack.Then.Message."+c.name, c.code, field, c.limit, func(w *world) Op {
			return &Ack{Token: w.token, Then: []ThenMessage{{q0, make(w)}}}
		})
		add("Ack.Then.Queue made for Message."+c.name, c.code, field, c.limit, func(w *world) Op {
			then := []ThenMessage{{[]byte("new"), text("good")}, {q0, make(w)}}
			return &Ack{Token: w.token, ThenAutoCreate: true, Then: then}
		})
	}
	for _, o := range badOptions() {
		add("CreateQueue.Options."+o.name, inv, o.field, 0, func(*world) Op { return &CreateQueue{Name: []byte("new"), Options: o.options} })
		add("ChangeQueue.Options."+o.name, inv, o.field, 0, func(*world) Op { return &ChangeQueue{Name: q0, Only: changeableSet, Options: o.options} })
		add("SetQueue.Options."+o.name, inv, o.field, 0, func(*world) Op { return &SetQueue{Name: q0, Options: o.options} })
	}
	// Names of queues.
	for _, name := range append([]string{""}, badNames...) {
		n, short := []byte(name), name[:min(len(name), 9)]
		add("CreateQueue.Name "+short, inv, FieldQueue, MaxQueueName, func(*world) Op { return &CreateQueue{Name: n} })
		add("ChangeQueue.Name "+short, inv, FieldQueue, MaxQueueName, func(*world) Op { return &ChangeQueue{Name: n, Only: 2} })
		add("SetQueue.Name "+short, inv, FieldQueue, MaxQueueName, func(*world) Op { return &SetQueue{Name: n} })
		add("Enqueue.Queue "+short, inv, FieldQueue, MaxQueueName, func(*world) Op {
			return &Enqueue{Queue: n, AutoCreate: true, Messages: []Message{text("x")}}
		})
		add("Lease.Queue "+short, inv, FieldQueue, MaxQueueName, func(*world) Op { return &Lease{Queue: n, Max: 1} })
		add("BatchCreate.Queue "+short, inv, FieldQueue, MaxQueueName, func(*world) Op { return &BatchCreate{Queue: n, AutoCreate: true} })
		add("Ack.Then.Queue "+short, inv, FieldThen, MaxQueueName, func(w *world) Op {
			return &Ack{Token: w.token, ThenAutoCreate: true, Then: []ThenMessage{{n, text("x")}}}
		})
		for _, set := range []bool{false, true} {
			add(fmt.Sprint("Schedule.Queue ", short, set), inv, FieldQueue, MaxQueueName, func(*world) Op {
				c := daily("d")
				c.Queue = n
				return scheduleOp(c, set)
			})
			add(fmt.Sprint("Schedule.Name ", short, set), inv, FieldSchedule, MaxScheduleName, func(*world) Op {
				return scheduleOp(daily(name), set)
			})
		}
		// What names a queue that must be there says that it is not: no queue has such a name.
		add("PurgeQueue.Name "+short, NotFound, FieldQueue, 0, func(*world) Op { return &PurgeQueue{Name: n} })
		add("DeleteQueue.Name "+short, NotFound, FieldQueue, 0, func(*world) Op { return &DeleteQueue{Name: n} })
		add("DeadPurge.Queue "+short, NotFound, FieldQueue, 0, func(*world) Op { return &DeadPurge{Queue: n} })
		add("DeadRequeue.Queue "+short, NotFound, FieldQueue, 0, func(w *world) Op { return &DeadRequeue{Queue: n, IDs: []ID{w.dead}} })
		add("DeadDelete.Queue "+short, NotFound, FieldQueue, 0, func(w *world) Op { return &DeadDelete{Queue: n, IDs: []ID{w.dead}} })
		add("DeadEdit.Queue "+short, NotFound, FieldQueue, 0, func(w *world) Op { return &DeadEdit{Queue: n, ID: w.dead} })
		add("DeleteSchedule.Name "+short, NotFound, FieldSchedule, 0, func(*world) Op { return &DeleteSchedule{Name: n} })
		add("FireSchedule.Name "+short, NotFound, FieldSchedule, 0, func(*world) Op { return &FireSchedule{Name: n} })
		// Tasks: without a queue only by a broker's id.
		task := []byte("t")
		add("Cancel.Queue "+short, inv, FieldQueue, MaxQueueName, func(*world) Op { return &Cancel{Queue: n, TaskID: task} })
		add("Reschedule.Queue "+short, inv, FieldQueue, MaxQueueName, func(*world) Op {
			return &Reschedule{Queue: n, TaskID: task, When: AfterDelay}
		})
		add("PushResult.Queue "+short, inv, FieldQueue, MaxQueueName, func(*world) Op { return &PushResult{Queue: n, TaskID: task} })
	}
	for _, id := range [][]byte{nil, over(MaxTaskID), noText} {
		name := fmt.Sprint(len(id))
		add("Cancel.TaskID "+name, inv, FieldTaskID, MaxTaskID, func(*world) Op { return &Cancel{Queue: q0, TaskID: id} })
		add("Reschedule.TaskID "+name, inv, FieldTaskID, MaxTaskID, func(*world) Op {
			return &Reschedule{Queue: q0, TaskID: id, When: AfterDelay}
		})
		add("PushResult.TaskID "+name, inv, FieldTaskID, MaxTaskID, func(*world) Op { return &PushResult{Queue: q0, TaskID: id} })
	}
	waits := []byte("waits")
	for _, c := range []struct {
		name  string
		op    Reschedule
		code  Code
		field Field
		limit int64
	}{
		{"When none, no body", Reschedule{}, inv, FieldDelay, 0},
		{"Time least", Reschedule{When: AfterDelay, Time: math.MinInt64}, inv, FieldDelay, MaxDelayMillis},
		{"Time negative", Reschedule{When: AfterDelay, Time: -1}, inv, FieldDelay, MaxDelayMillis},
		{"Time above", Reschedule{When: AfterDelay, Time: MaxDelayMillis + 1}, inv, FieldDelay, MaxDelayMillis},
		{"Time greatest", Reschedule{When: AfterDelay, Time: math.MaxInt64}, inv, FieldDelay, MaxDelayMillis},
		{"Time before 1970", Reschedule{When: AtTime, Time: -1}, inv, FieldDelay, 0},
		{"Time too far ahead", Reschedule{When: AtTime, Time: t0 + MaxDelayMillis + 1}, inv, FieldDelay, MaxDelayMillis},
		{"Time greatest of all", Reschedule{When: AtTime, Time: math.MaxInt64}, inv, FieldDelay, MaxDelayMillis},
		{"MaxWaitMillis negative", Reschedule{When: AfterDelay, MaxWaitMillis: -1}, inv, FieldMaxWait, MaxDelayMillis},
		{"MaxWaitMillis above", Reschedule{When: AfterDelay, MaxWaitMillis: MaxDelayMillis + 1}, inv, FieldMaxWait, MaxDelayMillis},
		{"MaxWaitMillis greatest", Reschedule{When: AfterDelay, MaxWaitMillis: math.MaxInt64}, inv, FieldMaxWait, MaxDelayMillis},
		{"MaxWaitMillis without a delay", Reschedule{When: AtTime, Time: t0, MaxWaitMillis: 5}, inv, FieldMaxWait, 0},
		{"Body too long", Reschedule{HasBody: true, Body: over(MaxBodyBytes)}, TooLarge, FieldBody, MaxBodyBytes},
		{"ContentType too long", Reschedule{HasBody: true, ContentType: over(MaxContentType)}, inv, FieldContentType, MaxContentType},
		{"ContentType not text", Reschedule{HasBody: true, ContentType: noText}, inv, FieldContentType, MaxContentType},
	} {
		c.op.Queue, c.op.TaskID = q0, waits
		add("Reschedule."+c.name, c.code, c.field, c.limit, func(*world) Op { return &c.op })
	}
	// Results.
	for _, c := range []struct {
		name  string
		res   Result
		code  Code
		field Field
		limit int64
	}{
		{"Output too long", Result{Output: over(MaxBodyBytes)}, TooLarge, FieldResult, MaxBodyBytes},
		{"ContentType too long", Result{ContentType: over(MaxContentType)}, inv, FieldContentType, MaxContentType},
		{"ContentType not text", Result{ContentType: noText}, inv, FieldContentType, MaxContentType},
	} {
		add("Ack.Result."+c.name, c.code, c.field, c.limit, func(w *world) Op { return &Ack{Token: w.token, HasResult: true, Result: c.res} })
		add("PushResult.Result."+c.name, c.code, c.field, c.limit, func(*world) Op {
			return &PushResult{Queue: q0, TaskID: []byte("new"), Result: c.res}
		})
	}
	for _, kind := range [][]byte{over(MaxKind), noText} {
		add(fmt.Sprint("PushResult.Kind ", len(kind)), inv, FieldKind, MaxKind, func(*world) Op {
			return &PushResult{Queue: q0, TaskID: []byte("new"), Kind: kind}
		})
	}
	// Leases.
	for _, v := range []int32{math.MinInt32, -1, 0, MaxLeaseCount + 1, math.MaxInt32} {
		add(fmt.Sprint("Lease.Max ", v), inv, FieldMax, MaxLeaseCount, func(*world) Op { return &Lease{Queue: q0, Max: v} })
	}
	for _, v := range []int64{math.MinInt64, -1, 1, MinLeaseMillis - 1, MaxLeaseMillis + 1, math.MaxInt64} {
		limit := int64(MinLeaseMillis)
		if v > 0 && v > MinLeaseMillis {
			limit = MaxLeaseMillis
		}
		add(fmt.Sprint("Lease.LeaseMillis ", v), inv, FieldLease, limit, func(*world) Op { return &Lease{Queue: q0, Max: 1, LeaseMillis: v} })
		add(fmt.Sprint("Extend.LeaseMillis ", v), inv, FieldLease, limit, func(w *world) Op { return &Extend{Token: w.token, LeaseMillis: v} })
	}
	for _, v := range []int64{math.MinInt64, -2, MaxDelayMillis + 1, math.MaxInt64} {
		add(fmt.Sprint("Nack.DelayMillis ", v), inv, FieldDelay, MaxDelayMillis, func(w *world) Op { return &Nack{Token: w.token, DelayMillis: v} })
	}
	for _, b := range [][]byte{over(MaxWorker), noText} {
		add(fmt.Sprint("Lease.Worker ", len(b)), inv, FieldWorker, MaxWorker, func(*world) Op { return &Lease{Queue: q0, Max: 1, Worker: b} })
	}
	// Tokens.
	for _, c := range []struct {
		name  string
		token func(t Token) Token
		code  Code
	}{
		{"Message unknown", func(t Token) Token { t.Message.Lo++; return t }, NotFound},
		{"Lease another", func(t Token) Token { t.Lease.Lo++; return t }, LeaseLost},
		{"Lease none", func(t Token) Token { t.Lease = ID{}; return t }, LeaseLost},
	} {
		for _, op := range []func(t Token) Op{
			func(t Token) Op { return &Ack{Token: t} }, func(t Token) Op { return &Nack{Token: t} },
			func(t Token) Op { return &Extend{Token: t} }, func(t Token) Op { return &Release{Token: t} },
		} {
			add(fmt.Sprintf("%T.Token.%s", op(Token{}), c.name), c.code, FieldToken, 0, func(w *world) Op { return op(c.token(w.token)) })
		}
	}
	add("Ack.Mapping another", FailedPrecondition, FieldMapping, 0, func(w *world) Op { return &Ack{Token: w.token, Mapping: 1} })
	add("Nack.Mapping another", FailedPrecondition, FieldMapping, 0, func(w *world) Op {
		return &Nack{Token: w.token, DelayMillis: -1, Mapping: math.MaxUint64}
	})
	for _, set := range []func(o QueueOptions) Op{
		func(o QueueOptions) Op { return &SetQueue{Name: q0, Options: o} },
		func(o QueueOptions) Op { return &CreateQueue{Name: q0, Options: o} },
	} {
		add(fmt.Sprintf("%T.Options.MapTo.Queue its own", set(QueueOptions{})), inv, FieldMapTo, 0, func(*world) Op {
			return set(QueueOptions{MapTo: MapTo{"q", "body"}})
		})
	}
	add("Ack.Then too many", inv, FieldThen, MaxBatch, func(w *world) Op { return &Ack{Token: w.token, Then: make([]ThenMessage, MaxBatch+1)} })
	add("Ack.Then.Queue missing", NotFound, FieldThen, 0, func(w *world) Op {
		return &Ack{Token: w.token, Then: []ThenMessage{{[]byte("new"), text("x")}}}
	})
	add("Enqueue.Messages too many", inv, FieldBatch, MaxBatch, func(*world) Op { return &Enqueue{Queue: q0, Messages: make([]Message, MaxBatch+1)} })
	add("Enqueue.Queue missing", NotFound, FieldQueue, 0, func(*world) Op { return &Enqueue{Queue: []byte("new"), Messages: []Message{text("x")}} })
	// Dead letters.
	add("DeadRequeue.IDs too many", inv, FieldBatch, MaxDeadIDs, func(*world) Op { return &DeadRequeue{Queue: q0, IDs: make([]ID, MaxDeadIDs+1)} })
	add("DeadDelete.IDs too many", inv, FieldBatch, MaxDeadIDs, func(*world) Op { return &DeadDelete{Queue: q0, IDs: make([]ID, MaxDeadIDs+1)} })
	add("DeadRequeue.IDs unknown", NotFound, FieldNone, 0, func(*world) Op { return &DeadRequeue{Queue: q0, IDs: []ID{{}, {1, 1}}} })
	add("DeadDelete.IDs of a live message", NotFound, FieldNone, 0, func(w *world) Op { return &DeadDelete{Queue: q0, IDs: []ID{w.token.Message}} })
	add("DeadEdit.ID unknown", NotFound, FieldNone, 0, func(*world) Op { return &DeadEdit{Queue: q0, ID: ID{1, 1}} })
	add("DeadEdit.Fields unknown", inv, FieldEdit, 0, func(w *world) Op { return &DeadEdit{Queue: q0, ID: w.dead, Fields: editEnd} })
	for name, m := range map[string]Message{
		"TaskID": {TaskID: []byte("t")}, "HasDedup": {HasDedup: true}, "Keys": {Keys: [][]byte{kvk("k")}}, "Batch": {Batch: ID{1, 1}},
	} {
		add("DeadEdit.Message."+name+" that nobody can change", inv, FieldEdit, 0, func(w *world) Op { return &DeadEdit{Queue: q0, ID: w.dead, Message: m} })
		if name != "Keys" {
			f := map[string]Field{"TaskID": FieldTaskID, "HasDedup": FieldDedupKey, "Batch": FieldBatchID}[name]
			add("Schedule.Message."+name, inv, f, 0, func(*world) Op { c := daily("d"); c.Message = m; return scheduleOp(c, true) })
		}
		add("BatchCreate.Callback."+name, inv, FieldCallback, 0, func(*world) Op { return &BatchCreate{Queue: q0, Callback: m} })
	}
	// Contradictions.
	add("SetQueue.Options.DeadLetterQueue names itself", inv, FieldDeadLetterQueue, 0, func(*world) Op {
		return &SetQueue{Name: q0, Options: QueueOptions{DeadLetterQueue: "q"}}
	})
	add("CreateQueue.Options.DeadLetterQueue names itself", inv, FieldDeadLetterQueue, 0, func(*world) Op {
		return &CreateQueue{Name: []byte("new"), Options: QueueOptions{DeadLetterQueue: "new"}}
	})
	add("CreateQueue.Options of a queue that is there", AlreadyExists, FieldOptions, 0, func(*world) Op { return &CreateQueue{Name: q0} })
	add("ChangeQueue.Name missing", NotFound, FieldQueue, 0, func(*world) Op { return &ChangeQueue{Name: []byte("new"), Only: 2} })
	add("ChangeQueue.Only nothing", inv, FieldOptions, 0, func(*world) Op { return &ChangeQueue{Name: q0} })
	add("SetQueue.Name missing", NotFound, FieldQueue, 0, func(*world) Op { return &SetQueue{Name: []byte("new")} })
	for _, o := range []Ordering{OrderFIFO, OrderPerKey} { // which would orphan what waits by priority
		add(fmt.Sprint("SetQueue.Options.Ordering over live messages ", o), FailedPrecondition, FieldOrdering, 0, func(*world) Op {
			return &SetQueue{Name: q0, Options: QueueOptions{Ordering: o, LeaseMillis: 60_000}}
		})
	}
	add("SetQueue.Options.Delivery over live messages", FailedPrecondition, FieldDelivery, 0, func(*world) Op {
		return &SetQueue{Name: q0, Options: QueueOptions{Delivery: DeliverAtMostOnce, LeaseMillis: 60_000}}
	})
	prio := func() Message { m := text("x"); m.Priority = 9; return m }
	add("Enqueue.Messages.Priority in an ordered queue", inv, FieldPriority, DefaultPriority, func(*world) Op {
		return &Enqueue{Queue: []byte("fifo"), Messages: []Message{prio()}}
	})
	add("BatchCreate.Callback.Priority in an ordered queue", inv, FieldPriority, DefaultPriority, func(*world) Op {
		return &BatchCreate{Queue: []byte("fifo"), Callback: prio()}
	})
	add("Ack.Then.Message.Priority in an ordered queue", inv, FieldPriority, DefaultPriority, func(w *world) Op {
		return &Ack{Token: w.token, Then: []ThenMessage{{[]byte("fifo"), prio()}}}
	})
	// Tasks that have ended, or do not wait.
	for name, task := range map[string]string{"done": "task-2", "dead": "task-1"} {
		add("Cancel.TaskID "+name, FailedPrecondition, FieldTaskID, 0, func(*world) Op { return &Cancel{Queue: q0, TaskID: []byte(task)} })
		add("Reschedule.TaskID "+name, FailedPrecondition, FieldTaskID, 0, func(*world) Op {
			return &Reschedule{Queue: q0, TaskID: []byte(task), When: AfterDelay}
		})
	}
	add("Reschedule.TaskID out", FailedPrecondition, FieldTaskID, 0, func(*world) Op {
		return &Reschedule{Queue: q0, TaskID: []byte("t"), When: AfterDelay}
	})
	add("Cancel.TaskID unknown", NotFound, FieldTaskID, 0, func(*world) Op { return &Cancel{Queue: q0, TaskID: []byte("none")} })
	// The KV, batches, schedules, sessions, the cluster.
	for _, k := range [][]byte{nil, {0}, {'a'}, AppendKVKey(nil, strings.Repeat("x", MaxKVString+1)), AppendKVKey(nil, make([]string, MaxKVStrings+1)...), AppendKVKey(nil, "\xff")} {
		add(fmt.Sprintf("KVDelete.Key %.9q", k), inv, FieldKV, 0, func(*world) Op { return &KVDelete{Key: k} })
	}
	add("KVDelete.Key unknown", NotFound, FieldKV, 0, func(*world) Op { return &KVDelete{Key: kvk("none")} })
	add("BatchCreate.Callback.Body too long", TooLarge, FieldCallback, MaxCallbackBytes, func(*world) Op {
		return &BatchCreate{Queue: q0, Callback: Message{Body: over(MaxCallbackBytes)}}
	})
	add("BatchCreate.Callback.Body far too long", TooLarge, FieldBody, MaxBodyBytes, func(*world) Op {
		return &BatchCreate{Queue: q0, Callback: Message{Body: over(MaxBodyBytes)}}
	})
	add("BatchCreate.Callback.Headers of the broker's", inv, FieldCallback, 0, func(*world) Op {
		return &BatchCreate{Queue: []byte("new"), AutoCreate: true, Callback: Message{Headers: []Header{{Name: []byte(HeaderBatchDead)}}}}
	})
	add("BatchCreate.Queue missing", NotFound, FieldQueue, 0, func(*world) Op { return &BatchCreate{Queue: []byte("new")} })
	add("BatchSeal.Batch none", NotFound, FieldBatchID, 0, func(*world) Op { return &BatchSeal{} })
	add("BatchSeal.Batch unknown", NotFound, FieldBatchID, 0, func(*world) Op { return &BatchSeal{Batch: ID{1, 1}} })
	for _, c := range []struct {
		name  string
		set   func(c *Schedule)
		code  Code
		field Field
		limit int64
	}{
		{"Cron none", func(c *Schedule) { c.Cron = nil }, inv, FieldCron, MaxCron},
		{"Cron too long", func(c *Schedule) { c.Cron = over(MaxCron) }, inv, FieldCron, MaxCron},
		{"Cron not text", func(c *Schedule) { c.Cron = noText }, inv, FieldCron, MaxCron},
		{"Zone too long", func(c *Schedule) { c.Zone = over(MaxZone) }, inv, FieldZone, MaxZone},
		{"Zone not text", func(c *Schedule) { c.Zone = noText }, inv, FieldZone, MaxZone},
		{"JitterMillis least", func(c *Schedule) { c.JitterMillis = math.MinInt64 }, inv, FieldJitter, MaxJitterMillis},
		{"JitterMillis negative", func(c *Schedule) { c.JitterMillis = -1 }, inv, FieldJitter, MaxJitterMillis},
		{"JitterMillis above", func(c *Schedule) { c.JitterMillis = MaxJitterMillis + 1 }, inv, FieldJitter, MaxJitterMillis},
		{"JitterMillis greatest", func(c *Schedule) { c.JitterMillis = math.MaxInt64 }, inv, FieldJitter, MaxJitterMillis},
		{"Policy unknown", func(c *Schedule) { c.Policy = MissedAll + 1 }, inv, FieldPolicy, 0},
		{"Message.DelayMillis set", func(c *Schedule) { c.Message.DelayMillis = 1 }, inv, FieldDelay, 0},
		{"Message.DueAt set", func(c *Schedule) { c.Message.DueAt = t0 }, inv, FieldDelay, 0},
		{"Message.Headers of the schedule's", func(c *Schedule) { c.Message.Headers = []Header{{Name: []byte(HeaderSchedule)}} }, inv, FieldHeaders, 0},
		{"Queue missing", func(c *Schedule) { c.Queue, c.AutoCreate = []byte("new"), false }, NotFound, FieldQueue, 0},
	} {
		for _, set := range []bool{false, true} {
			add(fmt.Sprint("Schedule.", c.name, set), c.code, c.field, c.limit, func(*world) Op {
				d := daily("fresh")
				c.set(&d)
				return scheduleOp(d, set)
			})
		}
	}
	add("CreateSchedule.Schedule another of that name", AlreadyExists, FieldSchedule, 0, func(*world) Op {
		c := daily("d")
		c.Cron = []byte("1 1 * * *")
		return scheduleOp(c, false)
	})
	fire := func(op FireSchedule) func(w *world) Op {
		return func(w *world) Op {
			op.Name = []byte("d")
			if op.Generation == 0 {
				op.Generation = w.schedule("d").Generation
			}
			return &op
		}
	}
	add("FireSchedule.Generation another", FailedPrecondition, FieldSchedule, 0, fire(FireSchedule{Generation: 99, Next: t0 + 1}))
	add("FireSchedule.At another", FailedPrecondition, FieldSchedule, 0, fire(FireSchedule{At: 5, Next: t0 + 1}))
	for _, next := range []int64{math.MinInt64, -2, 0, MaxTime + 1, math.MaxInt64} {
		add(fmt.Sprint("FireSchedule.Next ", next), inv, FieldSchedule, 0, fire(FireSchedule{Next: next}))
	}
	add("FireSchedule.Fire before there is a plan", inv, FieldSchedule, 0, fire(FireSchedule{Next: t0 + 1, Fire: true}))
	for _, v := range []int64{math.MinInt64, -1, MaxTime + 1, math.MaxInt64} {
		add(fmt.Sprint("FireSchedule.Skipped ", v), inv, FieldSchedule, 0, fire(FireSchedule{Next: t0 + 1, Skipped: v}))
	}
	add("TouchSession.Session none", SessionExpired, FieldRequest, 0, func(*world) Op { return &TouchSession{} })
	add("TouchSession.Session unknown", SessionExpired, FieldRequest, 0, func(*world) Op { return &TouchSession{Session: ID{1, 1}} })
	add("Bootstrap again", FailedPrecondition, FieldNone, 0, func(*world) Op { return &Bootstrap{Cluster: [16]byte{2}, Epoch: 9} })
	return all
}
