package mapper

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/quorate/quorate/transport/mapping"
)

// runner maps one queue, from its start to the end of its context. One goroutine runs it; the Broker calls handle from others.
type runner struct {
	m       *Mapper
	target  Target
	program *mapping.Program
	log     *slog.Logger
	cancel  context.CancelFunc
	done    chan struct{} // closed when it has ended

	mu      sync.Mutex
	end     context.CancelFunc // guarded by mu: ends the round under way; nil: none is
	waiting int                // guarded by mu: handlers that wait for the other queue
	why     string             // guarded by mu: what the last of them was refused for; of a rest, why there are no messages
	rests   bool               // guarded by mu
}

// run consumes, and rests where there is nothing to be had, until ctx ends.
func (q *runner) run(ctx context.Context) {
	defer close(q.done)
	defer q.program.Drop()
	for ctx.Err() == nil {
		rctx, end := context.WithCancel(ctx)
		q.mu.Lock()
		q.end, q.rests = end, false
		q.mu.Unlock()
		err := q.m.cfg.Broker.Consume(rctx, q.target.Queue, Concurrency, leaseTime, q.handle)
		end()
		q.mu.Lock()
		q.end = nil
		if q.rests = true; err != nil {
			q.why = "no messages are to be had: " + oneLine(err.Error())
		}
		q.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			q.log.Warn("mapping rests", "took", restTime, "err", err)
		}
		select {
		case <-q.m.cfg.After(restTime):
		case <-ctx.Done():
		}
	}
}

// stop ends the round: this node leads no longer, or has another mapping to go by.
func (q *runner) stop(why string) {
	q.mu.Lock()
	end := q.end
	q.why = why
	q.mu.Unlock()
	if end != nil {
		end()
	}
	q.m.again()
}

// handle maps one message.
func (q *runner) handle(ctx context.Context, m *Message) Verdict {
	if !q.m.cfg.Broker.Leads() {
		q.stop("this node does not lead")
		return Verdict{Do: Return}
	}
	made, err := q.program.Messages(ctx, &m.Input, q.m.cfg.MaxBytes)
	switch {
	case errors.Is(err, mapping.ErrLate) && ctx.Err() != nil:
		return Verdict{Do: Return}
	case errors.Is(err, mapping.ErrLate):
		q.m.metrics.count(q.target.Queue, "late")
		return Verdict{Do: Retry, Error: "map_to: " + err.Error()}
	case err != nil:
		return q.unmapped(ctx, m, err.Error())
	}
	for wait := waitLeast; ; wait = min(2*wait, waitMost) {
		err := q.m.cfg.Broker.Ack(ctx, m.Token, q.target.To, q.target.Generation, made)
		if err == nil {
			q.m.metrics.count(q.target.Queue, mapping.Outcome(len(made) > 0, nil))
			return Verdict{Do: Settled}
		}
		var refusal *Refusal
		switch {
		case errors.Is(err, ErrStale):
			return q.stale()
		case !errors.As(err, &refusal): // the lease is over, or nobody knows: its token decides
			return Verdict{Do: Return}
		case !refusal.Later:
			return q.unmapped(ctx, m, refusal.Text)
		}
		q.wait(1, refusal.Text)
		select {
		case <-q.m.cfg.After(wait):
		case <-ctx.Done():
		}
		q.wait(-1, "")
		if ctx.Err() != nil {
			return Verdict{Do: Return}
		}
	}
}

// unmapped makes a message a dead letter.
func (q *runner) unmapped(ctx context.Context, m *Message, text string) Verdict {
	err := q.m.cfg.Broker.Unmapped(ctx, m.Token, q.target.Generation, "map_to: "+oneLine(text))
	switch {
	case err == nil:
		q.m.metrics.count(q.target.Queue, "failed")
		return Verdict{Do: Settled}
	case errors.Is(err, ErrStale):
		return q.stale()
	}
	return Verdict{Do: Return}
}

func (q *runner) stale() Verdict {
	q.m.metrics.count(q.target.Queue, "stale")
	q.stop("the mapping has been changed")
	return Verdict{Do: Return}
}

// wait counts handlers that wait for the other queue.
func (q *runner) wait(by int, why string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting += by; why != "" {
		q.why = oneLine(why)
	}
}

// state is how the mapping stands, in words.
func (q *runner) state() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.waiting > 0:
		return "waits: " + q.why
	case q.rests && q.why != "":
		return "rests: " + q.why
	}
	return "mapping"
}

// maxLine is how long an error may be, in bytes.
const maxLine = 600

// oneLine is a text as one line that is not too long.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= maxLine {
		return text
	}
	n := maxLine
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
