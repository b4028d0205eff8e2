// Command run is the programme of chaos runs: real nodes, a schedule of faults, clients whose every answer is judged, and a page about it.
//
//	go run ./bench/chaos/run                                    a run of each kind, 90 s each; report.html and report.json in bin/chaos
//	go run ./bench/chaos/run -kinds kill,disk -for 5m -seed 7   two kinds, longer; CHAOS_SCALE=N makes all N times as long
//	go run ./bench/chaos/run -kinds mixed -nodes 5 -for 15m -ledger runs.jsonl
//	go run ./bench/chaos/run -schedule bin/chaos/kill-7/schedule.json
//
// It ends with 1 where a run has broken a promise, met what no fault explains, or met nothing of what it is about. Of such a run the
// history, the nodes' logs and their data are kept; of others the schedule alone (-keep: all).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/quorate/quorate/bench/chaos/forgetfs"
	"github.com/quorate/quorate/bench/chaos/nemesis"
)

// options are what was asked for.
type options struct {
	kinds, schedule, out, ledger, binary, commit string
	length                                       time.Duration
	nodes, busy                                  int
	seed                                         uint64
	keep, race                                   bool
}

func main() {
	// The network of a run is in a namespace of this process's own.
	if status, done := nemesis.Enclose(); done {
		os.Exit(status)
	}
	var o options
	flag.StringVar(&o.kinds, "kinds", "", "kinds of runs, with commas: "+strings.Join(nemesis.Kinds, ", ")+" (default: all but "+nemesis.Mixed+" that can be run here)")
	flag.StringVar(&o.schedule, "schedule", "", "run the schedule in this file, and nothing else")
	flag.DurationVar(&o.length, "for", 90*time.Second, "how long the clients of each run work; the environment's CHAOS_SCALE multiplies it")
	flag.IntVar(&o.nodes, "nodes", 3, "how many nodes, 3 to 9")
	flag.IntVar(&o.busy, "busy", 1, "how many times as many clients work as in TestHistory")
	flag.Uint64Var(&o.seed, "seed", 0, "seed of the first run, the next has the next; 0 draws one")
	flag.StringVar(&o.out, "out", "bin/chaos", "folder of the report, and of what is kept")
	flag.StringVar(&o.ledger, "ledger", "", "append a line of JSON for each run to this file")
	flag.StringVar(&o.binary, "binary", "", "the nodes' binary, of a chaos build (default: it is built)")
	flag.StringVar(&o.commit, "commit", "", "what the report calls the nodes' commit (default: git's word)")
	flag.BoolVar(&o.keep, "keep", false, "keep the history, logs and data of good runs too")
	flag.BoolVar(&o.race, "race", false, "build the nodes with the race detector")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "chaos: unexpected %q: all is said with flags (-help)\n", flag.Args())
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, &o)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "chaos: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options) error {
	scheds, err := o.schedules()
	if err != nil {
		return err
	}
	if err := forgetfs.CleanUp(); err != nil {
		return fmt.Errorf("take away disks that were left mounted: %w", err)
	}
	if o.out, err = filepath.Abs(o.out); err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	if o.binary == "" {
		o.binary = filepath.Join(o.out, "quorate-chaos")
		if err := nemesis.Build(ctx, o.binary, o.race); err != nil {
			return err
		}
	}
	if o.commit == "" {
		b, _ := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output() // empty without git
		o.commit = strings.TrimSpace(string(b))
	}
	var results []*nemesis.Result
	var errs []error
	for _, s := range scheds {
		r, err := o.one(ctx, s)
		if err != nil {
			errs = append(errs, fmt.Errorf("run %s, seed %d: %w", s.Kind, s.Seed, err))
			break
		}
		results = append(results, r)
		errs = append(errs, r.Err())
		if err := o.report(results); err != nil { // after each, so that a programme that is ended early leaves one
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// schedules are the runs that were asked for.
func (o *options) schedules() ([]*nemesis.Schedule, error) {
	if o.schedule != "" {
		s, err := nemesis.ReadSchedule(o.schedule)
		return []*nemesis.Schedule{s}, err
	}
	scale := 1.0
	if v := os.Getenv("CHAOS_SCALE"); v != "" {
		var err error
		if scale, err = strconv.ParseFloat(v, 64); err != nil || scale <= 0 {
			return nil, fmt.Errorf("CHAOS_SCALE is %q, want a number above 0", v)
		}
	}
	for o.seed == 0 {
		o.seed = rand.Uint64N(1 << 40) // short enough to be typed
	}
	means := nemesis.MeansHere()
	asked := strings.FieldsFunc(o.kinds, func(r rune) bool { return r == ',' || r == ' ' })
	kinds := asked
	if len(asked) == 0 {
		for _, k := range nemesis.Kinds {
			if k != nemesis.Mixed {
				kinds = append(kinds, k)
			}
		}
	}
	var scheds []*nemesis.Schedule
	for i, k := range kinds {
		s, err := nemesis.Draw(o.seed+uint64(i), k, o.nodes, time.Duration(float64(o.length)*scale), means)
		switch {
		case errors.Is(err, nemesis.ErrMeans) && len(asked) == 0:
			fmt.Printf("left out: %v\n", err)
			continue
		case err != nil:
			return nil, err
		}
		scheds = append(scheds, s)
	}
	return scheds, nil
}

// one carries out one run, and tells of it as it goes.
func (o *options) one(ctx context.Context, s *nemesis.Schedule) (*nemesis.Result, error) {
	dir := filepath.Join(o.out, fmt.Sprintf("%s-%d", s.Kind, s.Seed))
	if err := os.RemoveAll(dir); err != nil { // an earlier run of the same
		return nil, err
	}
	fmt.Printf("\n%s: %d nodes, %s, %d faults, seed %d\n", s.Kind, s.Nodes, s.For, len(s.Faults), s.Seed)
	r, err := nemesis.Run(ctx, nemesis.Config{
		Schedule: s, Binary: o.binary, Dir: dir, Busy: o.busy, Log: func(format string, args ...any) { fmt.Printf(format+"\n", args...) },
	})
	if err != nil {
		return nil, fmt.Errorf("%w (what there is of it is in %s)", err, dir)
	}
	r.Commit = o.commit
	fmt.Printf("%s: %d operations, %d faults, %d elections, %d snapshot installs, median %.0f ms, p99 %.0f ms; %d violations, %d problems (%.0f s)\n",
		s.Kind, r.Operations, r.Struck(), r.Elections, r.Installs, r.Latency.Median, r.Latency.P99, r.Broken, len(r.Problems), r.Seconds)
	for _, v := range r.Violations {
		fmt.Printf("  %s %s: %s\n", v.Guarantee, v.Mode, v.What)
	}
	for _, p := range r.Problems {
		fmt.Printf("  problem: %s\n", p)
	}
	for _, v := range r.Vacuous {
		fmt.Printf("  never: %s\n", v)
	}
	if r.Err() == nil && !o.keep {
		if err := tidy(dir); err != nil {
			return nil, err
		}
		r.Dir = ""
	}
	if o.ledger != "" {
		return r, nemesis.AppendLedger(o.ledger, r)
	}
	return r, nil
}

// tidy leaves the schedule of a run alone.
func tidy(dir string) error {
	all, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range all {
		if f.Name() != nemesis.ScheduleFile {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, f.Name())))
		}
	}
	return err
}

// report writes the page and the JSON.
func (o *options) report(rs []*nemesis.Result) error {
	file := filepath.Join(o.out, "report.html")
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := errors.Join(nemesis.Page(f, rs), f.Close(), nemesis.Write(filepath.Join(o.out, "report.json"), rs)); err != nil {
		return err
	}
	fmt.Printf("report: %s\n", file)
	return nil
}
