package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

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
