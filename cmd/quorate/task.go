package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

func newTask(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "task", Short: "See where a task stands; cancel or change it", Args: noSuchVerb, RunE: needsVerb}
	var queue string
	status := &cobra.Command{
		Use:   "status TASK",
		Short: "Show a task's state and attempts",
		Long: `Show where a task stands: scheduled, pending, processing, retrying, succeeded, dead or cancelled, with its last eight
failed attempts.

Of a task that has ended less is kept. A dead one is kept whole until it is requeued, deleted or past its retention.
One that succeeded with a result: the result, how many attempts it took and which worker was the last, as long as the
result is kept. One that succeeded without a result, or was cancelled: that it did so and when, for ten minutes.`,
		Example: "  quorate task status invoice-17 --queue billing",
		Args:    cobra.ExactArgs(1),
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			t, err := cl.Task(ctx, queue, args[0])
			if err != nil {
				return err
			}
			return c.printTask(*t)
		}),
	}
	status.Flags().StringVar(&queue, "queue", "", "needed where the task id is the producer's own")
	cmd.AddCommand(status, newTaskCancel(c), newTaskReschedule(c), newTaskReplace(c))
	return cmd
}

// printTask shows everything known of one task or dead letter.
func (c *cli) printTask(t client.Task) error {
	if c.asJSON() {
		return c.json(taskJSON(t))
	}
	pairs := []string{"id", t.ID, "original id", t.OriginalID, "task id", t.TaskID, "queue", t.Queue, "origin", t.Origin, "held", t.Held, "not moved", t.Stay, "kind", t.Kind, "status", t.Status,
		"attempts", attemptsOf(t), "held attempts", heldAttemptsOf(t), "reason", t.Reason, "error", t.Error, "worker", t.Worker,
		"redrives", count(t.Redrives), "enqueued", timestamp(t.EnqueuedAt), "due", timestamp(t.DueAt), "lease ends", timestamp(t.LeaseEndsAt),
		"expires", timestamp(t.ExpiresAt), "ended", timestamp(t.EndedAt), "content type", t.ContentType, "key", string(t.Key)}
	for _, h := range t.Headers {
		pairs = append(pairs, "header", h.Name+"="+h.Value)
	}
	err := c.fields(append(pairs, "body", excerpt(t.Body))...)
	if err != nil || len(t.History) == 0 {
		return err
	}
	rows := make([][]string, 0, len(t.History))
	for _, a := range t.History {
		rows = append(rows, []string{fmt.Sprint(a.Number), timestamp(a.At), a.Worker, a.Error})
	}
	return c.table([]string{"ATTEMPT", "FAILED", "WORKER", "ERROR"}, rows)
}

// attemptsOf is how many attempts there were, and of how many where that is still known: an ended task keeps no policy. Of what was
// moved to a dead-letter queue and lives there it says where they were.
func attemptsOf(t client.Task) string {
	s := fmt.Sprint(t.Attempts)
	if t.MaxAttempts != 0 {
		s = fmt.Sprintf("%d of %d", t.Attempts, t.MaxAttempts)
	}
	if t.HeldMaxAttempts != 0 {
		s += ", in queue " + t.Origin
	}
	return s
}

// heldAttemptsOf is how many attempts it had where it was moved to.
func heldAttemptsOf(t client.Task) string {
	if t.HeldMaxAttempts == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d, in queue %s", t.HeldAttempts, t.HeldMaxAttempts, t.Queue)
}

func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return when(t.UnixMilli())
}

func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// taskJSON is the JSON of a task, message or dead letter; times are Unix milliseconds, the body base64, the ordering key as
// orderingKey writes it, in "key", or "key_base64" where it is not text.
func taskJSON(t client.Task) map[string]any {
	m := map[string]any{
		"id": t.ID, "original_id": t.OriginalID, "task_id": t.TaskID, "queue": t.Queue, "kind": t.Kind, "status": t.Status,
		"priority": t.Priority, "attempts": t.Attempts, "max_attempts": t.MaxAttempts, "redrives": t.Redrives,
		"enqueued_at": stamp(t.EnqueuedAt),
	}
	set := func(k string, v any, ok bool) {
		if ok {
			m[k] = v
		}
	}
	set("due_at", stamp(t.DueAt), !t.DueAt.IsZero())
	set("lease_ends_at", stamp(t.LeaseEndsAt), !t.LeaseEndsAt.IsZero())
	set("expires_at", stamp(t.ExpiresAt), !t.ExpiresAt.IsZero())
	set("failed_at", stamp(t.EndedAt), t.Status == "dead")
	set("ended_at", stamp(t.EndedAt), t.Status != "dead" && !t.EndedAt.IsZero())
	set("original_created_at", stamp(t.OriginalEnqueuedAt), !t.OriginalEnqueuedAt.IsZero())
	set("origin_queue", t.Origin, t.Origin != "")
	set("held", t.Held, t.Held != "")
	set("held_attempts", t.HeldAttempts, t.HeldMaxAttempts != 0)
	set("held_max_attempts", t.HeldMaxAttempts, t.HeldMaxAttempts != 0)
	set("not_moved", t.Stay, t.Stay != "")
	set("worker", t.Worker, t.Worker != "")
	set("reason", t.Reason, t.Reason != "")
	set("error_message", t.Error, t.Error != "" || t.Status == "dead")
	set("content_type", t.ContentType, t.ContentType != "")
	set("body", t.Body, t.Body != nil)
	setKey(m, t.Key)
	if len(t.Headers) > 0 {
		m["headers"] = headerMap(t.Headers)
	}
	if len(t.History) > 0 {
		var hs []map[string]any
		for _, a := range t.History {
			hs = append(hs, map[string]any{"attempt": a.Number, "at": stamp(a.At), "worker": a.Worker, "error": a.Error})
		}
		m["history"] = hs
	}
	return m
}

// orderingKey is an ordering key for JSON and CSV, which hold text alone: as it is, with the encoding "text", or where it is not
// UTF-8 in base64, with "base64". Without a key both are empty.
func orderingKey(key []byte) (text, encoding string) {
	switch {
	case len(key) == 0:
		return "", ""
	case utf8.Valid(key):
		return string(key), "text"
	}
	return base64.StdEncoding.EncodeToString(key), "base64"
}

// setKey puts a message's ordering key into its JSON, if it has one.
func setKey(m map[string]any, key []byte) {
	switch text, encoding := orderingKey(key); encoding {
	case "text":
		m["key"] = text
	case "base64":
		m["key_base64"] = text
	}
}

// headerMap is headers for JSON, by name.
func headerMap(hs []client.Header) map[string]string {
	m := make(map[string]string, len(hs))
	for _, h := range hs {
		m[h.Name] = h.Value
	}
	return m
}

func tasksJSON(ts []client.Task) []map[string]any {
	out := make([]map[string]any, 0, len(ts))
	for _, t := range ts {
		out = append(out, taskJSON(t))
	}
	return out
}
