package httpapi

import (
	"net/http"

	"github.com/quorate/quorate/wire"
)

// Schedule is when which message goes into which queue.
type Schedule struct {
	Queue        string  `json:"queue"`
	Cron         string  `json:"cron" doc:"minute hour day month weekday, seconds before them if wanted; @daily and the like; @every 90s"`
	Zone         string  `json:"zone,omitzero" required:"false" doc:"IANA name; absent: UTC"`
	JitterMillis int64   `json:"jitter_ms,omitzero" required:"false"`
	Missed       string  `json:"missed,omitzero" required:"false" enum:"skip,once,all"`
	Paused       bool    `json:"paused,omitzero" required:"false"`
	Message      Message `json:"message,omitzero" required:"false" doc:"without task_id, dedup_key, delay_ms, enqueue_at and batch"`
}

// ScheduleInfo is a schedule and what became of its times, in Unix ms.
type ScheduleInfo struct {
	Name string `json:"name"`
	Schedule
	CreatedAt int64  `json:"created_at"`
	ChangedAt int64  `json:"changed_at"`
	NextAt    int64  `json:"next_at,omitzero" required:"false" doc:"absent: paused, or none within five years"`
	DueAt     int64  `json:"due_at,omitzero" required:"false" doc:"next_at and its jitter"`
	LastAt    int64  `json:"last_at,omitzero" required:"false"`
	LastID    string `json:"last_id,omitzero" required:"false"`
	Fired     int64  `json:"fired"`
	Skipped   int64  `json:"skipped"`
	Refused   int64  `json:"refused"`
	RefusedAt int64  `json:"refused_at,omitzero" required:"false"`
	Refusal   string `json:"refusal,omitzero" required:"false"`
}

type schedulesAnswer struct {
	Schedules []ScheduleInfo `json:"schedules" doc:"by name, without messages"`
	Next      string         `json:"next,omitzero" required:"false" doc:"after of the next page; absent at the end"`
}

func scheduleOf(s *wire.ScheduleInfo, message bool) ScheduleInfo {
	d := &s.Schedule
	j := ScheduleInfo{
		Name: d.Name, Schedule: Schedule{Queue: d.Queue, Cron: d.Cron, Zone: d.Zone, JitterMillis: d.JitterMillis, Missed: d.Missed, Paused: d.Paused},
		CreatedAt: s.CreatedAt, ChangedAt: s.ChangedAt, NextAt: s.NextAt, DueAt: s.DueAt, LastAt: s.LastAt, LastID: s.LastID, Fired: s.Fired,
		Skipped: s.Skipped, Refused: s.Refused, RefusedAt: s.RefusedAt, Refusal: s.Refusal,
	}
	if message {
		m := &d.Message
		j.Message = Message{Kind: m.Kind, ContentType: m.ContentType, Headers: headersOf(m.Headers), Priority: m.Priority, TTLMillis: m.TTLMillis,
			TimeoutMillis: m.TimeoutMillis, Retry: retryOf(m.Retry), Keys: m.KeysIfUndelivered}
		j.Message.Body, j.Message.BodyEncoding = bodyJSON(m.Body, m.ContentType, "")
		j.Message.Key, j.Message.KeyBase64 = keyJSON(m.Key)
	}
	return j
}

func scheduleRoutes() []*route {
	const path = "/v1/schedules/{name}"
	return []*route{
		plain(route{method: "GET", path: "/v1/schedules", summary: "List schedules", query: []param{limitParam, afterParam, staleParam}}, func(x *exchange) (*schedulesAnswer, *wire.Fault) {
			rep, f := call[wire.Schedules](x, wire.TypeScheduleList, &wire.ScheduleList{After: x.query["after"], Limit: int32(x.int("limit")), Stale: x.bool("stale")})
			if f != nil {
				return nil, f
			}
			a := &schedulesAnswer{Schedules: make([]ScheduleInfo, len(rep.Schedules)), Next: rep.Next}
			for i := range rep.Schedules {
				a.Schedules[i] = scheduleOf(&rep.Schedules[i], false)
			}
			return a, nil
		}),
		plain(route{method: "GET", path: path, summary: "A schedule and what became of its times", query: []param{staleParam}}, func(x *exchange) (*ScheduleInfo, *wire.Fault) {
			rep, f := call[wire.ScheduleIs](x, wire.TypeScheduleShow, &wire.ScheduleRef{Name: x.path["name"], Stale: x.bool("stale")})
			if f != nil {
				return nil, f
			}
			j := scheduleOf(&rep.Schedule, true)
			return &j, nil
		}),
		with(route{method: "PUT", path: path, summary: "Make a schedule, or set it; If-None-Match: * only makes one"}, putSchedule),
		plain(route{method: "DELETE", path: path, summary: "Delete a schedule"}, func(x *exchange) (*done, *wire.Fault) {
			return x.okay(wire.TypeScheduleDelete, &wire.ScheduleRef{Name: x.path["name"]})
		}),
	}
}

func putSchedule(x *exchange, in *Schedule) (*done, *wire.Fault) {
	m, f := in.Message.wire(x.api.cfg.MaxMessageBytes)
	if f != nil {
		return nil, f
	}
	req := &wire.ScheduleWrite{Schedule: wire.Schedule{Name: x.path["name"], Queue: in.Queue, Cron: in.Cron, Zone: in.Zone, JitterMillis: in.JitterMillis,
		Missed: in.Missed, Paused: in.Paused, Message: m}}
	switch m := x.r.Header.Get("If-None-Match"); m {
	case "":
		return x.okay(wire.TypeScheduleSet, req)
	case "*":
		x.success = http.StatusCreated
		made, f := call[wire.OK](x, wire.TypeScheduleCreate, req)
		if f == nil && made.Duplicate {
			f = wire.NewFault(wire.CodeAlreadyExists, "schedule %q exists", x.path["name"])
		}
		if f != nil {
			return nil, f
		}
		return &done{OK: true}, nil
	default:
		return nil, wire.Invalid("If-None-Match", "%.40q; * would be right: there are no tags", m)
	}
}
