package wire

// DeadReasons are the names of why a message died.
var DeadReasons = map[string]bool{"max_attempts": true, "permanent": true, "expired": true, "overflow": true, "mapping": true}

// Fields of a dead letter that an edit can set, as DeadEdit.Fields names them.
const (
	EditBody        = "body"
	EditHeaders     = "headers"
	EditPriority    = "priority"
	EditContentType = "content_type"
	EditKind        = "kind"
	EditKey         = "key"
	EditTTL         = "ttl_ms"
	EditTimeout     = "timeout_ms"
	EditRetry       = "retry"
	EditDelay       = "delay"
)

// editable tells, for each field that can be edited, whether a message sets it.
var editable = map[string]func(m *Message) bool{
	EditBody:        func(m *Message) bool { return len(m.Body) > 0 },
	EditHeaders:     func(m *Message) bool { return len(m.Headers) > 0 },
	EditPriority:    func(m *Message) bool { return m.Priority != nil },
	EditContentType: func(m *Message) bool { return m.ContentType != "" },
	EditKind:        func(m *Message) bool { return m.Kind != "" },
	EditKey:         func(m *Message) bool { return len(m.Key) > 0 },
	EditTTL:         func(m *Message) bool { return m.TTLMillis != 0 },
	EditTimeout:     func(m *Message) bool { return m.TimeoutMillis != 0 },
	EditRetry:       func(m *Message) bool { return m.Retry != nil },
	EditDelay:       func(m *Message) bool { return m.DelayMillis != 0 || m.EnqueueAt != 0 },
}

// Validate judges an edit of a dead letter.
func (d *DeadEdit) Validate(maxMessageBytes int64) *Fault {
	if f := first(CheckQueue("queue", d.Queue), CheckID("id", d.ID), d.Request.Validate(1)); f != nil {
		return f
	}
	named := make(map[string]bool, len(d.Fields))
	for _, name := range d.Fields {
		if editable[name] == nil {
			return Invalid("fields", "%.40q; body, headers, priority, content_type, kind, key, ttl_ms, timeout_ms, retry or delay expected", name)
		}
		if named[name] {
			return Invalid("fields", "%q is there twice", name)
		}
		named[name] = true
	}
	switch {
	case d.Set.TaskID != "":
		return Invalid("task_id", "a dead letter keeps its task id")
	case len(d.Set.DedupKey) > 0:
		return Invalid("dedup_key", "a dead letter has none any more, and gets none")
	}
	if d.Set.Batch != "" {
		return Invalid("batch", "a dead letter has ended for its batch, and joins none")
	}
	if len(d.Set.KeysIfUndelivered) > 0 {
		return Invalid("keys_if_undelivered", "a dead letter has written them, and gets none")
	}
	for name, set := range editable {
		if set(&d.Set) && !named[name] {
			return Invalid(name, "set, but not named in fields")
		}
	}
	return d.Set.Validate(maxMessageBytes)
}
