package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

func newResult(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "result", Short: "Read, record and stream results", Args: noSuchVerb, RunE: needsVerb}
	cmd.AddCommand(newResultGet(c), newResultWait(c), newResultPush(c), newResultList(c), newResultStream(c))
	return cmd
}

func newResultGet(c *cli) *cobra.Command {
	var queue string
	cmd := &cobra.Command{
		Use:   "get TASK",
		Short: "Print a task's recorded result; fails if there is none yet",
		Args:  cobra.ExactArgs(1),
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			r, err := cl.Result(ctx, queue, args[0])
			if err != nil {
				return err
			}
			return c.printResult(args[0], r)
		}),
	}
	cmd.Flags().StringVar(&queue, "queue", "", "needed where the task id is the producer's own")
	return cmd
}

func newResultWait(c *cli) *cobra.Command {
	var queue string
	timeout := millis(30_000)
	cmd := &cobra.Command{
		Use:   "wait TASK",
		Short: "Wait for a task's result and print it",
		Args:  cobra.ExactArgs(1),
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			ctx, cancel := context.WithTimeout(ctx, timeout.duration())
			defer cancel()
			r, err := cl.WaitResult(ctx, queue, args[0])
			if err != nil {
				return err
			}
			return c.printResult(args[0], r)
		}),
	}
	cmd.Flags().StringVar(&queue, "queue", "", "needed where the task id is the producer's own")
	cmd.Flags().Var(&timeout, "timeout", "how long to wait")
	return cmd
}

// printResult prints the output as it is, or all fields as JSON. A dead task is a failure that says why.
func (c *cli) printResult(task string, r *client.TaskResult) error {
	if r.Dead != nil {
		if c.asJSON() {
			if err := c.json(taskJSON(*r.Dead)); err != nil {
				return err
			}
		}
		if r.Dead.Error == "" { // a nack need not say why
			return fmt.Errorf("task %s is dead (%s)", task, r.Dead.Reason)
		}
		return fmt.Errorf("task %s is dead (%s): %s", task, r.Dead.Reason, r.Dead.Error)
	}
	res := r.Result
	if res == nil {
		res = &client.Result{TaskID: task}
	}
	if c.asJSON() {
		return c.json(resultJSON(res, r.Status, r.HasOutput))
	}
	_, err := c.stdout.Write(res.Output)
	return err
}

// resultJSON is the JSON of a result; times are Unix milliseconds, the output base64.
func resultJSON(res *client.Result, status string, hasOutput bool) map[string]any {
	out := res.Output
	if out == nil && hasOutput {
		out = []byte{}
	}
	m := map[string]any{"task_id": res.TaskID, "status": status, "output": out, "attempts": res.Attempts,
		"duration_ms": res.Duration.Milliseconds(), "worker": res.Worker, "recorded_at": stamp(res.RecordedAt)}
	if res.Kind != "" {
		m["kind"] = res.Kind
	}
	if res.ContentType != "" {
		m["content_type"] = res.ContentType
	}
	return m
}

func newResultPush(c *cli) *cobra.Command {
	var queue, file, kind, contentType string
	cmd := &cobra.Command{
		Use:   "push TASK [OUTPUT]",
		Short: "Record a result without a lease; the first one recorded stands",
		Args:  cobra.RangeArgs(1, 2),
	}
	f := cmd.Flags()
	f.StringVar(&queue, "queue", "", "the task's queue; needed where the task id is the producer's own")
	f.StringVar(&file, "file", "", "read the output from this file; - is standard input")
	f.StringVar(&kind, "kind", "", "task type to record")
	f.StringVar(&contentType, "content-type", "", "of the output")
	cmd.RunE = c.with(func(ctx context.Context, cl *client.Client, args []string) error {
		r := client.Result{ContentType: contentType, Output: []byte{}}
		switch {
		case len(args) == 2 && file != "":
			return usagef("give OUTPUT or --file, not both")
		case len(args) == 2:
			r.Output = []byte(args[1])
		case file != "":
			b, err := c.readFileOrStdin(file)
			if err != nil {
				return fmt.Errorf("read the output: %w", err)
			}
			r.Output = b
		}
		a, err := cl.PushResult(ctx, queue, args[0], kind, r)
		if err != nil {
			return err
		}
		if c.asJSON() {
			return c.json(map[string]any{"ok": true, "duplicate": a.Duplicate})
		}
		if a.Duplicate {
			fmt.Fprintln(c.stdout, "a result was recorded before; it stands")
			return nil
		}
		return c.done("recorded")
	})
	return cmd
}
