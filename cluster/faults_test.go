package cluster_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/clustertest"
	"github.com/quorate/quorate/cluster/store"
)

// TestSecondCopyOfANode: a copy of a running node's directory is started; the original is told and ends. (G19)
func TestSecondCopyOfANode(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 3, clustertest.Options{})
	c.WaitVoters(3)
	i := (c.Index(c.Leader()) + 1) % 3
	n := c.Node(i)
	c.Stop(i)
	twin := filepath.Join(t.TempDir(), "twin")
	if err := errors.Join(os.CopyFS(twin, os.DirFS(c.Dir(i))), os.Chmod(twin, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := c.TryStart(i, 3); err != nil {
		t.Fatal(err)
	}
	c.WaitVoters(3)
	fatal := make(chan error, 1)
	second, err := cluster.Start(bounded(t), cluster.Config{
		NodeID: n.Label(), DataDir: twin, RaftAddr: "127.0.0.1:0", GossipAddr: "127.0.0.1:0",
		Join: []string{c.Leader().GossipAddr()}, Fatal: func(err error) { fatal <- err },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Abort() }()
	// Both have the same start number; whoever comes second to a peer is refused by it.
	select {
	case err = <-fatal:
	case err = <-c.Fatal(i):
	case <-time.After(clustertest.Patience):
		t.Fatal("both copies go on")
	}
	if !strings.Contains(err.Error(), "identity is in use elsewhere") || !strings.Contains(err.Error(), "copies of one data directory") {
		t.Errorf("fatal %v", err)
	}
	c.Leader()
}

// TestDataOfAnotherCluster: a node that is told to join a cluster to which its data do not belong ends and says so.
func TestDataOfAnotherCluster(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 1, clustertest.Options{})
	other := clustertest.Start(t, 2, clustertest.Options{Config: func(_ int, k *cluster.Config) {
		k.Logger = nil
	}})
	other.WaitVoters(2)
	other.Stop(0)
	other.Stop(1)
	fatal := make(chan error, 1)
	n, err := cluster.Start(bounded(t), cluster.Config{
		NodeID: other.Label(0), DataDir: other.Dir(0), RaftAddr: "127.0.0.1:0", GossipAddr: "127.0.0.1:0",
		Join: []string{c.Node(0).GossipAddr()}, Fatal: func(err error) { fatal <- err },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Abort() }()
	select {
	case err := <-fatal:
		if !strings.Contains(err.Error(), "belongs to cluster "+n.Cluster()) || !strings.Contains(err.Error(), c.Node(0).Cluster()) {
			t.Errorf("fatal %v", err)
		}
	case <-time.After(clustertest.Patience):
		t.Fatal("it waits for ever")
	}
	if m := c.WaitVoters(1); len(m.Nodes) != 1 {
		t.Errorf("the cluster has changed: %+v", m)
	}
}

// TestSwappedAddresses: C13, two nodes come back at each other's address. Without the race detector, as TestAllComeBackOnNewPorts.
func TestSwappedAddresses(t *testing.T) {
	if racing {
		t.Skip("raft has a race of its own where an address changes: run without -race")
	}
	t.Parallel()
	var mu sync.Mutex
	addr := map[int]string{}
	c := clustertest.Start(t, 3, clustertest.Options{Config: func(i int, k *cluster.Config) {
		mu.Lock()
		defer mu.Unlock()
		if a := addr[i]; a != "" {
			k.RaftAddr = a
		}
	}})
	c.WaitVoters(3)
	a, b := c.Node(0).RaftAddr(), c.Node(1).RaftAddr()
	c.Kill(0)
	c.Kill(1)
	mu.Lock()
	addr[0], addr[1] = b, a
	mu.Unlock()
	for i := range 2 {
		if err := c.TryStart(i, 3); err != nil {
			t.Fatal(err)
		}
	}
	c.WaitReady()
	c.WaitVoters(3)
	c.Until("raft's configuration to have the swap", func() bool {
		f := c.Leader().Group(0).Raft().GetConfiguration()
		if f.Error() != nil {
			return false
		}
		got := map[string]bool{}
		for _, s := range f.Configuration().Servers {
			got[string(s.Address)] = true
		}
		return got["n1@"+b] && got["n2@"+a]
	})
}

// TestTwoJoinAtOnce: C12.
func TestTwoJoinAtOnce(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 1, clustertest.Options{})
	c.Add()
	c.Add()
	c.WaitVoters(3)
	c.Kill(c.Index(c.Leader()))
	c.Leader()
}

// TestFounderCrashes: a node that was making its cluster when it ended settles that at its next start.
func TestFounderCrashes(t *testing.T) {
	t.Parallel()
	t.Run("before the log was written", func(t *testing.T) {
		t.Parallel()
		c := clustertest.Start(t, 1, clustertest.Options{Loose: true, Config: func(_ int, k *cluster.Config) { k.BootstrapExpect = 0 }})
		c.Stop(0)
		d, err := store.OpenDir(c.Dir(0), "n1")
		if err != nil {
			t.Fatal(err)
		}
		id := d.Identity()
		id.Cluster, id.Founding = store.NewUUID(), true
		if err := errors.Join(d.Save(id), d.Close()); err != nil {
			t.Fatal(err)
		}
		if err := c.TryStart(0, 0); err != nil {
			t.Fatal(err)
		}
		if got := c.Node(0).Cluster(); got != "" {
			t.Errorf("it belongs to %s", got)
		}
	})
	t.Run("after raft's first term", func(t *testing.T) {
		t.Parallel()
		expect := 0
		c := clustertest.Start(t, 1, clustertest.Options{Loose: true, Config: func(_ int, k *cluster.Config) { k.BootstrapExpect = expect }})
		c.Stop(0)
		d, err := store.OpenDir(c.Dir(0), "n1")
		if err != nil {
			t.Fatal(err)
		}
		id := d.Identity()
		id.Cluster, id.Founding = store.NewUUID(), true
		if err := d.Save(id); err != nil {
			t.Fatal(err)
		}
		disk, err := store.OpenDisk(d, store.NewHalt(func(error) {}), store.LogOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(disk.Stable.SetUint64([]byte("CurrentTerm"), 1), disk.Close(), d.Close()); err != nil {
			t.Fatal(err)
		}
		expect = 1
		if err := c.TryStart(0, 1); err != nil {
			t.Fatal(err)
		}
		c.WaitReady()
	})
	t.Run("after the log was written", func(t *testing.T) {
		t.Parallel()
		c := clustertest.Start(t, 1, clustertest.Options{})
		was := c.Node(0).Cluster()
		c.Stop(0)
		d, err := store.OpenDir(c.Dir(0), "n1")
		if err != nil {
			t.Fatal(err)
		}
		id := d.Identity()
		id.Founding = true
		if err := errors.Join(d.Save(id), d.Close()); err != nil {
			t.Fatal(err)
		}
		if err := c.TryStart(0, 1); err != nil {
			t.Fatal(err)
		}
		c.WaitReady()
		if got := c.Node(0).Cluster(); got != was {
			t.Errorf("cluster %s, was %s", got, was)
		}
	})
}

// cuts are what of gossip is cut off, for all nodes at once.
type cuts struct {
	all     atomic.Bool
	udp     atomic.Bool  // packets alone
	dropped atomic.Int64 // packets
}

// drops says whether a packet gets lost.
func (c *cuts) drops() bool {
	if !c.all.Load() && !c.udp.Load() {
		return false
	}
	c.dropped.Add(1)
	return true
}

// cut is a memberlist transport that can be cut off.
type cut struct {
	memberlist.NodeAwareTransport
	off     *cuts
	packets chan *memberlist.Packet
	streams chan net.Conn
	done    chan struct{} // closed when the shutdown begins
	ended   chan struct{} // and when the transport below has ended
	wg      sync.WaitGroup
}

var errCut = errors.New("cut off")

func newCut(inner memberlist.NodeAwareTransport, off *cuts) *cut {
	c := &cut{NodeAwareTransport: inner, off: off, packets: make(chan *memberlist.Packet), streams: make(chan net.Conn), done: make(chan struct{}), ended: make(chan struct{})}
	c.wg.Go(func() {
		c.pass()
		c.drain()
	})
	return c
}

// pass hands on what comes in, until the shutdown.
func (c *cut) pass() {
	for {
		select {
		case p := <-c.NodeAwareTransport.PacketCh():
			if !c.off.drops() {
				select {
				case c.packets <- p:
				case <-c.done:
				}
			}
		case s := <-c.NodeAwareTransport.StreamCh():
			if c.off.all.Load() {
				s.Close()
				continue
			}
			select {
			case c.streams <- s:
			case <-c.done:
				s.Close()
			}
		case <-c.done:
			return
		}
	}
}

// drain takes what comes in until the transport below has ended: that waits for its listeners, which wait for somebody to take it.
func (c *cut) drain() {
	for {
		select {
		case <-c.NodeAwareTransport.PacketCh():
		case s := <-c.NodeAwareTransport.StreamCh():
			s.Close()
		case <-c.ended:
			return
		}
	}
}

func (c *cut) PacketCh() <-chan *memberlist.Packet { return c.packets }
func (c *cut) StreamCh() <-chan net.Conn           { return c.streams }
func (c *cut) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	if c.off.drops() {
		return time.Now(), nil
	}
	return c.NodeAwareTransport.WriteToAddress(b, a)
}
func (c *cut) DialAddressTimeout(a memberlist.Address, d time.Duration) (net.Conn, error) {
	if c.off.all.Load() {
		return nil, errCut
	}
	return c.NodeAwareTransport.DialAddressTimeout(a, d)
}
func (c *cut) Shutdown() error {
	close(c.done)
	err := c.NodeAwareTransport.Shutdown()
	close(c.ended)
	c.wg.Wait()
	return err
}

// gossips are three nodes whose gossip can be cut and forgets the dead soon.
func gossips(t *testing.T, off *cuts) *clustertest.Cluster {
	t.Helper()
	c := clustertest.Start(t, 3, clustertest.Options{Config: func(i int, k *cluster.Config) {
		steady(i, k)
		cluster.SetGossip(k, func(m *memberlist.Config) {
			inner, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{BindAddrs: []string{m.BindAddr}, BindPort: m.BindPort, Logger: m.Logger})
			if err != nil {
				t.Error(err)
				return
			}
			x := newCut(inner, off)
			m.BindPort, m.AdvertisePort = inner.GetAutoBindPort(), inner.GetAutoBindPort()
			m.Transport = x
			m.ProbeInterval, m.ProbeTimeout, m.GossipInterval, m.GossipToTheDeadTime = 50*time.Millisecond, 25*time.Millisecond, 20*time.Millisecond, 200*time.Millisecond
			m.SuspicionMult = 2
		})
	}})
	c.WaitVoters(3)
	c.Until("gossip to see everybody", everybody(c, 2, (*cluster.Node).AliveByGossip))
	return c
}

// everybody says whether each of three nodes counts so many.
func everybody(c *clustertest.Cluster, want int, count func(*cluster.Node) int) func() bool {
	return func() bool {
		for i := range 3 {
			if count(c.Node(i)) != want {
				return false
			}
		}
		return true
	}
}

// TestGossipHealsAfterALongCut: C15. Gossip alone is cut for longer than memberlist remembers the dead; raft goes on with the
// same voters, and afterwards everybody sees everybody again.
func TestGossipHealsAfterALongCut(t *testing.T) {
	t.Parallel()
	var off cuts
	c := gossips(t, &off)
	leader := c.Leader()
	term := leader.Group(0).Status().Term
	off.all.Store(true)
	c.Until("gossip to see nobody", everybody(c, 0, (*cluster.Node).AliveByGossip))
	c.Until("gossip to have forgotten everybody", everybody(c, 0, (*cluster.Node).KnownByGossip))
	if m := c.WaitVoters(3); len(m.Nodes) != 3 {
		t.Errorf("members %+v", m)
	}
	off.all.Store(false)
	start := time.Now()
	c.Until("gossip to see everybody again", everybody(c, 2, (*cluster.Node).AliveByGossip))
	t.Logf("healed after %v", time.Since(start))
	if s := leader.Group(0).Status(); !s.Leader || s.Term != term {
		t.Errorf("raft was disturbed: %+v, term was %d", s, term)
	}
}

// TestGossipWithoutPackets: C15. No UDP gets through for longer than memberlist remembers the dead: nobody is taken for dead for that, one
// that comes back meanwhile is found, and no voter goes.
func TestGossipWithoutPackets(t *testing.T) {
	t.Parallel()
	var off cuts
	c := gossips(t, &off)
	leader := c.Leader()
	term := leader.Group(0).Status().Term
	off.udp.Store(true)
	// Each node sends one a probe, so that this is some dozens of those, and many times what it takes to be forgotten.
	lost := func(n int64) {
		t.Helper()
		until := off.dropped.Load() + n
		c.Until("packets to be lost", func() bool { return off.dropped.Load() >= until })
	}
	lost(100)
	c.Until("everybody to be seen without packets", everybody(c, 2, (*cluster.Node).AliveByGossip))
	back := (c.Index(leader) + 1) % 3
	c.Kill(back)
	if err := c.TryStart(back, 3); err != nil {
		t.Fatal(err)
	}
	c.Until("the one that comes back to be seen without packets", everybody(c, 2, (*cluster.Node).AliveByGossip))
	lost(100)
	if m := c.WaitVoters(3); len(m.Nodes) != 3 {
		t.Errorf("members %+v", m)
	}
	off.udp.Store(false)
	c.Until("everybody to be seen again", everybody(c, 2, (*cluster.Node).AliveByGossip))
	if s := leader.Group(0).Status(); !s.Leader || s.Term != term {
		t.Errorf("raft was disturbed: %+v, term was %d", s, term)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	c := clustertest.Start(t, 1, clustertest.Options{Config: func(_ int, k *cluster.Config) { k.Registry = reg }})
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		switch {
		case m.GetGauge() != nil:
			got[f.GetName()] = m.GetGauge().GetValue()
		case m.GetHistogram() != nil:
			got[f.GetName()] = float64(m.GetHistogram().GetSampleCount())
		case m.GetCounter() != nil:
			got[f.GetName()] = m.GetCounter().GetValue()
		}
	}
	for _, name := range []string{"quorate_raft_term", "quorate_raft_last_index", "quorate_raft_commit_index", "quorate_raft_applied_index", "quorate_raft_leader", "quorate_raft_voters", "quorate_raft_log_store_bytes", "quorate_disk_free_bytes", "quorate_raft_log_fsync_seconds", "quorate_raft_log_batch_entries", "quorate_raft_log_written_bytes_total", "quorate_ready", "quorate_group_leading"} {
		if got[name] <= 0 {
			t.Errorf("%s is %v, want more than 0", name, got[name])
		}
	}
	c.Stop(0)
	if families, _ := reg.Gather(); len(families) > 0 {
		t.Errorf("%d metrics are left after the stop", len(families))
	}
}

// TestMassRestart: C16, again and again everybody comes back.
func TestMassRestart(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	gossip := map[int]string{}
	c := clustertest.Start(t, 3, clustertest.Options{Config: func(i int, k *cluster.Config) {
		mu.Lock()
		defer mu.Unlock()
		if a := gossip[i]; a != "" {
			k.GossipAddr = a // the node port may change, but somewhere a node must be found
		}
	}})
	for round := range 3 {
		var wg sync.WaitGroup
		for i := range 3 {
			gossip[i] = c.Node(i).GossipAddr()
		}
		for i := range 3 {
			c.Kill(i)
		}
		errs := make(chan error, 3)
		for i := range 3 {
			wg.Go(func() { errs <- c.TryStart(i, 3) })
		}
		wg.Wait()
		for range 3 {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		c.WaitReady()
		c.Until(fmt.Sprintf("gossip to see everybody in round %d", round), func() bool {
			for i := range 3 {
				if c.Node(i).AliveByGossip() != 2 {
					return false
				}
			}
			return true
		})
	}
}
