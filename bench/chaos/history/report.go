package history

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// shownViolations is how many violations of a mode are kept with their events; all are counted.
const shownViolations = 20

// Violation is one broken promise.
type Violation struct {
	Guarantee string   // G1 … G15, or "judge" where the history holds what this checker does not know
	What      string   // in words
	Events    []string // that show it, as they stand in the history
}

// Counts is the accounting of one ordering mode.
type Counts struct {
	Enqueued   int // messages in the log
	Confirmed  int // enqueues answered with success, duplicates not counted
	Refused    int
	Unknown    int
	Absent     int // unknown, and nothing in the log
	Lost       int // confirmed, and gone
	Unexpected int // delivered or made, though nobody sent it, or with other bytes
	Duplicated int // messages delivered more than once
	Recovered  int // unknown, and found in the log
	Dropped    int // delivered at most once, and never seen: allowed
	Delivered  int
	Done       int
	Dead       int
	Redriven   int // died, and came back as another message
	Deleted    int // died, and were deleted
	Cancelled  int
	Purged     int // while they waited, or with their queue
}

// ModeReport is what became of one ordering mode.
type ModeReport struct {
	Counts
	Violations []Violation // the first of them
	Broken     int         // all of them
	By         map[string]int
}

// Report is what Check found.
type Report struct {
	Modes      map[string]*ModeReport // by mode; "" for what belongs to none
	Sometimes  map[string]int
	Vacuous    []string // required counters that are zero
	Events     int
	Effects    int
	Operations int   // calls that have ended
	Kills      int   // of nodes that led
	WaitMillis int64 // the longest in T that a queue handed nothing out though it could, after the faults had ended
	Silence    int64 // µs; the longest time in which nothing succeeded, by the clients' clock
}

// required are the counters that a run must have moved, or it has shown nothing.
var required = []string{
	"ack repeated", "attempts exhausted", "delayed message came due", "duplicate answered", "late ack accepted",
	"lease expired", "lease extended", "leader killed", "message enqueued by an ack", "redelivered after expiry", "redelivered after nack",
	"redelivered after release, at the same attempt", "request answered again", "second result refused",
	"stale token refused", "unknown found absent", "unknown found applied",
}

// Counters that a run must have moved whose queues are about more than their order, for Config.Also.
var (
	RequiredOnce    = []string{"handed over, at most once"}
	RequiredRated   = []string{"rate used up"}
	RequiredLetters = []string{"dead letter deleted", "dead letter requeued"}
	RequiredBatches = []string{"batch called back"}
	// Of queues whose tasks are moved while they wait.
	RequiredMoves = []string{"body replaced", "moved from being ready", "moved from being scheduled", "move of what is out refused"}
	// Of queues that are purged and deleted.
	RequiredEmptied = []string{"waiting messages purged", "out at a purge", "queue deleted"}
	// Of queues whose keys have rates.
	RequiredKeyRates = []string{"rate of a key used up"}
	// Of queues with a dead-letter queue.
	RequiredBuried = []string{"dead letter moved", "moved dead letter closed", "moved dead letter requeued to where it died"}
	// Of dead letters that are edited, and of those that leave something in the KV.
	RequiredEdits = []string{"dead letter edited"}
	RequiredKeys  = []string{"undelivered body kept under a key", "key of the KV read"}
	// Of schedules.
	RequiredSchedules = []string{"schedule fired", "schedule fired in another term than before", "schedule deleted"}
)

func newReport() *Report {
	return &Report{Modes: map[string]*ModeReport{}, Sometimes: map[string]int{}}
}

func (r *Report) mode(name string) *ModeReport {
	m := r.Modes[name]
	if m == nil {
		m = &ModeReport{By: map[string]int{}}
		r.Modes[name] = m
	}
	return m
}

func (r *Report) count(what string) { r.Sometimes[what]++ }

// blame notes a violation, with the events or effects that show it.
func (r *Report) blame(guarantee, mode, what string, shown ...any) {
	m := r.mode(mode)
	m.Broken++
	m.By[guarantee]++
	if len(m.Violations) >= shownViolations {
		return
	}
	v := Violation{Guarantee: guarantee, What: what}
	for _, s := range shown {
		b, err := json.Marshal(s)
		if err != nil {
			b = []byte(err.Error())
		}
		v.Events = append(v.Events, string(b))
	}
	m.Violations = append(m.Violations, v)
}

// Broken is how many violations there are in all.
func (r *Report) Broken() (n int) {
	for _, m := range r.Modes {
		n += m.Broken
	}
	return n
}

// Breaks says whether a guarantee was broken, in any mode.
func (r *Report) Breaks(guarantee string) bool {
	for _, m := range r.Modes {
		if m.By[guarantee] > 0 {
			return true
		}
	}
	return false
}

// Err is nil for a run that broke nothing and was not vacuous.
func (r *Report) Err() error {
	if n := r.Broken(); n > 0 {
		return fmt.Errorf("%d violations", n)
	}
	if len(r.Vacuous) > 0 {
		return fmt.Errorf("the run shows nothing of: %s", strings.Join(r.Vacuous, "; "))
	}
	return nil
}

// WriteTo prints the report.
func (r *Report) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%d operations, %d events, %d effects of the log, %d kills of the leader\n"+
		"nothing succeeded for %d ms at most; after the faults a queue handed out what was ready within %d ms\n",
		r.Operations, r.Events, r.Effects, r.Kills, r.Silence/1000, r.WaitMillis)
	for _, name := range slices.Sorted(maps.Keys(r.Modes)) {
		m := r.Modes[name]
		if name == "" {
			name = "(no mode)"
		}
		fmt.Fprintf(&b, "%-10s enqueued %d (confirmed %d, refused %d, unknown %d of which absent %d), delivered %d; done %d, dead %d, redriven %d, deleted %d, cancelled %d, purged %d\n",
			name, m.Enqueued, m.Confirmed, m.Refused, m.Unknown, m.Absent, m.Delivered, m.Done, m.Dead, m.Redriven, m.Deleted, m.Cancelled, m.Purged)
		fmt.Fprintf(&b, "           lost %d, unexpected %d, duplicated %d, recovered %d, dropped on the way %d; violations %d",
			m.Lost, m.Unexpected, m.Duplicated, m.Recovered, m.Dropped, m.Broken)
		for _, g := range slices.Sorted(maps.Keys(m.By)) {
			fmt.Fprintf(&b, ", %s %d", g, m.By[g])
		}
		b.WriteString("\n")
		for i := range m.Violations {
			v := &m.Violations[i]
			fmt.Fprintf(&b, "  %s: %s\n", v.Guarantee, v.What)
			for _, e := range v.Events {
				fmt.Fprintf(&b, "      %s\n", e)
			}
		}
		if more := m.Broken - len(m.Violations); more > 0 {
			fmt.Fprintf(&b, "  … and %d more\n", more)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(r.Sometimes)) {
		fmt.Fprintf(&b, "  %6d × %s\n", r.Sometimes[what], what)
	}
	for _, what := range r.Vacuous {
		fmt.Fprintf(&b, "  NEVER: %s\n", what)
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}
