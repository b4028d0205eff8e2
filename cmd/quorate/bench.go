package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/bench/load"
	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/cluster/store"
)

func newBench(c *cli) *cobra.Command {
	var cfg load.Config
	var self, repeat int
	var data, logs string
	var kill bool
	cmd := &cobra.Command{
		Use:   "bench WORKLOAD",
		Short: "Put load on a cluster and measure it",
		Long: `Put load on the cluster at --addr, or with --self on nodes that are started for it and removed afterwards.

  W1  confirmed enqueue: 8 producers, 256 outstanding each
  W2  drain: a full queue, 8 consumers with a window of 256, each message acked by itself and the ack confirmed
  W3  both at once, flat out: 4 producers, 4 consumers; latency from send to receive
  W4  both at a given pace (--rate); latency from when a message was due
  W5  one enqueue at a time

  delayed   --count messages that come due at --due-rate a second, enqueued before the first is due and in another order;
            lateness from when a message was due to when its consumer has it, by this machine's clock (run it where
            the nodes run, or on machines with one time). With --self, --kill-leader kills the leader half-way
  priority  ten priorities by turns, first at half and then at twice the --capacity of the consumers: how long the messages of
            each waited, and whether any went before one that had to go first. Takes about three times --for
  keys      flat out over --keys keys by turns on an unordered queue and on one ordered by key, of which --stuck per cent
            have their first message out for good, the next ones waiting behind it: the ratio of the two speeds, counted
            in messages acknowledged (what is sent for stuck keys is lost to it: at most 0.9 with a tenth of them), and in
            messages sent
  fair      --tenants of a queue that is fair by key, of which --flood send ten times the --capacity of the consumers every
            other turn, the rest half of it in all turns: how much longer the rest waits then
  flat      W3 with 1000 messages queued, in one queue, with no other connection, and with --queued messages, --queues that take turns
            and --connections that have subscribed and get nothing, by turns: the ratio of the two speeds, and of the CPU that
            a message costs the servers (with --self). Filling and emptying take 60 s a million messages

  queued    --count messages in a queue: the memory of each node, how long its state
            stands still for a snapshot, W3 in another queue while snapshots are written and while not, kill -9 of one node until it has
            caught up, of all until one more message is confirmed; then all are received. Only with --self 2 or more. 10 million
            messages take about 4 GB of memory a node, 40 GB of disk and 20 minutes

  floor     what raft, the log store and the nodes' transport take here without a broker, under a group's own settings: entries
            of one message, proposed on the leader, until they are on a majority's disks and applied. One at a time, with
            --outstanding so many, or with --rate at that pace. Always on nodes of its own, 3 or --self; W5 is to be held
            against it, with --rate the tail of W4, and with the size and number of W1's entries what of W1 is raft's

Every message is accounted for: one that is lost, delivered twice or changed, comes early or out of order fails the run.`,
		Example: `  quorate bench W3 --self 3 --for 10s --repeat 3
  quorate bench delayed --self 3 --count 5000000 --due-rate 20000 --kill-leader
  quorate bench priority --self 3 --capacity 2000
  quorate bench keys --self 3 --keys 1000000 --stuck 10 --rounds 3
  quorate bench fair --self 3 --tenants 100 --flood 1
  quorate bench flat --self 3 --queued 10000000
  quorate bench flat --self 3 --queues 10000 --rounds 3
  quorate bench flat --self 3 --connections 5000 --rounds 3
  quorate bench queued --self 3 --count 1000000
  quorate bench floor --for 10s`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: append(load.Workloads(), load.Floor),
	}
	f := cmd.Flags()
	f.IntVar(&self, "self", 0, "start this many nodes for the run, with data on disk, and remove them")
	f.StringVar(&logs, "log-store", "", fmt.Sprintf("with --self, and floor: the nodes' log store, %s or %s (default %s)", store.Bolt, store.WAL, store.DefaultKind))
	f.StringVar(&data, "data", "", "with --self: where the nodes' temporary folder is made")
	f.IntVar(&cfg.Size, "size", 0, fmt.Sprintf("bytes of a body (default %d; delayed: 64)", load.DefaultSize))
	f.Var(newSpan(&cfg.For, load.DefaultFor), "for", "measured time")
	f.Var(newSpan(&cfg.WarmUp, load.DefaultWarmUp), "warm-up", "time before it that does not count")
	f.IntVar(&repeat, "repeat", 1, "runs; the median is reported")
	f.StringVar(&cfg.Queue, "queue", "", "queue to use; deleted at the end (default: a new one)")
	f.Float64Var(&cfg.Rate, "rate", load.DefaultRate, "W4, floor: messages a second (floor: one at a time if it is not given)")
	f.IntVar(&cfg.Producers, "producers", 0, "clients that send (default: the workload's)")
	f.IntVar(&cfg.Consumers, "consumers", 0, "clients that receive (default: the workload's)")
	f.IntVar(&cfg.Outstanding, "outstanding", load.DefaultOutstanding, "unconfirmed enqueues a producer (floor: entries without an outcome, one if it is not given)")
	f.BoolVar(&cfg.HTTPKeys, "http-keys", false, "with --http: each request has an Idempotency-Key of its own, to see what keys cost")
	f.IntVar(&cfg.HTTP, "http", 0, "W1, W3: enqueue by the HTTP API of the node that leads, this many messages a request (default: by the SDK)")
	f.IntVar(&cfg.Window, "window", 0, fmt.Sprintf("leases out a consumer (default %d; priority, fair: 64)", load.DefaultWindow))
	f.IntVar(&cfg.Preload, "preload", 0, "W2: messages to drain (default: enough for --for)")
	f.IntVar(&cfg.Count, "count", load.DefaultCount, "delayed, queued: messages")
	f.Float64Var(&cfg.DueRate, "due-rate", load.DefaultDueRate, "delayed: messages that come due a second")
	f.Var(newSpan(&cfg.Lead, 0), "lead", "delayed: from the first enqueue until the first is due (default: 5 s and what --count takes at 25,000/s)")
	f.BoolVar(&kill, "kill-leader", false, "delayed, with --self: kill -9 the leader when half has been received, and start it again")
	f.Float64Var(&cfg.Capacity, "capacity", load.DefaultCapacity, "priority, fair: messages a second that the consumers can handle together")
	f.IntVar(&cfg.Keys, "keys", load.DefaultKeys, "keys: different keys")
	f.Float64Var(&cfg.Stuck, "stuck", load.DefaultStuck, "keys: per cent of them that are stuck (-1: none)")
	f.IntVar(&cfg.Rounds, "rounds", 0, fmt.Sprintf("keys, fair, flat: measured times of each side, by turns (default %d; flat: 1)", load.DefaultRounds))
	f.IntVar(&cfg.Tenants, "tenants", load.DefaultTenants, "fair: keys in all")
	f.IntVar(&cfg.Flood, "flood", load.DefaultFlood, "fair: how many of them flood")
	f.IntVar(&cfg.Queued, "queued", load.DefaultQueued, "flat: messages that are queued all the time")
	f.IntVar(&cfg.Queues, "queues", 1, "flat: queues that messages go to by turns")
	f.IntVar(&cfg.Idle, "connections", 0, "flat: connections with a subscription that gets nothing")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		for _, w := range load.Workloads() {
			if strings.EqualFold(w, args[0]) {
				cfg.Workload = w
			}
		}
		floor := strings.EqualFold(load.Floor, args[0])
		switch {
		case cfg.Workload == "" && !floor:
			return usagef("there is no workload %q, want one of %s", args[0], strings.Join(cmd.ValidArgs, ", "))
		case kill && (cfg.Workload != load.Delayed || self < 2):
			return usagef("--kill-leader is for the workload %s with --self 2 or more: it kills only nodes that it has started", load.Delayed)
		case cfg.HTTPKeys && cfg.HTTP == 0:
			return usagef("--http-keys goes with --http N: the keys are of HTTP requests")
		case cfg.HTTP != 0 && cfg.Workload != load.W1 && cfg.Workload != load.W3:
			return usagef("--http goes with %s and %s: %s does not send by HTTP", load.W1, load.W3, args[0])
		}
		if cfg.Workload == load.Queued && self < 2 {
			return usagef("%s kills nodes, and only those that it has started: --self 2 or more is wanted", load.Queued)
		}
		if self < 0 || self > 9 {
			return usagef("--self is %d, want 1 to 9 nodes, or 0 to use the cluster at --addr", self)
		}
		kind, err := store.ParseKind(logs)
		if err != nil {
			return usagef("--log-store: %v", err)
		}
		if kind != "" && self == 0 && !floor {
			return usagef("--log-store is for --self and floor: it is said to nodes that are started for the run")
		}
		ctx := cmd.Context()
		if floor {
			run := floorRun{Size: cfg.Size, For: cfg.For, WarmUp: cfg.WarmUp}
			if cmd.Flags().Changed("rate") {
				if run.Rate = cfg.Rate; run.Rate <= 0 {
					return usagef("--rate is %g, want more than 0, or none for one message at a time", cfg.Rate)
				}
			}
			if cmd.Flags().Changed("outstanding") {
				if run.Out = cfg.Outstanding; run.Out == 0 {
					return usagef("--outstanding is 0, want 1 or more")
				}
			}
			if repeat < 1 || repeat > 100 {
				return usagef("--repeat is %d, want 1 to 100", repeat)
			}
			check := load.FloorConfig{Size: run.Size, For: run.For, WarmUp: run.WarmUp, Rate: run.Rate, Outstanding: run.Out}
			if err := check.Validate(); err != nil {
				return usagef("%v", err)
			}
			res, err := c.benchFloor(ctx, cmp.Or(self, 3), repeat, data, kind, run)
			if err != nil {
				return failed(err)
			}
			return failed(c.benched(res, 0))
		}
		if self > 0 {
			binary, err := os.Executable()
			if err != nil {
				return failed(fmt.Errorf("find this binary: %w", err))
			}
			s, err := load.StartSelf(ctx, binary, self, data, "--raft-log-store", string(kind))
			if err != nil {
				return failed(err)
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			s.Configure(&cfg)
			if kill {
				cfg.Disturb = s.KillLeader
			}
			return failed(c.bench(ctx, cfg, repeat, s.Cluster()))
		}
		cfg.Addrs = strings.Split(c.addr, ",")
		if cfg.Nodes, err = c.nodes(ctx); err != nil {
			return failed(err)
		}
		return failed(c.bench(ctx, cfg, repeat, nil))
	}
	return cmd
}

// nodes is how many nodes the cluster at --addr has, however many addresses were given.
func (c *cli) nodes(ctx context.Context) (int, error) {
	cl, done, err := c.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	s, err := cl.ClusterStatus(ctx)
	return len(s.Nodes), err
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
	err = c.benched(res, rss)
	if err == nil && !res.OK() {
		err = errors.New("not every message was confirmed and received exactly once")
	}
	return err
}

// benched prints a result. rss is the largest resident memory of a node, bytes; 0: not known.
func (c *cli) benched(res *load.Result, rss int64) (err error) {
	if c.asJSON() {
		return c.json(struct {
			*load.Result
			RSS int64 `json:"server_rss_bytes_max,omitempty"`
		}{res, rss})
	}
	fmt.Fprintln(c.stdout, load.Header())
	_, err = fmt.Fprintln(c.stdout, res)
	return err
}
