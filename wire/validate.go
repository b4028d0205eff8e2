package wire

import (
	"fmt"
	"unicode/utf8"
)

// The Validate methods judge a request at the door, by itself: lengths, ranges, alphabets, and which fields go together.
// What depends on the state (does the queue exist, how far ahead is a time) is judged there. Each returns nil or the
// first fault found; the fault names the field, the value or its length, and the limit. The result is a *Fault, not an
// error: compare it with nil before it becomes one. A client may call them before it sends, a server calls them after
// decoding.

func checkText(field, s string, least, most int) *Fault {
	if len(s) < least || len(s) > most {
		if least == 0 {
			return Invalid(field, "%d bytes; at most %d are allowed", len(s), most)
		}
		return Invalid(field, "%d bytes; %d to %d are allowed", len(s), least, most)
	}
	if !utf8.ValidString(s) {
		return Invalid(field, "%q is not valid UTF-8", s)
	}
	return nil
}

func checkRange(field string, v, least, most int64) *Fault {
	if v < least || v > most {
		return Invalid(field, "%d; %d to %d are allowed", v, least, most)
	}
	return nil
}

// checkMillis is checkRange for an optional duration, where 0 stands for the default.
func checkMillis(field string, v, least, most int64) *Fault {
	if v != 0 && (v < least || v > most) {
		return Invalid(field, "%d ms; %d to %d ms are allowed, or 0 for the default", v, least, most)
	}
	return nil
}

// first returns the first fault that is one.
func first(faults ...*Fault) *Fault {
	for _, f := range faults {
		if f != nil {
			return f
		}
	}
	return nil
}

// queueByte tells which bytes queue names are made of: 1 at the start and later, 2 only later.
var queueByte = func() (t [256]uint8) {
	for c := byte('0'); c <= '9'; c++ {
		t[c] = 1
	}
	for c := byte('a'); c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = 1, 1
	}
	t['.'], t['_'], t[':'], t['-'] = 2, 2, 2, 2
	return t
}()

// CheckQueue judges a queue name: [A-Za-z0-9][A-Za-z0-9._:-]{0,127}.
func CheckQueue(field, name string) *Fault { return checkName(field, "queue", name, MaxQueueBytes) }

// checkName judges the name of a queue or of a schedule; they differ in length alone.
func checkName(field, noun, name string, most int) *Fault {
	if len(name) == 0 || len(name) > most {
		return Invalid(field, "a %s name of %d bytes; 1 to %d are allowed", noun, len(name), most)
	}
	for i := range len(name) {
		if k := queueByte[name[i]]; k == 0 || i == 0 && k == 2 {
			return Invalid(field, "%q is no %s name: letters, digits and . _ : - are allowed, the first a letter or digit", name, noun)
		}
	}
	return nil
}

// crockford tells which bytes ids are made of: Crockford's base32, upper case.
var crockford = func() (t [256]bool) {
	for _, c := range []byte("0123456789ABCDEFGHJKMNPQRSTVWXYZ") {
		t[c] = true
	}
	return t
}()

// IsID reports whether s has the form of a broker's id: 26 characters of Crockford's base32 that make 128 bits.
func IsID(s string) bool {
	if len(s) != IDBytes || s[0] > '7' {
		return false
	}
	for i := range len(s) {
		if !crockford[s[i]] {
			return false
		}
	}
	return true
}

// CheckID judges a broker's id.
func CheckID(field, s string) *Fault {
	if !IsID(s) {
		return Invalid(field, "%.40q is no id: %d characters of Crockford's base32 (0-9 A-Z without I L O U, the first 0-7) expected", s, IDBytes)
	}
	return nil
}

// CheckToken judges the form of a lease token: two ids one after the other.
func CheckToken(field, s string) *Fault {
	if len(s) != TokenBytes {
		return Invalid(field, "%d bytes; a token has %d", len(s), TokenBytes)
	}
	if !IsID(s[:IDBytes]) || !IsID(s[IDBytes:]) {
		return Invalid(field, "%.60q is no token: a lease hands them out, %d characters", s, TokenBytes)
	}
	return nil
}

func checkTokens(field string, tokens []string) *Fault {
	for i, t := range tokens {
		if len(t) != TokenBytes || !IsID(t[:IDBytes]) || !IsID(t[IDBytes:]) {
			return CheckToken(fmt.Sprintf("%s[%d]", field, i), t)
		}
	}
	return nil
}

// Validate judges a request id that takes n numbers (a batch takes one a message). The zero Request, none, is fine.
func (r *Request) Validate(n int) *Fault {
	if r.Number == 0 {
		if r.Low != 0 {
			return Invalid("request", "low %d without a number: numbers start at 1, and 0 with low 0 is no request id", r.Low)
		}
		return nil
	}
	last := r.Number + uint64(max(n, 1)) - 1
	switch {
	case r.Low > r.Number:
		return Invalid("request", "number %d is below low %d, which says that it is answered already", r.Number, r.Low)
	case last < r.Number:
		return Invalid("request", "number %d leaves no room for %d numbers", r.Number, n)
	case last-r.Low >= MaxRequestSpan:
		return Invalid("request", "number %d is %d above low %d; less than %d is allowed", last, last-r.Low, r.Low, MaxRequestSpan)
	}
	return nil
}

// Validate judges one message under the server's max_message_bytes.
func (m *Message) Validate(maxMessageBytes int64) *Fault {
	if int64(len(m.Body)) > maxMessageBytes {
		return TooLarge("body", "%d bytes; max_message_bytes is %d", len(m.Body), maxMessageBytes)
	}
	if m.TaskID != "" {
		if f := checkText("task_id", m.TaskID, 1, MaxTaskIDBytes); f != nil {
			return f
		}
	}
	if m.Kind != "" {
		if f := checkText("kind", m.Kind, 0, MaxKindBytes); f != nil {
			return f
		}
	}
	if m.ContentType != "" {
		if f := checkText("content_type", m.ContentType, 0, MaxContentTypeBytes); f != nil {
			return f
		}
	}
	if len(m.Headers) > 0 {
		if f := checkHeaders(m.Headers); f != nil {
			return f
		}
	}
	if m.Priority != nil && *m.Priority > MaxPriority {
		return Invalid("priority", "%d; 0 to %d are allowed, %d goes first", *m.Priority, MaxPriority, MaxPriority)
	}
	if len(m.Key) > MaxKeyBytes {
		return Invalid("key", "%d bytes; at most %d are allowed", len(m.Key), MaxKeyBytes)
	}
	if len(m.DedupKey) > MaxKeyBytes {
		return Invalid("dedup_key", "%d bytes; at most %d are allowed", len(m.DedupKey), MaxKeyBytes)
	}
	if m.DelayMillis|m.EnqueueAt|m.TTLMillis|m.TimeoutMillis != 0 {
		if m.DelayMillis != 0 && m.EnqueueAt != 0 {
			return Invalid("delay_ms", "%d, with enqueue_at %d too: give one of the two", m.DelayMillis, m.EnqueueAt)
		}
		if m.EnqueueAt < 0 {
			return Invalid("enqueue_at", "%d; milliseconds since 1970 expected", m.EnqueueAt)
		}
		if f := first(checkMillis("delay_ms", m.DelayMillis, 1, MaxDelayMillis),
			checkMillis("ttl_ms", m.TTLMillis, 1, MaxDelayMillis),
			checkMillis("timeout_ms", m.TimeoutMillis, 1, MaxDelayMillis)); f != nil {
			return f
		}
	}
	if m.Batch != "" {
		if f := CheckID("batch", m.Batch); f != nil {
			return f
		}
	}
	if len(m.KeysIfUndelivered) > 0 {
		if f := checkKeys(m.KeysIfUndelivered); f != nil {
			return f
		}
	}
	if m.Retry != nil {
		return m.Retry.Validate("retry")
	}
	return nil
}

func checkHeaders(hs []Header) *Fault {
	if len(hs) > MaxHeaders {
		return Invalid("headers", "%d pairs; at most %d are allowed", len(hs), MaxHeaders)
	}
	total := 0
	for i := range hs {
		h := &hs[i]
		if len(h.Name) == 0 || len(h.Name) > MaxHeaderNameBytes || !utf8.ValidString(h.Name) {
			return checkText(fmt.Sprintf("headers[%d].name", i), h.Name, 1, MaxHeaderNameBytes)
		}
		if len(h.Value) > MaxHeaderValueBytes || !utf8.ValidString(h.Value) {
			return checkText(fmt.Sprintf("headers[%d].value", i), h.Value, 0, MaxHeaderValueBytes)
		}
		total += len(h.Name) + len(h.Value)
	}
	if total > MaxHeadersBytes {
		return Invalid("headers", "%d bytes in all; at most %d are allowed", total, MaxHeadersBytes)
	}
	return nil
}

// Validate judges the batch as a whole: the queue's name, how many messages, how many bytes of bodies, the request id.
// Each message is judged by its own Validate, since a bad one is refused alone while the others go on.
func (e *Enqueue) Validate(maxMessageBytes int64) *Fault {
	if f := CheckQueue("queue", e.Queue); f != nil {
		return f
	}
	if n := len(e.Messages); n == 0 || n > MaxBatch {
		return Invalid("messages", "a batch of %d; 1 to %d are allowed", n, MaxBatch)
	}
	if len(e.Messages) > 1 {
		total := int64(0)
		for i := range e.Messages {
			total += int64(len(e.Messages[i].Body))
		}
		if most := MaxBatchBytes(maxMessageBytes); total > most {
			return TooLarge("messages", "%d bytes of bodies; a batch may carry %d", total, most)
		}
	}
	return e.Request.Validate(len(e.Messages))
}

// Validate judges a retry policy. Fields that are 0 take the default; fields that the kind does not have must be 0.
func (p *RetryPolicy) Validate(field string) *Fault {
	none := func(name string, v int64) *Fault {
		if v != 0 {
			return Invalid(field+"."+name, "%d; a policy of kind %s has no %s", v, p.Kind, name)
		}
		return nil
	}
	switch p.Kind {
	case RetrySchedule, RetryFixed, RetryLinear, RetryExponential:
	default: // first, since what else may be given depends on it
		return Invalid(field+".kind", "%.40q; %s, %s, %s or %s expected", p.Kind, RetrySchedule, RetryFixed, RetryLinear, RetryExponential)
	}
	f := first(
		checkMillis(field+".initial_ms", p.InitialMillis, 1, MaxDelayMillis),
		checkMillis(field+".max_ms", p.MaxMillis, 1, MaxDelayMillis),
		checkMillis(field+".jitter_ms", p.JitterMillis, 1, MaxDelayMillis),
	)
	if f != nil {
		return f
	}
	if p.Kind != RetrySchedule && len(p.Steps) > 0 {
		return none("steps", int64(len(p.Steps)))
	}
	if p.Kind != RetrySchedule && p.MaxAttempts != 0 {
		if f := checkRange(field+".max_attempts", int64(p.MaxAttempts), 1, MaxAttempts); f != nil {
			return f
		}
	}
	switch p.Kind {
	case RetrySchedule:
		if n := len(p.Steps); n == 0 || n > MaxRetrySteps {
			return Invalid(field+".steps", "%d delays; a schedule has 1 to %d", n, MaxRetrySteps)
		}
		for i, s := range p.Steps {
			if s < 0 || s > MaxDelayMillis {
				return checkRange(fmt.Sprintf("%s.steps[%d]", field, i), s, 0, MaxDelayMillis)
			}
		}
		return first(none("initial_ms", p.InitialMillis), none("multiplier", p.MultiplierMilli), none("max_ms", p.MaxMillis),
			none("max_attempts", int64(p.MaxAttempts)))
	case RetryFixed:
		return first(none("multiplier", p.MultiplierMilli), none("max_ms", p.MaxMillis))
	case RetryLinear:
		return none("multiplier", p.MultiplierMilli)
	case RetryExponential:
		if p.MultiplierMilli != 0 {
			return checkRange(field+".multiplier", p.MultiplierMilli, MinMultiplierMilli, MaxMultiplierMilli)
		}
	}
	return nil
}
