package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/bench/load"
	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

// system is one of those that are measured.
type system struct {
	name  string // on the command line and in results.json
	title string // in tables
	about string // how it is set up
	// find looks for what the system needs and says its version. The error says what is missing and how to get it.
	find func(e *env) (version string, err error)
	// make prepares its servers, with all they write below dir; nothing is started.
	make func(e *env, dir string) (target, error)
	// replicated: three nodes, of which one may be lost. W6 is for those.
	replicated bool
	// floor measures what lies under the system, without it: one entry at a time, or rate a second. Null for peers.
	floor func(ctx context.Context, e *env, o *options, rate float64) (*load.Result, error)
	// silentAcks: the protocol has no answer to an ack, so there is no time until it.
	silentAcks bool
}

// systems are all of them, in the order of tables. The first is the one that the others are compared with.
var systems = []system{quorateSystem, jetstreamSystem, jetstreamLazySystem, rabbitSystem, redisSystem}

// pick finds systems by their names, separated by commas; "all" is all. They come in their own order.
func pick(names string) (picked []system, err error) {
	if names == "all" {
		return systems, nil
	}
	wanted := strings.Split(names, ",")
	var known []string
	for _, s := range systems {
		known = append(known, s.name)
		if slices.Contains(wanted, s.name) {
			picked = append(picked, s)
		}
	}
	for _, name := range wanted {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no system %q: all, or some of %s expected", name, strings.Join(known, ","))
		}
	}
	return picked, nil
}

// env is where things are.
type env struct {
	root    string // of the repository
	quorate string // the binary that was built from it
	data    string // where folders for servers go, on a disk
}

// target is a system whose servers are there to be measured.
type target interface {
	// start starts all servers and waits until they can take a queue.
	start(ctx context.Context) error
	// nodes are the servers that hold messages: those whose memory is measured and which are killed.
	nodes() []*proc.Process
	// cpu is the user and system time of all processes of the system so far.
	cpu() time.Duration
	// connect opens one client, as its users do who want speed.
	connect(ctx context.Context, name string) (load.Conn, error)
	// publisher opens one client for W6.
	publisher(ctx context.Context, queue string) (publisher, error)
	// depth is how many messages the system itself says that a queue holds.
	depth(ctx context.Context, queue string) (int64, error)
	// leader is the node whose loss hurts the queue most. Only for replicated systems.
	leader(ctx context.Context, queue string) (*proc.Process, error)
	// kill ends all processes.
	kill()
}

// publisher sends messages and waits for each to be confirmed. It may be used from many goroutines at once.
type publisher interface {
	// publish makes one attempt; after an error the caller tries again, with the same id. Systems that can tell a repeated
	// message by an id do.
	publish(ctx context.Context, id string, body []byte) error
	close()
}

// callTimeout bounds a client's call, reconnecting included where the client does that by itself.
const callTimeout = 30 * time.Second

// attempt bounds one attempt of W6: how long a client waits for a confirmation before it sends the message again.
const attempt = time.Second

// errUnused ends what no workload here asks of a peer.
var errUnused = errors.New("not asked of a peer")

// unused are the methods of load.Conn that the workloads of this benchmark do not call.
type unused struct{}

func (unused) Lease(context.Context, string, client.LeaseOptions) ([]*client.Delivery, error) {
	return nil, errUnused
}

// pause waits for d or the end of ctx. It paces the polling of other processes, which have no signal to wait for.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// poll calls f until it succeeds or ctx ends; then the last error of f is told.
func poll(ctx context.Context, every time.Duration, what string, f func() error) error {
	for {
		err := f()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || pause(ctx, every) != nil {
			return fmt.Errorf("%s: %w (last: %w)", what, context.Cause(ctx), err)
		}
	}
}

// launch starts processes and waits for each with ready, watching that none ends meanwhile.
func launch(ctx context.Context, ps []*proc.Process, ready func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, p := range ps {
		if err := p.Start(); err != nil {
			return err
		}
		go func() {
			if _, err := p.Exited(ctx); err == nil {
				cancel(fmt.Errorf("%s ended before it was ready: %s", p.Name, p.LastLog()))
			}
		}()
	}
	for i, p := range ps {
		if err := poll(ctx, 20*time.Millisecond, p.Name+" is not ready", func() error { return ready(ctx, i) }); err != nil {
			return fmt.Errorf("%w; last log: %s", err, p.LastLog())
		}
	}
	return nil
}

// reachable says whether somebody listens at an address.
func reachable(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err == nil {
		conn.Close()
	}
	return err
}

// killAll ends processes, all at once before waiting for any.
func killAll(ps ...*proc.Process) {
	for _, p := range ps {
		p.Signal(sigkill)
	}
	for _, p := range ps {
		p.Kill()
	}
}

func cpuOf(ps ...*proc.Process) (d time.Duration) {
	for _, p := range ps {
		d += p.CPU()
	}
	return d
}
