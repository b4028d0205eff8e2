// Package clustertest runs whole clusters in a test's process: real nodes on loopback ports with real stores in the test's
// temporary directory.
//
//	c := clustertest.Start(t, 3, clustertest.Options{})
//	leader := c.Leader()
//	c.Kill(0); c.Restart(0)
//
// Nodes are stopped when the test ends. Kill is as hard as it gets from within: connections and gossip end without a word
// and the stores are closed as they are; what a killed process would have left in memory is lost, and its file locks
// are free. What the operating system would lose in a power cut is not.
package clustertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/group"
	"github.com/quorate/quorate/cluster/store"
)

// Patience is how long anything here waits for what it wants to see before it fails the test.
const Patience = 30 * time.Second

const election = 500 * time.Millisecond

// Options of a cluster.
type Options struct {
	// Config changes the configuration of node i before each of its starts.
	Config func(i int, c *cluster.Config)
	// Logger of all nodes; nil: silent, or standard error where QUORATE_TEST_LOG is set.
	Logger *slog.Logger
	// Loose does not wait for the cluster to be ready.
	Loose bool
}

// Cluster is a running cluster. Its methods fail the test when they do not succeed; they are for the test's goroutine.
type Cluster struct {
	t      testing.TB
	o      Options
	dir    string
	expect int

	mu    sync.Mutex
	slots []*slot
}

type slot struct {
	node         *cluster.Node // nil: down
	dir          string
	raft, gossip string // last known
	moves        bool   // it starts on new ports the next time
	fatal        chan error
}

// Start starts n nodes, which make a cluster together, and waits until all are ready.
func Start(t testing.TB, n int, o Options) *Cluster {
	t.Helper()
	if o.Logger == nil && os.Getenv("QUORATE_TEST_LOG") != "" {
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	c := &Cluster{t: t, o: o, dir: t.TempDir(), expect: n}
	t.Cleanup(c.stopAll)
	for range n {
		c.add(n)
	}
	if !o.Loose {
		c.WaitReady()
	}
	return c
}

// Add starts one more node, which joins, and returns its number. It does not wait.
func (c *Cluster) Add() int { return c.add(0) }

func (c *Cluster) add(expect int) int {
	c.t.Helper()
	c.mu.Lock()
	i := len(c.slots)
	c.slots = append(c.slots, &slot{dir: filepath.Join(c.dir, label(i)), fatal: make(chan error, 16)})
	c.mu.Unlock()
	if err := c.TryStart(i, expect); err != nil {
		c.t.Fatalf("start node %d: %v", i, err)
	}
	return i
}

func label(i int) string { return fmt.Sprintf("n%d", i+1) }

// TryStart starts node i, which is down, with the given bootstrap_expect, at the addresses that it had if they are still
// free. A node that moves has raft take over a new address, and raft v1.8.0 has a data race there (updateLastAppended reads
// the peer without its lock), which the race detector would find now and then in any test that restarts nodes under load.
func (c *Cluster) TryStart(i, expect int) error {
	c.mu.Lock()
	s := c.slots[i]
	cfg := cluster.Config{
		NodeID: label(i), DataDir: s.dir, RaftAddr: fresh, GossipAddr: fresh,
		BootstrapExpect: expect, ClientAddr: fmt.Sprintf("127.0.0.1:%d", 20001+i), Version: "test", Logger: c.o.Logger,
		Fatal: func(err error) { s.fatal <- err },
		// Crowded machines, and the race detector, starve whole processes for longer than the product's 250 ms.
		Raft: func(r *raft.Config) {
			r.HeartbeatTimeout, r.ElectionTimeout, r.LeaderLeaseTimeout = election, election, election/2
		},
	}
	// Every other node has the other log store: clusters are mixed, as while one is converted.
	cfg.LogStore = string(store.Kinds[i%len(store.Kinds)])
	if !s.moves {
		cfg.RaftAddr, cfg.GossipAddr = again(s.raft), again(s.gossip)
	}
	raftAddr, gossipAddr := cfg.RaftAddr, cfg.GossipAddr
	s.moves = false
	for j, o := range c.slots {
		if j != i && o.gossip != "" {
			cfg.Join = append(cfg.Join, o.gossip)
		}
	}
	c.mu.Unlock()
	if c.o.Config != nil {
		c.o.Config(i, &cfg)
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	n, err := cluster.Start(ctx, cfg)
	if err != nil && strings.Contains(err.Error(), "address already in use") && cfg.RaftAddr == raftAddr && cfg.GossipAddr == gossipAddr { // since it was looked at
		cfg.RaftAddr, cfg.GossipAddr = fresh, fresh
		n, err = cluster.Start(ctx, cfg)
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	s.node, s.raft, s.gossip = n, n.RaftAddr(), n.GossipAddr()
	c.mu.Unlock()
	return nil
}

// Size is how many nodes there are, running or not.
func (c *Cluster) Size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.slots)
}

// Node returns node i, nil while it is down.
func (c *Cluster) Node(i int) *cluster.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slots[i].node
}

// Index is the number of a node.
func (c *Cluster) Index(n *cluster.Node) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.IndexFunc(c.slots, func(s *slot) bool { return s.node == n })
}

// Dir is node i's data directory.
func (c *Cluster) Dir(i int) string { return c.slots[i].dir }

// Fatal hears what node i would have ended its process for.
func (c *Cluster) Fatal(i int) <-chan error { return c.slots[i].fatal }

func (c *Cluster) take(i int) *cluster.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.slots[i].node
	c.slots[i].node = nil
	return n
}

// Kill ends node i without a word to anybody.
func (c *Cluster) Kill(i int) {
	c.t.Helper()
	if n := c.take(i); n != nil {
		if err := n.Abort(); err != nil {
			c.t.Errorf("kill node %d: %v", i, err)
		}
	}
}

// Stop ends node i in order.
func (c *Cluster) Stop(i int) {
	c.t.Helper()
	if n := c.take(i); n != nil {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := n.Stop(ctx); err != nil {
			c.t.Errorf("stop node %d: %v", i, err)
		}
	}
}

const fresh = "127.0.0.1:0"

// again is an address that a node had, or a new one where that was none or is taken. New ones are none of the ports that systems give to
// outgoing connections and to whoever asks for any, so that a node that is down still finds its own free.
func again(addr string) string {
	for range 100 {
		if addr != "" && vacant(addr) {
			return addr
		}
		addr = fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(22_000))
	}
	return fresh
}

// vacant says whether nobody has a port, of TCP or UDP.
func vacant(addr string) bool {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	defer l.Close()
	p, err := net.ListenPacket("udp", addr)
	return err == nil && p.Close() == nil
}

// Move has node i, which is down, start on new ports the next time.
func (c *Cluster) Move(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slots[i].moves = true
}

// Restart starts node i again, where it was; it kills it first if it runs.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	c.Kill(i)
	if err := c.TryStart(i, c.expect); err != nil {
		c.t.Fatalf("restart node %d: %v", i, err)
	}
}

// Wipe empties the data directory of node i, which is down.
func (c *Cluster) Wipe(i int) {
	c.t.Helper()
	if err := os.RemoveAll(c.Dir(i)); err != nil {
		c.t.Fatal(err)
	}
}

// Until waits for a condition, for at most Patience.
func (c *Cluster) Until(what string, ok func() bool) {
	c.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(Patience)
	defer late.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late.C:
			for i, n := range c.running() {
				ready, why := n.Ready()
				c.t.Logf("node %d: %s ready %v (%s), %+v", i, n.Label(), ready, why, n.Group(0).Status())
			}
			c.t.Fatalf("waited %v for %s", Patience, what)
		}
	}
}

func (c *Cluster) running() []*cluster.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*cluster.Node
	for _, s := range c.slots {
		if s.node != nil {
			out = append(out, s.node)
		}
	}
	return out
}

// Leader waits for the node that leads and serves.
func (c *Cluster) Leader() *cluster.Node {
	c.t.Helper()
	var leader *cluster.Node
	c.Until("a leader", func() bool {
		for _, n := range c.running() {
			if n.Group(0).Status().Leader {
				leader = n
			}
		}
		return leader != nil
	})
	return leader
}

// AsLeader has the leader do something, again with the next one when it was none any more.
func (c *Cluster) AsLeader(f func(n *cluster.Node) error) error {
	c.t.Helper()
	var err error
	c.Until("a leader that lasts", func() bool {
		err = f(c.Leader())
		var e *group.Error
		return !errors.As(err, &e) || e.Code != group.CodeNotLeader && e.Code != group.CodeNoLeader
	})
	return err
}

// WaitReady waits until all running nodes are ready.
func (c *Cluster) WaitReady() {
	c.t.Helper()
	c.Until("all nodes to be ready", func() bool {
		for _, n := range c.running() {
			if ok, _ := n.Ready(); !ok {
				return false
			}
		}
		return true
	})
}

// WaitVoters waits until the leader counts so many voters, all of them alive.
func (c *Cluster) WaitVoters(voters int) cluster.Members {
	c.t.Helper()
	var m cluster.Members
	c.Until(fmt.Sprintf("%d live voters", voters), func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		var err error
		if m, err = c.Leader().Members(ctx); err != nil {
			return false
		}
		n := 0
		for _, k := range m.Nodes {
			if k.Voter && k.Alive {
				n++
			}
		}
		return n == voters && n == len(m.Nodes)
	})
	return m
}

func (c *Cluster) stopAll() {
	var wg sync.WaitGroup
	for i := range c.slots {
		wg.Go(func() {
			if n := c.take(i); n != nil {
				ctx, cancel := context.WithTimeout(context.Background(), Patience)
				defer cancel()
				if err := n.Stop(ctx); err != nil {
					c.t.Errorf("stop node %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
}

// Label is node i's label.
func (c *Cluster) Label(i int) string { return label(i) }

// AwayFrom has another node lead than node i.
func (c *Cluster) AwayFrom(i int) {
	c.t.Helper()
	c.Until(fmt.Sprintf("another leader than node %d", i), func() bool {
		n := c.Leader()
		if c.Index(n) != i {
			return true
		}
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		return n.Transfer(ctx, "") == nil && c.Index(c.Leader()) != i
	})
}
