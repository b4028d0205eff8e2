package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

const queueOfTask = "the task's queue; needed where the task id is the producer's own"

func newTaskCancel(c *cli) *cobra.Command {
	var queue string
	cmd := &cobra.Command{
		Use:   "cancel TASK",
		Short: "End a task: it is not run any more, and has no result",
		Long: `Cancel a task that is scheduled, pending, retrying or out. It is cancelled at once: whoever waits for its result is
told, and nothing brings it back.

Where a worker has it, the worker is told to stop (also one that was away, when it comes back), and what it returns is
dropped. Its place counts as taken until it has answered or its lease has run out.

A task that is done or dead cannot be cancelled. Cancelling twice is fine. A cancelled task is remembered for ten minutes.`,
		Example: "  quorate task cancel 00000G0000000000G000000002\n  quorate task cancel invoice-17 --queue billing",
		Args:    cobra.ExactArgs(1),
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			o, err := cl.Cancel(ctx, queue, args[0])
			if err != nil {
				return err
			}
			if c.asJSON() {
				return c.json(map[string]any{"id": o.ID, "out": o.Out, "duplicate": o.Duplicate})
			}
			switch {
			case o.Duplicate:
				_, err = fmt.Fprintln(c.stdout, "it was cancelled before")
			case o.Out:
				_, err = fmt.Fprintln(c.stdout, "cancelled; a worker has it and is told to stop")
			default:
				_, err = fmt.Fprintln(c.stdout, "cancelled")
			}
			return err
		}),
	}
	cmd.Flags().StringVar(&queue, "queue", "", queueOfTask)
	return cmd
}

// timeFlags say when a waiting task is due.
type timeFlags struct {
	cmd            *cobra.Command
	delay, maxWait millis
	at             string
}

func (f *timeFlags) bind(cmd *cobra.Command) {
	f.cmd = cmd
	fl := cmd.Flags()
	fl.Var(&f.delay, "delay", "due so long from now; 0 is now")
	fl.StringVar(&f.at, "at", "", "due then (RFC 3339)")
	fl.Var(&f.maxWait, "max-wait", "with --delay: never due later than so long after the enqueue, however often it is put off")
}

func (f *timeFlags) options() (o client.RescheduleOptions, err error) {
	changed := f.cmd.Flags().Changed
	switch {
	case changed("delay") && f.at != "":
		return o, usagef("give only one of --delay and --at")
	case changed("max-wait") && !changed("delay"):
		return o, usagef("--max-wait caps --delay, which is missing")
	case changed("max-wait") && f.maxWait == 0:
		return o, usagef("--max-wait is 0, want more")
	}
	if changed("delay") {
		o.Delay = client.After(f.delay.duration())
	}
	if f.at != "" {
		if o.At, err = time.Parse(time.RFC3339, f.at); err != nil {
			return o, usagef("--at is %q, want a time such as 2026-12-24T18:00:00Z", f.at)
		}
	}
	o.MaxWait = f.maxWait.duration()
	return o, nil
}

// rescheduled prints when a task is due now.
func (c *cli) rescheduled(r client.Rescheduled) error {
	if c.asJSON() {
		m := map[string]any{"id": r.ID, "status": "pending"}
		if !r.DueAt.IsZero() {
			m["status"], m["due_at"] = "scheduled", stamp(r.DueAt)
		}
		return c.json(m)
	}
	if r.DueAt.IsZero() {
		_, err := fmt.Fprintln(c.stdout, "pending")
		return err
	}
	_, err := fmt.Fprintf(c.stdout, "scheduled, due %s\n", timestamp(r.DueAt))
	return err
}

func newTaskReschedule(c *cli) *cobra.Command {
	var queue string
	var when timeFlags
	cmd := &cobra.Command{
		Use:   "reschedule TASK (--delay D | --at TIME)",
		Short: "Give a task that waits another time",
		Long: `Give a task that is scheduled, pending or retrying another time. It keeps its body, attempts and expiry and takes a new
place in its queue. One that a worker has, or that has ended, stays as it is: that is an error.

With --max-wait it is a debounce: each call puts the task off by --delay, but never beyond so long after its enqueue.`,
		Example: "  quorate task reschedule invoice-17 --queue billing --at 2026-12-24T18:00:00Z\n" +
			"  quorate task reschedule reindex --queue search --delay 5s --max-wait 1m",
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&queue, "queue", "", queueOfTask)
	when.bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o, err := when.options()
		if err != nil {
			return err
		}
		if o.Delay == nil && when.at == "" {
			return usagef("there is no time: give --delay or --at")
		}
		return c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			r, err := cl.Reschedule(ctx, queue, args[0], o)
			if err != nil {
				return err
			}
			return c.rescheduled(r)
		})(cmd, args)
	}
	return cmd
}

func newTaskReplace(c *cli) *cobra.Command {
	var queue, file, contentType string
	var when timeFlags
	cmd := &cobra.Command{
		Use:   "replace TASK [BODY]",
		Short: "Give a task that waits another body",
		Long: `Give a task that is scheduled, pending or retrying another body: the argument, or the contents of --file (- is standard
input). It keeps everything else, its time too unless --delay or --at is given, and takes a new place in its queue. A
worker that had it before and answers late is refused, since its work was for the old body.

One that a worker has, or that has ended, stays as it is: that is an error.`,
		Example: "  quorate task replace digest-today --queue mail '{\"news\": 12}' --delay 10s --max-wait 5m",
		Args:    cobra.RangeArgs(1, 2),
	}
	f := cmd.Flags()
	f.StringVar(&queue, "queue", "", queueOfTask)
	f.StringVar(&file, "file", "", "read the body from this file; - is standard input")
	f.StringVar(&contentType, "content-type", "", "of the body (default: stays)")
	when.bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o, err := when.options()
		if err != nil {
			return err
		}
		r := client.ReplaceOptions{ContentType: contentType, RescheduleOptions: o}
		switch {
		case len(args) == 2 && file != "":
			return usagef("give BODY or --file, not both")
		case len(args) == 2:
			r.Body = []byte(args[1])
		case file == "":
			return usagef("there is no body: give it as an argument (empty: '') or with --file")
		default:
			if r.Body, err = c.readFileOrStdin(file); err != nil {
				return failed(fmt.Errorf("read the body: %w", err))
			}
		}
		return c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			out, err := cl.Replace(ctx, queue, args[0], r)
			if err != nil {
				return err
			}
			return c.rescheduled(out)
		})(cmd, args)
	}
	return cmd
}
