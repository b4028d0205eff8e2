// Command run carries out many seeds of the simulation and says what they came to.
//
//	go run ./bench/sim/run                                  20 seeds of a fake minute in wasm, and 40 natively with -race
//	go run ./bench/sim/run -wasm 200 -native 500 -for 10m   the full programme
//	go run ./bench/sim/run -seed 7 -wasm 1 -native 0 -tell  one seed, with its story
//	go run ./bench/sim/run -plan FILE                       one plan, such as those in testdata/seeds
//
// A seed that goes wrong is run again in wasm if it was a native one, made smaller, and written to -keep as a plan; from then on the
// tests run it for ever. The exit code is 1 then, and when a counter that has to move has not.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/bench/sim"
	"github.com/quorate/quorate/bench/sim/wasm"
	"github.com/quorate/quorate/fsm/mutant"
)

var (
	wasmRuns   = flag.Int("wasm", 20, "seeds to run in wasm")
	nativeRuns = flag.Int("native", 40, "seeds to run natively, with the race detector")
	length     = flag.Duration("for", time.Minute, "fake time of a run in wasm while faults go on")
	nativeFor  = flag.Duration("native-for", time.Minute, "the same of a native run")
	firstSeed  = flag.Uint64("seed", 0, "the first seed; 0: by the clock")
	jobs       = flag.Int("jobs", 2, "runs at a time")
	within     = flag.Duration("within", 0, "end after about that, with what was done by then; 0: when all is done")
	shrink     = flag.Duration("shrink", 5*time.Minute, "how long a plan that goes wrong is made smaller")
	keep       = flag.String("keep", "bench/sim/testdata/seeds", "where plans that go wrong are written")
	ledger     = flag.String("ledger", "", "a file that gets the line of the sum too")
	planFile   = flag.String("plan", "", "run this plan, in wasm")
	tell       = flag.Bool("tell", false, "tell the story of every run in wasm")
	vacuous    = flag.Bool("vacuous", false, "do not mind counters that have not moved")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		stop()
		os.Exit(1)
	}
}

// sum is what all runs came to.
type sum struct {
	mu        sync.Mutex
	wasm      int
	native    int
	fake      time.Duration
	elections int
	faults    int
	kinds     map[string]int
	ops       int
	entries   int
	sometimes map[string]int
	wrong     []sim.Plan
	results   []*sim.Result // of wrong
}

func (s *sum) add(p sim.Plan, r *sim.Result, native bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if native {
		s.native++
	} else {
		s.wasm++
	}
	s.fake += time.Duration(r.FakeMillis) * time.Millisecond
	s.elections += r.Elections
	s.ops += r.Operations
	s.entries += r.Entries
	for what, n := range r.Faults {
		s.kinds[what] += n
		s.faults += n
	}
	for what, n := range r.Sometimes {
		s.sometimes[what] += n
	}
	if r.Broken > 0 {
		s.wrong, s.results = append(s.wrong, p), append(s.results, r)
	}
}

// line is the sum as a ledger has it.
func (s *sum) line(took time.Duration) string {
	return fmt.Sprintf("%s  commit %s  seeds %d wasm + %d native  fake %.2f h  elections %d  faults %d  operations %d  entries %d  wrong %d  in %v",
		time.Now().UTC().Format("2006-01-02 15:04"), commit(), s.wasm, s.native, s.fake.Hours(), s.elections, s.faults, s.ops, s.entries, len(s.wrong),
		took.Round(time.Second))
}

// wasmShare is how much of -within the runs in wasm have at most.
const wasmShare = 0.7

func run(ctx context.Context) error {
	began := time.Now()
	work := ctx
	if *within > 0 {
		var cancel context.CancelFunc
		work, cancel = context.WithTimeout(ctx, *within)
		defer cancel()
	}
	seed := *firstSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixMilli())
	}
	bin := ""
	if *nativeRuns > 0 && *planFile == "" {
		dir, err := os.MkdirTemp("", "quorate-sim-run-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }() // a temporary folder that stays does no harm
		if bin, err = buildNative(ctx, dir); err != nil {
			return err
		}
	}
	m, err := wasm.Load(ctx, "")
	if err != nil {
		return err
	}
	defer func() { _ = m.Close(context.WithoutCancel(ctx)) }() // the process ends next
	if *planFile != "" {
		b, err := os.ReadFile(*planFile)
		if err != nil {
			return err
		}
		p, err := sim.ParsePlan(b)
		if err != nil {
			return fmt.Errorf("%s: %w", *planFile, err)
		}
		r, err := m.Run(ctx, p, *tell)
		if err != nil {
			return err
		}
		show(r)
		if r.Broken > 0 {
			return fmt.Errorf("%d wrong", r.Broken)
		}
		return nil
	}
	s := &sum{kinds: map[string]int{}, sometimes: map[string]int{}}
	first := work
	if *within > 0 && *nativeRuns > 0 { // what is left of it is for the native runs
		var cancel context.CancelFunc
		first, cancel = context.WithDeadline(work, began.Add(time.Duration(float64(*within)*wasmShare)))
		defer cancel()
	}
	if err := inWasm(first, m, seed, s); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if err := natively(work, bin, seed+uint64(*wasmRuns), s); err != nil && work.Err() == nil {
		return err
	}
	for what, n := range s.sometimes {
		fmt.Printf("  %7d × %s\n", n, what)
	}
	fmt.Printf("  faults %v\n", s.kinds)
	line := s.line(time.Since(began))
	fmt.Println(line)
	if *ledger != "" {
		if err := appendLine(*ledger, line); err != nil {
			return err
		}
	}
	for i, p := range s.wrong {
		if err := minimise(ctx, m, p, s.results[i]); err != nil {
			return err
		}
	}
	var never []string
	for _, what := range sim.Required {
		if s.sometimes[what] == 0 {
			never = append(never, what)
		}
	}
	switch {
	case len(s.wrong) > 0:
		return fmt.Errorf("%d of %d runs went wrong", len(s.wrong), s.wasm+s.native)
	case len(never) > 0 && !*vacuous:
		return fmt.Errorf("the runs show nothing of: %s (more seeds do, or -vacuous)", strings.Join(never, "; "))
	}
	return nil
}

// inWasm runs seeds side by side.
func inWasm(ctx context.Context, m *wasm.Module, from uint64, s *sum) error {
	next := make(chan uint64)
	go func() {
		defer close(next)
		for i := range *wasmRuns {
			select {
			case next <- from + uint64(i):
			case <-ctx.Done():
				return
			}
		}
	}()
	var wg sync.WaitGroup
	errs := make([]error, *jobs)
	for j := range *jobs {
		wg.Go(func() {
			for seed := range next {
				began := time.Now()
				p := sim.Draw(seed, *length)
				r, err := m.Run(ctx, p, *tell)
				if err != nil {
					errs[j] = err
					return
				}
				s.add(p, r, false)
				fmt.Printf("seed %d  %s  %d operations  %d elections  %d faults  trace %.12s  wrong %d\n",
					seed, wasm.Took(r, time.Since(began)), r.Operations, r.Elections, len(p.Faults), r.Trace, r.Broken)
				if *tell {
					show(r)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// chunk is how many seeds one process of the test runs.
const chunk = 10

// natively runs seeds in processes of the test side by side, with the race detector.
func natively(ctx context.Context, bin string, from uint64, s *sum) error {
	next := make(chan uint64)
	go func() {
		defer close(next)
		for i := 0; i < *nativeRuns; i += chunk {
			select {
			case next <- uint64(i):
			case <-ctx.Done():
				return
			}
		}
	}()
	var wg sync.WaitGroup
	errs := make([]error, *jobs)
	for j := range *jobs {
		wg.Go(func() {
			for at := range next {
				end := min(at+chunk, uint64(*nativeRuns))
				for at < end && errs[j] == nil && ctx.Err() == nil {
					at, errs[j] = oneProcess(ctx, bin, from, at, end, s)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// oneProcess runs the seeds from+start to from+end-1 in one process, and says with which another one has to go on: a panic or a deadlock ends a
// process without the result of its seed. A race takes the result of its seed, and the process goes on.
func oneProcess(ctx context.Context, bin string, from, start, end uint64, s *sum) (at uint64, err error) {
	at = start
	cmd := exec.CommandContext(ctx, bin, "-test.run=^TestSeeds$", "-test.timeout=0", "-sim.results",
		fmt.Sprintf("-sim.seed=%d", from+at), fmt.Sprintf("-sim.seeds=%d", end-at), fmt.Sprintf("-sim.for=%v", *nativeFor))
	var rest tail
	cmd.Stderr = &rest
	out, err := cmd.StdoutPipe()
	if err != nil {
		return at, err
	}
	if err := cmd.Start(); err != nil {
		return at, err
	}
	lines := bufio.NewReader(out)
	var lost []uint64 // without a result
	for {
		line, err := lines.ReadString('\n')
		if text, ok := strings.CutPrefix(line, sim.ResultLine); ok {
			r := new(sim.Result)
			if err := json.Unmarshal([]byte(text), r); err != nil {
				return at, errors.Join(fmt.Errorf("result of a native run: %w", err), cmd.Process.Kill(), cmd.Wait())
			}
			s.add(sim.Draw(r.Seed, *nativeFor), r, true)
			for ; from+at < r.Seed; at++ {
				lost = append(lost, at)
			}
			at++
		} else {
			_, _ = rest.Write([]byte(line)) // it takes all
		}
		if err != nil {
			break
		}
	}
	if err := cmd.Wait(); err == nil {
		return end, nil
	}
	wrong := "a native run ended without a result: by a data race, a panic or a deadlock"
	switch {
	case ctx.Err() != nil: // it was ended
		at = end
	case at < end:
		lost = append(lost, at)
		at++
	}
	if len(lost) == 0 {
		if !rest.raced() {
			return at, nil // the results say what was wrong, if anything was
		}
		lost, wrong = []uint64{end - 1}, fmt.Sprintf("a data race in one of %d native runs", end-start)
	}
	fmt.Print(rest.String())
	for _, i := range lost {
		s.add(sim.Draw(from+i, *nativeFor), &sim.Result{Seed: from + i, Broken: 1, Wrong: []string{wrong}}, true)
	}
	return at, nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

// tailMost is how much of a native run's output is shown where it has no result.
const tailMost = 256 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.b = append(t.b, p...); len(t.b) > 2*tailMost {
		t.b = slices.Clone(t.b[len(t.b)-tailMost:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}

func (t *tail) raced() bool { return strings.Contains(t.String(), "WARNING: DATA RACE") }

// buildNative builds the test with the race detector.
func buildNative(ctx context.Context, dir string) (bin string, err error) {
	bin = filepath.Join(dir, "sim.test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-race", "-tags", mutant.Tag(), "-o", bin, "github.com/quorate/quorate/bench/sim")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the native simulation: %w\n%s", err, out)
	}
	return bin, nil
}

// minimise finds a small plan that goes wrong like one that did, and keeps it.
func minimise(ctx context.Context, m *wasm.Module, p sim.Plan, r *sim.Result) error {
	fmt.Printf("\nseed %d at commit %s went wrong:\n", p.Seed, commit())
	show(r)
	again, err := m.Run(ctx, p, *tell) // as it was run before: what is told makes another run of it
	if err != nil {
		return err
	}
	if again.Broken == 0 {
		fmt.Printf("seed %d does not go wrong in wasm, so it cannot be made smaller: run it natively with -sim.seed=%d\n", p.Seed, p.Seed)
		return nil
	}
	sctx, cancel := context.WithTimeout(ctx, *shrink)
	defer cancel()
	small, runs := wasm.Shrink(sctx, p, again, func(ctx context.Context, q sim.Plan) (*sim.Result, error) { return m.Run(ctx, q, *tell) })
	b, err := json.MarshalIndent(small, "", " ")
	if err != nil {
		return err
	}
	file := filepath.Join(*keep, fmt.Sprintf("%d.json", p.Seed))
	if err := os.MkdirAll(*keep, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Printf("of %d faults %d are left after %d runs; the plan is in %s:\n", len(p.Faults), len(small.Faults), runs, file)
	for _, f := range small.Faults {
		fmt.Printf("  at %d ms for %d ms: %s, node %d, %d\n", f.At, f.For, f.What, f.Node, f.Arg)
	}
	return nil
}

func show(r *sim.Result) {
	for _, line := range r.Story {
		fmt.Println(line)
	}
	fmt.Print(r.Report)
	for _, what := range slices.Sorted(maps.Keys(r.Sometimes)) {
		fmt.Printf("  %6d × %s\n", r.Sometimes[what], what)
	}
	for _, what := range r.Wrong {
		fmt.Println("WRONG:", what)
	}
}

// commit is what the working directory has checked out.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func appendLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	return errors.Join(err, f.Close())
}
