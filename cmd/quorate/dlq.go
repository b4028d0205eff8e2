package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

func newDLQ(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "dlq", Short: "Look at dead letters and bring them back", Args: noSuchVerb, RunE: needsVerb}
	cmd.AddCommand(newDLQList(c), newDLQShow(c), newDLQRequeue(c), newDLQDelete(c), newDLQPurge(c),
		newDLQExport(c))
	return cmd
}

// deadFilter selects dead letters.
type deadFilter struct {
	kind, reason, since, until, text string
	headers                          []string
}

func (f *deadFilter) bind(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.kind, "kind", "", "only this task type")
	fl.StringVar(&f.reason, "reason", "", "only this reason: max_attempts, permanent, expired, overflow or mapping")
	fl.StringVar(&f.since, "since", "", "only those that died since: a time (RFC 3339) or how long ago (2h)")
	fl.StringVar(&f.until, "until", "", "only those that died until: a time (RFC 3339) or how long ago (2h)")
	fl.StringVar(&f.text, "text", "", "only those with this text in the error, the task id or the body")
	fl.StringArrayVar(&f.headers, "header", nil, "only those with this header: name, or name=value; may be given more than once")
}

func (f *deadFilter) options() (o client.DeadOptions, err error) {
	o = client.DeadOptions{Kind: f.kind, Reason: f.reason, Text: f.text}
	switch f.reason {
	case "", "max_attempts", "permanent", "expired", "overflow", "mapping":
	default:
		return o, usagef("--reason is %q, want max_attempts, permanent, expired, overflow or mapping", f.reason)
	}
	for _, h := range f.headers {
		name, value, _ := strings.Cut(h, "=")
		o.Headers = append(o.Headers, client.Header{Name: name, Value: value})
	}
	if o.Since, err = timeOrAgo("--since", f.since); err != nil {
		return o, err
	}
	o.Until, err = timeOrAgo("--until", f.until)
	return o, err
}

// timeOrAgo reads a time, or how long ago it was.
func timeOrAgo(flag, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	ms, err := parseMillis(s)
	if err != nil {
		return time.Time{}, usagef("%s is %q, want a time such as 2026-12-24T18:00:00Z or a duration such as 2h", flag, s)
	}
	return time.Now().Add(-time.Duration(ms) * time.Millisecond), nil
}

var errEnough = errors.New("enough")

func newDLQList(c *cli) *cobra.Command {
	var filter deadFilter
	var limit int
	cmd := &cobra.Command{
		Use:   "list QUEUE",
		Short: "List dead letters, oldest first",
		Long: `List the dead letters of a queue by the time they died: those of its own dead set, and those that other queues have
moved to it because it is their dead-letter queue (ORIGIN says from where).

Reason, kind and times are looked up in an index. Text and headers are looked for one by one.`,
		Example: "  quorate dlq list orders --reason expired --since 2h\n  quorate dlq list orders --text 'no route' --header source=web",
		Args:    cobra.ExactArgs(1),
	}
	filter.bind(cmd)
	cmd.Flags().IntVar(&limit, "limit", 100, "how many; 0 is all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o, err := filter.options()
		if err != nil {
			return err
		}
		if limit < 0 {
			return usagef("--limit is %d, want 1 or more, or 0 for all", limit)
		}
		return c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			var all []client.Task
			o.Limit = min(limit, 1000)
			err := cl.EachDead(ctx, args[0], o, func(t *client.Task) error {
				if all = append(all, *t); len(all) == limit {
					return errEnough
				}
				return nil
			})
			if err != nil && !errors.Is(err, errEnough) {
				return err
			}
			if c.asJSON() {
				return c.json(tasksJSON(all))
			}
			rows := make([][]string, 0, len(all))
			for _, t := range all {
				rows = append(rows, []string{t.ID, t.Reason, fmt.Sprint(t.Attempts), fmt.Sprint(t.Redrives), timestamp(t.EndedAt), t.Origin, t.Kind, excerpt([]byte(t.Error))})
			}
			return c.table([]string{"ID", "REASON", "ATTEMPTS", "REDRIVES", "FAILED", "ORIGIN", "KIND", "ERROR"}, rows)
		})(cmd, args)
	}
	return cmd
}

func newDLQShow(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "show QUEUE ID",
		Short: "Show one dead letter with its attempts",
		Args:  cobra.ExactArgs(2),
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			t, err := cl.DeadLetter(ctx, args[0], args[1])
			if err != nil {
				return err
			}
			return c.printTask(*t)
		}),
	}
}

func newDLQPurge(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "purge QUEUE",
		Short: "Delete every dead letter of a queue",
		Long: `Delete every dead letter of a queue: its own dead set at once, then those that other queues have moved to it, but for
those that a worker has. Messages that were enqueued in it stay.`,
		Args: cobra.ExactArgs(1),
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			n, err := cl.EmptyDead(ctx, args[0])
			if err != nil {
				return err
			}
			return c.deleted(n)
		}),
	}
}
