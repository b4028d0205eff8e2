package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/quorate/quorate/bench/load"
	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

const sigkill = syscall.SIGKILL

var quorateSystem = system{
	name: "quorate", title: "Quorate", replicated: true,
	about: "built from this tree, 3 nodes, every setting at its default, GOMAXPROCS=1 as `quorate bench --self` sets it",
	find:  buildQuorate,
	make: func(e *env, dir string) (target, error) {
		c, err := proc.New(proc.Config{Binary: e.quorate, Nodes: 3, Dir: dir, Env: []string{"GOMAXPROCS=1"}})
		return &quorate{cluster: c}, err
	},
	floor: quorateFloor,
}

// quorateFloor runs `quorate bench floor`, whose nodes die with it.
func quorateFloor(ctx context.Context, e *env, o *options, rate float64) (*load.Result, error) {
	args := []string{
		"bench", "floor", "--self", "3", "--size", strconv.Itoa(o.size), "--for", o.duration.String(), "--warm-up", o.warmUp.String(),
		"--data", e.data, "--output", "json",
	}
	if rate > 0 {
		args = append(args, "--rate", strconv.FormatFloat(rate, 'g', -1, 64))
	}
	cmd := exec.CommandContext(ctx, e.quorate, args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("quorate bench floor: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	res := &load.Result{}
	if err := json.Unmarshal(out, res); err != nil {
		return nil, fmt.Errorf("read what quorate bench floor says: %w", err)
	}
	if res.Workload != load.Floor || res.Confirm == nil {
		return nil, fmt.Errorf("quorate bench floor says nothing of latencies: %s", out)
	}
	return res, nil
}

// buildQuorate builds the binary from the tree, as `make build` does.
func buildQuorate(e *env) (string, error) {
	e.quorate = filepath.Join(e.data, "quorate")
	out, err := exec.Command("git", "-C", e.root, "describe", "--tags", "--always", "--dirty").Output()
	version := strings.TrimSpace(string(out))
	if err != nil {
		version = "dev" // not a git checkout
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version="+version, "-o", e.quorate, "./cmd/quorate")
	cmd.Dir = e.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build quorate: %w: %s", err, out)
	}
	return version, nil
}

type quorate struct{ cluster *proc.Cluster }

func (q *quorate) start(ctx context.Context) error {
	if err := q.cluster.Start(ctx); err != nil {
		return err
	}
	_, err := q.cluster.Leader(ctx)
	return err
}

func (q *quorate) nodes() (ps []*proc.Process) {
	for _, n := range q.cluster.Nodes {
		ps = append(ps, &n.Process)
	}
	return ps
}

func (q *quorate) cpu() time.Duration { return q.cluster.CPU() }
func (q *quorate) kill()              { killAll(q.nodes()...) }

func (q *quorate) options(name string) client.Options {
	return client.Options{Addrs: q.cluster.Addrs(), Name: name, Timeout: callTimeout, MaxPending: load.DefaultOutstanding}
}

func (q *quorate) connect(ctx context.Context, name string) (load.Conn, error) {
	return load.Connect(ctx, q.options(name))
}

func (q *quorate) depth(ctx context.Context, queue string) (int64, error) {
	cl, err := client.Open(ctx, q.options("depth"))
	if err != nil {
		return 0, err
	}
	defer shut(cl)
	info, err := cl.Queue(ctx, queue)
	return info.Pending + info.Processing + info.Scheduled + info.Retrying, err
}

func (q *quorate) leader(ctx context.Context, _ string) (*proc.Process, error) {
	n, err := q.cluster.Leader(ctx)
	if err != nil {
		return nil, err
	}
	return &n.Process, nil
}

func (q *quorate) publisher(ctx context.Context, queue string) (publisher, error) {
	cl, err := client.Open(ctx, q.options("publisher"))
	return quoratePublisher{cl, queue}, err
}

// quoratePublisher leaves repeating to the client, which does so under the same request number.
type quoratePublisher struct {
	cl    *client.Client
	queue string
}

func (p quoratePublisher) publish(ctx context.Context, _ string, body []byte) error {
	_, err := p.cl.Enqueue(ctx, p.queue, client.Message{Body: body})
	return err
}

func (p quoratePublisher) close() { shut(p.cl) }

func shut(cl *client.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = cl.Close(ctx) // nothing is under way that matters
}
