package transport

import (
	"context"
	"time"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

var statuses = map[fsm.MessageState]string{
	fsm.StateScheduled: wire.StatusScheduled,
	fsm.StateReady:     wire.StatusPending,
	fsm.StateLeased:    wire.StatusProcessing,
	fsm.StateRetrying:  wire.StatusRetrying,
	fsm.StateDone:      wire.StatusSucceeded,
	fsm.StateDead:      wire.StatusDead,
	fsm.StateCancelled: wire.StatusCancelled,
}

var reasons = map[fsm.DeadReason]string{
	fsm.ReasonMaxAttempts: "max_attempts",
	fsm.ReasonPermanent:   "permanent",
	fsm.ReasonExpired:     "expired",
	fsm.ReasonOverflow:    "overflow",
	fsm.ReasonMapping:     "mapping",
}

// refusals are the reasons for which a queue refuses messages: the field or limit that they are about, or the code where they may be
// about many.
var refusals = [fsm.Refusals]string{
	fsm.RefusedInvalid: "invalid_argument", fsm.RefusedTooLarge: "too_large", fsm.RefusedTaskID: "task_id", fsm.RefusedDedupKey: "dedup_key",
	fsm.RefusedDepth: "max_depth", fsm.RefusedBytes: "max_bytes", fsm.RefusedTasks: "messages", fsm.RefusedDead: "max_dead",
	fsm.RefusedResults: "max_results_bytes", fsm.RefusedDedup: "dedup_max_keys", fsm.RefusedKeyDebts: "rate_per_key",
	fsm.RefusedKV: "keys_if_undelivered", fsm.RefusedBatch: "batch", fsm.RefusedGroup: "overloaded", fsm.RefusedOther: "other",
}

// stays says why a dead letter is not in the dead-letter queue that its queue has.
var stays = map[fsm.StayReason]string{fsm.StayMissing: "missing", fsm.StayFull: "full", fsm.StayHere: "dead_letter_queue"}

// taskOf copies all that is known of a message out of the state.
func taskOf(in *fsm.Info, body bool) wire.Task {
	t := wire.Task{
		TaskID: string(in.TaskID), Queue: in.Queue, Kind: string(in.Kind), Status: statuses[in.State],
		Priority: in.Priority, Attempts: in.Attempts, MaxAttempts: in.MaxAttempts, EnqueuedAt: in.EnqueuedAt,
		DueAt: in.DueAt, LeaseEndsAt: in.Deadline, ExpiresAt: in.ExpiresAt, EndedAt: in.EndedAt,
		Worker: string(in.Worker), Error: string(in.Error), Reason: reasons[in.Reason], Redrives: in.Redrives,
		OriginalEnqueuedAt: in.OriginalEnqueuedAt, ContentType: string(in.ContentType), BodyBytes: int64(len(in.Body)),
	}
	if in.Origin != "" {
		t.Origin, t.Held = in.Origin, statuses[in.Held]
		t.HeldAttempts, t.HeldMaxAttempts = in.HeldAttempts, in.HeldMaxAttempts
	}
	t.Stay = stays[in.Stay]
	if !in.ID.IsZero() { // else its result was pushed and no message ever came
		t.ID = in.ID.String()
	}
	if !in.OriginalID.IsZero() && in.OriginalID != in.ID {
		t.OriginalID = in.OriginalID.String()
	}
	for _, a := range in.History {
		t.History = append(t.History, wire.Attempt{At: a.At, Number: a.Number, Worker: string(a.Worker), Error: string(a.Error)})
	}
	for _, h := range in.Headers {
		t.Headers = append(t.Headers, wire.Header{Name: string(h.Name), Value: string(h.Value)})
	}
	if len(in.Key) > 0 {
		t.Key = append(wire.Bytes{}, in.Key...)
	}
	if body && len(in.Body) > 0 {
		t.Body = append(wire.Bytes{}, in.Body...)
	}
	return t
}

// read runs fn on the state for a request.
func (c *conn) readState(ctx context.Context, stale bool, fn func(*fsm.State)) (wire.At, *wire.Fault) {
	at, err := c.srv.group("").Read(ctx, stale, fn)
	if err != nil {
		f := faultOf(err)
		f.Unknown = false // a read that failed did nothing
		return wire.At{}, f
	}
	return wire.At(at), nil
}

// task tells where a task stands.
func (c *conn) task(raw wire.Raw) bool {
	req := new(wire.TaskGet)
	if ok, alive := taken(c, raw, req, (*wire.TaskGet).Validate); !ok {
		return alive
	}
	return c.slowly(raw.Tag, 0, 1, func(ctx context.Context, e *errand) (wire.Type, any, *wire.Fault) {
		if f := e.takeTurn(ctx, req.Stale); f != nil {
			return 0, nil, f
		}
		rep := new(wire.TaskIs)
		found := false
		at, f := c.readState(ctx, req.Stale, func(st *fsm.State) {
			var in fsm.Info
			if found = st.Task(req.Task.Queue, wire.View(req.Task.TaskID), &in); found {
				rep.Task = taskOf(&in, true)
			}
		})
		if f != nil {
			return 0, nil, f
		}
		if !found {
			return 0, nil, noTask(&req.Task)
		}
		rep.At = at
		return wire.TypeTaskIs, rep, nil
	})
}

func noTask(t *wire.TaskRef) *wire.Fault {
	if t.Queue == "" {
		return wire.NewFault(wire.CodeNotFound, "no task %q: it was deleted, or ended longer ago than ends are remembered", t.TaskID)
	}
	return wire.NewFault(wire.CodeNotFound, "no task %q in queue %q: it was deleted, or ended longer ago than ends are remembered", t.TaskID, t.Queue)
}

// resultGet answers how a task ended, and waits for its end if asked to.
func (c *conn) resultGet(raw wire.Raw) bool {
	req := new(wire.ResultGet)
	if ok, alive := taken(c, raw, req, (*wire.ResultGet).Validate); !ok {
		return alive
	}
	wait := time.Duration(req.WaitMillis) * time.Millisecond
	return c.slowly(raw.Tag, wait, 1, func(ctx context.Context, e *errand) (wire.Type, any, *wire.Fault) {
		waiting, cancel := e.waiting(ctx, wait)
		defer cancel()
		for {
			if f := e.takeTurn(ctx, req.Stale); f != nil {
				return 0, nil, f
			}
			rep, status, f := c.result(ctx, req)
			if f != nil {
				return 0, nil, f
			}
			if rep != nil {
				return wire.TypeResultIs, rep, nil
			}
			e.leaveTurn()
			if wait == 0 || waiting.Err() != nil {
				return 0, nil, notEnded(req, status)
			}
			if err := c.srv.group("").WaitTask(waiting, req.Task.Queue, wire.View(req.Task.TaskID)); err != nil && waiting.Err() == nil {
				f := faultOf(err)
				f.Unknown = false
				return 0, nil, f
			}
			if waiting.Err() != nil {
				return 0, nil, notEnded(req, status)
			}
		}
	})
}

func notEnded(req *wire.ResultGet, status string) *wire.Fault {
	f := wire.NewFault(wire.CodeTimeout, "task %q has not ended within %d ms: it is %s", req.Task.TaskID, req.WaitMillis, status)
	f.Unknown = false
	return f
}

// result reads how a task ended; rep nil: it has not, and status says where it stands.
func (c *conn) result(ctx context.Context, req *wire.ResultGet) (rep *wire.ResultIs, status string, f *wire.Fault) {
	found := false
	at, f := c.readState(ctx, req.Stale, func(st *fsm.State) {
		task := wire.View(req.Task.TaskID)
		var in fsm.Info
		if found = st.Task(req.Task.Queue, task, &in); !found {
			return
		}
		switch status = statuses[in.State]; in.State {
		case fsm.StateDone:
			rep = &wire.ResultIs{Status: status}
			var r fsm.RecordedResult
			if _, rep.HasOutput = st.Result(req.Task.Queue, task, &r); rep.HasOutput {
				rep.Result = resultOf(&r)
				return
			}
			rep.Result = &wire.Result{Status: status, TaskID: string(in.TaskID), Queue: in.Queue, MessageID: in.ID.String()}
		case fsm.StateDead:
			t := taskOf(&in, true)
			rep = &wire.ResultIs{Status: status, Dead: &t}
		}
	})
	switch {
	case f != nil:
		return nil, "", f
	case !found:
		return nil, "", noTask(&req.Task)
	case rep != nil:
		rep.At = at
	case status == wire.StatusCancelled:
		return nil, "", wire.NewFault(wire.CodeCancelled, "task %q was cancelled", req.Task.TaskID)
	}
	return rep, status, nil
}

// resultPush records a result without a lease.
func (c *conn) resultPush(raw wire.Raw) bool {
	var req wire.ResultPush
	check := func(r *wire.ResultPush) *wire.Fault { return r.Validate(c.srv.cfg.MaxMessageBytes) }
	if ok, alive := taken(c, raw, &req, check); !ok {
		return alive
	}
	request, f := c.request(req.Request)
	if f != nil {
		return c.fault(raw.Tag, f)
	}
	k := c.prepare(raw.Tag, wire.TypeResultPush, &fsm.PushResult{
		Request: request, Queue: wire.View(req.Task.Queue), TaskID: wire.View(req.Task.TaskID), Kind: wire.View(req.Kind),
		Result: fsm.Result{Output: req.Result.Output, ContentType: wire.View(req.Result.ContentType)},
	})
	k.queue = req.Task.Queue
	k.tasks = append(k.tasks, req.Task.TaskID)
	return true
}
