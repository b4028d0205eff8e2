package httpapi

import (
	"github.com/quorate/quorate/wire"
)

// Job is the job envelope that many systems use, one to one with a message: job_id is task_id, task_type is kind, payload is body, and meta
// holds the headers of those names. enqueue_ts is the broker's: what a producer says of it is not kept.
type Job struct {
	JobID           string  `json:"job_id,omitzero" required:"false" maxLength:"128"`
	TaskType        string  `json:"task_type,omitzero" required:"false" maxLength:"128"`
	Attempts        int32   `json:"attempts,omitzero" required:"false" doc:"the broker's: this attempt's number"`
	MaxAttempts     int32   `json:"max_attempts,omitzero" required:"false" doc:"given: an exponential retry policy with so many; absent: the queue's policy"`
	Payload         Any     `json:"payload,omitzero" required:"false" doc:"any JSON value; with payload_encoding text or base64 a string"`
	PayloadEncoding string  `json:"payload_encoding,omitzero" required:"false" enum:"json,text,base64"`
	Meta            JobMeta `json:"meta,omitzero" required:"false"`
}

// JobMeta is what a job says of where it comes from.
type JobMeta struct {
	CorrelationID string `json:"correlation_id,omitzero" required:"false"`
	UserID        string `json:"user_id,omitzero" required:"false"`
	EnqueueTS     int64  `json:"enqueue_ts,omitzero" required:"false" doc:"Unix ms; the broker's"`
	Source        string `json:"source,omitzero" required:"false"`
}

// LeasedJob is a job that was leased.
type LeasedJob struct {
	ID              string `json:"id"`
	Token           string `json:"token"`
	LeaseLeftMillis int64  `json:"lease_left_ms"`
	Job
}

type jobsRequest struct {
	Job
	Messages []Job `json:"messages,omitzero" required:"false"`
}

func (j *Job) wire(maxBytes int64) (wire.Message, *wire.Fault) {
	m := Message{Body: j.Payload, BodyEncoding: j.PayloadEncoding, TaskID: j.JobID, Kind: j.TaskType}
	for name, v := range map[string]string{"correlation_id": j.Meta.CorrelationID, "user_id": j.Meta.UserID, "source": j.Meta.Source} {
		if v != "" {
			if m.Headers == nil {
				m.Headers = make(map[string]string)
			}
			m.Headers[name] = v
		}
	}
	if j.MaxAttempts != 0 {
		m.Retry = &Retry{Kind: wire.RetryExponential, MaxAttempts: j.MaxAttempts}
	}
	if j.Attempts != 0 {
		return wire.Message{}, wire.Invalid("attempts", "%d; a new job has none", j.Attempts)
	}
	return m.wire(maxBytes)
}

func (x *exchange) enqueueJobs() (*enqueueAnswer, *wire.Fault) {
	in := new(jobsRequest)
	if f := x.decode(in); f != nil {
		return nil, f
	}
	if in.Messages == nil {
		m, f := in.wire(x.api.cfg.MaxMessageBytes)
		if f != nil {
			return nil, f
		}
		return x.enqueueOne(m)
	}
	ms, faults := make([]wire.Message, len(in.Messages)), make([]*wire.Fault, len(in.Messages))
	for i := range in.Messages {
		ms[i], faults[i] = in.Messages[i].wire(x.api.cfg.MaxMessageBytes)
	}
	return x.enqueueMany(ms, faults)
}

func jobOf(taskID, kind string, attempts, most int32, body []byte, contentType string, headers []wire.Header, enqueuedAt int64, want string) Job {
	j := Job{JobID: taskID, TaskType: kind, Attempts: attempts, MaxAttempts: most, Meta: JobMeta{EnqueueTS: enqueuedAt}}
	j.Payload, j.PayloadEncoding = bodyJSON(body, contentType, want)
	for _, h := range headers {
		switch h.Name {
		case "correlation_id":
			j.Meta.CorrelationID = h.Value
		case "user_id":
			j.Meta.UserID = h.Value
		case "source":
			j.Meta.Source = h.Value
		}
	}
	return j
}
