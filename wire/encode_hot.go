package wire

import "encoding/binary"

// The hand-written encoders: byte for byte what the CBOR library makes of the same structs under core deterministic
// rules (RFC 8949 section 4.2.1), without reflection or allocation.

func appendHead(b []byte, major byte, v uint64) []byte {
	switch {
	case v < 24:
		return append(b, major|byte(v))
	case v <= 0xff:
		return append(b, major|24, byte(v))
	case v <= 0xffff:
		return append(b, major|25, byte(v>>8), byte(v))
	case v <= 0xffffffff:
		return binary.BigEndian.AppendUint32(append(b, major|26), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, major|27), v)
}

func appendInt(b []byte, v int64) []byte {
	if v < 0 {
		return appendHead(b, majorNegInt, uint64(-1-v))
	}
	return appendHead(b, majorUint, uint64(v))
}

func appendText(b []byte, s string) []byte {
	return append(appendHead(b, majorText, uint64(len(s))), s...)
}

func appendBytes(b []byte, s []byte) []byte {
	return append(appendHead(b, majorBytes, uint64(len(s))), s...)
}

// Optional pairs: nothing where the value is the default. Each key is below 24, so one byte. The count of a map's pairs
// is patched into its head, which is one byte as no struct here has 24 keys.

func optText(b []byte, p int, k byte, s string) []byte {
	if s == "" {
		return b
	}
	b[p]++
	return appendText(append(b, k), s)
}

func optBytes(b []byte, p int, k byte, s []byte) []byte {
	if len(s) == 0 {
		return b
	}
	b[p]++
	return appendBytes(append(b, k), s)
}

// optUint adds a key whose value is not 0.
func optUint(b []byte, p int, k byte, v uint64) []byte {
	if v == 0 {
		return b
	}
	b[p]++
	return appendHead(append(b, k), majorUint, v)
}

func optInt(b []byte, p int, k byte, v int64) []byte {
	if v == 0 {
		return b
	}
	b[p]++
	return appendInt(append(b, k), v)
}

func optTrue(b []byte, p int, k byte, v bool) []byte {
	if !v {
		return b
	}
	b[p]++
	return append(b, k, cborTrue)
}

func appendAt(b []byte, v *At) []byte {
	b = appendHead(append(b, majorMap|2, 1), majorUint, v.Index)
	return appendInt(append(b, 2), v.Time)
}

func appendHeaders(b []byte, p int, k byte, hs []Header) []byte {
	if len(hs) == 0 {
		return b
	}
	b[p]++
	b = appendHead(append(b, k), majorArray, uint64(len(hs)))
	for i := range hs {
		b = appendText(append(b, majorArray|2), hs[i].Name)
		b = appendText(b, hs[i].Value)
	}
	return b
}

func appendKeys(b []byte, p int, k byte, keys [][]string) []byte {
	if len(keys) == 0 {
		return b
	}
	b[p]++
	b = appendHead(append(b, k), majorArray, uint64(len(keys)))
	for _, key := range keys {
		b = appendHead(b, majorArray, uint64(len(key)))
		for _, s := range key {
			b = appendText(b, s)
		}
	}
	return b
}

func appendRetry(b []byte, v *RetryPolicy) []byte {
	p := len(b)
	b = appendText(append(b, majorMap|1, 1), v.Kind)
	if len(v.Steps) > 0 {
		b[p]++
		b = appendHead(append(b, 2), majorArray, uint64(len(v.Steps)))
		for _, s := range v.Steps {
			b = appendInt(b, s)
		}
	}
	b = optInt(b, p, 3, v.InitialMillis)
	b = optInt(b, p, 4, v.MultiplierMilli)
	b = optInt(b, p, 5, v.MaxMillis)
	b = optInt(b, p, 6, int64(v.MaxAttempts))
	return optInt(b, p, 7, v.JitterMillis)
}

func appendMessage(b []byte, v *Message) []byte {
	p := len(b)
	b = appendBytes(append(b, majorMap|1, 1), v.Body)
	b = optText(b, p, 2, v.TaskID)
	b = optText(b, p, 3, v.Kind)
	b = optText(b, p, 4, v.ContentType)
	b = appendHeaders(b, p, 5, v.Headers)
	if v.Priority != nil {
		b[p]++
		b = appendHead(append(b, 6), majorUint, uint64(*v.Priority))
	}
	b = optBytes(b, p, 7, v.Key)
	b = optBytes(b, p, 8, v.DedupKey)
	b = optInt(b, p, 9, v.DelayMillis)
	b = optInt(b, p, 10, v.EnqueueAt)
	b = optInt(b, p, 11, v.TTLMillis)
	b = optInt(b, p, 12, v.TimeoutMillis)
	if v.Retry != nil {
		b[p]++
		b = appendRetry(append(b, 13), v.Retry)
	}
	b = appendKeys(b, p, 20, v.KeysIfUndelivered)
	return optText(b, p, 21, v.Batch)
}

func appendEnqueue(b []byte, v *Enqueue) []byte {
	b = appendText(append(b, majorMap|3, 1), v.Queue)
	b = appendHead(append(b, 2), majorArray, uint64(len(v.Messages)))
	for i := range v.Messages {
		b = appendMessage(b, &v.Messages[i])
	}
	b = appendHead(append(b, 3, majorMap|2, 1), majorUint, v.Request.Number)
	return appendHead(append(b, 2), majorUint, v.Request.Low)
}

func appendResult(b []byte, v *Result) []byte {
	p := len(b)
	b = appendBytes(append(b, majorMap|1, 1), v.Output)
	b = optText(b, p, 2, v.ContentType)
	b = optText(b, p, 3, v.TaskID)
	b = optText(b, p, 4, v.Queue)
	b = optText(b, p, 5, v.Kind)
	b = optText(b, p, 6, v.Status)
	b = optInt(b, p, 7, int64(v.Attempts))
	b = optInt(b, p, 8, v.DurationMillis)
	b = optText(b, p, 9, v.Worker)
	b = optInt(b, p, 10, v.RecordedAt)
	return optText(b, p, 11, v.MessageID)
}

func appendFault(b []byte, v *Fault) []byte {
	p := len(b)
	b = appendText(append(b, majorMap|2, 1), string(v.Code))
	b = appendText(append(b, 2), v.Message)
	b = optTrue(b, p, 3, v.Unknown)
	b = optTrue(b, p, 4, v.Retry)
	b = optInt(b, p, 5, v.RetryAfterMillis)
	b = optText(b, p, 6, v.Leader)
	b = optText(b, p, 7, v.ID)
	if v.Result != nil {
		b[p]++
		b = appendResult(append(b, 8), v.Result)
	}
	b = optText(b, p, 9, v.Field)
	if v.At != nil {
		b[p]++
		b = appendAt(append(b, 10), v.At)
	}
	return b
}

func appendEnqueued(b []byte, v *Enqueued) []byte {
	start := len(b)
	b = appendHead(append(b, majorMap|2, 1), majorArray, uint64(len(v.Outcomes)))
	for i := range v.Outcomes {
		o := &v.Outcomes[i]
		p := len(b)
		b = append(b, majorMap)
		b = optText(b, p, 1, o.ID)
		b = optText(b, p, 2, o.TaskID)
		b = optTrue(b, p, 3, o.Duplicate)
		if o.Result != nil {
			b[p]++
			b = appendResult(append(b, 4), o.Result)
		}
		if o.Fault != nil {
			b[p]++
			b = appendFault(append(b, 5), o.Fault)
		}
	}
	return optTrue(appendAt(append(b, 2), &v.At), start, 3, v.Ordered)
}

func appendDeliveries(b []byte, ds []Delivered) []byte {
	b = appendHead(b, majorArray, uint64(len(ds)))
	for i := range ds {
		v := &ds[i]
		p := len(b)
		b = appendText(append(b, majorMap|7, 1), v.ID)
		b = appendText(append(b, 2), v.Token)
		b = appendInt(append(b, 3), int64(v.Attempt))
		b = appendInt(append(b, 4), v.LeaseLeftMillis)
		b = appendBytes(append(b, 5), v.Body)
		b = optText(b, p, 6, v.TaskID)
		b = optText(b, p, 7, v.Kind)
		b = optText(b, p, 8, v.ContentType)
		b = appendHeaders(b, p, 9, v.Headers)
		b = appendHead(append(b, 10), majorUint, uint64(v.Priority))
		b = optBytes(b, p, 11, v.Key)
		b = appendInt(append(b, 12), v.EnqueuedAt)
		b = optInt(b, p, 13, v.TimeoutMillis)
		b = optInt(b, p, 14, int64(v.Redrives))
		b = optText(b, p, 15, v.Queue)
		b = optTrue(b, p, 16, v.AtMostOnce)
	}
	return b
}

func appendTokens(b []byte, tokens []string) []byte {
	b = appendHead(b, majorArray, uint64(len(tokens)))
	for _, t := range tokens {
		b = appendText(b, t)
	}
	return b
}

func appendAck(b []byte, v *Ack) []byte {
	p := len(b)
	b = appendText(append(b, majorMap|1, 1), v.Token)
	if v.Result != nil {
		b[p]++
		b = appendResult(append(b, 2), v.Result)
	}
	if len(v.Then) > 0 {
		b[p]++
		b = appendHead(append(b, 3), majorArray, uint64(len(v.Then)))
		for i := range v.Then {
			b = appendText(append(b, majorMap|2, 1), v.Then[i].Queue)
			b = appendMessage(append(b, 2), &v.Then[i].Message)
		}
	}
	return optUint(b, p, 4, v.Mapping)
}

func appendAcked(b []byte, v *Acked) []byte {
	p := len(b)
	b = append(b, majorMap|1)
	b = optTrue(b, p, 1, v.Duplicate)
	if v.Result != nil {
		b[p]++
		b = appendResult(append(b, 2), v.Result)
	}
	return appendAt(append(b, 3), &v.At)
}

func appendNack(b []byte, v *Nack) []byte {
	p := len(b)
	b = appendText(append(b, majorMap|1, 1), v.Token)
	b = optText(b, p, 2, v.Error)
	if v.DelayMillis != nil {
		b[p]++
		b = appendInt(append(b, 3), *v.DelayMillis)
	}
	return optUint(optTrue(b, p, 4, v.Permanent), p, 5, v.Mapping)
}

// appendHot appends the body if its type has an encoder here.
func appendHot(b []byte, body any) ([]byte, bool) {
	switch v := body.(type) {
	case *Enqueue:
		return appendEnqueue(b, v), true
	case *Enqueued:
		return appendEnqueued(b, v), true
	case *Delivery:
		b = appendHead(append(b, majorMap|2, 1), majorUint, uint64(v.Sub))
		return appendDeliveries(append(b, 2), v.Messages), true
	case *Leased:
		b = appendDeliveries(append(b, majorMap|2, 1), v.Messages)
		return appendAt(append(b, 2), &v.At), true
	case *Ack:
		return appendAck(b, v), true
	case *Acked:
		return appendAcked(b, v), true
	case *AckBatch:
		return appendTokens(append(b, majorMap|1, 1), v.Tokens), true
	case *AckedBatch:
		return appendAckedBatch(b, v), true
	case *Started:
		b = appendHead(append(b, majorMap|2, 1), majorUint, uint64(v.Sub))
		return appendTokens(append(b, 2), v.Tokens), true
	case *Nack:
		return appendNack(b, v), true
	case *Nacked:
		p := len(b)
		b = append(b, majorMap|1)
		b = optTrue(b, p, 1, v.Dead)
		b = optInt(b, p, 2, v.DueAt)
		return appendAt(append(b, 3), &v.At), true
	case *Extend:
		p := len(b)
		b = appendText(append(b, majorMap|1, 1), v.Token)
		return optInt(b, p, 2, v.LeaseMillis), true
	case *Extended:
		b = appendInt(append(b, majorMap|2, 1), v.LeaseLeftMillis)
		return appendAt(append(b, 3), &v.At), true
	case *Release:
		return appendText(append(b, majorMap|1, 1), v.Token), true
	case *OK:
		p := len(b)
		b = appendAt(append(b, majorMap|1, 1), &v.At)
		return optTrue(b, p, 2, v.Duplicate), true
	case *Fault:
		return appendFault(b, v), true
	}
	return b, false
}

// decodeHot reads the body if its type has a decoder here.
func decodeHot(d *dec, dst any) bool {
	switch v := dst.(type) {
	case *Enqueue:
		d.enqueue(v)
	case *Enqueued:
		d.enqueued(v)
	case *Delivery:
		d.delivery(v)
	case *Leased:
		d.leased(v)
	case *Ack:
		d.ack(v)
	case *Acked:
		d.acked(v)
	case *AckBatch:
		d.ackBatch(v)
	case *AckedBatch:
		d.ackedBatch(v)
	case *Started:
		d.started(v)
	case *Nack:
		d.nack(v)
	case *Nacked:
		d.nacked(v)
	case *Extend:
		d.extend(v)
	case *Extended:
		d.extended(v)
	case *Release:
		d.release(v)
	case *OK:
		d.ok(v)
	case *Fault:
		d.fault(v)
	default:
		return false
	}
	return true
}
