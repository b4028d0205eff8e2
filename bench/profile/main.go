package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quorate/quorate/bench/load"
)

// options are what the command is told.
type options struct {
	binary   string
	out      string
	page     string
	workload string
	size     int
	cpu      time.Duration
	commit   string
}

func main() {
	os.Exit(run())
}

func run() int {
	var o options
	flag.StringVar(&o.binary, "binary", "bin/quorate-profile", "a quorate binary built with -tags profile")
	flag.StringVar(&o.out, "out", "bin/profile", "the files go into a folder below this one, named for the workload")
	flag.StringVar(&o.page, "page", "bench/PROFILE.md", "the page that has the tables; empty: standard output alone")
	flag.StringVar(&o.workload, "w", load.W3, "workload, W1 to W5")
	flag.IntVar(&o.size, "size", load.DefaultSize, "bytes of a body")
	flag.DurationVar(&o.cpu, "for", 10*time.Second, "how long the CPU is sampled, 2s to 5m")
	flag.StringVar(&o.commit, "commit", "unknown", "what was built, for the page")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := profile(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "profile: %v\n", err)
		return 1
	}
	return 0
}

const (
	warmUp = 4 * time.Second
	// traced is how long the execution trace is, blocked how long the block and mutex profiles.
	traced  = time.Second
	blocked = 3 * time.Second
	// blockNanos and mutexPart are the rates of those two.
	blockNanos, mutexPart = 10_000, 10
)

func profile(ctx context.Context, o options) (err error) {
	o.workload = strings.ToUpper(o.workload)
	switch {
	case len(o.workload) != 2 || o.workload < load.W1 || o.workload > load.W5:
		return fmt.Errorf("workload %q: want one of W1 to W5", o.workload)
	case o.cpu < 2*time.Second || o.cpu > 5*time.Minute:
		return fmt.Errorf("-for is %s, want 2s to 5m", o.cpu)
	}
	dir := filepath.Join(o.out, o.workload)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	self, err := load.StartSelf(ctx, o.binary, 3, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, self.Close()) }()
	leader, err := self.Cluster().Leader(ctx)
	if err != nil {
		return err
	}
	var nodes []*node
	for _, n := range self.Cluster().Nodes {
		role := "follower"
		if n == leader {
			role = "leader"
		}
		nodes = append(nodes, &node{Node: n, role: role, out: dir})
	}
	cfg := load.Config{Workload: o.workload, Size: o.size, WarmUp: warmUp}
	self.Configure(&cfg)

	cfg.For = o.cpu + 2*time.Second
	var before, after [3]metrics
	res, err := during(ctx, cfg, func(ctx context.Context) error {
		return each(nodes, func(i int, n *node) (err error) {
			if before[i], err = n.metrics(ctx); err != nil {
				return err
			}
			seconds := int(o.cpu / time.Second)
			err = errors.Join(
				inParallel(
					func() error {
						return n.fetch(ctx, o.cpu, fmt.Sprintf("/debug/pprof/profile?seconds=%d", seconds), "cpu")
					},
					func() error {
						return n.fetch(ctx, o.cpu, fmt.Sprintf("/debug/pprof/allocs?seconds=%d", seconds), "allocs")
					},
				))
			if err != nil {
				return err
			}
			after[i], err = n.metrics(ctx)
			return err
		})
	})
	if err != nil {
		return err
	}
	cfg.For = blocked + traced + 2*time.Second
	if _, err := during(ctx, cfg, func(ctx context.Context) error {
		err := each(nodes, func(_ int, n *node) error {
			return n.fetch(ctx, traced, fmt.Sprintf("/debug/pprof/trace?seconds=%d", int(traced/time.Second)), "trace")
		})
		if err != nil {
			return err
		}
		return each(nodes, func(_ int, n *node) error {
			if err := n.rates(ctx, blockNanos, mutexPart); err != nil {
				return err
			}
			seconds := int(blocked / time.Second)
			err := inParallel(
				func() error {
					return n.fetch(ctx, blocked, fmt.Sprintf("/debug/pprof/block?seconds=%d", seconds), "block")
				},
				func() error {
					return n.fetch(ctx, blocked, fmt.Sprintf("/debug/pprof/mutex?seconds=%d", seconds), "mutex")
				},
			)
			return errors.Join(err, n.rates(ctx, 0, 0))
		})
	}); err != nil {
		return err
	}
	tallies := make([]tally, len(nodes))
	for i, n := range nodes {
		if tallies[i], err = tallyOf(ctx, o.binary, n.file("cpu")); err != nil {
			return err
		}
	}
	text := report(o, res, nodes, tallies, before[:], after[:])
	fmt.Println(text)
	if o.page == "" {
		return nil
	}
	return writePage(o.page, o.workload, text)
}

// during runs a workload and, while it is measured, f.
func during(ctx context.Context, cfg load.Config, f func(context.Context) error) (*load.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	measuring := make(chan struct{})
	var once sync.Once
	cfg.Progress = func(phase string, _ int64) {
		if phase == "measure" {
			once.Do(func() { close(measuring) })
		}
	}
	var asked sync.WaitGroup
	asked.Go(func() {
		select {
		case <-measuring:
			if err := f(ctx); err != nil {
				cancel(err)
			}
		case <-ctx.Done():
		}
	})
	res, err := load.Run(ctx, cfg)
	if err != nil {
		cancel(err)
	}
	select {
	case <-measuring:
	default:
		cancel(fmt.Errorf("%s was over before it was measured", cfg.Workload))
	}
	asked.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if !res.OK() {
		return nil, fmt.Errorf("not every message was confirmed and received exactly once:\n%s", res)
	}
	return res, nil
}

// each calls f for every node, at once.
func each(nodes []*node, f func(i int, n *node) error) error {
	var all []func() error
	for i, n := range nodes {
		all = append(all, func() error { return f(i, n) })
	}
	return inParallel(all...)
}

func inParallel(fs ...func() error) error {
	errs := make([]error, len(fs))
	var wg sync.WaitGroup
	for i, f := range fs {
		wg.Go(func() { errs[i] = f() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
