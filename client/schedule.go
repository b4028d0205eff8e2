package client

import (
	"context"
	"time"

	"github.com/quorate/quorate/wire"
)

// Schedule says when which message goes into which queue, again and again. Each fire time has exactly one message, whoever
// leads the cluster; its task id is Name@fire time in Unix ms, and its headers schedule and schedule_at say the same.
type Schedule struct {
	Name    string // 1–96 bytes, made of what queue names are made of
	Queue   string
	Cron    string        // minute hour day month weekday, seconds before them if wanted; @daily and the like; @every 90s
	Zone    string        // IANA name of a time zone, such as Europe/Berlin; empty: UTC
	Jitter  time.Duration // each firing is late by up to this, by the same whoever leads; ≤ 24 h
	Missed  string        // of times that nobody could fire for a minute: "skip" (default) none, "once" the latest, "all" the latest 100
	Paused  bool          // nothing is fired, and nothing made up for when it goes on
	Message Message       // without TaskID, DedupKey, Delay, EnqueueAt and Batch; at most 62 headers
}

// ScheduleInfo is a schedule and what became of its times.
type ScheduleInfo struct {
	Schedule
	CreatedAt, ChangedAt time.Time
	NextAt               time.Time // the next fire time; zero: paused, none to come, or not computed yet
	DueAt                time.Time // NextAt and its jitter
	LastAt               time.Time // fire time of the last message
	LastID               string    // of the last message
	Fired                int64     // messages made
	Skipped              int64     // fire times passed over by the policy for missed ones
	Refused              int64     // fire times whose message the queue did not take
	RefusedAt            time.Time // the last of them
	Refusal              string    // why
}

func (s *Schedule) wire() (w wire.Schedule, err error) {
	w = wire.Schedule{
		Name: s.Name, Queue: s.Queue, Cron: s.Cron, Zone: s.Zone, JitterMillis: millis(s.Jitter), Missed: s.Missed, Paused: s.Paused,
	}
	return w, s.Message.wire(&w.Message)
}

func scheduleOf(w *wire.ScheduleInfo) ScheduleInfo {
	s, m := &w.Schedule, &w.Schedule.Message
	in := ScheduleInfo{
		Schedule: Schedule{
			Name: s.Name, Queue: s.Queue, Cron: s.Cron, Zone: s.Zone, Jitter: time.Duration(s.JitterMillis) * time.Millisecond,
			Missed: s.Missed, Paused: s.Paused,
			Message: Message{
				Body: clone(m.Body), Kind: m.Kind, ContentType: m.ContentType, Headers: headersOf(m.Headers), Key: clone(m.Key),
				TTL: time.Duration(m.TTLMillis) * time.Millisecond, Timeout: time.Duration(m.TimeoutMillis) * time.Millisecond,
				Retry: retryOf(m.Retry),
			},
		},
		CreatedAt: timeOf(w.CreatedAt), ChangedAt: timeOf(w.ChangedAt), NextAt: timeOf(w.NextAt), DueAt: timeOf(w.DueAt),
		LastAt: timeOf(w.LastAt), LastID: w.LastID, Fired: w.Fired, Skipped: w.Skipped, Refused: w.Refused,
		RefusedAt: timeOf(w.RefusedAt), Refusal: w.Refusal,
	}
	for _, k := range m.KeysIfUndelivered {
		in.Message.KeysIfUndelivered = append(in.Message.KeysIfUndelivered, k)
	}
	if m.Priority != nil {
		in.Message.Priority = Priority(int(*m.Priority))
	}
	return in
}

func (c *Client) writeSchedule(ctx context.Context, t wire.Type, s Schedule) error {
	w, err := s.wire()
	if err != nil {
		return err
	}
	b := &wire.ScheduleWrite{Schedule: w, Request: firstRequest}
	if f := b.Validate(c.maxMessage.Load()); f != nil {
		return errorOf(f)
	}
	return sendRequest[wire.OK](ctx, c, t, b, &b.Request, 1, 1024+messageSize(&w.Message), nil)
}

// CreateSchedule makes a schedule. One that exists and is the same is success, another ErrAlreadyExists.
func (c *Client) CreateSchedule(ctx context.Context, s Schedule) error {
	return c.writeSchedule(ctx, wire.TypeScheduleCreate, s)
}

// SetSchedule replaces a schedule, or makes it. Its next fire time stays unless expression or zone change or it was paused.
func (c *Client) SetSchedule(ctx context.Context, s Schedule) error {
	return c.writeSchedule(ctx, wire.TypeScheduleSet, s)
}

// DeleteSchedule removes a schedule. Messages that it has made stay.
func (c *Client) DeleteSchedule(ctx context.Context, name string) error {
	b := &wire.ScheduleRef{Name: name, Request: firstRequest}
	if f := b.Validate(); f != nil {
		return errorOf(f)
	}
	return sendRequest[wire.OK](ctx, c, wire.TypeScheduleDelete, b, &b.Request, 1, 0, nil)
}

// Schedule reads one schedule.
func (c *Client) Schedule(ctx context.Context, name string) (s ScheduleInfo, err error) {
	b := &wire.ScheduleRef{Name: name}
	if f := b.Validate(); f != nil {
		return s, errorOf(f)
	}
	err = ask(ctx, c, wire.TypeScheduleShow, b, func(v *wire.ScheduleIs) error { s = scheduleOf(&v.Schedule); return nil })
	return s, err
}

// Schedules lists schedules by name, without their messages, at most limit (1–1000, 0: 100) after the cursor; next is the
// cursor for more, empty at the end.
func (c *Client) Schedules(ctx context.Context, after string, limit int) (ss []ScheduleInfo, next string, err error) {
	b := &wire.ScheduleList{After: after, Limit: int32of(limit)}
	if f := b.Validate(); f != nil {
		return nil, "", errorOf(f)
	}
	err = ask(ctx, c, wire.TypeScheduleList, b, func(v *wire.Schedules) error {
		ss, next = make([]ScheduleInfo, len(v.Schedules)), v.Next
		for i := range v.Schedules {
			ss[i] = scheduleOf(&v.Schedules[i])
		}
		return nil
	})
	return ss, next, err
}
