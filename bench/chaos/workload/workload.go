// Package workload is what the clients of a chaos run do: producers, workers and meddlers on queues of every sort, each of whose requests
// and answers is recorded for bench/chaos/history to judge.
//
//	Begin ──▶ producers, meddlers, undertakers ─┐
//	          workers: pullers, subscribers ────┼──▶ nodes        each request and answer ──▶ history.Recorder
//	StopProducing, Heal, Drain, StopWorking, ReadAll
//
// Most clients speak the wire protocol themselves, with their request numbers and repeats in plain sight (link.go); an SDK client works
// beside them on each queue. They misbehave by themselves, whatever the nodes go through: requests are sent twice, or cut off in the
// middle; workers ack twice, too late, with something else, or never again. Heal ends the misbehaviour of workers, so that queues can
// become empty.
package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/bench/chaos/history"
	"github.com/quorate/quorate/client"
)

// Modes are what queues can be about: an ordering mode, or something else.
var Modes = []string{"unordered", "fifo", "per_key", onceMode, ratedMode, redrivenMode, batchedMode}

// Changes are what else they can be about: that what waits is changed, goes, or comes by itself.
var Changes = []string{movedMode, emptiedMode, keyRatedMode, buriedMode, scheduledMode}

// Config says who does what where.
type Config struct {
	Addrs []string          // of the nodes, for clients
	Rec   *history.Recorder // open until after ReadAll
	Seed  uint64
	Modes []string // a queue each, of Modes and Changes; nil: all of Modes
	Busy  int      // how many times as many clients work on the queues that gain by it; 0: 1

	Every              time.Duration // between two requests of a producer, twice that in a fifo queue; 0: as the mode needs it
	Producers, Pullers int           // of each queue; 0: 3 and 4
	// Wait is how long a pull waits for a message, up to 5 s; 0: 300 ms. Calm is how long a client waits at most between two tries
	// to reach a node, up to which each wait is longer than the one before it; 0: 60 ms, so that what a fault costs is seen at once.
	Wait, Calm time.Duration
	// Dial opens a connection to one of Addrs, or to an address that a node has told; nil: TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
}

// Workload is the clients of a run. Its methods are called by one goroutine, but for Hold.
type Workload struct {
	cfg    Config
	loads  []*load
	people atomic.Int64
	gate   gate

	stopProducers, stopWorkers context.CancelFunc
	producers, workers         sync.WaitGroup

	mu  sync.Mutex
	err error // guarded by mu: the first of a client of the SDK
}

// New is a workload that has not begun.
func New(cfg Config) (*Workload, error) {
	if len(cfg.Modes) == 0 {
		cfg.Modes = Modes
	}
	rng := rand.New(rand.NewPCG(cfg.Seed, 2))
	w := &Workload{cfg: cfg}
	for i, mode := range cfg.Modes {
		if all := slices.Concat(Modes, Changes); !slices.Contains(all, mode) {
			return nil, fmt.Errorf("a queue cannot be about %q, want one of %v", mode, all)
		}
		l := &load{
			queue: "h-" + mode, kind: mode, mode: mode, addrs: cfg.Addrs, rec: cfg.Rec, seed: rng.Uint64(), ids: map[string]bool{},
			people: &w.people, gate: &w.gate, every: []time.Duration{40, 400, 80}[i%3] * time.Millisecond, producers: 3, pullers: 4,
		}
		switch mode {
		case "fifo": // one at a time, and every failure stands in the way of all
			l.every = 400 * time.Millisecond
		case onceMode, ratedMode, redrivenMode, batchedMode:
			l.mode, l.every = "unordered", 120*time.Millisecond
		case movedMode, emptiedMode, keyRatedMode, buriedMode, scheduledMode:
			l.mode, l.every, l.producers, l.pullers = "unordered", 160*time.Millisecond, 2, 3
		}
		if mode == movedMode {
			l.pullers = 1
		}
		l.dial, l.wait, l.calm = cfg.Dial, cmp.Or(cfg.Wait, pullWait), cfg.Calm
		if cfg.Every > 0 {
			if l.every = cfg.Every; mode == "fifo" {
				l.every *= 2
			}
		}
		l.producers, l.pullers = cmp.Or(cfg.Producers, l.producers), cmp.Or(cfg.Pullers, l.pullers)
		if mode != "fifo" && mode != ratedMode {
			l.producers, l.pullers = l.producers*max(cfg.Busy, 1), l.pullers*max(cfg.Busy, 1)
		}
		w.loads = append(w.loads, l)
		if mode == buriedMode {
			w.loads = append(w.loads, &load{
				queue: l.deadLetterQueue(), kind: lettersMode, mode: "unordered", addrs: l.addrs, rec: l.rec, seed: rng.Uint64(), ids: map[string]bool{},
				people: l.people, gate: l.gate, dial: l.dial, wait: l.wait, calm: l.calm, every: l.every, pullers: 2,
			})
		}
	}
	return w, nil
}

// Begin makes the queues and lets the clients loose. Where ctx ends before they are stopped, they end.
func (w *Workload) Begin(ctx context.Context, cl *client.Client) error {
	for _, l := range w.loads {
		if l.kind == onceMode {
			w.cfg.Rec.Add(history.Event{Kind: history.Mark, Note: history.AtMostOnce, Queue: l.queue})
		}
		if l.kind == emptiedMode || l.kind == buriedMode || l.kind == lettersMode {
			w.cfg.Rec.Add(history.Event{Kind: history.Mark, Note: history.LogAlone, Queue: l.queue})
		}
		if err := cl.CreateQueue(ctx, l.queue, l.options()); err != nil {
			return fmt.Errorf("make queue %s: %w", l.queue, err)
		}
	}
	var sdks []*client.Client
	for range w.loads {
		sdk, err := client.Open(ctx, client.Options{
			Addrs: w.cfg.Addrs, Name: "chaos", Worker: "chaos", Timeout: time.Minute, Seed: w.cfg.Seed | 1, Dial: w.cfg.Dial,
		})
		if err != nil {
			for _, s := range sdks {
				shut(s)
			}
			return fmt.Errorf("open a client: %w", err)
		}
		sdks = append(sdks, sdk)
	}
	pctx, stopProducers := context.WithCancel(ctx)
	wctx, stopWorkers := context.WithCancel(ctx)
	w.stopProducers, w.stopWorkers = stopProducers, stopWorkers
	for i, l := range w.loads {
		for range l.producers {
			w.producers.Go(func() { l.produce(pctx) })
		}
		w.producers.Go(func() { l.meddle(pctx, 2*l.every) })
		switch l.kind {
		case redrivenMode, lettersMode:
			w.producers.Go(func() { l.bury(pctx, l.every) })
		case movedMode:
			w.producers.Go(func() { l.move(pctx, l.every) })
		case emptiedMode:
			w.producers.Go(func() { l.empty(pctx, 4*l.every) })
		case scheduledMode:
			w.producers.Go(func() { l.plan(pctx, 12*l.every) })
		case batchedMode:
			w.producers.Go(func() { l.gather(pctx, l.every) })
		}
		for range l.pullers {
			w.workers.Go(func() { l.pull(wctx) })
		}
		work := l.subscribed
		switch l.kind {
		case onceMode: // there is no lease for it to end
			work = l.consumed
		case emptiedMode, movedMode: // a subscription ends with its queue; what waits is to wait a little
			work = func(context.Context, *client.Client) error { return nil }
		}
		w.workers.Go(func() {
			defer shut(sdks[i])
			if err := work(wctx, sdks[i]); err != nil {
				w.failed(fmt.Errorf("queue %s: %w", l.queue, err))
			}
		})
	}
	return nil
}

// shutWithin bounds how long a client says good-bye.
const shutWithin = 5 * time.Second

func shut(cl *client.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), shutWithin)
	defer cancel()
	_ = cl.Close(ctx) // the nodes may be down
}

func (w *Workload) failed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
}

// Hold makes workers stand still with what they have, connections open, and go on after the time, or when ctx ends: a process that is
// stopped past its leases. Another Hold waits for the one before it.
func (w *Workload) Hold(ctx context.Context, d time.Duration) error {
	open, err := w.gate.shut(ctx)
	if err != nil {
		return err
	}
	defer open()
	return linger(ctx, d)
}

// StopProducing stops all that is not a worker, and returns when what is under way has come to its end.
func (w *Workload) StopProducing() {
	w.stopProducers()
	w.producers.Wait()
}

// Heal makes workers do no harm any more.
func (w *Workload) Heal() {
	for _, l := range w.loads {
		l.healthy.Store(true)
	}
}

// Drain ends what makes messages by itself, and waits until nothing is ready, out or waiting in any queue; its error says in which there is something when ctx ends.
func (w *Workload) Drain(ctx context.Context, cl *client.Client) error {
	for _, l := range w.loads {
		if l.kind == scheduledMode {
			l.unplan(ctx)
		}
	}
	for _, l := range w.loads {
		for {
			q, err := cl.Queue(ctx, l.queue)
			if err == nil && q.Pending+q.Processing+q.Scheduled+q.Retrying == 0 {
				break
			}
			if linger(ctx, 50*time.Millisecond) != nil {
				return errors.Join(fmt.Errorf("queue %s is not empty: %d ready, %d out, %d scheduled, %d waiting for a retry",
					l.queue, q.Pending, q.Processing, q.Scheduled, q.Retrying), err)
			}
		}
	}
	return nil
}

// StopWorking stops the workers and returns when they have ended. Its error is the first that a client of the SDK had to give up for.
func (w *Workload) StopWorking() error {
	w.stopWorkers()
	w.workers.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// ReadAll reads how every message that was met stands at the end.
func (w *Workload) ReadAll(ctx context.Context) {
	for _, l := range w.loads {
		l.readAll(ctx)
	}
}

// Required are the counters that the history of this workload must have moved, beside those that every one must.
func (w *Workload) Required() []string {
	var also []string
	for _, l := range w.loads {
		also = append(also, l.required()...)
	}
	return also
}

// readAll reads how every message stands at the end.
func (w *load) readAll(ctx context.Context) {
	ids := make(chan string)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			l := w.link()
			defer l.drop()
			for id := range ids {
				w.status(ctx, l, id, history.Final)
				w.result(ctx, l, id)
			}
		})
	}
	w.mu.Lock()
	row := w.row
	w.mu.Unlock()
	for _, id := range row {
		ids <- id
	}
	close(ids)
	wg.Wait()
	if w.kind == redrivenMode {
		l := w.link()
		defer l.drop()
		for n := range kvKeys {
			w.look(ctx, l, kvKey(n))
		}
	}
}

// gate is what workers stand still at. The zero value is open.
type gate struct {
	mu   sync.Mutex
	wait chan struct{} // guarded by mu: nil while the gate is open
}

// pass returns when the gate is open, or ctx ends.
func (g *gate) pass(ctx context.Context) {
	g.mu.Lock()
	wait := g.wait
	g.mu.Unlock()
	if wait == nil {
		return
	}
	select {
	case <-wait:
	case <-ctx.Done():
	}
}

// shut closes the gate, once it is open, until open is called.
func (g *gate) shut(ctx context.Context) (open func(), err error) {
	for {
		g.mu.Lock()
		before := g.wait
		if before == nil {
			mine := make(chan struct{})
			g.wait = mine
			g.mu.Unlock()
			return func() {
				g.mu.Lock()
				g.wait = nil
				g.mu.Unlock()
				close(mine)
			}, nil
		}
		g.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
