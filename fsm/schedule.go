package fsm

import (
	"encoding/binary"
	"slices"
	"sort"
	"strconv"
)

// MissedPolicy says what becomes of the times of a schedule that nobody could fire: no leader, or none for longer than the
// leader allows.
type MissedPolicy uint8

// The three policies. What counts as missed is the leader's to say: the state only knows what was fired and what was passed
// over.
const (
	MissedSkip MissedPolicy = iota // none is made up for
	MissedOnce                     // the latest is, for all of them
	MissedAll                      // the latest hundred are
)

// Limits of schedules.
const (
	MaxSchedules     = 10_000       // a group's; beyond: Overloaded, FieldSchedules
	MaxScheduleBytes = 64 << 20     // accounted for all of them; beyond: the same
	MaxScheduleName  = 96           // bytes, made of what queue names are made of
	MaxCron          = 256          // bytes of a cron expression
	MaxZone          = 64           // bytes of a time zone's name
	MaxJitterMillis  = 24 * 3600000 // the longest jitter: a day

	scheduleCost = 256 // accounted bytes of a schedule, texts and template apart

	// scheduleHeaders are what a fired message carries beside its own: the schedule's name and the fire time.
	scheduleHeaders = 2
)

// Fire times that are none.
const (
	FireUnplanned int64 = 0  // nobody has computed it yet
	FireNever     int64 = -1 // the expression names no further time
)

// Headers of a message that a schedule has made.
const (
	HeaderSchedule   = "schedule"
	HeaderScheduleAt = "schedule_at" // the fire time, Unix ms, decimal
)

// Schedule is what a client declares. The state understands neither Cron nor Zone: it keeps them for the leader, which
// computes the fire times.
type Schedule struct {
	Name         []byte // ≤ MaxScheduleName
	Queue        []byte
	Cron         []byte
	Zone         []byte // empty: UTC
	JitterMillis int64  // each firing is late by a fixed value in [0, JitterMillis]
	Policy       MissedPolicy
	Paused       bool
	AutoCreate   bool    // make the queue with default options if it is missing at a firing
	Message      Message // without task id, dedup key, delay, due time and batch, which are the schedule's business
}

type (
	// CreateSchedule makes a schedule. The same again: OK, Outcome.Duplicate. Another of that name: AlreadyExists.
	CreateSchedule struct {
		Request  Request
		Schedule Schedule
	}
	// SetSchedule replaces a schedule, or makes it. The same again: OK, Outcome.Duplicate, and nothing changes. The next fire
	// time stays unless expression or zone changed or the schedule was paused.
	SetSchedule struct {
		Request  Request
		Schedule Schedule
	}
	// DeleteSchedule removes a schedule; messages that it made stay.
	DeleteSchedule struct {
		Request Request
		Name    []byte
	}
	// FireSchedule is the leader's: it moves a schedule from the fire time At to Next and, with Fire, enqueues its message. One
	// of an older generation, or whose At is not the planned time (it was fired before), changes nothing: FailedPrecondition.
	FireSchedule struct {
		Name       []byte
		Generation uint64
		At         int64 // FireUnplanned: the first plan
		Next       int64 // > At, or FireNever
		Fire       bool
		Skipped    int64 // fire times that are passed over with this step, 0 to MaxTime
	}
)

// scheduleDef is what a schedule was declared to be: immutable, so that views share it.
type scheduleDef struct {
	name, queue, cron, zone string
	generation              uint64 // of all definitions of the group; never given twice
	jitter                  int64
	policy                  MissedPolicy
	paused, autoCreate      bool
	message                 string // the template as the log encodes it
	created, changed        int64  // T
}

// scheduleState is what firings change: a record without pointers.
type scheduleState struct {
	next     int64 // the fire time planned, FireUnplanned or FireNever
	from     int64 // T from which the next is to be computed while unplanned
	last     int64 // fire time of the last message, 0: none yet
	lastID   ID    // of that message
	fired    int64
	skipped  int64 // passed over
	refused  int64 // fired, but the queue took no message
	failedAt int64 // fire time of the last refused one
	heapPos  int32
	code     Code // of the last refused one
	field    Field
	used     bool
}

func (d *scheduleDef) cost() int64 {
	return scheduleCost + int64(len(d.name)+len(d.queue)+len(d.cron)+len(d.zone)+len(d.message))
}

// ValidateSchedule checks what does not depend on the state, as ValidateMessage does for a message. Whether Cron and Zone
// mean anything is for the doors to judge.
func ValidateSchedule(c *Schedule) (f Field, limit int64, ok bool) {
	switch {
	case !ValidQueueName(c.Name) || len(c.Name) > MaxScheduleName:
		return FieldSchedule, MaxScheduleName, false
	case !ValidQueueName(c.Queue):
		return FieldQueue, MaxQueueName, false
	case len(c.Cron) == 0 || !ValidText(c.Cron, MaxCron):
		return FieldCron, MaxCron, false
	case !ValidText(c.Zone, MaxZone):
		return FieldZone, MaxZone, false
	case c.JitterMillis < 0 || c.JitterMillis > MaxJitterMillis:
		return FieldJitter, MaxJitterMillis, false
	case c.Policy > MissedAll:
		return FieldPolicy, 0, false
	case len(c.Message.TaskID) > 0:
		return FieldTaskID, 0, false
	case c.Message.HasDedup:
		return FieldDedupKey, 0, false
	case c.Message.DelayMillis != 0 || c.Message.DueAt != 0:
		return FieldDelay, 0, false
	case !c.Message.Batch.IsZero(): // a batch ends, a schedule does not
		return FieldBatchID, 0, false
	}
	if f, limit, ok = ValidateMessage(&c.Message, 0); !ok {
		return f, limit, false
	}
	n := 0
	for i := range c.Message.Headers {
		h := &c.Message.Headers[i]
		if n += len(h.Name) + len(h.Value); string(h.Name) == HeaderSchedule || string(h.Name) == HeaderScheduleAt {
			return FieldHeaders, 0, false
		}
	}
	if len(c.Message.Headers) > MaxHeaders-scheduleHeaders {
		return FieldHeaders, MaxHeaders - scheduleHeaders, false
	}
	const room = MaxScheduleName + len(HeaderSchedule) + len(HeaderScheduleAt) + 20
	if n > MaxHeaderBytes-room {
		return FieldHeaders, MaxHeaderBytes - int64(room), false
	}
	return FieldNone, 0, true
}

// scheduleAt is where a name stands, or would stand, in the order of names.
func (s *State) scheduleAt(name []byte) (at int, found bool) {
	at = sort.Search(len(s.scheduleNames), func(i int) bool { return s.scheduleDefs[s.scheduleNames[i]].name >= string(name) })
	return at, at < len(s.scheduleNames) && s.scheduleDefs[s.scheduleNames[at]].name == string(name)
}

func (s *State) findSchedule(name []byte) (slot int32, ok bool) {
	at, ok := s.scheduleAt(name)
	if !ok {
		return none, false
	}
	return s.scheduleNames[at], true
}

// writeSchedule creates a schedule or, with set, replaces one.
func (s *State) writeSchedule(c *Schedule, set bool, o *Outcome) {
	if f, limit, ok := ValidateSchedule(c); !ok {
		code := InvalidArgument
		if f == FieldBody {
			code = TooLarge
		}
		*o = refuse(code, f, limit)
		return
	}
	if c.Message.Retry.Kind != RetryDefault {
		c.Message.Retry.Normalize()
	}
	d := &scheduleDef{
		name: string(c.Name), queue: string(c.Queue), cron: string(c.Cron), zone: string(c.Zone), jitter: c.JitterMillis,
		policy: c.Policy, paused: c.Paused, autoCreate: c.AutoCreate, message: s.encodeTemplate(&c.Message),
		generation: s.scheduleGens + 1, created: s.now, changed: s.now,
	}
	slot, exists := s.findSchedule(c.Name)
	var old *scheduleDef
	if exists {
		old = s.scheduleDefs[slot]
		same := *old
		same.generation, same.created, same.changed = d.generation, d.created, d.changed
		switch {
		case same == *d:
			o.Duplicate = true
			return
		case !set:
			*o = refuse(AlreadyExists, FieldSchedule, 0)
			return
		}
	}
	if !d.autoCreate && s.findQueue(c.Queue) == nil {
		*o = refuse(NotFound, FieldQueue, 0)
		return
	}
	bytes := s.scheduleBytes + d.cost()
	if exists {
		bytes -= old.cost()
	}
	switch {
	case !exists && int64(len(s.scheduleNames)) >= s.lim.schedules:
		*o = refuse(Overloaded, FieldSchedules, s.lim.schedules)
		return
	case bytes > s.lim.scheduleBytes && (!exists || d.cost() > old.cost()):
		*o = refuse(Overloaded, FieldSchedules, s.lim.scheduleBytes)
		return
	}
	s.scheduleGens++
	if !exists {
		s.addSchedule(d, scheduleState{next: FireUnplanned, from: s.now})
		return
	}
	d.created = old.created
	s.scheduleBytes = bytes
	s.scheduleDefs[slot] = d
	if d.cron != old.cron || d.zone != old.zone || d.paused != old.paused {
		st := s.schedules.Mut(slot)
		st.next, st.from = FireUnplanned, s.now
	}
	s.timeSchedule(slot)
}

// encodeTemplate is a template as the log encodes it.
func (s *State) encodeTemplate(m *Message) string {
	if m.Retry.Kind == RetryDefault {
		m.Retry = RetryPolicy{}
	}
	s.meta = appendMessage(s.meta[:0], m)
	return string(s.meta)
}

// addSchedule enters a schedule that is known to be new.
func (s *State) addSchedule(d *scheduleDef, st scheduleState) {
	slot := s.schedules.Alloc()
	st.used, st.heapPos = true, none
	*s.schedules.Mut(slot) = st
	for int(slot) >= len(s.scheduleDefs) {
		s.scheduleDefs = append(s.scheduleDefs, nil)
	}
	s.scheduleDefs[slot] = d
	at, _ := s.scheduleAt([]byte(d.name))
	s.scheduleNames = slices.Insert(s.scheduleNames, at, slot)
	s.scheduleBytes += d.cost()
	s.timeSchedule(slot)
}

func (s *State) deleteSchedule(op *DeleteSchedule, o *Outcome) {
	at, ok := s.scheduleAt(op.Name)
	if !ok {
		*o = refuse(NotFound, FieldSchedule, 0)
		return
	}
	slot := s.scheduleNames[at]
	if pos := s.schedules.Get(slot).heapPos; pos != none {
		s.scheduleDue.Remove(pos)
	}
	s.scheduleBytes -= s.scheduleDefs[slot].cost()
	s.scheduleDefs[slot] = nil
	s.scheduleNames = slices.Delete(s.scheduleNames, at, at+1)
	if len(s.scheduleNames) == 0 {
		s.scheduleNames, s.scheduleDefs = nil, nil
	}
	s.schedules.Free(slot)
}

// dueAt is when the leader has something to do with a schedule: to plan it, or to fire it.
func (d *scheduleDef) dueAt(st *scheduleState) (at int64, ok bool) {
	switch {
	case d.paused || st.next == FireNever:
		return 0, false
	case st.next == FireUnplanned:
		return st.from, true
	}
	return st.next + ScheduleJitter([]byte(d.name), st.next, d.jitter), true
}

// ScheduleJitter is by how many ms the firing of a fire time is late: the same on every node, at most limit.
func ScheduleJitter(name []byte, at, limit int64) int64 {
	if limit <= 0 {
		return 0
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(at))
	h := hashParts(domainSchedule, name, b[:], 2)
	return int64(binary.BigEndian.Uint64(h[:]) % uint64(limit+1))
}

// timeSchedule puts a schedule where its due time says.
func (s *State) timeSchedule(slot int32) {
	st := s.schedules.Mut(slot)
	at, ok := s.scheduleDefs[slot].dueAt(st)
	switch {
	case ok && st.heapPos != none:
		s.scheduleDue.Fix(st.heapPos, at)
	case ok:
		s.scheduleDue.Push(at, slot)
	case st.heapPos != none:
		s.scheduleDue.Remove(st.heapPos)
		st.heapPos = none
	}
}

// fireSchedule makes one step of a schedule. A step that somebody has made before changes nothing.
func (s *State) fireSchedule(op *FireSchedule) Outcome {
	slot, ok := s.findSchedule(op.Name)
	if !ok {
		return refuse(NotFound, FieldSchedule, 0)
	}
	d := s.scheduleDefs[slot]
	now := s.schedules.Get(slot)
	due, waits := d.dueAt(now)
	switch {
	case d.generation != op.Generation || now.next != op.At || !waits || due > s.now:
		return refuse(FailedPrecondition, FieldSchedule, 0)
	case op.Next != FireNever && (op.Next <= op.At || op.Next > MaxTime),
		op.Fire && op.At == FireUnplanned, op.Skipped < 0 || op.Skipped > MaxTime:
		return refuse(InvalidArgument, FieldSchedule, 0)
	}
	var made Outcome
	if op.Fire {
		made = s.enqueueFired(d, op.At)
	}
	st := s.schedules.Mut(slot)
	st.next = op.Next
	st.skipped += op.Skipped
	switch {
	case !op.Fire:
	case made.Code == OK:
		st.fired++
		st.last, st.lastID = op.At, made.ID
	default:
		st.refused++
		st.failedAt, st.code, st.field = op.At, made.Code, made.Field
	}
	s.timeSchedule(slot)
	if made.Code != OK {
		return Outcome{} // the step was made
	}
	return Outcome{ID: made.ID}
}

// enqueueFired enqueues a schedule's message for a fire time. Its task id names schedule and time.
func (s *State) enqueueFired(d *scheduleDef, at int64) Outcome {
	q := s.findQueue([]byte(d.queue))
	if q == nil && !d.autoCreate {
		return refuse(NotFound, FieldQueue, 0)
	}
	m := &s.template
	s.templateDec.template([]byte(d.message), m)
	m.TaskID = AppendFiring(nil, d.name, at)
	m.Headers = append(m.Headers, Header{[]byte(HeaderSchedule), []byte(d.name)},
		Header{[]byte(HeaderScheduleAt), strconv.AppendInt(nil, at, 10)})
	o := s.checkMessage(m)
	if o.Code == OK && q != nil {
		o = checkOrder(&q.meta.options, m)
	}
	if o.Code != OK {
		if q != nil {
			s.countRefused(q, &o)
		}
		return o
	}
	if q == nil {
		if q, o = s.queueFor([]byte(d.queue), m); o.Code != OK {
			return o
		}
	}
	o = s.enqueue(q, m, false)
	m.letGo()
	return o
}

// AppendFiring appends the task id of what a schedule made for a fire time: name@Unix ms.
func AppendFiring(b []byte, schedule string, at int64) []byte {
	b = append(append(b, schedule...), '@')
	return strconv.AppendInt(b, at, 10)
}
