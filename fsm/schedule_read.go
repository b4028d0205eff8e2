package fsm

import (
	"sort"
)

// ScheduleInfo is all that is known of a schedule. Texts belong to the state and are never changed: they may be kept.
type ScheduleInfo struct {
	Name, Queue, Cron, Zone string
	Generation              uint64
	JitterMillis            int64
	Policy                  MissedPolicy
	Paused, AutoCreate      bool
	CreatedAt, ChangedAt    int64 // T
	Message                 Message

	Next     int64 // the fire time planned, FireUnplanned or FireNever
	From     int64 // while unplanned: T from which it is to be computed
	DueAt    int64 // Next and its jitter; 0 where nothing is to come
	LastAt   int64 // fire time of the last message, 0: none
	LastID   ID
	Fired    int64
	Skipped  int64
	Refused  int64
	FailedAt int64 // fire time of the last refused one; Code and Field say why
	Code     Code
	Field    Field
}

func (s *State) scheduleInfo(slot int32, message bool) ScheduleInfo {
	d, st := s.scheduleDefs[slot], s.schedules.Get(slot)
	in := ScheduleInfo{
		Name: d.name, Queue: d.queue, Cron: d.cron, Zone: d.zone, Generation: d.generation, JitterMillis: d.jitter,
		Policy: d.policy, Paused: d.paused, AutoCreate: d.autoCreate, CreatedAt: d.created, ChangedAt: d.changed,
		Next: st.next, From: st.from, LastAt: st.last, LastID: st.lastID, Fired: st.fired, Skipped: st.skipped,
		Refused: st.refused, FailedAt: st.failedAt, Code: st.code, Field: st.field,
	}
	in.DueAt, _ = d.dueAt(st)
	if message {
		var dec Decoder
		dec.template([]byte(d.message), &in.Message)
	}
	return in
}

// Schedule is one schedule with its message, of which the caller may keep everything.
func (s *State) Schedule(name []byte) (in ScheduleInfo, ok bool) {
	slot, ok := s.findSchedule(name)
	if !ok {
		return in, false
	}
	return s.scheduleInfo(slot, true), true
}

// Schedules calls f for each schedule in the order of names, without messages, starting behind after, until it returns
// false.
func (s *State) Schedules(after string, f func(in *ScheduleInfo) bool) {
	at := sort.Search(len(s.scheduleNames), func(i int) bool { return s.scheduleDefs[s.scheduleNames[i]].name > after })
	for _, slot := range s.scheduleNames[at:] {
		if in := s.scheduleInfo(slot, false); !f(&in) {
			return
		}
	}
}

// NextSchedule is the earliest T at which the leader has a schedule to plan or to fire.
func (s *State) NextSchedule() (at int64, ok bool) {
	at, _, ok = s.scheduleDue.Min()
	return at, ok
}

// DueSchedules calls f for schedules that the leader is to plan or to fire at T now, without messages, in no order, until
// it returns false.
func (s *State) DueSchedules(now int64, f func(in *ScheduleInfo) bool) {
	for i := range int32(s.scheduleDue.Len()) {
		if at, slot := s.scheduleDue.At(i); at <= now {
			if in := s.scheduleInfo(slot, false); !f(&in) {
				return
			}
		}
	}
}

// ScheduleTotals are counters over all schedules there are, for metrics.
type ScheduleTotals struct{ Count, Bytes, Fired, Skipped, Refused int64 }

// ScheduleTotals walks the schedules.
func (s *State) ScheduleTotals() (t ScheduleTotals) {
	t.Count, t.Bytes = int64(len(s.scheduleNames)), s.scheduleBytes
	for _, slot := range s.scheduleNames {
		st := s.schedules.Get(slot)
		t.Fired += st.fired
		t.Skipped += st.skipped
		t.Refused += st.refused
	}
	return t
}

// schedules checks the table of schedules.
func (c *checker) schedules() {
	s := c.s
	var bytes int64
	timed := 0
	for i, slot := range s.scheduleNames {
		if !s.schedules.Live(slot) || s.scheduleDefs[slot] == nil {
			c.bad("schedule slot %d is named and free", slot)
			continue
		}
		d, st := s.scheduleDefs[slot], s.schedules.Get(slot)
		bytes += d.cost()
		if i > 0 && s.scheduleDefs[s.scheduleNames[i-1]].name >= d.name {
			c.bad("schedule %q is out of order", d.name)
		}
		if d.generation == 0 || d.generation > s.scheduleGens {
			c.bad("schedule %q has generation %d of %d", d.name, d.generation, s.scheduleGens)
		}
		at, ok := d.dueAt(st)
		if ok != (st.heapPos != none) {
			c.bad("schedule %q is due %t and timed %t", d.name, ok, st.heapPos != none)
			continue
		}
		if ok {
			timed++
			if key, sl := s.scheduleDue.At(st.heapPos); key != at || sl != slot {
				c.bad("schedule %q is due at %d and timed for %d", d.name, at, key)
			}
		}
	}
	if n := len(s.scheduleNames); n != s.schedules.Len() || timed != s.scheduleDue.Len() || bytes != s.scheduleBytes || int64(n) > s.lim.schedules {
		c.bad("%d schedules named of %d, %d timed of %d, %d bytes counted, a scan finds %d", n, s.schedules.Len(), timed,
			s.scheduleDue.Len(), s.scheduleBytes, bytes)
	}
}
