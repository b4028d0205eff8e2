package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

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

// bulkFlags are those of a command that goes over many dead letters.
type bulkFlags struct {
	filter deadFilter
	all    bool
	dry    bool
	rate   int
	max    int64
}

func (f *bulkFlags) bind(cmd *cobra.Command) {
	f.filter.bind(cmd)
	fl := cmd.Flags()
	fl.BoolVar(&f.all, "all", false, "every dead letter that passes the filters")
	fl.IntVar(&f.rate, "rate", 0, "with --all: at most so many a second (0: as fast as it goes)")
	fl.BoolVar(&f.dry, "dry-run", false, "with --all: say which it would be, and change nothing")
	fl.Int64Var(&f.max, "max", 0, "with --all: at most so many (0: all)")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := idsOrAll(cmd, args, f.all); err != nil || f.all {
			return err
		}
		for _, name := range []string{"rate", "dry-run", "max", "kind", "reason", "since", "until", "text", "header"} {
			if cmd.Flags().Changed(name) {
				return usagef("--%s goes with --all, not with ids", name)
			}
		}
		return nil
	}
}

// options are those of the client.
func (f *bulkFlags) options() (o client.BulkOptions, err error) {
	o = client.BulkOptions{Rate: f.rate, DryRun: f.dry, Max: f.max}
	if f.rate < 0 || f.rate > 1_000_000 {
		return o, usagef("--rate is %d, want 1 to 1000000 a second, or 0 for no limit", f.rate)
	}
	if f.max < 0 {
		return o, usagef("--max is %d, want 1 or more, or 0 for all", f.max)
	}
	o.Filter, err = f.filter.options()
	return o, err
}

const requeueLong = `Make dead letters live again, each at the end of the queue it came from, with fresh attempts and a new id. Its task keeps
its name; its redrives go up by one.

With --all, everything that passes the filters and had died when the command began is requeued, in batches between which
other work goes on; --rate says how fast, --dry-run only shows which. Interrupted, it can be run again.

With one id, what is given of --body, --body-file, --set-header, --priority, --content-type, --set-kind, --key, --ttl,
--timeout, --retry, --delay and --at replaces what the message had; all headers are replaced together.`

func newDLQRequeue(c *cli) *cobra.Command {
	var f bulkFlags
	var e editFlags
	cmd := &cobra.Command{
		Use:   "requeue QUEUE [ID…]",
		Short: "Make dead letters live again, with fresh attempts and new ids",
		Long:  requeueLong,
		Example: "  quorate dlq requeue orders 0000G000000000000C0000007G\n" +
			"  quorate dlq requeue orders --all --reason expired --rate 200 --dry-run\n" +
			"  quorate dlq requeue orders 0000G000000000000C0000007G --body-file fixed.json --priority 9",
	}
	f.bind(cmd)
	e.bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m, fields, err := e.message(c, cmd)
		if err != nil {
			return err
		}
		switch {
		case len(fields) == 0:
		case f.all || len(args) != 2:
			return usagef("--%s edits one dead letter: give one id", fields[0].flag)
		default:
			return c.with(func(ctx context.Context, cl *client.Client, args []string) error {
				names := make([]string, len(fields))
				for i := range fields {
					names[i] = fields[i].field
				}
				r, err := cl.RequeueEdited(ctx, args[0], args[1], m, names...)
				if err != nil {
					return err
				}
				return c.oneRequeued(args[1], r.ID)
			})(cmd, args)
		}
		return c.deadVerb(cmd, args, &f, "requeued", func(ctx context.Context, cl *client.Client, queue string, ids []string) ([]client.Receipt, []error) {
			return cl.Requeue(ctx, queue, ids...)
		}, (*client.Client).RequeueWhere, func(t *client.Task, r client.Receipt) error { return c.oneRequeued(t.ID, r.ID) })
	}
	return cmd
}

func newDLQDelete(c *cli) *cobra.Command {
	var f bulkFlags
	cmd := &cobra.Command{
		Use:   "delete QUEUE [ID…]",
		Short: "Delete dead letters",
		Long: `Delete dead letters for good, by id, or with --all everything that passes the filters and had died when the command
began; --rate says how fast, --dry-run only shows which.`,
		Example: "  quorate dlq delete orders --all --kind report --until 168h",
	}
	f.bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.deadVerb(cmd, args, &f, "deleted", func(ctx context.Context, cl *client.Client, queue string, ids []string) ([]client.Receipt, []error) {
			return make([]client.Receipt, len(ids)), cl.DeleteDead(ctx, queue, ids...)
		}, (*client.Client).DeleteDeadWhere, func(t *client.Task, _ client.Receipt) error { return c.oneDeleted(t.ID) })
	}
	return cmd
}

func (c *cli) oneRequeued(id, now string) error {
	if c.asJSON() {
		return c.jsonLine(map[string]any{"id": id, "new_id": now})
	}
	_, err := fmt.Fprintf(c.stdout, "%s is now %s\n", id, now)
	return err
}

func (c *cli) oneDeleted(id string) error {
	if c.asJSON() {
		return c.jsonLine(map[string]any{"id": id, "deleted": true})
	}
	_, err := fmt.Fprintf(c.stdout, "%s deleted\n", id)
	return err
}

func (c *cli) oneFailed(id string, err error) {
	fmt.Fprintf(c.stderr, "quorate: %s: %v\n", id, err)
}

type (
	idsVerb   func(ctx context.Context, cl *client.Client, queue string, ids []string) ([]client.Receipt, []error)
	whereVerb func(cl *client.Client, ctx context.Context, queue string, o client.BulkOptions) (client.BulkResult, error)
)

// deadVerb does to the given ids, or to all that pass the filter, what a verb does. Those that fail are said and the others go
// on; the first failure gives the exit code.
func (c *cli) deadVerb(cmd *cobra.Command, args []string, f *bulkFlags, done string, byID idsVerb, where whereVerb, one func(*client.Task, client.Receipt) error) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	return c.with(func(ctx context.Context, cl *client.Client, args []string) error {
		if !f.all {
			return c.deadByID(ctx, cl, args[0], args[1:], byID, one)
		}
		o.Each = func(t *client.Task, r client.Receipt, err error) error {
			switch {
			case o.DryRun:
				return c.wouldBe(t)
			case err == nil:
				return one(t, r)
			case errors.Is(err, client.ErrNotFound) && t.Origin == "": // somebody was faster
			default:
				c.oneFailed(t.ID, err)
			}
			return nil
		}
		r, err := where(cl, ctx, args[0], o)
		switch {
		case r.Matched == 0 && err != nil: // which says it all
		case r.Matched == 0:
			fmt.Fprintf(c.stderr, "0 matched: nothing %s\n", done)
		case o.DryRun:
			fmt.Fprintf(c.stderr, "%d would be %s\n", r.Matched, done)
		default:
			fmt.Fprintf(c.stderr, "%d %s, %d failed, %d gone before\n", r.Done, done, r.Failed, r.Gone)
		}
		if err == nil && r.First != nil {
			err = &exitError{code: codeOf(r.First), err: fmt.Errorf("%d of %d failed", r.Failed, r.Matched)}
		}
		return err
	})(cmd, args)
}

// wouldBe shows a dead letter of a dry run.
func (c *cli) wouldBe(t *client.Task) error {
	if c.asJSON() {
		return c.jsonLine(map[string]any{"id": t.ID, "reason": t.Reason, "kind": t.Kind, "failed_at": stamp(t.EndedAt), "dry_run": true})
	}
	_, err := fmt.Fprintf(c.stdout, "%s %s %s %s\n", t.ID, t.Reason, timestamp(t.EndedAt), printable(t.Kind))
	return err
}

func (c *cli) deadByID(ctx context.Context, cl *client.Client, queue string, ids []string, byID idsVerb, one func(*client.Task, client.Receipt) error) error {
	recs, errs := byID(ctx, cl, queue, ids)
	var first error
	failed := 0
	for i, err := range errs {
		if err == nil {
			if err := one(&client.Task{ID: ids[i]}, recs[i]); err != nil {
				return err
			}
			continue
		}
		c.oneFailed(ids[i], err)
		failed++
		if first == nil {
			first = err
		}
	}
	if first != nil {
		return &exitError{code: codeOf(first), err: fmt.Errorf("%d of %d failed", failed, len(ids))}
	}
	return nil
}
