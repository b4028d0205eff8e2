package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/load"
	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

// fake is a system in this process, with processes beside it that only sleep. Its queue outlives them. The hooks make it
// a bad one.
type fake struct {
	ps []*proc.Process

	mu     sync.Mutex
	queues map[string]*fakeQueue // guarded by mu
	stored int                   // guarded by mu; messages and acks so far

	keep  func(n int) bool                // whether the n-th message is stored; it is confirmed anyway
	alter func(n int, b []byte) []byte    // what is stored of it
	count func(n int64) int64             // what depth says
	down  func() error                    // fails every call
	ready func(ctx context.Context) error // of start
}

type fakeQueue struct {
	bodies [][]byte
	out    map[string][]byte // leased
}

func newFake(dir string) *fake {
	f := &fake{queues: make(map[string]*fakeQueue)}
	for i := range 3 {
		name := fmt.Sprintf("fake%d", i+1)
		f.ps = append(f.ps, &proc.Process{Name: name, LogFile: filepath.Join(dir, name+".log"), Binary: "sleep", Args: []string{"600"}})
	}
	return f
}

func (f *fake) nodes() []*proc.Process { return f.ps }
func (f *fake) cpu() time.Duration     { return time.Duration(f.total()) * time.Microsecond }
func (f *fake) kill()                  { killAll(f.ps...) }

func (f *fake) total() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stored
}

func (f *fake) start(ctx context.Context) error {
	return launch(ctx, f.ps, func(ctx context.Context, _ int) error {
		if f.ready != nil {
			return f.ready(ctx)
		}
		return nil
	})
}

func (f *fake) connect(context.Context, string) (load.Conn, error) {
	if f.down != nil {
		if err := f.down(); err != nil {
			return nil, err
		}
	}
	return &fakeConn{f: f}, nil
}

func (f *fake) depth(_ context.Context, queue string) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.queues[queue]
	if q == nil {
		return 0, errors.New("there is no such queue")
	}
	n := int64(len(q.bodies) + len(q.out))
	if f.count != nil {
		n = f.count(n)
	}
	return n, nil
}

func (f *fake) leader(context.Context, string) (*proc.Process, error) { return f.ps[1], nil }

func (f *fake) publisher(ctx context.Context, queue string) (publisher, error) {
	c, err := f.connect(ctx, "publisher")
	return fakePublisher{c, queue}, err
}

type fakePublisher struct {
	c     load.Conn
	queue string
}

func (p fakePublisher) publish(ctx context.Context, _ string, body []byte) error {
	_, err := p.c.Enqueue(ctx, p.queue, client.Message{Body: body})
	return err
}
func (p fakePublisher) close() {}

// fakeConn is one client: calls are answered at once, on the caller's goroutine, but for deliveries.
type fakeConn struct {
	unused
	f    *fake
	subs sync.WaitGroup
	quit context.CancelFunc
}

func (c *fakeConn) CreateQueue(_ context.Context, name string, _ client.QueueOptions) error {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	c.f.queues[name] = &fakeQueue{out: make(map[string][]byte)}
	return nil
}

func (c *fakeConn) DeleteQueue(_ context.Context, name string) error {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if c.f.queues[name] == nil {
		return errors.New("there is no such queue")
	}
	delete(c.f.queues, name)
	return nil
}

func (c *fakeConn) Enqueue(_ context.Context, queue string, m client.Message) (client.Receipt, error) {
	f := c.f
	if f.down != nil {
		if err := f.down(); err != nil {
			return client.Receipt{}, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.queues[queue]
	if q == nil {
		return client.Receipt{}, errors.New("there is no such queue")
	}
	f.stored++
	if f.keep != nil && !f.keep(f.stored) {
		return client.Receipt{}, nil
	}
	body := bytes.Clone(m.Body)
	if f.alter != nil {
		body = f.alter(f.stored, body)
	}
	q.bodies = append(q.bodies, body)
	return client.Receipt{}, nil
}

func (c *fakeConn) EnqueueAsync(ctx context.Context, queue string, m client.Message, done func(client.Receipt, error)) error {
	done(c.Enqueue(ctx, queue, m))
	return nil
}

// Subscribe polls: a test's queue may be filled at any time by anybody.
func (c *fakeConn) Subscribe(_ context.Context, queue string, credit int, deliver func(*client.Delivery)) (func(context.Context) error, error) {
	ctx, cancel := context.WithCancel(context.Background())
	c.quit = cancel
	mine := make(map[string]bool)
	var next int
	c.subs.Go(func() {
		for pause(ctx, time.Millisecond) == nil {
			var ds []*client.Delivery
			c.f.mu.Lock()
			if q := c.f.queues[queue]; q != nil {
				out := 0
				for t := range mine {
					if _, is := q.out[t]; is {
						out++
					} else {
						delete(mine, t)
					}
				}
				for ; out < credit && len(q.bodies) > 0; out++ {
					next++
					token := queue + " " + fmt.Sprintf("%p", c) + strconv.Itoa(next)
					mine[token], q.out[token] = true, q.bodies[0]
					ds = append(ds, &client.Delivery{Body: q.bodies[0], Token: token})
					q.bodies = q.bodies[1:]
				}
			}
			c.f.mu.Unlock()
			for _, d := range ds {
				deliver(d)
			}
		}
	})
	return func(context.Context) error {
		cancel()
		c.subs.Wait()
		return nil
	}, nil
}

func (c *fakeConn) AckAsync(_ context.Context, token string, _ client.AckOptions, done func(client.Acked, error)) error {
	c.f.mu.Lock()
	c.f.stored++
	for _, q := range c.f.queues {
		delete(q.out, token)
	}
	c.f.mu.Unlock()
	done(client.Acked{}, nil)
	return nil
}

func (c *fakeConn) Close(context.Context) error {
	if c.quit != nil {
		c.quit()
	}
	c.subs.Wait()
	return nil
}

// newBench is a bench with short times that measures fakes.
func newBench(t *testing.T, workloads ...string) *bench {
	t.Helper()
	o, err := parse([]string{"--for=200ms", "--warm-up=20ms", "--repeat=1", "--preload=60000", "--queued=500", "--rate=500"})
	if err != nil {
		t.Fatal(err)
	}
	o.workloads = workloads
	within := usualBounds
	within.settle, within.readBack, within.before, within.after, within.back = 2*time.Second, 5*time.Second, 100*time.Millisecond, 300, 20*time.Second
	return &bench{o: o, e: &env{data: t.TempDir()}, within: within, report: &report{}, log: &bytes.Buffer{}}
}

// fakeSystem makes fakes, which change may make bad, and keeps the last.
func fakeSystem(name string, last **fake, change func(*fake)) system {
	return system{name: name, title: name, replicated: true, make: func(_ *env, dir string) (target, error) {
		f := newFake(dir)
		if change != nil {
			change(f)
		}
		if last != nil {
			*last = f
		}
		return f, os.WriteFile(filepath.Join(dir, "left-over"), nil, 0o600)
	}, floor: func(_ context.Context, _ *env, _ *options, rate float64) (*load.Result, error) {
		return &load.Result{Workload: load.Floor, Confirm: &load.Quantiles{P50: 1 + rate, P99: 2 + rate}}, nil
	}}
}
