package fsm

// EditFields says which fields of a dead letter an edit sets anew. Numbers are part of the log format.
type EditFields uint16

// Fields that can be edited. What is not named stays as it was. Task id and dedup key are what others know a task by: they
// cannot be changed.
const (
	EditBody EditFields = 1 << iota
	EditHeaders
	EditPriority
	EditContentType
	EditKind
	EditKey
	EditTTL     // 0: none
	EditTimeout // 0: none
	EditRetry   // RetryDefault: the queue's
	EditDelay   // Message.DelayMillis or DueAt
	editEnd
)

// DeadEdit requeues one dead letter with some fields set anew, from Message. One Outcome, as of DeadRequeue. It is all or
// nothing: a bad field leaves the dead letter where it is.
type DeadEdit struct {
	Request Request
	Queue   []byte
	ID      ID
	Fields  EditFields
	Message Message
}

func (s *State) deadEdit(op *DeadEdit, o *Outcome) {
	q := s.findQueue(op.Queue)
	switch {
	case q == nil:
		*o = refuse(NotFound, FieldQueue, 0)
		return
	case op.Fields >= editEnd || len(op.Message.TaskID) > 0 || op.Message.HasDedup || len(op.Message.Keys) > 0 || !op.Message.Batch.IsZero():
		*o = refuse(InvalidArgument, FieldEdit, 0)
		return
	}
	if *o = s.checkMessage(&op.Message); o.Code != OK {
		return
	}
	slot, ok := s.findDead(q, op.ID)
	if !ok {
		*o = refuse(NotFound, FieldNone, 0)
		return
	}
	*o = s.requeue(q, slot, op)
	s.clockFix(clockDead, q)
}

// edit sets the fields of a dead letter that is being requeued. What has to be encoded goes behind scratch, which comes back.
func (s *State) edit(op *DeadEdit, f *fields, priority *uint8, ttl, due *int64, scratch []byte) []byte {
	m := &op.Message
	has := func(e EditFields) bool { return op.Fields&e != 0 }
	if has(EditBody) {
		f.body = m.Body
	}
	if has(EditHeaders) {
		n := len(scratch)
		scratch = appendHeaders(scratch, m.Headers)
		f.headers = scratch[n:]
	}
	if has(EditRetry) {
		f.retry = nil
		if m.Retry.Kind != RetryDefault {
			n := len(scratch)
			m.Retry.Normalize()
			scratch = appendPolicy(scratch, &m.Retry)
			f.retry = scratch[n:]
		}
	}
	if has(EditPriority) {
		*priority = m.Priority
	}
	if has(EditContentType) {
		f.contentType = m.ContentType
	}
	if has(EditKind) {
		f.kind = m.Kind
	}
	if has(EditKey) {
		f.key = m.Key
	}
	if has(EditTimeout) {
		f.timeout = m.TimeoutMillis
	}
	if has(EditTTL) {
		*ttl = m.TTLMillis
	}
	if has(EditDelay) {
		if *due = m.DueAt; *due == 0 {
			*due = s.now + m.DelayMillis
		}
	}
	return scratch
}
