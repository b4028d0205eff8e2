package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/quorate/quorate/bench/load"
	"github.com/quorate/quorate/bench/proc"
)

var jetstreamSystem = system{
	name: "jetstream", title: "JetStream, sync always", replicated: true,
	about: "3 nodes, sync_interval always; work-queue stream, file storage, 3 replicas",
	find:  findNATS,
	make:  func(e *env, dir string) (target, error) { return newJetstream(e, dir, true) },
}

var jetstreamLazySystem = system{
	name: "jetstream-lazy", title: "JetStream, default sync", replicated: true,
	about: "the same with the default sync_interval of two minutes: a confirmed message may be in the page cache alone",
	find:  findNATS,
	make:  func(e *env, dir string) (target, error) { return newJetstream(e, dir, false) },
}

// natsBinary is the one that scripts/setup-peers builds.
func natsBinary(e *env) string { return filepath.Join(e.root, ".tools", "bin", "nats-server") }

func findNATS(e *env) (string, error) {
	out, err := exec.Command(natsBinary(e), "--version").Output()
	if err != nil {
		return "", fmt.Errorf("nats-server is not installed (scripts/setup-peers): %w", err)
	}
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "nats-server: "), nil
}

// jetstreamAckPending is the most messages that may be out with all consumers of a queue: 8 clients with a window of 256.
const jetstreamAckPending = 8 * load.DefaultWindow

type jetstreamCluster struct {
	ps   []*proc.Process
	urls []string
	near atomic.Pointer[string] // URL of the node that leads the newest stream: the client's first choice
}

func newJetstream(e *env, dir string, sync bool) (*jetstreamCluster, error) {
	const n = 3
	ports, err := proc.FreePorts(2 * n)
	if err != nil {
		return nil, err
	}
	var routes []string
	for _, p := range ports[n:] {
		routes = append(routes, "nats://"+p)
	}
	c := new(jetstreamCluster)
	for i := range n {
		name := fmt.Sprintf("n%d", i+1)
		var conf bytes.Buffer
		fmt.Fprintf(&conf, "server_name: %s\nlisten: %q\n", name, ports[i])
		fmt.Fprintf(&conf, "jetstream {\n  store_dir: %q\n", filepath.Join(dir, name))
		if sync {
			fmt.Fprintf(&conf, "  sync_interval: always\n")
		}
		fmt.Fprintf(&conf, "}\ncluster {\n  name: bench\n  listen: %q\n  routes: [%s]\n}\n", ports[n+i], strings.Join(routes, ", "))
		file := filepath.Join(dir, name+".conf")
		if err := os.WriteFile(file, conf.Bytes(), 0o600); err != nil {
			return nil, err
		}
		c.ps = append(c.ps, &proc.Process{
			Name: "nats-server " + name, LogFile: filepath.Join(dir, name+".log"), Binary: natsBinary(e), Args: []string{"--config", file},
		})
		c.urls = append(c.urls, "nats://"+ports[i])
	}
	return c, nil
}

func (c *jetstreamCluster) nodes() []*proc.Process { return c.ps }
func (c *jetstreamCluster) cpu() time.Duration     { return cpuOf(c.ps...) }
func (c *jetstreamCluster) kill()                  { killAll(c.ps...) }

func (c *jetstreamCluster) start(ctx context.Context) error {
	err := launch(ctx, c.ps, func(_ context.Context, i int) error {
		return reachable(strings.TrimPrefix(c.urls[i], "nats://"))
	})
	if err != nil {
		return err
	}
	// The cluster is ready when it can place a stream on three nodes.
	nc, js, err := c.dial()
	if err != nil {
		return err
	}
	defer nc.Close()
	return poll(ctx, 50*time.Millisecond, "place a stream", func() error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if err := createStream(ctx, js, "ready"); err != nil {
			return err
		}
		return js.DeleteStream(ctx, "ready")
	})
}

func (c *jetstreamCluster) dial(o ...jetstream.JetStreamOpt) (*nats.Conn, jetstream.JetStream, error) {
	urls := strings.Join(c.urls, ",")
	options := []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond), nats.Timeout(2 * time.Second), quiet}
	if near := c.near.Load(); near != nil {
		// One hop less than by a server chosen at random.
		urls = *near + "," + urls
		options = append(options, nats.DontRandomize())
	}
	nc, err := nats.Connect(urls, options...)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to NATS: %w", err)
	}
	js, err := jetstream.New(nc, o...)
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return nc, js, nil
}

// quiet keeps the library from printing what it reconnects after: calls that it breaks end with errors of their own.
var quiet = nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})

// streamOf is the name of a queue's stream: dots are not allowed in one.
func streamOf(queue string) string { return strings.ReplaceAll(queue, ".", "_") }

// workers is the name of the consumer, or consumer group, that all clients of a queue share.
const workers = "workers"

func createStream(ctx context.Context, js jetstream.JetStream, queue string) error {
	s, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: streamOf(queue), Subjects: []string{queue}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage, Replicas: 3,
	})
	if err != nil {
		return err
	}
	_, err = s.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: workers, AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute, MaxAckPending: jetstreamAckPending,
	})
	return err
}

func (c *jetstreamCluster) depth(ctx context.Context, queue string) (int64, error) {
	nc, js, err := c.dial()
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	s, err := js.Stream(ctx, streamOf(queue))
	if err != nil {
		return 0, err
	}
	return int64(s.CachedInfo().State.Msgs), nil
}

func (c *jetstreamCluster) leader(ctx context.Context, queue string) (*proc.Process, error) {
	i, err := c.leaderIndex(ctx, queue)
	if err != nil {
		return nil, err
	}
	return c.ps[i], nil
}

func (c *jetstreamCluster) leaderIndex(ctx context.Context, queue string) (int, error) {
	nc, js, err := c.dial()
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	s, err := js.Stream(ctx, streamOf(queue))
	if err != nil {
		return 0, err
	}
	info := s.CachedInfo()
	if info.Cluster != nil {
		for i := range c.ps {
			if info.Cluster.Leader == fmt.Sprintf("n%d", i+1) {
				return i, nil
			}
		}
	}
	return 0, fmt.Errorf("stream %s names no leader", streamOf(queue))
}

func (c *jetstreamCluster) connect(_ context.Context, _ string) (load.Conn, error) { return c.open() }

func (c *jetstreamCluster) publisher(_ context.Context, queue string) (publisher, error) {
	nc, js, err := c.dial()
	if err != nil {
		return nil, err
	}
	return &jetstreamPublisher{nc: nc, js: js, queue: queue}, nil
}

// jetstreamPublisher names messages so that the server tells a repeated one. The client library reconnects by itself.
type jetstreamPublisher struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	queue string
}

func (p *jetstreamPublisher) publish(ctx context.Context, id string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	_, err := p.js.Publish(ctx, p.queue, body, jetstream.WithMsgID(id), jetstream.WithRetryAttempts(0))
	return err
}

func (p *jetstreamPublisher) close() { p.nc.Close() }
