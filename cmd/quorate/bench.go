package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/bench/load"
	"github.com/quorate/quorate/bench/proc"
)

func newBench(c *cli) *cobra.Command {
	var cfg load.Config
	var self, repeat int
	var data string
	cmd := &cobra.Command{
		Use:   "bench W1|W2|W3|W4|W5",
		Short: "Put load on a cluster and measure it",
		Long: `Put load on the cluster at --addr, or with --self on nodes that are started for it and removed afterwards.

  W1  confirmed enqueue: 8 producers, 256 outstanding each
  W2  drain: a full queue, 8 consumers with a window of 256, each message acked by itself and the ack confirmed
  W3  both at once, flat out: 4 producers, 4 consumers; latency from send to receive
  W4  both at a given pace (--rate); latency from when a message was due
  W5  one enqueue at a time

Every message is accounted for: one that is lost, delivered twice or changed fails the run.`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: []string{load.W1, load.W2, load.W3, load.W4, load.W5},
	}
	f := cmd.Flags()
	f.IntVar(&self, "self", 0, "start this many nodes for the run, with data on disk, and remove them")
	f.StringVar(&data, "data", "", "with --self: where the nodes' temporary folder is made")
	f.IntVar(&cfg.Size, "size", load.DefaultSize, "bytes of a body")
	f.DurationVar(&cfg.For, "for", load.DefaultFor, "measured time")
	f.DurationVar(&cfg.WarmUp, "warm-up", load.DefaultWarmUp, "time before it that does not count")
	f.IntVar(&repeat, "repeat", 1, "runs; the median is reported")
	f.StringVar(&cfg.Queue, "queue", "", "queue to use; deleted at the end (default: a new one)")
	f.Float64Var(&cfg.Rate, "rate", load.DefaultRate, "W4: messages a second")
	f.IntVar(&cfg.Producers, "producers", 0, "clients that send (default: the workload's)")
	f.IntVar(&cfg.Consumers, "consumers", 0, "clients that receive (default: the workload's)")
	f.IntVar(&cfg.Outstanding, "outstanding", load.DefaultOutstanding, "unconfirmed enqueues a producer")
	f.IntVar(&cfg.Window, "window", load.DefaultWindow, "leases out a consumer")
	f.IntVar(&cfg.Preload, "preload", 0, "W2: messages to drain (default: enough for --for)")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		cfg.Workload = strings.ToUpper(args[0])
		if !slices.Contains(cmd.ValidArgs, cfg.Workload) {
			return usagef("there is no workload %q, want %s", args[0], strings.Join(cmd.ValidArgs, ", "))
		}
		ctx := cmd.Context()
		if self > 0 {
			binary, err := os.Executable()
			if err != nil {
				return failed(fmt.Errorf("find this binary: %w", err))
			}
			s, err := load.StartSelf(ctx, binary, self, data)
			if err != nil {
				return failed(err)
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			s.Configure(&cfg)
			return failed(c.bench(ctx, cfg, repeat, s.Cluster()))
		}
		cfg.Addrs = strings.Split(c.addr, ",")
		return failed(c.bench(ctx, cfg, repeat, nil))
	}
	return cmd
}

func (c *cli) bench(ctx context.Context, cfg load.Config, repeat int, nodes *proc.Cluster) error {
	if c.terminal() {
		cfg.Progress = func(phase string, confirmed int64) { fmt.Fprintf(c.stderr, "\r%-10s %12d ", phase, confirmed) }
		defer fmt.Fprintln(c.stderr)
	}
	res, err := load.Repeat(ctx, cfg, repeat, nil)
	if err != nil {
		return err
	}
	var rss int64
	if nodes != nil {
		for _, n := range nodes.Nodes {
			rss = max(rss, n.RSS())
		}
	}
	if c.asJSON() {
		err = c.json(struct {
			*load.Result
			RSS int64 `json:"server_rss_bytes_max,omitempty"`
		}{res, rss})
	} else {
		fmt.Fprintln(c.stdout, load.Header())
		_, err = fmt.Fprintln(c.stdout, res)
	}
	if err == nil && !res.OK() {
		err = errors.New("not every message was confirmed and received exactly once")
	}
	return err
}
