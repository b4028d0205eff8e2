package wire

import "fmt"

// Validate judges a pull.
func (l *Lease) Validate() *Fault {
	return first(
		CheckQueue("queue", l.Queue),
		checkRange("max", int64(l.Max), 1, MaxLease),
		checkRange("wait_ms", l.WaitMillis, 0, MaxWaitMillis),
		checkMillis("lease_ms", l.LeaseMillis, MinLeaseMillis, MaxLeaseMillis),
		checkText("worker", l.Worker, 0, MaxWorkerBytes),
		l.Request.Validate(1),
	)
}

func checkSub(sub uint32) *Fault {
	if sub == 0 {
		return Invalid("sub", "0; subscriptions are numbered from 1")
	}
	return nil
}

// Validate judges a subscription.
func (s *Subscribe) Validate() *Fault {
	if n := len(s.Unfinished); n > MaxTokens {
		return Invalid("unfinished", "%d tokens; at most %d in one frame", n, MaxTokens)
	}
	return first(
		checkTokens("unfinished", s.Unfinished),
		checkSub(s.Sub),
		CheckQueue("queue", s.Queue),
		checkRange("credit", int64(s.Credit), 0, MaxCredit),
		checkMillis("lease_ms", s.LeaseMillis, MinLeaseMillis, MaxLeaseMillis),
		checkText("worker", s.Worker, 0, MaxWorkerBytes),
	)
}

// Validate judges a new window.
func (c *Credit) Validate() *Fault {
	return first(checkSub(c.Sub), checkRange("credit", int64(c.Credit), 0, MaxCredit))
}

// Validate judges the end of a subscription.
func (u *Unsubscribe) Validate() *Fault { return checkSub(u.Sub) }

// Validate judges a notice of taken deliveries.
func (s *Started) Validate() *Fault {
	if len(s.Tokens) > MaxTokens {
		return Invalid("tokens", "%d tokens; at most %d in one frame", len(s.Tokens), MaxTokens)
	}
	return first(checkSub(s.Sub), checkTokens("tokens", s.Tokens))
}

// Validate judges a resumption.
func (r *Resume) Validate() *Fault {
	if n := len(r.Started) + len(r.Held); n > MaxTokens {
		return Invalid("started", "%d tokens started and held; at most %d together", n, MaxTokens)
	}
	return first(r.Subscribe.Validate(), checkTokens("started", r.Started), checkTokens("held", r.Held))
}

// Validate judges a result as a worker gives it: output and content type, nothing of what the broker records.
func (r *Result) Validate(field string, maxMessageBytes int64) *Fault {
	if int64(len(r.Output)) > maxMessageBytes {
		return TooLarge(field+".output", "%d bytes; max_message_bytes is %d", len(r.Output), maxMessageBytes)
	}
	if r.TaskID != "" || r.Queue != "" || r.Kind != "" || r.Status != "" || r.Attempts != 0 || r.DurationMillis != 0 ||
		r.Worker != "" || r.RecordedAt != 0 || r.MessageID != "" {
		return Invalid(field, "only output and content_type are the worker's to give; the broker records the rest")
	}
	return checkText(field+".content_type", r.ContentType, 0, MaxContentTypeBytes)
}

// Validate judges an ack with all it carries: one bad message in Then spoils it, since they are enqueued together or
// not at all.
func (a *Ack) Validate(maxMessageBytes int64) *Fault {
	if f := CheckToken("token", a.Token); f != nil {
		return f
	}
	if a.Result != nil {
		if f := a.Result.Validate("result", maxMessageBytes); f != nil {
			return f
		}
	}
	if len(a.Then) == 0 {
		return nil
	}
	if len(a.Then) > MaxBatch {
		return Invalid("then", "%d messages; at most %d are allowed", len(a.Then), MaxBatch)
	}
	total := int64(0)
	for i := range a.Then {
		t := &a.Then[i]
		f := CheckQueue("queue", t.Queue)
		if f == nil {
			f = t.Message.Validate(maxMessageBytes)
		}
		if f != nil {
			f.Field = fmt.Sprintf("then[%d].%s", i, f.Field)
			f.Message = CutText(fmt.Sprintf("then[%d].%s", i, f.Message), MaxFaultBytes)
			return f
		}
		total += int64(len(t.Message.Body))
	}
	if most := MaxBatchBytes(maxMessageBytes); total > most {
		return TooLarge("then", "%d bytes of bodies; a batch may carry %d", total, most)
	}
	return nil
}

// Validate judges a nack. An error text may be longer than MaxErrorBytes: the broker keeps its beginning.
func (n *Nack) Validate() *Fault {
	if f := CheckToken("token", n.Token); f != nil {
		return f
	}
	if n.DelayMillis != nil {
		return checkRange("delay_ms", *n.DelayMillis, 0, MaxDelayMillis)
	}
	return nil
}

// Validate judges an extension.
func (e *Extend) Validate() *Fault {
	if f := CheckToken("token", e.Token); f != nil {
		return f
	}
	return checkMillis("lease_ms", e.LeaseMillis, MinLeaseMillis, MaxLeaseMillis)
}

// Validate judges a release.
func (r *Release) Validate() *Fault { return CheckToken("token", r.Token) }
