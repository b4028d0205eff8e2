package wire

// Validate judges a schedule. What its expression and zone mean is for the server to judge.
func (s *Schedule) Validate(maxMessageBytes int64) *Fault {
	f := first(checkName("name", "schedule", s.Name, MaxScheduleBytes), CheckQueue("queue", s.Queue), checkText("cron", s.Cron, 1, MaxCronBytes),
		checkText("zone", s.Zone, 0, MaxZoneBytes), checkRange("jitter_ms", s.JitterMillis, 0, MaxJitterMillis))
	if f != nil {
		return f
	}
	m := &s.Message
	switch s.Missed {
	case "", MissedSkip, MissedOnce, MissedAll:
	default:
		return Invalid("missed", "%.40q; %s, %s or %s expected", s.Missed, MissedSkip, MissedOnce, MissedAll)
	}
	switch {
	case m.TaskID != "":
		return Invalid("task_id", "a schedule makes the task ids of its messages: name@fire time")
	case len(m.DedupKey) > 0:
		return Invalid("dedup_key", "the messages of a schedule have none: each fire time has one message")
	case m.DelayMillis != 0:
		return Invalid("delay_ms", "the messages of a schedule have none: the schedule says when")
	case m.EnqueueAt != 0:
		return Invalid("enqueue_at", "the messages of a schedule have none: the schedule says when")
	case m.Batch != "":
		return Invalid("batch", "the messages of a schedule are of none: a batch ends, a schedule does not")
	case len(m.Headers) > MaxHeaders-ScheduleHeaders:
		return Invalid("headers", "%d of them; at most %d are allowed, since a schedule adds %d", len(m.Headers), MaxHeaders-ScheduleHeaders, ScheduleHeaders)
	}
	for _, h := range m.Headers {
		if h.Name == "schedule" || h.Name == "schedule_at" {
			return Invalid("headers", "%q is one that the schedule adds", h.Name)
		}
	}
	return m.Validate(maxMessageBytes)
}

// Validate judges the making or setting of a schedule.
func (s *ScheduleWrite) Validate(maxMessageBytes int64) *Fault {
	return first(s.Schedule.Validate(maxMessageBytes), s.Request.Validate(1))
}

// Validate judges a request about one schedule.
func (s *ScheduleRef) Validate() *Fault {
	return first(checkName("name", "schedule", s.Name, MaxScheduleBytes), s.Request.Validate(1))
}

// Validate judges a listing of schedules.
func (s *ScheduleList) Validate() *Fault {
	return first(checkText("after", s.After, 0, MaxCursorBytes), checkRange("limit", int64(s.Limit), 0, MaxList))
}
