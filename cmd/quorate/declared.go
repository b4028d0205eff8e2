package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cluster/calendar"
	"github.com/quorate/quorate/transport"
	"github.com/quorate/quorate/transport/hook"
	"github.com/quorate/quorate/wire"
)

// declaredRetry is [queue.retry] and [schedule.retry].
type declaredRetry struct {
	Kind            string  `toml:"kind"`
	Steps           []int64 `toml:"steps_ms"`
	InitialMillis   int64   `toml:"initial_ms"`
	MultiplierMilli int64   `toml:"multiplier_milli"`
	MaxMillis       int64   `toml:"max_ms"`
	MaxAttempts     int32   `toml:"max_attempts"`
	JitterMillis    int64   `toml:"jitter_ms"`
}

// declaredQueue is one [[queue]]; what it leaves out is the default.
type declaredQueue struct {
	Name                string         `toml:"name"`
	Ordering            string         `toml:"ordering"`
	LeaseMillis         int64          `toml:"lease_ms"`
	Retry               *declaredRetry `toml:"retry"`
	MaxDead             int64          `toml:"max_dead"`
	DeadOverflow        string         `toml:"dead_overflow"`
	DeadLetterQueue     string         `toml:"dead_letter_queue"`
	DeadRetentionMillis int64          `toml:"dead_letter_retention_ms"`
	DedupWindowMillis   int64          `toml:"dedup_window_ms"`
	DedupMaxKeys        int64          `toml:"dedup_max_keys"`
	ResultTTLMillis     int64          `toml:"result_ttl_ms"`
	MaxResultsBytes     int64          `toml:"max_results_bytes"`
	MaxDepth            int64          `toml:"max_depth"`
	MaxBytes            int64          `toml:"max_bytes"`
	Overflow            string         `toml:"overflow"`
	Delivery            string         `toml:"delivery"`
	MaxInFlight         int64          `toml:"max_in_flight"`
	MaxAgeMillis        int64          `toml:"max_age_ms"`
	Paused              *bool          `toml:"paused"` // absent: as it is, so that a start ends nobody's pause
	Rate                float64        `toml:"rate"`
	Burst               int64          `toml:"burst"`
	MaxInFlightPerKey   int64          `toml:"max_in_flight_per_key"`
	RatePerKey          float64        `toml:"rate_per_key"`
	BurstPerKey         int64          `toml:"burst_per_key"`
	FairBy              string         `toml:"fair_by"`
	FairWeights         map[string]int `toml:"fair_weights"`
	PushURL             string         `toml:"push_url"`
	PushConcurrency     int64          `toml:"push_concurrency"`
	PushTimeoutMillis   int64          `toml:"push_timeout_ms"`
	PushSecrets         []string       `toml:"push_secrets"`
	PushPermanent       []int64        `toml:"push_permanent"`
	PushHeaders         []string       `toml:"push_headers"`
	Schema              string         `toml:"schema"`
	Map                 string         `toml:"map"`
	MapTo               *declaredMapTo `toml:"map_to"`
}

// declaredMapTo is [queue.map_to].
type declaredMapTo struct {
	Queue      string `toml:"queue"`
	Expression string `toml:"expression"`
}

// declaredSchedule is one [[schedule]].
type declaredSchedule struct {
	Name          string            `toml:"name"`
	Queue         string            `toml:"queue"`
	Cron          string            `toml:"cron"`
	Zone          string            `toml:"zone"`
	JitterMillis  int64             `toml:"jitter_ms"`
	Missed        string            `toml:"missed"`
	Paused        *bool             `toml:"paused"` // absent: as it is
	Body          string            `toml:"body"`
	Kind          string            `toml:"kind"`
	ContentType   string            `toml:"content_type"`
	Priority      *int64            `toml:"priority"`
	Key           string            `toml:"key"`
	Headers       map[string]string `toml:"headers"`
	TTLMillis     int64             `toml:"ttl_ms"`
	TimeoutMillis int64             `toml:"timeout_ms"`
	Retry         *declaredRetry    `toml:"retry"`
	// KeysIfUndelivered are lists of strings, as keys of the KV are: a text would leave open what a slash in it means.
	KeysIfUndelivered [][]string `toml:"keys_if_undelivered"`
}

const (
	retryKeys         = "kind, steps_ms, initial_ms, multiplier_milli, max_ms, max_attempts, jitter_ms"
	declaredQueueKeys = "name, ordering, lease_ms, retry, max_dead, dead_overflow, dead_letter_queue, dead_letter_retention_ms, dedup_window_ms, " +
		"dedup_max_keys, result_ttl_ms, max_results_bytes, max_depth, max_bytes, max_in_flight, max_age_ms, paused, overflow, delivery, rate, burst, " +
		"max_in_flight_per_key, rate_per_key, burst_per_key, fair_by, fair_weights, " +
		"push_url, push_concurrency, push_timeout_ms, push_secrets, push_permanent, push_headers, schema, map, map_to"
	mapToKeys            = "queue, expression"
	declaredScheduleKeys = "name, queue, cron, zone, jitter_ms, missed, paused, body, kind, content_type, priority, key, headers, " +
		"ttl_ms, timeout_ms, retry, keys_if_undelivered"
)

// declaredHelp is the keys that would be right where key is unknown, "" if it is of no declared table.
func declaredHelp(key string) string {
	switch {
	case strings.HasPrefix(key, "queue.retry.") || strings.HasPrefix(key, "schedule.retry."):
		return retryKeys
	case strings.HasPrefix(key, "hook.verify."):
		return verifyKeys
	case strings.HasPrefix(key, "hook.idempotency."):
		return idempotencyKeys
	case strings.HasPrefix(key, "hook."): // the decoder does not say in which table between braces a key stands
		return declaredHookKeys + "; of verify: " + verifyKeys + "; of idempotency: " + idempotencyKeys
	case strings.HasPrefix(key, "queue.map_to."):
		return mapToKeys
	case strings.HasPrefix(key, "queue."):
		return declaredQueueKeys
	case strings.HasPrefix(key, "schedule."):
		return declaredScheduleKeys
	}
	return ""
}

func (r *declaredRetry) wire() *wire.RetryPolicy {
	if r == nil {
		return nil
	}
	return &wire.RetryPolicy{
		Kind: r.Kind, Steps: r.Steps, InitialMillis: r.InitialMillis, MultiplierMilli: r.MultiplierMilli, MaxMillis: r.MaxMillis,
		MaxAttempts: r.MaxAttempts, JitterMillis: r.JitterMillis,
	}
}

func (q *declaredQueue) wire() wire.QueueOptions {
	w := wire.QueueOptions{
		LeaseMillis: q.LeaseMillis, Retry: q.Retry.wire(), MaxDead: q.MaxDead, DeadOverflow: q.DeadOverflow, DeadLetterQueue: q.DeadLetterQueue,
		DeadRetentionMillis: q.DeadRetentionMillis, DedupWindowMillis: q.DedupWindowMillis, DedupMaxKeys: q.DedupMaxKeys,
		ResultTTLMillis: q.ResultTTLMillis, MaxResultsBytes: q.MaxResultsBytes, Ordering: q.Ordering,
		MaxDepth: q.MaxDepth, MaxBytes: q.MaxBytes, MaxInFlight: q.MaxInFlight, MaxAgeMillis: q.MaxAgeMillis,
		Paused: q.Paused != nil && *q.Paused, RateMilli: milliOf(q.Rate), Burst: q.Burst,
		MaxInFlightPerKey: q.MaxInFlightPerKey, RatePerKeyMilli: milliOf(q.RatePerKey), BurstPerKey: q.BurstPerKey, FairBy: q.FairBy,
		FairWeights: weightsWire(q.FairWeights),
		Overflow:    q.Overflow, Delivery: q.Delivery,
		PushURL: q.PushURL, PushConcurrency: q.PushConcurrency, PushTimeoutMillis: q.PushTimeoutMillis, PushSecrets: q.PushSecrets,
		PushPermanent: q.PushPermanent, PushHeaders: q.PushHeaders,
		Schema: q.Schema, Map: q.Map,
	}
	if q.MapTo != nil {
		w.MapTo = &wire.MapTo{Queue: q.MapTo.Queue, Expression: q.MapTo.Expression}
	}
	return w
}

func (s *declaredSchedule) wire() wire.Schedule {
	w := wire.Schedule{
		Name: s.Name, Queue: s.Queue, Cron: s.Cron, Zone: s.Zone, JitterMillis: s.JitterMillis, Missed: s.Missed,
		Paused: s.Paused != nil && *s.Paused,
		Message: wire.Message{
			Body: wire.Bytes(s.Body), Kind: s.Kind, ContentType: s.ContentType, Key: wire.Bytes(s.Key), TTLMillis: s.TTLMillis,
			TimeoutMillis: s.TimeoutMillis, Retry: s.Retry.wire(), KeysIfUndelivered: s.KeysIfUndelivered,
		},
	}
	for _, h := range s.headers() {
		w.Message.Headers = append(w.Message.Headers, wire.Header{Name: h.Name, Value: h.Value})
	}
	return w
}

// headers are in the order of names: a table of TOML has none.
func (s *declaredSchedule) headers() (hs []client.Header) {
	for n, v := range s.Headers {
		hs = append(hs, client.Header{Name: n, Value: v})
	}
	slices.SortFunc(hs, func(a, b client.Header) int { return strings.Compare(a.Name, b.Name) })
	return hs
}

func durationMillis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// options are what the broker will show: defaults filled in.
func (q *declaredQueue) options() client.QueueOptions {
	o := transport.NormalOptions(q.wire())
	w := client.QueueOptions{
		Lease: durationMillis(o.LeaseMillis), Retry: retryPolicy(o.Retry), MaxDead: o.MaxDead, DeadOverflow: o.DeadOverflow, DeadLetterQueue: o.DeadLetterQueue,
		DeadRetention: durationMillis(o.DeadRetentionMillis), DedupWindow: durationMillis(o.DedupWindowMillis),
		DedupMaxKeys: o.DedupMaxKeys, ResultTTL: durationMillis(o.ResultTTLMillis), MaxResultsBytes: o.MaxResultsBytes,
		Ordering: o.Ordering, MaxDepth: o.MaxDepth, MaxBytes: o.MaxBytes, MaxInFlight: o.MaxInFlight,
		MaxAge: durationMillis(o.MaxAgeMillis), Paused: o.Paused, Rate: float64(o.RateMilli) / 1000, Burst: o.Burst,
		MaxInFlightPerKey: o.MaxInFlightPerKey, RatePerKey: float64(o.RatePerKeyMilli) / 1000, BurstPerKey: o.BurstPerKey, FairBy: o.FairBy,
		FairWeights: q.FairWeights,
		Overflow:    o.Overflow, Delivery: o.Delivery,
		PushURL: o.PushURL, PushConcurrency: o.PushConcurrency, PushTimeout: durationMillis(o.PushTimeoutMillis), PushSecrets: o.PushSecrets,
		PushPermanent: o.PushPermanent, PushHeaders: o.PushHeaders,
		Schema: o.Schema, Map: o.Map,
	}
	if o.MapTo != nil {
		w.MapTo = client.MapTo{Queue: o.MapTo.Queue, Expression: o.MapTo.Expression}
	}
	return w
}

func retryPolicy(w *wire.RetryPolicy) *client.RetryPolicy {
	if w == nil {
		return nil
	}
	p := &client.RetryPolicy{
		Kind: w.Kind, Initial: durationMillis(w.InitialMillis), Multiplier: float64(w.MultiplierMilli) / 1000,
		Max: durationMillis(w.MaxMillis), MaxAttempts: int(w.MaxAttempts), Jitter: durationMillis(w.JitterMillis),
	}
	for _, s := range w.Steps {
		p.Steps = append(p.Steps, durationMillis(s))
	}
	return p
}

func (s *declaredSchedule) schedule() client.Schedule {
	out := client.Schedule{
		Name: s.Name, Queue: s.Queue, Cron: s.Cron, Zone: s.Zone, Jitter: durationMillis(s.JitterMillis), Missed: s.Missed,
		Paused: s.Paused != nil && *s.Paused,
		Message: client.Message{
			Body: []byte(s.Body), Kind: s.Kind, ContentType: s.ContentType, Key: []byte(s.Key), Headers: s.headers(),
			TTL: durationMillis(s.TTLMillis), Timeout: durationMillis(s.TimeoutMillis), Priority: client.Priority(wire.DefaultPriority),
		},
	}
	for _, k := range s.KeysIfUndelivered {
		out.Message.KeysIfUndelivered = append(out.Message.KeysIfUndelivered, k)
	}
	if out.Missed == "" {
		out.Missed = wire.MissedSkip
	}
	if s.Priority != nil {
		out.Message.Priority = client.Priority(int(*s.Priority))
	}
	if s.Retry != nil {
		out.Message.Retry = retryPolicy(transport.NormalOptions(wire.QueueOptions{Retry: s.Retry.wire()}).Retry)
	}
	return out
}

// checkDeclared judges all declared queues, schedules and hooks; lines are those of their keys.
func (r *resolved) checkDeclared(file string, lines map[string]int) error {
	at := func(table, field string) string {
		for f := field; f != ""; f = f[:max(0, strings.LastIndexAny(f, ".["))] {
			if l, ok := lines[table+"."+f]; ok {
				return fmt.Sprintf("%s:%d", file, l)
			}
		}
		return fmt.Sprintf("%s:%d", file, lines[table])
	}
	seen := map[string]string{}
	twice := func(table, name string) error {
		where := at(table, "name")
		key := table[:strings.IndexByte(table, '[')] + " " + name
		if first, ok := seen[key]; ok {
			return fmt.Errorf("%s: %q is declared at %s already; once would be right", where, name, first)
		}
		seen[key] = where
		return nil
	}
	for i := range r.Queues {
		q := &r.Queues[i]
		table := fmt.Sprintf("queue[%d]", i)
		o := q.wire()
		f := wire.CheckQueue("name", q.Name)
		if _, err := thousandthsOf(q.Rate); f == nil && err != nil {
			f = wire.Invalid("rate", "%v", err)
		}
		if _, err := thousandthsOf(q.RatePerKey); f == nil && err != nil {
			f = wire.Invalid("rate_per_key", "%v", err)
		}
		if f == nil {
			f = o.Validate()
		}
		if f == nil && q.DeadLetterQueue == q.Name {
			f = wire.Invalid("dead_letter_queue", "the queue itself; another one would be right")
		}
		if f == nil && q.MapTo != nil && q.MapTo.Queue == q.Name {
			f = wire.Invalid("map_to", "the queue itself; another one would be right")
		}
		if f == nil {
			f = transport.CheckMapping(&o)
		}
		if f != nil {
			return fmt.Errorf("%s, [[queue]] %q: %s", at(table, f.Field), q.Name, f.Message)
		}
		if err := twice(table, q.Name); err != nil {
			return err
		}
	}
	for i := range r.Schedules {
		s := &r.Schedules[i]
		table := fmt.Sprintf("schedule[%d]", i)
		w := s.wire()
		f := w.Validate(r.Limits.MaxMessageBytes)
		if f == nil && s.Priority != nil && (*s.Priority < 0 || *s.Priority > wire.MaxPriority) {
			f = wire.Invalid("priority", "%d; 0 to %d are allowed", *s.Priority, wire.MaxPriority)
		}
		if f == nil {
			f = checkTimes(s)
		}
		if f != nil {
			return fmt.Errorf("%s, [[schedule]] %q: %s", at(table, f.Field), s.Name, f.Message)
		}
		if err := twice(table, s.Name); err != nil {
			return err
		}
	}
	if n := len(r.Hooks); n > hook.MaxHooks {
		return fmt.Errorf("%s: %d hooks; at most %d are allowed", at("hook", ""), n, hook.MaxHooks)
	}
	for i := range r.Hooks {
		h := &r.Hooks[i]
		table := fmt.Sprintf("hook[%d]", i)
		if f := h.check(r.Limits.MaxMessageBytes); f != nil {
			return fmt.Errorf("%s, [[hook]] %q: %s", at(table, f.Field), h.Name, f.Message)
		}
		if err := twice(table, h.Name); err != nil {
			return err
		}
	}
	return nil
}

// checkTimes judges what the door will judge: that expression and zone mean something.
func checkTimes(s *declaredSchedule) *wire.Fault {
	zone, err := calendar.Zone(s.Zone)
	if err != nil {
		return wire.Invalid("zone", "%v", err)
	}
	c, err := calendar.Parse(s.Cron, zone)
	if err != nil {
		return wire.Invalid("cron", "%v", err)
	}
	if _, ok := c.Next(time.Now().UnixMilli()); !ok {
		return wire.Invalid("cron", "%.64q names no time within the next five years", s.Cron)
	}
	return nil
}

// checkDeclaredIn reads the file again for the lines; its text parses.
func (r *resolved) checkDeclaredIn(file string) error {
	if file == "" || len(r.Queues)+len(r.Schedules)+len(r.Hooks) == 0 {
		return nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	return r.checkDeclared(file, keyLines(bytes.Clone(b)))
}
