package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

func newDLQ(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "dlq", Short: "Look at dead letters and bring them back", Args: cobra.NoArgs, RunE: needsVerb}
	cmd.AddCommand(newDLQList(c), newDLQShow(c), newDLQRequeue(c), newDLQDelete(c), newDLQPurge(c))
	return cmd
}

// deadFilter selects dead letters.
type deadFilter struct{ kind, reason, since string }

func (f *deadFilter) bind(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.kind, "kind", "", "only this task type")
	fl.StringVar(&f.reason, "reason", "", "only this reason: max_attempts, permanent, expired, overflow or mapping")
	fl.StringVar(&f.since, "since", "", "only those that died since: a time (RFC 3339) or how long ago (2h)")
}

func (f *deadFilter) options() (client.DeadOptions, error) {
	o := client.DeadOptions{Kind: f.kind, Reason: f.reason}
	switch f.reason {
	case "", "max_attempts", "permanent", "expired", "overflow", "mapping":
	default:
		return o, usagef("--reason is %q, want max_attempts, permanent, expired, overflow or mapping", f.reason)
	}
	if f.since == "" {
		return o, nil
	}
	if t, err := time.Parse(time.RFC3339, f.since); err == nil {
		o.Since = t
		return o, nil
	}
	ms, err := parseMillis(f.since)
	if err != nil {
		return o, usagef("--since is %q, want a time such as 2026-12-24T18:00:00Z or a duration such as 2h", f.since)
	}
	o.Since = time.Now().Add(-time.Duration(ms) * time.Millisecond)
	return o, nil
}

// each calls f for every dead letter that passes the filter, at most limit of them (0: all).
func eachDead(ctx context.Context, cl *client.Client, queue string, o client.DeadOptions, limit int, f func([]client.Task) error) error {
	left := limit
	for {
		o.Limit = 1000
		if limit > 0 {
			o.Limit = min(left, 1000)
		}
		ts, next, err := cl.DeadLetters(ctx, queue, o)
		if err != nil {
			return err
		}
		if err := f(ts); err != nil {
			return err
		}
		left -= len(ts)
		if next == "" || limit > 0 && left <= 0 {
			return nil
		}
		o.After = next
	}
}

func newDLQList(c *cli) *cobra.Command {
	var filter deadFilter
	var limit int
	cmd := &cobra.Command{Use: "list QUEUE", Short: "List dead letters, oldest first", Args: cobra.ExactArgs(1)}
	filter.bind(cmd)
	cmd.Flags().IntVar(&limit, "limit", 100, "how many; 0 is all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o, err := filter.options()
		if err != nil {
			return err
		}
		return c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			var all []client.Task
			err := eachDead(ctx, cl, args[0], o, limit, func(ts []client.Task) error {
				all = append(all, ts...)
				return nil
			})
			if err != nil {
				return err
			}
			if c.asJSON() {
				return c.json(tasksJSON(all))
			}
			rows := make([][]string, 0, len(all))
			for _, t := range all {
				rows = append(rows, []string{t.ID, t.Reason, fmt.Sprint(t.Attempts), timestamp(t.EndedAt), t.Kind, excerpt([]byte(t.Error))})
			}
			return c.table([]string{"ID", "REASON", "ATTEMPTS", "FAILED", "KIND", "ERROR"}, rows)
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

// idsOrAll checks that either ids or --all were given.
func idsOrAll(cmd *cobra.Command, args []string, all bool) error {
	switch {
	case len(args) < 1:
		return usagef("name the queue: %s", cmd.UseLine())
	case all && len(args) > 1:
		return usagef("give ids or --all, not both")
	case !all && len(args) < 2:
		return usagef("name the ids, or give --all")
	}
	return nil
}

func newDLQRequeue(c *cli) *cobra.Command {
	var filter deadFilter
	var all bool
	cmd := &cobra.Command{
		Use:   "requeue QUEUE [ID…]",
		Short: "Make dead letters live again, with fresh attempts and new ids",
	}
	filter.bind(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "every dead letter that passes the filters")
	cmd.Args = func(cmd *cobra.Command, args []string) error { return idsOrAll(cmd, args, all) }
	cmd.RunE = c.deadVerb(&filter, &all, func(ctx context.Context, cl *client.Client, queue string, ids []string) (int, error) {
		rs, errs := cl.Requeue(ctx, queue, ids...)
		var first error
		n := 0
		for i, err := range errs {
			if err != nil {
				fmt.Fprintf(c.stderr, "quorate: %s: %v\n", ids[i], err)
				if first == nil {
					first = err
				}
				continue
			}
			n++
			if c.asJSON() {
				if err := c.jsonLine(map[string]any{"id": ids[i], "new_id": rs[i].ID}); err != nil {
					return n, err
				}
			} else {
				fmt.Fprintf(c.stdout, "%s is now %s\n", ids[i], rs[i].ID)
			}
		}
		return n, first
	})
	return cmd
}

func newDLQDelete(c *cli) *cobra.Command {
	var filter deadFilter
	var all bool
	cmd := &cobra.Command{Use: "delete QUEUE [ID…]", Short: "Delete dead letters"}
	filter.bind(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "every dead letter that passes the filters")
	cmd.Args = func(cmd *cobra.Command, args []string) error { return idsOrAll(cmd, args, all) }
	cmd.RunE = c.deadVerb(&filter, &all, func(ctx context.Context, cl *client.Client, queue string, ids []string) (int, error) {
		var first error
		n := 0
		for i, err := range cl.DeleteDead(ctx, queue, ids...) {
			if err != nil {
				fmt.Fprintf(c.stderr, "quorate: %s: %v\n", ids[i], err)
				if first == nil {
					first = err
				}
				continue
			}
			n++
			if err := c.oneDeleted(ids[i]); err != nil {
				return n, err
			}
		}
		return n, first
	})
	return cmd
}

func (c *cli) oneDeleted(id string) error {
	if c.asJSON() {
		return c.jsonLine(map[string]any{"id": id, "deleted": true})
	}
	fmt.Fprintf(c.stdout, "%s deleted\n", id)
	return nil
}

// deadVerb runs f over the given ids, or over all that pass the filter, at most 1,000 at a time. Those that fail are
// said and the others go on; the first failure gives the exit code.
func (c *cli) deadVerb(filter *deadFilter, all *bool, f func(ctx context.Context, cl *client.Client, queue string, ids []string) (int, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		o, err := filter.options()
		if err != nil {
			return err
		}
		return c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			queue, ids := args[0], args[1:]
			if *all {
				ids = nil
				err := eachDead(ctx, cl, queue, o, 0, func(ts []client.Task) error {
					for _, t := range ts {
						ids = append(ids, t.ID)
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
			var first error
			done := 0
			for from := 0; from < len(ids); from += 1000 {
				n, err := f(ctx, cl, queue, ids[from:min(from+1000, len(ids))])
				done += n
				if first == nil {
					first = err
				}
			}
			if first != nil {
				return &exitError{code: codeOf(first), err: fmt.Errorf("%d of %d failed", len(ids)-done, len(ids))}
			}
			return nil
		})(cmd, args)
	}
}

func newDLQPurge(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "purge QUEUE",
		Short: "Delete every dead letter of a queue",
		Args:  cobra.ExactArgs(1),
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			n, err := cl.PurgeDead(ctx, args[0])
			if err != nil {
				return err
			}
			return c.deleted(n)
		}),
	}
}
