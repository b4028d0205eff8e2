package client

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/quorate/quorate/wire"
)

// Each call about tasks and results sends the frame it should, also after a lost answer, and makes of the answer what it
// should.
func TestTaskCalls(t *testing.T) {
	first := wire.Request{Number: 1, Low: 1}
	ref := wire.TaskRef{Queue: "q", TaskID: "t"}
	zero, delay := int64(0), int64(1500)
	recorded := wire.Recorded{Position: 9, EndsAt: aTime.UnixMilli(), Result: wire.Result{Output: wire.Bytes("out"), TaskID: "t", Queue: "q"}}
	wantRecorded := Recorded{Position: 9, EndsAt: aTime, Result: Result{Output: []byte("out"), TaskID: "t", Queue: "q"}}
	all := func(vs ...any) []any { return vs }
	for _, tc := range []struct {
		name   string
		call   func(ctx context.Context, c *Client) []any
		typ    wire.Type
		body   any
		answer any
		want   []any
	}{
		{"cancel", func(ctx context.Context, c *Client) []any { o, err := c.Cancel(ctx, "q", "t"); return all(o, err) },
			wire.TypeTaskCancel, &wire.TaskCancel{Task: ref, Request: first}, &wire.TaskCancelled{ID: anID, Out: true, Duplicate: true, At: atOne},
			all(Cancelled{ID: anID, Out: true, Duplicate: true, Index: 7, Time: atOne.Time}, nil)},
		{"reschedule now", func(ctx context.Context, c *Client) []any {
			o, err := c.Reschedule(ctx, "q", "t", RescheduleOptions{Delay: After(0)})
			return all(o, err)
		}, wire.TypeTaskReschedule, &wire.TaskReschedule{Task: ref, DelayMillis: &zero, Request: first}, &wire.TaskScheduled{ID: anID, At: atOne},
			all(Rescheduled{ID: anID, Index: 7, Time: atOne.Time}, nil)},
		{"debounce", func(ctx context.Context, c *Client) []any {
			o, err := c.Reschedule(ctx, "q", "t", RescheduleOptions{Delay: After(1500 * time.Millisecond), MaxWait: time.Minute})
			return all(o, err)
		}, wire.TypeTaskReschedule, &wire.TaskReschedule{Task: ref, DelayMillis: &delay, MaxWaitMillis: 60000, Request: first},
			&wire.TaskScheduled{ID: anID, DueAt: aTime.UnixMilli(), At: atOne}, all(Rescheduled{ID: anID, DueAt: aTime, Index: 7, Time: atOne.Time}, nil)},
		{"replace", func(ctx context.Context, c *Client) []any {
			o, err := c.Replace(ctx, "", anID, ReplaceOptions{Body: []byte("new"), ContentType: "a/b", RescheduleOptions: RescheduleOptions{At: aTime}})
			return all(o, err)
		}, wire.TypeTaskReschedule, &wire.TaskReschedule{Task: wire.TaskRef{TaskID: anID}, EnqueueAt: aTime.UnixMilli(),
			Replace: &wire.Replacement{Body: wire.Bytes("new"), ContentType: "a/b"}, Request: first},
			&wire.TaskScheduled{ID: anID, At: atOne}, all(Rescheduled{ID: anID, Index: 7, Time: atOne.Time}, nil)},
		{"list results", func(ctx context.Context, c *Client) []any {
			rs, next, more, err := c.ListResults(ctx, "q", ResultsOptions{Kind: "k", After: 4, Limit: 3})
			return all(rs, next, more, err)
		}, wire.TypeResultList, &wire.ResultList{Queue: "q", Kind: "k", After: 4, Limit: 3},
			&wire.Results{Results: []wire.Recorded{recorded}, Next: 9, More: true, At: atOne}, all([]Recorded{wantRecorded}, uint64(9), true, nil)},
		{"list new results", func(ctx context.Context, c *Client) []any {
			rs, next, more, err := c.ListResults(ctx, "q", ResultsOptions{New: true})
			return all(rs, next, more, err)
		}, wire.TypeResultList, &wire.ResultList{Queue: "q", Last: true}, &wire.Results{Results: []wire.Recorded{}, Next: 9, At: atOne},
			all([]Recorded{}, uint64(9), false, nil)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(t, 1)
			c := open(t, f, Options{})
			asked := 0
			f.do(func() {
				f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
					if r.Type != tc.typ {
						return pass, nil
					}
					if asked++; asked == 1 {
						return hangUp, nil
					}
					got := reflect.New(reflect.TypeOf(tc.body).Elem()).Interface()
					if err := r.Decode(got); err != nil {
						t.Error(err)
					}
					if !reflect.DeepEqual(got, tc.body) {
						t.Errorf("sent\n%+v, want\n%+v", got, tc.body)
					}
					fc.push(answerType(tc.typ), r.Tag, tc.answer)
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
			if asked != 2 {
				t.Errorf("asked %d times", asked)
			}
		})
	}
}

// What is wrong by itself is refused before anything is sent.
func TestTaskCallsRefused(t *testing.T) {
	c := open(t, newFake(t, 1), Options{})
	ctx := t.Context()
	_, noTask := c.Cancel(ctx, "q", "")
	_, noQueue := c.Cancel(ctx, "", "mine")
	_, noTime := c.Reschedule(ctx, "q", "t", RescheduleOptions{})
	_, both := c.Reschedule(ctx, "q", "t", RescheduleOptions{Delay: After(0), At: aTime})
	_, negative := c.Reschedule(ctx, "q", "t", RescheduleOptions{Delay: After(-time.Second)})
	_, waitOnly := c.Reschedule(ctx, "q", "t", RescheduleOptions{At: aTime, MaxWait: time.Second})
	_, long := c.Replace(ctx, "q", "t", ReplaceOptions{Body: make([]byte, c.maxMessage.Load()+1)})
	_, _, _, place := c.ListResults(ctx, "q", ResultsOptions{After: 3, New: true})
	for name, tc := range map[string]struct {
		err, want error
		field     string
	}{
		"no task id": {noTask, ErrInvalidArgument, "task_id"}, "own task id, no queue": {noQueue, ErrInvalidArgument, "queue"},
		"no time": {noTime, ErrInvalidArgument, "delay_ms"}, "two times": {both, ErrInvalidArgument, "delay_ms"},
		"negative delay": {negative, ErrInvalidArgument, "delay_ms"}, "wait alone": {waitOnly, ErrInvalidArgument, "max_wait_ms"},
		"body too large": {long, ErrTooLarge, "body"}, "place and new": {place, ErrInvalidArgument, "after"},
	} {
		var e *Error
		if !errors.Is(tc.err, tc.want) || !errors.As(tc.err, &e) || e.Field != tc.field {
			t.Errorf("%s: %v, want %v about %s", name, tc.err, tc.want, tc.field)
		}
	}
}

// cancelledBy makes the fake's server say that tasks are cancelled: to the worker, and in answer to all it says of them.
func cancelledBy(f *fake, tokens ...string) (released <-chan string) {
	ch := make(chan string, len(tokens))
	is := map[string]bool{}
	for _, t := range tokens {
		is[t] = true
	}
	f.do(func() {
		f.hook = func(_ *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
			var tok string
			switch r.Type {
			case wire.TypeRelease:
				var v wire.Release
				_ = r.Decode(&v)
				tok = v.Token
			case wire.TypeExtend:
				var v wire.Extend
				_ = r.Decode(&v)
				tok = v.Token
			case wire.TypeAck:
				var v wire.Ack
				_ = r.Decode(&v)
				tok = v.Token
			}
			if !is[tok] {
				return pass, nil
			}
			if r.Type == wire.TypeRelease || r.Type == wire.TypeAck {
				ch <- tok
			}
			return pass, wire.NewFault(wire.CodeCancelled, "cancelled")
		}
		for _, s := range f.sessions {
			for _, sub := range s.subs {
				s.conn.push(wire.TypeLeaseCancelled, 0, &wire.LeaseCancelled{Sub: sub.num, Tokens: tokens})
			}
			s.conn.flush()
		}
	})
	return ch
}

// A handler whose task is cancelled is told, its result goes nowhere, and its lease is given back when it has returned; one
// that no handler has is given back at once, and the work behind it goes on.
func TestConsumeCancelled(t *testing.T) {
	f := newFake(t, 1)
	c := open(t, f, Options{})
	f.put("q", "runs", "held", "after")
	started := make(chan *Delivery)
	cause := make(chan error, 1)
	rest := make(chan string, 3)
	proceed := make(chan struct{})
	stop := consuming(t, c, ConsumeOptions{Concurrency: 1, Prefetch: 3}, func(ctx context.Context, d *Delivery) (*Result, error) {
		if string(d.Body) != "runs" {
			rest <- string(d.Body)
			return nil, nil
		}
		started <- d
		<-ctx.Done()
		cause <- context.Cause(ctx)
		<-proceed
		return &Result{Output: []byte("too late")}, nil
	})
	d := <-started
	held := ""
	until(t, "all three are here", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for tok, l := range c.leases {
			if string(l.d.Body) == "held" {
				held = tok
			}
		}
		return len(c.leases) == 3
	})
	released := cancelledBy(f, d.Token, held)
	if err := <-cause; !errors.Is(err, ErrCancelled) {
		t.Errorf("cause %v, want ErrCancelled", err)
	}
	if tok := <-released; tok != held {
		t.Errorf("%s was given back first, want what no handler has", tok)
	}
	close(proceed)
	if tok := <-released; tok != d.Token {
		t.Errorf("%s was given back, want %s", tok, d.Token)
	}
	if body := <-rest; body != "after" {
		t.Errorf("%q ran after it", body)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.leases) != 0 {
		t.Errorf("%d leases are left", len(c.leases))
	}
}

func TestSubscribeCancelled(t *testing.T) {
	f := newFake(t, 1)
	c := open(t, f, Options{})
	f.put("q", "x")
	got, told := make(chan *Delivery, 1), make(chan *Delivery, 1)
	s, err := c.Subscribe(t.Context(), "q", SubscribeOptions{
		OnLost:      func(*Delivery) { t.Error("the lease is not lost") },
		OnCancelled: func(d *Delivery) { told <- d },
	}, func(d *Delivery) { got <- d })
	if err != nil {
		t.Fatal(err)
	}
	d := <-got
	released := cancelledBy(f, d.Token)
	if who := <-told; who != d {
		t.Errorf("told of %v", who)
	}
	if _, err := c.Ack(t.Context(), d.Token, AckOptions{}); !errors.Is(err, ErrCancelled) {
		t.Errorf("ack: %v, want ErrCancelled", err)
	}
	<-released
	c.mu.Lock()
	if len(c.leases) != 0 {
		t.Errorf("%d leases are left", len(c.leases))
	}
	c.mu.Unlock()
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A stream goes on behind what it has had, through refusals and lost connections, and ends with its function or context.
func TestStreamResults(t *testing.T) {
	f := newFake(t, 1)
	c := open(t, f, Options{})
	asked := 0
	f.do(func() {
		f.hook = func(fc *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
			if r.Type != wire.TypeResultList {
				return pass, nil
			}
			var q wire.ResultList
			if err := r.Decode(&q); err != nil {
				t.Error(err)
			}
			asked++
			answer := &wire.Results{Results: []wire.Recorded{}, Next: q.After, At: atOne}
			switch asked {
			case 1:
				return hangUp, nil
			case 2:
				if !q.Last || q.WaitMillis != 0 {
					t.Errorf("first %+v", q)
				}
				answer.Next = 40
			case 3:
				if q.After != 40 || q.Last || q.WaitMillis == 0 {
					t.Errorf("then %+v", q)
				}
				answer.Results = append(answer.Results, wire.Recorded{Position: 41}, wire.Recorded{Position: 44})
				answer.Next = 45
			case 4:
				return pass, wire.NewFault(wire.CodeTimeout, "too many reads")
			case 5:
				return pass, wire.NewFault(wire.CodeOverloaded, "too many waits")
			default:
				if q.After != 45 {
					t.Errorf("behind %d, want 45", q.After)
				}
				answer.Results = append(answer.Results, wire.Recorded{Position: uint64(40 + asked)})
				answer.Next = uint64(40 + asked)
			}
			fc.push(wire.TypeResults, r.Tag, answer)
			return ignore, nil
		}
	})
	var got []uint64
	enough := errors.New("enough")
	err := c.StreamResults(t.Context(), "q", ResultsOptions{New: true}, func(r Recorded) error {
		if got = append(got, r.Position); len(got) == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || len(got) != 3 || got[0] != 41 || got[1] != 44 || got[2] != 46 {
		t.Errorf("got %v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.do(func() {
		f.hook = func(_ *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
			if r.Type == wire.TypeResultList {
				cancel()
				return ignore, nil
			}
			return pass, nil
		}
	})
	if err := c.StreamResults(ctx, "q", ResultsOptions{}, func(Recorded) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled stream: %v", err)
	}
	f.do(func() {
		f.hook = func(_ *fakeConn, r wire.Raw) (verdict, *wire.Fault) {
			if r.Type == wire.TypeResultList {
				return pass, wire.NewFault(wire.CodeNotFound, "no queue")
			}
			return pass, nil
		}
	})
	if err := c.StreamResults(t.Context(), "q", ResultsOptions{}, func(Recorded) error { return nil }); !errors.Is(err, ErrNotFound) {
		t.Errorf("a stream of no queue: %v", err)
	}
}
