package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorate/quorate/client"
)

// declarations are the queues and schedules that a node's configuration declares.
//
// The node that leads creates or updates them by the ordinary requests, once after its start: what is so already is not
// written. After that they are only looked at, each time the node comes to lead, and what has been changed since is reported
// as drift and left as it is: who changes a queue by hand wins until the next start. Nothing is deleted because it has gone
// from the file. All nodes should have the same declarations: with others, each would bring in its own when it first leads.
type declarations struct {
	queues    []declaredQueue
	schedules []declaredSchedule
}

// difference is one value that is not as declared.
type difference struct{ kind, name, key, declared, actual string }

func (d difference) String() string {
	return fmt.Sprintf("%s %s: %s is %s, declared %s", d.kind, d.name, d.key, d.actual, d.declared)
}

const missing = "missing"

// apply makes what is declared so, and says what it did.
func (d *declarations) apply(ctx context.Context, cl *client.Client, log *slog.Logger) error {
	for i := range d.queues {
		q := &d.queues[i]
		o, diffs, err := d.queue(ctx, cl, q)
		if err != nil {
			return err
		}
		if len(diffs) == 0 {
			continue
		}
		if diffs[0].actual == missing {
			err = cl.CreateQueue(ctx, q.Name, o)
		} else {
			only := make([]string, len(diffs))
			for i := range diffs {
				only[i] = diffs[i].key
			}
			err = cl.ChangeQueue(ctx, q.Name, o, only...)
		}
		if errors.Is(err, client.ErrFailedPrecondition) || errors.Is(err, client.ErrInvalidArgument) {
			log.Warn("declared queue cannot be made so at present", "queue", q.Name, "err", err, "differs", texts(diffs))
			continue
		}
		if err != nil {
			return fmt.Errorf("declared queue %q: %w", q.Name, err)
		}
		log.Info("declared queue applied", "queue", q.Name, "changed", texts(diffs))
	}
	for i := range d.schedules {
		s := &d.schedules[i]
		want, diffs, err := d.schedule(ctx, cl, s)
		if err != nil {
			return err
		}
		if len(diffs) == 0 {
			continue
		}
		err = cl.SetSchedule(ctx, want)
		if errors.Is(err, client.ErrNotFound) || errors.Is(err, client.ErrInvalidArgument) {
			log.Warn("declared schedule cannot be made so", "schedule", s.Name, "err", err)
			continue
		}
		if err != nil {
			return fmt.Errorf("declared schedule %q: %w", s.Name, err)
		}
		log.Info("declared schedule applied", "schedule", s.Name, "changed", texts(diffs))
	}
	return nil
}

func texts(ds []difference) string {
	all := make([]string, len(ds))
	for i := range ds {
		all[i] = ds[i].key + ": " + ds[i].actual + " → " + ds[i].declared
	}
	return strings.Join(all, "; ")
}

// diff is everything that is not as declared.
func (d *declarations) diff(ctx context.Context, cl *client.Client) (all []difference, err error) {
	for i := range d.queues {
		_, ds, err := d.queue(ctx, cl, &d.queues[i])
		if err != nil {
			return nil, err
		}
		all = append(all, ds...)
	}
	for i := range d.schedules {
		_, ds, err := d.schedule(ctx, cl, &d.schedules[i])
		if err != nil {
			return nil, err
		}
		all = append(all, ds...)
	}
	return all, nil
}

// queue is what a queue should be, and where it is not.
func (d *declarations) queue(ctx context.Context, cl *client.Client, q *declaredQueue) (client.QueueOptions, []difference, error) {
	o := q.options()
	is, err := cl.Queue(ctx, q.Name)
	switch {
	case errors.Is(err, client.ErrNotFound):
		return o, []difference{{"queue", q.Name, "it", "there", missing}}, nil
	case err != nil:
		return o, nil, fmt.Errorf("declared queue %q: %w", q.Name, err)
	case q.Paused == nil:
		o.Paused = is.Options.Paused
	}
	return o, compare("queue", q.Name, optionsJSON(o), optionsJSON(is.Options)), nil
}

// schedule is what a schedule should be, and where it is not.
func (d *declarations) schedule(ctx context.Context, cl *client.Client, s *declaredSchedule) (client.Schedule, []difference, error) {
	want := s.schedule()
	is, err := cl.Schedule(ctx, s.Name)
	switch {
	case errors.Is(err, client.ErrNotFound):
		return want, []difference{{"schedule", s.Name, "it", "there", missing}}, nil
	case err != nil:
		return want, nil, fmt.Errorf("declared schedule %q: %w", s.Name, err)
	case s.Paused == nil:
		want.Paused = is.Paused
	}
	return want, compare("schedule", s.Name, declaredValues(want), declaredValues(is.Schedule)), nil
}

// declaredValues are the values of a schedule that can be declared.
func declaredValues(s client.Schedule) map[string]any {
	m := &s.Message
	priority := 4
	if m.Priority != nil {
		priority = *m.Priority
	}
	return map[string]any{
		"queue": s.Queue, "cron": s.Cron, "zone": zoneName(s.Zone), "jitter_ms": s.Jitter.Milliseconds(), "missed": s.Missed,
		"paused": s.Paused, "body": string(m.Body), "kind": m.Kind, "content_type": m.ContentType, "priority": priority,
		"key": string(m.Key), "headers": fmt.Sprintf("%q", m.Headers), "ttl_ms": m.TTL.Milliseconds(), "timeout_ms": m.Timeout.Milliseconds(),
		"retry": formatRetry(m.Retry), "keys_if_undelivered": fmt.Sprintf("%q", m.KeysIfUndelivered),
	}
}

func compare(kind, name string, declared, actual map[string]any) (ds []difference) {
	for k, v := range declared {
		if want, got := fmt.Sprint(v), fmt.Sprint(actual[k]); want != got {
			ds = append(ds, difference{kind, name, k, valueText(v), valueText(actual[k])})
		}
	}
	sort.Slice(ds, func(i, j int) bool { return ds[i].key < ds[j].key })
	return ds
}

// valueText is a value as people read it: lists and tables as JSON.
func valueText(v any) string {
	switch reflect.ValueOf(v).Kind() {
	case reflect.Map, reflect.Slice:
		if b, err := json.Marshal(v); err == nil {
			return string(b)
		}
	case reflect.Invalid: // nil
		return ""
	}
	return fmt.Sprint(v)
}

// keep applies the declarations when the node first leads, and reports drift when it comes to lead again, until ctx ends.
func (d *declarations) keep(ctx context.Context, log *slog.Logger, addr string, leads func() bool) {
	if len(d.queues)+len(d.schedules) == 0 {
		return
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	applied, looked := false, false
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if !leads() {
			looked = false
			continue
		}
		if looked {
			continue
		}
		if err := d.look(ctx, log, addr, applied); err != nil {
			if ctx.Err() == nil {
				log.Warn("declared queues and schedules: trying again", "err", err)
			}
			continue
		}
		applied, looked = true, true
	}
}

// lookWithin bounds one look at what is declared.
const lookWithin = 30 * time.Second

func (d *declarations) look(ctx context.Context, log *slog.Logger, addr string, applied bool) error {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	cl, err := client.Open(ctx, client.Options{Addrs: []string{addr}, Name: "quorate-declared/" + version})
	if err != nil {
		return err
	}
	defer func() { _ = cl.Close(ctx) }() // everything has been answered
	if !applied {
		return d.apply(ctx, cl, log)
	}
	ds, err := d.diff(ctx, cl)
	for i := range ds {
		log.Warn("drift from the declaration", "what", ds[i].String())
	}
	return err
}

func newConfig(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Compare the cluster with what quorate.toml declares",
		Args:  noSuchVerb,
		RunE:  needsVerb,
	}
	var file string
	diff := &cobra.Command{
		Use:   "diff --config quorate.toml",
		Short: "Show where queues and schedules are not as the file declares them; exit 1 if any is not",
		Args:  cobra.NoArgs,
	}
	diff.Flags().StringVar(&file, "config", "", "quorate.toml")
	diff.RunE = func(cmd *cobra.Command, args []string) error {
		if file == "" {
			return usagef("--config is needed: the file with the declarations")
		}
		cfg, err := resolve(file, pflag.NewFlagSet("", pflag.ContinueOnError), os.LookupEnv)
		if err != nil {
			return usagef("%v", err)
		}
		d := declarations{queues: cfg.Queues, schedules: cfg.Schedules}
		return c.with(func(ctx context.Context, cl *client.Client, _ []string) error {
			ds, err := d.diff(ctx, cl)
			if err != nil {
				return err
			}
			switch {
			case c.asJSON():
				all := []map[string]string{}
				for _, f := range ds {
					all = append(all, map[string]string{"kind": f.kind, "name": f.name, "key": f.key, "declared": f.declared, "actual": f.actual})
				}
				err = c.json(all)
			case len(ds) == 0:
				_, err = fmt.Fprintln(c.stdout, "nothing differs")
			default:
				rows := make([][]string, 0, len(ds))
				for _, f := range ds {
					rows = append(rows, []string{f.kind, f.name, f.key, f.declared, f.actual})
				}
				err = c.table([]string{"KIND", "NAME", "KEY", "DECLARED", "ACTUAL"}, rows)
			}
			switch {
			case err != nil || len(ds) == 0:
			case len(ds) == 1:
				err = errors.New("one value is not as declared")
			default:
				err = fmt.Errorf("%d values are not as declared", len(ds))
			}
			return err
		})(cmd, args)
	}
	cmd.AddCommand(diff)
	return cmd
}
