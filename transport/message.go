package transport

import (
	"unsafe"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/wire"
)

// setMessage turns a valid message from the wire into one for the log. What it points to is m's memory: the operation
// must be encoded before m is decoded into again.
func setMessage(d *fsm.Message, m *wire.Message) {
	headers := d.Headers[:0]
	for i := range m.Headers {
		headers = append(headers, fsm.Header{Name: wire.View(m.Headers[i].Name), Value: wire.View(m.Headers[i].Value)})
	}
	*d = fsm.Message{
		TaskID:        wire.View(m.TaskID),
		Kind:          wire.View(m.Kind),
		ContentType:   wire.View(m.ContentType),
		Headers:       headers,
		Body:          m.Body,
		Key:           m.Key,
		Priority:      wire.DefaultPriority,
		DelayMillis:   m.DelayMillis,
		DueAt:         m.EnqueueAt,
		TTLMillis:     m.TTLMillis,
		TimeoutMillis: m.TimeoutMillis,
		Retry:         retryOf(m.Retry),
	}
	if m.Batch != "" {
		d.Batch, _ = fsm.ParseID(m.Batch) // it has the form of an id, which is all that ParseID asks
	}
	for _, key := range m.KeysIfUndelivered {
		d.Keys = append(d.Keys, fsm.AppendKVKey(nil, key...))
	}
	if m.Priority != nil {
		d.Priority = *m.Priority
	}
	if len(m.DedupKey) > 0 {
		d.HasDedup = true
		d.DedupKey = fsm.HashDedup(m.DedupKey)
		d.DedupContent = fsm.HashContent(d.Kind, m.Body)
	}
}

var retryKinds = map[string]fsm.RetryKind{
	wire.RetrySchedule:    fsm.RetrySchedule,
	wire.RetryFixed:       fsm.RetryFixed,
	wire.RetryLinear:      fsm.RetryLinear,
	wire.RetryExponential: fsm.RetryExponential,
}

func retryOf(r *wire.RetryPolicy) fsm.RetryPolicy {
	if r == nil {
		return fsm.RetryPolicy{}
	}
	return fsm.RetryPolicy{
		Kind: retryKinds[r.Kind], Steps: r.Steps, InitialMillis: r.InitialMillis, MultiplierMilli: r.MultiplierMilli,
		MaxMillis: r.MaxMillis, MaxAttempts: r.MaxAttempts, JitterMillis: r.JitterMillis,
	}
}

func wireRetry(r fsm.RetryPolicy) *wire.RetryPolicy {
	for name, kind := range retryKinds {
		if kind == r.Kind {
			return &wire.RetryPolicy{
				Kind: name, Steps: append([]int64(nil), r.Steps...), InitialMillis: r.InitialMillis,
				MultiplierMilli: r.MultiplierMilli, MaxMillis: r.MaxMillis, MaxAttempts: r.MaxAttempts, JitterMillis: r.JitterMillis,
			}
		}
	}
	return nil
}

// viewText is b as a string, without a copy: good as long as b's memory is neither written nor freed.
func viewText(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
