package wire

import "math"

// The hand-written decoders. Each reads one struct's map, keys ascending, and accepts exactly the one encoding that the
// encoders produce: required keys there, optional ones left out when they hold their default.

func (d *dec) at(v *At) {
	n := d.open(2)
	if d.req(&n, 1) {
		v.Index = d.uint(anyU64)
	}
	if d.req(&n, 2) {
		v.Time = d.int(bits64)
	}
	d.close(n)
}

func (d *dec) request(v *Request) {
	n := d.open(2)
	if d.req(&n, 1) {
		v.Number = d.uint(anyU64)
	}
	if d.req(&n, 2) {
		v.Low = d.uint(anyU64)
	}
	d.close(n)
}

func (d *dec) headers(old []Header) []Header {
	n := d.optArray(maxItems)
	if cap(old) < n {
		old = make([]Header, n)
	}
	v := old[:n]
	for i := range v {
		at := d.i
		if k := d.array(2); k != 2 {
			d.fail(at, "key %d: a header is an array of 2: name, value", d.key)
			return nil
		}
		v[i].Name = d.string(v[i].Name)
		v[i].Value = d.string(v[i].Value)
	}
	return v
}

func (d *dec) retry() *RetryPolicy {
	v := new(RetryPolicy)
	n := d.open(7)
	if d.req(&n, 1) {
		v.Kind = d.string(retryKind(d.b[d.i:]))
	}
	if d.opt(&n, 2) {
		v.Steps = make([]int64, d.optArray(maxItems))
		for i := range v.Steps {
			v.Steps[i] = d.int(bits64)
		}
	}
	if d.opt(&n, 3) {
		v.InitialMillis = d.optInt(bits64)
	}
	if d.opt(&n, 4) {
		v.MultiplierMilli = d.optInt(bits64)
	}
	if d.opt(&n, 5) {
		v.MaxMillis = d.optInt(bits64)
	}
	if d.opt(&n, 6) {
		v.MaxAttempts = int32(d.optInt(bits32))
	}
	if d.opt(&n, 7) {
		v.JitterMillis = d.optInt(bits64)
	}
	d.close(n)
	return v
}

// retryKind guesses a kind from its encoding so that no string is made for it.
func retryKind(b []byte) string {
	if len(b) > 1 {
		switch b[1] {
		case 's':
			return RetrySchedule
		case 'f':
			return RetryFixed
		case 'l':
			return RetryLinear
		case 'e':
			return RetryExponential
		}
	}
	return ""
}

func (d *dec) message(v *Message) {
	old := *v
	*v = Message{}
	n := d.open(15)
	if d.req(&n, 1) {
		v.Body = d.bytes()
	}
	if n == 0 {
		return
	}
	if d.opt(&n, 2) {
		v.TaskID = d.optID()
	}
	if d.opt(&n, 3) {
		v.Kind = d.optString(old.Kind)
	}
	if d.opt(&n, 4) {
		v.ContentType = d.optString(old.ContentType)
	}
	if d.opt(&n, 5) {
		v.Headers = d.headers(old.Headers)
	}
	if d.opt(&n, 6) {
		p := uint8(d.uint(math.MaxUint8))
		v.Priority = &p
	}
	if d.opt(&n, 7) {
		v.Key = d.optBytes()
	}
	if d.opt(&n, 8) {
		v.DedupKey = d.optBytes()
	}
	if d.opt(&n, 9) {
		v.DelayMillis = d.optInt(bits64)
	}
	if d.opt(&n, 10) {
		v.EnqueueAt = d.optInt(bits64)
	}
	if d.opt(&n, 11) {
		v.TTLMillis = d.optInt(bits64)
	}
	if d.opt(&n, 12) {
		v.TimeoutMillis = d.optInt(bits64)
	}
	if d.opt(&n, 13) {
		v.Retry = d.retry()
	}
	if d.opt(&n, 20) {
		v.KeysIfUndelivered = d.keys()
	}
	if d.opt(&n, 21) {
		v.Batch = d.optID()
	}
	d.close(n)
}

// maxKeyItems bounds the keys of a message, and the strings of a key, that are decoded at all; Validate allows fewer.
const maxKeyItems = 64

func (d *dec) keys() [][]string {
	keys := make([][]string, d.optArray(maxKeyItems))
	for i := range keys {
		keys[i] = make([]string, d.array(maxKeyItems))
		for j := range keys[i] {
			keys[i][j] = d.string("")
		}
	}
	return keys
}

func (d *dec) enqueue(v *Enqueue) {
	messages := v.Messages
	v.Messages, v.Request = nil, Request{}
	n := d.open(3)
	if d.req(&n, 1) {
		v.Queue = d.string(v.Queue)
	}
	if d.req(&n, 2) {
		v.Messages = sized(messages, d.array(MaxBatch))
		for i := range v.Messages {
			d.message(&v.Messages[i])
		}
	}
	if d.req(&n, 3) {
		d.request(&v.Request)
	}
	d.close(n)
}

// sized gives a slice of n elements, in old's memory if it has room.
func sized[T any](old []T, n int) []T {
	if cap(old) < n || old == nil {
		return make([]T, n)
	}
	return old[:n]
}

func (d *dec) result() *Result {
	v := new(Result)
	n := d.open(11)
	if d.req(&n, 1) {
		v.Output = d.bytes()
	}
	if d.opt(&n, 2) {
		v.ContentType = d.optString("")
	}
	if d.opt(&n, 3) {
		v.TaskID = d.optID()
	}
	if d.opt(&n, 4) {
		v.Queue = d.optString("")
	}
	if d.opt(&n, 5) {
		v.Kind = d.optString("")
	}
	if d.opt(&n, 6) {
		v.Status = d.optString(StatusSucceeded)
	}
	if d.opt(&n, 7) {
		v.Attempts = int32(d.optInt(bits32))
	}
	if d.opt(&n, 8) {
		v.DurationMillis = d.optInt(bits64)
	}
	if d.opt(&n, 9) {
		v.Worker = d.optString("")
	}
	if d.opt(&n, 10) {
		v.RecordedAt = d.optInt(bits64)
	}
	if d.opt(&n, 11) {
		v.MessageID = d.optID()
	}
	d.close(n)
	return v
}

func (d *dec) fault(v *Fault) {
	*v = Fault{}
	n := d.open(10)
	if d.req(&n, 1) {
		v.Code = Code(d.string(""))
	}
	if d.req(&n, 2) {
		v.Message = d.string("")
	}
	if d.opt(&n, 3) {
		v.Unknown = d.optBool()
	}
	if d.opt(&n, 4) {
		v.Retry = d.optBool()
	}
	if d.opt(&n, 5) {
		v.RetryAfterMillis = d.optInt(bits64)
	}
	if d.opt(&n, 6) {
		v.Leader = d.optString("")
	}
	if d.opt(&n, 7) {
		v.ID = d.optID()
	}
	if d.opt(&n, 8) {
		v.Result = d.result()
	}
	if d.opt(&n, 9) {
		v.Field = d.optString("")
	}
	if d.opt(&n, 10) {
		v.At = new(At)
		d.at(v.At)
	}
	d.close(n)
}

func (d *dec) enqueued(v *Enqueued) {
	outcomes := v.Outcomes
	v.Outcomes, v.At, v.Ordered = nil, At{}, false
	n := d.open(3)
	if d.req(&n, 1) {
		v.Outcomes = sized(outcomes, d.array(MaxBatch))
		for i := range v.Outcomes {
			d.outcome(&v.Outcomes[i])
		}
	}
	if d.req(&n, 2) {
		d.at(&v.At)
	}
	if d.opt(&n, 3) {
		v.Ordered = d.optBool()
	}
	d.close(n)
}

func (d *dec) outcome(v *Outcome) {
	*v = Outcome{}
	n := d.open(5)
	if d.opt(&n, 1) {
		v.ID = d.optID()
	}
	if n == 0 {
		return
	}
	if d.opt(&n, 2) {
		v.TaskID = d.optID()
	}
	if d.opt(&n, 3) {
		v.Duplicate = d.optBool()
	}
	if d.opt(&n, 4) {
		v.Result = d.result()
	}
	if d.opt(&n, 5) {
		v.Fault = new(Fault)
		d.fault(v.Fault)
	}
	d.close(n)
}
