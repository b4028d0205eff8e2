package wire

import "strings"

// Validate judges the making of a batch.
func (b *BatchCreate) Validate(maxMessageBytes int64) *Fault {
	if f := first(CheckQueue("queue", b.Queue), b.Callback.Validate(maxMessageBytes), b.Request.Validate(1)); f != nil {
		return f
	}
	m := &b.Callback
	switch {
	case len(m.Body) > MaxCallbackBytes:
		return TooLarge("callback", "a body of %d bytes; a callback may carry %d", len(m.Body), MaxCallbackBytes)
	case len(m.Headers) > MaxCallbackHeaders:
		return Invalid("callback", "%d headers; at most %d are allowed, the others say the counts", len(m.Headers), MaxCallbackHeaders)
	case m.TaskID != "" || len(m.DedupKey) > 0:
		return Invalid("callback", "task_id or dedup_key is set; a callback has neither, it comes once by itself")
	case len(m.KeysIfUndelivered) > 0 || m.Batch != "":
		return Invalid("callback", "keys_if_undelivered or batch is set; a callback has neither")
	}
	for _, h := range m.Headers {
		switch h.Name {
		case "batch_id", "batch_members", "batch_succeeded", "batch_dead", "batch_cancelled":
			return Invalid("callback", "header %s is set; the broker sets the headers %s_…", h.Name, strings.SplitN(h.Name, "_", 2)[0])
		}
	}
	return nil
}

// Validate judges the sealing of a batch.
func (b *BatchSeal) Validate() *Fault { return first(CheckID("batch", b.Batch), b.Request.Validate(1)) }

// Validate judges a request for a batch.
func (b *BatchShow) Validate() *Fault { return CheckID("batch", b.Batch) }
