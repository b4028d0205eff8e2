package client

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/wire"
)

// isSchedule says whether a frame is a request about schedules.
func isSchedule(t wire.Type) bool {
	switch t {
	case wire.TypeScheduleCreate, wire.TypeScheduleSet, wire.TypeScheduleDelete, wire.TypeScheduleShow, wire.TypeScheduleList:
		return true
	}
	return false
}

// fullSchedule has everything that a schedule can have; wireSchedule is the same on the wire.
func fullSchedule() Schedule {
	return Schedule{
		Name: "s", Queue: "q", Cron: "0 3 * * *", Zone: "Europe/Berlin", Jitter: 1500 * time.Microsecond, Missed: "once", Paused: true,
		Message: Message{
			Body: []byte("b"), Kind: "k", ContentType: "a/b", Headers: []Header{{"n", "v"}}, Priority: Priority(0), Key: []byte("key"),
			TTL: time.Second, Timeout: 2 * time.Second, Retry: &RetryPolicy{Kind: "fixed", Initial: time.Second, MaxAttempts: 3},
			KeysIfUndelivered: []Key{{"lost", "1"}, {"lost", "2"}},
		},
	}
}

func wireSchedule() wire.Schedule {
	zero := uint8(0)
	return wire.Schedule{
		Name: "s", Queue: "q", Cron: "0 3 * * *", Zone: "Europe/Berlin", JitterMillis: 2, Missed: "once", Paused: true,
		Message: wire.Message{
			Body: wire.Bytes("b"), Kind: "k", ContentType: "a/b", Headers: []wire.Header{{Name: "n", Value: "v"}}, Priority: &zero,
			Key: wire.Bytes("key"), TTLMillis: 1000, TimeoutMillis: 2000,
			Retry:             &wire.RetryPolicy{Kind: "fixed", InitialMillis: 1000, MaxAttempts: 3},
			KeysIfUndelivered: [][]string{{"lost", "1"}, {"lost", "2"}},
		},
	}
}

// scheduleCalls are all calls about schedules with good arguments: what each sends, what it may be answered, and what it makes of that.
func scheduleCalls() []scheduleCall {
	first := wire.Request{Number: 1, Low: 1}
	all := func(vs ...any) []any { return vs }
	told := wire.ScheduleInfo{
		Schedule: wireSchedule(), CreatedAt: aTime.UnixMilli(), ChangedAt: aTime.UnixMilli() + 1, NextAt: aTime.UnixMilli() + 2,
		DueAt: aTime.UnixMilli() + 3, LastAt: aTime.UnixMilli() + 4, LastID: anID, Fired: 5, Skipped: 6, Refused: 7,
		RefusedAt: aTime.UnixMilli() + 5, Refusal: "full",
	}
	at := func(ms int) time.Time { return aTime.Add(time.Duration(ms) * time.Millisecond) }
	want := ScheduleInfo{
		Schedule: fullSchedule(), CreatedAt: aTime, ChangedAt: at(1), NextAt: at(2), DueAt: at(3), LastAt: at(4), LastID: anID, Fired: 5,
		Skipped: 6, Refused: 7, RefusedAt: at(5), Refusal: "full",
	}
	want.Jitter = 2 * time.Millisecond // what is sent is whole milliseconds, never less
	bare := wire.ScheduleInfo{Schedule: wire.Schedule{Name: "r", Queue: "q", Cron: "@daily"}, CreatedAt: aTime.UnixMilli(), ChangedAt: aTime.UnixMilli()}
	wantBare := ScheduleInfo{Schedule: Schedule{Name: "r", Queue: "q", Cron: "@daily", Message: Message{Body: []byte{}}}, CreatedAt: aTime, ChangedAt: aTime}
	return []scheduleCall{
		{"create", func(ctx context.Context, c *Client) []any { return all(c.CreateSchedule(ctx, fullSchedule())) },
			wire.TypeScheduleCreate, &wire.ScheduleWrite{Schedule: wireSchedule(), Request: first}, wire.TypeOK, &wire.OK{At: atOne}, all(nil)},
		{"create with what is needed alone", func(ctx context.Context, c *Client) []any {
			return all(c.CreateSchedule(ctx, Schedule{Name: "s", Queue: "q", Cron: "@daily"}))
		}, wire.TypeScheduleCreate, &wire.ScheduleWrite{Schedule: wire.Schedule{Name: "s", Queue: "q", Cron: "@daily", Message: wire.Message{Body: wire.Bytes{}}}, Request: first},
			wire.TypeOK, &wire.OK{At: atOne}, all(nil)},
		{"set", func(ctx context.Context, c *Client) []any { return all(c.SetSchedule(ctx, fullSchedule())) },
			wire.TypeScheduleSet, &wire.ScheduleWrite{Schedule: wireSchedule(), Request: first}, wire.TypeOK, &wire.OK{At: atOne}, all(nil)},
		{"delete", func(ctx context.Context, c *Client) []any { return all(c.DeleteSchedule(ctx, "s")) },
			wire.TypeScheduleDelete, &wire.ScheduleRef{Name: "s", Request: first}, wire.TypeOK, &wire.OK{At: atOne}, all(nil)},
		{"show", func(ctx context.Context, c *Client) []any { s, err := c.Schedule(ctx, "s"); return all(s, err) },
			wire.TypeScheduleShow, &wire.ScheduleRef{Name: "s"}, wire.TypeScheduleIs, &wire.ScheduleIs{Schedule: told, At: atOne}, all(want, nil)},
		{"list", func(ctx context.Context, c *Client) []any {
			ss, next, err := c.Schedules(ctx, "a", 1000)
			return all(ss, next, err)
		}, wire.TypeScheduleList, &wire.ScheduleList{After: "a", Limit: 1000}, wire.TypeSchedules,
			&wire.Schedules{Schedules: []wire.ScheduleInfo{bare, told}, Next: "s", At: atOne}, all([]ScheduleInfo{wantBare, want}, "s", nil)},
		{"list from the beginning", func(ctx context.Context, c *Client) []any {
			ss, next, err := c.Schedules(ctx, "", 0)
			return all(ss, next, err)
		}, wire.TypeScheduleList, &wire.ScheduleList{}, wire.TypeSchedules, &wire.Schedules{Schedules: []wire.ScheduleInfo{}, At: atOne},
			all([]ScheduleInfo{}, "", nil)},
	}
}

type scheduleCall struct {
	name   string
	call   func(ctx context.Context, c *Client) []any
	typ    wire.Type
	body   any
	with   wire.Type // the answer's type
	answer any
	want   []any
}

// Each call sends what it should, once in effect, whatever becomes of the leader meanwhile, and makes of the answer what it should.
func TestScheduleCalls(t *testing.T) {
	// what happens at the n-th sending (from 1) to the node that leads: whether it is carried out, and what the client sees.
	for _, fate := range []struct {
		name     string
		sendings int // that reach a leader
		strike   func(f *fake, n int) verdict
	}{
		{"answered", 1, func(*fake, int) verdict { return pass }},
		{"the leader was another before it came", 1, nil},
		{"the connection is lost before it is carried out", 2, func(_ *fake, n int) verdict {
			if n == 1 {
				return hangUp
			}
			return pass
		}},
		{"the leader dies with the answer", 2, func(f *fake, n int) verdict {
			if n == 1 {
				f.leader = 1
				return loseHang
			}
			return pass
		}},
	} {
		for _, tc := range scheduleCalls() {
			t.Run(tc.name+"/"+fate.name, func(t *testing.T) {
				f := newFake(t, 2)
				c := open(t, f, Options{})
				sendings := 0
				done := map[uint64]bool{} // by request number
				if fate.strike == nil {
					f.lead(1, false)
				}
				f.do(func() {
					f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
						if r.Type != tc.typ || fc.n.i != f.leader {
							return pass, nil
						}
						sendings++
						got := reflect.New(reflect.TypeOf(tc.body).Elem()).Interface()
						if err := r.Decode(got); err != nil {
							t.Error(err)
						}
						if !reflect.DeepEqual(got, tc.body) {
							t.Errorf("sent\n%+v, want\n%+v", got, tc.body)
						}
						v := pass
						if fate.strike != nil {
							v = fate.strike(f, sendings)
						}
						switch v {
						case hangUp:
							return hangUp, nil
						case loseHang:
							done[requestOf(got).Number] = true
							return hangUp, nil // the fake knows no schedules: it has been carried out here
						}
						done[requestOf(got).Number] = true
						fc.push(tc.with, r.Tag, tc.answer)
						return ignore, nil
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				got := tc.call(ctx, c)
				for i := range tc.want {
					if !reflect.DeepEqual(got[i], tc.want[i]) {
						t.Errorf("result %d is\n%+v, want\n%+v", i, got[i], tc.want[i])
					}
				}
				f.do(func() {
					if sendings != fate.sendings || len(done) != 1 {
						t.Errorf("%d sendings of %d requests, want %d of 1", sendings, len(done), fate.sendings)
					}
				})
			})
		}
	}
}

// requestOf is the request id of a body, zero where it has none.
func requestOf(body any) wire.Request {
	switch b := body.(type) {
	case *wire.ScheduleWrite:
		return b.Request
	case *wire.ScheduleRef:
		return b.Request
	}
	return wire.Request{}
}

// What is wrong by itself is refused before anything is sent, naming the field.
func TestScheduleCallsRefused(t *testing.T) {
	f := newFake(t, 1)
	c := open(t, f, Options{})
	f.do(func() {
		f.hook = func(_ *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
			if isSchedule(r.Type) {
				t.Errorf("a frame of type %d was sent", r.Type)
			}
			return pass, nil
		}
	})
	long := func(n int) string { return strings.Repeat("x", n) }
	keys := func(n int) (ks []Key) {
		for i := range n {
			ks = append(ks, Key{fmt.Sprint(i)})
		}
		return ks
	}
	headers := func(n int) (hs []Header) {
		for i := range n {
			hs = append(hs, Header{fmt.Sprint("h", i), "v"})
		}
		return hs
	}
	for _, tc := range []struct {
		name  string
		set   func(s *Schedule)
		field string
	}{
		{"no name", func(s *Schedule) { s.Name = "" }, "name"},
		{"a name too long", func(s *Schedule) { s.Name = long(97) }, "name"},
		{"a name with a slash", func(s *Schedule) { s.Name = "a/b" }, "name"},
		{"a name that begins with a dot", func(s *Schedule) { s.Name = ".a" }, "name"},
		{"no queue", func(s *Schedule) { s.Queue = "" }, "queue"},
		{"a queue's name too long", func(s *Schedule) { s.Queue = long(129) }, "queue"},
		{"no expression", func(s *Schedule) { s.Cron = "" }, "cron"},
		{"an expression too long", func(s *Schedule) { s.Cron = long(257) }, "cron"},
		{"an expression that is no text", func(s *Schedule) { s.Cron = "\xff" }, "cron"},
		{"a zone too long", func(s *Schedule) { s.Zone = long(65) }, "zone"},
		{"jitter below none", func(s *Schedule) { s.Jitter = -time.Nanosecond }, "jitter_ms"},
		{"jitter beyond a day", func(s *Schedule) { s.Jitter = 24*time.Hour + time.Nanosecond }, "jitter_ms"},
		{"an unknown policy", func(s *Schedule) { s.Missed = "twice" }, "missed"},
		{"a task id", func(s *Schedule) { s.Message.TaskID = "t" }, "task_id"},
		{"a dedup key", func(s *Schedule) { s.Message.DedupKey = []byte("d") }, "dedup_key"},
		{"a delay", func(s *Schedule) { s.Message.Delay = time.Second }, "delay_ms"},
		{"a time", func(s *Schedule) { s.Message.EnqueueAt = aTime }, "enqueue_at"},
		{"a batch", func(s *Schedule) { s.Message.Batch = anID }, "batch"},
		{"headers that leave no room", func(s *Schedule) { s.Message.Headers = headers(63) }, "headers"},
		{"a header that schedules add", func(s *Schedule) { s.Message.Headers = []Header{{"schedule_at", "1"}} }, "headers"},
		{"a body too large for the server", func(s *Schedule) { s.Message.Body = make([]byte, c.maxMessage.Load()+1) }, "body"},
		{"a kind too long", func(s *Schedule) { s.Message.Kind = long(129) }, "kind"},
		{"a content type too long", func(s *Schedule) { s.Message.ContentType = long(129) }, "content_type"},
		{"a priority too high", func(s *Schedule) { s.Message.Priority = Priority(10) }, "priority"},
		{"a priority too low", func(s *Schedule) { s.Message.Priority = Priority(-1) }, "priority"},
		{"a key too long", func(s *Schedule) { s.Message.Key = make([]byte, 257) }, "key"},
		{"a negative ttl", func(s *Schedule) { s.Message.TTL = -time.Second }, "ttl_ms"},
		{"a ttl too long", func(s *Schedule) { s.Message.TTL = 367 * 24 * time.Hour }, "ttl_ms"},
		{"a negative timeout", func(s *Schedule) { s.Message.Timeout = -time.Second }, "timeout_ms"},
		{"a timeout too long", func(s *Schedule) { s.Message.Timeout = 367 * 24 * time.Hour }, "timeout_ms"},
		{"an unknown retry policy", func(s *Schedule) { s.Message.Retry = &RetryPolicy{Kind: "often"} }, "retry.kind"},
		{"a retry policy with another's fields", func(s *Schedule) {
			s.Message.Retry = &RetryPolicy{Kind: "schedule", Steps: []time.Duration{1}, MaxAttempts: 3}
		}, "retry.max_attempts"},
		{"attempts far below none", func(s *Schedule) { s.Message.Retry = &RetryPolicy{Kind: "fixed", MaxAttempts: -1 << 40} }, "retry.max_attempts"},
		{"seventeen keys", func(s *Schedule) { s.Message.KeysIfUndelivered = keys(17) }, "keys_if_undelivered"},
		{"a key twice", func(s *Schedule) { s.Message.KeysIfUndelivered = []Key{{"a"}, {"a"}} }, "keys_if_undelivered[1]"},
	} {
		for verb, call := range map[string]func(context.Context, Schedule) error{"create": c.CreateSchedule, "set": c.SetSchedule} {
			t.Run(tc.name+"/"+verb, func(t *testing.T) {
				s := fullSchedule()
				tc.set(&s)
				wantRefused(t, call(t.Context(), s), tc.field)
			})
		}
	}
	list := func(after string, limit int) error { _, _, err := c.Schedules(t.Context(), after, limit); return err }
	show := func(name string) error { _, err := c.Schedule(t.Context(), name); return err }
	for _, tc := range []struct {
		name  string
		err   error
		field string
	}{
		{"show, no name", show(""), "name"}, {"show, a name too long", show(long(97)), "name"}, {"show, no name of one", show("a b"), "name"},
		{"delete, no name", c.DeleteSchedule(t.Context(), ""), "name"}, {"delete, a name too long", c.DeleteSchedule(t.Context(), long(97)), "name"},
		{"list, a cursor too long", list(long(513), 1), "after"}, {"list, below none", list("", -1), "limit"},
		{"list, far below none", list("", -1<<40), "limit"}, {"list, too many", list("", 1001), "limit"}, {"list, far too many", list("", 1<<40), "limit"},
	} {
		t.Run(tc.name, func(t *testing.T) { wantRefused(t, tc.err, tc.field) })
	}
}

func wantRefused(t *testing.T, err error, field string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, ErrInvalidArgument) && !errors.Is(err, ErrTooLarge) || e.Field != field || e.Unknown || e.Retry {
		t.Errorf("%v, want a refusal about %s", err, field)
	}
}

// A refusal of the server is the call's error, at once where trying again does not help, and after another try under a new number where it
// may.
func TestScheduleAnswers(t *testing.T) {
	for _, tc := range []struct {
		code  wire.Code
		want  error
		again bool
	}{
		{wire.CodeNotFound, ErrNotFound, false}, {wire.CodeAlreadyExists, ErrAlreadyExists, false}, {wire.CodeInvalidArgument, ErrInvalidArgument, false},
		{wire.CodeTooLarge, ErrTooLarge, false}, {wire.CodeFailedPrecondition, ErrFailedPrecondition, false},
		{wire.CodePermissionDenied, ErrPermissionDenied, false}, {wire.CodeOverloaded, nil, true}, {wire.CodeNoLeader, nil, true},
	} {
		for _, sc := range scheduleCalls() {
			t.Run(fmt.Sprintf("%s/%s", tc.code, sc.name), func(t *testing.T) {
				f := newFake(t, 1)
				c := open(t, f, Options{})
				asked := 0
				var numbers []uint64
				f.do(func() {
					f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
						if r.Type != sc.typ {
							return pass, nil
						}
						got := reflect.New(reflect.TypeOf(sc.body).Elem()).Interface()
						if err := r.Decode(got); err != nil {
							t.Error(err)
						}
						numbers = append(numbers, requestOf(got).Number)
						if asked++; asked == 1 {
							return pass, wire.NewFault(tc.code, "not so")
						}
						fc.push(sc.with, r.Tag, sc.answer)
						return ignore, nil
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				got := sc.call(ctx, c)
				err, _ := got[len(got)-1].(error)
				switch {
				case tc.again && (err != nil || asked != 2):
					t.Errorf("asked %d times, %v; want twice and success", asked, err)
				case !tc.again && (!errors.Is(err, tc.want) || Unknown(err) || asked != 1):
					t.Errorf("asked %d times, %v; want once and %v", asked, err, tc.want)
				}
				renewed := len(numbers) == 2 && numbers[0] != numbers[1]
				if mutates := numbers[0] != 0; tc.code == wire.CodeOverloaded && mutates && !renewed {
					t.Errorf("numbers %v: a refusal is remembered, and another try needs another", numbers)
				}
			})
		}
	}
}
