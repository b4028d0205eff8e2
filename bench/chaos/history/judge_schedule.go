package history

import (
	"fmt"
	"strconv"
	"strings"
)

// schedule is a schedule by the contract's rules, as the log moves it.
type schedule struct {
	name       string
	queue      string
	generation uint64
	declared   Schedule
	message    Effect
	period     int64 // ms between two times, of which each is a multiple of it
	from       int64 // T from which the first time is to be found, while none is planned
	next       int64 // the time planned; 0: none
	term       uint64
}

// Limits of what a leader may make up for, by the contract, and how much later than it decided an entry may be stamped.
const (
	missedAfter = 60_000 // ms
	madeUp      = 100    // times, by the policy all
	countedAt   = 10_000 // times that are passed over, at once
	stampGrace  = 10_000 // ms
)

// cronPeriod is the time in ms between the times of the only expressions that this checker judges: every n-th second, n a divisor of 60.
func cronPeriod(s *Schedule) (int64, error) {
	text, ok := strings.CutPrefix(s.Cron, "*/")
	text, rest := strings.CutSuffix(text, " * * * * *")
	n, err := strconv.ParseInt(text, 10, 64)
	if !ok || !rest || err != nil || n < 1 || 60%n != 0 || s.Zone != "" || s.Jitter != 0 {
		return 0, fmt.Errorf("expression %q in zone %q with a jitter of %d ms, want */n * * * * * with a divisor of 60, no zone and no jitter", s.Cron, s.Zone, s.Jitter)
	}
	return 1000 * n, nil
}

// after is the first time behind another.
func (s *schedule) after(t int64) int64 { return (t/s.period + 1) * s.period }

// plan judges a schedule that is made or changed.
func (j *judge) plan(e *Effect) {
	if j.repeated(e) {
		return
	}
	if e.Code == "" && e.Session != "" {
		j.plans[request{e.Session, e.Number}] = e
	}
	s := j.schedules[e.Name]
	same := s != nil && s.queue == e.Queue && s.declared == *e.Declared && s.message.Body == e.Body && s.message.Priority == e.Priority && s.message.Key == e.Key
	switch {
	case s != nil && !same && e.Note == "made":
		j.verdict("G14", nil, e, "already_exists", "there is another schedule "+e.Name)
		return
	case !j.verdict("G14", nil, e, "", "a schedule can be declared"):
		return
	case same != e.Duplicate:
		j.blame("G14", nil, e, "schedule %s is declared as it was: %v, by the answer: %v", e.Name, same, e.Duplicate)
	}
	if same {
		return
	}
	period, err := cronPeriod(e.Declared)
	if err != nil {
		j.blame("judge", nil, e, "a schedule that this checker does not judge: %v", err)
		return
	}
	j.overdue(s)
	n := &schedule{name: e.Name, queue: e.Queue, generation: e.Generation, declared: *e.Declared, message: *e, period: period, from: j.time}
	if s != nil && s.declared.Cron == n.declared.Cron && !s.declared.Paused && !n.declared.Paused { // it goes on
		n.next, n.from, n.term = s.next, s.from, s.term
	}
	j.schedules[e.Name] = n
	j.r.count("schedule declared")
}

// unplan judges the end of a schedule.
func (j *judge) unplan(e *Effect) {
	if j.repeated(e) {
		return
	}
	s := j.schedules[e.Name]
	if s == nil {
		j.verdict("G14", nil, e, "not_found", "there is no schedule "+e.Name)
		return
	}
	if j.verdict("G14", nil, e, "", "the schedule is there") {
		j.overdue(s)
		delete(j.schedules, e.Name)
		j.r.count("schedule deleted")
	}
}

// overdue demands that a schedule is not behind, once faults have ended (G7).
func (j *judge) overdue(s *schedule) {
	if s == nil || j.heal == 0 || j.index <= j.heal || s.declared.Paused {
		return
	}
	since := s.next
	if since == 0 {
		since = s.from
	}
	if late := j.time - max(since, j.timeAt(j.heal)); late > j.within {
		j.blame("G7", nil, &s.message, "schedule %s has been due at T %d, and it is %d ms later in entry %d", s.name, since, late, j.index)
	}
}

// step judges a step of a schedule, from the time planned to the next, with its message or without: each time once, none before it has come,
// none passed over but as the policy for missed ones has it.
func (j *judge) step(e *Effect) {
	s := j.schedules[e.Name]
	if s == nil || s.declared.Paused || e.Generation != s.generation || e.At != s.next {
		if e.Code == "" {
			j.blame("G6", nil, e, "schedule %s makes a step from T %d, where it does not stand", e.Name, e.At)
		}
		j.r.count("step of a schedule made twice, or too late, refused")
		if e.Code != "" || s == nil {
			return
		}
	} else if !j.verdict("G7", nil, e, "", "the schedule stands there") {
		return
	}
	j.overdue(s)
	late := j.time - e.At
	switch first := s.after(s.from); {
	case s.next != 0 && late < 0:
		j.blame("G13", nil, e, "schedule %s makes a step from T %d at T %d", s.name, e.At, j.time)
	case s.next == 0 && (e.Next != first && e.Next != first-s.period || e.Next < s.from || e.Fired || e.Count != 0):
		j.blame("G7", nil, e, "the first time of schedule %s is T %d, want %d", s.name, e.Next, first)
	case s.next != 0 && (e.Next <= e.At || e.Next%s.period != 0):
		j.blame("G7", nil, e, "the time of schedule %s behind T %d is %d, want %d", s.name, e.At, e.Next, s.after(e.At))
	case s.next != 0:
		j.passed(s, e, late)
	}
	s.next = e.Next
	if e.Fired {
		j.fireSchedule(s, e)
	}
}

// passed judges the times that a step leaves behind without a message, and whether the one that it fires is not too old.
func (j *judge) passed(s *schedule, e *Effect, late int64) {
	n := (e.Next - e.At) / s.period
	if e.Fired {
		n--
	}
	if want := min(n, countedAt); e.Count != want {
		j.blame("G7", nil, e, "a step of schedule %s from T %d to %d passes over %d times by its own count, want %d", s.name, e.At, e.Next, e.Count, want)
	}
	kept := map[string]int64{"skip": 0, "once": 1, "all": madeUp}[s.declared.Missed] * s.period // how far back what is missed is made up for
	if last := j.time - (e.Next - s.period); n > 0 && last < missedAfter+kept {
		j.blame("G7", nil, e, "schedule %s passes over T %d at T %d, %d ms late, by its policy %s", s.name, e.Next-s.period, j.time, last, s.declared.Missed)
	}
	if n > 0 {
		j.r.count("times of a schedule passed over by its policy")
	}
	if e.Fired && late > missedAfter {
		j.r.count("time of a schedule made up for")
		if late > missedAfter+kept+stampGrace {
			j.blame("G7", nil, e, "schedule %s fires for T %d at T %d, %d ms late, by its policy %s", s.name, e.At, j.time, late, s.declared.Missed)
		}
	}
}

// fireSchedule enters the message of a time.
func (j *judge) fireSchedule(s *schedule, e *Effect) {
	firing := fmt.Sprintf("%s@%d", s.name, e.At)
	if before := j.firings[firing]; before != "" {
		j.blame("G6", nil, e, "the time T %d of schedule %s is fired again; message %s was its first", e.At, s.name, before)
	}
	if e.Message == "" {
		if q := j.queues[s.queue]; q != nil {
			j.blame("G1", nil, e, "schedule %s fires for T %d, and nothing is enqueued", s.name, e.At)
		}
		return
	}
	q := j.queues[s.queue]
	if q == nil {
		if !s.message.Auto {
			j.blame("G14", nil, e, "schedule %s fires into a queue that is not there", s.name)
			return
		}
		q = j.addQueue(s.queue, defaults())
	}
	as := s.message
	as.Op, as.Index, as.Message, as.Session, as.Number = Fire, e.Index, e.Message, "", 0
	if m := j.create(q, &as); m != nil {
		j.firings[firing] = m.id
		j.r.count("schedule fired")
		if s.term != 0 && s.term != j.term {
			j.r.count("schedule fired in another term than before")
		}
		s.term = j.term
	}
}
