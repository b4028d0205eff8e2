package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/quorate/quorate/wire"
)

// Bounds and defaults of Options.
const (
	DefaultTimeout    = 30 * time.Second
	DefaultMaxPending = 16384

	maxAddrs      = 64
	maxMaxPending = 1 << 20
)

// Options says where the cluster is and how patient the client should be. Only Addrs is required.
type Options struct {
	// Addrs are "host:port" client addresses of any nodes of one cluster, 1–64 of them. Which of them leads, follows or
	// is dead does not matter: the client finds the leader from any live one.
	Addrs []string
	// Name is shown in the servers' logs, at most 128 bytes. Default: "quorate-go".
	Name string
	// Worker names the lease holder in task histories, at most 128 bytes. Default: host:pid:index, the index being that
	// of the subscription and 0 for pulls.
	Worker string
	// Logger gets connection state changes. Nil: silent.
	Logger *slog.Logger
	// Timeout bounds each call whose context has no deadline. Default 30 s.
	Timeout time.Duration
	// MaxPending is how many enqueued messages may be without an answer at once, 1–1,048,576; beyond it calls wait.
	// Default 16384.
	MaxPending int
	// FailWhenFull returns refusals that time or consumers may cure (queue_full, no_space, overloaded, rate_limited) to
	// the caller at once. Default: the call is tried again, under a new request number, after the server's retry_after
	// or a back-off with jitter, until its context or Timeout ends; then the last refusal is returned.
	FailWhenFull bool
	// Seed makes the back-off jitter repeatable. 0: random.
	Seed uint64
	// TracerProvider makes OpenTelemetry spans of what is sent and of what handlers of Consume do, and has traces go with messages
	// in their headers traceparent and tracestate: from the context of an Enqueue to that of the handler. Nil: nothing is traced, at no cost.
	TracerProvider trace.TracerProvider
	// Dial opens the connection to a node's client address, for programs that reach their nodes through a tunnel or on a network of
	// their own making. It must return when ctx ends. Nil: TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
}

// withDefaults checks o and fills in what is not set.
func (o Options) withDefaults() (Options, error) {
	if len(o.Addrs) == 0 {
		return o, errors.New("client: Options.Addrs is empty: name at least one node as host:port")
	}
	if len(o.Addrs) > maxAddrs {
		return o, fmt.Errorf("client: Options.Addrs has %d addresses, at most %d", len(o.Addrs), maxAddrs)
	}
	addrs := make([]string, 0, len(o.Addrs))
	for _, a := range o.Addrs {
		a = strings.TrimSpace(a)
		host, port, err := net.SplitHostPort(a)
		if err != nil || host == "" || port == "" {
			return o, fmt.Errorf("client: address %q: want host:port, such as 127.0.0.1:7340", a)
		}
		addrs = append(addrs, a)
	}
	o.Addrs = addrs
	if o.Name == "" {
		o.Name = "quorate-go"
	}
	for _, f := range []struct {
		name, value string
		limit       int
	}{{"Name", o.Name, wire.MaxClientBytes}, {"Worker", o.Worker, wire.MaxWorkerBytes}} {
		if len(f.value) > f.limit {
			return o, fmt.Errorf("client: Options.%s is %d bytes long, at most %d", f.name, len(f.value), f.limit)
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", addr)
		}
	}
	switch {
	case o.Timeout < 0:
		return o, fmt.Errorf("client: Options.Timeout %v is negative", o.Timeout)
	case o.Timeout == 0:
		o.Timeout = DefaultTimeout
	}
	switch {
	case o.MaxPending < 0 || o.MaxPending > maxMaxPending:
		return o, fmt.Errorf("client: Options.MaxPending %d is outside 1 to %d", o.MaxPending, maxMaxPending)
	case o.MaxPending == 0:
		o.MaxPending = DefaultMaxPending
	}
	return o, nil
}

// worker names the lease holder of a subscription, or of pulls (0), where the caller does not.
func (o *Options) worker(index uint32) string {
	if o.Worker != "" {
		return o.Worker
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	rest := fmt.Sprintf(":%d:%d", os.Getpid(), index)
	return wire.CutText(host, wire.MaxWorkerBytes-len(rest)) + rest
}

// jitter draws back-off waits. Safe for concurrent use.
type jitter struct {
	mu  sync.Mutex
	rng *rand.Rand // guarded by mu
}

func newJitter(seed uint64) *jitter {
	if seed == 0 {
		seed = rand.Uint64()
	}
	return &jitter{rng: rand.New(rand.NewPCG(seed, 0x9E3779B97F4A7C15))}
}

// wait draws the pause before try n (from 1): full jitter over base·2^(n−1), capped; never below least.
func (j *jitter) wait(n int, base, limit, least time.Duration) time.Duration {
	shift := min(max(n-1, 0), 20) // clamp first, then double
	top := min(base<<shift, limit)
	j.mu.Lock()
	d := time.Duration(j.rng.Int64N(int64(top) + 1))
	j.mu.Unlock()
	return max(d, least)
}

func (j *jitter) shuffle(a []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rng.Shuffle(len(a), func(x, y int) { a[x], a[y] = a[y], a[x] })
}
