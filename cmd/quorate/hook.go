package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/transport/hook"
	"github.com/quorate/quorate/transport/spans"
	"github.com/quorate/quorate/wire"
)

// declaredHook is one [[hook]]: a door for another system's webhooks. Secrets are named here, never written.
type declaredHook struct {
	Name         string              `toml:"name"`
	Queue        string              `toml:"queue"`
	Kind         string              `toml:"kind"`
	Verify       declaredVerify      `toml:"verify"`
	Idempotency  declaredIdempotency `toml:"idempotency"`
	KeepHeaders  []string            `toml:"keep_headers"`
	MaxBodyBytes int64               `toml:"max_body_bytes"`
	SchemaFile   string              `toml:"schema_file"`
	Map          string              `toml:"map"`
}

// declaredVerify is [hook.verify].
type declaredVerify struct {
	Scheme          string   `toml:"scheme"`
	Header          string   `toml:"header"`
	Prefix          string   `toml:"prefix"`
	Encoding        string   `toml:"encoding"`
	ToleranceMillis int64    `toml:"tolerance_ms"`
	SecretEnv       string   `toml:"secret_env"`
	SecretFile      string   `toml:"secret_file"`
	SecretEnvs      []string `toml:"secret_envs"`
	SecretFiles     []string `toml:"secret_files"`
}

// declaredIdempotency is [hook.idempotency].
type declaredIdempotency struct {
	Header  string `toml:"header"`
	Pointer string `toml:"pointer"`
}

const (
	declaredHookKeys = "name, queue, kind, verify, idempotency, keep_headers, max_body_bytes, schema_file, map"
	verifyKeys       = "scheme, header, prefix, encoding, tolerance_ms, secret_env, secret_file, secret_envs, secret_files"
	idempotencyKeys  = "header, pointer"
)

func (v *declaredVerify) envs() []string  { return named(v.SecretEnv, v.SecretEnvs) }
func (v *declaredVerify) files() []string { return named(v.SecretFile, v.SecretFiles) }

func named(one string, more []string) []string {
	if one == "" {
		return more
	}
	return append([]string{one}, more...)
}

// hook is a declared hook without what files and the environment say.
func (d *declaredHook) hook() hook.Hook {
	return hook.Hook{
		Name: d.Name, Queue: d.Queue, Kind: d.Kind, KeepHeaders: d.KeepHeaders, MaxBodyBytes: d.MaxBodyBytes, Map: d.Map,
		Verify: hook.Verify{Scheme: d.Verify.Scheme, Header: d.Verify.Header, Prefix: d.Verify.Prefix, Encoding: d.Verify.Encoding,
			Tolerance: durationMillis(d.Verify.ToleranceMillis)},
		Idempotency: hook.Idempotency{Header: d.Idempotency.Header, Pointer: d.Idempotency.Pointer},
	}
}

// check judges a declared hook by itself: whether its secrets and its schema are to be had is asked by the node that serves it.
func (d *declaredHook) check(maxMessageBytes int64) *wire.Fault {
	h := d.hook()
	if f := h.Check(maxMessageBytes); f != nil {
		return f
	}
	if len(d.Verify.envs())+len(d.Verify.files()) == 0 {
		return wire.Invalid("verify", "no secret; secret_env, secret_file, or lists secret_envs and secret_files while one is being replaced, would be right")
	}
	return nil
}

// maxSecretFile and maxSchemaFile bound what is read at the start.
const (
	maxSecretFile = 64 << 10
	maxSchemaFile = 1 << 20
)

// hooks reads what the declared hooks need beside the file. The error names hook and source, never a secret.
func (r *resolved) hooks(getenv func(string) (string, bool)) (hs []hook.Hook, secrets map[string][][]byte, err error) {
	secrets = make(map[string][][]byte, len(r.Hooks))
	for i := range r.Hooks {
		d := &r.Hooks[i]
		h := d.hook()
		fail := func(format string, args ...any) error {
			return fmt.Errorf("[[hook]] %q: %w", d.Name, fmt.Errorf(format, args...))
		}
		for _, name := range d.Verify.envs() {
			v, ok := getenv(name)
			if !ok || v == "" {
				return nil, nil, fail("environment variable %.100q, which holds its secret, is not set", name)
			}
			secrets[d.Name] = append(secrets[d.Name], []byte(v))
		}
		for _, file := range d.Verify.files() {
			b, err := readBounded(file, maxSecretFile)
			if err != nil {
				return nil, nil, fail("secret: %w", err)
			}
			b = bytes.TrimRight(b, "\r\n")
			if len(b) == 0 {
				return nil, nil, fail("file %.200q, which holds its secret, is empty", file)
			}
			secrets[d.Name] = append(secrets[d.Name], b)
		}
		if d.SchemaFile != "" {
			if h.Schema, err = readBounded(d.SchemaFile, maxSchemaFile); err != nil {
				return nil, nil, fail("schema_file: %w", err)
			}
		}
		hs = append(hs, h)
	}
	return hs, secrets, nil
}

func readBounded(file string, most int64) ([]byte, error) {
	st, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%.200q is no file", file)
	case st.Size() > most:
		return nil, fmt.Errorf("%.200q has %d bytes; at most %d are read", file, st.Size(), most)
	}
	return os.ReadFile(file)
}

// producer puts webhooks into queues through the SDK, from within the node that got them: the SDK finds the leader, here or elsewhere,
// follows it, and tries again under one request number what has no answer. It takes what client.Open needs from run.
type producer struct {
	name  string        // of the client, before its version
	ready chan struct{} // closed when cl is there
	cl    *client.Client
}

func newProducer(name string) *producer { return &producer{name: name, ready: make(chan struct{})} }

// openWithin bounds one try to find the cluster.
const openWithin = 10 * time.Second

// run connects, trying until ctx ends.
func (p *producer) run(ctx context.Context, log *slog.Logger, addr string) {
	for ctx.Err() == nil {
		cl, err := client.Open(ctx, client.Options{Addrs: []string{addr}, Name: p.name + "/" + version, Timeout: openWithin, FailWhenFull: true})
		if err == nil {
			p.cl = cl
			close(p.ready)
			return
		}
		if ctx.Err() == nil {
			log.Warn(p.name+" waits for a leader", "err", err)
		}
	}
}

// close ends the client once run has returned.
func (p *producer) close(ctx context.Context) error {
	select {
	case <-p.ready:
		return p.cl.Close(ctx)
	default:
		return nil
	}
}

// Enqueue is hook.Producer's.
func (p *producer) Enqueue(ctx context.Context, queue string, m *wire.Message) (hook.Receipt, *wire.Fault) {
	select {
	case <-p.ready:
	case <-ctx.Done():
		return hook.Receipt{}, wire.NewFault(wire.CodeNoLeader, "no leader has been found yet: try again")
	}
	msg := client.Message{Body: m.Body, Kind: m.Kind, ContentType: m.ContentType, DedupKey: m.DedupKey}
	for _, h := range m.Headers {
		msg.Headers = append(msg.Headers, client.Header{Name: h.Name, Value: h.Value})
	}
	r, err := p.cl.Enqueue(ctx, queue, msg)
	if err != nil {
		return hook.Receipt{}, faultFor(err)
	}
	rec := hook.Receipt{ID: r.ID, Duplicate: r.Duplicate}
	switch {
	case !r.Duplicate:
	case r.Result != nil:
		rec.Ended, rec.Status = true, wire.StatusSucceeded
		rec.Result = &wire.Result{TaskID: r.Result.TaskID, Output: r.Result.Output, ContentType: r.Result.ContentType, RecordedAt: r.Result.RecordedAt.UnixMilli()}
	default:
		return p.repeat(ctx, rec)
	}
	return rec, nil
}

// repeat says how the message stands that a repeat without a result has found: it may have been acked without one.
func (p *producer) repeat(ctx context.Context, rec hook.Receipt) (hook.Receipt, *wire.Fault) {
	t, err := p.cl.Task(ctx, "", rec.ID)
	switch {
	case errors.Is(err, client.ErrNotFound): // what is done is forgotten after a while, its key is not
		rec.Ended = true
	case err != nil:
		return hook.Receipt{}, faultFor(err)
	default:
		switch t.Status {
		case wire.StatusSucceeded, wire.StatusDead, wire.StatusCancelled:
			rec.Ended, rec.Status = true, t.Status
		}
	}
	return rec, nil
}

// faultFor is an error of the SDK as doors answer it.
func faultFor(err error) *wire.Fault {
	var e *client.Error
	if !errors.As(err, &e) {
		return wire.NewFault(wire.CodeNoLeader, "no leader could be reached in time: try again")
	}
	f := wire.NewFault(e.Code, "%s", e.Message)
	f.Unknown, f.Retry, f.RetryAfterMillis, f.ID = e.Unknown, e.Retry, e.RetryAfter.Milliseconds(), e.ID
	return f
}

// hooked is a node's webhook door and what drives it; nil: the node has no hooks.
type hooked struct {
	door     *hook.Handler
	producer *producer
	ran      chan struct{} // closed when the producer has connected or given up
}

func newHooked(hooks []hook.Hook, secrets map[string][][]byte, maxMessageBytes int64, reg *prometheus.Registry, log *slog.Logger, recorder *spans.Recorder) (*hooked, error) {
	if len(hooks) == 0 {
		return nil, nil
	}
	p := newProducer("quorate-hook")
	door, err := hook.New(hook.Config{Hooks: hooks, Secrets: secrets, Producer: p, Registry: reg, Logger: log, MaxMessageBytes: maxMessageBytes, Spans: recorder})
	if err != nil {
		return nil, err
	}
	return &hooked{door: door, producer: p, ran: make(chan struct{})}, nil
}

func (h *hooked) handler() http.Handler {
	if h == nil {
		return nil
	}
	return h.door
}

// start connects to the node's own client address, which may serve nobody yet.
func (h *hooked) start(ctx context.Context, log *slog.Logger, addr string) {
	if h == nil {
		return
	}
	go func() {
		defer close(h.ran)
		h.producer.run(ctx, log, addr)
	}()
}

// drain refuses webhooks from here on; the SDK follows the leadership with those under way.
func (h *hooked) drain() {
	if h != nil {
		h.door.Drain()
	}
}

// stop comes after start and when nobody asks any more.
func (h *hooked) stop(ctx context.Context) error {
	if h == nil {
		return nil
	}
	<-h.ran
	return h.producer.close(ctx)
}
