package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/quorate/quorate/bench/load"
)

// bounds are of what a system may take beside the measured time. One that takes longer has a fault and is gone on without.
type bounds struct {
	start    time.Duration
	workload time.Duration
	queued   time.Duration // W7
	settle   time.Duration // until a system's own count is right
	readBack time.Duration // of messages, for a look at them
	before   time.Duration // of W6, the leader alive
	after    int64         // of W6: confirmations after the kill that end it, five seconds of service
	back     time.Duration // of W6, from the kill until then; of W7, from the start until a message came through, ten times
}

var usualBounds = bounds{
	start: 2 * time.Minute, workload: 5 * time.Minute, queued: 30 * time.Minute, settle: 20 * time.Second, readBack: time.Minute,
	before: 2 * time.Second, after: 5 * failoverRate, back: time.Minute,
}

const sampled = 1000 // messages of W1 and W5 that are read back

// bench measures.
type bench struct {
	o      *options
	e      *env
	within bounds
	report *report
	log    io.Writer
	runs   int
	round  time.Duration // the longest repeat, W7 aside
	long   time.Duration // of W7 in this repeat
}

// all measures every system, again and again: each repeat starts with another one, so that what drifts on the machine
// does not always meet the same. A run that is interrupted, or that would take longer than it may, ends with the repeats
// that are whole, if there are any: then the report says so, and cut why.
func (b *bench) all(ctx context.Context, systems []system) (cut, err error) {
	begun := time.Now()
	for repeat := range b.o.repeat {
		from := time.Now()
		if b.o.within > 0 && repeat > 0 && from.Sub(begun)+b.round > b.o.within {
			return b.cut(repeat, fmt.Errorf("another repeat takes %s and would exceed --within %s", b.round.Round(time.Second), b.o.within)), nil
		}
		whole := len(b.report.Measurements)
		b.long = 0
		for i := range systems {
			s := systems[(repeat+i)%len(systems)]
			if err := b.system(ctx, s, repeat); err != nil {
				if ctx.Err() == nil || repeat == 0 {
					return nil, err
				}
				b.report.Measurements = b.report.Measurements[:whole]
				return b.cut(repeat, err), nil
			}
		}
		b.round = max(b.round, time.Since(from)-b.long)
	}
	return nil, nil
}

// cut notes that a run ended after fewer repeats than it was to have.
func (b *bench) cut(repeats int, why error) error {
	err := fmt.Errorf("cut short after %d of %d repeats: %w", repeats, b.o.repeat, why)
	b.report.Repeat, b.report.CutShort = repeats, err.Error()
	return err
}

// system measures one system once, W1 to W6 with one set of servers and W7 with another. An error means that the run is
// over; what goes wrong with the system is in its measurements.
func (b *bench) system(ctx context.Context, s system, repeat int) error {
	var short []string
	for _, w := range b.o.workloads {
		switch {
		case w == w4Floor || w == w5Floor:
			if s.floor != nil {
				b.floor(ctx, s, &measurement{System: s.name, Workload: w, Repeat: repeat + 1})
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		case w != w7 && (w != w6 || s.replicated):
			short = append(short, w)
		}
	}
	if len(short) > 0 {
		err := b.with(ctx, s, func(t target) error {
			for _, w := range short {
				m := &measurement{System: s.name, Workload: w, Repeat: repeat + 1}
				b.measure(ctx, b.within.workload+b.o.duration+b.o.warmUp, t.kill, m, func(ctx context.Context) error {
					if w == w6 {
						return b.failover(ctx, t, m)
					}
					return b.load(ctx, s, t, m)
				})
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
			}
			return nil
		})
		if err := b.given(ctx, err, &measurement{System: s.name, Workload: short[0], Repeat: repeat + 1}); err != nil {
			return err
		}
	}
	if slices.Contains(b.o.workloads, w7) && repeat < b.o.queuedFor {
		m := &measurement{System: s.name, Workload: w7, Repeat: repeat + 1}
		from := time.Now()
		err := b.with(ctx, s, func(t target) error {
			b.measure(ctx, b.within.queued, t.kill, m, func(ctx context.Context) error { return b.queued(ctx, t, m) })
			return context.Cause(ctx)
		})
		if repeat+1 >= b.o.queuedFor {
			b.long += time.Since(from) // it is not measured in the next repeat
		}
		if err := b.given(ctx, err, m); err != nil {
			return err
		}
	}
	return nil
}

// given records that a system's servers could not be had as a fault of m. Only the end of the run is an error.
func (b *bench) given(ctx context.Context, err error, m *measurement) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		b.add(m, err)
	}
	return nil
}

// with starts a system, and ends it and removes what it wrote whatever becomes of f.
func (b *bench) with(ctx context.Context, s system, f func(t target) error) (err error) {
	b.runs++
	dir := filepath.Join(b.e.data, fmt.Sprintf("%d-%s", b.runs, s.name))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t, err := s.make(b.e, dir)
	if err != nil {
		return err
	}
	defer t.kill()
	starting, cancel := context.WithTimeoutCause(ctx, b.within.start, fmt.Errorf("%s did not start within %s", s.title, b.within.start))
	defer cancel()
	if err := t.start(starting); err != nil {
		return fmt.Errorf("start %s: %w", s.title, err)
	}
	return f(t)
}

// measure runs one workload within a time. When that is over, or the run is, the servers are killed: a call that a client
// library does not end by itself ends then.
func (b *bench) measure(ctx context.Context, within time.Duration, kill func(), m *measurement, f func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("not done within %s", within))
	defer cancel()
	release := context.AfterFunc(ctx, kill)
	m.StartedAt = time.Now().UTC()
	err := f(ctx)
	if release(); ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
		err = errors.Join(context.Cause(ctx), err)
	}
	m.Took = time.Since(m.StartedAt).Seconds()
	b.add(m, err)
}

func (b *bench) add(m *measurement, err error) {
	if err != nil {
		m.Faults = append(m.Faults, err.Error())
	}
	b.report.Measurements = append(b.report.Measurements, m)
	fmt.Fprintf(b.log, "%d/%d %-14s %s\n", m.Repeat, b.o.repeat, m.System, m)
}

// floor measures what is under a system, which has processes of its own for that and none running.
func (b *bench) floor(ctx context.Context, s system, m *measurement) {
	rate := 0.0
	if m.Workload == w4Floor {
		rate = b.o.rate
	}
	b.measure(ctx, b.within.workload+b.o.duration+b.o.warmUp, func() {}, m, func(ctx context.Context) (err error) {
		m.Load, err = s.floor(ctx, b.e, b.o, rate)
		return err
	})
}

// load runs a workload of bench/load, and compares what it says with what the system says.
func (b *bench) load(ctx context.Context, s system, t target, m *measurement) (err error) {
	queue := fmt.Sprintf("bench.%s.%d", m.Workload, m.Repeat)
	cfg := load.Config{
		Workload: m.Workload, Nodes: len(t.nodes()), Queue: queue, Size: b.o.size, For: b.o.duration, WarmUp: b.o.warmUp,
		Rate: b.o.rate, Preload: b.o.preload, CallTimeout: callTimeout, KeepQueue: true, ServerCPU: t.cpu, Open: t.connect,
	}
	if cfg.WarmUp == 0 {
		cfg.WarmUp = -1 // none
	}
	if m.Workload == load.W2 {
		cfg.WarmUp = min(cfg.WarmUp, time.Second) // of a queue that is drained in seconds
	}
	defer func() {
		if ctx.Err() == nil { // else there are no servers any more
			err = errors.Join(err, drop(ctx, t, queue))
		}
	}()
	if m.Load, err = load.Run(ctx, cfg); err != nil {
		return err
	}
	m.judge()
	if s.silentAcks {
		m.withoutAcks()
	}
	want := int64(0)
	if m.Workload == load.W1 || m.Workload == load.W5 {
		want = m.Load.Confirmed
	}
	if err := b.expect(ctx, t, queue, want); err != nil {
		return err
	}
	return b.sample(ctx, t, queue, min(want, sampled))
}

// drop deletes a queue.
func drop(ctx context.Context, t target, queue string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	conn, err := t.connect(ctx, "bench-drop")
	if err != nil {
		return fmt.Errorf("delete queue %s: %w", queue, err)
	}
	defer closeConn(conn)
	if err := conn.DeleteQueue(ctx, queue); err != nil {
		return fmt.Errorf("delete queue %s: %w", queue, err)
	}
	return nil
}

func closeConn(c load.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = c.Close(ctx) // nothing is under way that matters
}
