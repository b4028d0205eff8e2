package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/bench/load"
	"github.com/quorate/quorate/bench/proc"
)

// Where the Debian packages put things. The wrapper in /usr/sbin wants another user; these are the scripts themselves.
const (
	rabbitServer = "/usr/lib/rabbitmq/bin/rabbitmq-server"
	rabbitCtl    = "/usr/lib/rabbitmq/bin/rabbitmqctl"
)

var rabbitSystem = system{
	name: "rabbitmq", title: "RabbitMQ quorum", replicated: true, silentAcks: true,
	about: "3 nodes, durable quorum queue with 3 members, no plugins",
	find:  findRabbit,
	make:  func(_ *env, dir string) (target, error) { return newRabbit(dir) },
}

func findRabbit(*env) (string, error) {
	for _, f := range []string{rabbitServer, rabbitCtl} {
		if _, err := os.Stat(f); err != nil {
			return "", fmt.Errorf("rabbitmq-server is not installed (scripts/setup-peers): %w", err)
		}
	}
	target, err := filepath.EvalSymlinks(rabbitServer)
	if err != nil {
		return "", err
	}
	_, version, ok := strings.Cut(target, "rabbitmq_server-")
	if !ok {
		return "", fmt.Errorf("%s does not name its version", target)
	}
	version, _, _ = strings.Cut(version, "/")
	return version, nil
}

type rabbitCluster struct {
	epmd  *proc.Process // Erlang's own name server, on a port of ours
	named string        // its address
	ps    []*proc.Process
	names []string // of the Erlang nodes
	addrs []string
	env   []string // for its tools
}

func newRabbit(dir string) (*rabbitCluster, error) {
	const n = 3
	ports, err := proc.FreePorts(2*n + 1)
	if err != nil {
		return nil, err
	}
	port := func(addr string) string { _, p, _ := net.SplitHostPort(addr); return p }
	home := filepath.Join(dir, "home") // of the cookie by which nodes and tools know each other
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(home, ".erlang.cookie"), []byte("quoratebench"), 0o400); err != nil {
		return nil, err
	}
	c := &rabbitCluster{named: ports[2*n], env: []string{
		"HOME=" + home, "ERL_CRASH_DUMP=" + filepath.Join(dir, "crash"), "ERL_EPMD_PORT=" + port(ports[2*n]), "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_CONF_ENV_FILE=" + filepath.Join(dir, "none"), "RABBITMQ_CTL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
	}}
	c.epmd = &proc.Process{
		Name: "epmd", LogFile: filepath.Join(dir, "epmd.log"), Binary: "epmd", Args: []string{"-port", port(ports[2*n])}, Env: c.env,
	}
	plugins := filepath.Join(dir, "plugins")
	if err := os.WriteFile(plugins, []byte("[].\n"), 0o600); err != nil {
		return nil, err
	}
	for i := range n {
		short := fmt.Sprintf("r%d", i+1)
		c.names, c.addrs = append(c.names, short+"@localhost"), append(c.addrs, ports[i])
		// The first node makes the cluster; the others, started when it is up, find it by the first's name.
		conf := fmt.Sprintf("listeners.tcp.1 = %s\ncluster_formation.peer_discovery_backend = classic_config\n"+
			"cluster_formation.classic_config.nodes.1 = r1@localhost\n", ports[i])
		if err := os.WriteFile(filepath.Join(dir, short+".conf"), []byte(conf), 0o600); err != nil {
			return nil, err
		}
		c.ps = append(c.ps, &proc.Process{
			Name: "rabbitmq " + short, LogFile: filepath.Join(dir, short+".out"), Binary: rabbitServer, Children: true,
			Env: append([]string{
				"RABBITMQ_NODENAME=" + c.names[i], "RABBITMQ_DIST_PORT=" + port(ports[n+i]), "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
				"RABBITMQ_MNESIA_BASE=" + filepath.Join(dir, short), "RABBITMQ_LOGS=" + filepath.Join(dir, short+".log"),
				"RABBITMQ_CONFIG_FILE=" + filepath.Join(dir, short), "RABBITMQ_ENABLED_PLUGINS_FILE=" + plugins,
				"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
				// The script replaces itself by the server, so that the process is the server's, which reads no input.
				"RABBITMQ_ALLOW_INPUT=1", "RABBITMQ_SERVER_START_ARGS=-noinput",
			}, c.env...),
		})
	}
	return c, nil
}

func (c *rabbitCluster) nodes() []*proc.Process { return c.ps }
func (c *rabbitCluster) cpu() time.Duration     { return cpuOf(c.ps...) + c.epmd.CPU() }

// kill ends the name server last: a node that starts and finds none makes one of its own, which would stay.
func (c *rabbitCluster) kill() {
	killAll(c.ps...)
	// Is there one that was made so while the nodes were killed, it is on our port too.
	c.epmd.Kill()
	_ = exec.Command("epmd", append(slices.Clone(c.epmd.Args), "-kill")...).Run() // usually there is none
}

func (c *rabbitCluster) start(ctx context.Context) error {
	err := launch(ctx, []*proc.Process{c.epmd}, func(context.Context, int) error { return reachable(c.named) })
	if err != nil {
		return err
	}
	for i := range c.ps {
		err := launch(ctx, c.ps[i:i+1], func(context.Context, int) error {
			conn, err := c.dial(c.addrs[i])
			if err == nil {
				conn.Close()
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	out, err := c.ctl(ctx, "eval", "length(rabbit_mnesia:cluster_nodes(running)).")
	if err != nil {
		return err
	}
	if strings.TrimSpace(out) != "3" {
		return fmt.Errorf("the RabbitMQ nodes are not one cluster of 3: %s", out)
	}
	return nil
}

func (c *rabbitCluster) ctl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var node string
	for i, p := range c.ps {
		if p.Running() {
			node = c.names[i]
			break
		}
	}
	cmd := exec.CommandContext(ctx, rabbitCtl, append([]string{"-q", "-n", node}, args...)...)
	cmd.Env = append(os.Environ(), c.env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("rabbitmqctl %s: %w: %s", args[0], err, out)
	}
	return string(out), nil
}

func (c *rabbitCluster) dial(addr string) (*amqp.Connection, error) {
	return amqp.DialConfig("amqp://guest:guest@"+addr+"/", amqp.Config{Heartbeat: 10 * time.Second, Dial: amqp.DefaultDial(5 * time.Second)})
}

// dialAny connects to the first node that lets it.
func (c *rabbitCluster) dialAny() (conn *amqp.Connection, err error) {
	for _, a := range c.addrs {
		if conn, err = c.dial(a); err == nil {
			return conn, nil
		}
	}
	return nil, fmt.Errorf("connect to RabbitMQ: %w", err)
}

func declare(ch *amqp.Channel, queue string) error {
	_, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum", "x-quorum-initial-group-size": 3})
	return err
}

// depth counts ready messages: those out with consumers come back when their connections are closed.
func (c *rabbitCluster) depth(_ context.Context, queue string) (int64, error) {
	conn, err := c.dialAny()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return 0, err
	}
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	return int64(q.Messages), err
}

func (c *rabbitCluster) leader(ctx context.Context, queue string) (*proc.Process, error) {
	out, err := c.ctl(ctx, "list_queues", "name", "leader", "--no-table-headers")
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(out, "\n") {
		f := strings.Fields(line)
		if len(f) != 2 || f[0] != queue {
			continue
		}
		for i, name := range c.names {
			if f[1] == name {
				return c.ps[i], nil
			}
		}
	}
	return nil, fmt.Errorf("rabbitmqctl names no leader of queue %s: %s", queue, out)
}

// connect goes to the first node, where queues are declared and so have their leader: one hop less than by any other.
func (c *rabbitCluster) connect(context.Context, string) (load.Conn, error) { return c.open() }

func (c *rabbitCluster) publisher(_ context.Context, queue string) (publisher, error) {
	return &rabbitPublisher{c: c, queue: queue}, nil
}

// rabbitPublisher connects again, to any node, when its channel is gone: the library does not. It gives a channel up itself
// when the broker refuses or does not answer on it, at most once an attempt's time: a channel that is opened between the
// death of a leader and the election of the next was seen to refuse every message for ever.
type rabbitPublisher struct {
	c     *rabbitCluster
	queue string

	mu     sync.Mutex
	conn   *amqp.Connection // guarded by mu
	ch     *amqp.Channel    // guarded by mu; nil: to be opened
	since  time.Time        // guarded by mu; when it was opened
	closed bool             // guarded by mu
}

func (p *rabbitPublisher) channel() (*amqp.Channel, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, amqp.ErrClosed
	}
	if p.ch != nil && !p.ch.IsClosed() {
		return p.ch, nil
	}
	if p.conn != nil {
		p.conn.Close()
		p.conn, p.ch = nil, nil
	}
	conn, err := p.c.dialAny()
	if err != nil {
		return nil, err
	}
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	p.conn, p.ch, p.since = conn, ch, time.Now()
	return ch, nil
}

// giveUp closes a channel that does not work, unless another has taken its place or it is young.
func (p *rabbitPublisher) giveUp(ch *amqp.Channel) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ch == ch && time.Since(p.since) >= attempt {
		p.conn.Close()
		p.conn, p.ch = nil, nil
	}
}

func (p *rabbitPublisher) publish(ctx context.Context, id string, body []byte) error {
	ch, err := p.channel()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	conf, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", p.queue, false, false, amqp.Publishing{
		DeliveryMode: amqp.Persistent, MessageId: id, Body: body,
	})
	if err != nil {
		return err
	}
	ok, err := conf.WaitContext(ctx)
	if err == nil && !ok {
		err = errNacked
	}
	if err != nil {
		p.giveUp(ch)
	}
	return err
}

func (p *rabbitPublisher) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.conn != nil {
		p.conn.Close()
	}
}
