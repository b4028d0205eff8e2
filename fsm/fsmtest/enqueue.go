package fsmtest

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/quorate/quorate/fsm"
)

// validText judges a text: what is shown in JSON and metrics is UTF-8.
func validText(b []byte, limit int) bool { return len(b) <= limit && utf8.Valid(b) }

// checkMessage judges a message's own fields; FieldNone is fine.
func (m *Model) checkMessage(x *fsm.Message) fsm.Field {
	switch {
	case !validText(x.TaskID, 128):
		return fsm.FieldTaskID
	case !validText(x.Kind, 128):
		return fsm.FieldKind
	case !validText(x.ContentType, 128):
		return fsm.FieldContentType
	case len(x.Body) > maxBodyBytes:
		return fsm.FieldBody
	case len(x.Key) > 256:
		return fsm.FieldKey
	case x.Priority > 9:
		return fsm.FieldPriority
	case !within(x.DelayMillis, 0, maxDelay), x.DueAt < 0:
		return fsm.FieldDelay
	case x.TTLMillis < 0 || x.TTLMillis > maxDelay:
		return fsm.FieldTTL
	case x.TimeoutMillis < 0 || x.TimeoutMillis > maxDelay:
		return fsm.FieldTimeout
	case !validHeaders(x.Headers):
		return fsm.FieldHeaders
	case !validRetry(retryWithDefaults(x.Retry)):
		return fsm.FieldRetry
	case !validKeys(x.Keys):
		return fsm.FieldKVKeys
	case x.DueAt > m.t+maxDelay:
		return fsm.FieldDelay
	}
	return fsm.FieldNone
}

func validHeaders(list []fsm.Header) bool {
	size := 0
	for _, h := range list {
		if len(h.Name) < 1 || !validText(h.Name, 128) || !validText(h.Value, 4<<10) {
			return false
		}
		size += len(h.Name) + len(h.Value)
	}
	return len(list) <= 64 && size <= 16<<10
}

// enqueue adds one message to a queue.
func (m *Model) enqueue(name string, create bool, x *fsm.Message) fsm.Outcome {
	if !validQueueName(name) {
		return refuse(fsm.InvalidArgument, fsm.FieldQueue)
	}
	q := m.queue(name)
	if q == nil && !create {
		return refuse(fsm.NotFound, fsm.FieldQueue)
	}
	if f := m.checkMessage(x); f != fsm.FieldNone {
		return refuse(fsm.InvalidArgument, f)
	}
	if q == nil {
		if o := m.checkHook(x); o.Code != fsm.OK {
			return o
		}
		if len(m.queues) >= maxQueues {
			return refuse(fsm.Overloaded, fsm.FieldQueues)
		}
		q = m.newQueue(name, withDefaults(fsm.QueueOptions{}))
	}
	if q.options.Ordering != fsm.OrderUnordered && x.Priority != defaultPriority {
		return refuse(fsm.InvalidArgument, fsm.FieldPriority)
	}
	if d := m.dedupKey(q, x); d != nil {
		return m.dedupHit(q, d, x)
	}
	if len(x.TaskID) > 0 {
		if holder, taken := m.taskHolder(q, string(x.TaskID)); taken {
			o := fsm.Outcome{Code: fsm.AlreadyExists, Field: fsm.FieldTaskID, ID: holder}
			if r := m.resultOfTask(q, string(x.TaskID)); r != nil {
				o.HasResult, o.Task = true, r.message
			}
			return o
		}
	}
	y := newMessage(q, x)
	if o := q.never(y.size()); o.Code != fsm.OK {
		m.sometimes("limit: it never fits")
		return o
	}
	room := m.first(q.deep(), q.large(y.size()))
	if o := m.first(room, m.full(q)); o.Code != fsm.OK && (q.options.Overflow == fsm.OverflowReject || m.full(q).Code != fsm.OK) {
		return o
	}
	before := len(m.doomed)
	if room.Code != fsm.OK && !m.doom(q, y.size()) {
		return room
	}
	dedup := fsm.Outcome{}
	if x.HasDedup && int64(len(q.dedup)) >= q.options.DedupMaxKeys {
		dedup = fsm.Outcome{Code: fsm.QueueFull, Field: fsm.FieldDedup, Limit: q.options.DedupMaxKeys}
	}
	if o := m.first(dedup, m.checkHook(x)); o.Code != fsm.OK {
		m.spare(before) // what is refused drops nothing
		return o
	}
	o := fsm.Outcome{ID: m.accept(q, x, y)}
	if y.link = m.chaining; !m.chaining {
		m.dropDoomed()
	}
	return o
}

// accept adds a message that nothing keeps out any more.
func (m *Model) accept(q *queue, x *fsm.Message, y *message) fsm.ID {
	m.settleKeys(q)
	y.id = m.newID()
	y.original, y.originalEnqueuedAt = y.id, m.t
	if y.task == "" {
		y.task = idText(y.id)
	}
	due := x.DueAt
	if due == 0 {
		due = m.t + x.DelayMillis
	}
	m.begin(q, y, due)
	q.messages = append(q.messages, y)
	m.settleKeys(q)
	q.stats.Enqueued++
	m.hookOn(y.id, x)
	if x.TTLMillis == 0 && y.ttl > 0 {
		m.sometimes("limit: max_age is the ttl")
	}
	if x.HasDedup {
		q.dedup = append(q.dedup, &dedupKey{
			seq: m.newSeq(), key: x.DedupKey, content: x.DedupContent, first: y.id,
			end: m.t + q.options.DedupWindowMillis,
		})
	}
	return y.id
}

// full says which of a queue's tables refuses new work.
func (m *Model) full(q *queue) fsm.Outcome {
	dead := fsm.Outcome{}
	if q.options.DeadOverflow == fsm.DeadRefuse && int64(len(q.dead)) >= q.options.MaxDead {
		dead = fsm.Outcome{Code: fsm.QueueFull, Field: fsm.FieldDead, Limit: q.options.MaxDead}
	}
	return m.first(dead, q.resultsFull())
}

// resultsFull says whether the table of results keeps new work out.
func (q *queue) resultsFull() fsm.Outcome {
	if q.resultBytes() >= q.options.MaxResultsBytes {
		return fsm.Outcome{Code: fsm.QueueFull, Field: fsm.FieldResults, Limit: q.options.MaxResultsBytes}
	}
	return fsm.Outcome{}
}

// dedupKey is the remembered key of a message, if it has one and it is remembered.
func (m *Model) dedupKey(q *queue, x *fsm.Message) *dedupKey {
	for _, d := range q.dedup {
		if x.HasDedup && d.key == x.DedupKey && !m.dedupEnded(d) {
			return d
		}
	}
	return nil
}

// dedupHit answers a message whose dedup key is remembered.
func (m *Model) dedupHit(q *queue, d *dedupKey, again *fsm.Message) fsm.Outcome {
	if d.content != again.DedupContent {
		return fsm.Outcome{Code: fsm.AlreadyExists, Field: fsm.FieldDedupKey, ID: d.first}
	}
	q.stats.Duplicates++
	o := fsm.Outcome{Duplicate: true, ID: d.first}
	x, r := m.find(q, func(n names) bool { return n.id == d.first })
	if x == nil && r == nil {
		x, r = m.find(q, func(n names) bool { return n.original == d.first && n.task == idText(d.first) })
	}
	if x != nil {
		r = m.resultOfTask(q, x.task)
	}
	if r != nil && r.hasResult && (x != nil || !r.message.IsZero()) { // one of a task never seen is not told by an id
		o.HasResult, o.Task = true, r.message
	}
	return o
}

// taskHolder is the message that a task id names, while the task is live, dead or remembered.
func (m *Model) taskHolder(q *queue, task string) (fsm.ID, bool) {
	x, r := m.find(q, func(n names) bool { return n.task == task })
	switch {
	case x != nil:
		return x.id, true
	case r != nil:
		return r.message, true
	}
	return fsm.ID{}, false
}

// newMessage makes the record of a message as it comes in.
func newMessage(q *queue, x *fsm.Message) *message {
	y := &message{
		task: string(x.TaskID), kind: string(x.Kind), contentType: string(x.ContentType),
		body: bytes.Clone(x.Body), key: string(x.Key), priority: x.Priority,
		retry: retryWithDefaults(x.Retry), ttl: x.TTLMillis, timeout: x.TimeoutMillis,
		givenType: string(x.ContentType),
	}
	if y.ttl == 0 {
		y.ttl = q.options.MaxAgeMillis
	}
	if y.contentType == "" {
		y.contentType = defaultContentType
	}
	for _, h := range x.Headers {
		y.headers = append(y.headers, fsm.Header{Name: bytes.Clone(h.Name), Value: bytes.Clone(h.Value)})
	}
	return y
}

// begin starts a message's life at T, first or again.
func (m *Model) begin(q *queue, y *message, due int64) {
	y.enqueuedAt = m.t
	if y.ttl > 0 {
		y.expiresAt = m.t + y.ttl
	}
	if due > m.t {
		y.state, y.due = fsm.StateScheduled, due
		return
	}
	m.makeReady(q, y)
}

const defaultPriority = 4

const defaultContentType = "application/octet-stream"

// alphabet is Crockford's base32: no I, L, O, U.
const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// idText is the text of an id: its 128 bits, most significant first, as 26 characters of Crockford base32.
func idText(id fsm.ID) string {
	hi, lo := id.Hi, id.Lo
	var text [26]byte
	for i := len(text) - 1; i >= 0; i-- {
		text[i] = alphabet[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return string(text[:])
}

// idOf reads the text of an id; false for any other text.
func idOf(text string) (id fsm.ID, ok bool) {
	for _, c := range []byte(text) {
		digit := strings.IndexByte(alphabet, c)
		if digit < 0 {
			return id, false
		}
		id.Hi = id.Hi<<5 | id.Lo>>59
		id.Lo = id.Lo<<5 | uint64(digit)
	}
	return id, idText(id) == text
}
