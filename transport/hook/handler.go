package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorate/quorate/transport/httpapi"
	"github.com/quorate/quorate/transport/spans"
	"github.com/quorate/quorate/wire"
)

// Producer enqueues what hooks take in, wherever the leader is.
type Producer interface {
	// Enqueue adds a message to a queue, or finds the one that has its dedup key. It ends by ctx. What it retries it retries under one
	// request number, so that a message is there once.
	Enqueue(ctx context.Context, queue string, m *wire.Message) (Receipt, *wire.Fault)
}

// Receipt is what became of a message.
type Receipt struct {
	ID        string // of the first one, where it is a repeat
	Duplicate bool   // nothing was stored: the dedup key is known
	Ended     bool   // of a repeat: the first one is done, dead or cancelled, or was and has been forgotten
	Status    string // of a repeat that has ended: succeeded, dead or cancelled, "" if that is forgotten
	Result    *wire.Result
}

// Config is what a Handler needs. Zero values mean the default in every field that names one.
type Config struct {
	Hooks           []Hook
	Secrets         map[string][][]byte // by hook; the first one in use and those that are being replaced
	Producer        Producer
	Registry        *prometheus.Registry // nil: no metrics
	Logger          *slog.Logger         // nil: silent
	Spans           *spans.Recorder      // makes spans of what holds its signature; nil: none
	Now             func() time.Time     // wall clock; nil: time.Now
	MaxMessageBytes int64                // of the cluster; the most that a body may be

	MaxUnderWay int           // webhooks on their way into the log at once; default 1,024
	MaxBytes    int64         // of all bodies in memory; default 64 MiB, or four of the largest
	ReadTimeout time.Duration // from a request's head to the end of its body; default 10 s
	Wait        time.Duration // for the log, and for a leader where there is none; default 2.5 s, since senders wait for 3 to 10
}

// Handler is POST /hook/{name}. Make it with New.
type Handler struct {
	cfg      Config
	log      *slog.Logger
	hooks    map[string]*hook
	bytes    atomic.Int64
	turns    chan struct{} // bodies that are being parsed
	underWay chan struct{}
	draining atomic.Bool

	requests *prometheus.CounterVec
	took     prometheus.Histogram
}

// parsers is how many bodies are parsed at once: what is made of one takes up to thirty times its bytes.
const parsers = 4

// firstBuffer is what a body is read into to begin with, whatever its length is said to be.
const firstBuffer = 4 << 10

// New makes the handler. The error names the hook and what is wrong with it.
func New(cfg Config) (*Handler, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.MaxUnderWay == 0 {
		cfg.MaxUnderWay = 1024
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = max(64<<20, 4*cfg.MaxMessageBytes)
	}
	if cfg.ReadTimeout == 0 {
		cfg.ReadTimeout = 10 * time.Second
	}
	if cfg.Wait == 0 {
		cfg.Wait = 2500 * time.Millisecond
	}
	if len(cfg.Hooks) > MaxHooks {
		return nil, fmt.Errorf("%d hooks; at most %d are allowed", len(cfg.Hooks), MaxHooks)
	}
	s := &Handler{
		cfg: cfg, log: cfg.Logger.With("component", "hook"), hooks: make(map[string]*hook, len(cfg.Hooks)),
		turns: make(chan struct{}, parsers), underWay: make(chan struct{}, cfg.MaxUnderWay),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "quorate_hook_requests_total",
			Help: "Webhooks by hook (empty: no such hook) and answer."}, []string{"hook", "status"}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "quorate_hook_seconds",
			Help: "From a webhook's head to its answer.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 14)}),
	}
	for i := range cfg.Hooks {
		h, f := cfg.Hooks[i].ready(cfg.MaxMessageBytes)
		if f != nil {
			return nil, fmt.Errorf("hook %q: %s", cfg.Hooks[i].Name, f.Message)
		}
		if s.hooks[h.Name] != nil {
			return nil, fmt.Errorf("hook %q is there twice", h.Name)
		}
		h.secrets = cfg.Secrets[h.Name]
		if err := CheckSecrets(h.secrets); err != nil {
			return nil, fmt.Errorf("hook %q: %w", h.Name, err)
		}
		s.hooks[h.Name] = h
	}
	if cfg.Registry != nil {
		for _, c := range []prometheus.Collector{s.requests, s.took} {
			if err := cfg.Registry.Register(c); err != nil {
				return nil, fmt.Errorf("hooks: metrics: %w", err)
			}
		}
	}
	return s, nil
}

// Drain refuses what comes from now on: the node is stopping. What is under way is answered.
func (s *Handler) Drain() { s.draining.Store(true) }

// visit is one request.
type visit struct {
	s       *Handler
	h       *hook // nil: there is none of that name
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	began   time.Time
	request string // its id, for logs and people
	body    []byte
	held    int64 // of Handler.bytes

	parent, span trace.SpanContext // the sender's, where he says so, and the webhook's own, where there is one
	state        string            // the sender's tracestate
	id, code     string            // for the span: the message's, and why it was refused
}

// ServeHTTP answers one webhook.
func (s *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := &visit{s: s, w: w, r: r, control: http.NewResponseController(w), began: s.cfg.Now(), request: httpapi.Identify(w, r)}
	start := time.Now()
	name := strings.TrimPrefix(r.URL.Path, "/hook/")
	v.h = s.hooks[name]
	status := v.serve()
	s.bytes.Add(-v.held)
	known := ""
	if v.h != nil {
		known = name
	}
	s.requests.WithLabelValues(known, strconv.Itoa(status)).Inc()
	s.took.Observe(time.Since(start).Seconds())
}

// serve answers, and returns the status that it answered with.
func (v *visit) serve() int {
	s, h := v.s, v.h
	switch {
	case h == nil:
		return v.refuse(http.StatusNotFound, wire.NewFault(wire.CodeNotFound, "there is no hook of this name"))
	case v.r.Method != http.MethodPost:
		v.w.Header().Set("Allow", http.MethodPost)
		return v.refuse(http.StatusMethodNotAllowed, wire.NewFault(wire.CodeInvalidArgument, "method %.20q is not served here: POST would be right", v.r.Method))
	case s.draining.Load():
		v.w.Header().Set("Connection", "close")
		return v.fault(wire.NewFault(wire.CodeNoLeader, "this node is stopping: try again"))
	}
	// What the head alone shows to be wrong costs nobody a body.
	c, err := h.scheme.claim(v.r.Header)
	if err == nil {
		err = h.scheme.timely(&c, v.began, h.Verify.Tolerance)
	}
	if err != nil {
		return v.unsigned(err)
	}
	if status := v.read(); status != 0 {
		return status
	}
	if !h.scheme.holds(&c, v.body, h.secrets) {
		return v.unsigned(fmt.Errorf("no signature in header %s is that of these bytes under a secret of this hook", h.scheme.header))
	}
	if challenge, ok := h.challenge(v.body); ok {
		return v.answer(http.StatusOK, &WebhookAnswer{Challenge: challenge})
	}
	v.trace()
	ctx, cancel := context.WithTimeout(v.r.Context(), s.cfg.Wait)
	defer cancel()
	m, key, f := v.message(ctx)
	if f != nil {
		return v.fault(f)
	}
	if m == nil {
		return v.drop(key)
	}
	select {
	case s.underWay <- struct{}{}:
		defer func() { <-s.underWay }()
	default:
		return v.fault(wire.NewFault(wire.CodeOverloaded, "%d webhooks are on their way into the log, as many as may be: try again", s.cfg.MaxUnderWay))
	}
	rec, f := s.cfg.Producer.Enqueue(ctx, h.Queue, m)
	if f != nil {
		return v.fault(f)
	}
	return v.accept(&rec, key)
}

// read takes in the body, bounded in bytes, time, and together with those of others. 0: it is there, else what was answered.
func (v *visit) read() int {
	limit := v.h.MaxBodyBytes
	if v.r.ContentLength > limit {
		return v.tooLarge()
	}
	_ = v.control.SetReadDeadline(v.began.Add(v.s.cfg.ReadTimeout)) // without deadlines there are none to move
	var b []byte
	for {
		if len(b) == cap(b) {
			grow := int64(max(firstBuffer, len(b)))
			if rest := v.r.ContentLength - int64(len(b)) + 1; v.r.ContentLength >= 0 {
				grow = min(grow, max(rest, 1))
			}
			grow = min(grow, limit+1-int64(len(b)))
			v.held += grow
			if v.s.bytes.Add(grow) > v.s.cfg.MaxBytes {
				v.w.Header().Set("Connection", "close") // what is left of it is not read
				return v.fault(wire.NewFault(wire.CodeOverloaded, "the webhooks under way take %d bytes, as many as they may: try again", v.s.cfg.MaxBytes))
			}
			b = append(make([]byte, 0, int64(len(b))+grow), b...)
		}
		n, err := v.r.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if int64(len(b)) > limit {
			return v.tooLarge()
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			v.w.Header().Set("Connection", "close")
			var late net.Error
			if errors.As(err, &late) && late.Timeout() {
				return v.refuse(http.StatusRequestTimeout, wire.NewFault(wire.CodeInvalidArgument, "the body was not complete within %s", v.s.cfg.ReadTimeout))
			}
			return v.fault(wire.NewFault(wire.CodeInvalidArgument, "the body cannot be read: %v", err))
		}
	}
	_ = v.control.SetReadDeadline(time.Time{}) // one that passes would look like a sender who has gone
	v.body = b
	return 0
}

func (v *visit) tooLarge() int {
	v.w.Header().Set("Connection", "close")
	return v.fault(wire.NewFault(wire.CodeTooLarge, "the body has more than %d bytes, the most that this hook takes", v.h.MaxBodyBytes))
}

// message makes a message of a request whose signature holds; none where the hook's map makes nothing of it. The fault says what is wrong with
// its body or headers.
func (v *visit) message(ctx context.Context) (*wire.Message, string, *wire.Fault) {
	h := v.h
	key, err := v.parse(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, "", wire.NewFault(wire.CodeOverloaded, "this node had no time to look at the body: try again")
		}
		return nil, "", wire.NewFault(wire.CodeInvalidArgument, "%s", err.Error())
	}
	m := &wire.Message{Body: v.body, Kind: h.Kind}
	if ct := v.r.Header.Get("Content-Type"); len(ct) <= wire.MaxContentTypeBytes {
		m.ContentType = ct
	}
	for _, name := range h.keep {
		if name == keptTraceparent || name == keptTracestate { // they go along by themselves
			continue
		}
		if vs := v.r.Header.Values(name); len(vs) > 0 {
			m.Headers = append(m.Headers, wire.Header{Name: strings.ToLower(name), Value: strings.Join(vs, ", ")})
		}
	}
	source, _, err := net.SplitHostPort(v.r.RemoteAddr)
	if err != nil {
		source = v.r.RemoteAddr
	}
	m.Headers = append(m.Headers,
		wire.Header{Name: HeaderName, Value: h.Name},
		wire.Header{Name: HeaderSource, Value: source},
		wire.Header{Name: HeaderReceived, Value: strconv.FormatInt(v.began.UnixMilli(), 10)})
	if some, f := v.mapped(ctx, m); f != nil || !some {
		return nil, key, f
	}
	if key != "" {
		m.DedupKey = h.dedupKey(key)
	}
	if f := m.Validate(v.s.cfg.MaxMessageBytes); f != nil {
		return nil, "", f
	}
	v.carry(m)
	return m, key, nil
}

// parse looks into the body, as far as the hook asks for it, and finds the idempotency key.
func (v *visit) parse(ctx context.Context) (string, error) {
	if v.h.pointer == nil && v.h.schema == nil {
		return v.h.idempotencyKey(v.r.Header, v.body)
	}
	select {
	case v.s.turns <- struct{}{}:
		defer func() { <-v.s.turns }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if err := v.h.fits(ctx, v.body); err != nil {
		return "", err
	}
	return v.h.idempotencyKey(v.r.Header, v.body)
}
