package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/quorate/quorate/bench/load"
	"github.com/quorate/quorate/bench/proc"
)

var redisSystem = system{
	name: "redis", title: "Redis Streams, 1 node",
	about: "appendonly yes, appendfsync always, no snapshots; a stream with one consumer group, XACK and XDEL for each message",
	find:  findRedis,
	make:  func(_ *env, dir string) (target, error) { return newRedis(dir) },
}

func findRedis(*env) (string, error) {
	out, err := exec.Command("redis-server", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("redis-server is not installed (scripts/setup-peers): %w", err)
	}
	_, v, _ := strings.Cut(string(out), "v=")
	v, _, ok := strings.Cut(v, " ")
	if !ok {
		return "", fmt.Errorf("redis-server --version says %q", out)
	}
	return v, nil
}

type redisServer struct {
	p    *proc.Process
	addr string
}

func newRedis(dir string) (*redisServer, error) {
	ports, err := proc.FreePorts(1)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(ports[0])
	if err != nil {
		return nil, err
	}
	return &redisServer{addr: ports[0], p: &proc.Process{
		// A rewrite of its file is a child's work.
		Name: "redis-server", LogFile: filepath.Join(dir, "redis.log"), Binary: "redis-server", Children: true, Dir: dir,
		Args: []string{"--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always"},
	}}, nil
}

func (r *redisServer) nodes() []*proc.Process { return []*proc.Process{r.p} }
func (r *redisServer) cpu() time.Duration     { return r.p.CPU() }
func (r *redisServer) kill()                  { killAll(r.p) }

func (r *redisServer) start(ctx context.Context) error {
	return launch(ctx, r.nodes(), func(ctx context.Context, _ int) error {
		c, err := r.dial()
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Do(ctx, c.B().Ping().Build()).Error()
	})
}

func (r *redisServer) dial() (rueidis.Client, error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{r.addr}, DisableCache: true, AlwaysPipelining: true, ConnWriteTimeout: callTimeout,
		PipelineMultiplex: -1, // one connection a client for what does not block, as with the others
	})
	if err != nil {
		return nil, fmt.Errorf("connect to Redis: %w", err)
	}
	return c, nil
}

func (r *redisServer) depth(ctx context.Context, queue string) (int64, error) {
	c, err := r.dial()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return c.Do(ctx, c.B().Xlen().Key(queue).Build()).AsInt64()
}

func (r *redisServer) leader(context.Context, string) (*proc.Process, error) { return r.p, nil }

func (r *redisServer) connect(_ context.Context, name string) (load.Conn, error) { return r.open(name) }

func (r *redisServer) publisher(context.Context, string) (publisher, error) {
	return nil, errors.New("one Redis node has no fail-over")
}
