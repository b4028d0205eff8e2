package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/wire"
)

func newQueue(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Create, change, look at and empty queues",
		Args:  noSuchVerb,
		RunE:  needsVerb,
	}
	cmd.AddCommand(newQueueCreate(c), newQueueSet(c), newQueueList(c), newQueueShow(c), newQueueStats(c), newQueuePeek(c),
		newQueuePurge(c), newQueueDelete(c), newQueuePause(c, true), newQueuePause(c, false))
	return cmd
}

// needsVerb is what a noun without a verb does: help, and the exit code of a wrong command line.
func needsVerb(cmd *cobra.Command, _ []string) error {
	_ = cmd.Help() // to standard output, which is all that can go wrong
	return &exitError{code: exitUsage, err: fmt.Errorf("%s needs a verb", cmd.CommandPath()), quiet: true}
}

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
			return o, usagef("%v", err)
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
		Args:  cobra.ExactArgs(1),
	}
	f.bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o, err := f.options(cmd, client.QueueOptions{})
		if err != nil {
			return err
		}
		return c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			if err := cl.CreateQueue(ctx, args[0], o); err != nil {
				return err
			}
			return c.done("created " + args[0])
		})(cmd, args)
	}
	return cmd
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

// done prints plain success.
func (c *cli) done(text string) error {
	if c.asJSON() {
		return c.json(map[string]any{"ok": true})
	}
	fmt.Fprintln(c.stdout, text)
	return nil
}

// queueJSON is the JSON of a queue: its options and the counters of `queue stats`.
func queueJSON(q client.QueueInfo) map[string]any {
	return map[string]any{"name": q.Name, "options": optionsJSON(q.Options), "stats": statsJSON(q)}
}

func optionsJSON(o client.QueueOptions) map[string]any {
	return map[string]any{
		"lease_ms": o.Lease.Milliseconds(), "retry": formatRetry(o.Retry), "max_dead": o.MaxDead, "dead_overflow": o.DeadOverflow,
		"dead_letter_retention_ms": o.DeadRetention.Milliseconds(), "dedup_window_ms": o.DedupWindow.Milliseconds(),
		"dedup_max_keys": o.DedupMaxKeys, "result_ttl_ms": o.ResultTTL.Milliseconds(), "max_results_bytes": o.MaxResultsBytes,
		"ordering": o.Ordering, "max_depth": o.MaxDepth, "max_bytes": o.MaxBytes, "max_in_flight": o.MaxInFlight,
		"max_age_ms": o.MaxAge.Milliseconds(), "paused": o.Paused, "dead_letter_queue": o.DeadLetterQueue,
		"rate": o.Rate, "burst": o.Burst, "max_in_flight_per_key": o.MaxInFlightPerKey, "rate_per_key": o.RatePerKey,
		"burst_per_key": o.BurstPerKey, "fair_by": o.FairBy, "fair_weights": weightsJSON(o.FairWeights),
		"overflow": o.Overflow, "delivery": o.Delivery,
		"push_url": o.PushURL, "push_concurrency": o.PushConcurrency, "push_timeout_ms": o.PushTimeout.Milliseconds(), "push_secrets": list(o.PushSecrets),
		"push_permanent": list(o.PushPermanent), "push_headers": list(o.PushHeaders),
		"schema": o.Schema, "map": o.Map, "map_to": mapToJSON(o.MapTo),
	}
}

func statsJSON(q client.QueueInfo) map[string]any {
	return map[string]any{
		"pending": q.Pending, "blocked": q.Blocked, "parked": q.Parked, "key_debts": q.KeyDebts, "processing": q.Processing, "scheduled": q.Scheduled, "retrying": q.Retrying, "dlq": q.Dead,
		"total": q.Pending + q.Processing + q.Scheduled + q.Retrying, "bytes": q.Bytes,
		"oldest_message_age_seconds": q.OldestAge.Seconds(), "avg_processing_time_ms": q.AvgProcessing.Milliseconds(),
		"results": q.Results, "result_bytes": q.ResultBytes, "dedup_keys": q.DedupKeys, "tombstones": q.Tombstones, "counters": q.Totals, "moved": q.Moved, "push": q.Push, "mapping": q.Mapping,
		"messages_per_minute": q.PerMinute, "status": q.Status, "why": whyJSON(q.Why), "consumers": q.Consumers, "idle_consumers": q.Idle,
	}
}

// whyJSON is what keeps a queue's messages back, as the HTTP API has it.
func whyJSON(why []client.Holdup) []map[string]any {
	js := make([]map[string]any, len(why))
	for i, h := range why {
		js[i] = map[string]any{"reason": h.Reason, "text": h.Text}
		if !h.Until.IsZero() {
			js[i]["until"] = stamp(h.Until)
		}
	}
	return js
}

// whyRows are a queue's status and what keeps its messages back, as pairs of fields.
func whyRows(q *client.QueueInfo) (pairs []string) {
	pairs = append(pairs, "status", q.Status)
	for _, h := range q.Why {
		text := h.Text
		if !h.Until.IsZero() {
			text += "; until " + timestamp(h.Until)
		}
		pairs = append(pairs, "why", text)
	}
	return pairs
}

// statusText is a queue's status in one column.
func statusText(q *client.QueueInfo) string {
	text := q.Status
	for i, h := range q.Why {
		text += []string{": ", ", "}[min(i, 1)] + h.Reason
	}
	return text
}

func newQueueList(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List all queues with their counts",
		Args:  cobra.NoArgs,
		RunE: c.with(func(ctx context.Context, cl *client.Client, _ []string) error {
			all := []map[string]any{}
			var rows [][]string
			after := ""
			for {
				qs, next, err := cl.Queues(ctx, after, 1000)
				if err != nil {
					return err
				}
				for _, q := range qs {
					all = append(all, queueJSON(q))
					rows = append(rows, []string{q.Name, fmt.Sprint(q.Pending), fmt.Sprint(q.Processing), fmt.Sprint(q.Scheduled), fmt.Sprint(q.Retrying), fmt.Sprint(q.Dead), statusText(&q)})
				}
				if after = next; next == "" {
					break
				}
			}
			if c.asJSON() {
				return c.json(all)
			}
			return c.table([]string{"QUEUE", "PENDING", "PROCESSING", "SCHEDULED", "RETRYING", "DEAD", "STATUS"}, rows)
		}),
	}
}

func newQueueShow(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "show QUEUE",
		Short: "Show a queue's options, and why it is not moving",
		Args:  cobra.ExactArgs(1),
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			q, err := cl.Queue(ctx, args[0])
			if err != nil {
				return err
			}
			if c.asJSON() {
				return c.json(queueJSON(q))
			}
			o := q.Options
			pairs := []string{"name", q.Name, "lease", o.Lease.String(), "retry", formatRetry(o.Retry), "max-dead", count(o.MaxDead),
				"dead-overflow", o.DeadOverflow, "dead-letter-retention", o.DeadRetention.String(), "dedup-window", o.DedupWindow.String(),
				"dedup-max-keys", count(o.DedupMaxKeys), "result-ttl", o.ResultTTL.String(), "max-results-bytes", count(o.MaxResultsBytes),
				"ordering", o.Ordering, "dead-letter-queue", o.DeadLetterQueue, "max-depth", limit(o.MaxDepth), "max-bytes", limit(o.MaxBytes),
				"overflow", o.Overflow, "delivery", o.Delivery,
				"max-in-flight", limit(o.MaxInFlight), "max-age", lifetime(o.MaxAge), "paused", fmt.Sprint(o.Paused),
				"rate", rateText(o.Rate), "burst", count(o.Burst),
				"max-in-flight-per-key", limit(o.MaxInFlightPerKey), "rate-per-key", rateText(o.RatePerKey), "burst-per-key", count(o.BurstPerKey),
				"fair-by", o.FairBy, "fair-weights", weightsText(o.FairWeights),
				"push-url", o.PushURL, "push-concurrency", defaulted(o.PushConcurrency), "push-timeout", defaulted(o.PushTimeout), "push-secrets", strings.Join(o.PushSecrets, ","),
				"push-permanent", statusesText(o.PushPermanent), "push-headers", strings.Join(o.PushHeaders, ","), "push", atWork(q.Push)}
			pairs = append(pairs, linesOf("schema", o.Schema)...)
			pairs = append(pairs, "map", o.Map, "map-to", mapToText(o.MapTo), "mapping", atWork(q.Mapping))
			return c.fields(append(pairs, whyRows(&q)...)...)
		}),
	}
}

func newQueueStats(c *cli) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "stats QUEUE",
		Short: "Show a queue's counters, and why it is not moving",
		Args:  cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "refresh every second until Ctrl-C")
	cmd.RunE = c.with(func(ctx context.Context, cl *client.Client, args []string) error {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			q, err := cl.Queue(ctx, args[0])
			switch {
			case watch && ctx.Err() != nil:
				return nil
			case err != nil:
				return err
			}
			if watch && !c.asJSON() && c.terminal() {
				fmt.Fprint(c.stdout, "\x1b[H\x1b[2J")
			}
			if err := c.printStats(q, watch); err != nil || !watch {
				return err
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
	})
	return cmd
}

// terminal says whether standard output is one.
func (c *cli) terminal() bool {
	f, ok := underlying(c.stdout).(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

func (c *cli) printStats(q client.QueueInfo, line bool) error {
	switch {
	case c.asJSON() && line:
		return c.jsonLine(statsJSON(q))
	case c.asJSON():
		return c.json(statsJSON(q))
	}
	pairs := append([]string{"queue", q.Name}, whyRows(&q)...)
	pairs = append(pairs, "consumers", count(q.Consumers), "idle consumers", count(q.Idle), "messages per minute", fmt.Sprint(q.PerMinute), "pending", fmt.Sprint(q.Pending), "blocked", count(q.Blocked), "parked", count(q.Parked),
		"key debts", count(q.KeyDebts), "processing", fmt.Sprint(q.Processing), "scheduled", fmt.Sprint(q.Scheduled),
		"retrying", fmt.Sprint(q.Retrying), "dead", fmt.Sprint(q.Dead), "moved here", count(q.Moved), "bytes", fmt.Sprint(q.Bytes), "oldest", q.OldestAge.String(),
		"results", fmt.Sprint(q.Results), "result bytes", fmt.Sprint(q.ResultBytes), "dedup keys", fmt.Sprint(q.DedupKeys),
		"tombstones", count(q.Tombstones), "average processing", q.AvgProcessing.String())
	if q.Push != "" {
		pairs = append(pairs, "push", atWork(q.Push))
	}
	if q.Mapping != "" {
		pairs = append(pairs, "mapping", atWork(q.Mapping))
	}
	names := make([]string, 0, len(q.Totals))
	for k := range q.Totals {
		names = append(names, k)
	}
	sort.Strings(names)
	for _, k := range names {
		pairs = append(pairs, strings.ReplaceAll(k, "_", " ")+" in all", fmt.Sprint(q.Totals[k]))
	}
	return c.fields(pairs...)
}

func newQueuePeek(c *cli) *cobra.Command {
	var state string
	var limit int
	cmd := &cobra.Command{
		Use:   "peek QUEUE",
		Short: "Look at messages without taking them",
		Args:  cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&state, "state", "pending", "pending, processing, scheduled or retrying")
	cmd.Flags().IntVar(&limit, "limit", 10, "how many, 1 to 1000")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if limit < 1 || limit > 1000 {
			return usagef("--limit is %d, want 1 to 1000", limit)
		}
		return nil
	}
	cmd.RunE = c.with(func(ctx context.Context, cl *client.Client, args []string) error {
		ts, _, err := cl.Peek(ctx, args[0], client.PeekOptions{State: state, Limit: limit})
		if err != nil {
			return err
		}
		if c.asJSON() {
			return c.json(tasksJSON(ts))
		}
		rows := make([][]string, 0, len(ts))
		for _, t := range ts {
			rows = append(rows, []string{t.ID, t.Status, fmt.Sprint(t.Priority), fmt.Sprint(t.Attempts), timestamp(t.DueAt), excerpt(t.Body)})
		}
		return c.table([]string{"ID", "STATUS", "PRIORITY", "ATTEMPTS", "DUE", "BODY"}, rows)
	})
	return cmd
}

func newQueuePurge(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "purge QUEUE",
		Short: "Remove all messages that are not out",
		Args:  cobra.ExactArgs(1),
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			n, err := cl.PurgeQueue(ctx, args[0])
			if err != nil {
				return err
			}
			return c.deleted(n)
		}),
	}
}

// deleted prints how many records a purge removed.
func (c *cli) deleted(n int64) error {
	if c.asJSON() {
		return c.json(map[string]any{"deleted_count": n})
	}
	fmt.Fprintf(c.stdout, "%d removed\n", n)
	return nil
}

func newQueueDelete(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "delete QUEUE",
		Short: "Remove a queue and everything in it",
		Args:  cobra.ExactArgs(1),
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			if err := cl.DeleteQueue(ctx, args[0]); err != nil {
				return err
			}
			return c.done("deleted " + args[0])
		}),
	}
}
