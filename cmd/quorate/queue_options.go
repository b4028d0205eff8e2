package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/wire"
)

// queueFlags are a queue's options as flags.
type queueFlags struct {
	lease, deadRetention, dedupWindow, resultTTL millis
	retry, deadOverflow, ordering, deadQueue     string
	overflow, delivery                           string
	maxDead, dedupMaxKeys, maxResultsBytes       int64
	maxDepth, maxBytes, maxInFlight              int64
	maxAge                                       millis
	rate                                         thousandths
	burst                                        int64
	keys                                         keyFlags
	push                                         pushFlags
	mapping                                      mappingFlags
}

func (f *queueFlags) bind(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.Var(&f.lease, "lease", "lease length, 100ms to 12h (default 30s)")
	fl.StringVar(&f.retry, "retry", "", "retry policy: "+retryHelp+" (default schedule:1s,5s,10s)")
	fl.Int64Var(&f.maxDead, "max-dead", 0, "dead letters kept (default 1000000)")
	fl.StringVar(&f.deadOverflow, "dead-overflow", "", "when max-dead is reached: refuse enqueues, or drop_oldest dead letter (default refuse)")
	fl.Var(&f.deadRetention, "dead-letter-retention", "how long dead letters are kept (default 720h)")
	fl.StringVar(&f.deadQueue, "dead-letter-queue", "", "move what dies here to this queue, as messages that can have workers (default: it stays here)")
	fl.Var(&f.dedupWindow, "dedup-window", "how long a dedup key is remembered (default 24h)")
	fl.Int64Var(&f.dedupMaxKeys, "dedup-max-keys", 0, "dedup keys remembered at once; beyond it enqueues are refused (default 1000000)")
	fl.Var(&f.resultTTL, "result-ttl", "how long results are kept (default 24h)")
	fl.StringVar(&f.ordering, "ordering", "", "which messages wait for which: unordered; fifo, one message at a time, the next one when it is done or dead; or per_key, that for each --key. It changes only while the queue holds no message (default unordered)")
	fl.Int64Var(&f.maxDepth, "max-depth", 0, "messages held at once, delayed, retrying and leased ones included; beyond it --overflow; 0 for no limit")
	fl.Int64Var(&f.maxBytes, "max-bytes", 0, "bytes of messages held at once, fields included; beyond it --overflow; 0 for no limit")
	fl.StringVar(&f.delivery, "delivery", "", "at_least_once, or at_most_once: a message is done when a worker gets it, and lost if that worker dies. It changes only while the queue holds no message (default at_least_once)")
	fl.StringVar(&f.overflow, "overflow", "", "beyond max-depth and max-bytes: reject enqueues, or drop_oldest: of the lowest priority what has waited longest dies, with the reason overflow, at most 16 messages for one; never what a worker has (default reject)")
	fl.Int64Var(&f.maxInFlight, "max-in-flight", 0, "messages leased at once, over all consumers; 0 for no limit")
	fl.Var(&f.rate, "rate", "deliveries a second, 0.001 to 1000000, such as 2.5 or 100; 0 for no limit")
	fl.Int64Var(&f.burst, "burst", 0, "deliveries at once that --rate allows; 0 for one second's worth, at least 1")
	f.keys.bind(fl)
	f.push.bind(fl)
	f.mapping.bind(fl)
	fl.Var(&f.maxAge, "max-age", "how long messages that come without --ttl live; 0 for no end")
	fl.Int64Var(&f.maxResultsBytes, "max-results-bytes", 0, "bytes of results kept; beyond it enqueues are refused (default 268435456)")
}

// named are the options whose flags are given, as the configuration calls them. What is taken away takes along what would be a
// contradiction without it: a rate its burst, and turns of keys their weights.
func (f *queueFlags) named(cmd *cobra.Command) (only []string) {
	options := optionsJSON(client.QueueOptions{})
	name := func(name string) {
		if _, ok := options[name]; ok && !slices.Contains(only, name) {
			only = append(only, name)
		}
	}
	cmd.Flags().Visit(func(fl *pflag.Flag) {
		flag := strings.ReplaceAll(fl.Name, "-", "_")
		name(flag)
		name(flag + "_ms")
		switch {
		case flag == "fair_weight":
			name("fair_weights")
		case flag == "fair_by" && f.keys.fairBy != wire.FairByKey:
			name("fair_weights")
		case flag == "rate" && f.rate == 0:
			name("burst")
		case flag == "rate_per_key" && f.keys.rate == 0:
			name("burst_per_key")
		}
	})
	return only
}

// options overlays the given flags on base.
func (f *queueFlags) options(cmd *cobra.Command, base client.QueueOptions) (client.QueueOptions, error) {
	o := base
	given := cmd.Flags().Changed
	if given("lease") {
		o.Lease = f.lease.duration()
	}
	if given("retry") {
		p, err := parseRetry(f.retry)
		if err != nil {
			return o, usagef("--%w", err)
		}
		o.Retry = p
	}
	if given("max-dead") {
		o.MaxDead = f.maxDead
	}
	if given("dead-overflow") {
		o.DeadOverflow = f.deadOverflow
	}
	if given("dead-letter-retention") {
		o.DeadRetention = f.deadRetention.duration()
	}
	if given("dead-letter-queue") {
		o.DeadLetterQueue = f.deadQueue
	}
	if given("dedup-window") {
		o.DedupWindow = f.dedupWindow.duration()
	}
	if given("dedup-max-keys") {
		o.DedupMaxKeys = f.dedupMaxKeys
	}
	if given("result-ttl") {
		o.ResultTTL = f.resultTTL.duration()
	}
	if given("max-depth") {
		o.MaxDepth = f.maxDepth
	}
	if given("max-bytes") {
		o.MaxBytes = f.maxBytes
	}
	if given("delivery") {
		o.Delivery = f.delivery
	}
	if given("overflow") {
		o.Overflow = f.overflow
	}
	if given("max-in-flight") {
		o.MaxInFlight = f.maxInFlight
	}
	if given("rate") {
		o.Rate = f.rate.number()
		if f.rate == 0 { // which takes the burst with it
			o.Burst = 0
		}
	}
	if given("burst") {
		o.Burst = f.burst
	}
	if err := f.keys.options(given, &o); err != nil {
		return o, err
	}
	if err := f.push.options(given, &o); err != nil {
		return o, err
	}
	if err := f.mapping.options(given, &o); err != nil {
		return o, err
	}
	if given("max-age") {
		o.MaxAge = f.maxAge.duration()
	}
	if given("ordering") {
		o.Ordering = f.ordering
	}
	if given("max-results-bytes") {
		o.MaxResultsBytes = f.maxResultsBytes
	}
	return o, nil
}

func newQueueCreate(c *cli) *cobra.Command {
	var f queueFlags
	cmd := &cobra.Command{
		Use:   "create QUEUE",
		Short: "Create a queue; the same options again are fine, others are refused",
		Long: `Create a queue with the options that are given, and defaults for the rest. One that exists with the same options is left as
it is, which is said and no error; with others the command fails and names them: quorate queue set changes options.`,
		Example: "  quorate queue create thumbnails --lease 2m --retry exponential:1s..60s*5\n" +
			"  quorate queue create orders --ordering per_key --max-depth 100000 --schema order.json",
		Args: cobra.ExactArgs(1),
	}
	f.bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o, err := f.options(cmd, client.QueueOptions{})
		if err != nil {
			return err
		}
		return c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			is, err := cl.Queue(ctx, args[0])
			if err != nil && !errors.Is(err, client.ErrNotFound) {
				return err
			}
			existed := err == nil
			err = cl.CreateQueue(ctx, args[0], o)
			if existed && errors.Is(err, client.ErrAlreadyExists) {
				return another("queue", is.Name, err, f.wanted(cmd), optionsJSON(is.Options))
			}
			if err != nil {
				return err
			}
			return c.created(args[0], existed)
		})(cmd, args)
	}
	return cmd
}

// wanted are all options of a queue that is created with the given flags, which could be read.
func (f *queueFlags) wanted(cmd *cobra.Command) map[string]any {
	normal := (&declaredQueue{}).options()
	o, _ := f.options(cmd, normal)
	all, defaults := optionsJSON(o), optionsJSON(normal)
	for k, v := range all {
		if text := fmt.Sprint(v); text == "" || text == "0" { // which asks for the default
			all[k] = defaults[k]
		}
	}
	return all
}

func newQueueSet(c *cli) *cobra.Command {
	var f queueFlags
	cmd := &cobra.Command{
		Use:   "set QUEUE",
		Short: "Change options of a queue; those not given stay",
		Args:  cobra.ExactArgs(1),
	}
	f.bind(cmd)
	cmd.Flags().VisitAll(func(fl *pflag.Flag) { // what is not given is no default here
		if at := strings.LastIndex(fl.Usage, " (default"); at >= 0 {
			fl.Usage = fl.Usage[:at]
		}
	})
	cmd.RunE = c.with(func(ctx context.Context, cl *client.Client, args []string) error {
		o, err := f.options(cmd, client.QueueOptions{})
		if err != nil {
			return err
		}
		only := f.named(cmd)
		if len(only) == 0 {
			return usagef("no option is given: at least one is to be changed")
		}
		if err := cl.ChangeQueue(ctx, args[0], o, only...); err != nil {
			return err
		}
		return c.done("changed " + args[0])
	})
	return cmd
}
