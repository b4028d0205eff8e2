package transport

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/cluster/calendar"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

var missedPolicies = map[string]fsm.MissedPolicy{
	"": fsm.MissedSkip, wire.MissedSkip: fsm.MissedSkip, wire.MissedOnce: fsm.MissedOnce, wire.MissedAll: fsm.MissedAll,
}

var missedNames = [...]string{fsm.MissedSkip: wire.MissedSkip, fsm.MissedOnce: wire.MissedOnce, fsm.MissedAll: wire.MissedAll}

// checkCalendar judges expression and zone, now being Unix ms.
func checkCalendar(cron, zone string, now int64) *wire.Fault {
	z, err := calendar.Zone(zone)
	if err != nil {
		return wire.Invalid("zone", "%v", err)
	}
	c, err := calendar.Parse(cron, z)
	if err != nil {
		return wire.Invalid("cron", "%v", err)
	}
	if _, ok := c.Next(now); !ok {
		return wire.Invalid("cron", "%.64q names no time within the next five years", cron)
	}
	return nil
}

// scheduleWrite creates a schedule or sets it.
func (c *conn) scheduleWrite(raw wire.Raw) bool {
	var req wire.ScheduleWrite
	check := func(w *wire.ScheduleWrite) *wire.Fault {
		if f := w.Validate(c.srv.cfg.MaxMessageBytes); f != nil {
			return f
		}
		return checkCalendar(w.Schedule.Cron, w.Schedule.Zone, c.srv.cfg.Broker.Clock().WallMillis())
	}
	if ok, alive := taken(c, raw, &req, check); !ok {
		return alive
	}
	request, f := c.request(req.Request)
	if f != nil {
		return c.fault(raw.Tag, f)
	}
	s := &req.Schedule
	if f := c.unlessAnswered(c.srv.schemas.judge(c.judging, s.Queue, "message.body", s.Message.Body)); f != nil {
		return c.fault(raw.Tag, f)
	}
	d := fsm.Schedule{
		Name: wire.View(s.Name), Queue: wire.View(s.Queue), Cron: wire.View(s.Cron), Zone: wire.View(s.Zone),
		JitterMillis: s.JitterMillis, Policy: missedPolicies[s.Missed], Paused: s.Paused, AutoCreate: !c.srv.cfg.NoAutoCreate,
	}
	setMessage(&d.Message, &s.Message)
	var op fsm.Op = &fsm.CreateSchedule{Request: request, Schedule: d}
	if raw.Type == wire.TypeScheduleSet {
		op = &fsm.SetSchedule{Request: request, Schedule: d}
	}
	k := c.prepare(raw.Tag, raw.Type, op)
	k.queue, k.tasks = s.Queue, append(k.tasks, s.Name)
	return true
}

func (c *conn) scheduleDelete(raw wire.Raw) bool {
	var req wire.ScheduleRef
	if ok, alive := taken(c, raw, &req, (*wire.ScheduleRef).Validate); !ok {
		return alive
	}
	request, f := c.request(req.Request)
	if f != nil {
		return c.fault(raw.Tag, f)
	}
	k := c.prepare(raw.Tag, raw.Type, &fsm.DeleteSchedule{Request: request, Name: wire.View(req.Name)})
	k.tasks = append(k.tasks, req.Name)
	return true
}

// scheduleInfo turns the state's view of a schedule into the protocol's.
func scheduleInfo(in *fsm.ScheduleInfo) wire.ScheduleInfo {
	w := wire.ScheduleInfo{
		Schedule: wire.Schedule{
			Name: in.Name, Queue: in.Queue, Cron: in.Cron, Zone: in.Zone, JitterMillis: in.JitterMillis,
			Missed: missedNames[in.Policy], Paused: in.Paused, Message: wireTemplate(&in.Message),
		},
		CreatedAt: in.CreatedAt, ChangedAt: in.ChangedAt, NextAt: max(in.Next, 0), LastAt: in.LastAt,
		Fired: in.Fired, Skipped: in.Skipped, Refused: in.Refused, RefusedAt: in.FailedAt,
	}
	if w.NextAt != 0 {
		w.DueAt = in.DueAt
	}
	if in.LastAt != 0 {
		w.LastID = in.LastID.String()
	}
	if in.FailedAt != 0 {
		k := call{queue: in.Queue, kind: wire.TypeEnqueue}
		f := refusal(&k, nil, &fsm.Outcome{Code: in.Code, Field: in.Field})
		w.Refusal = string(f.Code) + ": " + refusedBecause(in, f)
	}
	return w
}

// refusedBecause says why a queue did not take a schedule's message; the limit of the time is not remembered.
func refusedBecause(in *fsm.ScheduleInfo, f *wire.Fault) string {
	switch in.Field {
	case fsm.FieldTaskID:
		return "the task id of the fire time is taken"
	case fsm.FieldDead:
		return "its max_dead is reached"
	case fsm.FieldResults:
		return "its max_results_bytes are reached"
	case fsm.FieldQueues, fsm.FieldTasks:
		return "there are as many as there can be"
	}
	if in.Code == fsm.NotFound {
		return f.Message
	}
	if n := fieldNames[in.Field]; n != "" {
		return n
	}
	return "a limit of the queue is reached"
}

// wireTemplate copies a schedule's message.
func wireTemplate(m *fsm.Message) wire.Message {
	priority := m.Priority
	w := wire.Message{
		Body: append(wire.Bytes{}, m.Body...), Kind: string(m.Kind), ContentType: string(m.ContentType), Priority: &priority,
		Key: append(wire.Bytes(nil), m.Key...), TTLMillis: m.TTLMillis, TimeoutMillis: m.TimeoutMillis,
	}
	for _, h := range m.Headers {
		w.Headers = append(w.Headers, wire.Header{Name: string(h.Name), Value: string(h.Value)})
	}
	for _, k := range m.Keys {
		w.KeysIfUndelivered = append(w.KeysIfUndelivered, fsm.KVKeyParts(k))
	}
	if m.Retry.Kind != fsm.RetryDefault {
		w.Retry = wireRetry(m.Retry)
	}
	return w
}

func (c *conn) scheduleShow(raw wire.Raw) bool {
	req := new(wire.ScheduleRef)
	if ok, alive := taken(c, raw, req, (*wire.ScheduleRef).Validate); !ok {
		return alive
	}
	return c.slowly(raw.Tag, 0, 1, func(ctx context.Context, e *errand) (wire.Type, any, *wire.Fault) {
		if f := e.takeTurn(ctx, req.Stale); f != nil {
			return 0, nil, f
		}
		rep := new(wire.ScheduleIs)
		var in fsm.ScheduleInfo
		found := false
		at, f := c.readState(ctx, req.Stale, func(st *fsm.State) { in, found = st.Schedule(wire.View(req.Name)) })
		switch {
		case f != nil:
			return 0, nil, f
		case !found:
			return 0, nil, wire.NewFault(wire.CodeNotFound, "schedule %q does not exist", req.Name)
		}
		rep.Schedule, rep.At = scheduleInfo(&in), at
		return wire.TypeScheduleIs, rep, nil
	})
}

// scheduleList lists schedules by name, in one hold of the state: a page has 1,000 at most, without bodies.
func (c *conn) scheduleList(raw wire.Raw) bool {
	req := new(wire.ScheduleList)
	if ok, alive := taken(c, raw, req, (*wire.ScheduleList).Validate); !ok {
		return alive
	}
	limit := int(req.Limit)
	if limit == 0 {
		limit = pageDefault
	}
	return c.slowly(raw.Tag, 0, 1, func(ctx context.Context, e *errand) (wire.Type, any, *wire.Fault) {
		if f := e.takeTurn(ctx, req.Stale); f != nil {
			return 0, nil, f
		}
		rep := &wire.Schedules{}
		var page []fsm.ScheduleInfo
		at, f := c.readState(ctx, req.Stale, func(st *fsm.State) {
			st.Schedules(req.After, func(in *fsm.ScheduleInfo) bool {
				if len(page) == limit {
					rep.Next = page[limit-1].Name // there is another one
					return false
				}
				page = append(page, *in)
				return true
			})
		})
		if f != nil {
			return 0, nil, f
		}
		rep.At, rep.Schedules = at, make([]wire.ScheduleInfo, len(page))
		for i := range page {
			rep.Schedules[i] = scheduleInfo(&page[i])
			rep.Schedules[i].Schedule.Message = wire.Message{} // listings leave it out
		}
		return wire.TypeSchedules, rep, nil
	})
}

// schedules exports what became of the fire times of the schedules there are.
func (c *stateCollector) schedules(ctx context.Context, g Group, ch chan<- prometheus.Metric) {
	var t fsm.ScheduleTotals
	if _, err := g.Read(ctx, true, func(st *fsm.State) { t = st.ScheduleTotals() }); err != nil {
		return
	}
	for outcome, n := range map[string]int64{"fired": t.Fired, "skipped": t.Skipped, "refused": t.Refused} {
		ch <- prometheus.MustNewConstMetric(c.fired, prometheus.GaugeValue, float64(n), outcome)
	}
}
