package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/client"
)

// Phases of a run. What is confirmed while measuring is what counts.
const (
	phaseWarm int32 = iota
	phaseMeasure
	phaseDrain
)

// run is one run of one workload.
type run struct {
	cfg    Config
	id     uint64 // tells this run's messages from any other's
	origin time.Time
	ledger ledger
	phase  atomic.Int32

	completed atomic.Int64 // what Result.Messages counts, of all phases
	acks      atomic.Int64 // under way
	errors    atomic.Int64
	confirm   []*latencies // one a client, so that they do not wait for each other
	endToEnd  []*latencies
	late      *latencies

	// What a workload does with each message, all optional. due says when it is due, where that is not when it is sent; dress
	// sets more of it than its body before it is sent; judge sees each first delivery and settling each ack before it is
	// sent, both on the consumer's goroutines.
	due      func(seq uint64) time.Duration
	dress    func(s *slot, m *client.Message)
	judge    func(c *consumer, seq uint64, due time.Duration, d *client.Delivery, now time.Time)
	settling func(seq uint64)
	parked   func() int64 // sent messages that nobody is to receive yet: no part of the backlog
	work     atomic.Int64 // ns that a consumer takes for a message
	queues   []string     // which messages go to by turns; default: the run's

	poke    chan struct{} // one token: something happened that somebody may wait for
	room    chan struct{} // one token: the backlog has become shorter
	fatal   context.CancelCauseFunc
	mu      sync.Mutex
	samples []string // guarded by mu
}

// Run runs one workload and reports. An error means that there is no result: the cluster could not be reached, ctx
// ended, or too much failed. What went wrong in single operations is in the result. Everything that Run starts has ended
// when it returns.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	res, err := newRun(cfg, cancel).run(ctx)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("bench %s: %w", cfg.Workload, err)
	}
	return res, nil
}

func newRun(cfg Config, fatal context.CancelCauseFunc) *run {
	return &run{
		queues: []string{cfg.Queue}, cfg: cfg, id: rand.New(rand.NewPCG(cfg.Seed, uint64(time.Now().UnixNano()))).Uint64(), origin: time.Now(),
		late: newLatencies(), poke: make(chan struct{}, 1), room: make(chan struct{}, 1), fatal: fatal,
	}
}

func (r *run) now() time.Duration { return time.Since(r.origin) }

func (r *run) run(ctx context.Context) (*Result, error) {
	first, err := r.cfg.Open(ctx, "bench-admin")
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer closeConn(first)
	switch r.cfg.Workload { // those with queues of their own
	case Keys:
		return r.keys(ctx, first)
	case Flat:
		return r.flat(ctx, first)
	}
	var o client.QueueOptions
	if r.cfg.Workload == Fair {
		o.FairBy = "key"
	}
	if err := first.CreateQueue(ctx, r.cfg.Queue, o); err != nil {
		return nil, fmt.Errorf("create queue %s: %w", r.cfg.Queue, err)
	}
	defer r.dropQueue(ctx, first)
	switch r.cfg.Workload {
	case Delayed:
		return r.delayed(ctx)
	case Queued:
		return r.queued(ctx, first)
	case Priorities:
		return r.priorities(ctx)
	case Fair:
		return r.fair(ctx)
	}
	if shapes[r.cfg.Workload].preload {
		if err := r.preload(ctx, r.cfg.Preload); err != nil {
			return nil, err
		}
	}
	return r.load(ctx)
}

// dropQueue deletes the run's queue, unless it is to stay. The run may have been cancelled; its queue goes all the same.
func (r *run) dropQueue(ctx context.Context, conn Conn) { r.dropQueues(ctx, conn, r.cfg.Queue) }

// dropTime is how much longer each queue makes the time that deleting all of them may take.
const dropTime = 10 * time.Millisecond

func (r *run) dropQueues(ctx context.Context, conn Conn, names ...string) {
	if r.cfg.KeepQueue {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout+time.Duration(len(names))*dropTime)
	defer cancel()
	if err := each(len(names), func(i int) error { return conn.DeleteQueue(ctx, names[i]) }); err != nil {
		r.cfg.Logger.Warn("queues of a benchmark could not be deleted", "queue", names[0], "count", len(names), "err", err)
	}
}

// preload fills the queue with n messages, all confirmed at the end.
func (r *run) preload(ctx context.Context, n int) error {
	ps, err := r.openProducers(ctx)
	if err != nil {
		return err
	}
	defer closeProducers(ps)
	share := new(atomic.Int64)
	share.Store(int64(n))
	stop := r.progress("preload")
	defer stop()
	var wg sync.WaitGroup
	for _, p := range ps {
		wg.Go(func() { p.send(ctx, share) })
	}
	wg.Wait()
	if err := r.await(ctx, func() bool { return r.ledger.settled.Load() == r.ledger.sent.Load() }, false); err != nil {
		return fmt.Errorf("preload: %w", err)
	}
	if n := r.errors.Load(); n > 0 && !r.cfg.FaultRun {
		return fmt.Errorf("preload: %d of %d enqueues failed, first: %s", n, r.ledger.sent.Load(), r.sample())
	}
	return nil
}

// load runs the producers and consumers of the workload through warm-up, measuring and draining.
func (r *run) load(ctx context.Context) (*Result, error) {
	r.completed.Store(0)
	r.confirm = nil
	var cs []*consumer
	var ps []*producer
	var err error
	if r.cfg.Workload != W2 {
		if ps, err = r.openProducers(ctx); err != nil {
			return nil, err
		}
		defer closeProducers(ps)
	}
	cs, err = r.openConsumers(ctx)
	if err != nil {
		return nil, err
	}
	defer closeConsumers(cs)
	sending, stopSending := context.WithCancel(ctx)
	defer stopSending()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stopSending()
	if err := startAll(ctx, cs); err != nil {
		return nil, err
	}
	switch r.cfg.Workload {
	case W4:
		wg.Go(func() { r.pace(sending, ps, r.cfg.Rate, nil) })
	case W5:
		wg.Go(func() { ps[0].oneByOne(sending) })
	default:
		for _, p := range ps {
			wg.Go(func() { p.send(sending, nil) })
		}
	}
	res, err := r.measure(ctx)
	if err != nil {
		return nil, err
	}
	stopSending()
	wg.Wait()
	stop := r.progress("drain")
	err = r.await(ctx, r.drained, true)
	stop()
	if err != nil {
		return nil, err
	}
	r.close(res)
	return res, nil
}

// measure waits out the warm-up and the measured time.
func (r *run) measure(ctx context.Context) (*Result, error) {
	cfg := &r.cfg
	defer r.progress("warm-up")()
	emptied := func() bool {
		return cfg.Workload == W2 && r.ledger.acked.Load() >= r.ledger.confirmed.Load()
	}
	if err := r.pause(ctx, cfg.WarmUp, emptied); err != nil {
		return nil, err
	}
	if emptied() {
		return nil, fmt.Errorf("%d messages were drained within the warm-up of %s: preload more", cfg.Preload, cfg.WarmUp)
	}
	sp := r.begin()
	if err := r.pause(ctx, cfg.For, emptied); err != nil {
		return nil, err
	}
	return r.end(sp), nil
}

// span is the measured time from its beginning.
type span struct {
	cpu  time.Duration
	gc   time.Duration
	gcOK bool
	n    int64
	sent int64 // confirmed enqueues
	from time.Time
}

// begin starts the measured time.
func (r *run) begin() (sp span) {
	if r.cfg.ServerCPU != nil {
		if r.cfg.ServerGC != nil {
			sp.gc, sp.gcOK = r.cfg.ServerGC()
		}
		sp.cpu = r.cfg.ServerCPU()
	}
	sp.n, sp.sent, sp.from = r.completed.Load(), r.ledger.confirmed.Load(), time.Now()
	r.cfg.Confirms.Begin(sp.from)
	r.phase.Store(phaseMeasure)
	return sp
}

// end ends the measured time: what comes later is draining.
func (r *run) end(sp span) *Result {
	cfg := &r.cfg
	n, t := r.completed.Load(), time.Now()
	r.phase.Store(phaseDrain)
	cfg.Confirms.End(t)
	res := &Result{Workload: cfg.Workload, Size: cfg.Size, Nodes: cfg.Nodes, Messages: n - sp.n, Seconds: t.Sub(sp.from).Seconds(), left: r.backlog()}
	res.Rate = float64(res.Messages) / res.Seconds
	res.sent = float64(r.ledger.confirmed.Load()-sp.sent) / res.Seconds
	if cfg.ServerCPU != nil && res.Messages > 0 {
		used := cfg.ServerCPU() - sp.cpu
		us := float64(used.Microseconds()) / float64(res.Messages)
		res.ServerCPU = &us
		if sp.gcOK && used > 0 {
			if gc, ok := cfg.ServerGC(); ok {
				share := float64(gc-sp.gc) / float64(used)
				res.ServerGC = &share
			}
		}
	}
	gap, after := cfg.Confirms.Longest()
	res.LongestGapMS = float64(gap.Microseconds()) / 1000
	res.GapAfterS = after.Seconds()
	return res
}

// drains says whether the workload fills first and drains then: what is confirmed while measuring is acks.
func (r *run) drains() bool { return shapes[r.cfg.Workload].preload }

// drained reports whether nothing more is to come: every enqueue has its outcome, every ack too, and consumers, if there
// are any, have received what was confirmed.
func (r *run) drained() bool {
	l := &r.ledger
	if l.settled.Load() < l.sent.Load() || r.acks.Load() > 0 {
		return false
	}
	return r.cfg.Consumers == 0 || l.arrived.Load() >= l.confirmed.Load()
}

// await waits until cond holds. With lenient it gives up without an error when nothing has moved for drainStall:
// what is then missing is counted.
func (r *run) await(ctx context.Context, cond func() bool, lenient bool) error {
	moved := func() int64 {
		return r.ledger.settled.Load() + r.ledger.delivered.Load() + r.ledger.acked.Load() + r.errors.Load()
	}
	stall := r.cfg.drainStall
	t := time.NewTimer(stall)
	defer t.Stop()
	last := moved()
	for !cond() {
		select {
		case <-r.poke:
			if n := moved(); n != last {
				last = n
				t.Reset(stall)
			}
		case <-t.C:
			if n := moved(); n != last { // measuring wakes nobody
				last = n
				t.Reset(stall)
				continue
			}
			if lenient {
				return nil
			}
			return fmt.Errorf("nothing has moved for %s", stall)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// pause waits for d, or until the early condition holds.
func (r *run) pause(ctx context.Context, d time.Duration, early func() bool) error {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.poke:
			if early != nil && early() {
				return nil
			}
		}
	}
}

// close fills in what became of the messages.
func (r *run) close(res *Result) {
	l := &r.ledger
	lost, unanswered, recovered := l.lost()
	if r.cfg.Consumers > 0 {
		res.Lost = lost
		res.Duplicates = l.duplicates.Load()
	}
	res.Lost += unanswered
	res.Confirmed, res.Unknown, res.Recovered = l.confirmed.Load(), l.unknown.Load(), recovered
	res.Unexpected = l.unexpectedSeen.Load() + l.answeredTwice.Load()
	res.Errors = r.errors.Load()
	res.Confirm = quantiles(r.confirm)
	if !r.drains() {
		res.EndToEnd = quantiles(r.endToEnd)
	}
	res.Late = quantiles([]*latencies{r.late})
	r.mu.Lock()
	res.Samples = r.samples
	r.mu.Unlock()
}

// wake tells whoever waits for a condition that something has happened. Cheap enough for every operation.
func (r *run) wake() {
	if len(r.poke) == 0 {
		select {
		case r.poke <- struct{}{}:
		default:
		}
	}
}

// failed counts a failed operation and keeps the first few texts.
func (r *run) failed(what string, err error) {
	n := r.errors.Add(1)
	r.mu.Lock()
	if len(r.samples) < maxSamples {
		r.samples = append(r.samples, what+": "+err.Error())
	}
	r.mu.Unlock()
	limit := int64(maxErrors)
	if r.cfg.FaultRun {
		limit *= faultErrors
	}
	if n >= limit {
		r.fatal(fmt.Errorf("%d operations failed, first: %s", n, r.sample()))
	}
	r.wake()
}

func (r *run) sample() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.samples) == 0 {
		return "(no text)"
	}
	return r.samples[0]
}

func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return outConfirmed
	case client.Unknown(err):
		return outUnknown
	}
	return outRefused
}

// progress reports once a second until stop is called.
func (r *run) progress(phase string) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(time.Second)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				name := phase
				switch r.phase.Load() {
				case phaseMeasure:
					name = "measure"
				case phaseDrain:
					name = "drain"
				}
				r.cfg.Progress(name, r.ledger.confirmed.Load()+r.ledger.acked.Load())
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

// closeConn closes a client, whatever became of the run's context.
func closeConn(c Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = c.Close(ctx) // what it had under way is judged by the ledger
}

// atOnce bounds the calls of each.
const atOnce = 64

// each calls f for 0 to n-1, several at once, and returns the first error that came; after one no more are called.
func each(n int, f func(i int) error) error {
	var next, failed atomic.Int64
	var once sync.Once
	var first error
	var wg sync.WaitGroup
	for range min(n, atOnce) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && failed.Load() == 0; i = next.Add(1) - 1 {
				if err := f(int(i)); err != nil {
					once.Do(func() { first = err })
					failed.Store(1)
				}
			}
		})
	}
	wg.Wait()
	return first
}

// closeAll closes clients; nil is none.
func closeAll(cs []Conn) {
	_ = each(len(cs), func(i int) error {
		if cs[i] != nil {
			closeConn(cs[i])
		}
		return nil
	})
}

// openAll opens n clients, many at once.
func (r *run) openAll(ctx context.Context, kind string, n int) ([]Conn, error) {
	cs := make([]Conn, n)
	err := each(n, func(i int) (err error) {
		cs[i], err = r.cfg.Open(ctx, fmt.Sprintf("bench-%s-%d", kind, i))
		return err
	})
	if err != nil {
		closeAll(cs)
		return nil, fmt.Errorf("connect a %s: %w", kind, err)
	}
	return cs, nil
}
