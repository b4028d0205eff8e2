package fsmtest

import (
	"bytes"
	"reflect"
	"sort"
	"strconv"

	"github.com/quorate/quorate/fsm"
)

// Numbers of the contract for schedules.
const (
	maxSchedules    = 10_000
	maxScheduleName = 96
	maxCron         = 256
	maxZone         = 64
	maxTime         = int64(1) << 53
)

// schedule is a recurring message and what became of its times.
type schedule struct {
	def                  fsm.Schedule
	generation           uint64
	createdAt, changedAt int64
	next                 int64 // the planned fire time, FireUnplanned or FireNever
	from                 int64 // while unplanned

	lastAt                  int64
	lastID                  fsm.ID
	fired, skipped, refused int64
	failedAt                int64
	code                    fsm.Code
	field                   fsm.Field
}

func (m *Model) scheduleByName(name string) *schedule {
	for _, s := range m.schedules {
		if string(s.def.Name) == name {
			return s
		}
	}
	return nil
}

// checkSchedule judges a schedule's own fields; FieldNone is fine.
func (m *Model) checkSchedule(s *fsm.Schedule) fsm.Field {
	x := &s.Message
	switch {
	case len(s.Name) > maxScheduleName, !validQueueName(string(s.Name)):
		return fsm.FieldSchedule
	case !validQueueName(string(s.Queue)):
		return fsm.FieldQueue
	case len(s.Cron) < 1, !validText(s.Cron, maxCron):
		return fsm.FieldCron
	case !validText(s.Zone, maxZone):
		return fsm.FieldZone
	case !within(s.JitterMillis, 0, day):
		return fsm.FieldJitter
	case s.Policy > fsm.MissedAll:
		return fsm.FieldPolicy
	case len(x.TaskID) > 0:
		return fsm.FieldTaskID
	case x.HasDedup:
		return fsm.FieldDedupKey
	case x.DelayMillis != 0, x.DueAt != 0:
		return fsm.FieldDelay
	case !x.Batch.IsZero():
		return fsm.FieldBatchID
	}
	if f := m.checkMessage(x); f != fsm.FieldNone {
		return f
	}
	if len(x.Headers) > 64-2 {
		return fsm.FieldHeaders
	}
	return fsm.FieldNone
}

// keepSchedule copies a declaration, with the defaults of what makes no difference.
func keepSchedule(s *fsm.Schedule) fsm.Schedule {
	c := *s
	for _, b := range []*[]byte{&c.Name, &c.Queue, &c.Cron, &c.Zone, &c.Message.Kind, &c.Message.ContentType, &c.Message.Body, &c.Message.Key} {
		*b = append([]byte{}, *b...)
	}
	c.Message.TaskID = nil
	c.Message.Headers = append([]fsm.Header{}, keepHeaders(s.Message.Headers)...)
	c.Message.Keys = [][]byte{}
	for _, k := range s.Message.Keys {
		c.Message.Keys = append(c.Message.Keys, bytes.Clone(k))
	}
	c.Message.Retry = retryWithDefaults(s.Message.Retry)
	c.Message.Retry.Steps = append([]int64{}, c.Message.Retry.Steps...)
	return c
}

func (m *Model) createSchedule(op *fsm.CreateSchedule) fsm.Outcome {
	if f := m.checkSchedule(&op.Schedule); f != fsm.FieldNone {
		return refuse(fsm.InvalidArgument, f)
	}
	def := keepSchedule(&op.Schedule)
	if s := m.scheduleByName(string(def.Name)); s != nil {
		if reflect.DeepEqual(s.def, def) {
			m.sometimes("schedule: created again")
			return fsm.Outcome{Duplicate: true}
		}
		return refuse(fsm.AlreadyExists, fsm.FieldSchedule)
	}
	if m.noQueue(&def) {
		return refuse(fsm.NotFound, fsm.FieldQueue)
	}
	return m.newSchedule(def)
}

// noQueue says that the queue of a schedule is missing and would not be made.
func (m *Model) noQueue(s *fsm.Schedule) bool {
	return !s.AutoCreate && m.queue(string(s.Queue)) == nil
}

func (m *Model) newSchedule(def fsm.Schedule) fsm.Outcome {
	if len(m.schedules) >= maxSchedules {
		return fsm.Outcome{Code: fsm.Overloaded, Field: fsm.FieldSchedules, Limit: maxSchedules}
	}
	m.generations++
	m.schedules = append(m.schedules, &schedule{def: def, generation: m.generations, createdAt: m.t, changedAt: m.t, from: m.t})
	return fsm.Outcome{}
}

// setSchedule replaces a schedule. What is planned stays, unless its time would be another one, or nothing was planned for
// as long as it was paused.
func (m *Model) setSchedule(op *fsm.SetSchedule) fsm.Outcome {
	if f := m.checkSchedule(&op.Schedule); f != fsm.FieldNone {
		return refuse(fsm.InvalidArgument, f)
	}
	def := keepSchedule(&op.Schedule)
	s := m.scheduleByName(string(def.Name))
	switch {
	case (s == nil || !reflect.DeepEqual(s.def, def)) && m.noQueue(&def):
		return refuse(fsm.NotFound, fsm.FieldQueue)
	case s == nil:
		m.sometimes("schedule: set makes it")
		return m.newSchedule(def)
	case reflect.DeepEqual(s.def, def):
		m.sometimes("schedule: set to what it is")
		return fsm.Outcome{Duplicate: true}
	}
	if !bytes.Equal(s.def.Cron, def.Cron) || !bytes.Equal(s.def.Zone, def.Zone) || s.def.Paused != def.Paused {
		m.sometimes("schedule: set plans anew")
		s.next, s.from = fsm.FireUnplanned, m.t
	} else {
		m.sometimes("schedule: set keeps the plan")
	}
	m.generations++
	s.def, s.generation, s.changedAt = def, m.generations, m.t
	return fsm.Outcome{}
}

func (m *Model) deleteSchedule(op *fsm.DeleteSchedule) fsm.Outcome {
	s := m.scheduleByName(string(op.Name))
	if s == nil {
		return refuse(fsm.NotFound, fsm.FieldSchedule)
	}
	m.schedules = remove(m.schedules, s)
	return fsm.Outcome{}
}

// fireSchedule moves a schedule from one fire time to the next, once.
func (m *Model) fireSchedule(op *fsm.FireSchedule) fsm.Outcome {
	s := m.scheduleByName(string(op.Name))
	if s == nil {
		return refuse(fsm.NotFound, fsm.FieldSchedule)
	}
	early := m.t < s.dueAt()
	if s.generation != op.Generation || s.next != op.At || s.next == fsm.FireNever || s.def.Paused || early {
		switch {
		case s.generation != op.Generation:
			m.sometimes("schedule: a step of an older generation")
		case s.next != op.At:
			m.sometimes("schedule: a step made twice, or of another time")
		case s.next == fsm.FireNever:
			m.sometimes("schedule: a step of one that has no further times")
		case early:
			m.sometimes("schedule: a step before its time")
		default:
			m.sometimes("schedule: a step of a paused one")
		}
		return refuse(fsm.FailedPrecondition, fsm.FieldSchedule)
	}
	if op.Next != fsm.FireNever && op.Next <= op.At || op.Next > maxTime || !within(op.Skipped, 0, maxTime) ||
		op.At == fsm.FireUnplanned && op.Fire {
		return refuse(fsm.InvalidArgument, fsm.FieldSchedule)
	}
	s.next = op.Next
	s.skipped += op.Skipped
	if !op.Fire {
		m.sometimes("schedule: a step without a message")
		return fsm.Outcome{}
	}
	x := s.def.Message
	x.TaskID = []byte(string(s.def.Name) + "@" + strconv.FormatInt(op.At, 10))
	x.Headers = append(append([]fsm.Header(nil), x.Headers...),
		fsm.Header{Name: []byte(fsm.HeaderSchedule), Value: s.def.Name},
		fsm.Header{Name: []byte(fsm.HeaderScheduleAt), Value: []byte(strconv.FormatInt(op.At, 10))})
	o := m.enqueue(string(s.def.Queue), s.def.AutoCreate, &x)
	if o.Code != fsm.OK {
		m.sometimes("schedule: a message is refused")
		s.refused++
		s.failedAt, s.code, s.field = op.At, o.Code, o.Field
		return fsm.Outcome{} // the step was made
	}
	m.sometimes("schedule: fires")
	s.fired++
	s.lastAt, s.lastID = op.At, o.ID
	return o
}

// dueAt is when the leader is to plan a schedule, or to fire it; 0: nothing is to come.
func (s *schedule) dueAt() int64 {
	switch {
	case s.def.Paused, s.next == fsm.FireNever:
		return 0
	case s.next == fsm.FireUnplanned:
		return s.from
	}
	return s.next + fsm.ScheduleJitter(s.def.Name, s.next, s.def.JitterMillis)
}

func (s *schedule) info() fsm.ScheduleInfo {
	return fsm.ScheduleInfo{
		Name: string(s.def.Name), Queue: string(s.def.Queue), Cron: string(s.def.Cron), Zone: string(s.def.Zone),
		Generation: s.generation, JitterMillis: s.def.JitterMillis, Policy: s.def.Policy, Paused: s.def.Paused, AutoCreate: s.def.AutoCreate,
		CreatedAt: s.createdAt, ChangedAt: s.changedAt, Message: s.def.Message,
		Next: s.next, From: s.from, DueAt: s.dueAt(), LastAt: s.lastAt, LastID: s.lastID,
		Fired: s.fired, Skipped: s.skipped, Refused: s.refused, FailedAt: s.failedAt, Code: s.code, Field: s.field,
	}
}

// Schedules lists all of them by name.
func (m *Model) Schedules() (list []fsm.ScheduleInfo) {
	for _, s := range m.schedules {
		list = append(list, s.info())
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}
