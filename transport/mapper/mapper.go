package mapper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/transport/mapping"
)

// Bounds and defaults.
const (
	MaxQueues   = 500 // mapped at once
	Concurrency = 16  // messages of a queue that are evaluated, or wait for room, at once

	lookEvery = 500 * time.Millisecond
	leaseTime = 5 * time.Second // extended as long as a message is worked on; a dead leader's come back after it
	restTime  = time.Second     // before messages are asked for again where there were none to be had
	waitLeast = 100 * time.Millisecond
	waitMost  = 5 * time.Second
)

// Target is a queue whose messages are mapped, and how.
type Target struct {
	Queue      string
	To         string // the queue that messages are made for
	Expression string
	Generation uint64
}

// Message is a leased message.
type Message struct {
	mapping.Input
	Token string
}

// Do is what is to become of a message when the handler is through with it.
type Do uint8

// The three.
const (
	Settled Do = iota // nothing: its lease is over
	Return            // release: back to its place, free
	Retry             // nack, by the queue's retry policy
)

// Verdict is what a handler returns.
type Verdict struct {
	Do    Do
	Error string // of Retry
}

// ErrStale says that the queue has another mapping by now; the lease stays.
var ErrStale = errors.New("mapper: the queue has another mapping")

// Refusal is an ack that was not taken; the lease stays.
type Refusal struct {
	Text  string
	Later bool // it may be, later
}

func (r *Refusal) Error() string { return r.Text }

// Broker is what a Mapper needs of the node. Methods may be called from any goroutine.
type Broker interface {
	// Leads says whether this node leads, and serves.
	Leads() bool
	// Targets are the queues that are mapped, in the order of names, one more than most at most.
	Targets(ctx context.Context, most int) []Target
	// Consume leases messages of a queue as any worker, so many at once, and calls handle for each, until ctx ends. Then it takes no more, ends
	// the handlers' contexts, and gives back what is not settled, free. The context of a handler ends before its lease. An error is why it
	// ended before ctx.
	Consume(ctx context.Context, queue string, concurrency int, lease time.Duration, handle func(ctx context.Context, m *Message) Verdict) error
	// Ack ends a message's lease and enqueues what was made of it. Errors are ErrStale, a *Refusal, or another: the lease is over, or nobody
	// knows.
	Ack(ctx context.Context, token, to string, generation uint64, made []mapping.Message) error
	// Unmapped makes a message a dead letter, reason mapping. Errors are as those of Ack.
	Unmapped(ctx context.Context, token string, generation uint64, text string) error
}

// Config is what a Mapper needs. Zero values mean the default in every field that names one.
type Config struct {
	Broker    Broker
	Registry  prometheus.Registerer // nil: no metrics are shown
	Logger    *slog.Logger          // nil: silent
	MaxBytes  int                   // of what a message comes to; default 1 MiB
	LookEvery time.Duration         // for what has changed; default 500 ms
	After     func(d time.Duration) <-chan time.Time
}

// Mapper maps the queues that have map_to while this node leads. Make it with New, and Run it once.
type Mapper struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	nudge   chan struct{} // look at once

	// Written by look alone, which holds mu while it writes and needs none to read: State is asked for with the state lock held, and must not
	// wait for expressions that are being compiled.
	mu      sync.Mutex
	runners map[string]*runner // by queue, those included that are ending
	barred  map[string]string  // queues that are not mapped, and why
	over    bool               // there are more queues with map_to than are mapped
}

// New makes a Mapper. Metrics are registered here.
func New(cfg Config) (*Mapper, error) {
	if cfg.Broker == nil {
		return nil, errors.New("mapper: Broker is missing: a node is needed")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 1 << 20
	}
	if cfg.LookEvery == 0 {
		cfg.LookEvery = lookEvery
	}
	if cfg.After == nil {
		cfg.After = time.After
	}
	m := &Mapper{
		cfg: cfg, log: cfg.Logger.With("component", "mapper"), nudge: make(chan struct{}, 1),
		runners: map[string]*runner{}, barred: map[string]string{},
	}
	var err error
	if m.metrics, err = newMetrics(cfg.Registry); err != nil {
		return nil, fmt.Errorf("mapper: %w", err)
	}
	return m, nil
}

// Run maps until ctx ends, and then until all runners have.
func (m *Mapper) Run(ctx context.Context) {
	tick := time.NewTicker(m.cfg.LookEvery)
	defer tick.Stop()
	for {
		var want []Target
		if m.cfg.Broker.Leads() {
			want = m.cfg.Broker.Targets(ctx, MaxQueues)
		}
		if ctx.Err() != nil {
			break
		}
		m.look(ctx, want)
		select {
		case <-tick.C:
		case <-m.nudge:
		case <-ctx.Done():
		}
	}
	for _, q := range m.runners {
		<-q.done // its context is part of ctx
	}
	m.look(ctx, nil)
}

// again has Run look at once.
func (m *Mapper) again() {
	select {
	case m.nudge <- struct{}{}:
	default:
	}
}

// look brings the runners into line with what is wanted: those of other targets are ended, and begun anew once they have.
func (m *Mapper) look(ctx context.Context, want []Target) {
	over := len(want) > MaxQueues
	want = want[:min(len(want), MaxQueues)]
	wanted := make(map[string]*Target, len(want))
	for i := range want {
		wanted[want[i].Queue] = &want[i]
	}
	for name, q := range m.runners {
		t := wanted[name]
		if t == nil || *t != q.target {
			q.cancel()
		}
		select {
		case <-q.done:
			if t == nil {
				m.metrics.forget(name)
			}
			m.mu.Lock()
			delete(m.runners, name)
			m.mu.Unlock()
			m.metrics.queues.Set(float64(len(m.runners)))
		default:
		}
	}
	barred := map[string]string{}
	for i := range want {
		t := &want[i]
		if m.runners[t.Queue] == nil {
			if why := m.begin(ctx, t); why != "" {
				barred[t.Queue] = why
			}
		}
	}
	m.mu.Lock()
	m.barred, m.over = barred, over
	m.mu.Unlock()
}

// tooMany says why a queue beyond the bound is not mapped.
var tooMany = fmt.Sprintf("not mapped: the first %d queues by name that have map_to are, and no more", MaxQueues)

// begin starts a runner, or says why it cannot.
func (m *Mapper) begin(ctx context.Context, t *Target) (why string) {
	if len(m.runners) >= MaxQueues { // some of them are ending
		return tooMany
	}
	p, err := mapping.Compile(t.Expression, mapping.Messages)
	if err != nil { // another build has taken it
		return "not mapped: this build cannot use the expression: " + err.Error()
	}
	if err := p.Keep(); err != nil {
		return "not mapped: " + err.Error()
	}
	q := &runner{m: m, target: *t, program: p, done: make(chan struct{}), log: m.log.With("queue", t.Queue)}
	qctx, cancel := context.WithCancel(ctx)
	q.cancel = cancel
	m.mu.Lock()
	m.runners[t.Queue] = q
	m.mu.Unlock()
	m.metrics.queues.Set(float64(len(m.runners)))
	go q.run(qctx)
	return ""
}

// State says how the mapping of a queue that has map_to stands on this node, "" if this node does not lead or has not looked yet. It waits for
// nothing that takes time.
func (m *Mapper) State(queue string) string {
	m.mu.Lock()
	q, why := m.runners[queue], m.barred[queue]
	if why == "" && m.over {
		why = tooMany
	}
	m.mu.Unlock()
	if q != nil {
		return q.state()
	}
	return why
}

// Count notes how an evaluation of a queue's messages ended that was made elsewhere, for a push. outcome "": there are none any more.
func (m *Mapper) Count(queue, outcome string) {
	if outcome == "" {
		m.metrics.forget(queue)
		return
	}
	m.metrics.count(queue, outcome)
}
