package proc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Config says what to run.
type Config struct {
	Binary string   // path of the quorate binary
	Nodes  int      // 1–9
	Dir    string   // data directories and logs go below it; kept
	Args   []string // more flags for every `serve`
	Env    []string // more environment for every node, "K=V"
	Base   int      // first of the fixed ports (client, raft, gossip, ten apart a node); 0: free ports are picked
	Hosts  []string // where each node is, an address without a port, with the fixed ports from Base (0: 7340) on; nil: loopback
}

// Cluster is a set of node processes.
type Cluster struct {
	Nodes []*Node
}

// New prepares a cluster: folders and ports, nothing started.
func New(cfg Config) (*Cluster, error) {
	if cfg.Nodes < 1 || cfg.Nodes > 9 {
		return nil, fmt.Errorf("nodes is %d, want 1 to 9", cfg.Nodes)
	}
	if _, err := os.Stat(cfg.Binary); err != nil {
		return nil, fmt.Errorf("quorate binary: %w (build it with `make build`)", err)
	}
	ports, err := pickPorts(cfg)
	if err != nil {
		return nil, err
	}
	c := &Cluster{}
	var gossip []string
	for i := range cfg.Nodes {
		gossip = append(gossip, ports[3*i+2])
	}
	for i := range cfg.Nodes {
		name := fmt.Sprintf("n%d", i+1)
		var join []string
		for j, a := range gossip {
			if j != i {
				join = append(join, a)
			}
		}
		n := &Node{
			Process:    Process{Name: name, LogFile: filepath.Join(cfg.Dir, name+".log"), Binary: cfg.Binary, Env: cfg.Env},
			ClientAddr: ports[3*i], RaftAddr: ports[3*i+1], GossipAddr: gossip[i],
			DataDir: filepath.Join(cfg.Dir, name),
		}
		n.Args = []string{"serve", "--node-id", name, "--data-dir", n.DataDir, "--client-addr", n.ClientAddr,
			"--raft-addr", n.RaftAddr, "--gossip-addr", n.GossipAddr, "--gossip-bootstrap-expect", fmt.Sprint(cfg.Nodes)}
		if len(join) > 0 {
			n.Args = append(n.Args, "--gossip-join", strings.Join(join, ","))
		}
		n.Args = append(n.Args, cfg.Args...)
		c.Nodes = append(c.Nodes, n)
	}
	return c, os.MkdirAll(cfg.Dir, 0o700)
}

// firstPort is the client port of the first node where each has a host of its own.
const firstPort = 7340

// pickPorts finds three addresses a node: client, raft, gossip.
func pickPorts(cfg Config) ([]string, error) {
	if len(cfg.Hosts) > 0 && len(cfg.Hosts) != cfg.Nodes {
		return nil, fmt.Errorf("there are %d hosts for %d nodes", len(cfg.Hosts), cfg.Nodes)
	}
	if cfg.Base > 0 || len(cfg.Hosts) > 0 {
		var out []string
		for i := range cfg.Nodes {
			host := "127.0.0.1"
			if len(cfg.Hosts) > 0 {
				host = cfg.Hosts[i]
			}
			for k := range 3 {
				out = append(out, net.JoinHostPort(host, fmt.Sprint(cmp.Or(cfg.Base, firstPort)+10*i+k)))
			}
		}
		return out, nil
	}
	return FreePorts(3 * cfg.Nodes)
}

// Ports that FreePorts picks from: below those that systems give to outgoing connections (Linux: from 32768), one of which may have a
// node's port just when the node is started again.
const lowestPort, manyPorts = 10000, 22000

// FreePorts finds n loopback addresses that nobody listens on, by chance. They are held open together while picking, so that none
// is picked twice; another process could still take one before it is used, which whoever uses it then says.
func FreePorts(n int) ([]string, error) {
	var out []string
	var held []net.Listener
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	var last error
	for range 100 + 10*n {
		if len(out) == n {
			return out, nil
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(lowestPort+rand.IntN(manyPorts))))
		if err != nil {
			last = err
			continue
		}
		held = append(held, l)
		out = append(out, l.Addr().String())
	}
	return nil, fmt.Errorf("find %d free ports from %d to %d: %w", n, lowestPort, lowestPort+manyPorts-1, last)
}

// Start starts every node and waits until all are ready.
func (c *Cluster) Start(ctx context.Context) error {
	for _, n := range c.Nodes {
		if err := n.Start(); err != nil {
			return err
		}
	}
	// A node whose port is taken ends, and whoever has the port may answer in its place: watch the processes as well.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, n := range c.Nodes {
		go func() {
			if _, err := n.Exited(ctx); err == nil {
				cancel(fmt.Errorf("node %s ended before all were ready: %s", n.Name, n.LastLog()))
			}
		}()
	}
	for _, n := range c.Nodes {
		if err := n.WaitReady(ctx); err != nil {
			if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, ctx.Err()) {
				return cause
			}
			return err
		}
	}
	for _, n := range c.Nodes {
		if !n.Running() {
			return fmt.Errorf("node %s ended before all were ready: %s", n.Name, n.LastLog())
		}
	}
	return nil
}

// Addrs lists the client addresses.
func (c *Cluster) Addrs() []string {
	var a []string
	for _, n := range c.Nodes {
		a = append(a, n.ClientAddr)
	}
	return a
}

// Leader returns the node that says it leads, waiting for one until ctx ends.
func (c *Cluster) Leader(ctx context.Context) (*Node, error) {
	for {
		for _, n := range c.Nodes {
			if n.Running() && n.Leads(ctx) {
				return n, nil
			}
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return nil, fmt.Errorf("no node leads: %w", err)
		}
	}
}

// Stop stops every running node in order and waits; those that do not end within ten seconds are killed.
func (c *Cluster) Stop() error {
	var errs []error
	for _, n := range c.Nodes {
		errs = append(errs, n.Stop())
	}
	return errors.Join(errs...)
}

// Kill kills every running node and waits.
func (c *Cluster) Kill() {
	for _, n := range c.Nodes {
		n.Kill()
	}
}

// CPU is the user and system time of all processes so far.
func (c *Cluster) CPU() time.Duration {
	var d time.Duration
	for _, n := range c.Nodes {
		d += n.CPU()
	}
	return d
}

// pause waits for d or the end of ctx. It paces polling of other processes, which have no signal to wait for.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
