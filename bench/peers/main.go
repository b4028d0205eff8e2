package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/quorate/quorate/bench/load"
)

// options are the command line.
type options struct {
	systems   []system
	byName    bool // systems were named: one that is missing is an error
	workloads []string
	size      int
	duration  time.Duration
	warmUp    time.Duration
	repeat    int
	within    time.Duration // 0: as long as it takes
	rate      float64
	preload   int
	queued    int
	queuedFor int // repeats of W7
	data, out string
	readme    string
	args      []string
}

// Workloads beside those of bench/load: the gap when the leader is killed, a long queue, and what W4 and W5 are to be held
// against: raft, the log store and the transport without a broker.
const (
	w6      = "W6"
	w7      = "W7"
	w4Floor = "W4-FLOOR"
	w5Floor = "W5-FLOOR"
)

var allWorkloads = []string{load.W1, load.W2, load.W3, load.W4, w4Floor, load.W5, w5Floor, w6, w7}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func parse(args []string) (*options, error) {
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	o := &options{args: args}
	names := f.String("systems", "all", "which to measure, separated by commas: quorate, jetstream, jetstream-lazy, rabbitmq, redis")
	ws := f.String("workloads", strings.Join(allWorkloads, ","), "which workloads, separated by commas")
	f.IntVar(&o.size, "size", load.DefaultSize, "bytes of a message")
	f.DurationVar(&o.duration, "for", load.DefaultFor, "measured time of W1, W3, W4 and W5, and the longest of W2")
	f.DurationVar(&o.warmUp, "warm-up", load.DefaultWarmUp, "time before it that does not count; 0: none")
	f.IntVar(&o.repeat, "repeat", 5, "how often each workload is measured; medians are reported")
	f.DurationVar(&o.within, "within", 0, "begin no repeat that would end later than this; 0: all of them")
	f.Float64Var(&o.rate, "rate", load.DefaultRate, "W4: messages a second")
	f.IntVar(&o.preload, "preload", 800_000, "W2: messages to drain, warm-up included")
	f.IntVar(&o.queued, "queued", 1_000_000, "W7: messages queued")
	f.IntVar(&o.queuedFor, "queued-repeat", 1, "W7: how often it is measured")
	f.StringVar(&o.data, "data", "", "where the servers' temporary folder is made; it must be on a disk (default: the system's place, or here)")
	f.StringVar(&o.out, "out", ".", "folder for RESULTS.md, results.json and results.svg; empty: none are written")
	f.StringVar(&o.readme, "readme", "", "a Markdown file whose part between "+quoteBegin+" and "+quoteEnd+" is replaced by a short table")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q is no flag, and nothing else is expected", f.Arg(0))
	}
	if o.readme != "" && o.out == "" {
		return nil, errors.New("--readme shows the chart, which --out is to be a folder for")
	}
	var err error
	if o.systems, err = pick(*names); err != nil {
		return nil, err
	}
	o.byName = *names != "all"
	for _, w := range strings.Split(strings.ToUpper(*ws), ",") {
		if !slices.Contains(allWorkloads, w) {
			return nil, fmt.Errorf("there is no workload %q, want some of %s", w, strings.Join(allWorkloads, ","))
		}
		o.workloads = append(o.workloads, w)
	}
	for _, r := range []struct {
		name      string
		v         float64
		low, high float64
	}{
		{"size", float64(o.size), load.MinSize, 1 << 19}, // every peer's own default limit is above it
		{"for (seconds)", o.duration.Seconds(), 0.1, 3600},
		{"warm-up (seconds)", o.warmUp.Seconds(), 0, 600},
		{"repeat", float64(o.repeat), 1, 100},
		{"within (seconds)", o.within.Seconds(), 0, 7 * 24 * 3600},
		{"rate", o.rate, 1, 1_000_000},
		{"preload", float64(o.preload), 1, 10_000_000},
		{"queued", float64(o.queued), 1, 20_000_000},
		{"queued-repeat", float64(o.queuedFor), 1, 100},
	} {
		if !(r.v >= r.low && r.v <= r.high) { // NaN is out too
			return nil, fmt.Errorf("%s is %g; %g to %g are allowed", r.name, r.v, r.low, r.high)
		}
	}
	return o, nil
}

func run(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	e := &env{}
	if e.root, err = findRoot(ctx); err != nil {
		return err
	}
	if e.data, err = dataFolder(o.data); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(e.data)) }()
	rep := newReport(ctx, e, o)
	systems, err := rep.find(e, o, os.Stderr)
	if err != nil {
		return err
	}
	b := &bench{o: o, e: e, within: usualBounds, report: rep, log: os.Stderr}
	cut, err := b.all(ctx, systems)
	if err != nil {
		return err
	}
	rep.finish()
	fmt.Println(rep.markdown())
	if o.out != "" {
		if err := rep.write(o.out); err != nil {
			return err
		}
	}
	if o.readme != "" {
		if err := rep.quote(o.readme, o.out); err != nil {
			return err
		}
	}
	if cut != nil && ctx.Err() != nil {
		return cut
	}
	if n := rep.faults(); n > 0 {
		return fmt.Errorf("%d of %d measurements have faults: their figures are not to be trusted", n, len(rep.Measurements))
	}
	return nil
}

// dataFolder makes the folder that all servers write below. In memory a sync costs nothing: such a place is refused.
func dataFolder(parent string) (string, error) {
	if parent == "" && inMemory(os.TempDir()) {
		parent = "."
	}
	dir, err := os.MkdirTemp(parent, "quorate-peers-")
	if err != nil {
		return "", fmt.Errorf("folder for the servers: %w", err)
	}
	if dir, err = filepath.Abs(dir); err == nil && inMemory(dir) {
		err = fmt.Errorf("%s is in memory, where nothing can be made durable; name a folder on a disk with --data", dir)
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}

func inMemory(dir string) bool {
	const tmpfsMagic, ramfsMagic = 0x01021994, 0x858458f6 // statfs(2)
	var st syscall.Statfs_t
	err := syscall.Statfs(dir, &st)
	return err == nil && (st.Type == tmpfsMagic || st.Type == ramfsMagic)
}
