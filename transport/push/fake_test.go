package push

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patience bounds each wait for what should come at once.
const patience = 30 * time.Second

// settlement is how a lease ended.
type settlement struct {
	m       Message
	verdict Verdict
}

// fakeBroker is queues in memory. A message that is nacked or given back is ready again at once, at the end.
type fakeBroker struct {
	leads   atomic.Bool
	settled chan settlement
	rounds  chan Consume // each Consume as it begins

	mu      sync.Mutex
	targets []Target                 // guarded by mu
	ready   map[string]chan *Message // guarded by mu
	fail    error                    // guarded by mu: of Consume
}

func newBroker(ts ...Target) *fakeBroker {
	b := &fakeBroker{settled: make(chan settlement, 10_000), rounds: make(chan Consume, 1000), targets: ts, ready: map[string]chan *Message{}}
	b.leads.Store(true)
	return b
}

func (b *fakeBroker) Leads() bool { return b.leads.Load() }

func (b *fakeBroker) Targets(context.Context, int) []Target {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Target(nil), b.targets...)
}

func (b *fakeBroker) set(ts ...Target) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.targets = ts
}

func (b *fakeBroker) queue(name string) chan *Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ready[name] == nil {
		b.ready[name] = make(chan *Message, 10_000)
	}
	return b.ready[name]
}

func (b *fakeBroker) Consume(ctx context.Context, queue string, o Consume, handle func(ctx context.Context, m *Message) Verdict) error {
	b.mu.Lock()
	err := b.fail
	b.mu.Unlock()
	b.rounds <- o
	if err != nil {
		return err
	}
	ready := b.queue(queue)
	var wg sync.WaitGroup
	for range o.Concurrency {
		wg.Go(func() {
			for ctx.Err() == nil {
				select {
				case m := <-ready:
					if ctx.Err() != nil { // nobody has begun with it
						ready <- m
						return
					}
					v := handle(context.WithoutCancel(ctx), m)
					b.settled <- settlement{*m, v}
					switch v.Do {
					case Retry:
						again := *m
						again.Attempt++
						ready <- &again
					case Return:
						ready <- m
					}
				case <-ctx.Done():
				}
			}
		})
	}
	wg.Wait()
	return nil
}

// next is the next end of a lease.
func (b *fakeBroker) next(t *testing.T) settlement {
	t.Helper()
	select {
	case s := <-b.settled:
		return s
	case <-time.After(patience):
		t.Fatal("no message is settled")
	}
	return settlement{}
}

func (b *fakeBroker) round(t *testing.T) Consume {
	t.Helper()
	select {
	case o := <-b.rounds:
		return o
	case <-time.After(patience):
		t.Fatal("nothing is consumed")
	}
	return Consume{}
}

// fakeClock stands still but for rests, which its test ends.
type fakeClock struct {
	rests chan rest

	mu  sync.Mutex
	now time.Time // guarded by mu
}

type rest struct {
	d  time.Duration
	ch chan time.Time
}

var theTime = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func newClock() *fakeClock { return &fakeClock{rests: make(chan rest, 100), now: theTime} }

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) After(d time.Duration) <-chan time.Time {
	r := rest{d, make(chan time.Time, 1)}
	c.rests <- r
	return r.ch
}

// next is a rest that has begun.
func (c *fakeClock) next(t *testing.T) rest {
	t.Helper()
	select {
	case r := <-c.rests:
		return r
	case <-time.After(patience):
		t.Fatal("there is no rest")
	}
	return rest{}
}

// pass ends a rest.
func (c *fakeClock) pass(r rest) {
	c.mu.Lock()
	c.now = c.now.Add(r.d)
	now := c.now
	c.mu.Unlock()
	r.ch <- now
}

var loopbacks = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// start runs a Pusher until the test ends, or stop is called.
func start(t *testing.T, cfg Config) (p *Pusher, stop func()) {
	t.Helper()
	cfg.LookEvery = 5 * time.Millisecond
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Run(ctx)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case <-done:
		case <-time.After(patience):
			t.Error("the pusher does not end")
		}
	})
	t.Cleanup(stop)
	return p, stop
}

// vacant is an address where nobody listens, and that nobody is given who asks for any or begins an outgoing connection.
func vacant(t *testing.T) string {
	t.Helper()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(22_000))
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
	t.Fatal("no port is free")
	return ""
}

// serve is an endpoint.
func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// says waits until the push of a queue says something.
func says(t *testing.T, p *Pusher, queue, want string) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(p.State(queue).Text, want) {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("the push of %s says %q, want %q", queue, p.State(queue).Text, want)
		}
	}
}
