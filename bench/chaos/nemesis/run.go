package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/quorate/quorate/bench/chaos/history"
	"github.com/quorate/quorate/bench/chaos/workload"
	"github.com/quorate/quorate/client"
)

// Config is what a run is made with.
type Config struct {
	Schedule *Schedule
	Binary   string // of the chaos build (Build)
	// Dir is a folder of the run's own, made where it is not there. The schedule, the history, the taps, the nodes' logs and data
	// stay in it; who made it removes it.
	Dir  string
	Busy int // workload.Config.Busy
	Log  func(format string, args ...any)
}

// Bounds of what waits for nodes.
const (
	startWithin = time.Minute      // all nodes of a new cluster are ready
	readyWithin = 45 * time.Second // a node that was started again is ready
	wholeWithin = time.Minute      // after the last fault every node is an alive voter
	drainWithin = 2 * time.Minute
	sumWithin   = time.Minute // every node has told its digest
	readWithin  = 3 * time.Minute
)

// snapshotBytes is how much log lies between two snapshots, half of it left behind one: less than a second's worth, so that whoever was
// away for longer is sent a snapshot.
const snapshotBytes = 8 << 10

// engine is a run that goes on.
type engine struct {
	cfg   Config
	sched *Schedule
	nodes []*member
	rec   *history.Recorder
	work  *workload.Workload
	admin *client.Client // asks for changes of the membership

	network Network       // nil: loopback, where no fault of the schedule needs another
	net     chan struct{} // holds one token: one fault in the network at a time
	members chan struct{} // holds one token: one node out of the cluster at a time

	began, ended time.Duration // between them clients worked and faults struck, by the recorder's clock

	mu       sync.Mutex
	problems []string  // guarded by mu: what no fault explains
	done     []*Strike // guarded by mu: faults that were carried out, or could not be
}

// Run carries a schedule out and has the run judged. An error says that there was no run to judge: what a run has shown to be wrong is in the
// Result (Result.Err).
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if err := cfg.Schedule.Validate(); err != nil {
		return nil, fmt.Errorf("schedule: %w", err)
	}
	if err := cfg.Schedule.Possible(MeansHere()); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = func(string, ...any) {}
	}
	began := time.Now()
	s := cfg.Schedule
	ctx, cancel := context.WithTimeout(ctx, s.most())
	defer cancel()
	if err := os.MkdirAll(filepath.Join(cfg.Dir, history.TapsDir), 0o700); err != nil {
		return nil, err
	}
	if err := s.Write(filepath.Join(cfg.Dir, ScheduleFile)); err != nil {
		return nil, err
	}
	e := &engine{cfg: cfg, sched: s, net: make(chan struct{}, 1), members: make(chan struct{}, 1)}
	e.net <- struct{}{}
	e.members <- struct{}{}
	if err := e.startCluster(ctx); err != nil {
		return nil, errors.Join(err, e.stopCluster())
	}
	last, err := e.carryOut(ctx)
	if err != nil {
		return nil, errors.Join(err, e.stopCluster())
	}
	if err := e.stopCluster(); err != nil {
		e.problem("stop: %v", err)
	}
	if err := e.rec.Close(); err != nil {
		return nil, err
	}
	return e.result(ctx, last, began)
}

// most is how long a run may take, but for its judgement.
func (s *Schedule) most() time.Duration {
	return time.Duration(s.For) + startWithin + wholeWithin + drainWithin + 2*sumWithin + readWithin + 2*readyWithin
}

// carryOut lets clients work while faults strike, and sees everything to its end.
func (e *engine) carryOut(ctx context.Context) (last history.States, err error) {
	if e.rec, err = history.Record(filepath.Join(e.cfg.Dir, history.EventsFile), 0); err != nil {
		return last, err
	}
	defer func() {
		if err != nil {
			_ = e.rec.Close() // there is no run
		}
	}()
	addrs := make([]string, 0, len(e.nodes))
	for _, m := range e.nodes {
		addrs = append(addrs, m.ClientAddr)
	}
	if e.admin, err = client.Open(ctx, client.Options{Addrs: addrs, Name: "nemesis", Timeout: readyWithin}); err != nil {
		return last, fmt.Errorf("open a client: %w", err)
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = e.admin.Close(bye) // the nodes may be stopped
	}()
	rng := rand.New(rand.NewPCG(e.sched.Seed, 4))
	if e.work, err = workload.New(workload.Config{Addrs: addrs, Rec: e.rec, Seed: rng.Uint64(), Busy: e.cfg.Busy}); err != nil {
		return last, err
	}
	wctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := e.work.Begin(wctx, e.admin); err != nil {
		return last, err
	}
	e.strike(ctx)
	e.work.StopProducing()
	return e.settle(ctx), ctx.Err()
}

// strike carries out every fault when it is due, and returns when all are healed and the quiet is over.
func (e *engine) strike(ctx context.Context) {
	began := time.Now()
	e.began = e.rec.Elapsed()
	var faults sync.WaitGroup
	for i := range e.sched.Faults {
		f := &e.sched.Faults[i]
		if pause(ctx, time.Duration(f.At)-time.Since(began)) != nil {
			break
		}
		s := &Strike{
			Fault: *f, Number: i, engine: e, ctx: ctx, rng: rand.New(rand.NewPCG(e.sched.Seed, 100+uint64(i))),
		}
		faults.Go(func() { s.carryOut() })
	}
	faults.Wait()
	quiet := time.Duration(e.sched.For) - time.Since(began)
	if len(e.sched.Faults) > 0 {
		quiet = max(quiet, time.Duration(e.sched.Quiet)) // what could not be healed in time does not shorten it
	}
	_ = pause(ctx, quiet) // whoever waits for what follows hears of the end of ctx too
	e.ended = e.rec.Elapsed()
}

// settle waits until the cluster is whole and the queues are empty, reads how all stands, and returns the nodes' digests. What does not
// come to be is a problem of the run.
func (e *engine) settle(ctx context.Context) (last history.States) {
	if err := e.whole(ctx); err != nil {
		e.problem("G7: %v", err)
	}
	e.work.Heal()
	first, err := e.states(ctx)
	if err != nil {
		e.problem("%v", err)
	}
	e.rec.Add(history.Event{Kind: history.Mark, Note: history.Heal, Index: first.Index})
	dctx, cancel := context.WithTimeout(ctx, drainWithin)
	defer cancel()
	if err := e.work.Drain(dctx, e.admin); err != nil {
		e.rec.Add(history.Event{Kind: history.Mark, Note: history.Undrained, Code: err.Error()})
	}
	if last, err = e.states(ctx); err != nil {
		e.problem("%v", err)
	}
	e.rec.Add(history.Event{Kind: history.Mark, Note: history.Drained, Index: last.Index})
	if err := e.work.StopWorking(); err != nil {
		e.problem("a client gave up: %v", err)
	}
	rctx, cancelRead := context.WithTimeout(ctx, readWithin)
	defer cancelRead()
	e.work.ReadAll(rctx)
	return last
}

// whole waits until every node is an alive voter.
func (e *engine) whole(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, wholeWithin)
	defer cancel()
	var last client.ClusterStatus
	for {
		s, err := e.admin.ClusterStatus(ctx)
		if err == nil {
			last = s
			ok := len(s.Nodes) == len(e.nodes) && s.Leader != ""
			for _, n := range s.Nodes {
				ok = ok && n.Voter && n.Alive && n.Role != ""
			}
			if ok {
				return nil
			}
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("%s after the last fault not every node is an alive voter: %+v", wholeWithin, last)
		}
	}
}

// states has every node hash its state at one index.
func (e *engine) states(ctx context.Context) (s history.States, err error) {
	ctx, cancel := context.WithTimeout(ctx, sumWithin)
	defer cancel()
	for {
		v, err := e.admin.Verify(ctx)
		if err == nil {
			s = history.States{Index: v.Index}
			ok := len(v.Nodes) == len(e.nodes)
			for _, n := range v.Nodes {
				s.Nodes = append(s.Nodes, history.NodeState{Node: n.ID, Digest: n.Digest, Error: n.Error})
				ok = ok && n.Error == ""
			}
			if ok {
				return s, nil
			}
		}
		if pause(ctx, 50*time.Millisecond) != nil {
			return s, fmt.Errorf("not every node told its state's digest within %s: %+v (%w)", sumWithin, s, errors.Join(err, ctx.Err()))
		}
	}
}

// problem notes what no fault explains.
func (e *engine) problem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	e.cfg.Log("PROBLEM: %s", text)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.problems = append(e.problems, text)
}

// pause lets time pass; it is how long faults last and polls wait.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
