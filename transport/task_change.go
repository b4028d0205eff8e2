package transport

import (
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// taskCancel ends a task.
func (c *conn) taskCancel(raw wire.Raw) bool {
	var req wire.TaskCancel
	if ok, alive := taken(c, raw, &req, (*wire.TaskCancel).Validate); !ok {
		return alive
	}
	request, f := c.request(req.Request)
	if f != nil {
		return c.fault(raw.Tag, f)
	}
	c.prepare(raw.Tag, wire.TypeTaskCancel, &fsm.Cancel{
		Request: request, Queue: wire.View(req.Task.Queue), TaskID: wire.View(req.Task.TaskID),
	}).queue = req.Task.Queue
	return true
}

// taskReschedule gives a waiting task another time, another body, or both.
func (c *conn) taskReschedule(raw wire.Raw) bool {
	var req wire.TaskReschedule
	check := func(r *wire.TaskReschedule) *wire.Fault { return r.Validate(c.srv.cfg.MaxMessageBytes) }
	if ok, alive := taken(c, raw, &req, check); !ok {
		return alive
	}
	request, f := c.request(req.Request)
	if f != nil {
		return c.fault(raw.Tag, f)
	}
	op := &fsm.Reschedule{
		Request: request, Queue: wire.View(req.Task.Queue), TaskID: wire.View(req.Task.TaskID), MaxWaitMillis: req.MaxWaitMillis,
	}
	switch {
	case req.DelayMillis != nil:
		op.When, op.Time = fsm.AfterDelay, *req.DelayMillis
	case req.EnqueueAt != 0:
		op.When, op.Time = fsm.AtTime, req.EnqueueAt
	}
	if r := req.Replace; r != nil {
		home := req.Task.Queue
		if home == "" {
			home = c.srv.schemas.home("", req.Task.TaskID)
		}
		if f := c.unlessAnswered(c.srv.schemas.judge(c.judging, home, "replace.body", r.Body)); f != nil {
			return c.fault(raw.Tag, f)
		}
		op.HasBody, op.Body, op.ContentType = true, r.Body, wire.View(r.ContentType)
	}
	c.prepare(raw.Tag, wire.TypeTaskReschedule, op).queue = req.Task.Queue
	return true
}
