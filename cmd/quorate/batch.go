package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

func newBatch(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "batch",
		Short: "Have a message enqueued when many others are done",
		Long: `A batch has members, which are messages of any queues, and a callback, a message that is enqueued once: when the
batch is sealed and every member has ended, be it done, dead or cancelled. The callback says how many in its headers
batch_members, batch_succeeded, batch_dead and batch_cancelled, and which batch in batch_id. A batch that is not sealed
within a week ends without. A member that died has ended; that it is brought back later changes nothing.`,
		Example: "  b=$(quorate batch create reports 'all pages are in')\n" +
			"  quorate batch add $b pages --lines < urls.txt\n" +
			"  quorate batch seal $b\n" +
			"  quorate batch show $b",
		Args: noSuchVerb, RunE: needsVerb,
	}
	cmd.AddCommand(newBatchCreate(c), newBatchAdd(c), newBatchSeal(c), newBatchShow(c))
	return cmd
}

func newBatchCreate(c *cli) *cobra.Command {
	var f enqueueFlags
	cmd := &cobra.Command{
		Use:   "create QUEUE [BODY]",
		Short: "Make a batch whose callback goes to QUEUE with BODY; prints its id",
		Args:  cobra.RangeArgs(1, 2),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.file, "file", "", "read the callback's body from this file; - is standard input")
	fl.StringVar(&f.kind, "kind", "", "task type of the callback")
	fl.StringVar(&f.contentType, "content-type", "", "of the body")
	fl.StringArrayVar(&f.headers, "header", nil, "name=value; may be given more than once")
	fl.IntVar(&f.priority, "priority", 4, "0 to 9, 9 first")
	fl.StringVar(&f.key, "key", "", "ordering key")
	fl.Var(&f.delay, "delay", "deliver the callback no sooner than this after the last member's end")
	fl.StringVar(&f.retry, "retry", "", "retry policy instead of the queue's: "+retryHelp)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m, err := f.message()
		if err != nil {
			return err
		}
		if err := f.source(args); err != nil {
			return err
		}
		return c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			switch {
			case f.file == "-":
				m.Body, err = io.ReadAll(io.LimitReader(c.stdin, maxLine))
			case f.file != "":
				m.Body, err = os.ReadFile(f.file)
			case len(args) == 2:
				m.Body = []byte(args[1])
			}
			if err != nil {
				return fmt.Errorf("read the body: %w", err)
			}
			id, err := cl.CreateBatch(ctx, args[0], m)
			if err != nil {
				return err
			}
			if c.asJSON() {
				return c.jsonLine(map[string]any{"batch": id})
			}
			fmt.Fprintln(c.stdout, id)
			return nil
		})(cmd, args)
	}
	return cmd
}

// newBatchAdd is enqueue with the batch before the queue.
func newBatchAdd(c *cli) *cobra.Command {
	cmd := newEnqueue(c)
	enqueue := cmd.RunE
	cmd.Use, cmd.Short, cmd.Args = "add BATCH QUEUE [BODY]", "Add messages to a queue as members of a batch; prints their ids", cobra.RangeArgs(2, 3)
	cmd.Long = "Add messages to a queue as members of a batch. The same as quorate enqueue QUEUE --batch BATCH."
	cmd.Example = "  quorate batch add 00000G0000000000G000000002 pages --lines < urls.txt"
	cmd.Flags().Lookup("batch").Hidden = true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := cmd.Flags().Set("batch", args[0]); err != nil {
			return usagef("batch %q: %v", args[0], err)
		}
		if args[0] == "" {
			return usagef("the batch is empty, want the id that batch create printed")
		}
		return enqueue(cmd, args[1:])
	}
	return cmd
}

func newBatchSeal(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "seal BATCH",
		Short: "Close a batch: no more members; its callback comes when the last one has ended",
		Args:  cobra.ExactArgs(1),
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			if err := cl.SealBatch(ctx, args[0]); err != nil {
				return err
			}
			if c.asJSON() {
				return c.jsonLine(map[string]any{"batch": args[0], "sealed": true})
			}
			fmt.Fprintf(c.stdout, "%s sealed\n", args[0])
			return nil
		}),
	}
}

func newBatchShow(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "show BATCH",
		Short: "Show a batch's counts; one that is done is known for an hour",
		Args:  cobra.ExactArgs(1),
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			b, err := cl.Batch(ctx, args[0])
			if err != nil {
				return err
			}
			status := "open"
			switch {
			case !b.FinishedAt.IsZero():
				status = "done"
			case b.Sealed:
				status = "sealed"
			}
			if c.asJSON() {
				m := map[string]any{
					"batch": b.ID, "status": status, "members": b.Members, "open": b.Open, "succeeded": b.Succeeded, "dead": b.Dead,
					"cancelled": b.Cancelled, "created_at": stamp(b.CreatedAt),
				}
				if status == "done" {
					m["finished_at"], m["callback_id"] = stamp(b.FinishedAt), b.CallbackID
				} else {
					m["queue"] = b.Queue
				}
				return c.json(m)
			}
			return c.fields("batch", b.ID, "status", status, "members", fmt.Sprint(b.Members), "open", fmt.Sprint(b.Open),
				"succeeded", fmt.Sprint(b.Succeeded), "dead", fmt.Sprint(b.Dead), "cancelled", fmt.Sprint(b.Cancelled),
				"created", timestamp(b.CreatedAt), "finished", timestamp(b.FinishedAt), "forgotten", timestamp(b.EndsAt),
				"callback queue", b.Queue, "callback", b.CallbackID)
		}),
	}
}
