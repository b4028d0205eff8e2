package push

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/quorate/quorate/transport/mapping"
)

// runner pushes one queue, from its start to the end of its context. One goroutine runs it; the Broker calls push from others.
type runner struct {
	p         *Pusher
	target    Target
	url       *url.URL
	keys      [][]byte
	permanent []int64
	program   *mapping.Program // nil: what is sent is the body
	timeout   time.Duration
	log       *slog.Logger

	cancel context.CancelFunc
	done   chan struct{}   // closed when it has ended
	life   context.Context // of the runner
	hard   context.Context // of requests: ends drainFor after life

	mu      sync.Mutex
	breaker breaker            // guarded by mu
	end     context.CancelFunc // guarded by mu: ends the round under way; nil: a round that is over already
	pause   time.Duration      // guarded by mu: what to rest after this round
	silent  bool               // guarded by mu: no connection was the cause, so the rest ends with one
	why     string             // guarded by mu: of the rest, the last cause
	until   time.Time          // guarded by mu: of the rest under way; zero: none
}

func (p *Pusher) newRunner(t Target, keys [][]byte) (*runner, error) {
	u, err := url.Parse(t.URL)
	if err != nil {
		return nil, fmt.Errorf("the URL is none")
	}
	q := &runner{p: p, target: t, url: u, keys: keys, permanent: t.Permanent, timeout: t.Timeout, done: make(chan struct{}),
		log: p.log.With("queue", t.Queue, "host", u.Host)}
	if t.Map != "" {
		if q.program, err = mapping.Compile(t.Map, mapping.Body); err != nil {
			return nil, fmt.Errorf("map: %w", err)
		}
		if err := q.program.Keep(); err != nil {
			return nil, fmt.Errorf("map: %w", err)
		}
	}
	if len(q.permanent) == 0 {
		q.permanent = defaultPermanent
	}
	return q, nil
}

// run consumes, rests, knocks and tries until ctx ends.
func (q *runner) run(ctx context.Context) {
	defer close(q.done)
	if q.program != nil {
		defer q.program.Drop()
	}
	hard, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	q.hard = hard
	defer context.AfterFunc(ctx, func() {
		t := time.AfterFunc(drainFor, kill)
		<-q.done
		t.Stop()
	})()
	for ctx.Err() == nil {
		err := q.round(ctx)
		if ctx.Err() != nil {
			return
		}
		pause, silent := q.rests(err)
		for pause > 0 {
			if !q.wait(ctx, pause) {
				return
			}
			if !silent {
				break
			}
			err := knock(ctx, q.p.dialer, q.p.tls, q.url)
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				break
			}
			pause = q.still(err)
		}
		q.over()
	}
}

// round consumes until the breaker ends it, or ctx.
func (q *runner) round(ctx context.Context) error {
	rctx, end := context.WithCancel(ctx)
	defer end()
	q.mu.Lock()
	n := q.target.Concurrency
	if q.breaker.trial() {
		n = 1
	}
	q.end, q.pause, q.silent = end, 0, false
	q.mu.Unlock()
	err := q.p.cfg.Broker.Consume(rctx, q.target.Queue, Consume{Concurrency: n, Lease: q.timeout + leaseMargin, Drain: q.timeout + time.Second}, q.push)
	if err == nil && rctx.Err() == nil {
		err = errors.New("they ended")
	}
	q.mu.Lock()
	q.end = nil
	q.mu.Unlock()
	return err
}

// push sends one message and says what follows.
func (q *runner) push(ctx context.Context, m *Message) Verdict {
	if q.ending() {
		return Verdict{Do: Return}
	}
	if q.program != nil {
		made, v := q.mapped(ctx, m)
		if made == nil {
			return v
		}
		m = made
	}
	began := q.p.cfg.Clock.Now()
	a := q.send(ctx, m)
	q.p.metrics.request(q.target.Queue, a.outcome, q.p.cfg.Clock.Now().Sub(began))
	q.mu.Lock()
	defer q.mu.Unlock()
	switch a.outcome {
	case stopped:
	case delivered, rejected: // it is there, and answers
		trial := q.breaker.trial()
		if q.pause > 0 {
			break // what was on its way when the rest began says nothing of what comes after
		}
		q.breaker.good()
		if trial && q.end != nil {
			q.end() // to go on with all
		}
	case throttled:
		if q.pause == 0 {
			q.restLocked(q.breaker.asked(a.after), a)
		}
	default:
		if q.pause == 0 {
			if d := q.breaker.bad(); d > 0 {
				q.restLocked(d, a)
			}
		}
	}
	return a.verdict
}

// ending says that the round is over, and what the Broker still brings is not to be sent.
func (q *runner) ending() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pause > 0 || q.life.Err() != nil
}

// restLocked ends the round for a rest.
func (q *runner) restLocked(d time.Duration, a answer) {
	q.pause, q.silent, q.why = d, a.outcome == unreached, a.why
	q.until = q.p.cfg.Clock.Now().Add(d) // and once more when what is under way has ended
	if a.outcome == throttled {
		q.why = "the endpoint asks for it: " + a.why
	}
	if q.end != nil {
		q.end()
	}
}

// rests says for how long to rest after a round; err is why the Broker ended it by itself.
func (q *runner) rests(err error) (pause time.Duration, silent bool) {
	q.mu.Lock()
	if q.pause == 0 && err != nil {
		q.pause, q.why = restLeast, "no messages are to be had: "+cut(plain(err.Error()), maxReason)
	}
	pause, silent = q.pause, q.silent
	q.mu.Unlock()
	if pause > 0 {
		q.begins(pause)
	}
	return pause, silent
}

// begins says that a rest begins. State is asked for with the state lock held, so nothing is logged under mu.
func (q *runner) begins(pause time.Duration) {
	q.mu.Lock()
	q.until = q.p.cfg.Clock.Now().Add(pause)
	why := q.why
	q.mu.Unlock()
	q.p.metrics.resting.WithLabelValues(q.target.Queue).Set(1)
	q.log.Warn("push rests", "took", pause, "err", why)
}

// still is a knock in vain.
func (q *runner) still(err error) time.Duration {
	q.mu.Lock()
	pause := q.breaker.longer()
	q.why = "no connection: " + cause(err)
	q.mu.Unlock()
	q.begins(pause)
	return pause
}

// over is the end of a rest.
func (q *runner) over() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.until.IsZero() {
		q.until = time.Time{}
		q.p.metrics.resting.WithLabelValues(q.target.Queue).Set(0)
	}
}

// wait says whether d has passed before ctx ended.
func (q *runner) wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-q.p.cfg.Clock.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// state is how the push stands.
func (q *runner) state() State {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case !q.until.IsZero():
		s := State{Does: Resting, Why: q.why, Text: fmt.Sprintf("rests until %s: %s", q.until.UTC().Format(time.RFC3339), q.why)}
		if q.until.After(q.p.cfg.Clock.Now()) { // else what was under way still ends, or the endpoint is being knocked at
			s.Until = q.until
		}
		return s
	case q.breaker.trial():
		return State{Does: Pushing, Text: "tries one message at a time after a rest: " + q.why}
	case q.breaker.failures > 0:
		return State{Does: Pushing, Text: fmt.Sprintf("pushing; %d failures in a row", q.breaker.failures)}
	}
	return State{Does: Pushing, Text: "pushing"}
}
