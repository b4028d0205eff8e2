package wire

// Validate judges a cancellation.
func (t *TaskCancel) Validate() *Fault { return first(t.Task.Validate(), t.Request.Validate(1)) }

// Validate judges a new time or body for a task.
func (t *TaskReschedule) Validate(maxMessageBytes int64) *Fault {
	if f := first(t.Task.Validate(), t.Request.Validate(1)); f != nil {
		return f
	}
	switch {
	case t.DelayMillis == nil && t.EnqueueAt == 0 && t.Replace == nil:
		return Invalid("delay_ms", "missing; a new time (delay_ms or enqueue_at), a new body (replace) or both are expected")
	case t.DelayMillis != nil && t.EnqueueAt != 0:
		return Invalid("delay_ms", "%d, with enqueue_at %d too: give one of the two", *t.DelayMillis, t.EnqueueAt)
	case t.EnqueueAt < 0:
		return Invalid("enqueue_at", "%d; milliseconds since 1970 expected", t.EnqueueAt)
	case t.MaxWaitMillis != 0 && t.DelayMillis == nil:
		return Invalid("max_wait_ms", "%d without delay_ms: it caps that", t.MaxWaitMillis)
	}
	if t.DelayMillis != nil {
		if f := checkRange("delay_ms", *t.DelayMillis, 0, MaxDelayMillis); f != nil {
			return f
		}
	}
	if t.MaxWaitMillis != 0 {
		if f := checkRange("max_wait_ms", t.MaxWaitMillis, 1, MaxDelayMillis); f != nil {
			return f
		}
	}
	if r := t.Replace; r != nil {
		if int64(len(r.Body)) > maxMessageBytes {
			return TooLarge("body", "%d bytes; max_message_bytes is %d", len(r.Body), maxMessageBytes)
		}
		return checkText("content_type", r.ContentType, 0, MaxContentTypeBytes)
	}
	return nil
}

// Validate judges a listing of results. Whether After has been reached is for the state to say.
func (r *ResultList) Validate() *Fault {
	if r.Last && r.After != 0 {
		return Invalid("after", "%d, with last too: give one of the two", r.After)
	}
	return first(CheckQueue("queue", r.Queue), checkText("kind", r.Kind, 0, MaxKindBytes),
		checkRange("limit", int64(r.Limit), 0, MaxList), checkRange("wait_ms", r.WaitMillis, 0, MaxWaitMillis))
}
