package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// newQueuePause makes `queue pause` and `queue resume`.
func newQueuePause(c *cli, pause bool) *cobra.Command {
	verb, did := "resume", "resumed"
	short := "Hand out a paused queue's messages again"
	if pause {
		verb, did = "pause", "paused"
		short = "Hand out no more of a queue's messages; enqueues, acks and nacks go on"
	}
	return &cobra.Command{
		Use:   verb + " QUEUE",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			if err := cl.ChangeQueue(ctx, args[0], client.QueueOptions{Paused: pause}, "paused"); err != nil {
				return err
			}
			return c.done(did + " " + args[0])
		}),
	}
}

// limit prints a number that 0 stands for none of.
func limit(n int64) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprint(n)
}

// lifetime prints a duration that 0 stands for no end of.
func lifetime(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return d.String()
}
