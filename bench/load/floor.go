package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// Floor is the workload of a raft group without a broker: entries of one message each, so many at a time or at a given pace.
const Floor = "floor"

// FloorConfig says what to put on such a group. Zero values mean the default in every field that names one.
type FloorConfig struct {
	Nodes  int           // of the group, for the report
	Size   int           // of a message's body, bytes, 32 and more; default 256
	For    time.Duration // measured time; default 10 s
	WarmUp time.Duration // before it; default 2 s; negative: none
	Rate   float64       // entries a second; 0: as fast as Outstanding lets

	Outstanding int // entries without an outcome, 1 to 64; default 1. Not with a Rate, which waits for none

	// ServerCPU adds up the CPU time of all processes of the group so far; nil: not reported. See CPUOf.
	ServerCPU func() time.Duration
}

// Validate says what of c is out of range.
func (c FloorConfig) Validate() error {
	_, err := c.withDefaults()
	return err
}

func (c FloorConfig) withDefaults() (FloorConfig, error) {
	c.Size = cmp.Or(c.Size, DefaultSize)
	c.For = cmp.Or(c.For, DefaultFor)
	c.WarmUp = max(cmp.Or(c.WarmUp, DefaultWarmUp), 0)
	if c.Rate > 0 && c.Outstanding > 0 {
		return c, errors.New("outstanding and rate are both given; at a rate, entries go when they are due, however many are out")
	}
	c.Outstanding = cmp.Or(c.Outstanding, 1)
	for _, r := range []struct {
		name      string
		v         float64
		low, high float64
	}{
		{"size", float64(c.Size), MinSize, 1 << 20},
		{"for (seconds)", c.For.Seconds(), 0.01, maxFor.Seconds()},
		{"warm-up (seconds)", c.WarmUp.Seconds(), 0, maxFor.Seconds()},
		{"rate", c.Rate, 0, maxRate},
		{"outstanding", float64(c.Outstanding), 1, maxFloorOutstanding},
	} {
		if !(r.v >= r.low && r.v <= r.high) { // NaN is out too
			return c, fmt.Errorf("%s is %g; %g to %g are allowed", r.name, r.v, r.low, r.high)
		}
	}
	return c, nil
}

// maxFloorWaiting is how many entries of a paced run may be without an outcome; one that is due then waits, and is late for it.
const maxFloorWaiting = 4096

// maxFloorOutstanding is more than a group of the product ever has in flight.
const maxFloorOutstanding = 64

// RunFloor proposes through apply, which hands one entry over and returns what waits for its end. It is for the process that
// leads the group. The result's confirmations are from handing over (with a rate: from when an entry was due) to its end.
func RunFloor(ctx context.Context, cfg FloorConfig, apply func(body []byte) (wait func() error)) (*Result, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	f := &floorRun{cfg: cfg, body: NewBody(1, 1, cfg.Size), apply: apply, origin: time.Now(), confirm: newLatencies(), late: newLatencies()}
	drive := f.keepOut
	if cfg.Rate > 0 {
		drive = f.pace
	}
	if err := drive(ctx, cfg.WarmUp); err != nil {
		return nil, err
	}
	f.measuring = true
	var cpu time.Duration
	if cfg.ServerCPU != nil {
		cpu = cfg.ServerCPU()
	}
	began := f.now()
	if err := drive(ctx, cfg.For); err != nil {
		return nil, err
	}
	took := f.now() - began
	res := &Result{
		Workload: Floor, Size: cfg.Size, Nodes: cfg.Nodes, Messages: f.count, Seconds: took.Seconds(),
		Rate: float64(f.count) / took.Seconds(), Confirm: quantiles([]*latencies{f.confirm}), Confirmed: f.count,
	}
	if cfg.Rate > 0 {
		res.Late = quantiles([]*latencies{f.late})
	}
	if cfg.ServerCPU != nil && f.count > 0 {
		us := float64((cfg.ServerCPU() - cpu).Microseconds()) / float64(f.count)
		res.ServerCPU = &us
	}
	if f.count == 0 {
		return nil, errors.New("no entry was confirmed in the measured time: measure longer")
	}
	return res, nil
}

// floorRun is one run. measuring and count belong to the goroutine that waits for outcomes, between two drives.
type floorRun struct {
	cfg       FloorConfig
	body      []byte
	apply     func([]byte) func() error
	origin    time.Time
	measuring bool
	count     int64
	confirm   *latencies
	late      *latencies
}

func (f *floorRun) now() time.Duration { return time.Since(f.origin) }

// ended takes the outcome of an entry.
func (f *floorRun) ended(from time.Duration, err error) error {
	if err != nil {
		return fmt.Errorf("an entry was not confirmed (has the leader changed?): %w", err)
	}
	if f.measuring {
		f.count++
		f.confirm.record(f.now() - from)
	}
	return nil
}

// keepOut proposes an entry whenever fewer than the given number are out, for the given time, and waits for all of them.
// Outcomes come in the order of the log, so the oldest is the one to wait for.
func (f *floorRun) keepOut(ctx context.Context, d time.Duration) error {
	type proposed struct {
		from time.Duration
		wait func() error
	}
	out := make([]proposed, 0, f.cfg.Outstanding)
	oldest := func() error {
		p := out[0]
		out = append(out[:0], out[1:]...)
		return f.ended(p.from, p.wait())
	}
	var first error
	for end := f.now() + d; first == nil && f.now() < end; {
		if first = ctx.Err(); first != nil {
			break
		}
		out = append(out, proposed{f.now(), f.apply(f.body)})
		if len(out) == f.cfg.Outstanding {
			first = oldest()
		}
	}
	for len(out) > 0 {
		if err := oldest(); first == nil {
			first = err
		}
	}
	return first
}

// pace proposes entries when they are due, whatever became of those before, for the given time, and waits for all of them.
func (f *floorRun) pace(ctx context.Context, d time.Duration) error {
	type proposed struct {
		due  time.Duration
		wait func() error
	}
	waiting := make(chan proposed, maxFloorWaiting)
	failed := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		var first error
		for p := range waiting {
			if err := f.ended(p.due, p.wait()); first == nil && err != nil {
				first = err
				cancel()
			}
		}
		failed <- first
	}()
	stopped := paceTo(ctx, f.now, f.cfg.Rate, d, func(due time.Duration) {
		if f.measuring {
			f.late.record(f.now() - due)
		}
		waiting <- proposed{due, f.apply(f.body)}
	})
	close(waiting)
	if err := <-failed; err != nil {
		return err
	}
	return stopped
}

// paceTo calls f at times that are due, rate a second, until d is over. The error is ctx's.
func paceTo(ctx context.Context, now func() time.Duration, rate float64, d time.Duration, f func(due time.Duration)) error {
	start := now()
	interval := float64(time.Second) / rate
	t := time.NewTimer(0)
	defer t.Stop()
	for i := 0; ; {
		due := start + time.Duration(float64(i)*interval)
		if due >= start+d {
			return nil
		}
		if wait := due - now(); wait > 0 {
			t.Reset(wait)
			select {
			case <-t.C:
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		f(due)
		i++
	}
}
