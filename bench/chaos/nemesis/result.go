package nemesis

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/bench/chaos/history"
)

// Result is what came of a run.
type Result struct {
	Schedule *Schedule `json:"schedule"`
	Commit   string    `json:"commit,omitempty"` // of the nodes; whoever runs it knows
	Date     string    `json:"date"`             // UTC, when it began
	Dir      string    `json:"dir,omitempty"`    // where history, taps, logs and data are, if they were kept
	Seconds  float64   `json:"seconds"`          // in all
	Worked   float64   `json:"worked"`           // seconds that clients worked, faults, quiet tail and all

	Operations int `json:"operations"` // calls of clients that have ended
	Entries    int `json:"entries"`    // of the log
	Terms      int `json:"terms"`      // in which entries were applied
	Elections  int `json:"elections"`
	Snapshots  int `json:"snapshots"` // made
	Installs   int `json:"installs"`  // snapshots that a leader sent and a node took

	Faults   []*Strike `json:"faults"`   // by when they began; skipped ones too
	Problems []string  `json:"problems"` // that the engine met and no fault explains

	Broken     int                        `json:"violations"`    // all of the checker's, and of Porcupine's
	Violations []Violation                `json:"violated"`      // the first of them
	Modes      map[string]*history.Counts `json:"modes"`         // by ordering mode
	Sometimes  map[string]int             `json:"sometimes"`     // what the run has met
	Vacuous    []string                   `json:"vacuous"`       // what it should have met and did not
	Opinion    Opinion                    `json:"porcupine"`     //
	JudgedIn   float64                    `json:"judged_in_sec"` //

	Timeline []Point   `json:"timeline"`
	Silences []Silence `json:"silences"`
	Latency  Latency   `json:"latency"`
}

// Violation is a broken promise.
type Violation struct {
	Guarantee string   `json:"guarantee"`
	Mode      string   `json:"mode,omitempty"`
	What      string   `json:"what"`
	Events    []string `json:"events,omitempty"`
}

// Opinion counts what Porcupine judged.
type Opinion struct {
	Messages  int `json:"messages"`
	Left      int `json:"left"`
	Undecided int `json:"undecided"`
	Illegal   int `json:"illegal"`
}

// Struck is how many faults were carried out.
func (r *Result) Struck() (n int) {
	for _, s := range r.Faults {
		if s.Skipped == "" {
			n++
		}
	}
	return n
}

// Err is nil for a run that broke nothing, went as it should, and has met what it is about.
func (r *Result) Err() error {
	var errs []error
	if r.Broken > 0 {
		errs = append(errs, fmt.Errorf("%d violations", r.Broken))
	}
	if n := len(r.Problems); n > 0 {
		errs = append(errs, fmt.Errorf("%d problems, the first: %s", n, firstLine(r.Problems[0])))
	}
	if len(r.Vacuous) > 0 {
		errs = append(errs, fmt.Errorf("it has shown nothing of: %s", strings.Join(r.Vacuous, "; ")))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("run %s, seed %d: %w", r.Schedule.Kind, r.Schedule.Seed, errors.Join(errs...))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// result has the run judged and counts.
func (e *engine) result(ctx context.Context, last history.States, began time.Time) (*Result, error) {
	r := &Result{
		Schedule: e.sched, Date: began.UTC().Format(time.RFC3339), Dir: e.cfg.Dir, Problems: append([]string{}, e.problems...), Faults: append([]*Strike{}, e.done...), Vacuous: []string{}, Violations: []Violation{},
		Modes: map[string]*history.Counts{}, Sometimes: map[string]int{},
	}
	slices.SortFunc(r.Faults, func(a, b *Strike) int { return cmp.Or(cmp.Compare(a.Began, b.Began), cmp.Compare(a.Number, b.Number)) })
	for text, n := range map[string]*int{
		`msg="election won"`: &r.Elections, `msg="Installed remote snapshot"`: &r.Installs, `msg="snapshot complete up to"`: &r.Snapshots,
	} {
		var err error
		if *n, err = e.logged(text); err != nil {
			return nil, err
		}
	}
	// Kills of leaders are what some runs are about, and others have none: required says which.
	v, err := history.Judge(e.cfg.Dir, last, history.Config{Also: e.work.Required(), Without: []string{"leader killed"}})
	switch {
	case errors.Is(err, history.ErrDiffer):
		r.Broken++
		r.Violations = append(r.Violations, Violation{Guarantee: "G15", What: err.Error()})
	case err != nil:
		return nil, fmt.Errorf("judge the run: %w", err)
	default:
		r.judged(v)
		r.measured(v.History.Events, e)
	}
	r.count()
	r.Seconds = time.Since(began).Seconds()
	return r, ctx.Err()
}

// judged takes over what the checker and Porcupine say.
func (r *Result) judged(v *history.Verdict) {
	r.Operations, r.Entries, r.Terms, r.JudgedIn = v.Report.Operations, v.Entries, v.Terms, v.Took.Seconds()
	r.Broken = v.Report.Broken() + len(v.Opinion.Illegal)
	maps.Copy(r.Sometimes, v.Report.Sometimes)
	r.Vacuous = append(r.Vacuous, v.Report.Vacuous...)
	r.Opinion = Opinion{v.Opinion.Messages, v.Opinion.Left, v.Opinion.Undecided, len(v.Opinion.Illegal)}
	for _, mode := range slices.Sorted(maps.Keys(v.Report.Modes)) {
		m := v.Report.Modes[mode]
		r.Modes[mode] = &m.Counts
		for _, x := range m.Violations {
			r.Violations = append(r.Violations, Violation{x.Guarantee, mode, x.What, x.Events})
		}
	}
	for _, x := range v.Opinion.Illegal {
		r.Violations = append(r.Violations, Violation{x.Guarantee, "Porcupine", x.What, x.Events})
	}
}

// measured takes over how well clients were served.
func (r *Result) measured(es []history.Event, e *engine) {
	from := e.began.Microseconds()
	to := e.ended.Microseconds()
	r.Worked = (e.ended - e.began).Seconds()
	m := measure(es, from, to)
	r.Timeline, r.Silences, r.Latency = m.points, m.silences, m.latency
	for _, s := range r.Faults {
		if s.Skipped == "" {
			m.served(s, from)
		}
	}
}

// demanding is from how many faults on a run must have met what its kind is about.
const demanding = 8

// count counts what the engine itself has met, and looks for what should be among it.
func (r *Result) count() {
	r.Sometimes["leader elected"] = r.Elections
	r.Sometimes["leader elected again"] = max(r.Elections-1, 0)
	r.Sometimes["snapshot installed"] = r.Installs
	planned := map[string]int{}
	for _, f := range r.Schedule.Faults {
		planned["fault "+f.Kind]++
	}
	for _, s := range r.Faults {
		if s.Skipped == "" {
			r.Sometimes["fault "+s.Kind]++
		}
		if s.Note == wipedRefused {
			r.Sometimes["wiped node refused"]++
		}
	}
	var need []string
	for _, what := range slices.Sorted(maps.Keys(planned)) {
		if planned[what] > 1 || len(r.Schedule.Faults) >= demanding { // a single one may meet another in its way
			need = append(need, what)
		}
	}
	if r.Sometimes["fault wiped"] > 0 {
		need = append(need, "wiped node refused")
	}
	if len(r.Schedule.Faults) >= demanding {
		switch r.Schedule.Kind {
		case "kill":
			need = append(need, "leader elected again", "snapshot installed", "leader killed")
		case "member", "disk", Mixed:
			need = append(need, "leader elected again", "snapshot installed")
		case "pause", "partition":
			need = append(need, "leader elected again")
		}
	}
	for _, what := range need {
		if r.Sometimes[what] == 0 && !slices.Contains(r.Vacuous, what) {
			r.Vacuous = append(r.Vacuous, what)
		}
	}
}

// Write writes results as JSON.
func Write(file string, rs []*Result) error {
	b, err := json.MarshalIndent(rs, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o600)
}

// line is what a ledger keeps of a run.
type line struct {
	Date       string  `json:"date"`
	Commit     string  `json:"commit"`
	Seed       uint64  `json:"seed"`
	Kind       string  `json:"kind"`
	Nodes      int     `json:"nodes"`
	Minutes    float64 `json:"minutes"` // that clients worked
	Operations int     `json:"operations"`
	Faults     int     `json:"faults"`
	Elections  int     `json:"elections"`
	Installs   int     `json:"installs"`
	Violations int     `json:"violations"`
	Problems   int     `json:"problems"`
}

// AppendLedger adds a line of JSON to a ledger, which is made where there is none.
func AppendLedger(file string, r *Result) error {
	b, err := json.Marshal(line{
		r.Date, r.Commit, r.Schedule.Seed, r.Schedule.Kind, r.Schedule.Nodes, float64(int(r.Worked/0.6)) / 100, r.Operations, r.Struck(),
		r.Elections, r.Installs, r.Broken, len(r.Problems),
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	return errors.Join(err, f.Close())
}
