package group

import (
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/cluster/calendar"
	"github.com/quorate/quorate/fsm"
)

// Firing of schedules. The state holds one planned fire time a schedule; the leader computes what follows it and proposes
// the step, by the ordinary way. A step names the time that it starts from, so that of two leaders with the same thought,
// or one that did not learn how its proposal ended, one succeeds: nothing here has to be exact but the state.
const (
	// missedAfter is for how long a fire time can be late without counting as missed: longer than an election, a restart
	// or a transfer takes.
	missedAfter = time.Minute

	missedKept   = 100 // fire times that MissedAll makes up for
	fireAtOnce   = 256 // schedules that one round looks at
	stepsAtOnce  = 100 // steps of one schedule in one round
	fireDeadline = 5 * time.Second
	zonesKept    = 1000
)

// timetable is what the leader remembers of expressions, which only cost time to read again. One goroutine.
type timetable struct {
	zones     map[string]*time.Location
	calendars map[uint64]*calendar.Calendar // by generation; nil: cannot be read here
}

func (t *timetable) forget() {
	t.zones, t.calendars = map[string]*time.Location{}, map[uint64]*calendar.Calendar{}
}

// of is a schedule's calendar, nil if this node cannot read it; err is set the first time.
func (t *timetable) of(in *fsm.ScheduleInfo) (c *calendar.Calendar, err error) {
	if c, ok := t.calendars[in.Generation]; ok {
		return c, nil
	}
	zone, ok := t.zones[in.Zone]
	if !ok {
		if zone, err = calendar.Zone(in.Zone); err == nil {
			if len(t.zones) >= zonesKept {
				clear(t.zones)
			}
			t.zones[in.Zone] = zone
		}
	}
	if err == nil {
		c, err = calendar.Parse(in.Cron, zone)
	}
	if len(t.calendars) >= fsm.MaxSchedules {
		clear(t.calendars)
	}
	t.calendars[in.Generation] = c
	return c, err
}

// keepSchedules plans and fires schedules while this node leads. One goroutine; keepTime wakes it when one is due.
func (g *Group) keepSchedules() {
	var t timetable
	t.forget()
	for {
		select {
		case <-g.scheduleWake:
		case <-g.stopTimer:
			return
		}
		for g.fireDue(&t) {
		}
	}
}

// wakeSchedules has keepSchedules look now.
func (g *Group) wakeSchedules() {
	select {
	case g.scheduleWake <- struct{}{}:
	default:
	}
}

// scheduleDue says how long the next schedule can wait, and wakes keepSchedules for one that cannot. The state lock is held.
func (g *Group) scheduleDue() (wait time.Duration, ok bool) {
	at, ok := g.st.NextSchedule()
	if !ok {
		return 0, false
	}
	if g.dueArmed == 0 || at < g.dueArmed {
		g.dueArmed = at
	}
	if wait = g.time.until(at); wait == 0 {
		g.wakeSchedules()
		return 0, false // one that cannot be read stays due: keepTime's beat is often enough
	}
	return wait, true
}

// fireDue makes one round over what is due and waits until it has ended; true: another may be worth while at once.
func (g *Group) fireDue(t *timetable) bool {
	var due []fsm.ScheduleInfo
	g.mu.Lock()
	serving := g.serving
	now, _ := g.time.now()
	if serving {
		g.st.DueSchedules(now, func(in *fsm.ScheduleInfo) bool {
			if c, known := t.calendars[in.Generation]; !known || c != nil {
				due = append(due, *in)
			}
			return len(due) < fireAtOnce
		})
	}
	g.mu.Unlock()
	if !serving {
		t.forget()
		return false
	}
	ends := &firings{done: make(chan struct{})}
	var ps []*Proposal
	deadline := g.clock.Mono() + fireDeadline
	for i := range due {
		cal, err := t.of(&due[i])
		if err != nil {
			g.log.Error("schedule cannot be read by this node and does not fire", "schedule", due[i].Name, "err", err)
		}
		if cal == nil {
			continue
		}
		for _, step := range steps(cal, &due[i], now) {
			ps = append(ps, &Proposal{Op: fsm.AppendOp(nil, &step), Deadline: deadline, Done: ends})
		}
	}
	if len(ps) == 0 {
		return false
	}
	ends.left.Store(int64(len(ps)))
	g.Propose(ps...)
	select {
	case <-ends.done:
	case <-g.stopTimer:
		return false
	}
	return ends.failed.Load() == 0
}

// firings waits for the proposals of a round.
type firings struct {
	left, failed atomic.Int64
	done         chan struct{}
}

func (f *firings) Complete(_ *Proposal, _ *fsm.State, _ Stamp, out []fsm.Outcome, _ []fsm.Leased, err *Error) {
	if err != nil || out[0].Code != fsm.OK {
		f.failed.Add(1)
	}
	if f.left.Add(-1) == 0 {
		close(f.done)
	}
}

// steps is what the leader has to say about a schedule at T now: to plan it, to pass over what was missed, as its policy
// says, and to fire what is due, each step going on from where the one before it ends.
func steps(cal *calendar.Calendar, in *fsm.ScheduleInfo, now int64) (ops []fsm.FireSchedule) {
	at := in.Next
	step := func(next, skipped int64, more, fire bool) {
		if !more {
			next = fsm.FireNever
		}
		ops = append(ops, fsm.FireSchedule{
			Name: []byte(in.Name), Generation: in.Generation, At: at, Next: next, Fire: fire, Skipped: skipped,
		})
		at = next
	}
	if at == fsm.FireUnplanned {
		next, ok := cal.Next(in.From)
		step(next, 0, ok, false)
	}
	keep := 0
	switch in.Policy {
	case fsm.MissedOnce:
		keep = 1
	case fsm.MissedAll:
		keep = missedKept
	}
	missed := now - missedAfter.Milliseconds() - in.JitterMillis
	for at != fsm.FireNever && len(ops) < stepsAtOnce {
		if at <= missed {
			if to, passed, ok := cal.Skip(at, missed, keep); passed > 0 {
				step(to, passed, ok, false)
				continue
			}
		}
		if at+fsm.ScheduleJitter([]byte(in.Name), at, in.JitterMillis) > now {
			break
		}
		next, ok := cal.Next(at)
		step(next, 0, ok, true)
	}
	return ops
}
