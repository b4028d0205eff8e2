package fsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// daily is a schedule for queue "s", which it makes.
func daily(name string) Schedule {
	m := text("run")
	m.Kind, m.Headers = []byte("report"), []Header{{[]byte("source"), []byte("test")}}
	return Schedule{Name: []byte(name), Queue: []byte("s"), Cron: []byte("0 3 * * *"), AutoCreate: true, Message: m}
}

// step is the leader's next step of the only schedule "d".
func (r *rig) step(at, next int64, fire bool) *FireSchedule {
	r.t.Helper()
	in := r.schedule("d")
	return &FireSchedule{Name: []byte("d"), Generation: in.Generation, At: at, Next: next, Fire: fire}
}

func (r *rig) schedule(name string) ScheduleInfo {
	r.t.Helper()
	in, ok := r.s.Schedule([]byte(name))
	if !ok {
		r.t.Fatalf("schedule %q is not there", name)
	}
	return in
}

// ready is how many messages queue "s" has.
func (r *rig) ready() int {
	n, _ := r.s.QueueNumber([]byte("s"))
	return r.s.Ready(n)
}

func TestScheduleFiresOnce(t *testing.T) {
	r := newRig(t)
	r.ok(&CreateSchedule{Schedule: daily("d")})
	in := r.schedule("d")
	must(t, "unplanned", in.Next, FireUnplanned)
	must(t, "from", in.From, t0)
	at, ok := r.s.NextSchedule()
	must(t, "waits for its plan", at == t0 && ok, true)
	r.ok(r.step(FireUnplanned, t0+1000, false))
	at, _ = r.s.NextSchedule()
	must(t, "due", at, t0+1000)
	r.refused(r.step(t0+1000, t0+2000, true), FailedPrecondition, FieldSchedule) // T has not come so far
	r.now = t0 + 1000
	fire := r.step(t0+1000, t0+2000, true)
	o := r.apply(fire, fire) // two leaders had the same thought
	must(t, "first", o[0].Code, OK)
	must(t, "second", o[1].Code, FailedPrecondition)
	must(t, "messages", r.ready(), 1)
	must(t, "a leader of long ago", r.one(r.step(FireUnplanned, t0+1500, false)).Code, FailedPrecondition)
	in = r.schedule("d")
	must(t, "next", in.Next, t0+2000)
	must(t, "fired", in.Fired, 1)
	must(t, "last", in.LastAt, t0+1000)
	must(t, "id", in.LastID, o[0].ID)

	var msg Info
	if !r.s.Task("s", []byte(fmt.Sprintf("d@%d", t0+1000)), &msg) {
		t.Fatal("the message is not found by schedule and time")
	}
	var hs []string
	for _, h := range msg.Headers {
		hs = append(hs, string(h.Name)+"="+string(h.Value))
	}
	must(t, "headers", strings.Join(hs, " "), fmt.Sprintf("source=test schedule=d schedule_at=%d", t0+1000))
	must(t, "kind and body", string(msg.Kind)+" "+string(msg.Body), "report run")

	// Over a change of the expression no step of the old generation goes.
	changed := daily("d")
	changed.Cron = []byte("0 4 * * *")
	old := r.step(t0+2000, t0+3000, true)
	r.ok(&SetSchedule{Schedule: changed})
	r.now = t0 + 2000
	r.refused(old, FailedPrecondition, FieldSchedule)
	must(t, "planned anew", r.schedule("d").Next, FireUnplanned)
	must(t, "from the change", r.schedule("d").From, t0+1000)
	must(t, "messages", r.ready(), 1)
	// Nor over a deletion.
	again := r.step(FireUnplanned, t0+4000, false)
	r.ok(&DeleteSchedule{Name: []byte("d")})
	r.refused(again, NotFound, FieldSchedule)
	r.ok(&CreateSchedule{Schedule: changed})
	r.refused(again, FailedPrecondition, FieldSchedule)
	r.ok(r.step(FireUnplanned, FireNever, false))
	if at, ok := r.s.NextSchedule(); ok {
		t.Fatalf("a schedule without a further time is due at %d", at)
	}
	r.everywhere()
}

func TestScheduleWrites(t *testing.T) {
	r := newRig(t)
	must(t, "created", r.ok(&CreateSchedule{Schedule: daily("d")}).Duplicate, false)
	must(t, "the same again", r.ok(&CreateSchedule{Schedule: daily("d")}).Duplicate, true)
	must(t, "set to the same", r.ok(&SetSchedule{Schedule: daily("d")}).Duplicate, true)
	must(t, "generation", r.schedule("d").Generation, 1)
	r.ok(r.step(FireUnplanned, t0+1000, false))
	other := daily("d")
	other.Message.Body = []byte("another body")
	r.refused(&CreateSchedule{Schedule: other}, AlreadyExists, FieldSchedule)
	r.tick(10)
	r.ok(&SetSchedule{Schedule: other})
	in := r.schedule("d")
	must(t, "a new body keeps the time", in.Next, t0+1000)
	must(t, "generation", in.Generation, 2)
	must(t, "created", in.CreatedAt, t0)
	must(t, "changed", in.ChangedAt, t0+10)
	other.Paused = true
	r.ok(&SetSchedule{Schedule: other})
	if _, ok := r.s.NextSchedule(); ok {
		t.Fatal("a paused schedule is due")
	}
	r.refused(&FireSchedule{Name: []byte("d"), Generation: 3, Next: t0 + 5}, FailedPrecondition, FieldSchedule)
	r.tick(1000)
	other.Paused = false
	r.ok(&SetSchedule{Schedule: other})
	must(t, "resumed from now", r.schedule("d").From, r.now)
	r.ok(&SetSchedule{Schedule: daily("a")})
	var names []string
	r.s.Schedules("", func(in *ScheduleInfo) bool { names = append(names, in.Name); return true })
	must(t, "listed", strings.Join(names, " "), "a d")
	r.refused(&DeleteSchedule{Name: []byte("x")}, NotFound, FieldSchedule)
	r.everywhere()
}

func TestScheduleBadFields(t *testing.T) {
	long := strings.Repeat("x", 2000)
	for _, c := range []struct {
		name  string
		field Field
		code  Code
		bad   func(c *Schedule)
	}{
		{"name", FieldSchedule, InvalidArgument, func(c *Schedule) { c.Name = nil }},
		{"long name", FieldSchedule, InvalidArgument, func(c *Schedule) { c.Name = []byte(long[:MaxScheduleName+1]) }},
		{"queue", FieldQueue, InvalidArgument, func(c *Schedule) { c.Queue = []byte("a b") }},
		{"no cron", FieldCron, InvalidArgument, func(c *Schedule) { c.Cron = nil }},
		{"long cron", FieldCron, InvalidArgument, func(c *Schedule) { c.Cron = []byte(long) }},
		{"zone", FieldZone, InvalidArgument, func(c *Schedule) { c.Zone = []byte(long) }},
		{"jitter", FieldJitter, InvalidArgument, func(c *Schedule) { c.JitterMillis = MaxJitterMillis + 1 }},
		{"negative jitter", FieldJitter, InvalidArgument, func(c *Schedule) { c.JitterMillis = -1 }},
		{"policy", FieldPolicy, InvalidArgument, func(c *Schedule) { c.Policy = MissedAll + 1 }},
		{"task id", FieldTaskID, InvalidArgument, func(c *Schedule) { c.Message.TaskID = []byte("t") }},
		{"dedup", FieldDedupKey, InvalidArgument, func(c *Schedule) { c.Message.HasDedup = true }},
		{"delay", FieldDelay, InvalidArgument, func(c *Schedule) { c.Message.DelayMillis = 1 }},
		{"due", FieldDelay, InvalidArgument, func(c *Schedule) { c.Message.DueAt = 1 }},
		{"batch", FieldBatchID, InvalidArgument, func(c *Schedule) { c.Message.Batch = ID{1, 1} }},
		{"priority", FieldPriority, InvalidArgument, func(c *Schedule) { c.Message.Priority = 10 }},
		{"body", FieldBody, TooLarge, func(c *Schedule) { c.Message.Body = make([]byte, MaxBodyBytes+1) }},
		{"its own header", FieldHeaders, InvalidArgument, func(c *Schedule) { c.Message.Headers = []Header{{[]byte(HeaderScheduleAt), nil}} }},
		{"no room for its headers", FieldHeaders, InvalidArgument, func(c *Schedule) {
			c.Message.Headers = slices.Repeat([]Header{{[]byte("h"), nil}}, MaxHeaders-1)
		}},
		{"no queue and none to be made", FieldQueue, NotFound, func(c *Schedule) { c.AutoCreate = false }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			s := daily("d")
			c.bad(&s)
			for _, op := range []Op{&CreateSchedule{Schedule: s}, &SetSchedule{Schedule: s}} {
				o := r.one(op)
				must(t, "code", o.Code, c.code)
				must(t, "field", o.Field, c.field)
			}
			must(t, "schedules", r.s.Memory().Schedules, 0)
			must(t, "queues", r.s.Memory().Queues, 0)
		})
	}
}

func TestScheduleTableFills(t *testing.T) {
	r := newRig(t)
	r.s.lim.schedules = 2
	r.ok(&CreateSchedule{Schedule: daily("a")})
	r.ok(&CreateSchedule{Schedule: daily("b")})
	o := r.refused(&CreateSchedule{Schedule: daily("c")}, Overloaded, FieldSchedules)
	must(t, "limit", o.Limit, 2)
	must(t, "counter", r.s.Memory().Schedules, 2)
	paused := daily("b")
	paused.Paused = true
	r.ok(&SetSchedule{Schedule: paused})
	r.s.lim.scheduleBytes = r.s.Memory().ScheduleBytes + 10
	big := daily("a")
	big.Message.Body = make([]byte, 200)
	o = r.refused(&SetSchedule{Schedule: big}, Overloaded, FieldSchedules)
	must(t, "limit", o.Limit, r.s.lim.scheduleBytes)
	r.ok(&DeleteSchedule{Name: []byte("a")})
	r.ok(&DeleteSchedule{Name: []byte("b")})
	must(t, "bytes", r.s.Memory().ScheduleBytes, 0)
	must(t, "counter", r.s.Memory().Schedules, 0)
}

// Ten thousand fit and no more, and the memory goes back.
func TestScheduleTableHoldsTenThousand(t *testing.T) {
	r := newRig(t)
	r.quiet = true
	for i := range MaxSchedules {
		r.apply(&CreateSchedule{Schedule: daily(fmt.Sprint("s", i))})
	}
	r.refused(&CreateSchedule{Schedule: daily("x")}, Overloaded, FieldSchedules)
	if err := r.s.Check(); err != nil {
		t.Fatal(err)
	}
	for i := range MaxSchedules {
		r.ok(&DeleteSchedule{Name: []byte(fmt.Sprint("s", i))})
	}
	m := r.s.Memory()
	must(t, "schedules", m.Schedules, 0)
	must(t, "bytes", m.ScheduleBytes, 0)
	must(t, "messages", m.Messages, 0)
}

// A firing that the queue does not take is counted with its reason, and the schedule goes on.
func TestScheduleRefusedFirings(t *testing.T) {
	for _, c := range []struct {
		name  string
		set   func(r *rig)
		code  Code
		field Field
	}{
		{"the queue was deleted", func(r *rig) { r.ok(&DeleteQueue{Name: []byte("s")}) }, NotFound, FieldQueue},
		{"its dead letters are full", func(r *rig) {
			r.ok(&SetQueue{Name: []byte("s"), Options: QueueOptions{MaxDead: 1}})
			r.ok(&Enqueue{Queue: []byte("s"), Messages: []Message{text("x")}})
			r.ok(&Lease{Queue: []byte("s"), Consumer: someone, Max: 1})
			r.ok(&Nack{Token: r.fx.Leases[0].Token, Permanent: true})
		}, QueueFull, FieldDead},
		{"it has become ordered, and the message has a priority", func(r *rig) {
			r.ok(&SetQueue{Name: []byte("s"), Options: QueueOptions{Ordering: OrderFIFO}})
		}, InvalidArgument, FieldPriority},
		{"the task id is taken", func(r *rig) {
			m := text("x")
			m.TaskID = AppendFiring(nil, "d", t0+10)
			r.ok(&Enqueue{Queue: []byte("s"), Messages: []Message{m}})
		}, AlreadyExists, FieldTaskID},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.ok(&CreateQueue{Name: []byte("s")})
			d := daily("d")
			d.AutoCreate = false
			if c.field == FieldPriority {
				d.Message.Priority = 9
			}
			r.ok(&CreateSchedule{Schedule: d})
			r.ok(r.step(FireUnplanned, t0+10, false))
			c.set(r)
			r.now = t0 + 10
			o := r.ok(r.step(t0+10, t0+20, true))
			must(t, "id", o.ID, ID{})
			in := r.schedule("d")
			must(t, "refused", in.Refused, 1)
			must(t, "fired", in.Fired, 0)
			must(t, "when", in.FailedAt, t0+10)
			must(t, "code", in.Code, c.code)
			must(t, "field", in.Field, c.field)
			must(t, "next", in.Next, t0+20)
			r.everywhere()
		})
	}
}

func TestScheduleMakesItsQueue(t *testing.T) {
	r := newRig(t)
	r.ok(&CreateSchedule{Schedule: daily("d")})
	r.ok(r.step(FireUnplanned, t0, false))
	r.ok(r.step(t0, t0+20, true))
	must(t, "messages", r.ready(), 1)
	must(t, "queues", r.s.Memory().Queues, 1)
	r.everywhere()
}

func TestScheduleBadSteps(t *testing.T) {
	r := newRig(t)
	r.ok(&CreateSchedule{Schedule: daily("d")})
	must(t, "firing what is not planned", r.one(r.step(FireUnplanned, t0+1, true)).Code, InvalidArgument)
	r.ok(r.step(FireUnplanned, t0, false))
	for _, next := range []int64{t0, t0 - 1, 0, -2, MaxTime + 1} {
		must(t, fmt.Sprint("next ", next), r.one(r.step(t0, next, true)).Code, InvalidArgument)
	}
	back := r.step(t0, t0+1, false)
	back.Skipped = -1
	must(t, "a negative count", r.one(back).Code, InvalidArgument)
	must(t, "messages", r.ready(), 0)
}

func TestScheduleJitter(t *testing.T) {
	r := newRig(t)
	d := daily("d")
	d.JitterMillis = 5000
	r.ok(&CreateSchedule{Schedule: d})
	r.ok(r.step(FireUnplanned, t0+1000, false))
	late := ScheduleJitter([]byte("d"), t0+1000, 5000)
	at, _ := r.s.NextSchedule()
	must(t, "due", at, t0+1000+late)
	r.now = at - 1
	r.refused(r.step(t0+1000, t0+2000, true), FailedPrecondition, FieldSchedule)
	r.now++
	r.ok(r.step(t0+1000, t0+2000, true))
	var low, high int
	for i := range int64(10_000) {
		switch j := ScheduleJitter([]byte("d"), i*1000, 9); {
		case j < 0 || j > 9:
			t.Fatalf("jitter %d of 9", j)
		case j == 0:
			low++
		case j == 9:
			high++
		}
	}
	if low < 800 || low > 1200 || high < 800 || high > 1200 {
		t.Fatalf("of 10,000 values %d are least and %d greatest, want about 1,000 each", low, high)
	}
	r.everywhere()
}

// scheduleOp is a random operation about schedules.
func (p *player) scheduleOp() Op {
	d := p.d
	names := []string{"a", "b", "c", "x", "y"}
	c := Schedule{
		Name: []byte(pick(d, names)), Queue: p.queue(), Cron: []byte(pick(d, []string{"1", "2"})), JitterMillis: int64(d.n(3)) * 40,
		Policy: MissedPolicy(d.n(4)), Paused: d.n(6) == 0, AutoCreate: d.n(3) != 0, Message: p.message(),
	}
	if d.n(4) != 0 {
		m := &c.Message
		m.TaskID, m.HasDedup, m.DelayMillis, m.DueAt, m.Priority, m.Batch = nil, false, 0, 0, 4, ID{}
	}
	switch d.n(8) {
	case 0:
		return &CreateSchedule{Request: p.request(), Schedule: c}
	case 1:
		return &SetSchedule{Request: p.request(), Schedule: c}
	case 2:
		return &DeleteSchedule{Request: p.request(), Name: c.Name}
	}
	op := &FireSchedule{Name: c.Name, Generation: uint64(d.n(9)), Next: p.now + int64(d.n(200)), Fire: d.n(2) == 0, Skipped: int64(d.n(3))}
	if in, ok := p.s.Schedule(c.Name); ok && d.n(8) != 0 {
		op.Generation, op.At = in.Generation, in.Next
		if in.Next == FireUnplanned {
			op.Fire = false
		}
	}
	if d.n(12) == 0 {
		op.Next = FireNever
	}
	return op
}
