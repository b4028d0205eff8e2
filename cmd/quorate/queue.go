package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
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
