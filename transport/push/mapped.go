package push

import (
	"context"
	"errors"

	"github.com/quorate/quorate/transport/mapping"
)

// mapped makes what is sent of a message; nil: nothing is sent, and the verdict says what becomes of it.
func (q *runner) mapped(ctx context.Context, m *Message) (*Message, Verdict) {
	in := &mapping.Input{
		Body: m.Body, ID: m.ID, TaskID: m.TaskID, Queue: q.target.Queue, Kind: m.Kind, ContentType: m.ContentType, Key: m.Key,
		Priority: m.Priority, Attempt: m.Attempt, Redrives: m.Redrives, EnqueuedAt: m.EnqueuedAt,
	}
	for _, h := range m.Headers {
		in.Headers = append(in.Headers, mapping.Header(h))
	}
	body, contentType, err := q.program.Body(ctx, in, q.p.cfg.MaxBody)
	q.p.cfg.Mapped(q.target.Queue, mapping.Outcome(body != nil, err))
	switch {
	case errors.Is(err, mapping.ErrLate) && ctx.Err() != nil:
		return nil, Verdict{Do: Return}
	case errors.Is(err, mapping.ErrLate):
		return nil, Verdict{Do: Retry, Error: "map: " + err.Error()}
	case err != nil:
		return nil, Verdict{Do: Unmapped, Error: cut("map: "+plain(err.Error()), maxReason), Generation: q.target.Generation}
	case body == nil:
		return nil, Verdict{Do: Ack} // there is nothing to send
	}
	made := *m
	made.Body, made.ContentType = body, contentType
	return &made, Verdict{}
}
