package push

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Bounds and defaults.
const (
	MaxQueues          = 500  // pushed at once
	MaxRequests        = 2048 // at once, over all queues: the sum of their concurrencies
	DefaultConcurrency = 8
	DefaultTimeout     = 10 * time.Second

	leaseMargin = 5 * time.Second // of a lease beyond the time-out
	drainFor    = 2 * time.Second // that requests under way have when a runner stops
	lookEvery   = 500 * time.Millisecond
)

var defaultPermanent = []int64{400, 404, 410, 413, 422}

// Target is a queue to push and how.
type Target struct {
	Queue       string
	URL         string
	Concurrency int           // requests at once; 0: DefaultConcurrency
	Timeout     time.Duration // of one request; 0: DefaultTimeout
	Secrets     []string      // names
	Permanent   []int64       // statuses; none: 400, 404, 410, 413, 422
	Headers     []string      // of messages, that go along, in lower case
	Map         string        // expression that makes what is sent; "": the body as it is
	Generation  uint64        // of Map
}

func (t *Target) withDefaults() {
	if t.Concurrency == 0 {
		t.Concurrency = DefaultConcurrency
	}
	if t.Timeout == 0 {
		t.Timeout = DefaultTimeout
	}
}

func (t *Target) equal(o *Target) bool {
	return t.Queue == o.Queue && t.URL == o.URL && t.Concurrency == o.Concurrency && t.Timeout == o.Timeout && slices.Equal(t.Secrets, o.Secrets) &&
		slices.Equal(t.Permanent, o.Permanent) && slices.Equal(t.Headers, o.Headers) && t.Map == o.Map && t.Generation == o.Generation
}

// Message is a leased message.
type Message struct {
	ID, TaskID, Kind, ContentType string
	Body                          []byte // the handler's to read while it runs
	Headers                       []Header
	Attempt                       int // 1 for the first
	Key                           []byte
	Priority, Redrives            int
	EnqueuedAt                    int64 // Unix ms
}

// Header is a header of a message.
type Header struct{ Name, Value string }

// Verdict is what is to become of a message.
type Verdict struct {
	Do          Do
	Result      []byte // of Ack; nil: none
	ContentType string // of Result
	Error       string // of Retry, Dead and Unmapped
	Generation  uint64 // of Unmapped
}

// Do is an end of a lease.
type Do uint8

// The ends.
const (
	Ack      Do = iota // done
	Retry              // nack, by the queue's retry policy
	Dead               // nack, permanently
	Return             // release: back to its place, free
	Unmapped           // nack, reason mapping; where the queue has another mapping than that of Generation by now: as Return
)

// Consume says how messages are leased.
type Consume struct {
	Concurrency int           // handlers at once, and messages leased at once
	Lease       time.Duration // of a message
	Drain       time.Duration // that handlers have at the end
}

// Broker is what a Pusher needs of the node. Methods may be called from any goroutine.
type Broker interface {
	// Leads says whether this node leads, and serves.
	Leads() bool
	// Targets are the queues that have a push URL, in the order of names, one more than most at most.
	Targets(ctx context.Context, most int) []Target
	// Consume leases messages of a queue as any worker, and calls handle for each, until ctx ends. Then it takes no more, gives back what
	// handle has not been called for, lets handlers run for o.Drain, ends their contexts and gives back what they held, free. The context of
	// a handler ends before its lease. An error is why it ended before ctx, or that handlers have been left behind.
	Consume(ctx context.Context, queue string, o Consume, handle func(ctx context.Context, m *Message) Verdict) error
}

// Clock is the time that rests are kept by.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

type realClock struct{}

func (realClock) Now() time.Time                         { return time.Now() }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Config is what a Pusher needs. Zero values mean the default in every field that names one.
type Config struct {
	Broker    Broker
	Allow     []netip.Prefix        // networks that may be connected to beside the public ones
	Secrets   map[string][]byte     // by name; see ParseSecret
	Registry  prometheus.Registerer // nil: no metrics are shown
	Logger    *slog.Logger          // nil: silent
	UserAgent string                // default quorate
	Clock     Clock                 // default the machine's
	Resolver  *net.Resolver         // of names; default the system's
	Roots     *x509.CertPool        // that certificates are verified against; default the system's
	LookEvery time.Duration         // for what has changed; default 500 ms
	MaxResult int64                 // bytes of an answer that become a result; default, and most, 64 KiB
	MaxBody   int                   // bytes of what Map makes; default 1 MiB
	// Mapped is told how each evaluation of a Map has ended, and by outcome "" that a queue is not pushed any more; nil: nobody is.
	Mapped func(queue, outcome string)
}

// Pusher pushes the queues that have a push URL while this node leads. Make it with New, and Run it once.
type Pusher struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	dialer  *net.Dialer
	tls     *tls.Config
	http    *http.Client

	// Written by look alone, which holds mu while it writes and needs none to read: State is asked for with the state lock held, and must not
	// wait for what a look takes.
	mu      sync.Mutex
	runners map[string]*runner // by queue, those included that are ending
	barred  map[string]string  // queues that are not pushed, and why
	over    bool               // there are more queues with a URL than are pushed
}

// New makes a Pusher. Metrics are registered here.
func New(cfg Config) (*Pusher, error) {
	if cfg.Broker == nil {
		return nil, errors.New("push: Broker is missing: a node is needed")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = realClock{}
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "quorate"
	}
	if cfg.LookEvery == 0 {
		cfg.LookEvery = lookEvery
	}
	if cfg.Mapped == nil {
		cfg.Mapped = func(string, string) {}
	}
	if cfg.MaxBody == 0 {
		cfg.MaxBody = 1 << 20
	}
	if cfg.MaxResult <= 0 || cfg.MaxResult > maxAnswer {
		cfg.MaxResult = maxAnswer
	}
	p := &Pusher{
		cfg: cfg, log: cfg.Logger.With("component", "push"), runners: map[string]*runner{}, barred: map[string]string{},
		tls: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.Roots},
	}
	var err error
	if p.metrics, err = newMetrics(cfg.Registry); err != nil {
		return nil, fmt.Errorf("push: %w", err)
	}
	p.dialer = dialer(cfg.Allow, cfg.Resolver, p.metrics.guarded)
	p.http = endpointClient(p.dialer, p.tls)
	return p, nil
}

// Run pushes until ctx ends, and then until all runners have.
func (p *Pusher) Run(ctx context.Context) {
	defer p.http.CloseIdleConnections()
	tick := time.NewTicker(p.cfg.LookEvery)
	defer tick.Stop()
	for {
		var want []Target
		if p.cfg.Broker.Leads() {
			want = p.cfg.Broker.Targets(ctx, MaxQueues)
		}
		if ctx.Err() != nil {
			break
		}
		p.look(ctx, want)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	for _, q := range p.runners {
		<-q.done // its context is part of ctx
	}
	p.look(ctx, nil)
}

// look brings the runners into line with what is wanted: those of other targets are ended, and begun anew once they have.
func (p *Pusher) look(ctx context.Context, want []Target) {
	over := len(want) > MaxQueues
	want = want[:min(len(want), MaxQueues)]
	wanted := make(map[string]*Target, len(want))
	for i := range want {
		want[i].withDefaults()
		wanted[want[i].Queue] = &want[i]
	}
	requests := 0
	for name, q := range p.runners {
		if t := wanted[name]; t == nil || !t.equal(&q.target) {
			q.cancel()
		}
		select {
		case <-q.done:
			p.metrics.forget(name)
			p.cfg.Mapped(name, "")
			p.mu.Lock()
			delete(p.runners, name)
			p.mu.Unlock()
			p.metrics.queues.Set(float64(len(p.runners)))
		default:
			requests += q.target.Concurrency
		}
	}
	barred := map[string]string{}
	for i := range want {
		t := &want[i]
		if p.runners[t.Queue] != nil {
			continue
		}
		if why := p.begin(ctx, t, &requests); why != "" {
			barred[t.Queue] = why
		}
	}
	p.mu.Lock()
	p.barred, p.over = barred, over
	p.mu.Unlock()
}

// tooMany says why a queue beyond the bound is not pushed.
var tooMany = fmt.Sprintf("not pushed: the first %d queues by name that have a push_url are, and no more", MaxQueues)

// begin starts a runner, or says why it cannot.
func (p *Pusher) begin(ctx context.Context, t *Target, requests *int) (why string) {
	if len(p.runners) >= MaxQueues { // some of them are ending
		return tooMany
	}
	if *requests+t.Concurrency > MaxRequests {
		return fmt.Sprintf("not pushed: %d requests at once are promised to other queues, and %d are the most", *requests, MaxRequests)
	}
	var keys [][]byte
	for _, name := range t.Secrets {
		key, ok := p.cfg.Secrets[name]
		if !ok {
			return fmt.Sprintf("not pushed: the configuration of the node that leads has no secret %q", name)
		}
		keys = append(keys, key)
	}
	q, err := p.newRunner(*t, keys)
	if err != nil {
		return "not pushed: " + err.Error()
	}
	*requests += t.Concurrency
	qctx, cancel := context.WithCancel(ctx)
	q.life, q.cancel = qctx, cancel
	p.mu.Lock()
	p.runners[t.Queue] = q
	p.mu.Unlock()
	p.metrics.queues.Set(float64(len(p.runners)))
	p.metrics.resting.WithLabelValues(t.Queue).Set(0)
	go q.run(qctx)
	return ""
}

// State says how the push of a queue that has a URL stands on this node. It waits for nothing that takes time.
func (p *Pusher) State(queue string) State {
	p.mu.Lock()
	q, why := p.runners[queue], p.barred[queue]
	if why == "" && p.over {
		why = tooMany
	}
	p.mu.Unlock()
	switch {
	case q != nil:
		return q.state()
	case why != "":
		return State{Does: Barred, Text: why}
	}
	return State{}
}
