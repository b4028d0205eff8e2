package httpapi

import "github.com/quorate/quorate/wire"

// Task is all that is known of a message, a task or a dead letter. Times are Unix ms, log time.
type Task struct {
	ID                string            `json:"id,omitzero" required:"false"`
	OriginalID        string            `json:"original_id,omitzero" required:"false" doc:"of a dead letter: the id that it had when it came"`
	TaskID            string            `json:"task_id"`
	Queue             string            `json:"queue"`
	Kind              string            `json:"kind,omitzero" required:"false"`
	Status            string            `json:"status" enum:"scheduled,pending,processing,retrying,succeeded,dead,cancelled"`
	Priority          uint8             `json:"priority"`
	Attempts          int32             `json:"attempts"`
	MaxAttempts       int32             `json:"max_attempts,omitzero" required:"false"`
	Redrives          int32             `json:"redrives,omitzero" required:"false"`
	EnqueuedAt        int64             `json:"enqueued_at,omitzero" required:"false"`
	DueAt             int64             `json:"due_at,omitzero" required:"false"`
	LeaseEndsAt       int64             `json:"lease_ends_at,omitzero" required:"false"`
	ExpiresAt         int64             `json:"expires_at,omitzero" required:"false"`
	FailedAt          int64             `json:"failed_at,omitzero" required:"false" doc:"of a dead letter"`
	EndedAt           int64             `json:"ended_at,omitzero" required:"false" doc:"of what ended otherwise"`
	OriginalCreatedAt int64             `json:"original_created_at,omitzero" required:"false"`
	OriginQueue       string            `json:"origin_queue,omitzero" required:"false" doc:"of a dead letter that was moved: the queue where it died"`
	Held              string            `json:"held,omitzero" required:"false" doc:"of one that was moved: where it stands here"`
	HeldAttempts      int32             `json:"held_attempts,omitzero" required:"false"`
	HeldMaxAttempts   int32             `json:"held_max_attempts,omitzero" required:"false"`
	NotMoved          string            `json:"not_moved,omitzero" required:"false" doc:"of a dead letter whose queue has a dead_letter_queue: why it is not there"`
	Worker            string            `json:"worker,omitzero" required:"false"`
	Reason            string            `json:"reason,omitzero" required:"false" enum:"max_attempts,permanent,expired,overflow,mapping"`
	ErrorMessage      string            `json:"error_message,omitzero" required:"false"`
	ContentType       string            `json:"content_type,omitzero" required:"false"`
	Body              Any               `json:"body,omitzero" required:"false" doc:"left out where a listing leaves it out"`
	BodyEncoding      string            `json:"body_encoding,omitzero" required:"false" enum:"json,text,base64"`
	BodyBytes         int64             `json:"body_bytes"`
	Key               string            `json:"key,omitzero" required:"false"`
	KeyBase64         *string           `json:"key_base64,omitzero" required:"false"`
	Headers           map[string]string `json:"headers,omitzero" required:"false"`
	History           []Attempt         `json:"history,omitzero" required:"false" doc:"the last eight failed attempts"`
}

// Attempt is one failed attempt.
type Attempt struct {
	Attempt int32  `json:"attempt"`
	At      int64  `json:"at"`
	Worker  string `json:"worker,omitzero" required:"false"`
	Error   string `json:"error,omitzero" required:"false"`
}

func taskOf(t *wire.Task, want string) Task {
	j := Task{
		ID: t.ID, OriginalID: t.OriginalID, TaskID: t.TaskID, Queue: t.Queue, Kind: t.Kind, Status: t.Status, Priority: t.Priority, Attempts: t.Attempts,
		MaxAttempts: t.MaxAttempts, Redrives: t.Redrives, EnqueuedAt: t.EnqueuedAt, DueAt: t.DueAt, LeaseEndsAt: t.LeaseEndsAt, ExpiresAt: t.ExpiresAt,
		OriginalCreatedAt: t.OriginalEnqueuedAt, OriginQueue: t.Origin, Held: t.Held, HeldAttempts: t.HeldAttempts, HeldMaxAttempts: t.HeldMaxAttempts,
		NotMoved: t.Stay, Worker: t.Worker, Reason: t.Reason, ErrorMessage: t.Error, ContentType: t.ContentType, BodyBytes: t.BodyBytes,
		Headers: headersOf(t.Headers),
	}
	j.Key, j.KeyBase64 = keyJSON(t.Key)
	if t.Status == wire.StatusDead {
		j.FailedAt = t.EndedAt
		if j.OriginalID == "" {
			j.OriginalID = t.ID
		}
		if j.OriginalCreatedAt == 0 {
			j.OriginalCreatedAt = t.EnqueuedAt
		}
	} else {
		j.EndedAt = t.EndedAt
	}
	if int64(len(t.Body)) == t.BodyBytes {
		j.Body, j.BodyEncoding = bodyJSON(t.Body, t.ContentType, want)
	}
	for _, a := range t.History {
		j.History = append(j.History, Attempt{Attempt: a.Number, At: a.At, Worker: a.Worker, Error: a.Error})
	}
	return j
}

func tasksOf(ts []wire.Task, want string) []Task {
	js := make([]Task, len(ts))
	for i := range ts {
		js[i] = taskOf(&ts[i], want)
	}
	return js
}

// taskAnswer is a task, or a job where the envelope was asked for.
type taskAnswer struct {
	*Task
	Job *Job `json:"job,omitzero" required:"false" doc:"beside the task, where the job envelope was asked for"`
}

func (x *exchange) taskAnswer(t *wire.Task) *taskAnswer {
	j := taskOf(t, x.query["body_encoding"])
	a := &taskAnswer{Task: &j}
	if x.query["envelope"] == "job" {
		job := jobOf(t.TaskID, t.Kind, t.Attempts, t.MaxAttempts, t.Body, t.ContentType, t.Headers, t.EnqueuedAt, x.query["body_encoding"])
		a.Job = &job
	}
	return a
}

// cancelled answers the end of a task by its caller.
type cancelled struct {
	OK        bool   `json:"ok"`
	ID        string `json:"id" doc:"of its message"`
	Out       bool   `json:"out" doc:"a worker has it: its slot stays taken until its answer or the lease's end"`
	Duplicate bool   `json:"duplicate" doc:"it was cancelled before"`
}

type rescheduleRequest struct {
	DelayMillis   *int64 `json:"delay_ms,omitzero" required:"false" minimum:"0" doc:"due so long from now"`
	EnqueueAt     int64  `json:"enqueue_at,omitzero" required:"false" doc:"due then, Unix ms; this or delay_ms"`
	MaxWaitMillis int64  `json:"max_wait_ms,omitzero" required:"false" doc:"with delay_ms: never due later than so long after the enqueue"`
	Body          Any    `json:"body,omitzero" required:"false" doc:"absent: stays"`
	BodyEncoding  string `json:"body_encoding,omitzero" required:"false" enum:"json,text,base64"`
	ContentType   string `json:"content_type,omitzero" required:"false" doc:"with body; absent: by body_encoding"`
}

type rescheduled struct {
	OK    bool   `json:"ok"`
	ID    string `json:"id"`
	DueAt int64  `json:"due_at,omitzero" required:"false" doc:"Unix ms, log time; absent: it is pending now"`
}

func (x *exchange) task() wire.TaskRef {
	return wire.TaskRef{Queue: x.query["queue"], TaskID: x.path["id"]}
}

func taskRoutes() []*route {
	const path = "/v1/tasks/{id}"
	return []*route{
		plain(route{method: "GET", path: path, summary: "Where a task stands", query: []param{queueParam, staleParam, encodeParm, jobParam}}, func(x *exchange) (*taskAnswer, *wire.Fault) {
			rep, f := call[wire.TaskIs](x, wire.TypeTask, &wire.TaskGet{Task: x.task(), Stale: x.bool("stale")})
			if f != nil {
				return nil, f
			}
			return x.taskAnswer(&rep.Task), nil
		}),
		plain(route{method: "DELETE", path: path, summary: "Cancel a task", query: []param{queueParam}}, func(x *exchange) (*cancelled, *wire.Fault) {
			rep, f := call[wire.TaskCancelled](x, wire.TypeTaskCancel, &wire.TaskCancel{Task: x.task()})
			if f != nil {
				return nil, f
			}
			return &cancelled{OK: true, ID: rep.ID, Out: rep.Out, Duplicate: rep.Duplicate}, nil
		}),
		with(route{method: "POST", path: path + "/reschedule", summary: "Give a task that waits another time, another body, or both", query: []param{queueParam}}, reschedule),
	}
}

func reschedule(x *exchange, in *rescheduleRequest) (*rescheduled, *wire.Fault) {
	req := &wire.TaskReschedule{Task: x.task(), DelayMillis: in.DelayMillis, EnqueueAt: in.EnqueueAt, MaxWaitMillis: in.MaxWaitMillis}
	if in.Body != nil || in.BodyEncoding != "" {
		b, kind, f := bodyBytes("body", in.Body, in.BodyEncoding)
		if f != nil {
			return nil, f
		}
		if in.ContentType != "" {
			kind = in.ContentType
		}
		req.Replace = &wire.Replacement{Body: b, ContentType: kind}
	}
	rep, f := call[wire.TaskScheduled](x, wire.TypeTaskReschedule, req)
	if f != nil {
		return nil, f
	}
	return &rescheduled{OK: true, ID: rep.ID, DueAt: rep.DueAt}, nil
}
