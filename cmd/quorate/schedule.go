package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

func newSchedule(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedule",
		Short: "Put messages into queues again and again, by a cron expression",
		Long: `Put messages into queues again and again, by a cron expression.

Each fire time has exactly one message, whoever leads the cluster. Its task id is NAME@TIME with the fire time in Unix
milliseconds, so "quorate result wait NAME@TIME --queue QUEUE" waits for a run; the headers schedule and schedule_at say
the same to the worker.

Times are read on the clock of the schedule's time zone: one that the clock leaps over in spring does not come that day,
one that it passes twice in autumn comes twice. UTC has neither.

A fire time whose message the queue does not take (it is full, or missing and not to be made) is counted as refused,
with the reason, and not tried again. One that nobody could fire for a minute, because the cluster had no leader, is
missed: --missed says what then.`,
		Args: noSuchVerb,
		RunE: needsVerb,
	}
	cmd.AddCommand(newScheduleCreate(c), newScheduleSet(c), newScheduleList(c), newScheduleShow(c), newSchedulePause(c, true),
		newSchedulePause(c, false), newScheduleDelete(c))
	return cmd
}

// scheduleFlags are the flags of create and set.
type scheduleFlags struct {
	queue, cron, zone, missed, body, file, kind, key, contentType, retry string
	headers, lostKeys                                                    []string
	jitter, ttl, timeout                                                 millis
	priority                                                             int
	paused                                                               bool
}

func (f *scheduleFlags) bind(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.queue, "queue", "", "where the messages go")
	fl.StringVar(&f.cron, "cron", "", `"minute hour day month weekday", seconds before them if wanted; @daily and the like; "@every 90s"`)
	fl.StringVar(&f.zone, "zone", "", "time zone, such as Europe/Berlin (default UTC)")
	fl.Var(&f.jitter, "jitter", "each firing is late by up to this, at most 24h")
	fl.StringVar(&f.missed, "missed", "skip", "of times missed for want of a leader, make up for: skip (none), once (the latest), all (the latest 100)")
	fl.BoolVar(&f.paused, "paused", false, "do not fire until resumed")
	fl.StringVar(&f.body, "body", "", "body of the messages")
	fl.StringVar(&f.file, "file", "", "read the body from this file; - is standard input")
	fl.IntVar(&f.priority, "priority", 4, "0 to 9, 9 first")
	fl.StringVar(&f.key, "key", "", "ordering key")
	fl.StringVar(&f.kind, "kind", "", "task type, for handlers and metrics")
	fl.StringVar(&f.contentType, "content-type", "", "of the body")
	fl.StringArrayVar(&f.headers, "header", nil, "name=value; may be given more than once")
	fl.StringArrayVar(&f.lostKeys, "key-if-undelivered", nil, "KV key that gets the body if a message dies (orders/17); up to 16 times")
	fl.StringVar(&f.retry, "retry", "", "retry policy instead of the queue's: "+retryHelp)
	fl.Var(&f.ttl, "ttl", "a message expires this long after it was made")
	fl.Var(&f.timeout, "timeout", "how long one attempt may run in all")
}

// apply lays the flags that were given over s.
func (f *scheduleFlags) apply(c *cli, cmd *cobra.Command, s *client.Schedule) error {
	given := cmd.Flags().Changed
	if given("body") && given("file") {
		return usagef("give only one of --body and --file")
	}
	m := &s.Message
	for _, t := range []struct {
		flag string
		set  func()
	}{
		{"queue", func() { s.Queue = f.queue }},
		{"cron", func() { s.Cron = f.cron }},
		{"zone", func() {
			if s.Zone = f.zone; f.zone == "UTC" { // the same as none is
				s.Zone = ""
			}
		}},
		{"jitter", func() { s.Jitter = f.jitter.duration() }},
		{"missed", func() { s.Missed = f.missed }},
		{"paused", func() { s.Paused = f.paused }},
		{"body", func() { m.Body = []byte(f.body) }},
		{"priority", func() { m.Priority = client.Priority(f.priority) }},
		{"key", func() { m.Key = []byte(f.key) }},
		{"kind", func() { m.Kind = f.kind }},
		{"content-type", func() { m.ContentType = f.contentType }},
		{"ttl", func() { m.TTL = f.ttl.duration() }},
		{"timeout", func() { m.Timeout = f.timeout.duration() }},
	} {
		if given(t.flag) {
			t.set()
		}
	}
	if given("header") {
		m.Headers = nil
		for _, h := range f.headers {
			k, v, ok := strings.Cut(h, "=")
			if !ok {
				return usagef("--header is %q, want name=value", h)
			}
			m.Headers = append(m.Headers, client.Header{Name: k, Value: v})
		}
	}
	if given("key-if-undelivered") {
		m.KeysIfUndelivered = nil
		for _, k := range f.lostKeys {
			key, err := parseKey(k)
			if err != nil {
				return usagef("--key-if-undelivered: %v", err)
			}
			m.KeysIfUndelivered = append(m.KeysIfUndelivered, key)
		}
	}
	if given("retry") {
		p, err := parseRetry(f.retry)
		if err != nil {
			return usagef("--%w", err)
		}
		m.Retry = p
	}
	var err error
	switch {
	case f.file == "-":
		m.Body, err = io.ReadAll(c.stdin)
	case f.file != "":
		m.Body, err = os.ReadFile(f.file)
	}
	if err != nil {
		return fmt.Errorf("read the body: %w", err)
	}
	return nil
}

func newScheduleCreate(c *cli) *cobra.Command {
	var f scheduleFlags
	cmd := &cobra.Command{
		Use:   "create NAME --queue QUEUE --cron EXPRESSION",
		Short: "Create a schedule; the same again is fine, another of that name is refused",
		Example: "  quorate schedule create nightly --queue reports --cron '0 3 * * *' --zone Europe/Berlin --missed once --body all\n" +
			"  quorate schedule create poll --queue feeds --cron '@every 30s' --jitter 10s",
		Args: cobra.ExactArgs(1),
	}
	f.bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s := client.Schedule{Name: args[0]}
		if err := f.apply(c, cmd, &s); err != nil {
			return err
		}
		if s.Queue == "" || s.Cron == "" {
			return usagef("--queue and --cron are needed, as in: quorate schedule create %s --queue QUEUE --cron '0 3 * * *'", s.Name)
		}
		return c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			is, err := cl.Schedule(ctx, s.Name)
			if err != nil && !errors.Is(err, client.ErrNotFound) {
				return err
			}
			existed := err == nil
			err = cl.CreateSchedule(ctx, s)
			if existed && errors.Is(err, client.ErrAlreadyExists) {
				want := s
				want.Missed = cmp.Or(s.Missed, is.Missed) // both have a default, and it is the same where it was not given
				return another("schedule", s.Name, err, declaredValues(want), declaredValues(is.Schedule))
			}
			if err != nil {
				return err
			}
			return c.created(s.Name, existed)
		})(cmd, args)
	}
	return cmd
}

func newScheduleSet(c *cli) *cobra.Command {
	var f scheduleFlags
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Change a schedule; what is not given stays",
		Args:  cobra.ExactArgs(1),
	}
	f.bind(cmd)
	cmd.RunE = c.with(func(ctx context.Context, cl *client.Client, args []string) error {
		in, err := cl.Schedule(ctx, args[0])
		if err != nil {
			return err
		}
		if err := f.apply(c, cmd, &in.Schedule); err != nil {
			return err
		}
		if err := cl.SetSchedule(ctx, in.Schedule); err != nil {
			return err
		}
		return c.done("changed " + args[0])
	})
	return cmd
}

func newSchedulePause(c *cli, pause bool) *cobra.Command {
	cmd := &cobra.Command{Use: "pause NAME", Short: "Stop firing; nothing is made up for later", Args: cobra.ExactArgs(1)}
	done := "paused "
	if !pause {
		cmd.Use, cmd.Short, done = "resume NAME", "Fire again, from the next time on", "resumed "
	}
	cmd.RunE = c.with(func(ctx context.Context, cl *client.Client, args []string) error {
		in, err := cl.Schedule(ctx, args[0])
		if err != nil {
			return err
		}
		in.Paused = pause
		if err := cl.SetSchedule(ctx, in.Schedule); err != nil {
			return err
		}
		return c.done(done + args[0])
	})
	return cmd
}

func scheduleJSON(s *client.ScheduleInfo) map[string]any {
	zone := s.Zone
	if zone == "" {
		zone = "UTC"
	}
	v := map[string]any{
		"name": s.Name, "queue": s.Queue, "cron": s.Cron, "zone": zone, "jitter_ms": s.Jitter.Milliseconds(), "missed": s.Missed,
		"paused": s.Paused, "created_at": millisOf(s.CreatedAt), "changed_at": millisOf(s.ChangedAt), "next_at": millisOf(s.NextAt),
		"due_at": millisOf(s.DueAt), "last_at": millisOf(s.LastAt), "last_id": s.LastID, "fired": s.Fired, "skipped": s.Skipped,
		"refused": s.Refused, "refused_at": millisOf(s.RefusedAt), "refusal": s.Refusal,
	}
	return v
}

func millisOf(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

func newScheduleList(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List all schedules with their next and last times",
		Args:  cobra.NoArgs,
		RunE: c.with(func(ctx context.Context, cl *client.Client, _ []string) error {
			all := []map[string]any{}
			var rows [][]string
			for after := ""; ; {
				ss, next, err := cl.Schedules(ctx, after, 1000)
				if err != nil {
					return err
				}
				for i := range ss {
					s := &ss[i]
					all = append(all, scheduleJSON(s))
					rows = append(rows, []string{s.Name, s.Queue, s.Cron, zoneName(s.Zone), nextText(s), timestamp(s.LastAt),
						fmt.Sprint(s.Fired), fmt.Sprint(s.Skipped), fmt.Sprint(s.Refused)})
				}
				if after = next; next == "" {
					break
				}
			}
			if c.asJSON() {
				return c.json(all)
			}
			return c.table([]string{"SCHEDULE", "QUEUE", "CRON", "ZONE", "NEXT", "LAST", "FIRED", "SKIPPED", "REFUSED"}, rows)
		}),
	}
}

func zoneName(z string) string {
	if z == "" {
		return "UTC"
	}
	return z
}

// nextText is the next fire time, or why there is none.
func nextText(s *client.ScheduleInfo) string {
	switch {
	case s.Paused:
		return "paused"
	case s.NextAt.IsZero():
		return "none"
	}
	return timestamp(s.NextAt)
}

func newScheduleShow(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a schedule, its message and what became of its times",
		Args:  cobra.ExactArgs(1),
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			s, err := cl.Schedule(ctx, args[0])
			if err != nil {
				return err
			}
			m := &s.Message
			if c.asJSON() {
				v := scheduleJSON(&s)
				msg := map[string]any{
					"body": m.Body, "kind": m.Kind, "content_type": m.ContentType, "headers": headerMap(m.Headers),
					"ttl_ms": m.TTL.Milliseconds(), "timeout_ms": m.Timeout.Milliseconds(), "retry": formatRetry(m.Retry),
				}
				keys := []client.Key{}
				msg["keys_if_undelivered"] = append(keys, m.KeysIfUndelivered...)
				setKey(msg, m.Key)
				if m.Priority != nil {
					msg["priority"] = *m.Priority
				}
				v["message"] = msg
				return c.json(v)
			}
			pairs := []string{"name", s.Name, "queue", s.Queue, "cron", s.Cron, "zone", zoneName(s.Zone)}
			if s.Jitter > 0 {
				pairs = append(pairs, "jitter", s.Jitter.String())
			}
			pairs = append(pairs, "missed", s.Missed, "next", nextText(&s))
			if !s.DueAt.Equal(s.NextAt) {
				pairs = append(pairs, "due", timestamp(s.DueAt))
			}
			pairs = append(pairs, "last", timestamp(s.LastAt), "last message", s.LastID, "fired", fmt.Sprint(s.Fired), "skipped",
				fmt.Sprint(s.Skipped), "refused", fmt.Sprint(s.Refused), "last refused", timestamp(s.RefusedAt), "because", s.Refusal,
				"created", timestamp(s.CreatedAt), "changed", timestamp(s.ChangedAt), "kind", m.Kind, "content-type", m.ContentType,
				"key", string(m.Key), "retry", formatRetry(m.Retry))
			if m.Priority != nil {
				pairs = append(pairs, "priority", fmt.Sprint(*m.Priority))
			}
			if m.TTL > 0 {
				pairs = append(pairs, "ttl", m.TTL.String())
			}
			if m.Timeout > 0 {
				pairs = append(pairs, "timeout", m.Timeout.String())
			}
			for _, k := range m.KeysIfUndelivered {
				pairs = append(pairs, "key if undelivered", keyText(k))
			}
			for _, h := range m.Headers {
				pairs = append(pairs, "header", h.Name+"="+h.Value)
			}
			return c.fields(append(pairs, "body", excerpt(m.Body))...)
		}),
	}
}

func newScheduleDelete(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "delete NAME",
		Short: "Remove a schedule; messages that it has made stay",
		Args:  cobra.ExactArgs(1),
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			if err := cl.DeleteSchedule(ctx, args[0]); err != nil {
				return err
			}
			return c.done("deleted " + args[0])
		}),
	}
}
