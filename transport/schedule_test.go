package transport

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/wire"
)

func TestScheduleAdmin(t *testing.T) {
	n := stations(t, 1, Config{})[0]
	p, _ := session(t, n.addr)
	seven := uint8(7)
	s := wire.Schedule{
		Name: "s", Queue: "q", Cron: "0 3 * * *", Zone: "Europe/Berlin", JitterMillis: 5000, Missed: wire.MissedOnce,
		Message: wire.Message{
			Body: wire.Bytes("run"), Kind: "report", ContentType: "text/plain", Headers: []wire.Header{{Name: "a", Value: "b"}}, Priority: &seven,
			Key: wire.Bytes("k"), KeysIfUndelivered: [][]string{{"a", "b"}}, TTLMillis: 1000, TimeoutMillis: 2000, Retry: &wire.RetryPolicy{Kind: wire.RetryFixed, InitialMillis: 5, MaxAttempts: 2},
		},
	}
	var ok wire.OK
	p.ask(wire.TypeScheduleCreate, &wire.ScheduleWrite{Schedule: s, Request: wire.Request{Number: 1, Low: 1}}, wire.TypeOK, &ok)
	p.ask(wire.TypeScheduleCreate, &wire.ScheduleWrite{Schedule: s}, wire.TypeOK, &ok)
	if !ok.Duplicate {
		t.Error("the same schedule again is no duplicate")
	}
	other := s
	other.Cron = "0 4 * * *"
	if f := p.refused(wire.TypeScheduleCreate, &wire.ScheduleWrite{Schedule: other}, wire.CodeAlreadyExists); !strings.Contains(f.Message, `schedule "s"`) {
		t.Errorf("refused with %q", f.Message)
	}
	var is wire.ScheduleIs
	waitFor(t, func() bool { // the leader plans it after the answer
		p.ask(wire.TypeScheduleShow, &wire.ScheduleRef{Name: "s"}, wire.TypeScheduleIs, &is)
		return is.Schedule.NextAt != 0
	})
	got := is.Schedule
	if got.NextAt <= is.At.Time || got.DueAt < got.NextAt || got.DueAt > got.NextAt+5000 || got.CreatedAt == 0 || got.LastID != "" {
		t.Errorf("times are %+v", got)
	}
	if r := got.Schedule.Message.Retry; r == nil {
		t.Fatal("the retry policy is lost")
	}
	if fmt.Sprintf("%+v %+v %d", got.Schedule.Message.Headers, *got.Schedule.Message.Retry, *got.Schedule.Message.Priority) !=
		fmt.Sprintf("%+v %+v %d", s.Message.Headers, *s.Message.Retry, seven) || string(got.Schedule.Message.Body) != "run" || fmt.Sprint(got.Schedule.Message.KeysIfUndelivered) != "[[a b]]" || got.Schedule.Zone != s.Zone {
		t.Errorf("schedule is %+v, want %+v", got.Schedule, s)
	}
	p.ask(wire.TypeScheduleSet, &wire.ScheduleWrite{Schedule: wire.Schedule{Name: "r", Queue: "q", Cron: "* * * * * *"}}, wire.TypeOK, &ok)
	var list wire.Schedules
	p.ask(wire.TypeScheduleList, &wire.ScheduleList{Limit: 1}, wire.TypeSchedules, &list)
	if len(list.Schedules) != 1 || list.Schedules[0].Schedule.Name != "r" || list.Next != "r" {
		t.Errorf("listed %+v", list)
	}
	var rest wire.Schedules
	p.ask(wire.TypeScheduleList, &wire.ScheduleList{After: list.Next}, wire.TypeSchedules, &rest)
	if len(rest.Schedules) != 1 || rest.Schedules[0].Schedule.Name != "s" || rest.Next != "" {
		t.Errorf("then %+v", rest)
	}
	waitFor(t, func() bool {
		p.ask(wire.TypeScheduleShow, &wire.ScheduleRef{Name: "r"}, wire.TypeScheduleIs, &is)
		return is.Schedule.Fired > 0
	})
	d := p.pull("q")
	if want := fmt.Sprintf("r@%s", d.Headers[1].Value); d.TaskID != want || d.Headers[0] != (wire.Header{Name: "schedule", Value: "r"}) {
		t.Errorf("delivered %+v, want task id %q", d, want)
	}
	if _, text, _ := get(t, "http://"+n.addr+"/metrics"); !strings.Contains(text, `quorate_schedule_firings{outcome="fired"}`) || !strings.Contains(text, `quorate_state_records{table="schedules"} 2`) {
		t.Error("schedules have no metrics")
	}
	p.ask(wire.TypeScheduleDelete, &wire.ScheduleRef{Name: "r"}, wire.TypeOK, &ok)
	p.refused(wire.TypeScheduleDelete, &wire.ScheduleRef{Name: "r"}, wire.CodeNotFound)
	p.refused(wire.TypeScheduleShow, &wire.ScheduleRef{Name: "r"}, wire.CodeNotFound)
}

// Every wrong field is refused, and named.
func TestScheduleRefusals(t *testing.T) {
	n := stations(t, 1, Config{NoAutoCreate: true})[0]
	p, _ := session(t, n.addr)
	for _, c := range []struct {
		field string
		code  wire.Code
		bad   func(s *wire.Schedule)
		says  string
	}{
		{"name", wire.CodeInvalidArgument, func(s *wire.Schedule) { s.Name = strings.Repeat("x", 97) }, "96"},
		{"name", wire.CodeInvalidArgument, func(s *wire.Schedule) { s.Name = "a b" }, ""},
		{"queue", wire.CodeInvalidArgument, func(s *wire.Schedule) { s.Queue = "" }, ""},
		{"cron", wire.CodeInvalidArgument, func(s *wire.Schedule) { s.Cron = "61 * * * *" }, "five fields"},
		{"cron", wire.CodeInvalidArgument, func(s *wire.Schedule) { s.Cron = "0 0 31 2 *" }, "five years"},
		{"cron", wire.CodeInvalidArgument, func(s *wire.Schedule) { s.Cron = "TZ=UTC * * * * *" }, "zone"},
		{"zone", wire.CodeInvalidArgument, func(s *wire.Schedule) { s.Zone = "Mars/Olympus" }, "Europe/Berlin"},
		{"jitter_ms", wire.CodeInvalidArgument, func(s *wire.Schedule) { s.JitterMillis = -1 }, ""},
		{"jitter_ms", wire.CodeInvalidArgument, func(s *wire.Schedule) { s.JitterMillis = wire.MaxJitterMillis + 1 }, "86400000"},
		{"missed", wire.CodeInvalidArgument, func(s *wire.Schedule) { s.Missed = "never" }, "skip"},
		{"task_id", wire.CodeInvalidArgument, func(s *wire.Schedule) { s.Message.TaskID = "t" }, ""},
		{"dedup_key", wire.CodeInvalidArgument, func(s *wire.Schedule) { s.Message.DedupKey = wire.Bytes("t") }, ""},
		{"delay_ms", wire.CodeInvalidArgument, func(s *wire.Schedule) { s.Message.DelayMillis = 1 }, ""},
		{"enqueue_at", wire.CodeInvalidArgument, func(s *wire.Schedule) { s.Message.EnqueueAt = 1 }, ""},
		{"batch", wire.CodeInvalidArgument, func(s *wire.Schedule) { s.Message.Batch = strings.Repeat("0", 25) + "1" }, "ends"},
		{"headers", wire.CodeInvalidArgument, func(s *wire.Schedule) { s.Message.Headers = []wire.Header{{Name: "schedule"}} }, ""},
		{"body", wire.CodeTooLarge, func(s *wire.Schedule) { s.Message.Body = make(wire.Bytes, 1<<20+1) }, "1048576"},
		{"", wire.CodeNotFound, func(*wire.Schedule) {}, `queue "q"`},
	} {
		s := wire.Schedule{Name: "s", Queue: "q", Cron: "0 3 * * *", Message: wire.Message{Body: wire.Bytes("x")}}
		c.bad(&s)
		f := p.refused(wire.TypeScheduleCreate, &wire.ScheduleWrite{Schedule: s}, c.code)
		if f.Field != c.field || !strings.Contains(f.Message, c.says) {
			t.Errorf("%s: field %q, %q; want it to say %q", c.field, f.Field, f.Message, c.says)
		}
	}
	var list wire.Schedules
	p.ask(wire.TypeScheduleList, &wire.ScheduleList{}, wire.TypeSchedules, &list)
	if len(list.Schedules) != 0 {
		t.Errorf("there are %+v", list.Schedules)
	}
}
