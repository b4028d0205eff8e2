package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// leasedMessage is the JSON of a message that is out.
type leasedMessage struct {
	ID          string            `json:"id"`
	Token       string            `json:"token"`
	TaskID      string            `json:"task_id"`
	Attempt     int               `json:"attempt"`
	LeaseLeftMS int64             `json:"lease_left_ms"`
	AtMostOnce  bool              `json:"at_most_once,omitempty"` // it is done: there is nothing to ack, and no lease
	Kind        string            `json:"kind,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Priority    int               `json:"priority"`
	Key         string            `json:"key,omitempty"`
	KeyBase64   string            `json:"key_base64,omitempty"` // instead of key, where that is not text
	Headers     map[string]string `json:"headers,omitempty"`
	Body        []byte            `json:"body"`
}

func newLease(c *cli) *cobra.Command {
	var most int
	var wait, lease millis
	var worker string
	cmd := &cobra.Command{
		Use:   "lease QUEUE",
		Short: "Take messages by hand; ack, nack, extend or release them by token",
		Args:  cobra.ExactArgs(1),
		PreRunE: func(*cobra.Command, []string) error {
			if most < 1 || most > 1000 {
				return usagef("--max is %d, want 1 to 1000", most)
			}
			return nil
		},
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			ds, err := cl.Lease(ctx, args[0], client.LeaseOptions{Max: most, Wait: wait.duration(), Lease: lease.duration(), Worker: worker})
			if err != nil {
				return err
			}
			if c.asJSON() {
				out := make([]leasedMessage, 0, len(ds))
				for _, d := range ds {
					m := leasedMessage{ID: d.ID, Token: d.Token, TaskID: d.TaskID, Attempt: d.Attempt, LeaseLeftMS: leaseLeft(d).Milliseconds(),
						Kind: d.Kind, ContentType: d.ContentType, Priority: d.Priority, Body: d.Body, AtMostOnce: d.AtMostOnce}
					if key, encoding := orderingKey(d.Key); encoding == "base64" {
						m.KeyBase64 = key
					} else {
						m.Key = key
					}
					if m.Body == nil {
						m.Body = []byte{}
					}
					for _, h := range d.Headers {
						if m.Headers == nil {
							m.Headers = map[string]string{}
						}
						m.Headers[h.Name] = h.Value
					}
					out = append(out, m)
				}
				return c.json(out)
			}
			rows := make([][]string, 0, len(ds))
			for _, d := range ds {
				left := leaseLeft(d).String()
				if d.AtMostOnce {
					left = "done"
				}
				rows = append(rows, []string{d.Token, fmt.Sprint(d.Attempt), left, excerpt(d.Body)})
			}
			return c.table([]string{"TOKEN", "ATTEMPT", "LEFT", "BODY"}, rows)
		}),
	}
	f := cmd.Flags()
	f.IntVar(&most, "max", 1, "how many at most, 1 to 1000")
	f.Var(&wait, "wait", "how long to wait for the first")
	f.Var(&lease, "lease", "lease length (default: the queue's)")
	f.StringVar(&worker, "worker", "", "name shown while it is out (default host:pid)")
	return cmd
}

// excerpt is the start of a body for a table.
func excerpt(b []byte) string {
	const most = 60
	if len(b) > most {
		return string(b[:most]) + "…"
	}
	return string(b)
}

func newAck(c *cli) *cobra.Command {
	var result, contentType string
	cmd := &cobra.Command{
		Use:   "ack TOKEN",
		Short: "End a lease with success, with a result if wanted",
		Args:  cobra.ExactArgs(1),
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			var o client.AckOptions
			if result != "" {
				b, err := c.readFileOrStdin(result)
				if err != nil {
					return fmt.Errorf("read the result: %w", err)
				}
				o.Result = &client.Result{Output: b, ContentType: contentType}
			}
			a, err := cl.Ack(ctx, args[0], o)
			if err != nil {
				return err
			}
			if c.asJSON() {
				return c.json(map[string]any{"ok": true, "duplicate": a.Duplicate})
			}
			if a.Duplicate {
				fmt.Fprintln(c.stdout, "done (a result was recorded before; it stands)")
				return nil
			}
			fmt.Fprintln(c.stdout, "done")
			return nil
		}),
	}
	cmd.Flags().StringVar(&result, "result", "", "record the contents of this file as the result; - is standard input")
	cmd.Flags().StringVar(&contentType, "content-type", "", "of the result")
	return cmd
}

func (c *cli) readFileOrStdin(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(c.stdin)
	}
	return os.ReadFile(name)
}

func newNack(c *cli) *cobra.Command {
	var text string
	var delay millis
	var permanent bool
	cmd := &cobra.Command{
		Use:   "nack TOKEN",
		Short: "End a lease with failure: retried later, or dead",
		Args:  cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&text, "error", "", "what went wrong; kept with the message")
	f.Var(&delay, "delay", "retry after this long instead of what the policy says; 0 is at once")
	f.BoolVar(&permanent, "permanent", false, "no retry: dead at once")
	cmd.RunE = c.with(func(ctx context.Context, cl *client.Client, args []string) error {
		o := client.NackOptions{Error: text, Permanent: permanent}
		if f.Changed("delay") {
			d := delay.duration()
			o.Delay = &d
		}
		n, err := cl.Nack(ctx, args[0], o)
		if err != nil {
			return err
		}
		state := "retrying"
		if n.Dead {
			state = "dead"
		}
		if c.asJSON() {
			out := map[string]any{"ok": true, "status": state}
			if !n.DueAt.IsZero() {
				out["due_at"] = n.DueAt.UnixMilli()
			}
			return c.json(out)
		}
		if n.Dead {
			fmt.Fprintln(c.stdout, "dead")
			return nil
		}
		fmt.Fprintf(c.stdout, "retrying, due %s\n", when(n.DueAt.UnixMilli()))
		return nil
	})
	return cmd
}

func newExtend(c *cli) *cobra.Command {
	var lease millis
	cmd := &cobra.Command{
		Use:   "extend TOKEN",
		Short: "Hold a lease for longer, counted from now",
		Args:  cobra.ExactArgs(1),
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			e, err := cl.Extend(ctx, args[0], lease.duration())
			if err != nil {
				return err
			}
			if c.asJSON() {
				return c.json(map[string]any{"lease_left_ms": e.Left.Milliseconds()})
			}
			fmt.Fprintf(c.stdout, "%s left\n", e.Left)
			return nil
		}),
	}
	cmd.Flags().Var(&lease, "lease", "from now (default: the queue's lease)")
	return cmd
}

func newRelease(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "release TOKEN",
		Short: "Give a message back; costs no attempt",
		Args:  cobra.ExactArgs(1),
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			if err := cl.Release(ctx, args[0]); err != nil {
				return err
			}
			if c.asJSON() {
				return c.json(map[string]any{"ok": true})
			}
			fmt.Fprintln(c.stdout, "released")
			return nil
		}),
	}
}

// leaseLeft is what remains of a lease, never below zero.
func leaseLeft(d *client.Delivery) time.Duration {
	return max(0, time.Until(d.Deadline)).Round(time.Millisecond)
}
